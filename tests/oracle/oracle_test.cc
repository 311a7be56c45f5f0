// The FP64 oracle against definitions: a loop in long double, and finite differences of the loss.
// Tolerance of values: 64 keys of unit size summed in FP64 err below 1e-14; 1e-12 leaves room for
// the exponential and for cancellation in dP - D.
#include "oracle/oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace flamia::oracle {
namespace {

constexpr double kTolerance = 1e-12;
constexpr double kScale = 0.3;

/// Inputs of one call in memory of their own, F32 or BF16, with padding between heads.
struct Inputs {
  Problem problem;
  Mask mask;
  std::vector<int32_t> cu_q, cu_k;
  DType dtype = DType::kF32;
  int64_t padding = 0;  ///< elements between the heads of a token
  std::vector<float> q, k, v, d_o;
  std::vector<uint16_t> q16, k16, v16, d_o16;

  int64_t documents() const { return problem.documents; }
  int64_t query_begin(int64_t b) const {
    return problem.batch > 0 ? b * (problem.query_tokens / problem.batch) : cu_q[size_t(b)];
  }
  int64_t key_begin(int64_t b) const {
    return problem.batch > 0 ? b * (problem.key_tokens / problem.batch)
                             : (cu_k.empty() ? cu_q : cu_k)[size_t(b)];
  }
  size_t at(int64_t token, int64_t heads, int64_t head) const {
    return size_t((token * heads + head) * (problem.head_dim + padding));
  }

  void fill(uint64_t seed) {
    std::mt19937_64 bits(seed);
    std::normal_distribution<float> normal;
    const auto fill_one = [&](std::vector<float>* x, std::vector<uint16_t>* codes, int64_t rows) {
      x->resize(size_t(rows * (problem.head_dim + padding)));
      codes->resize(x->size());
      for (size_t n = 0; n < x->size(); ++n) {
        uint32_t u;
        (*x)[n] = normal(bits);
        std::memcpy(&u, &(*x)[n], 4);
        u &= 0xffff0000u;  // the same values in both dtypes
        std::memcpy(&(*x)[n], &u, 4);
        (*codes)[n] = static_cast<uint16_t>(u >> 16);
      }
    };
    fill_one(&q, &q16, problem.query_tokens * problem.heads);
    fill_one(&k, &k16, problem.key_tokens * problem.kv_heads);
    fill_one(&v, &v16, problem.key_tokens * problem.kv_heads);
    fill_one(&d_o, &d_o16, problem.query_tokens * problem.heads);
  }

  TensorView view(std::vector<float>* x, std::vector<uint16_t>* codes, int64_t tokens,
                  int64_t heads) {
    TensorView view;
    const int64_t head_stride = problem.head_dim + padding;
    view.dtype = dtype;
    view.data =
        dtype == DType::kF32 ? static_cast<void*>(x->data()) : static_cast<void*>(codes->data());
    view.rank = problem.batch > 0 ? 4 : 3;
    const int64_t length = problem.batch > 0 ? tokens / problem.batch : tokens;
    const int64_t shape[4] = {problem.batch, length, heads, problem.head_dim};
    const int64_t stride[4] = {length * heads * head_stride, heads * head_stride, head_stride, 1};
    for (int n = 0; n < view.rank; ++n) {
      view.shape[n] = shape[4 - view.rank + n];
      view.stride[n] = stride[4 - view.rank + n];
    }
    return view;
  }

  static TensorView lengths(std::vector<int32_t>* cu) {
    if (cu->empty()) return TensorView{};
    return {cu->data(), DType::kI32, 1, {int64_t(cu->size())}, {1}};
  }

