// Matrix products and tile loads against results of an H200: the inputs are generated here as they
// were there, and the hash of all outputs must be that of the hardware's. Recorded with nvcc 13.0
// for sm_90a on one H200; a hash covers every output bit of 16 pairs of operand layouts (wgmma),
// 256 warps (mma.sync) or 32 KiB of shared memory (TMA).
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "emulator/tensor/mma.h"
#include "emulator/tma/copy.h"

namespace flamia::emulator::test {
namespace {

/// Word `index` of the noise that the inputs are made of.
uint32_t noise(uint64_t index) {
  uint64_t x = index * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return static_cast<uint32_t>(x ^ x >> 31);
}

class Hash {
 public:
  void add(uint32_t word) {
    for (int byte = 0; byte < 4; ++byte) {
      value_ = (value_ ^ (word >> (8 * byte) & 0xffu)) * 1099511628211u;
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 14695981039346656037u;
};

constexpr uint32_t kBase = kSharedReserved;
constexpr uint32_t kFills = 3;

/// Operands of wgmma in shared memory: any codes; moderate binary16 exponents; none of the largest.
void fill_shared(uint32_t fill, uint8_t* bytes) {
  for (uint32_t i = 0; i < 65536; i += 2) {
    const uint32_t x = noise(i + fill * uint64_t{1000003});
    uint32_t half = x;
    if (fill == 1) half = (x & 0x83ffu) | 0x3000u | (x >> 20 & 3u) << 10;
    if (fill == 2) half = x >> 28 == 0 ? 0 : x & 0xbfbfu;
    bytes[i] = static_cast<uint8_t>(half);
    bytes[i + 1] = static_cast<uint8_t>(half >> 8);
  }
}

/// Accumulators (32 a thread) and, behind them, registers of A (4 a thread).
std::vector<uint32_t> fill_registers(uint32_t fill) {
  std::vector<uint32_t> words(4096 + 512);
  for (uint32_t i = 0; i < words.size(); ++i) {
    uint32_t x = noise(i + uint64_t{77777777} * (fill + 1));
    if (fill == 1) x = (x & 0x807fffffu) | ((120 + (x >> 24) % 14) << 23);
    if (fill == 2) x &= 0xbfffbfffu;
    if (i >= 4096) {
      x = noise(i + uint64_t{99} * fill);
      if (fill != 0) x &= 0xbfbfbfbfu;
      if (fill == 1) x &= 0xb7ffb7ffu;
    }
    words[i] = x;
  }
  return words;
}

uint64_t descriptor(uint32_t start, uint32_t leading, uint32_t stride, uint64_t swizzle) {
  return uint64_t{start >> 4} | uint64_t{leading >> 4} << 16 | uint64_t{stride >> 4} << 32 |
         swizzle << 62;
}

/// Operand at `start` in one of the four swizzles: none, 128, 64, 32 bytes.
uint64_t operand(bool transposed, uint32_t start, uint32_t mode) {
  constexpr uint32_t kSpans[] = {16, 128, 64, 32};
  if (mode == 0) return descriptor(start, transposed ? 4096 : 2048, 256, 0);
  if (transposed) return descriptor(start, 8192, 8 * kSpans[mode], mode);
  return descriptor(start + (mode < 3 ? 32 : 0), 16, 8 * kSpans[mode], mode);
}

struct WgmmaCase {
  ElementFormat a, b;
  bool f16, transposed_a, transposed_b, registers;
};

using EF = ElementFormat;
constexpr WgmmaCase kWgmmaCases[] = {
    {EF::kBF16, EF::kBF16, false, false, false, false},
    {EF::kBF16, EF::kBF16, false, false, true, false},
    {EF::kBF16, EF::kBF16, false, true, false, false},
    {EF::kBF16, EF::kBF16, false, true, true, false},
    {EF::kF16, EF::kF16, false, false, false, false},
    {EF::kF16, EF::kF16, true, false, false, false},
    {EF::kTF32, EF::kTF32, false, false, false, false},
    {EF::kE4M3, EF::kE4M3, false, false, false, false},
    {EF::kE5M2, EF::kE4M3, false, false, false, false},
    {EF::kE4M3, EF::kE5M2, true, false, false, false},
    {EF::kBF16, EF::kBF16, false, false, false, true},
    {EF::kTF32, EF::kTF32, false, false, false, true},
    {EF::kE4M3, EF::kE4M3, false, false, false, true},
    {EF::kF16, EF::kF16, false, false, true, true},
};
constexpr uint32_t kWgmmaCaseCount = sizeof(kWgmmaCases) / sizeof(kWgmmaCases[0]);

constexpr uint64_t kWgmmaHashes[kFills][kWgmmaCaseCount] = {
    {0xe335677087cd34d6u, 0x8bfed6bcb6cb6566u, 0xda190ad26051c6edu, 0x878db764add3ff6au,
     0xc6d8bafddc161ec9u, 0x7eeee80048128ca9u, 0xe5015771b7f40406u, 0x6f2f6943de97ec2cu,
     0x62bc43fb0a4ea1f3u, 0x03238738d3f5a648u, 0x281f4511b05003b5u, 0x12494ea718b813d5u,
     0xb2375a5a6fcf21adu, 0x9fab3868f4077d55u},
    {0x7012465bf638ee49u, 0x1e404b9bc07b3b5bu, 0x88e51e6d915455dcu, 0x88443d6f797de149u,
     0x15607e20eb02b2b1u, 0x926b3319a6e5435au, 0x791f7a93d1fed05du, 0x26064c94d07c6453u,
     0x20f794767b8392b5u, 0x73cb95010ae94984u, 0x0dca616cf8b3771du, 0x593cda42b7f0bed5u,
     0x1ac4d40189f94ea5u, 0x8cbb3e1056b58125u},
    {0x3a3dc211a7daed5bu, 0x3b3fdc97e898fe55u, 0x6f372a6487b1e030u, 0xd55784435b783e46u,
     0x10814cdb81f19ae2u, 0xcb2d390270a75067u, 0xd1615d8104bfa79du, 0x2eeeaf6ec7a3aa67u,
     0x66d3fc98d2159f65u, 0xc9403df019c13c7eu, 0xea1541e0ac933625u, 0xbeddcde5ed3bb06du,
     0x0c3ca6390f229fedu, 0x09b14a904af30c15u},
};

TEST(Silicon, WgmmaOfEveryTypeAndLayoutEqualsAnH200) {
  for (uint32_t fill = 0; fill < kFills; ++fill) {
    SharedMemory shared(65536 + 4096);
    fill_shared(fill, shared.at(kBase));
    shared.mark(kBase, 65536, true);
    const std::vector<uint32_t> words = fill_registers(fill);
    for (uint32_t v = 0; v < kWgmmaCaseCount; ++v) {
      const WgmmaCase& test = kWgmmaCases[v];
      Hash hash;
      for (uint32_t pair = 0; pair < 16; ++pair) {
        const auto d = std::make_unique<uint32_t[][32][32]>(4);
        const auto a = std::make_unique<uint32_t[][4][32]>(4);
        for (uint32_t t = 0; t < 128; ++t) {
          for (uint32_t r = 0; r < 32; ++r) d[t / 32][r][t % 32] = words[t * 32 + r];
          for (uint32_t r = 0; r < 4; ++r) a[t / 32][r][t % 32] = words[4096 + t * 4 + r];
        }
        uint32_t(*const d_pointers[4])[32] = {d[0], d[1], d[2], d[3]};
        const uint32_t(*a_pointers[4])[32] = {a[0], a[1], a[2], a[3]};
        Wgmma spec;
        spec.a = test.a;
        spec.b = test.b;
        spec.n = 64;
        spec.f16_accumulator = test.f16;
        spec.mn_major_a = test.transposed_a;
        spec.mn_major_b = test.transposed_b;
        WgmmaA a_operand;
        a_operand.descriptor = operand(test.transposed_a, kBase, pair / 4);
        if (test.registers) a_operand.registers = a_pointers;
        const Fault fault =
            wgmma(spec, shared, a_operand, operand(test.transposed_b, kBase + 24576, pair % 4),
                  d_pointers, nullptr);
        ASSERT_TRUE(fault.ok()) << fault.text;
        for (uint32_t t = 0; t < 128; ++t) {
          for (uint32_t r = 0; r < (test.f16 ? 16u : 32u); ++r) hash.add(d[t / 32][r][t % 32]);
        }
      }
      EXPECT_EQ(hash.value(), kWgmmaHashes[fill][v]) << "fill " << fill << " case " << v;
    }
  }
}

struct MmaCase {
  ElementFormat format;
  uint32_t k;
  bool f16;
};
constexpr MmaCase kMmaCases[] = {
    {EF::kBF16, 16, false}, {EF::kF16, 16, false}, {EF::kTF32, 8, false}, {EF::kE4M3, 32, false},
    {EF::kE5M2, 32, false}, {EF::kBF16, 8, false}, {EF::kTF32, 4, false}, {EF::kF16, 16, true},
};
constexpr uint64_t kMmaHashes[] = {0xebbc343b84e8898du, 0x75d69b2f7d20c59bu, 0x34aa1b09574d1bd2u,
                                   0x7039c8112f4b9bc7u, 0x4c88911cdffba388u, 0x82681aa5ba37963eu,
                                   0xee888cc7acee1b64u, 0xd29f4dc30534c8b2u};

TEST(Silicon, MmaSyncOfEveryTypeEqualsAnH200) {
  for (uint32_t v = 0; v < sizeof(kMmaCases) / sizeof(kMmaCases[0]); ++v) {
    const MmaCase& test = kMmaCases[v];
    Hash hash;
    for (uint32_t warp = 0; warp < 256; ++warp) {
      uint32_t in[10][32], d[4][32];
      for (uint32_t t = 0; t < 32; ++t) {
        for (uint32_t r = 0; r < 10; ++r) {
          const uint32_t i = (warp * 32 + t) * 10 + r;
          uint32_t x = noise(i + uint64_t{12345} * (v + 3));
          const uint32_t kind = i / 320 % 3;
          if (kind == 1) x &= 0xbfbfbfbfu;
          if (kind == 2) x = (x & 0x83ff83ffu) | 0x34003400u;
          if (kind == 2 && r >= 6) x = (x & 0x807fffffu) | ((118 + (x >> 24) % 14) << 23);
          in[r][t] = x;
        }
      }
      const MmaSync spec{test.format, test.format, test.k, test.f16, NumericMode::kHardware};
      ASSERT_TRUE(mma_sync(spec, in, in + 4, in + 6, d).ok());
      for (uint32_t t = 0; t < 32; ++t) {
        for (uint32_t r = 0; r < (test.f16 ? 2u : 4u); ++r) hash.add(d[r][t]);
      }
    }
    EXPECT_EQ(hash.value(), kMmaHashes[v]) << v;
  }
}

struct TileCase {
  uint32_t type, rank;
  uint64_t dims[5];
  uint32_t box[5], element_strides[5];
  uint32_t swizzle, fill;
  int32_t at[5];
};

std::vector<TileCase> tile_cases() {
  std::vector<TileCase> cases;
  for (uint32_t swizzle = 0; swizzle < 4; ++swizzle) {
    for (const uint32_t inner : {32u, 64u, 128u}) {
      if ((swizzle == 1 && inner > 32) || (swizzle == 2 && inner > 64)) continue;
      cases.push_back({0, 2, {256, 64}, {inner, 32}, {1, 1}, swizzle, 0, {16, 3}});
      cases.push_back({1, 2, {128, 64}, {inner / 2, 16}, {1, 1}, swizzle, 0, {-8, -3}});
      cases.push_back({6, 2, {128, 64}, {inner / 2, 16}, {1, 1}, swizzle, 1, {104, 60}});
    }
  }
  constexpr uint32_t kBytes[] = {2, 4, 8, 2, 4, 4, 4};
  for (uint32_t type = 6; type < 13; ++type) {
    cases.push_back({type, 2, {64, 16}, {64 / kBytes[type - 6], 8}, {1, 1}, 0, 1, {-16, 12}});
  }
  cases.push_back(
      {7, 5, {32, 8, 4, 3, 2}, {16, 4, 2, 2, 2}, {1, 1, 1, 1, 1}, 0, 0, {-4, 2, 3, -1, 1}});
  cases.push_back({0, 3, {128, 32, 4}, {128, 9, 2}, {1, 3, 1}, 3, 0, {0, 20, 1}});
  cases.push_back({0, 3, {128, 32, 4}, {128, 9, 3}, {1, 4, 2}, 3, 0, {0, -2, 0}});
  cases.push_back({11, 2, {64, 16}, {32, 8}, {1, 1}, 3, 0, {0, 0}});
  cases.push_back({10, 2, {64, 16}, {32, 8}, {1, 1}, 3, 0, {0, 0}});
  cases.push_back({0, 1, {1024}, {256}, {1}, 0, 0, {-32}});
  return cases;
}

constexpr uint64_t kTileHashes[] = {
    0x161cb9cca2c77d6eu, 0x25522269d3514892u, 0x02be968379f1fe4cu, 0x498787078fd4490cu,
    0x64cfa4c2a64b03d5u, 0x3233aff99894d7b9u, 0x97ec1e559ebb25b5u, 0x331516d168b7e138u,
    0xfb337fa3fba2e1b9u, 0x1bf59f74342f028eu, 0x6bff5918610ad8d2u, 0x02be968379f1fe4cu,
    0x6aa879b83b1d6fbau, 0x406fede6640d5192u, 0xbc11f9cb497c73b8u, 0xe28a1182974babbcu,
    0x3ca6fc23b4c178fdu, 0x2e2795c1d82a3cb5u, 0x517c798bc9a09f8eu, 0xe7f3b9b0ba320d12u,
    0x7770a06f785655e0u, 0x308a5374b0ebf4f0u, 0x206ef71b140be3d1u, 0x183ed072438b8d81u,
    0x6c699449810f8a19u, 0xb81740bf9e4f8f74u, 0x4c6d1e6e392ca781u, 0x8c2761162ab1616eu,
    0xf8e29d5b4dea1525u, 0xf8e29d5b4dea1525u, 0x8c2761162ab1616eu, 0xf8e29d5b4dea1525u,
    0xf8e29d5b4dea1525u, 0xf8e29d5b4dea1525u, 0x34d2000d08fb0e94u, 0xf54231f8061100f8u,
    0xe845ddfbe19a74d5u, 0xc1fdbbac4d467d48u, 0x7037cee6968bdf20u, 0xb261dc57b1a723d0u};

TEST(Silicon, TileLoadsEqualAnH200) {
  GlobalMemory global(1 << 24, 1 << 22);
  uint64_t address = 0;
  ASSERT_TRUE(global.allocate(1 << 20, "tensor", &address).ok());
  for (uint32_t i = 0; i < 1 << 20; ++i) {
    reinterpret_cast<uint8_t*>(address)[i] = static_cast<uint8_t>(noise(i));
  }
  global.mark(address, 1 << 20, true);
  const std::vector<TileCase> cases = tile_cases();
  ASSERT_EQ(cases.size(), sizeof(kTileHashes) / sizeof(kTileHashes[0]));
  for (size_t n = 0; n < cases.size(); ++n) {
    const TileCase& test = cases[n];
    alignas(64) uint8_t bytes[kMapBytes];
    uint64_t strides[4] = {};
    uint64_t stride = test.dims[0] * map_element_bits(static_cast<MapType>(test.type)) / 8;
    for (uint32_t i = 0; i + 1 < test.rank; ++i) {
      strides[i] = stride;
      stride *= test.dims[i + 1];
    }
    const EncodeTiledArguments arguments{bytes,     test.type,    test.rank, address,
                                         test.dims, strides,      test.box,  test.element_strides,
                                         0,         test.swizzle, 0,         test.fill};
    const Status status = encode_tiled(arguments, false);
    ASSERT_TRUE(status.ok()) << status.message();
    TensorMap map;
    ASSERT_TRUE(decode_map(bytes, &map).ok());
    SharedMemory shared(65536);
    constexpr uint32_t kTile = 2048;
    std::memset(shared.at(kTile), 0xee, 32768);
    CopyResult result;
    const Fault fault = tile_load(map, test.at, global, {&shared, kTile}, &result);
    ASSERT_TRUE(fault.ok()) << fault.text;
    Hash hash;
    for (uint32_t i = 0; i < 32768; i += 4) {
      uint32_t word = 0;
      std::memcpy(&word, shared.at(kTile + i), 4);
      hash.add(word);
    }
    EXPECT_EQ(hash.value(), kTileHashes[n]) << n;
  }
}

}  // namespace
}  // namespace flamia::emulator::test
