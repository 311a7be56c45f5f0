// Wavefronts and sectors of hand-made addresses.
#include <gtest/gtest.h>

#include <array>

#include "emulator/model/banks.h"

namespace flamia::emulator::model {
namespace {

using Addresses = std::array<uint64_t, 32>;

Addresses strided(uint64_t base, uint64_t stride) {
  Addresses out;
  for (uint32_t i = 0; i < 32; ++i) out[i] = base + stride * i;
  return out;
}

void expect_wavefronts(const Addresses& a, uint32_t active, uint32_t bytes, uint32_t needed,
                       uint32_t ideal) {
  const Wavefronts w = shared_wavefronts(a.data(), active, bytes);
  EXPECT_EQ(w.needed, needed);
  EXPECT_EQ(w.ideal, ideal);
}

constexpr uint32_t kAll = 0xffffffffu;

TEST(ModelBanks, ConsecutiveWordsTakeOneWavefront) {
  expect_wavefronts(strided(0, 4), kAll, 4, 1, 1);
  expect_wavefronts(strided(512, 2), kAll, 2, 1, 1);
  expect_wavefronts(strided(3, 1), kAll, 1, 1, 1);
}

TEST(ModelBanks, StridesMultiplyWavefronts) {
  expect_wavefronts(strided(0, 8), kAll, 4, 2, 1);
  expect_wavefronts(strided(0, 32), kAll, 4, 8, 1);
  expect_wavefronts(strided(0, 128), kAll, 4, 32, 1);
  expect_wavefronts(strided(0, 132), kAll, 4, 1, 1);  // padded rows
}

TEST(ModelBanks, EqualWordsAreReadOnce) {
  expect_wavefronts(strided(64, 0), kAll, 4, 1, 1);
  Addresses pairs = strided(0, 4);
  for (uint32_t i = 0; i < 32; ++i) pairs[i] = 4 * (i % 16 / 2) + 128 * (i / 16);
  expect_wavefronts(pairs, kAll, 4, 2, 1);  // words 0 to 7 and 32 to 39: banks 0 to 7 twice
}

TEST(ModelBanks, VectorsGoInGroupsOf128Bytes) {
  expect_wavefronts(strided(0, 8), kAll, 8, 2, 2);
  expect_wavefronts(strided(0, 16), kAll, 16, 4, 4);
  expect_wavefronts(strided(0, 32), kAll, 16, 8, 4);
  expect_wavefronts(strided(0, 128), kAll, 16, 32, 4);  // rows of 128 bytes without a swizzle
  expect_wavefronts(strided(0, 0), kAll, 8, 2, 2);      // broadcasts are billed by returned bytes
}

TEST(ModelBanks, OnlyActiveLanesCount) {
  expect_wavefronts(strided(0, 128), 0x3, 4, 2, 1);
  expect_wavefronts(strided(0, 16), 0xff, 16, 1, 1);
  expect_wavefronts(strided(0, 16), 0x101, 16, 2, 2);
}

void expect_sectors(const Addresses& a, uint32_t active, uint32_t bytes, uint32_t sectors,
                    uint32_t distinct) {
  uint64_t out[kMostSectors];
  uint32_t count = 0;
  EXPECT_EQ(global_sectors(a.data(), active, bytes, out, &count), sectors);
  EXPECT_EQ(count, distinct);
}

TEST(ModelBanks, SectorsOfGlobalAccesses) {
  expect_sectors(strided(4096, 4), kAll, 4, 4, 128);
  expect_sectors(strided(4096, 16), kAll, 16, 16, 512);
  expect_sectors(strided(4096, 32), kAll, 4, 32, 128);
  expect_sectors(strided(4096 + 16, 4), kAll, 4, 5, 128);
  expect_sectors(strided(4096, 0), kAll, 8, 1, 8);
  expect_sectors(strided(4096, 32), kAll, 32, 32, 1024);
  Addresses reversed;
  for (uint32_t i = 0; i < 32; ++i) reversed[i] = 4096 + 4 * (31 - i);
  expect_sectors(reversed, kAll, 4, 4, 128);
}

}  // namespace
}  // namespace flamia::emulator::model