  Status run(const Settings& settings, Result* result) {
    ForwardTensors inputs;
    inputs.q = view(&q, &q16, problem.query_tokens, problem.heads);
    inputs.k = view(&k, &k16, problem.key_tokens, problem.kv_heads);
    inputs.v = view(&v, &v16, problem.key_tokens, problem.kv_heads);
    inputs.cu_seqlens_q = lengths(&cu_q);
    inputs.cu_seqlens_k = lengths(&cu_k);
    return attention(problem, mask, kScale, inputs,
                     view(&d_o, &d_o16, problem.query_tokens, problem.heads), settings, result);
  }
};

/// Mask by its words: query i sits at key position i + Lk - Lq.
bool sees(const Mask& mask, int64_t queries, int64_t keys, int64_t i, int64_t j) {
  const int64_t distance = i + keys - queries - j;  // how far back the key is
  if (mask.kind == MaskKind::kCausal) return distance >= 0;
  if (mask.kind == MaskKind::kFull) return true;
  return (mask.window_left < 0 || distance <= mask.window_left) &&
         (mask.window_right < 0 || -distance <= mask.window_right);
}

long double dot(const float* a, const float* b, int64_t n) {
  long double sum = 0;
  for (int64_t c = 0; c < n; ++c) sum += static_cast<long double>(a[c]) * b[c];
  return sum;
}

/// Attention of one document by its formulas, one query head at a time.
void naive_document(const Inputs& in, int64_t b, Result* result) {
  const Problem& p = in.problem;
  const int64_t queries =
      (p.batch > 0 ? (b + 1) * (p.query_tokens / p.batch) : in.cu_q[size_t(b + 1)]) -
      in.query_begin(b);
  const int64_t keys = (p.batch > 0 ? (b + 1) * (p.key_tokens / p.batch)
                                    : (in.cu_k.empty() ? in.cu_q : in.cu_k)[size_t(b + 1)]) -
                       in.key_begin(b);
  const int64_t dim = p.head_dim;
  for (int64_t h = 0; h < p.heads; ++h) {
    const int64_t g = h / (p.heads / p.kv_heads);
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t token = in.query_begin(b) + i;
      const float* q = &in.q[in.at(token, p.heads, h)];
      const float* d_o = &in.d_o[in.at(token, p.heads, h)];
      const auto k_row = [&](int64_t j) { return in.at(in.key_begin(b) + j, p.kv_heads, g); };
      long double total = 0, delta = 0;
      std::vector<long double> weight(size_t(keys), 0.0L);
      for (int64_t j = 0; j < keys; ++j) {
        if (!sees(in.mask, queries, keys, i, j)) continue;
        weight[size_t(j)] =
            std::exp(static_cast<long double>(kScale) * dot(q, &in.k[k_row(j)], dim));
        total += weight[size_t(j)];
      }
      if (total == 0) continue;
      const int64_t length = p.batch > 0 ? p.query_tokens / p.batch : p.query_tokens;
      result->lse[size_t((token / length * p.heads + h) * length + token % length)] =
          static_cast<double>(std::log(total));
      for (int64_t j = 0; j < keys; ++j) {
        weight[size_t(j)] /= total;
        if (weight[size_t(j)] > 0) delta += weight[size_t(j)] * dot(d_o, &in.v[k_row(j)], dim);
      }
      for (int64_t j = 0; j < keys; ++j) {
        const double w = static_cast<double>(weight[size_t(j)]);
        if (w == 0) continue;
        const double ds =
            static_cast<double>(weight[size_t(j)] * (dot(d_o, &in.v[k_row(j)], dim) - delta));
        for (int64_t c = 0; c < dim; ++c) {
          const size_t query_at = size_t((token * p.heads + h) * dim + c);
          const size_t key_at = size_t(((in.key_begin(b) + j) * p.kv_heads + g) * dim + c);
          const size_t in_key = k_row(j) + size_t(c);
          result->o[query_at] += w * double(in.v[in_key]);
          result->dq[query_at] += kScale * ds * double(in.k[in_key]);
          result->dv[key_at] += w * double(d_o[c]);
          result->dk[key_at] += kScale * ds * double(q[c]);
        }
      }
    }
  }
}

