// wgmma, mma.sync and tcgen05.mma against plain sums over matrices placed by independent formulas.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

#include "emulator/tensor/elements.h"
#include "emulator/tensor/fragments.h"
#include "emulator/tensor/mma.h"
#include "emulator/tensor/tensor_copy.h"
#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/f16.h"
#include "numerics/scale_codes.h"

namespace flamia::emulator::test {
namespace {

constexpr uint32_t kCta = 3;

/// Small integers and halves: every sum is exact, so that both modes and any order agree.
std::vector<float> small_values(uint32_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = (static_cast<float>(random() % 9) - 4.0f) * 0.5f;
  }
  return values;
}

/// K-major tile of 128-byte rows: 16-byte unit XOR row in eight.
void place_k_major(SharedMemory* shared, uint32_t base, const std::vector<float>& values,
                   uint32_t rows, uint32_t k, ElementFormat format) {
  for (uint32_t i = 0; i < rows; ++i) {
    for (uint32_t x = 0; x < k; ++x) {
      const float value = values[i * k + x];
      const uint32_t bytes = format == ElementFormat::kE4M3 ? 1 : 2;
      const uint32_t at = x * bytes;
      const uint32_t offset = base + i * 128 + (((at / 16) ^ (i % 8)) * 16) + at % 16;
      const uint16_t code = bytes == 1 ? encode_e4m3(value) : float_to_bf16(value);
      std::memcpy(shared->at(offset), &code, bytes);
      shared->mark(offset, bytes, true);
    }
  }
}

uint64_t wgmma_descriptor(uint32_t start, uint32_t leading, uint32_t stride) {
  return uint64_t{start >> 4} | uint64_t{leading >> 4} << 16 | uint64_t{stride >> 4} << 32 |
         uint64_t{1} << 62;
}

uint64_t tensor_descriptor(uint32_t start, uint32_t stride) {
  return uint64_t{start >> 4} | uint64_t{1} << 16 | uint64_t{stride >> 4} << 32 |
         uint64_t{1} << 46 | uint64_t{2} << 61;
}

float dot(const std::vector<float>& a, const std::vector<float>& b, uint32_t k, uint32_t i,
          uint32_t j, uint32_t first, uint32_t count) {
  float sum = 0.0f;
  for (uint32_t x = first; x < first + count; ++x) sum += a[i * k + x] * b[j * k + x];
  return sum;
}

struct Registers {
  uint32_t warp[4][128][32] = {};
  uint32_t (*pointers[4])[32] = {warp[0], warp[1], warp[2], warp[3]};
  float f32(uint32_t row, uint32_t column) const {
    // Accumulator fragment, from the side of the element.
    const uint32_t lane = row % 8 * 4 + column % 8 / 2;
    const uint32_t r = column / 8 * 4 + (row % 16 / 8) * 2 + column % 2;
    return bits_float(warp[row / 16][r][lane]);
  }
};

TEST(Wgmma, SharedOperandsInBothModes) {
  for (const NumericMode mode : {NumericMode::kHardware, NumericMode::kExact}) {
    SharedMemory shared(65536);
    const std::vector<float> a = small_values(64 * 128, 1), b = small_values(96 * 128, 2);
    place_k_major(&shared, 1024, a, 64, 128, ElementFormat::kE4M3);
    place_k_major(&shared, 16384, b, 96, 128, ElementFormat::kE4M3);
    auto d = std::make_unique<Registers>();
    for (uint32_t step = 0; step < 4; ++step) {
      Wgmma spec;
      spec.a = spec.b = ElementFormat::kE4M3;
      spec.n = 96;
      spec.accumulate = step != 0;
      spec.mode = mode;
      WgmmaA operand;
      operand.descriptor = wgmma_descriptor(1024 + 32 * step, 16, 1024);
      const Fault fault =
          wgmma(spec, shared, operand, wgmma_descriptor(16384 + 32 * step, 16, 1024), d->pointers,
                nullptr);
      ASSERT_TRUE(fault.ok()) << fault.text;
    }
    for (uint32_t i = 0; i < 64; ++i) {
      for (uint32_t j = 0; j < 96; ++j) ASSERT_EQ(d->f32(i, j), dot(a, b, 128, i, j, 0, 128));
    }
  }
}

TEST(Wgmma, RegisterOperandAndNegation) {
  SharedMemory shared(65536);
  const std::vector<float> a = small_values(64 * 16, 3), b = small_values(8 * 64, 4);
  place_k_major(&shared, 1024, b, 8, 64, ElementFormat::kBF16);
  uint32_t a_registers[4][4][32] = {};
  for (uint32_t i = 0; i < 64; ++i) {
    for (uint32_t x = 0; x < 16; ++x) {
      const uint32_t lane = i % 8 * 4 + x % 8 / 2;
      const uint32_t r = i % 16 / 8 + x / 8 * 2;
      a_registers[i / 16][r][lane] |= static_cast<uint32_t>(float_to_bf16(a[i * 16 + x]))
                                      << (16 * (x % 2));
    }
  }
  const uint32_t(*pointers[4])[32] = {a_registers[0], a_registers[1], a_registers[2],
                                      a_registers[3]};
  Wgmma spec;
  spec.accumulate = false;
  spec.negate_a = true;
  WgmmaA operand;
  operand.registers = pointers;
  auto d = std::make_unique<Registers>();
  ASSERT_TRUE(
      wgmma(spec, shared, operand, wgmma_descriptor(1024, 16, 1024), d->pointers, nullptr).ok());
  for (uint32_t i = 0; i < 64; ++i) {
    for (uint32_t j = 0; j < 8; ++j) {
      float sum = 0.0f;
      for (uint32_t x = 0; x < 16; ++x) sum -= a[i * 16 + x] * b[j * 64 + x];
      ASSERT_EQ(d->f32(i, j), sum);
    }
  }
}

TEST(Wgmma, TransposedB) {
  // V [16 keys][128 channels] in two spans of 64 channels, groups of 8 keys.
  SharedMemory shared(65536);
  const std::vector<float> a = small_values(64 * 64, 5), v = small_values(16 * 128, 6);
  place_k_major(&shared, 1024, a, 64, 64, ElementFormat::kBF16);
  const uint32_t base = 16384, span = 4096;
  for (uint32_t key = 0; key < 16; ++key) {
    for (uint32_t c = 0; c < 128; ++c) {
      const uint32_t unit = (c % 64 / 8) ^ (key % 8);
      const uint32_t offset = base + c / 64 * span + key * 128 + unit * 16 + c % 8 * 2;
      const uint16_t code = float_to_bf16(v[key * 128 + c]);
      std::memcpy(shared.at(offset), &code, 2);
      shared.mark(offset, 2, true);
    }
  }
  Wgmma spec;
  spec.n = 128;
  spec.accumulate = false;
  spec.mn_major_b = true;
  WgmmaA operand;
  operand.descriptor = wgmma_descriptor(1024, 16, 1024);
  auto d = std::make_unique<Registers>();
  ASSERT_TRUE(
      wgmma(spec, shared, operand, wgmma_descriptor(base, span, 1024), d->pointers, nullptr).ok());
  for (uint32_t i = 0; i < 64; ++i) {
    for (uint32_t j = 0; j < 128; ++j) {
      float sum = 0.0f;
      for (uint32_t x = 0; x < 16; ++x) sum += a[i * 64 + x] * v[x * 128 + j];
      ASSERT_EQ(d->f32(i, j), sum);
    }
  }
}

TEST(Wgmma, IllegalFormsAreRefused) {
  SharedMemory shared(65536);
  Registers d;
  Wgmma spec;
  spec.n = 12;
  EXPECT_EQ(wgmma(spec, shared, {}, 0, d.pointers, nullptr).kind, FaultKind::kBadOperand);
  spec.n = 16;
  spec.f16_accumulator = true;
  EXPECT_EQ(wgmma(spec, shared, {}, 0, d.pointers, nullptr).kind, FaultKind::kBadOperand) << "bf16";
  spec = {ElementFormat::kE4M3, ElementFormat::kE4M3};
  spec.mn_major_b = true;
  EXPECT_EQ(wgmma(spec, shared, {}, 0, d.pointers, nullptr).kind, FaultKind::kBadOperand);
}

/// One or two CTAs with all of tensor memory.
struct Pair {
  std::unique_ptr<SharedMemory> shared[2];
  std::unique_ptr<TensorMemory> tensor[2];
  TensorSide sides[2];
  Pair() {
    for (int s = 0; s < 2; ++s) {
      shared[s] = std::make_unique<SharedMemory>(131072);
      tensor[s] = std::make_unique<TensorMemory>();
      EXPECT_TRUE(tensor[s]->allocate(kCta, 512, 0).fault.ok());
      sides[s] = {shared[s].get(), tensor[s].get(), kCta};
    }
  }
};

uint32_t idesc(uint32_t m, uint32_t n, uint32_t types) {
  return m / 16 << 24 | n / 8 << 17 | types;
}

TEST(TensorMma, OneCtaAccumulatesAllShapes) {
  const std::vector<float> a = small_values(128 * 64, 9), b = small_values(256 * 64, 10);
  for (const uint32_t m : {64u, 128u}) {
    for (const uint32_t n : {8u, 256u}) {
      Pair p;
      place_k_major(p.shared[0].get(), 1024, a, 128, 64, ElementFormat::kBF16);
      place_k_major(p.shared[0].get(), 32768, b, 256, 64, ElementFormat::kBF16);
      TensorMma op;
      op.idesc = idesc(m, n, 0x490);
      op.d_address = tensor_address(m == 64 ? 16 : 0, 128);
      MmaTouches touches;
      for (uint32_t step = 0; step < 4; ++step) {
        op.accumulate = step != 0;
        op.a_descriptor = tensor_descriptor(1024 + 32 * step, 1024);
        op.b_descriptor = tensor_descriptor(32768 + 32 * step, 1024);
        const Fault fault = tensor_mma(op, p.sides, &touches);
        ASSERT_TRUE(fault.ok()) << fault.text;
      }
      EXPECT_EQ(touches.shared[0].size(), 4 * 2 * (m + n));
      for (uint32_t i = 0; i < m; ++i) {
        for (uint32_t j = 0; j < n; ++j) {
          const uint32_t lane = m == 64 ? i / 16 * 32 + 16 + i % 16 : i;
          ASSERT_EQ(bits_float(p.tensor[0]->row(lane)[128 + j]), dot(a, b, 64, i, j, 0, 64));
        }
      }
    }
  }
}

TEST(TensorMma, PairsSplitRowsAndShareB) {
  const std::vector<float> a = small_values(256 * 64, 11), b = small_values(64 * 64, 12);
  for (const uint32_t m : {128u, 256u}) {
    Pair p;
    const uint32_t rows = m / 2;
    for (uint32_t s = 0; s < 2; ++s) {
      const std::vector<float> own(a.begin() + s * rows * 64, a.begin() + (s + 1) * rows * 64);
      const std::vector<float> half(b.begin() + s * 32 * 64, b.begin() + (s + 1) * 32 * 64);
      place_k_major(p.shared[s].get(), 1024, own, rows, 64, ElementFormat::kBF16);
      place_k_major(p.shared[s].get(), 32768, half, 32, 64, ElementFormat::kBF16);
    }
    TensorMma op;
    op.form.cta_group = 2;
    op.idesc = idesc(m, 64, 0x490);
    op.accumulate = false;
    op.a_descriptor = tensor_descriptor(1024, 1024);
    op.b_descriptor = tensor_descriptor(32768, 1024);
    const Fault fault = tensor_mma(op, p.sides, nullptr);
    ASSERT_TRUE(fault.ok()) << fault.text;
    for (uint32_t i = 0; i < m; ++i) {
      for (uint32_t j = 0; j < 64; ++j) {
        const uint32_t lane = m == 256 ? i % 128 : i % 64 + (j < 32 ? 0 : 64);
        const uint32_t column = m == 256 ? j : j % 32;
        ASSERT_EQ(bits_float(p.tensor[i / rows]->row(lane)[column]), dot(a, b, 64, i, j, 0, 16));
      }
    }
  }
}

TEST(TensorMma, AFromTensorMemoryEqualsAFromShared) {
  const std::vector<float> a = small_values(128 * 32, 13), b = small_values(16 * 128, 14);
  Pair p;
  place_k_major(p.shared[0].get(), 32768, b, 16, 128, ElementFormat::kE4M3);
  for (uint32_t i = 0; i < 128; ++i) {
    for (uint32_t x = 0; x < 32; ++x) {
      uint32_t& cell = p.tensor[0]->row(i)[64 + x / 4];
      cell = (cell & ~(0xffu << (x % 4 * 8))) | static_cast<uint32_t>(encode_e4m3(a[i * 32 + x]))
                                                    << (x % 4 * 8);
    }
    p.tensor[0]->mark(i, 64, 8, true);
  }
  TensorMma op;
  op.form = {TensorKind::kF8f6f4, 1, 0, true, false};
  op.idesc = idesc(128, 16, 0x10);
  op.accumulate = false;
  op.a_address = 64;
  op.b_descriptor = tensor_descriptor(32768, 1024);
  ASSERT_TRUE(tensor_mma(op, p.sides, nullptr).ok());
  for (uint32_t i = 0; i < 128; ++i) {
    for (uint32_t j = 0; j < 16; ++j) {
      float sum = 0.0f;
      for (uint32_t x = 0; x < 32; ++x) sum += a[i * 32 + x] * b[j * 128 + x];
      ASSERT_EQ(bits_float(p.tensor[0]->row(i)[j]), sum);
    }
  }
  op.a_address = 66;
  EXPECT_EQ(tensor_mma(op, p.sides, nullptr).kind, FaultKind::kMisaligned);
}

TEST(TensorMma, DisabledLanesAndScaledInput) {
  const std::vector<float> a = small_values(128 * 64, 15), b = small_values(8 * 64, 16);
  Pair p;
  place_k_major(p.shared[0].get(), 1024, a, 128, 64, ElementFormat::kBF16);
  place_k_major(p.shared[0].get(), 32768, b, 8, 64, ElementFormat::kBF16);
  for (uint32_t i = 0; i < 128; ++i) {
    for (uint32_t j = 0; j < 8; ++j) p.tensor[0]->row(i)[j] = float_bits(8.0f);
    p.tensor[0]->mark(i, 0, 8, true);
  }
  const uint32_t disabled[4] = {1u << 5, 0, 0, ~0u};
  TensorMma op;
  op.idesc = idesc(128, 8, 0x490);
  op.a_descriptor = tensor_descriptor(1024, 1024);
  op.b_descriptor = tensor_descriptor(32768, 1024);
  op.d_shift = 2;
  op.disabled_lanes = disabled;
  ASSERT_TRUE(tensor_mma(op, p.sides, nullptr).ok());
  for (uint32_t i = 0; i < 128; ++i) {
    const float expected = i == 5 || i >= 96 ? 8.0f : 2.0f + dot(a, b, 64, i, 3, 0, 16);
    EXPECT_EQ(bits_float(p.tensor[0]->row(i)[3]), expected);
  }
}

TEST(TensorMma, AccumulatingIntoUnwrittenCellsIsReported) {
  const std::vector<float> a = small_values(128 * 64, 17), b = small_values(8 * 64, 18);
  Pair p;
  place_k_major(p.shared[0].get(), 1024, a, 128, 64, ElementFormat::kBF16);
  place_k_major(p.shared[0].get(), 32768, b, 8, 64, ElementFormat::kBF16);
  TensorMma op;
  op.idesc = idesc(128, 8, 0x490);
  op.a_descriptor = tensor_descriptor(1024, 1024);
  op.b_descriptor = tensor_descriptor(32768, 1024);
  EXPECT_EQ(tensor_mma(op, p.sides, nullptr).kind, FaultKind::kUninitialized);
  EXPECT_TRUE(tensor_mma(op, p.sides, nullptr).ok());
  op.d_address = 1;
  EXPECT_EQ(tensor_mma(op, p.sides, nullptr).kind, FaultKind::kMisaligned);
}

/// Scales [128][4] of one atom in shared memory, as the 32 x 16-byte interleave, copied by cp.
void copy_scales(Pair* p, uint32_t offset, const std::vector<uint8_t>& scales, uint32_t rows,
                 uint32_t column) {
  for (uint32_t atom = 0; atom * 128 < rows; ++atom) {
    const uint32_t base = offset + 512 * atom;
    for (uint32_t row = 0; row < 128; ++row) {
      for (uint32_t s = 0; s < 4; ++s) {
        *p->shared[0]->at(base + row % 32 * 16 + row / 32 * 4 + s) =
            scales[(atom * 128 + row) * 4 + s];
      }
    }
    p->shared[0]->mark(base, 512, true);
    const uint64_t descriptor = uint64_t{base >> 4} | uint64_t{128 >> 4} << 32 | uint64_t{1} << 46;
    const Fault fault = tensor_copy(TensorCopyShape::k32x128bWarpx4, TensorCopyFormat::kPlain,
                                    descriptor, column + 4 * atom, p->sides[0], 0, nullptr);
    ASSERT_TRUE(fault.ok()) << fault.text;
  }
}

TEST(TensorMma, BlockScalesOfEveryKind) {
  struct Case {
    TensorKind kind;
    uint32_t block;
    uint32_t k;
    uint32_t types;
    uint32_t id;
  };
  const Case cases[] = {
      {TensorKind::kMxf8f6f4, 32, 32, 0x00800000u, 3},
      {TensorKind::kMxf4, 32, 64, 0x00800480u, 2},
      {TensorKind::kMxf4nvf4, 16, 64, 0x480u, 0},
      {TensorKind::kMxf4nvf4, 32, 64, 0x00800480u, 0},
  };
  for (const Case& test : cases) {
    for (const NumericMode mode : {NumericMode::kHardware, NumericMode::kExact}) {
      Pair p;
      std::mt19937 random(19);
      const bool fp4 = test.kind != TensorKind::kMxf8f6f4;
      const bool ue8m0 = (test.types & 0x00800000u) != 0;
      const uint32_t n = 192;
      std::vector<float> values[2];
      std::vector<uint8_t> scales[2];
      for (uint32_t o = 0; o < 2; ++o) {
        const uint32_t rows = o == 0 ? 128 : n;
        const uint32_t base = o == 0 ? 1024u : 32768u;
        for (uint32_t i = 0; i < rows; ++i) {
          for (uint32_t x = 0; x < test.k; ++x) {
            const uint8_t code = encode_e2m1(static_cast<float>(random() % 13) * 0.5f - 3.0f);
            const float value = decode_e2m1(code);
            values[o].push_back(value);
            const uint32_t at = fp4 ? x / 2 : x;
            const uint32_t offset = base + i * 128 + (((at / 16) ^ (i % 8)) * 16) + at % 16;
            uint8_t* byte = p.shared[0]->at(offset);
            if (!fp4) {
              *byte = encode_e4m3(value);
            } else {
              *byte = x % 2 == 0 ? code : pack_e2m1(*byte, code);
            }
            p.shared[0]->mark(offset, 1, true);
          }
        }
        for (uint32_t i = 0; i < 256 * 4; ++i) {
          scales[o].push_back(ue8m0 ? encode_ue8m0(static_cast<int>(random() % 4) - 2)
                                    : encode_ue4m3(0.5f * static_cast<float>(1 + random() % 6)));
        }
      }
      copy_scales(&p, 65536, scales[0], 128, 448);
      copy_scales(&p, 66560, scales[1], n, 464);
      TensorMma op;
      op.form = {test.kind, 1, test.block, false, false};
      op.idesc = 1u << 27 | n / 8 << 17 | test.types | test.id << 29 | test.id << 4;
      op.accumulate = false;
      op.mode = mode;
      op.a_descriptor = tensor_descriptor(1024, 1024);
      op.b_descriptor = tensor_descriptor(32768, 1024);
      op.sfa_address = 448 | test.id << 30;
      op.sfb_address = 464;
      const Fault fault = tensor_mma(op, p.sides, nullptr);
      ASSERT_TRUE(fault.ok()) << fault.text;
      for (uint32_t i = 0; i < 128; ++i) {
        for (uint32_t j = 0; j < n; ++j) {
          float sum = 0.0f;
          for (uint32_t x = 0; x < test.k; ++x) {
            const uint32_t s = test.id + x / test.block;
            const uint8_t ca = scales[0][i * 4 + s], cb = scales[1][j * 4 + s];
            const float scale =
                ue8m0 ? decode_ue8m0(ca) * decode_ue8m0(cb) : decode_ue4m3(ca) * decode_ue4m3(cb);
            sum += values[0][i * test.k + x] * values[1][j * test.k + x] * scale;
          }
          ASSERT_EQ(bits_float(p.tensor[0]->row(i)[j]), sum) << i << ' ' << j;
        }
      }
      // One copy of a scale that differs is an error.
      p.tensor[0]->row(70)[448] ^= 0xffffffffu;
      EXPECT_EQ(tensor_mma(op, p.sides, nullptr).kind, FaultKind::kBadOperand);
    }
  }
}

TEST(TensorMma, PaddedFourBitOperandsOfTheMixedKind) {
  Pair p;
  std::mt19937 random(20);
  std::vector<float> a, b = small_values(8 * 128, 21);
  place_k_major(p.shared[0].get(), 32768, b, 8, 128, ElementFormat::kE4M3);
  for (uint32_t i = 0; i < 128; ++i) {
    for (uint32_t x = 0; x < 32; ++x) {
      const uint8_t code = static_cast<uint8_t>(random() % 16);
      a.push_back(decode_e2m1(code));
      const uint32_t at = x / 16 * 16 + x % 16 / 2;
      const uint32_t offset = 1024 + i * 128 + (((at / 16) ^ (i % 8)) * 16) + at % 16;
      uint8_t* byte = p.shared[0]->at(offset);
      *byte = x % 2 == 0 ? code : pack_e2m1(*byte, code);
      p.shared[0]->mark(offset, 1, true);  // the padding stays unwritten
    }
  }
  TensorMma op;
  op.form = {TensorKind::kF8f6f4, 1, 0, false, false};
  op.idesc = idesc(128, 8, 0x10 | 5u << 7);
  op.accumulate = false;
  op.a_descriptor = tensor_descriptor(1024, 1024);
  op.b_descriptor = tensor_descriptor(32768, 1024);
  const Fault fault = tensor_mma(op, p.sides, nullptr);
  ASSERT_TRUE(fault.ok()) << fault.text;
  for (uint32_t i = 0; i < 128; ++i) {
    float sum = 0.0f;
    for (uint32_t x = 0; x < 32; ++x) sum += a[i * 32 + x] * b[2 * 128 + x];
    ASSERT_EQ(bits_float(p.tensor[0]->row(i)[2]), sum);
  }
}

}  // namespace
}  // namespace flamia::emulator::test
