// Kernels that nvcc compiled, against results of the host: whole programs through load and run.
// Depends on: data/*.ptx and the sources named there.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

#include "emulator/tma/tensor_map.h"
#include "numerics/e4m3.h"
#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

std::string sample(const std::string& name) {
  std::ifstream file(std::string(FLAMIA_SOURCE_DIR) + "/tests/emulator/data/" + name + ".ptx");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-4.0f, 4.0f);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

class ExecutionKernels : public testing::TestWithParam<uint64_t> {
 protected:
  MachineOptions options(Chip chip = Chip::kH200) const {
    MachineOptions made;
    made.chip = chip;
    made.seed = GetParam();
    made.adversary = static_cast<Adversary>(GetParam() % 3);
    made.numerics = Numerics::kHardware;
    made.watchdog_steps = 50'000'000;
    return made;
  }
};

TEST_P(ExecutionKernels, VectorAddAddsUpToItsLength) {
  Machine machine(options());
  machine.load(sample("execution_kernels_sm90a"));
  const auto a = random_floats(1000, 1), b = random_floats(1000, 2);
  const uint64_t c = machine.allocate(4000);
  const Status status = machine.launch("vector_add", {4, 1, 1}, {256, 1, 1}, machine.upload(a),
                                       machine.upload(b), c, 1000);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto result = machine.download<float>(c, 1000);
  for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(result[i], a[i] + b[i]);
}

TEST_P(ExecutionKernels, SoftmaxRowsSumToOneAndEqualTheHost) {
  Machine machine(options());
  machine.load(sample("execution_kernels_sm90a"));
  constexpr int kRows = 24, kColumns = 100;
  const auto in = random_floats(kRows * kColumns, 3);
  const uint64_t out = machine.allocate(4 * kRows * kColumns);
  const Status status =
      machine.launch("softmax", {6, 1, 1}, {128, 1, 1}, machine.upload(in), out, kRows, kColumns);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto result = machine.download<float>(out, kRows * kColumns);
  for (int r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int c = 0; c < kColumns; ++c)
      sum += std::exp(double{in[size_t(r) * kColumns + size_t(c)]});
    for (int c = 0; c < kColumns; ++c) {
      const size_t i = size_t(r) * kColumns + size_t(c);
      // expf is within 2 ulp, the sum of 100 terms within 7 roundings a lane.
      ASSERT_NEAR(result[i], std::exp(double{in[i]}) / sum, 2e-6 * std::exp(double{in[i]}) / sum);
    }
  }
}

TEST_P(ExecutionKernels, TiledProductEqualsTheFusedSumInOrder) {
  Machine machine(options());
  machine.load(sample("execution_kernels_sm90a"));
  constexpr int kM = 32, kN = 48, kK = 64;
  const auto a = random_floats(kM * kK, 4), b = random_floats(kK * kN, 5);
  const uint64_t c = machine.allocate(4 * kM * kN);
  const Status status = machine.launch("tiled_product", {kN / 16, kM / 16, 1}, {16, 16, 1},
                                       machine.upload(a), machine.upload(b), c, kN, kK);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto result = machine.download<float>(c, kM * kN);
  for (size_t i = 0; i < kM; ++i) {
    for (size_t j = 0; j < kN; ++j) {
      float sum = 0;
      for (size_t k = 0; k < kK; ++k) sum = std::fma(a[i * kK + k], b[k * kN + j], sum);
      ASSERT_EQ(result[i * kN + j], sum);
    }
  }
}

TEST_P(ExecutionKernels, BlockSumsAddUp) {
  Machine machine(options());
  machine.load(sample("execution_kernels_sm90a"));
  std::vector<int> in(5000);
  std::iota(in.begin(), in.end(), 1);
  const uint64_t out = machine.upload(std::vector<uint64_t>{0});
  const Status status =
      machine.launch("block_sum", {10, 1, 1}, {256, 1, 1}, machine.upload(in), out, 5000);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(machine.download<uint64_t>(out, 1)[0], 5000u * 5001u / 2);
}

TEST_P(ExecutionKernels, HistogramCountsEveryByte) {
  Machine machine(options());
  machine.load(sample("execution_kernels_sm90a"));
  std::vector<uint8_t> in(3000);
  std::vector<uint32_t> expected(256);
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = static_cast<uint8_t>(i * i / 7);
    ++expected[in[i]];
  }
  const uint64_t counts = machine.upload(std::vector<uint32_t>(256, 0));
  const Status status =
      machine.launch("histogram", {3, 1, 1}, {256, 1, 1}, machine.upload(in), counts, 3000);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(machine.download<uint32_t>(counts, 256), expected);
}