Result naive(const Inputs& in) {
  const Problem& p = in.problem;
  Result result;
  result.o.assign(size_t(p.query_tokens * p.heads * p.head_dim), 0.0);
  result.dq = result.o;
  result.dk.assign(size_t(p.key_tokens * p.kv_heads * p.head_dim), 0.0);
  result.dv = result.dk;
  result.lse.assign(size_t(p.query_tokens * p.heads), -std::numeric_limits<double>::infinity());
  for (int64_t b = 0; b < in.documents(); ++b) naive_document(in, b, &result);
  return result;
}

void expect_near(const char* name, const std::vector<double>& got,
                 const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size()) << name;
  for (size_t n = 0; n < got.size(); ++n) {
    if (got[n] == expected[n]) continue;  // also infinities
    ASSERT_NEAR(got[n], expected[n], kTolerance) << name << "[" << n << "]";
  }
}

void expect_equals_naive(Inputs* in) {
  Result result;
  Settings settings;
  settings.threads = 2;
  const Status status = in->run(settings, &result);
  ASSERT_TRUE(status.ok()) << status.message();
  const Result expected = naive(*in);
  expect_near("o", result.o, expected.o);
  expect_near("lse", result.lse, expected.lse);
  expect_near("dq", result.dq, expected.dq);
  expect_near("dk", result.dk, expected.dk);
  expect_near("dv", result.dv, expected.dv);
}

/// Three documents with 5, 0, 7 and 4 tokens between rows that belong to nobody.
Inputs packed(Mask mask, int32_t heads, int32_t kv_heads) {
  Inputs in;
  in.cu_q = {0, 5, 5, 12, 16};
  in.problem = {19, 19, 0, 4, heads, kv_heads, 8};
  in.mask = mask;
  in.fill(7);
  return in;
}

Inputs long_document(Mask mask) {
  Inputs in;
  in.cu_q = {0, 300};
  in.cu_k = {0, 700};
  in.problem = {300, 700, 0, 1, 2, 1, 8};
  in.mask = mask;
  in.fill(11);
  return in;
}

std::vector<Mask> masks() {
  return {{MaskKind::kFull, -1, -1},
          {MaskKind::kCausal, -1, -1},
          {MaskKind::kWindow, 2, 0},
          {MaskKind::kWindow, 1, 1},
          {MaskKind::kWindow, -1, 0},
          {MaskKind::kWindow, 0, -1},
          {MaskKind::kWindow, -1, -1},
          {MaskKind::kWindow, 0, 0},
          {MaskKind::kWindow, std::numeric_limits<int64_t>::max(),
           std::numeric_limits<int64_t>::max()}};
}

std::string words(const Mask& mask) {
  return "mask " + std::to_string(static_cast<int>(mask.kind)) + " window " +
         std::to_string(mask.window_left) + "," + std::to_string(mask.window_right);
}

TEST(Oracle, EqualsTheFormulasForEveryMask) {
  for (const Mask& mask : masks()) {
    SCOPED_TRACE(words(mask));
    Inputs in = packed(mask, 2, 2);
    expect_equals_naive(&in);
  }
}

TEST(Oracle, EqualsTheFormulasAcrossTilesAndChunks) {
  for (const Mask& mask : {Mask{MaskKind::kCausal, -1, -1}, Mask{MaskKind::kWindow, 40, 3}}) {
    SCOPED_TRACE(words(mask));
    Inputs in = long_document(mask);
    expect_equals_naive(&in);
  }
}

TEST(Oracle, SharesKeysAmongTheHeadsOfAGroup) {
  Inputs in = packed({MaskKind::kCausal, -1, -1}, 6, 2);
  expect_equals_naive(&in);
}

TEST(Oracle, AlignsMasksAtTheBottomRight) {
  for (const Mask& mask : masks()) {
    SCOPED_TRACE(words(mask));
    Inputs in;
    in.cu_q = {0, 6, 8, 8};
    in.cu_k = {0, 3, 10, 12};  // fewer keys, more keys, keys only
    in.problem = {9, 13, 0, 3, 2, 1, 8};
    in.mask = mask;
    in.fill(3);
    expect_equals_naive(&in);
  }
}

