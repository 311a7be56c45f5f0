// P-hat of one row and dS-hat of one tile, as a scheme quantizes them.

#include "audit/offender_tile.h"

#include <algorithm>

#include "base/bits.h"
#include "numerics/ds_block_scale.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/key_fold.h"
#include "numerics/p_hat.h"

namespace flamia::audit {

namespace {

void fold_factors(const KeyFold& fold, int64_t count, float* factors) {
  if (fold.exponents == nullptr) {
    std::fill(factors, factors + count, 1.0f);
    return;
  }
  for (int64_t j = 0; j < count; ++j) {
    factors[j] = fold_factor(fold_exponent(fold.exponents[j], fold.reference));
  }
}

void round_to_e4m3(const float* p, const float* factors, int64_t count, float* p_hat) {
  constexpr float multiplier = kHopperPHat.multiplier;
  for (int64_t j = 0; j < count; ++j) {
    const float scale = multiplier * factors[j];
    p_hat[j] = round_e4m3(p[j] * scale) / scale;
  }
}

void round_to_e2m1(const float* p, const float* factors, int64_t count, float* p_hat) {
  for (int64_t first = 0; first < count; first += kPHatGroup) {
    const int64_t last = std::min(first + kPHatGroup, count);
    float amax = 0;
    for (int64_t j = first; j < last; ++j) amax = max_number(amax, p[j] * factors[j]);
    const float scale = amax / kE2m1Max;
    const float divisor = scale == 0.0f ? 1.0f : scale;
    for (int64_t j = first; j < last; ++j) {
      p_hat[j] = (round_e2m1((p[j] * factors[j]) / divisor) * scale) / factors[j];
    }
  }
}

// Values of `rows` x `keys` of the tile share an exponent.
void quantize_ds_group(int64_t rows, int64_t keys, float* ds) {
  float amax = 0;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < keys; ++j) {
      amax = max_number(amax, magnitude(ds[i * kOffenderTile + j]));
    }
  }
  const int e = ds_exponent_e4m3(amax);
  const float scale = pow2(e);
  const float inverse = inverse_scale(e);
  for (int64_t i = 0; i < rows; ++i) {
    float* row = ds + i * kOffenderTile;
    for (int64_t j = 0; j < keys; ++j) row[j] = round_e4m3(row[j] * inverse) * scale;
  }
}

struct GroupShape {
  int64_t rows, keys;
};

GroupShape group_shape(DsScale scale) {
  switch (scale) {
    case DsScale::kTile64x128:
      return {kOffenderTile / 2, kOffenderTile};
    case DsScale::kQueryRow:
      return {1, kOffenderTile};
    case DsScale::kBlock32:
    case DsScale::kFp32:
      break;
  }
  return {kDsBlock, kDsBlock};
}

}  // namespace

double quantize_probabilities(ProbabilityRule rule, const KeyFold& fold, const float* p,
                              int64_t count, float* p_hat) {
  float factors[kOffenderTile];
  fold_factors(fold, count, factors);
  switch (rule) {
    case ProbabilityRule::kFp32:
      std::copy(p, p + count, p_hat);
      break;
    case ProbabilityRule::kE4m3:
      round_to_e4m3(p, factors, count, p_hat);
      break;
    case ProbabilityRule::kE2m1:
      round_to_e2m1(p, factors, count, p_hat);
      break;
  }
  const float smallest = fold_factor(kRowSumFoldLimit);
  double sum = 0;
  for (int64_t j = 0; j < count; ++j) {
    sum += static_cast<double>(factors[j] >= smallest ? p_hat[j] : p[j]);
  }
  return sum;
}

void quantize_ds(DsScale scale, int64_t rows, int64_t keys, const float* key_factors, float* ds) {
  if (scale == DsScale::kFp32) return;
  const auto times_factors = [&](bool undo) {
    if (key_factors == nullptr) return;
    for (int64_t i = 0; i < rows; ++i) {
      float* row = ds + i * kOffenderTile;
      for (int64_t j = 0; j < keys; ++j) {
        row[j] = undo ? row[j] / key_factors[j] : row[j] * key_factors[j];
      }
    }
  };
  times_factors(false);
  const GroupShape shape = group_shape(scale);
  for (int64_t i = 0; i < rows; i += shape.rows) {
    for (int64_t j = 0; j < keys; j += shape.keys) {
      quantize_ds_group(std::min(shape.rows, rows - i), std::min(shape.keys, keys - j),
                        ds + i * kOffenderTile + j);
    }
  }
  times_factors(true);
}

}  // namespace flamia::audit