TEST_P(ExecutionKernels, ReduceAndTransposeUseStaticAndDynamicSharedMemory) {
  Machine machine(options());
  machine.load(sample("shared_reduce_sm90a"));
  std::vector<float> in(1000);
  std::iota(in.begin(), in.end(), 0.0f);
  const uint64_t out = machine.allocate(4);
  Status status = machine.launch("reduce", {1, 1, 1}, {256, 1, 1}, machine.upload(in), out, 1000);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(machine.download<float>(out, 1)[0], 1000.0f + 499500.0f);
  machine.request.dynamic_shared_bytes = 16 * 17 * 4;
  const uint64_t turned = machine.allocate(1024);
  status = machine.launch("transpose", {1, 1, 1}, {16, 16, 1}, machine.upload(in), turned, 16);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto result = machine.download<float>(turned, 256);
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(result[i], in[i % 16 * 16 + i / 16]);
}

TEST_P(ExecutionKernels, CollatzIndirectCallsAndVotesEqualTheHost) {
  Machine machine(options(Chip::kB300));
  machine.load(sample("divergent_sm103a"));
  std::vector<uint32_t> in(64);
  for (uint32_t i = 0; i < 64; ++i) in[i] = 1 + i * 37 % 97;
  const uint64_t out = machine.allocate(256);
  Status status = machine.launch("collatz", {1, 1, 1}, {64, 1, 1}, machine.upload(in), out);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto lengths = machine.download<uint32_t>(out, 64);
  for (size_t i = 0; i < 64; ++i) {
    uint32_t x = in[i], length = 0;
    while (x > 1) {
      x = x % 2 == 0 ? x / 2 : 3 * x + 1;
      ++length;
    }
    EXPECT_EQ(lengths[i], length) << in[i];
  }
  status = machine.launch("indirect", {1, 1, 1}, {64, 1, 1}, machine.upload(in), out, 9);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto values = machine.download<uint32_t>(out, 64);
  for (size_t i = 0; i < 64; ++i) {
    uint32_t x = in[i];
    for (int r = 0; r < 9; ++r) x = x % 2 == 0 ? x / 2 : 3 * x + 1;
    EXPECT_EQ(values[i], x);
  }
}

TEST_P(ExecutionKernels, PrintsAndAsserts) {
  Machine machine(options());
  machine.load(sample("printing_sm90a"));
  const uint64_t in = machine.upload(std::vector<float>{0.5f, 2.5f});
  Status status = machine.launch("print", {1, 1, 1}, {2, 1, 1}, in, 2);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(machine.report.printed, "lane 1: 2.500000 of 2, large\ndone\ndone\n");
  status = machine.launch("print", {1, 1, 1}, {3, 1, 1}, in, 2);
  EXPECT_EQ(machine.report.traps.at(0).kind, "assert");
  EXPECT_NE(status.message().find("assertion `i < n` failed"), std::string::npos)
      << status.message();
}

TEST_P(ExecutionKernels, HopperProductOfE4m3EqualsTheHost) {
  Machine machine(options());
  machine.load(sample("wgmma_sm90a"));
  std::vector<uint8_t> a(2048), b(512);
  std::mt19937 random(9);
  for (uint8_t& code : a) code = static_cast<uint8_t>(0x30 + random() % 16);
  for (uint8_t& code : b) code = static_cast<uint8_t>(0x30 + random() % 16);
  const uint64_t out = machine.allocate(4096);
  const Status status =
      machine.launch("product", {1, 1, 1}, {128, 1, 1}, machine.upload(a), machine.upload(b), out);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto result = machine.download<float>(out, 1024);
  // Core matrices of 8 rows and 16 bytes: leading 128 bytes along K, stride 256 along rows.
  const auto element = [](const std::vector<uint8_t>& codes, size_t row, size_t k) {
    return decode_e4m3(codes[row / 8 * 256 + k / 16 * 128 + row % 8 * 16 + k % 16]);
  };
  for (size_t t = 0; t < 128; ++t) {
    for (size_t r = 0; r < 8; ++r) {
      const size_t row = t / 32 * 16 + t % 32 / 4 + 8 * (r / 2 % 2);
      const size_t column = r / 4 * 8 + t % 4 * 2 + r % 2;
      float sum = 0;
      for (size_t k = 0; k < 32; ++k) sum += element(a, row, k) * element(b, column, k);
      // Products of values in [0.5, 2) with 3 mantissa bits are exact in 14 bits.
      ASSERT_EQ(result[t * 8 + r], sum) << t << " " << r;
    }
  }
}