TEST(Oracle, ReadsBatchesAndStridedHeads) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Inputs in;
    in.problem = {12, 18, 3, 3, 2, 1, 8};
    in.mask = {MaskKind::kCausal, -1, -1};
    in.dtype = dtype;
    in.padding = 5;
    in.fill(5);
    expect_equals_naive(&in);
  }
}

TEST(Oracle, GradientsAreDerivativesOfTheLoss) {
  Inputs in = packed({MaskKind::kWindow, 3, 1}, 2, 1);
  Result exact;
  ASSERT_TRUE(in.run(Settings(), &exact).ok());
  const auto loss = [&] {
    Result result;
    Settings settings;
    settings.backward = false;
    EXPECT_TRUE(in.run(settings, &result).ok());
    double sum = 0;
    for (size_t n = 0; n < result.o.size(); ++n) sum += result.o[n] * double(in.d_o[n]);
    return sum;
  };
  // Central differences with step 2^-10 err by step^2 / 6 of a third derivative of a few units.
  constexpr float kStep = 0x1p-10f;
  const auto check = [&](const char* name, std::vector<float>* x, const std::vector<double>& grad) {
    for (size_t n = 0; n < x->size(); n += 3) {
      const float saved = (*x)[n];
      (*x)[n] = saved + kStep;
      const double above = loss();
      (*x)[n] = saved - kStep;
      const double below = loss();
      (*x)[n] = saved;
      EXPECT_NEAR((above - below) / (2.0 * double(kStep)), grad[n], 2e-5)
          << name << "[" << n << "]";
    }
  };
  check("dq", &in.q, exact.dq);
  check("dk", &in.k, exact.dk);
  check("dv", &in.v, exact.dv);
}

TEST(Oracle, SampledRowsEqualThoseOfAFullRun) {
  for (const Mask& mask : {Mask{MaskKind::kFull, -1, -1}, Mask{MaskKind::kCausal, -1, -1},
                           Mask{MaskKind::kWindow, 20, 0}}) {
    SCOPED_TRACE(words(mask));
    Inputs in = long_document(mask);
    Result full, part;
    ASSERT_TRUE(in.run(Settings(), &full).ok());
    Settings settings;
    settings.rows_per_document = 9;
    ASSERT_TRUE(in.run(settings, &part).ok());
    ASSERT_EQ(part.query_rows.size(), 9u);
    ASSERT_EQ(part.key_rows.size(), 9u);
    EXPECT_EQ(part.query_rows.front(), 0);
    EXPECT_EQ(part.query_rows.back(), 299);
    EXPECT_EQ(part.key_rows.back(), 699);
    const int64_t query_width = 2 * 8;
    const int64_t key_width = 8;
    for (const int64_t row : part.query_rows) {
      for (int64_t n = row * query_width; n < (row + 1) * query_width; ++n) {
        ASSERT_NEAR(part.o[size_t(n)], full.o[size_t(n)], kTolerance);
        ASSERT_NEAR(part.dq[size_t(n)], full.dq[size_t(n)], kTolerance);
      }
      for (int64_t h = 0; h < 2; ++h) {
        ASSERT_NEAR(part.lse[size_t(h * 300 + row)], full.lse[size_t(h * 300 + row)], kTolerance);
      }
    }
    for (const int64_t row : part.key_rows) {
      for (int64_t n = row * key_width; n < (row + 1) * key_width; ++n) {
        ASSERT_NEAR(part.dk[size_t(n)], full.dk[size_t(n)], kTolerance);
        ASSERT_NEAR(part.dv[size_t(n)], full.dv[size_t(n)], kTolerance);
      }
    }
    EXPECT_TRUE(std::isnan(part.o[size_t((part.query_rows[1] + 1) * query_width)]) ||
                part.query_rows[2] == part.query_rows[1] + 1);
  }
}

