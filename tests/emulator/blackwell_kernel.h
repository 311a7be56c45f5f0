// Kernels of one warp group with tensor memory, for tests: what stands before and behind the
// instructions under test.
// Depends on: tests/cuda/silicon/kernel_case.h (texts), execution_harness.h, kernel_map.h.
// Used by: execution_tensor_*_test.cc.
#pragma once

#include <string>
#include <vector>

#include "tests/cuda/silicon/kernel_case.h"
#include "tests/emulator/execution_harness.h"
#include "tests/emulator/kernel_map.h"

namespace flamia::emulator::blackwell {

using silicon::copy_in;
using silicon::copy_out;
using silicon::number;
using silicon::vector_of;
using silicon::wait_phase;

inline constexpr uint32_t kData = 1024;  ///< shared offset of operands; before it: barriers

/// A kernel for sm_100a or sm_103a.
inline std::string kernel_text(const std::string& body, bool sm103 = false) {
  std::string text = silicon::entry(body);
  const std::string old = ".target sm_90a";
  return text.replace(text.find(old), old.size(), sm103 ? ".target sm_103a" : ".target sm_100a");
}

/// %r20: tensor memory of `columns` columns; %r21: the same at the lanes of the warp; %r19: warp.
/// Barriers of one arrival at pool + 0 and pool + 8.
inline std::string open_memory(uint32_t columns, const std::string& group = "1") {
  return "  shr.u32 %r19, %r0, 5;\n  setp.ne.u32 %p10, %r19, 0;\n  @%p10 bra ALLOCATED;\n"
         "  tcgen05.alloc.cta_group::" +
         group + ".sync.aligned.shared::cta.b32 [%r399+16], " + number(columns) +
         ";\n  tcgen05.relinquish_alloc_permit.cta_group::" + group +
         ".sync.aligned;\nALLOCATED:\n  setp.ne.u32 %p11, %r0, 0;\n  @%p11 bra MADE;\n"
         "  mbarrier.init.shared::cta.b64 [%r399], 1;\n"
         "  mbarrier.init.shared::cta.b64 [%r399+8], 1;\n"
         "  fence.mbarrier_init.release.cluster;\nMADE:\n"
         "  tcgen05.fence::before_thread_sync;\n  bar.sync 0;\n"
         "  tcgen05.fence::after_thread_sync;\n  ld.shared.u32 %r20, [%r399+16];\n"
         "  shl.b32 %r21, %r19, 21;\n  add.u32 %r21, %r21, %r20;\n";
}

inline std::string close_memory(uint32_t columns, const std::string& group = "1") {
  return "  tcgen05.fence::before_thread_sync;\n  bar.sync 0;\n  @%p10 bra FREED;\n"
         "  tcgen05.dealloc.cta_group::" +
         group + ".sync.aligned.b32 %r20, " + number(columns) + ";\nFREED:\n";
}

/// Every lane l of all four warps gets value l * 1000 + c in columns 0 to columns - 1.
inline std::string fill_memory(uint32_t columns) {
  std::string text = "  mul.lo.u32 %r22, %r0, 1000;\n";
  for (uint32_t c = 0; c < columns; ++c) {
    text += "  add.u32 %r" + number(200 + c) + ", %r22, " + number(c) + ";\n";
  }
  return text + "  tcgen05.st.sync.aligned.32x32b.x" + number(columns) + ".b32 [%r21], " +
         vector_of("%r", 200, columns) + ";\n  tcgen05.wait::st.sync.aligned;\n";
}

/// Stores %r(first) .. of every thread to out[thread][count]; CTAs one after another.
inline std::string store_registers(uint32_t first, uint32_t count) {
  std::string text =
      "  mov.u32 %r30, %ctaid.x;\n  mov.u32 %r31, %ntid.x;\n  mad.lo.u32 %r30, %r30, %r31, %r0;\n"
      "  mul.wide.u32 %d30, %r30, " +
      number(4 * count) + ";\n  add.u64 %d30, %d30, %d1;\n";
  for (uint32_t i = 0; i < count; ++i) {
    text += "  st.global.u32 [%d30+" + number(4 * i) + "], %r" + number(first + i) + ";\n";
  }
  return text;
}

/// Loads `columns` columns of every lane and stores them.
inline std::string dump_memory(uint32_t columns) {
  return "  tcgen05.ld.sync.aligned.32x32b.x" + number(columns) + ".b32 " +
         vector_of("%r", 200, columns) + ", [%r21];\n  tcgen05.wait::ld.sync.aligned;\n" +
         store_registers(200, columns);
}

/// Everybody may now use what others did to tensor memory.
inline std::string exchange() {
  return "  tcgen05.fence::before_thread_sync;\n  bar.sync 0;\n"
         "  tcgen05.fence::after_thread_sync;\n";
}

/// %d(to) = `high` | (pool + offset) >> 4: a matrix descriptor.
inline std::string descriptor(uint32_t to, uint32_t offset, uint64_t high) {
  return "  add.u32 %r32, %r399, " + number(offset) +
         ";\n  shr.u32 %r32, %r32, 4;\n  cvt.u64.u32 %d" + number(to) + ", %r32;\n  or.b64 %d" +
         number(to) + ", %d" + number(to) + ", " + number(static_cast<int64_t>(high)) + ";\n";
}
/// The 128-byte swizzle of K-major tiles whose groups of eight rows are contiguous.
inline constexpr uint64_t kSwizzled =
    uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 46 | uint64_t{2} << 61;
/// No swizzle: rows of 16 bytes, groups of eight contiguous, the next 16 bytes of K 8 KiB further.
inline constexpr uint64_t kPlainRows =
    uint64_t{8192 >> 4} << 16 | uint64_t{128 >> 4} << 32 | uint64_t{1} << 46;

struct Launch {
  uint32_t ctas = 1;
  uint32_t cluster = 1;
  uint32_t shared_bytes = 73728;
  bool sm103 = false;
  std::vector<silicon::MapSpec> maps;
};

/// Runs the text under every adversary; the outputs must agree. Empty: it trapped.
inline std::vector<uint32_t> run(const std::string& text, const std::vector<uint32_t>& in,
                                 size_t out_words, const Launch& launch = {}) {
  std::vector<uint32_t> first;
  for (const Adversary adversary : {Adversary::kLate, Adversary::kEarly, Adversary::kRandom}) {
    MachineOptions options;
    options.chip = launch.sm103 ? Chip::kB300 : Chip::kB200;
    options.adversary = adversary;
    options.seed = 5;
    Machine machine(options);
    machine.load(text);
    const uint64_t source = machine.upload(in);
    const uint64_t out = machine.upload(std::vector<uint32_t>(out_words, 0));
    machine.request.cluster = {launch.cluster, 1, 1};
    machine.request.dynamic_shared_bytes = launch.shared_bytes;
    KernelMap maps[2]{};
    for (size_t i = 0; i < launch.maps.size(); ++i) {
      maps[i] = encode(launch.maps[i], source, out, true);
    }
    const Status status =
        machine.launch("k", {launch.ctas, 1, 1}, {128, 1, 1}, source, out, maps[0], maps[1]);
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) return {};
    const auto result = machine.download<uint32_t>(out, out_words);
    if (first.empty()) first = result;
    EXPECT_EQ(first, result);
  }
  return first;
}

}  // namespace flamia::emulator::blackwell