TEST_P(ExecutionKernels, BlackwellProductOfE4m3EqualsTheHost) {
  for (const bool b300 : {false, true}) {
    Machine machine(options(b300 ? Chip::kB300 : Chip::kB200));
    machine.load(sample(b300 ? "tcgen05_sm103a" : "tcgen05_sm100a"));
    std::vector<uint8_t> a(4096), b(2048);
    std::mt19937 random(10);
    for (uint8_t& code : a) code = static_cast<uint8_t>(0x30 + random() % 16);
    for (uint8_t& code : b) code = static_cast<uint8_t>(0x30 + random() % 16);
    const uint64_t out = machine.allocate(4 * 128 * 64);
    const Status status = machine.launch("product", {1, 1, 1}, {128, 1, 1}, machine.upload(a),
                                         machine.upload(b), out);
    ASSERT_TRUE(status.ok()) << status.message();
    const auto result = machine.download<float>(out, 128 * 64);
    const auto element = [](const std::vector<uint8_t>& codes, size_t row, size_t k) {
      return decode_e4m3(codes[row / 8 * 256 + k / 16 * 128 + row % 8 * 16 + k % 16]);
    };
    for (size_t row = 0; row < 128; ++row) {
      for (size_t column = 0; column < 64; ++column) {
        float sum = 0;
        for (size_t k = 0; k < 32; ++k) sum += element(a, row, k) * element(b, column, k);
        ASSERT_EQ(result[row * 64 + column], sum) << row << " " << column;
      }
    }
  }
}

TEST_P(ExecutionKernels, TmaPipelineAddsRowsToTiles) {
  // Both CTAs of the cluster write the same tiles: a race, which the check reports.
  for (const auto& [blackwell, checked] : {std::pair(false, false), std::pair(true, false),
                                           std::pair(false, true), std::pair(true, true)}) {
    MachineOptions made = options(blackwell ? Chip::kB200 : Chip::kH200);
    made.check_hazards = checked;
    Machine machine(made);
    machine.load(sample(blackwell ? "async_copy_sm100a" : "async_copy_sm90a"));
    constexpr uint32_t kTiles = 5;
    const auto in = random_floats(1024 * kTiles, 6);
    const auto extra = random_floats(64 * kTiles, 7);
    struct alignas(64) Map {
      uint8_t bytes[kMapBytes];
    };
    const auto make_map = [&](uint64_t address) {
      Map map;
      const uint64_t dims[] = {32, 32 * kTiles}, strides[] = {128};
      const uint32_t box[] = {32, 32}, ones[] = {1, 1};
      EncodeTiledArguments arguments;
      arguments.map = &map;
      arguments.type = static_cast<uint32_t>(MapType::kF32);
      arguments.rank = 2;
      arguments.address = address;
      arguments.dims = dims;
      arguments.strides = strides;
      arguments.box = box;
      arguments.element_strides = ones;
      const Status status = encode_tiled(arguments, blackwell);
      EXPECT_TRUE(status.ok()) << status.message();
      return map;
    };
    const uint64_t out = machine.allocate(4096 * kTiles);
    machine.request.cluster = {2, 1, 1};
    const Status status =
        machine.launch("tma_pipeline", {2, 1, 1}, {1024, 1, 1}, make_map(machine.upload(in)),
                       make_map(out), machine.upload(extra), static_cast<int>(kTiles));
    if (checked) {
      ASSERT_EQ(machine.report.traps.size(), 1u);
      EXPECT_EQ(machine.report.traps[0].kind, "hazard") << status.message();
      EXPECT_NE(status.message().find("bulk copy write of CTA (1,0,0)"), std::string::npos);
      continue;
    }
    ASSERT_TRUE(status.ok()) << status.message();
    const auto result = machine.download<float>(out, 1024 * kTiles);
    for (size_t i = 0; i < result.size(); ++i) {
      const float base = in[i] + extra[i / 1024 * 64 + i % 1024 % 64];
      const float plus = in[i] + (extra[i / 1024 * 64 + i % 1024 % 64] + 1.0f);
      ASSERT_TRUE(result[i] == base || result[i] == plus) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExecutionKernels, testing::Values(0, 1, 2, 3, 4, 5));

TEST(ExecutionSpeed, SoftmaxLikeCodeIsMeasured) {
  for (const bool checked : {false, true}) {
    MachineOptions options;
    options.check_hazards = options.check_uninitialized = checked;
    Machine machine(options);
    machine.load(sample("execution_kernels_sm90a"));
    constexpr int kRows = 512, kColumns = 512;
    const auto in = random_floats(kRows * kColumns, 3);
    const uint64_t out = machine.allocate(4 * kRows * kColumns);
    const auto start = std::chrono::steady_clock::now();
    const Status status = machine.launch("softmax", {kRows / 4, 1, 1}, {128, 1, 1},
                                         machine.upload(in), out, kRows, kColumns);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(status.ok()) << status.message();
    std::printf("checks %s: %.1f million lane instructions a second, %.2f million in %.3f s\n",
                checked ? "on" : "off",
                static_cast<double>(machine.report.lane_instructions) / seconds.count() / 1e6,
                static_cast<double>(machine.report.lane_instructions) / 1e6, seconds.count());
  }
}

}  // namespace
}  // namespace flamia::emulator
