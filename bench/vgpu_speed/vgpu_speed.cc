// How fast the virtual GPU interprets each family of instructions: lane-instructions a second of
// one core, checks on. Usage: vgpu_speed [PART OF A FORM'S NAME [SECONDS PER FORM]]
// Depends on: emulator/emulator.h, forms.h. docs/virtual-gpu.md has the figures.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>

#include "bench/vgpu_speed/forms.h"
#include "emulator/emulator.h"

namespace flamia::vgpu_speed {
namespace {

using namespace emulator;

constexpr uint32_t kThreads = 128;

/// Registers that forms read: %f1 to %f3 numbers near one, %r1 to %r3 f16x2, %r4 to %r6 bf16x2,
/// %h1 to %h3 f16, %h4 to %h6 bf16, %d1 to %d3 f32x2, %h7 e4m3x2, %r7 to %r9 integers, %r10 the
/// thread's 64 bytes of shared memory, %d10 those of global memory, %r15 and %d12 16 bytes, %r11 a
/// completed mbarrier, %r12 tensor memory. Forms write %f20, %r20, %h20, %d20, %p1 and up.
constexpr const char* kHead = R"(.version 9.0
.target sm_100a
.address_size 64
.shared .align 128 .b8 pool[8192];
.shared .align 8 .b64 barrier[2];
.visible .entry k(.param .u64 out, .param .u32 turns)
{
  .reg .pred %p<8>; .reg .b16 %h<32>; .reg .b32 %r<128>; .reg .f32 %f<32>; .reg .b64 %d<32>;
  .reg .f64 %e<8>; .reg .b128 %q<2>;
  mov.u32 %r0, %tid.x;
  cvt.rn.f32.u32 %f0, %r0;
  fma.rn.f32 %f1, %f0, 0f3c800000, 0fbf800001;
  fma.rn.f32 %f2, %f1, 0fbe99999a, 0f3f666666;
  fma.rn.f32 %f3, %f1, 0f3ff33333, 0f3e99999a;
  fma.rn.f32 %f4, %f2, %f2, 0f3e99999a;
  cvt.rn.f16x2.f32 %r1, %f1, %f2; cvt.rn.f16x2.f32 %r2, %f2, %f3; cvt.rn.f16x2.f32 %r3, %f3, %f1;
  cvt.rn.bf16x2.f32 %r4, %f1, %f2; cvt.rn.bf16x2.f32 %r5, %f2, %f3;
  cvt.rn.bf16x2.f32 %r6, %f3, %f1;
  cvt.rn.f16.f32 %h1, %f1; cvt.rn.f16.f32 %h2, %f2; cvt.rn.f16.f32 %h3, %f3;
  cvt.rn.bf16.f32 %h4, %f1; cvt.rn.bf16.f32 %h5, %f2; cvt.rn.bf16.f32 %h6, %f3;
  mov.b64 %d1, {%f1, %f2}; mov.b64 %d2, {%f2, %f3}; mov.b64 %d3, {%f3, %f1};
  cvt.f64.f32 %e1, %f1; cvt.f64.f32 %e2, %f2; cvt.f64.f32 %e3, %f3;
  cvt.rn.satfinite.e4m3x2.f32 %h7, %f1, %f2;
  mad.lo.u32 %r7, %r0, 747796405, 1277803737;
  mad.lo.u32 %r8, %r7, 747796405, 1277803737;
  mad.lo.u32 %r9, %r8, 747796405, 1277803737;
  cvt.u64.u32 %d7, %r7; cvt.u64.u32 %d8, %r8; mul.lo.u64 %d7, %d7, %d8;
  mov.u32 %r10, pool; mad.lo.u32 %r10, %r0, 64, %r10;
  st.shared.v4.b32 [%r10], {%r7, %r8, %r9, %r0}; st.shared.v4.b32 [%r10+16], {%r7, %r8, %r9, %r0};
  st.shared.v4.b32 [%r10+32], {%r7, %r8, %r9, %r0};
  st.shared.v4.b32 [%r10+48], {%r7, %r8, %r9, %r0};
  ld.param.u64 %d10, [out];
  mul.wide.u32 %d9, %r0, 64; add.u64 %d10, %d10, %d9;
  st.global.v4.b32 [%d10], {%r7, %r8, %r9, %r0};
  mov.u32 %r15, pool; mad.lo.u32 %r15, %r0, 16, %r15; ld.param.u64 %d12, [out];
  mul.wide.u32 %d9, %r0, 16; add.u64 %d12, %d12, %d9; bar.sync 0;
  st.shared.v4.b32 [%r15], {%r7, %r8, %r9, %r0}; st.global.v4.b32 [%d12], {%r7, %r8, %r9, %r0};
  bar.sync 0;
  mov.u32 %r11, barrier;
  setp.ne.u32 %p7, %r0, 0;
  @%p7 bra MADE;
  mbarrier.init.shared::cta.b64 [%r11], 1;
  mbarrier.arrive.shared::cta.b64 %d11, [%r11];
MADE:
)";
constexpr const char* kTensorHead = R"(
  shr.u32 %r13, %r0, 5; setp.ne.u32 %p6, %r13, 0;
  @%p6 bra ALLOCATED;
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r11+8], 32;
ALLOCATED:
  tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
  ld.shared.u32 %r14, [%r11+8];
  shl.b32 %r12, %r13, 21; add.u32 %r12, %r12, %r14;
)";
constexpr const char* kTensorTail = R"(
  tcgen05.fence::before_thread_sync; bar.sync 0;
  @%p6 bra FREED;
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r14, 32;
FREED:
)";

