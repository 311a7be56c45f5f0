// tcgen05.ld and st of every shape, ld.red, cp of every shape and shift, executed as PTX, against
// formulas of the PTX manual written down here once more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/bits.h"
#include "tests/emulator/blackwell_kernel.h"

namespace flamia::emulator {
namespace {

using namespace blackwell;

constexpr uint32_t kColumns = 64;

struct Cell {
  uint32_t lane, column;
};
struct Shape {
  const char* name;
  uint32_t registers;  ///< of x1
  uint32_t most;       ///< N
  Cell (*cell)(uint32_t t, uint32_t r);
};
constexpr uint32_t kSecondHalf = 32;  ///< the immediate of 16x32bx2
const Shape kShapes[] = {
    {"32x32b", 1, 64,
     [](uint32_t t, uint32_t r) {
       return Cell{t, r};
     }},
    {"16x64b", 1, 32,
     [](uint32_t t, uint32_t r) {
       return Cell{t / 4 + t % 2 * 8, 2 * r + t / 2 % 2};
     }},
    {"16x128b", 2, 16,
     [](uint32_t t, uint32_t r) {
       return Cell{t / 4 + r % 2 * 8, t % 4 + r / 2 * 4};
     }},
    {"16x256b", 4, 8,
     [](uint32_t t, uint32_t r) {
       return Cell{t / 4 + r / 2 % 2 * 8, t % 4 * 2 + r % 2 + r / 4 * 8};
     }},
    {"16x32bx2", 1, 32,
     [](uint32_t t, uint32_t r) {
       return Cell{t % 16, r + t / 16 * kSecondHalf};
     }},
};

std::string immediate(const Shape& shape) {
  return std::string(shape.name) == "16x32bx2" ? ", " + number(kSecondHalf) : "";
}

TEST(ExecutionTensorMemory, LoadsOfEveryShapeAndCount) {
  for (const Shape& shape : kShapes) {
    for (uint32_t n = 1; n <= shape.most; n *= 2) {
      // Shapes of 16 lanes: the upper half of the warp's lanes.
      const uint32_t up = std::string(shape.name) == "32x32b" ? 0 : 16;
      const uint32_t registers = shape.registers * n;
      const std::string text =
          kernel_text(open_memory(kColumns) + fill_memory(kColumns) + "  add.u32 %r23, %r21, " +
                      number(up << 16) + ";\n  tcgen05.ld.sync.aligned." + shape.name + ".x" +
                      number(n) + ".b32 " + vector_of("%r", 100, registers) + ", [%r23]" +
                      immediate(shape) + ";\n  tcgen05.wait::ld.sync.aligned;\n" +
                      store_registers(100, registers) + close_memory(kColumns));
      const auto out = run(text, {0}, 128 * registers);
      ASSERT_FALSE(out.empty()) << shape.name << " x" << n;
      for (uint32_t t = 0; t < 128; ++t) {
        for (uint32_t r = 0; r < registers; ++r) {
          const Cell cell = shape.cell(t % 32, r);
          ASSERT_EQ(out[t * registers + r], (t / 32 * 32 + up + cell.lane) * 1000 + cell.column)
              << shape.name << ".x" << n << " thread " << t << " register " << r;
        }
      }
    }
  }
}

TEST(ExecutionTensorMemory, StoresOfEveryShapeReachTheirCellsAlone) {
  for (const Shape& shape : kShapes) {
    const uint32_t n = shape.most / 2, registers = shape.registers * n;
    std::string values = "  mad.lo.u32 %r24, %r0, 64, 0x50000000;\n";
    for (uint32_t r = 0; r < registers; ++r) {
      values += "  add.u32 %r" + number(100 + r) + ", %r24, " + number(r) + ";\n";
    }
    const std::string text = kernel_text(
        open_memory(kColumns) + fill_memory(kColumns) + values + "  tcgen05.st.sync.aligned." +
        shape.name + ".x" + number(n) + ".b32 [%r21]" + immediate(shape) + ", " +
        vector_of("%r", 100, registers) + ";\n  tcgen05.wait::st.sync.aligned;\n" +
        dump_memory(kColumns) + close_memory(kColumns));
    const auto out = run(text, {0}, 128 * kColumns);
    ASSERT_FALSE(out.empty()) << shape.name;
    std::vector<uint32_t> expected(128 * kColumns);
    for (uint32_t lane = 0; lane < 128; ++lane) {
      for (uint32_t c = 0; c < kColumns; ++c) expected[lane * kColumns + c] = lane * 1000 + c;
    }
    for (uint32_t t = 0; t < 128; ++t) {
      for (uint32_t r = 0; r < registers; ++r) {
        const Cell cell = shape.cell(t % 32, r);
        expected[(t / 32 * 32 + cell.lane) * kColumns + cell.column] = 0x50000000u + t * 64 + r;
      }
    }
    EXPECT_EQ(out, expected) << shape.name;
  }
}

TEST(ExecutionTensorMemory, PackedLoadsTakeTheLowHalvesOfTwoColumns) {
  const std::string text =
      kernel_text(open_memory(kColumns) + fill_memory(kColumns) +
                  "  tcgen05.ld.sync.aligned.32x32b.x8.pack::16b.b32 " + vector_of("%r", 100, 8) +
                  ", [%r21];\n  tcgen05.wait::ld.sync.aligned;\n" + store_registers(100, 8) +
                  close_memory(kColumns));
  const auto out = run(text, {0}, 128 * 8);
  ASSERT_FALSE(out.empty());
  for (uint32_t t = 0; t < 128; ++t) {
    for (uint32_t r = 0; r < 8; ++r) {
      const uint32_t low = (t * 1000 + 2 * r) & 0xffffu, high = (t * 1000 + 2 * r + 1) & 0xffffu;
      ASSERT_EQ(out[t * 8 + r], low | high << 16);
    }
  }
}

TEST(ExecutionTensorMemory, ReducingLoadsOfAnSm103) {
  const struct {
    const char* form;
    float (*reduce)(float, float);
  } cases[] = {
      {"max.f32", [](float a, float b) { return std::max(a, b); }},
      {"min.f32", [](float a, float b) { return std::min(a, b); }},
      {"max.abs.f32", [](float a, float b) { return std::max(std::fabs(a), std::fabs(b)); }},
      {"min.abs.f32", [](float a, float b) { return std::min(std::fabs(a), std::fabs(b)); }},
  };
  // Lane l, column c: (l * 37 + c * 11) mod 64 - 32, negated in odd columns.
  const auto value = [](uint32_t lane, uint32_t c) {
    const float x = static_cast<float>((lane * 37 + c * 11) % 64) - 32.0f;
    return c % 2 == 1 ? -x : x;
  };
  std::vector<uint32_t> in;
  for (uint32_t lane = 0; lane < 128; ++lane) {
    for (uint32_t c = 0; c < 16; ++c) in.push_back(float_bits(value(lane, c)));
  }
  std::string fill = "  mul.wide.u32 %d20, %r0, 64;\n  add.u64 %d20, %d20, %d0;\n";
  for (uint32_t c = 0; c < 16; ++c) {
    fill += "  ld.global.u32 %r" + number(200 + c) + ", [%d20+" + number(4 * c) + "];\n";
  }
  fill += "  tcgen05.st.sync.aligned.32x32b.x16.b32 [%r21], " + vector_of("%r", 200, 16) +
          ";\n  tcgen05.wait::st.sync.aligned;\n";
  for (const auto& test : cases) {
    const std::string text =
        kernel_text(open_memory(kColumns) + fill + "  tcgen05.ld.red.sync.aligned.32x32b.x16." +
                        test.form + " " + vector_of("%r", 100, 16) +
                        ", %r116, [%r21];\n  tcgen05.wait::ld.sync.aligned;\n" +
                        store_registers(100, 17) + close_memory(kColumns),
                    true);
    Launch launch;
    launch.sm103 = true;
    const auto out = run(text, in, 128 * 17, launch);
    ASSERT_FALSE(out.empty()) << test.form;
    for (uint32_t t = 0; t < 128; ++t) {
      float expected = value(t, 0);
      for (uint32_t c = 0; c < 16; ++c) {
        ASSERT_EQ(out[t * 17 + c], float_bits(value(t, c)));
        expected = test.reduce(expected, value(t, c));
      }
      ASSERT_EQ(bits_float(out[t * 17 + 16]), expected) << test.form << " lane " << t;
    }
  }
}

/// Copies `bytes` bytes of the input to shared memory, then runs one instruction of the pipe.
std::string pipe(uint32_t words, const std::string& instruction) {
  return kernel_text(open_memory(kColumns) + fill_memory(kColumns) + copy_in(0, kData, 0, words) +
                     "  fence.proxy.async.shared::cta;\n" + exchange() +
                     descriptor(40, kData, kPlainRows) + "  @%p11 bra ISSUED;\n  " + instruction +
                     ";\n  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 "
                     "[%r399];\nISSUED:\n" +
                     wait_phase(1, "%r399", "0") + "  tcgen05.fence::after_thread_sync;\n" +
                     dump_memory(kColumns) + close_memory(kColumns));
}

TEST(ExecutionTensorMemory, CopiesOfEveryShape) {
  struct Case {
    const char* form;
    uint32_t rows, bytes;
    std::vector<uint32_t> (*lanes)(uint32_t row);
  };
  const Case cases[] = {
      {"128x256b", 128, 32, [](uint32_t r) { return std::vector<uint32_t>{r}; }},
      {"4x256b", 4, 32, [](uint32_t r) { return std::vector<uint32_t>{32 * r}; }},
      {"128x128b", 128, 16, [](uint32_t r) { return std::vector<uint32_t>{r}; }},
      {"64x128b.warpx2::02_13", 64, 16,
       [](uint32_t r) {
         return std::vector<uint32_t>{r, r + 64};
       }},
      {"64x128b.warpx2::01_23", 64, 16,
       [](uint32_t r) {
         const uint32_t first = r < 32 ? r : r + 32;
         return std::vector<uint32_t>{first, first + 32};
       }},
      {"32x128b.warpx4", 32, 16,
       [](uint32_t r) {
         return std::vector<uint32_t>{r, r + 32, r + 64, r + 96};
       }},
  };
  const auto in = silicon::random_words(7, 4096);
  for (const Case& test : cases) {
    const auto out =
        run(pipe(4096, std::string("tcgen05.cp.cta_group::1.") + test.form + " [%r20], %d40"), in,
            128 * kColumns);
    ASSERT_FALSE(out.empty()) << test.form;
    std::vector<uint32_t> expected(128 * kColumns);
    for (uint32_t i = 0; i < expected.size(); ++i) {
      expected[i] = i / kColumns * 1000 + i % kColumns;
    }
    for (uint32_t row = 0; row < test.rows; ++row) {
      for (uint32_t word = 0; word < test.bytes / 4; ++word) {
        for (const uint32_t lane : test.lanes(row)) {
          expected[lane * kColumns + word] = in[row * 4 + word % 4 + word / 4 * 2048];
        }
      }
    }
    EXPECT_EQ(out, expected) << test.form;
  }
}

TEST(ExecutionTensorMemory, CopiesExpandFourAndSixBitElements) {
  const auto in = silicon::random_words(8, 4096);
  for (const uint32_t bits : {4u, 6u}) {
    const std::string form = bits == 4 ? ".b8x16.b4x16_p64" : ".b8x16.b6x16_p32";
    const auto out = run(pipe(4096, "tcgen05.cp.cta_group::1.128x128b" + form + " [%r20], %d40"),
                         in, 128 * kColumns);
    ASSERT_FALSE(out.empty()) << form;
    for (uint32_t lane = 0; lane < 128; ++lane) {
      for (uint32_t i = 0; i < 16; ++i) {
        uint32_t code = 0;
        for (uint32_t b = 0; b < bits; ++b) {
          const uint32_t bit = i * bits + b;
          code |= (in[lane * 4 + bit / 32] >> (bit % 32) & 1u) << b;
        }
        const uint32_t byte = out[lane * kColumns + i / 4] >> (i % 4 * 8) & 0xffu;
        ASSERT_EQ(byte, bits == 4 ? code << 2 : code) << form << " lane " << lane << " " << i;
      }
    }
  }
}

TEST(ExecutionTensorMemory, ShiftMovesEightColumnsByOneLane) {
  const auto out = run(pipe(16, "tcgen05.shift.cta_group::1.down [%r20]"),
                       std::vector<uint32_t>(16, 0), 128 * kColumns);
  ASSERT_FALSE(out.empty());
  for (uint32_t lane = 0; lane < 128; ++lane) {
    for (uint32_t c = 0; c < kColumns; ++c) {
      const bool moved = lane > 0 && lane < 32 && c < 8;
      ASSERT_EQ(out[lane * kColumns + c], (moved ? lane - 1 : lane) * 1000 + c) << lane;
    }
  }
}

}  // namespace
}  // namespace flamia::emulator
