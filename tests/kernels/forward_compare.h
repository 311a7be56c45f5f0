// Comparisons of two answers of a forward call: bit for bit, or within what the kernel's sums and
// exponentials may differ from the CPU backend's.
// Used by: tests/kernels/forward*_test.cc.
//
// Why they differ at all: 2^x and log2 are the chip's approximations (2 ulp), the row sum comes
// from the tensor core with 13 bits below the largest term, O is multiplied by 1 / l: 2e-4 of a
// row. A probability that falls on the other side of an E4M3 rounding boundary moves by up to 2^-3
// of itself: rare, but a large part of a row with few keys. So all rows together are held to 1e-3,
// and a few single rows may be off by a rounding of P.
// With FLAMIA_FORWARD_ERRORS in the environment every comparison prints what it measured.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "numerics/bf16.h"
#include "tests/kernels/forward_run.h"

namespace flamia::test {

struct ForwardTolerance {
  double o = 1e-3;          ///< relative L2 of all rows
  double cosine = 0.99999;  ///< of all rows
  double row = 5e-2;        ///< relative L2 of every row and head
  double lse = 1e-3;        ///< absolute, plus four FP32 steps of the value
  double row_lse = 1e-2;    ///< the same for the few rows with another rounding of P
  double few = 2e-3;        ///< share of the rows that may be such; one always may
  double o_floor = 0;       ///< magnitudes of O that do not count: added to the norm of each row
};

/// With binary16 exponentials, which the chip rounds within 2^-10 where the model is exact, one
/// code of P in 150 is another.
inline ForwardTolerance widened(ForwardTolerance tolerance) {
  tolerance.o = std::max(tolerance.o, 2e-2);
  tolerance.cosine = std::min(tolerance.cosine, 0.9999);
  tolerance.row = std::max(tolerance.row, 0.1);
  tolerance.lse = std::max(tolerance.lse, 1.5e-2);
  tolerance.row_lse = std::max(tolerance.row_lse, 8e-2);
  tolerance.few = std::max(tolerance.few, 2e-2);
  return tolerance;
}

inline const char* kind(double x) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return "finite";
}

/// O with its residual: what the kernel computed before it rounded.
inline std::vector<double> whole_output(const ForwardResult& result) {
  std::vector<double> o = decoded(result.o);
  for (size_t i = 0; i < result.residual.size(); ++i) {
    o[i] += static_cast<double>(bf16_to_float(result.residual[i]));
  }
  return o;
}

inline void expect_same_bits(const ForwardResult& got, const ForwardResult& wanted) {
  EXPECT_TRUE(got.o == wanted.o);
  EXPECT_TRUE(got.residual == wanted.residual);
  ASSERT_EQ(got.lse.size(), wanted.lse.size());
  EXPECT_EQ(std::memcmp(got.lse.data(), wanted.lse.data(), got.lse.size() * sizeof(float)), 0);
}