std::string list_of_registers(uint32_t first, uint32_t count) {
  std::string text = "{";
  for (uint32_t i = 0; i < count; ++i) {
    text += (i == 0 ? "%r" : ", %r") + std::to_string(first + i);
  }
  return text + "}";
}

std::string kernel_of(const Form& form) {
  std::string text = kHead, body = form.text;
  const bool tensor = body.find("tcgen05") != std::string::npos;
  const std::string many = "LIST32";
  if (const size_t place = body.find(many); place != std::string::npos) {
    body.replace(place, many.size(), list_of_registers(64, 32));
  }
  if (tensor) {
    text += kTensorHead;
    text += "tcgen05.st.sync.aligned.32x32b.x32.b32 [%r12], " + [] {
      std::string values = "{%r7";
      for (int i = 1; i < 32; ++i) values += ", %r7";
      return values + "}; tcgen05.wait::st.sync.aligned;\n";
    }();
  }
  text += "  bar.sync 0;\n  ld.param.u32 %r30, [turns];\nAGAIN:\n";
  for (uint32_t i = 0; i < kCopies; ++i) text += "  " + body + "\n";
  text += "  sub.u32 %r30, %r30, 1;\n  setp.ne.u32 %p7, %r30, 0;\n  @%p7 bra AGAIN;\n";
  if (tensor) text += kTensorTail;
  return text + "  ret;\n}\n";
}

struct Run {
  uint64_t lane_instructions = 0;
  double seconds = 0;
  std::string error;
};

Run run(const Form& form, uint32_t turns) {
  MachineOptions options;
  options.chip = Chip::kB200;
  Emulator machine(options);
  std::unique_ptr<LoadedModule> module;
  Status status = machine.load(kernel_of(form), &module);
  uint64_t out = 0;
  if (status.ok()) status = machine.memory().allocate(uint64_t{64} * kThreads, "out", &out);
  if (!status.ok()) return {0, 0, status.message()};
  GridRequest request;
  request.module = module.get();
  request.function = module->module.find_function("k");
  request.block = {kThreads, 1, 1};
  request.parameters.resize(12);
  for (size_t i = 0; i < 8; ++i) request.parameters[i] = static_cast<uint8_t>(out >> (8 * i));
  for (size_t i = 0; i < 4; ++i) request.parameters[8 + i] = static_cast<uint8_t>(turns >> (8 * i));
  GridReport report;
  // Time of the processor, so that other programs on the machine do not count.
  const std::clock_t start = std::clock();
  status = machine.run(request, &report);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  if (!status.ok()) return {0, 0, status.message()};
  return {report.lane_instructions, seconds + 1e-6, ""};
}

int measure(const std::string& part, double seconds) {
  int failures = 0;
  for (const Form& form : kForms) {
    if (std::string(form.name).find(part) == std::string::npos) continue;
    Run best;
    uint32_t turns = 40;
    for (int round = 0; round < 3 && best.error.empty(); ++round) {
      const Run one = run(form, turns);
      if (!one.error.empty()) {
        best.error = one.error;
      } else if (best.seconds == 0 ||
                 static_cast<double>(one.lane_instructions) / one.seconds >
                     static_cast<double>(best.lane_instructions) / best.seconds) {
        best = one;
      }
      // The first, short run says how many turns fill the time.
      if (round == 0 && best.error.empty()) {
        turns = static_cast<uint32_t>(seconds / 2 / (one.seconds + 1e-4) * turns) + 1;
      }
    }
    if (!best.error.empty()) {
      ++failures;
      std::fprintf(stderr, "%s: %s\n", form.name, best.error.c_str());
      continue;
    }
    std::printf("%-34s %8.1f\n", form.name,
                static_cast<double>(best.lane_instructions) / best.seconds / 1e6);
    std::fflush(stdout);
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace flamia::vgpu_speed

int main(int count, char** arguments) {
  const std::string part = count > 1 ? arguments[1] : "";
  const double seconds = count > 2 ? std::atof(arguments[2]) : 0.2;
  return flamia::vgpu_speed::measure(part, seconds);
}
