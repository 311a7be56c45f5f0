// Cases of instructions of one warp: shuffles, votes, matches, reductions, matrix loads and stores,
// mma.sync. Depends on: kernel_case.h, wgmma_inputs.h. Used by: kernel_cases.h.
#pragma once

#include "tests/cuda/silicon/kernel_case.h"
#include "tests/cuda/silicon/wgmma_inputs.h"

namespace flamia::silicon {

inline constexpr uint32_t kWarpRounds = 16;

inline KernelCase warp_case(const std::string& name, uint32_t inputs, uint32_t outputs,
                            const std::string& body) {
  KernelCase c;
  c.name = name;
  c.text = rounds(inputs, outputs, kWarpRounds, body);
  c.in = random_words(seed_of(name), 32 * inputs * kWarpRounds);
  c.out.assign(32 * outputs * kWarpRounds, 0);
  return c;
}

/// Only the lanes of the mask run the body.
inline std::string masked(uint32_t mask, const std::string& body) {
  if (mask == 0xffffffffu) return body;
  return "  shr.u32 %r310, " + number(mask) +
         ", %r0;\n  and.b32 %r310, %r310, 1;\n  setp.eq.u32 %p36, %r310, 0;\n  @%p36 bra "
         "OUTSIDE;\n" +
         body + "OUTSIDE:\n";
}

/// Shuffles that read lanes of their mask alone: what others give is undefined.
inline void add_shuffles(std::vector<KernelCase>* cases) {
  const struct {
    uint32_t mask;
    const char* operands;  ///< %r2: lane operand, %r3: clamp and segment
  } forms[] = {
      {0xffffffffu, "  and.b32 %r3, %r3, 0x1f1f;\n"},
      {0x0000ffffu,
       "  and.b32 %r2, %r2, 15;\n  and.b32 %r3, %r3, 0x0f0f;\n  or.b32 %r3, %r3, 0x1000;\n"},
      {0xffff0000u,
       "  and.b32 %r2, %r2, 15;\n  and.b32 %r3, %r3, 0x0f0f;\n  or.b32 %r3, %r3, 0x1010;\n"},
      {0x55555555u, "  and.b32 %r3, %r3, 0x1f1f;\n  and.b32 %r2, %r2, 0x1e;\n"},
  };
  for (const char* mode : {"up", "down", "bfly", "idx"}) {
    for (const auto& form : forms) {
      const std::string body = std::string(form.operands) + "  shfl.sync." + mode +
                               ".b32 %r101|%p1, %r1, %r2, %r3, " + number(form.mask) +
                               ";\n  selp.u32 %r102, 1, 2, %p1;\n";
      cases->push_back(warp_case(std::string("shfl.") + mode + "." + number(form.mask), 3, 2,
                                 masked(form.mask, body)));
    }
  }
}

inline void add_votes(std::vector<KernelCase>* cases) {
  for (const uint32_t mask : {0xffffffffu, 0x0000ffffu, 0x80000001u, 0x5aa5c33cu}) {
    const std::string m = number(mask), dot = "." + m;
    const auto add = [&](const std::string& name, uint32_t in, uint32_t out,
                         const std::string& body) {
      cases->push_back(warp_case(name + dot, in, out, masked(mask, body)));
    };
    // A predicate that is sometimes the same in all lanes: round 0 and 1 of 4.
    add("vote", 1, 4,
        "  and.b32 %r20, %r300, 3;\n  setp.eq.u32 %p2, %r20, 0;\n  setp.gt.u32 %p3, %r20, 1;\n"
        "  and.b32 %r21, %r1, 1;\n  setp.ne.u32 %p4, %r21, 0;\n  and.pred %p4, %p4, %p3;\n"
        "  or.pred %p4, %p4, %p2;\n  vote.sync.all.pred %p5, %p4, " +
            m + ";\n  vote.sync.any.pred %p6, %p4, " + m + ";\n  vote.sync.uni.pred %p7, %p4, " +
            m + ";\n  vote.sync.ballot.b32 %r104, %p4, " + m +
            ";\n  selp.u32 %r101, 1, 2, %p5;\n  selp.u32 %r102, 1, 2, %p6;\n  selp.u32 %r103, 1, "
            "2, %p7;\n");
    add("match", 2, 4,
        "  and.b32 %r20, %r1, 3;\n  and.b32 %r21, %r300, 3;\n  setp.eq.u32 %p2, %r21, 1;\n"
        "  selp.b32 %r20, 7, %r20, %p2;\n  mov.b64 %d10, {%r20, %r21};\n  match.any.sync.b32 "
        "%r101, %r20, " +
            m + ";\n  match.all.sync.b32 %r102|%p3, %r20, " + m +
            ";\n  match.any.sync.b64 %r103, %d10, " + m + ";\n  selp.u32 %r104, 1, 2, %p3;\n");
    std::string reduce;
    const char* const forms[] = {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32",
                                 "max.s32", "and.b32", "or.b32",  "xor.b32"};
    for (uint32_t i = 0; i < 9; ++i) {
      reduce +=
          std::string("  redux.sync.") + forms[i] + " %r" + number(101 + i) + ", %r1, " + m + ";\n";
    }
    add("redux", 1, 9, reduce);
    add("elect", 1, 2, "  elect.sync %r101|%p1, " + m + ";\n  selp.u32 %r102, 1, 2, %p1;\n");
  }
  cases->push_back(warp_case("activemask", 1, 1, "  activemask.b32 %r101;\n"));
  cases->push_back(
      warp_case("movmatrix", 1, 1, "  movmatrix.sync.aligned.m8n8.trans.b16 %r101, %r1;\n"));
}

inline void add_matrix_rows(std::vector<KernelCase>* cases) {
  for (const uint32_t count : {1u, 2u, 4u}) {
    for (const char* trans : {"", ".trans"}) {
      const std::string form = ".sync.aligned.m8n8.x" + number(count) + trans + ".shared.b16 ";
      // Rows in another order than the lanes.
      const std::string address =
          "  mad.lo.u32 %r20, %r0, 13, 5;\n  and.b32 %r20, %r20, 31;\n  shl.b32 %r20, %r20, 4;\n"
          "  add.u32 %r20, %r20, %r399;\n";
      KernelCase load;
      load.name = "ldmatrix.x" + number(count) + trans;
      load.shared_bytes = 1024;
      load.in = random_words(count, 128);
      load.out.assign(32 * count, 0);
      std::string text = copy_in(0, 0, 0, 128) + "  bar.sync 0;\n" + address + "  ldmatrix" + form +
                         vector_of("%r", 1, count) + ", [%r20];\n" +
                         "  mul.wide.u32 %d2, %r0, 4;\n  add.u64 %d2, %d2, %d1;\n";
      for (uint32_t i = 0; i < count; ++i) {
        text += "  st.global.u32 [%d2+" + number(128 * i) + "], %r" + number(1 + i) + ";\n";
      }
      load.text = entry(text);
      cases->push_back(load);
      KernelCase store;
      store.name = "stmatrix.x" + number(count) + trans;
      store.shared_bytes = 1024;
      store.in = random_words(count + 8, 32 * count);
      store.out.assign(128, 0);
      text = fill(0, 0, 128) +
             "  bar.sync 0;\n  mul.wide.u32 %d2, %r0, 4;\n  add.u64 %d2, %d2, "
             "%d0;\n";
      for (uint32_t i = 0; i < count; ++i) {
        text += "  ld.global.u32 %r" + number(1 + i) + ", [%d2+" + number(128 * i) + "];\n";
      }
      text += address + "  stmatrix" + form + "[%r20], " + vector_of("%r", 1, count) +
              ";\n  bar.sync 0;\n" + copy_out(1, 0, 0, 128);
      store.text = entry(text);
      cases->push_back(store);
    }
  }
}

/// Words of packed codes: element i of the matrix is code_operand(i / 64, i % 64).
inline std::vector<uint32_t> code_words(CodeType type, uint32_t tile, uint32_t matrix,
                                        uint32_t words) {
  const uint32_t each = 32 / static_cast<uint32_t>(type.bits);
  std::vector<uint32_t> out(words);
  for (uint32_t w = 0; w < words; ++w) {
    for (uint32_t e = 0; e < each; ++e) {
      const uint32_t i = w * each + e;
      const uint32_t code = code_operand(type, tile, matrix, i / 64, i % 64);
      out[w] |= code << (e * static_cast<uint32_t>(type.bits));
    }
  }
  return out;
}

/// An accumulator word: binary32, or two binary16.
inline uint32_t start_word(bool half, uint32_t tile, uint32_t row, uint32_t col) {
  const uint32_t word = start_operand(tile, row, col);
  return half ? word & 0xbbffbbffu : word;
}

inline void add_mma(std::vector<KernelCase>* cases) {
  const struct {
    const char* name;
    CodeType type;
    const char* a;
    const char* b;
    uint32_t k;
    bool half;
  } forms[] = {
      {"f16", kCodeF16, "f16", "f16", 8, false},
      {"f16", kCodeF16, "f16", "f16", 16, false},
      {"f16", kCodeF16, "f16", "f16", 8, true},
      {"f16", kCodeF16, "f16", "f16", 16, true},
      {"bf16", kCodeBf16, "bf16", "bf16", 8, false},
      {"bf16", kCodeBf16, "bf16", "bf16", 16, false},
      {"tf32", kCodeTf32, "tf32", "tf32", 4, false},
      {"tf32", kCodeTf32, "tf32", "tf32", 8, false},
      {"e4m3", kCodeE4m3, "e4m3", "e4m3", 32, false},
      {"e5m2", kCodeE5m2, "e5m2", "e5m2", 32, false},
      {"e4m3e5m2", kCodeE5m2, "e4m3", "e5m2", 32, false},
      {"e5m2e4m3", kCodeE4m3, "e5m2", "e4m3", 32, false},
      {"e4m3", kCodeE4m3, "e4m3", "e4m3", 32, true},
      {"e5m2", kCodeE5m2, "e5m2", "e5m2", 32, true},
      {"e4m3e5m2", kCodeE5m2, "e4m3", "e5m2", 32, true},
      {"e4m3", kCodeE4m3, "e4m3", "e4m3", 16, true},
      {"e4m3", kCodeE4m3, "e4m3", "e4m3", 16, false},
      {"e5m2", kCodeE5m2, "e5m2", "e5m2", 16, false},
  };
  for (const auto& f : forms) {
    const uint32_t a = f.k * static_cast<uint32_t>(f.type.bits) / 64, b = a / 2;
    const uint32_t d = f.half ? 2 : 4;
    const std::string type = f.half ? "f16" : "f32";
    KernelCase c;
    c.name = std::string("mma.m16n8k") + number(f.k) + "." + type + "." + f.name;
    std::string body = "  mma.sync.aligned.m16n8k" + number(f.k) + ".row.col." + type + "." + f.a +
                       "." + f.b + "." + type + " ";
    std::string moved;
    if (f.half) {
      body += vector_of("%r", 101, d) + ", " + vector_of("%r", 1, a) + ", " +
              vector_of("%r", 1 + a, b) + ", " + vector_of("%r", 1 + a + b, d) + ";\n";
    } else {
      for (uint32_t i = 0; i < d; ++i) {
        body.insert(0, "  mov.b32 %f" + number(i) + ", %r" + number(1 + a + b + i) + ";\n");
        moved += "  mov.b32 %r" + number(101 + i) + ", %f" + number(4 + i) + ";\n";
      }
      body += vector_of("%f", 4, d) + ", " + vector_of("%r", 1, a) + ", " +
              vector_of("%r", 1 + a, b) + ", " + vector_of("%f", 0, d) + ";\n" + moved;
    }
    c.text = rounds(a + b + d, d, kWarpRounds, body);
    for (uint32_t round = 0; round < kWarpRounds; ++round) {
      const auto codes = code_words(f.type, round, 0, 32 * (a + b));
      c.in.insert(c.in.end(), codes.begin(), codes.end());
      for (uint32_t i = 0; i < 32 * d; ++i)
        c.in.push_back(start_word(f.half, round, i / 32, i % 32));
    }
    c.out.assign(32 * d * kWarpRounds, 0);
    cases->push_back(c);
  }
}

}  // namespace flamia::silicon