/// O (with its residual) and LSE of every row against the expected ones. Non-finite entries must be
/// of the same kind.
inline void expect_close(const std::vector<double>& o, const std::vector<double>& expected_o,
                         const std::vector<float>& lse, const std::vector<double>& expected_lse,
                         int heads, int dim, const ForwardTolerance& tolerance) {
  ASSERT_EQ(o.size(), expected_o.size());
  ASSERT_EQ(lse.size(), expected_lse.size());
  const int64_t rows = static_cast<int64_t>(o.size()) / heads / dim;
  double dot = 0, norm = 0, expected_norm = 0, difference = 0, worst_row = 0, worst_lse = 0;
  std::string worst_row_at, worst_lse_at;
  int wrong_kinds = 0;
  int64_t outliers = 0;
  for (int64_t row = 0; row < rows; ++row) {
    for (int head = 0; head < heads; ++head) {
      double row_norm = 0, row_difference = 0;
      const auto at = static_cast<size_t>((row * heads + head) * dim);
      for (size_t i = at; i < at + static_cast<size_t>(dim); ++i) {
        if (std::strcmp(kind(o[i]), kind(expected_o[i])) != 0) {
          if (++wrong_kinds <= 3) {
            ADD_FAILURE() << "O of row " << row << " head " << head << " channel " << i - at << ": "
                          << o[i] << ", expected " << expected_o[i];
          }
          continue;
        }
        if (!std::isfinite(o[i])) continue;
        const double d = o[i] - expected_o[i];
        dot += o[i] * expected_o[i];
        norm += o[i] * o[i];
        row_norm += expected_o[i] * expected_o[i];
        row_difference += d * d;
      }
      expected_norm += row_norm;
      difference += row_difference;
      const double error =
          std::sqrt(row_difference) / (std::sqrt(row_norm) + tolerance.o_floor + 1e-300);
      if (error > worst_row) {
        worst_row = error;
        worst_row_at = "row " + std::to_string(row) + " head " + std::to_string(head);
      }
      const auto entry = static_cast<size_t>(head * rows + row);
      const double got = static_cast<double>(lse[entry]);
      const double wanted = expected_lse[entry];
      if (std::strcmp(kind(got), kind(wanted)) != 0) {
        if (++wrong_kinds <= 3) {
          ADD_FAILURE() << "LSE of row " << row << " head " << head << ": " << got << ", expected "
                        << wanted;
        }
        continue;
      }
      if (!std::isfinite(got)) continue;
      const double error_lse = std::fabs(got - wanted) - 0x1p-21 * std::fabs(wanted);
      if (error_lse > tolerance.lse) ++outliers;
      if (error_lse > worst_lse) {
        worst_lse = error_lse;
        worst_lse_at = "row " + std::to_string(row) + " head " + std::to_string(head);
      }
    }
  }
  EXPECT_EQ(wrong_kinds, 0) << "entries that are NaN or infinite on one side only";
  const double floor = tolerance.o_floor * std::sqrt(static_cast<double>(rows * heads));
  EXPECT_LE(std::sqrt(difference), tolerance.o * (std::sqrt(expected_norm) + floor))
      << "relative error of O " << std::sqrt(difference / expected_norm);
  if (expected_norm > 0 && tolerance.o_floor == 0) {
    EXPECT_GE(dot / std::sqrt(norm * expected_norm), tolerance.cosine) << "cosine of O";
  }
  EXPECT_LE(worst_row, tolerance.row) << "relative error of O in " << worst_row_at;
  EXPECT_LE(worst_lse, tolerance.row_lse) << "error of LSE in " << worst_lse_at;
  EXPECT_LE(outliers, 1 + static_cast<int64_t>(tolerance.few * static_cast<double>(rows * heads)))
      << "rows with LSE off by more than " << tolerance.lse << "; worst " << worst_lse_at;
  if (std::getenv("FLAMIA_FORWARD_ERRORS") != nullptr) {
    std::printf("o %.2e cosine 1-%.1e row %.2e lse %.2e\n", std::sqrt(difference / expected_norm),
                1 - dot / std::sqrt(norm * expected_norm), worst_row, worst_lse);
  }
}

/// The residual is what rounding took from O: at most half a step of it.
inline void expect_residual_fits(const ForwardResult& result) {
  size_t wrong = 0;
  for (size_t i = 0; i < result.residual.size(); ++i) {
    const double o = static_cast<double>(bf16_to_float(result.o[i]));
    const double rest = static_cast<double>(bf16_to_float(result.residual[i]));
    if (!std::isfinite(o)) continue;
    if (!(std::fabs(rest) <= std::max(std::fabs(o) * 0x1p-8, 0x1p-133))) ++wrong;
  }
  EXPECT_EQ(wrong, 0u) << "residuals larger than half a step of O";
}

inline void expect_agrees(const ForwardResult& got, const ForwardResult& model, const Shape& shape,
                          const ForwardTolerance& tolerance = {}) {
  const std::vector<double> lse(model.lse.begin(), model.lse.end());
  ForwardResult expected = model;
  if (got.residual.empty()) expected.residual.clear();
  expect_close(whole_output(got), whole_output(expected), got.lse, lse, shape.heads, shape.dim,
               tolerance);
  expect_residual_fits(got);
}

/// Runs a case on the device and on the CPU and compares; returns the device's answer.
inline ForwardResult expect_like_cpu(Case& one, const Options& options,
                                     const ForwardTolerance& tolerance = {},
                                     const DeviceLayout& layout = {}) {
  ForwardResult got = device_forward(one, options, layout);
  expect_agrees(got, cpu_forward(one, options), one.shape(),
                half_scores(options) ? widened(tolerance) : tolerance);
  return got;
}

/// NaN and infinities inside a document: whoever sees them gets what the CPU backend gives.
inline void expect_poison_like_cpu(const Options& options) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float poison : {std::nanf(""), inf, -inf}) {
    for (int tensor = 0; tensor < 3; ++tensor) {
      for (const int64_t token : {5, 70, 150}) {
        SCOPED_TRACE(testing::Message() << poison << " tensor " << tensor << " token " << token);
        Case one({{200}, {}, 1, 1, 64, 0}, 37);
        uint16_t& x = tensor == 0   ? one.q(token, 0, 3)
                      : tensor == 1 ? one.k(token, 0, 3)
                                    : one.v(token, 0, 3);
        x = float_to_bf16(poison);
        expect_like_cpu(one, options);
      }
    }
  }
}

}  // namespace flamia::test
