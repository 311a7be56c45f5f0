// tcgen05.cp: lanes of every shape, and the expansion of packed elements.
#include "emulator/tensor/tensor_copy.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace flamia::emulator::test {
namespace {

constexpr uint32_t kCta = 3;

struct Cta {
  std::unique_ptr<SharedMemory> shared = std::make_unique<SharedMemory>(65536);
  std::unique_ptr<TensorMemory> tensor = std::make_unique<TensorMemory>();
  TensorSide side{shared.get(), tensor.get(), kCta};
  Cta() { EXPECT_TRUE(tensor->allocate(kCta, 512, 0).fault.ok()); }
};

TEST(TensorCopy, LanesOfEveryShape) {
  struct Case {
    TensorCopyShape shape;
    uint32_t rows, bytes;
    std::vector<uint32_t> (*lanes)(uint32_t);
  };
  const Case cases[] = {
      {TensorCopyShape::k128x256b, 128, 32, [](uint32_t r) { return std::vector<uint32_t>{r}; }},
      {TensorCopyShape::k4x256b, 4, 32, [](uint32_t r) { return std::vector<uint32_t>{32 * r}; }},
      {TensorCopyShape::k128x128b, 128, 16, [](uint32_t r) { return std::vector<uint32_t>{r}; }},
      {TensorCopyShape::k64x128bWarpx2_02_13, 64, 16,
       [](uint32_t r) {
         return std::vector<uint32_t>{r, r + 64};
       }},
      {TensorCopyShape::k64x128bWarpx2_01_23, 64, 16,
       [](uint32_t r) {
         const uint32_t first = r < 32 ? r : r + 32;
         return std::vector<uint32_t>{first, first + 32};
       }},
      {TensorCopyShape::k32x128bWarpx4, 32, 16,
       [](uint32_t r) {
         return std::vector<uint32_t>{r, r + 32, r + 64, r + 96};
       }},
  };
  for (const Case& test : cases) {
    Cta p;
    // No swizzle: groups of 8 rows of 16 bytes, the second column of 16 bytes 8 KiB further.
    for (uint32_t i = 0; i < 16384; ++i) {
      *p.shared->at(4096 + i) = static_cast<uint8_t>(i * 7 + i / 256);
    }
    p.shared->mark(4096, 16384, true);
    const uint64_t descriptor = uint64_t{4096 >> 4} | uint64_t{8192 >> 4} << 16 |
                                uint64_t{128 >> 4} << 32 | uint64_t{1} << 46;
    ASSERT_TRUE(
        tensor_copy(test.shape, TensorCopyFormat::kPlain, descriptor, 12, p.side, 0, nullptr).ok());
    for (uint32_t row = 0; row < test.rows; ++row) {
      for (const uint32_t lane : test.lanes(row)) {
        for (uint32_t byte = 0; byte < test.bytes; ++byte) {
          const uint32_t offset = row * 16 + byte % 16 + byte / 16 * 8192;
          const uint32_t cell = p.tensor->row(lane)[12 + byte / 4];
          ASSERT_EQ(cell >> (byte % 4 * 8) & 0xffu, *p.shared->at(4096 + offset));
        }
      }
    }
  }
}

TEST(TensorCopy, ExpandsFourAndSixBitElements) {
  Cta p;
  for (uint32_t i = 0; i < 16; ++i) *p.shared->at(4096 + i) = static_cast<uint8_t>(0x91 + 0x11 * i);
  p.shared->mark(4096, 32 * 16, true);
  const uint64_t descriptor = uint64_t{4096 >> 4} | uint64_t{128 >> 4} << 32 | uint64_t{1} << 46;
  ASSERT_TRUE(tensor_copy(TensorCopyShape::k32x128bWarpx4, TensorCopyFormat::kB4x16P64, descriptor,
                          0, p.side, 0, nullptr)
                  .ok());
  EXPECT_EQ(p.tensor->row(64)[0], p.tensor->row(0)[0]);
  EXPECT_EQ(p.tensor->row(0)[0] & 0xffu, (0x91u & 0xfu) << 2);
  EXPECT_EQ(p.tensor->row(0)[0] >> 8 & 0xffu, (0x91u >> 4) << 2);
  ASSERT_TRUE(tensor_copy(TensorCopyShape::k32x128bWarpx4, TensorCopyFormat::kB6x16P32, descriptor,
                          8, p.side, 0, nullptr)
                  .ok());
  EXPECT_EQ(p.tensor->row(0)[8] & 0xffu, 0x91u & 0x3fu);
  EXPECT_EQ(p.tensor->row(0)[8] >> 8 & 0xffu, (0x91u >> 6 | 0xa2u << 2) & 0x3fu);
  EXPECT_EQ(tensor_copy(TensorCopyShape::k128x128b, TensorCopyFormat::kPlain, descriptor, 2, p.side,
                        0, nullptr)
                .kind,
            FaultKind::kMisaligned);
}

}  // namespace
}  // namespace flamia::emulator::test