TEST(Oracle, SamplesEveryRowOfShortDocuments) {
  Inputs in = packed({MaskKind::kCausal, -1, -1}, 2, 1);
  Result full, part;
  Settings settings;
  ASSERT_TRUE(in.run(settings, &full).ok());
  settings.rows_per_document = 6;
  ASSERT_TRUE(in.run(settings, &part).ok());
  const std::vector<int64_t> expected = {0, 1, 2, 3, 4, 12, 13, 14, 15};
  for (const int64_t row : expected) {
    EXPECT_EQ(std::count(part.query_rows.begin(), part.query_rows.end(), row), 1) << row;
  }
  EXPECT_EQ(part.query_rows.size(), expected.size() + 6);  // of the document of seven tokens
  EXPECT_EQ(part.o[16 * 2 * 8], 0.0);                      // a row that belongs to nobody
}

TEST(Oracle, NanReachesOnlyWhatTheMaskLetsItReach) {
  Inputs in = packed({MaskKind::kCausal, -1, -1}, 2, 1);
  Result clean, dirty;
  ASSERT_TRUE(in.run(Settings(), &clean).ok());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const int64_t last_key = 11;  // last token of the third document, [5, 12)
  for (int64_t token : {last_key, int64_t{17}}) {
    for (int64_t c = 0; c < 8; ++c) {
      in.k[in.at(token, 1, 0) + size_t(c)] = nan;
      in.v[in.at(token, 1, 0) + size_t(c)] = nan;
    }
  }
  ASSERT_TRUE(in.run(Settings(), &dirty).ok());
  for (int64_t token = 0; token < 19; ++token) {
    for (size_t n = size_t(token * 16); n < size_t(token + 1) * 16; ++n) {
      EXPECT_EQ(std::isnan(dirty.o[n]), token == last_key) << "token " << token;
      EXPECT_EQ(std::isnan(dirty.dq[n]), token == last_key) << "token " << token;
      if (token == last_key) continue;
      EXPECT_NEAR(dirty.dq[n], clean.dq[n], kTolerance);
    }
    // The last row sees every key of its document, and so spoils all their gradients.
    const bool seen = token >= 5 && token < 12;
    EXPECT_EQ(std::isnan(dirty.dk[size_t(token * 8)]), seen) << "token " << token;
  }
}

TEST(Oracle, NanQueryReachesOnlyTheKeysItSees) {
  Inputs in = packed({MaskKind::kWindow, 2, 0}, 2, 1);
  in.d_o[in.at(9, 2, 1)] = std::numeric_limits<float>::quiet_NaN();
  Result result;
  ASSERT_TRUE(in.run(Settings(), &result).ok());
  for (int64_t token = 0; token < 19; ++token) {
    const bool seen = token >= 7 && token <= 9;
    EXPECT_EQ(std::isnan(result.dk[size_t(token * 8)]), seen) << "token " << token;
    EXPECT_EQ(std::isnan(result.dv[size_t(token * 8)]), seen) << "token " << token;
  }
}

TEST(Oracle, ThreadsChangeNoBit) {
  Inputs in = packed({MaskKind::kCausal, -1, -1}, 6, 2);
  Result one, four;
  Settings settings;
  settings.threads = 1;
  ASSERT_TRUE(in.run(settings, &one).ok());
  settings.threads = 4;
  ASSERT_TRUE(in.run(settings, &four).ok());
  EXPECT_EQ(one.dk, four.dk);
  EXPECT_EQ(one.dv, four.dv);
  EXPECT_EQ(one.dq, four.dq);
}

TEST(Oracle, BadArgumentsAreRefused) {
  Inputs in = packed({MaskKind::kFull, -1, -1}, 3, 2);
  Result result;
  const Status heads = in.run(Settings(), &result);
  EXPECT_EQ(heads.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(heads.message(),
            "oracle::attention: heads must be a multiple of kv_heads; got 3 and 2");
  in = packed({MaskKind::kFull, -1, -1}, 2, 2);
  in.cu_q.clear();
  EXPECT_EQ(in.run(Settings(), &result).message(),
            "oracle::attention: cu_seqlens_q must be given for packed rows; got no data");
}

}  // namespace
}  // namespace flamia::oracle
