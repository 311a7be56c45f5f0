// Long documents and very many documents through the forward kernel. The virtual GPU is too slow
// for them: there the suite is skipped. On a GPU: test_kernels --gtest_filter='ForwardOnDevice.*'
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "numerics/bf16.h"
#include "numerics/e4m3.h"
#include "numerics/key_fold.h"
#include "tests/kernels/forward_compare.h"
#include "tests/kernels/forward_inputs.h"

namespace flamia::test {
namespace {

class ForwardOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    cudaDeviceProp properties;
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    if (std::string(properties.name).find("virtual") != std::string::npos) {
      GTEST_SKIP() << "too long for " << properties.name << "; run it on a GPU";
    }
  }
};

Options causal(Safety safety) {
  Options options = options_of(Path::kMxfp8, MaskKind::kCausal);
  options.safety = safety;
  return options;
}

/// Values that E4M3 and a block exponent of 0 hold exactly, so that the codes are the inputs.
void round_to_codes(std::vector<uint16_t>* values) {
  for (uint16_t& x : *values) {
    x = float_to_bf16(round_e4m3(bf16_to_float(x) * 64.0f) / 64.0f);
  }
}

/// One row of the kernel's arithmetic with exact sums: maxima tile by tile, P-hat in E4M3,
/// everything else in FP64. V as it is: its codes are exact and no exponent of a block lies below
/// the others by more than the fold keeps.
struct ExactRow {
  std::vector<double> o;
  double lse;
};
ExactRow exact_row(Case& one, int64_t row, int64_t keys, bool reverse) {
  const int dim = one.shape().dim;
  const double scale = static_cast<double>(score_multiplier(1.0f / std::sqrt(float(dim))));
  double m = -INFINITY;
  double l = 0;
  ExactRow result{std::vector<double>(static_cast<size_t>(dim), 0.0), 0};
  const int64_t tiles = (keys + 127) / 128;
  std::vector<double> x(128);
  for (int64_t step = 0; step < tiles; ++step) {
    const int64_t first = (reverse ? tiles - 1 - step : step) * 128;
    const int64_t count = std::min<int64_t>(128, keys - first);
    double reached = m;
    for (int64_t j = 0; j < count; ++j) {
      double sum = 0;
      for (int c = 0; c < dim; ++c) {
        sum += static_cast<double>(bf16_to_float(one.q(row, 0, c))) *
               static_cast<double>(bf16_to_float(one.k(first + j, 0, c)));
      }
      x[static_cast<size_t>(j)] = sum * scale;
      reached = std::max(reached, x[static_cast<size_t>(j)]);
    }
    const double alpha = std::exp2(m - reached);
    m = reached;
    l *= alpha;
    for (double& o : result.o) o *= alpha;
    for (int64_t j = 0; j < count; ++j) {
      const auto e = static_cast<float>(std::exp2(x[static_cast<size_t>(j)] - m + 8));
      const auto p = static_cast<double>(round_e4m3(e));
      l += p;
      for (int c = 0; c < dim; ++c) {
        result.o[static_cast<size_t>(c)] +=
            p * static_cast<double>(bf16_to_float(one.v(first + j, 0, c)));
      }
    }
  }
  for (double& o : result.o) o /= l;
  result.lse = (m + std::log2(l) - 8) * std::log(2.0);
  return result;
}

/// Long contexts with a mean in V, where sums that lose low bits lose O: gain against exact
/// attention of the same inputs, and the distance to exact sums of the same codes.
TEST_F(ForwardOnDevice, LongContextsKeepTheirGain) {
  for (const int dim : {128, 64}) {
    for (const int32_t length : {16384, 65536}) {
      for (const KvOrder order : {KvOrder::kReverse, KvOrder::kForward}) {
        SCOPED_TRACE(testing::Message() << "dim " << dim << " length " << length << " order "
                                        << static_cast<int>(order));
        Case one({{length}, {}, 1, 1, dim, 0}, 41);
        one.add_to_v(0.5f);
        round_to_codes(&one.q_data);
        round_to_codes(&one.k_data);
        round_to_codes(&one.v_data);
        Options options = options_of(Path::kMxfp8, MaskKind::kCausal);
        options.hadamard = Hadamard::kOff;
        options.kv_order = order;
        const ForwardResult got = device_forward(one, options);
        const std::vector<double> o = whole_output(got);
        oracle::Settings settings;
        settings.backward = false;
        settings.rows_per_document = 24;
        oracle::Result exact;
        expect_ok(oracle::attention(one.problem(), options.mask,
                                    1.0 / std::sqrt(static_cast<double>(dim)),
                                    one.forward_tensors(), {}, settings, &exact));
        double dot = 0, norm = 0, code_difference = 0, code_dot = 0, code_norm = 0, worst_lse = 0;
        for (const int64_t row : exact.query_rows) {
          const ExactRow same_codes = exact_row(one, row, row + 1, order == KvOrder::kReverse);
          for (int c = 0; c < dim; ++c) {
            const auto at = static_cast<size_t>(row * dim + c);
            dot += o[at] * exact.o[at];
            norm += exact.o[at] * exact.o[at];
            const double d = o[at] - same_codes.o[static_cast<size_t>(c)];
            code_difference += d * d;
            code_dot += o[at] * same_codes.o[static_cast<size_t>(c)];
            code_norm +=
                same_codes.o[static_cast<size_t>(c)] * same_codes.o[static_cast<size_t>(c)];
          }
          const auto entry = static_cast<size_t>(row);
          worst_lse =
              std::max(worst_lse, std::fabs(static_cast<double>(got.lse[entry]) - same_codes.lse));
        }
        EXPECT_GE(dot / norm, 0.997);
        EXPECT_LE(dot / norm, 1.003);
        // Gain against exact sums; single rows differ by codes of P that round the other way.
        EXPECT_NEAR(code_dot / code_norm, 1.0, 1e-3);
        EXPECT_LE(std::sqrt(code_difference / code_norm), 4e-3);
        // Scores lose what lies 2^13 below the largest term, 1e-3 of a score of 4 and more.
        EXPECT_LE(worst_lse, 5e-3);
        std::printf("dim %d length %d: gain %.5f, from exact sums %.1e, lse %.1e\n", dim, length,
                    dot / norm, std::sqrt(code_difference / code_norm), worst_lse);
      }
    }
  }
}

