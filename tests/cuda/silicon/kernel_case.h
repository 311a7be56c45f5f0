// One case of the comparison with silicon: PTX text, its launch and its memory, the same for a GPU
// and for the virtual one; and the pieces that the texts are put together from.
// Depends on: std, philox. Used by: kernel_*_cases.h, silicon_kernels.cc, kernels_silicon_test.cc.
// Inputs are functions of a seed. Every kernel has one entry k(in, out, map0, map1).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/philox.h"

namespace flamia::silicon {

/// The arguments of cuTensorMapEncodeTiled. The tensor lies in the input, or in the output.
struct MapSpec {
  uint32_t type = 0;
  uint32_t rank = 1;
  bool of_output = false;
  uint32_t offset_bytes = 0;
  uint64_t dims[5] = {1, 1, 1, 1, 1};
  uint64_t strides[4] = {};
  uint32_t box[5] = {1, 1, 1, 1, 1};
  uint32_t element_strides[5] = {1, 1, 1, 1, 1};
  uint32_t swizzle = 0;
  bool nan_fill = false;
};

struct KernelCase {
  std::string name;
  std::string text;
  std::string entry = "k";
  uint32_t threads = 32;
  uint32_t ctas = 1;
  uint32_t cluster = 1;
  uint32_t shared_bytes = 0;
  std::vector<uint32_t> in;
  std::vector<uint32_t> out;  ///< before the launch
  std::vector<MapSpec> maps;
};

inline std::string number(int64_t value) { return std::to_string(value); }

inline std::vector<uint32_t> random_words(uint64_t seed, size_t count) {
  std::vector<uint32_t> words(count);
  for (size_t i = 0; i < count; ++i) words[i] = philox(31, seed, i / 4).word[i % 4];
  return words;
}

/// A seed from a name.
inline uint64_t seed_of(const std::string& name) {
  uint64_t hash = 14695981039346656037u;
  for (const char letter : name) hash = (hash ^ static_cast<uint8_t>(letter)) * 1099511628211u;
  return hash;
}

/// %r0: thread in the CTA; %d0, %d1: in and out; %r399: pool, the dynamic shared memory.
inline std::string entry(const std::string& body, const std::string& limits = {}) {
  return R"(.version 9.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 pool[];
.visible .entry k(.param .u64 in, .param .u64 out, .param .align 64 .b8 map0[128],
                  .param .align 64 .b8 map1[128])
)" + limits +
         R"({
  .reg .pred %p<40>; .reg .b16 %h<40>; .reg .b32 %r<400>; .reg .b64 %d<80>; .reg .f32 %f<8>;
  .reg .b128 %q<4>;
  ld.param.u64 %d0, [in];
  ld.param.u64 %d1, [out];
  cvta.to.global.u64 %d0, %d0;
  cvta.to.global.u64 %d1, %d1;
  mov.u32 %r0, %tid.x;
  mov.u32 %r399, pool;
)" + body +
         "  ret;\n}\n";
}

/// Labels differ by `id`. words of the input from in_word on, to shared memory, by all threads.
inline std::string copy_in(int id, uint32_t shared_offset, uint32_t in_word, uint32_t words) {
  const std::string n = number(id);
  return "  mov.u32 %r390, %tid.x;\nCI" + n + ":\n  setp.ge.u32 %p39, %r390, " + number(words) +
         ";\n  @%p39 bra CE" + n +
         ";\n  mul.wide.u32 %d79, %r390, 4;\n  add.u64 %d79, %d79, %d0;\n  ld.global.u32 %r391, "
         "[%d79+" +
         number(int64_t{in_word} * 4) +
         "];\n  shl.b32 %r392, %r390, 2;\n  add.u32 %r392, %r392, %r399;\n  st.shared.u32 [%r392+" +
         number(shared_offset) +
         "], %r391;\n  mov.u32 %r393, %ntid.x;\n  add.u32 %r390, %r390, %r393;\n  bra CI" + n +
         ";\nCE" + n + ":\n";
}

