// Cases of wgmma as kernels: every type pair, A from shared memory and from registers, all
// swizzles, both major-nesses of 16-bit types, negation, scale-d.
// Depends on: kernel_warp_cases.h (codes). Used by: kernel_cases.h.
// Shared memory is filled with codes as a whole; a descriptor then says what they mean, so that
// the layout itself is under test.
#pragma once

#include "tests/cuda/silicon/kernel_warp_cases.h"

namespace flamia::silicon {

struct WgmmaForm {
  const char* name;
  const char* a;
  const char* b;
  CodeType type;  ///< of the codes; the other one of a mixed pair reads the same bits
  uint32_t k;
  bool half;
};
inline constexpr WgmmaForm kWgmmaForms[] = {
    {"f32_e4m3_e4m3", "e4m3", "e4m3", kCodeE4m3, 32, false},
    {"f32_e4m3_e5m2", "e4m3", "e5m2", kCodeE5m2, 32, false},
    {"f32_e5m2_e4m3", "e5m2", "e4m3", kCodeE4m3, 32, false},
    {"f32_e5m2_e5m2", "e5m2", "e5m2", kCodeE5m2, 32, false},
    {"f32_f16_f16", "f16", "f16", kCodeF16, 16, false},
    {"f32_bf16_bf16", "bf16", "bf16", kCodeBf16, 16, false},
    {"f32_tf32_tf32", "tf32", "tf32", kCodeTf32, 8, false},
    {"f16_e4m3_e4m3", "e4m3", "e4m3", kCodeE4m3, 32, true},
    {"f16_e4m3_e5m2", "e4m3", "e5m2", kCodeE5m2, 32, true},
    {"f16_e5m2_e5m2", "e5m2", "e5m2", kCodeE5m2, 32, true},
    {"f16_f16_f16", "f16", "f16", kCodeF16, 16, true},
};

struct WgmmaVariant {
  uint32_t n = 64;
  uint32_t span = 128;  ///< bytes of the swizzle: 16 none, 32, 64, 128
  bool registers = false;
  bool negate_a = false, negate_b = false;
  bool mn_a = false, mn_b = false;
  bool fresh = false;  ///< the first instruction does not read D
  uint32_t tile = 0;
  uint32_t shift = 0;  ///< bytes from a start that is aligned to the swizzle
};

inline constexpr uint32_t kWgmmaSteps = 4;
inline constexpr uint32_t kWgmmaB = 16384;       ///< offset of B in shared memory
inline constexpr uint32_t kWgmmaShared = 65536;  ///< bytes, all of them codes

/// Offset of step s in an operand of `rows` rows (or columns), its LBO and its SBO.
struct OperandPlace {
  uint32_t leading, stride, step_offset;
};
inline OperandPlace operand_place(uint32_t span, bool mn_major, uint32_t rows, uint32_t step) {
  if (mn_major) {
    // Units of 8 K-rows of `span` bytes; a step has two of them for every span of MN.
    const uint32_t unit = 8 * span, units = rows * 2 / span;
    return {span == 16 ? unit * 2 : 2 * unit, unit, step * 2 * unit * (units == 0 ? 1 : units)};
  }
  if (span == 16) return {128, 256, step * rows * 32};
  const uint32_t inside = span / 32;
  return {16, 8 * span, step % inside * 32 + step / inside * rows * span};
}

inline uint64_t descriptor_bits(uint32_t span, const OperandPlace& place) {
  const uint64_t mode = span == 128 ? 1 : (span == 64 ? 2 : (span == 32 ? 3 : 0));
  return uint64_t{place.leading / 16} << 16 | uint64_t{place.stride / 16} << 32 | mode << 62;
}

/// %dto: the descriptor of an operand at a shared offset.
inline std::string make_descriptor(uint32_t to, uint32_t offset, uint32_t span,
                                   const OperandPlace& place) {
  return "  add.u32 %r380, %r399, " + number(offset + place.step_offset) +
         ";\n  shr.u32 %r380, %r380, 4;\n  cvt.u64.u32 %d" + number(to) + ", %r380;\n  or.b64 %d" +
         number(to) + ", %d" + number(to) + ", " +
         number(static_cast<int64_t>(descriptor_bits(span, place))) + ";\n";
}

inline KernelCase wgmma_case(const WgmmaForm& f, const WgmmaVariant& v) {
  KernelCase c;
  const uint32_t d = f.half ? v.n / 4 : v.n / 2;
  c.name = std::string("wgmma.") + f.name + ".n" + number(v.n) + ".span" + number(v.span) +
           (v.registers ? ".rs" : ".ss") + (v.negate_a ? ".na" : "") + (v.negate_b ? ".nb" : "") +
           (v.mn_a ? ".ta" : "") + (v.mn_b ? ".tb" : "") + (v.fresh ? ".fresh" : "") +
           (v.shift != 0 ? ".shift" + number(v.shift) : "");
  c.threads = 128;
  c.shared_bytes = kWgmmaShared;
  c.in = code_words(f.type, v.tile, 0, kWgmmaShared / 4);
  for (uint32_t i = 0; i < 128 * d; ++i) {
    c.in.push_back(start_word(f.half, v.tile, i / 128, i % 128));
  }
  c.out.assign(128 * d, 0);
  std::string text = copy_in(0, 0, 0, kWgmmaShared / 4) +
                     "  fence.proxy.async.shared::cta;\n  bar.sync 0;\n  mul.wide.u32 %d2, %r0, "
                     "4;\n  add.u64 %d3, %d2, %d1;\n  add.u64 %d2, %d2, %d0;\n";
  const std::string type = f.half ? "f16" : "f32", kind = f.half ? "r" : "e";
  if (!f.half) text += "  .reg .f32 %e<128>;\n";
  for (uint32_t i = 0; i < d; ++i) {
    text += "  ld.global." + std::string(f.half ? "b32" : "f32") + " %" + kind +
            number(i + (f.half ? 1 : 0)) + ", [%d2+" + number(kWgmmaShared + 512 * i) + "];\n";
  }
  if (v.registers) {
    for (uint32_t i = 0; i < 4 * kWgmmaSteps; ++i) {
      text += "  ld.global.b32 %r" + number(200 + i) + ", [%d2+" + number(512 * i) + "];\n";
    }
  }
  text += "  setp.ne.u32 %p1, %r0, " + std::string(v.fresh ? "%r0" : "1000") +
          ";\n  setp.eq.u32 %p2, %r0, %r0;\n";
  for (uint32_t s = 0; s < kWgmmaSteps; ++s) {
    if (!v.registers) {
      text += make_descriptor(10 + s, v.shift, v.span, operand_place(v.span, v.mn_a, 64, s));
    }
    text +=
        make_descriptor(20 + s, kWgmmaB + v.shift, v.span, operand_place(v.span, v.mn_b, v.n, s));
  }
  text += "  wgmma.fence.sync.aligned;\n";
  const bool wide = f.type.bits == 16;
  for (uint32_t s = 0; s < kWgmmaSteps; ++s) {
    text += "  wgmma.mma_async.sync.aligned.m64n" + number(v.n) + "k" + number(f.k) + "." + type +
            "." + f.a + "." + f.b + " " + vector_of("%" + kind, f.half ? 1 : 0, d) + ", " +
            (v.registers ? vector_of("%r", 200 + 4 * s, 4) : "%d" + number(10 + s)) + ", %d" +
            number(20 + s) + ", " + (s == 0 ? "%p1" : "%p2") + ", " + (v.negate_a ? "-1" : "1") +
            ", " + (v.negate_b ? "-1" : "1");
    if (wide && !v.registers) text += v.mn_a ? ", 1" : ", 0";
    if (wide) text += v.mn_b ? ", 1" : ", 0";
    text += ";\n";
  }
  text += "  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n";
  for (uint32_t i = 0; i < d; ++i) {
    text += "  st.global." + std::string(f.half ? "b32" : "f32") + " [%d3+" + number(512 * i) +
            "], %" + kind + number(i + (f.half ? 1 : 0)) + ";\n";
  }
  c.text = entry(text, ".maxntid 128, 1, 1\n");
  return c;
}

inline void add_wgmma(std::vector<KernelCase>* cases) {
  constexpr uint32_t kSpans[] = {128, 64, 32, 16}, kColumns[] = {8, 40, 128, 256};
  uint32_t turn = 0;
  for (const WgmmaForm& f : kWgmmaForms) {
    for (uint32_t i = 0; i < 4; ++i) {
      for (const bool registers : {false, true}) {
        WgmmaVariant v;
        v.n = kColumns[i];
        v.span = kSpans[(i + turn) % 4];
        v.registers = registers;
        v.negate_a = turn % 5 == 3;
        v.negate_b = turn % 7 == 2;
        v.fresh = turn % 3 == 1;
        v.tile = turn++;
        cases->push_back(wgmma_case(f, v));
      }
    }
  }
  // 16-bit types: MN-major operands, of columns that are whole spans of every swizzle.
  for (const WgmmaForm& f : kWgmmaForms) {
    if (f.type.bits != 16) continue;
    for (const uint32_t span : kSpans) {
      for (uint32_t which = 1; which < 4; ++which) {
        WgmmaVariant v;
        v.n = which == 2 ? 192 : 64;
        v.span = span;
        v.mn_a = (which & 1u) != 0;
        v.mn_b = (which & 2u) != 0;
        v.registers = which == 2 && span == 64;
        v.tile = 4 * turn++ + 3;
        cases->push_back(wgmma_case(f, v));
      }
    }
  }
  // Starts in the middle of a pattern, with a base offset of zero.
  for (const uint32_t span : kSpans) {
    for (const uint32_t shift : {16u, 144u, 416u, 896u}) {
      WgmmaVariant v;
      v.n = 40;
      v.span = span;
      v.shift = shift;
      v.tile = 4 * turn++ + 3;
      cases->push_back(wgmma_case(kWgmmaForms[0], v));
      v.n = 64;
      v.mn_a = v.mn_b = true;
      cases->push_back(wgmma_case(kWgmmaForms[5], v));
    }
  }
}

}  // namespace flamia::silicon