/// Exact safety at a length of many tiles: rows before the changed tokens keep their bits.
TEST_F(ForwardOnDevice, NoExactRowDependsOnLaterTokens) {
  for (const int dim : {128, 64}) {
    const Shape shape{{4096}, {}, 1, 1, dim, 0};
    Case clean(shape, 45);
    const ForwardResult wanted = expect_like_cpu(clean, causal(Safety::kExact));
    for (int64_t last = 7; last < 4095; last += 97) {
      Case changed(shape, 45);
      for (int64_t token = last + 1; token < 4096; ++token) changed.scale_key_token(token, 1e4f);
      const ForwardResult got = device_forward(changed, causal(Safety::kExact));
      expect_same_bits(rows_of(got, shape, 0, last + 1), rows_of(wanted, shape, 0, last + 1));
    }
  }
}

TEST_F(ForwardOnDevice, DocumentsOfOneToken) {
  for (const int dim : {64, 128}) {
    Case one({std::vector<int32_t>(131072, 1), {}, 2, 1, dim, 9}, 42);
    expect_like_cpu(one, causal(Safety::kDefault));
    expect_like_cpu(one, causal(Safety::kExact));
  }
}

TEST_F(ForwardOnDevice, ManyDocumentsOfManyLengths) {
  std::vector<int32_t> lengths;
  for (int32_t i = 0; i < 70'000; ++i) lengths.push_back(i % 1000 == 0 ? 300 : i % 3);
  Case one({lengths, {}, 1, 1, 64, 0}, 43);
  expect_like_cpu(one, causal(Safety::kDefault));
  expect_like_cpu(one, causal(Safety::kExact));
}

/// Every document of a row of more than 2^31 elements is the same and must give the same bits.
TEST_F(ForwardOnDevice, MoreThan2To31Elements) {
  constexpr int32_t kLength = 2048;
  constexpr int kDocuments = 132;
  constexpr int kHeads = 64;
  constexpr int kDim = 128;
  const Options options = options_of(Path::kMxfp8, MaskKind::kCausal);
  Case alone({{kLength}, {}, kHeads, 1, kDim, 0}, 44);
  const ForwardResult wanted = device_forward(alone, options);
  static_assert(int64_t{kLength} * kDocuments * kHeads * kDim > int64_t{1} << 31);
  Case repeated = alone.repeated(kDocuments);
  const ForwardResult got = device_forward(repeated, options);
  const size_t size = wanted.o.size();
  for (size_t document = 0; document < kDocuments; ++document) {
    ASSERT_TRUE(std::equal(wanted.o.begin(), wanted.o.end(),
                           got.o.begin() + static_cast<std::ptrdiff_t>(document * size)));
    ASSERT_TRUE(std::equal(wanted.residual.begin(), wanted.residual.end(),
                           got.residual.begin() + static_cast<std::ptrdiff_t>(document * size)));
    for (size_t head = 0; head < kHeads; ++head) {
      ASSERT_TRUE(std::equal(
          wanted.lse.begin() + static_cast<std::ptrdiff_t>(head * kLength),
          wanted.lse.begin() + static_cast<std::ptrdiff_t>((head + 1) * kLength),
          got.lse.begin() + static_cast<std::ptrdiff_t>((head * kDocuments + document) * kLength)));
    }
  }
}

/// The kernels of the other paths, through many tiles and stages. P of bf16 is rounded at other
/// places than that of the CPU backend now and then, O of it summed without promotion.
TEST_F(ForwardOnDevice, OtherPathsOnLongDocuments) {
  for (const Path path : {Path::kBf16, Path::kNvfp4}) {
    for (const int dim : {64, 128}) {
      Case one({{4096, 1, 3000, 129}, {}, 2, 1, dim, 5}, 46);
      one.add_to_v(0.5f);
      expect_like_cpu(one, options_of(path, MaskKind::kCausal));
      expect_like_cpu(one, options_of(path, MaskKind::kFull));
    }
  }
}

}  // namespace
}  // namespace flamia::test