/// Shared memory to the output; every CTA of a grid has `words` words of its own from out_word on.
inline std::string copy_out(int id, uint32_t shared_offset, uint32_t out_word, uint32_t words) {
  const std::string n = number(id);
  return "  mov.u32 %r390, %tid.x;\n  mov.u32 %r394, %ctaid.x;\n  mul.lo.u32 %r394, %r394, " +
         number(words) + ";\nOI" + n + ":\n  setp.ge.u32 %p39, %r390, " + number(words) +
         ";\n  @%p39 bra OE" + n +
         ";\n  shl.b32 %r392, %r390, 2;\n  add.u32 %r392, %r392, %r399;\n  ld.shared.u32 %r391, "
         "[%r392+" +
         number(shared_offset) +
         "];\n  add.u32 %r395, %r390, %r394;\n  mul.wide.u32 %d79, %r395, 4;\n  add.u64 %d79, "
         "%d79, "
         "%d1;\n  st.global.u32 [%d79+" +
         number(int64_t{out_word} * 4) +
         "], %r391;\n  mov.u32 %r393, %ntid.x;\n  add.u32 %r390, %r390, %r393;\n  bra OI" + n +
         ";\nOE" + n + ":\n";
}

/// A pattern in shared memory: word i is 0xa5000000 + i.
inline std::string fill(int id, uint32_t shared_offset, uint32_t words) {
  const std::string n = number(id);
  return "  mov.u32 %r390, %tid.x;\nFI" + n + ":\n  setp.ge.u32 %p39, %r390, " + number(words) +
         ";\n  @%p39 bra FE" + n +
         ";\n  add.u32 %r391, %r390, 0xa5000000;\n  shl.b32 %r392, %r390, 2;\n  add.u32 %r392, "
         "%r392, %r399;\n  st.shared.u32 [%r392+" +
         number(shared_offset) +
         "], %r391;\n  mov.u32 %r393, %ntid.x;\n  add.u32 %r390, %r390, %r393;\n  bra FI" + n +
         ";\nFE" + n + ":\n";
}

/// Waits for a phase of the barrier at an address register, for a bounded time: a wrong count must
/// not hang a GPU. %p38: the phase is complete.
inline std::string wait_phase(int id, const std::string& address, const std::string& parity) {
  const std::string n = number(id);
  return "  mov.u32 %r389, 0;\nWA" + n + ":\n  mbarrier.try_wait.parity.shared::cta.b64 %p38, [" +
         address + "], " + parity + ";\n  @%p38 bra WE" + n +
         ";\n  add.u32 %r389, %r389, 1;\n  setp.lt.u32 %p37, %r389, 100000;\n  @%p37 bra WA" + n +
         ";\nWE" + n + ":\n";
}

/// The body runs `count` times for every lane of one warp: inputs in %r1.., outputs from %r101 on,
/// which are zero before.
inline std::string rounds(uint32_t inputs, uint32_t outputs, uint32_t count,
                          const std::string& body) {
  std::string text =
      "  mul.wide.u32 %d2, %r0, 4;\n  add.u64 %d3, %d2, %d1;\n  add.u64 %d2, %d2, %d0;\n"
      "  mov.u32 %r300, 0;\nROUND:\n";
  for (uint32_t i = 0; i < inputs; ++i) {
    text += "  ld.global.u32 %r" + number(1 + i) + ", [%d2+" + number(128 * i) + "];\n";
  }
  for (uint32_t i = 0; i < outputs; ++i) text += "  mov.u32 %r" + number(101 + i) + ", 0;\n";
  text += body;
  for (uint32_t i = 0; i < outputs; ++i) {
    text += "  st.global.u32 [%d3+" + number(128 * i) + "], %r" + number(101 + i) + ";\n";
  }
  return entry(text + "  add.u64 %d2, %d2, " + number(128 * inputs) + ";\n  add.u64 %d3, %d3, " +
               number(128 * outputs) +
               ";\n  add.u32 %r300, %r300, 1;\n  setp.lt.u32 %p39, %r300, " + number(count) +
               ";\n  @%p39 bra ROUND;\n");
}

/// {%r1, %r2, ...}
inline std::string vector_of(const std::string& prefix, uint32_t first, uint32_t count) {
  std::string text = "{";
  for (uint32_t i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ", ") + prefix + number(first + i);
  }
  return text + "}";
}

}  // namespace flamia::silicon
