// Scales and codes of the operands of dV, dK and dQ.
#include "cpu/gradient_operands.h"

#include <algorithm>

#include "base/bits.h"
#include "base/philox.h"
#include "cpu/row_reduce.h"
#include "numerics/bf16.h"
#include "numerics/ds_block_scale.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/e5m2.h"
#include "numerics/p_hat.h"
#include "numerics/token_block_scale.h"

namespace flamia::cpu {
namespace {

constexpr int kSmallestFold = -300;  // of an all-zero token (exponent -127) against the largest one

/// Largest magnitude of every column, NaN ignored.
void column_magnitudes(const float* values, int rows, int columns, float* amax) {
  for (int j = 0; j < columns; ++j) amax[j] = 0.0f;
  for (int i = 0; i < rows; ++i) {
    const float* __restrict row = values + i * kKeyTile;
    for (int j = 0; j < columns; ++j) amax[j] = max_number(amax[j], magnitude(row[j]));
  }
}

void round_row(bool e5m2, const float* __restrict x, const float* __restrict factor, int columns,
               float* __restrict out) {
  if (e5m2) {
    for (int j = 0; j < columns; ++j) out[j] = round_e5m2(x[j] * factor[j]);
  } else {
    for (int j = 0; j < columns; ++j) out[j] = round_e4m3(x[j] * factor[j]);
  }
}

int scale_exponent(bool e5m2, float amax) {
  return e5m2 ? ds_exponent_e5m2(amax) : ds_exponent_e4m3(amax);
}

void count_flushed(const GradientTile& tile, const float* operand, FlushCount* flush) {
  for (int i = 0; i < tile.rows; ++i) {
    const float* __restrict x = tile.values + i * kKeyTile;
    const float* __restrict code = operand + i * kKeyTile;
    int nonzero = 0;
    int flushed = 0;
    for (int j = 0; j < tile.columns; ++j) {
      const int is_nonzero = x[j] != 0.0f ? 1 : 0;
      nonzero += is_nonzero;
      flushed += code[j] == 0.0f ? is_nonzero : 0;
    }
    flush->nonzero += nonzero;
    flush->flushed += flushed;
  }
}

/// Largest exponent of a list, the reference that folds are taken against.
int largest(const int8_t* exponents, int count) {
  int best = -128;
  for (int x = 0; x < count; ++x) best = larger<int>(best, exponents[x]);
  return best;
}

/// Lines are keys: column j has one exponent over the tile's queries.
void quantize_key_lines(const GradientSpec& spec, const GradientTile& tile, float* operand,
                        ProductExponents* exponents) {
  const int reference = spec.fold == nullptr ? 0 : largest(spec.fold, tile.rows);
  float amax[kKeyTile] = {};
  float factor[kKeyTile] = {};
  for (int i = 0; i < tile.rows; ++i) {
    const float* __restrict x = tile.values + i * kKeyTile;
    float* __restrict out = operand + i * kKeyTile;
    const float fold =
        spec.fold == nullptr ? 1.0f : pow2(larger(spec.fold[i] - reference, kSmallestFold));
    for (int j = 0; j < tile.columns; ++j) {
      out[j] = x[j] * fold;
      amax[j] = max_number(amax[j], magnitude(out[j]));
    }
  }
  for (int j = 0; j < tile.columns; ++j) {
    const int e = scale_exponent(spec.e5m2, amax[j]);
    factor[j] = inverse_scale(e);
    exponents->exponent[j] = amax[j] == 0.0f ? 0 : e + reference;  // a zero line has no scale
  }
  for (int i = 0; i < tile.rows; ++i) {
    float* out = operand + i * kKeyTile;
    float scaled[kKeyTile];
    for (int j = 0; j < tile.columns; ++j) scaled[j] = out[j];
    round_row(spec.e5m2, scaled, factor, tile.columns, out);
  }
}

/// Lines are queries: row i has one exponent over the tile's keys.
void quantize_query_lines(const GradientSpec& spec, const GradientTile& tile, float* operand,
                          ProductExponents* exponents) {
  const int reference = spec.fold == nullptr ? 0 : largest(spec.fold, tile.columns);
  float fold[kKeyTile];
  for (int j = 0; j < tile.columns; ++j) {
    fold[j] = spec.fold == nullptr ? 1.0f : pow2(larger(spec.fold[j] - reference, kSmallestFold));
  }
  for (int i = 0; i < tile.rows; ++i) {
    const float* x = tile.values + i * kKeyTile;
    float folded[kKeyTile];
    float factor[kKeyTile];
    for (int j = 0; j < tile.columns; ++j) folded[j] = x[j] * fold[j];
    const float amax = row_magnitude(folded, tile.columns);
    const int e = scale_exponent(spec.e5m2, amax);
    const float inverse = inverse_scale(e);
    for (int j = 0; j < tile.columns; ++j) factor[j] = inverse;
    exponents->exponent[i] = amax == 0.0f ? 0 : e + reference;
    round_row(spec.e5m2, folded, factor, tile.columns, operand + i * kKeyTile);
  }
}

/// Groups of row_group x column_group entries share an exponent that the operand keeps.
void quantize_blocks(const GradientSpec& spec, const GradientTile& tile, int row_group,
                     int column_group, float* operand) {
  for (int first = 0; first < tile.rows; first += row_group) {
    const int rows = smaller(row_group, tile.rows - first);
    const float* values = tile.values + first * kKeyTile;
    float amax[kKeyTile];
    float factor[kKeyTile];
    float scale[kKeyTile];
    column_magnitudes(values, rows, tile.columns, amax);
    for (int g = 0; g < tile.columns; g += column_group) {
      const int end = smaller(g + column_group, tile.columns);
      float block = 0.0f;
      for (int j = g; j < end; ++j) block = larger(block, amax[j]);
      const int e = scale_exponent(spec.e5m2, block);
      for (int j = g; j < end; ++j) {
        factor[j] = inverse_scale(e);
        scale[j] = pow2(e);
      }
    }
    for (int i = 0; i < rows; ++i) {
      float* out = operand + (first + i) * kKeyTile;
      round_row(spec.e5m2, values + i * kKeyTile, factor, tile.columns, out);
      for (int j = 0; j < tile.columns; ++j) out[j] *= scale[j];
    }
  }
}

/// Scale of an E2M1 group: maximum / 6, or the power of two that covers it; 1 for a zero group.
float fp4_scale(const GradientSpec& spec, float amax) {
  if (amax == 0.0f) return 1.0f;
  if (spec.scale == GradientScale::kFp4Sixth) return amax / kE2m1Max;
  return pow2(round_up_exponent_e2m1(amax));
}

/// out[j] = decoded E2M1 code of x[j] / scale[j], times scale[j].
void round_fp4_row(const GradientSpec& spec, int row, const float* __restrict x,
                   const float* __restrict scale, int columns, float* __restrict out) {
  if (spec.scale != GradientScale::kFp4Stochastic) {
    for (int j = 0; j < columns; ++j) out[j] = round_e2m1(x[j] / scale[j]) * scale[j];
    return;
  }
  uint32_t random[kKeyTile];
  for (int j = 0; j < columns; j += 4) {  // columns is a multiple of the vector width
    const auto counter = static_cast<uint64_t>(row * kKeyTile + j);
    const Philox4 bits = philox(0, spec.random_stream, counter);
    for (int word = 0; word < 4; ++word) random[j + word] = bits.word[word];
  }
  for (int j = 0; j < columns; ++j) {
    out[j] = decode_e2m1(encode_e2m1_stochastic(x[j] / scale[j], random[j])) * scale[j];
  }
}

/// Lines are queries: E2M1 with a scale per row and 32 keys.
void quantize_fp4_query_lines(const GradientSpec& spec, const GradientTile& tile, const float* fold,
                              float* operand) {
  for (int i = 0; i < tile.rows; ++i) {
    const float* __restrict x = tile.values + i * kKeyTile;
    float folded[kKeyTile];
    float scale[kKeyTile];
    for (int j = 0; j < tile.columns; ++j) folded[j] = x[j] * fold[j];
    for (int g = 0; g < tile.columns; g += kDsBlock) {
      const int columns = smaller(kDsBlock, tile.columns - g);
      const float group = fp4_scale(spec, row_magnitude(folded + g, columns));
      for (int j = g; j < g + columns; ++j) scale[j] = group;
    }
    round_fp4_row(spec, i, folded, scale, tile.columns, operand + i * kKeyTile);
  }
}

/// Lines are keys: E2M1 with a scale per column and 32 queries.
void quantize_fp4_key_lines(const GradientSpec& spec, const GradientTile& tile, const float* fold,
                            float* operand) {
  for (int first = 0; first < tile.rows; first += kDsBlock) {
    const int end = smaller(first + kDsBlock, tile.rows);
    float amax[kKeyTile] = {};
    float scale[kKeyTile];
    for (int i = first; i < end; ++i) {
      const float* __restrict x = tile.values + i * kKeyTile;
      float* __restrict folded = operand + i * kKeyTile;
      for (int j = 0; j < tile.columns; ++j) {
        folded[j] = x[j] * fold[i];
        amax[j] = max_number(amax[j], magnitude(folded[j]));
      }
    }
    for (int j = 0; j < tile.columns; ++j) scale[j] = fp4_scale(spec, amax[j]);
    for (int i = first; i < end; ++i) {
      float folded[kKeyTile];
      std::copy_n(operand + i * kKeyTile, tile.columns, folded);
      round_fp4_row(spec, i, folded, scale, tile.columns, operand + i * kKeyTile);
    }
  }
}

/// All-4-bit operands: E2M1 with a scale per line and 32 entries along the contraction.
void quantize_fp4(const GradientSpec& spec, const GradientTile& tile, float* operand,
                  ProductExponents* exponents) {
  const bool keys = spec.contraction == Contraction::kKeys;
  const int length = keys ? tile.columns : tile.rows;  // along the contraction
  const int reference = spec.fold == nullptr ? 0 : largest(spec.fold, length);
  float fold[kKeyTile];
  for (int x = 0; x < length; ++x) {
    fold[x] = spec.fold == nullptr ? 1.0f : pow2(larger(spec.fold[x] - reference, kSmallestFold));
  }
  if (keys) {
    quantize_fp4_query_lines(spec, tile, fold, operand);
  } else {
    quantize_fp4_key_lines(spec, tile, fold, operand);
  }
  const int lines = keys ? tile.rows : tile.columns;
  for (int x = 0; x < lines; ++x) exponents->exponent[x] = reference;
}

void set_exponents(const GradientTile& tile, Contraction contraction, int e,
                   ProductExponents* exponents) {
  const int lines = contraction == Contraction::kKeys ? tile.rows : tile.columns;
  for (int x = 0; x < lines; ++x) exponents->exponent[x] = e;
}

}  // namespace

void quantize_gradient(const GradientSpec& spec, const GradientTile& tile, float* operand,
                       ProductExponents* exponents, FlushCount* flush) {
  const bool keys = spec.contraction == Contraction::kKeys;
  switch (spec.scale) {
    case GradientScale::kBf16:
      for (int i = 0; i < tile.rows; ++i) {
        const float* __restrict x = tile.values + i * kKeyTile;
        float* __restrict out = operand + i * kKeyTile;
        for (int j = 0; j < tile.columns; ++j) out[j] = round_bf16(x[j]);
      }
      set_exponents(tile, spec.contraction, 0, exponents);
      break;
    case GradientScale::kFixed: {
      float factor[kKeyTile];
      for (int j = 0; j < tile.columns; ++j) factor[j] = pow2(kBackwardPLog2);
      for (int i = 0; i < tile.rows; ++i) {
        round_row(spec.e5m2, tile.values + i * kKeyTile, factor, tile.columns,
                  operand + i * kKeyTile);
      }
      set_exponents(tile, spec.contraction, -kBackwardPLog2, exponents);
      break;
    }
    case GradientScale::kLine:
      if (keys) {
        quantize_query_lines(spec, tile, operand, exponents);
      } else {
        quantize_key_lines(spec, tile, operand, exponents);
      }
      break;
    case GradientScale::kBlock:
      quantize_blocks(spec, tile, kDsBlock, kDsBlock, operand);
      set_exponents(tile, spec.contraction, 0, exponents);
      break;
    case GradientScale::kLineGroup:
      quantize_blocks(spec, tile, keys ? 1 : kDsBlock, keys ? kDsBlock : 1, operand);
      set_exponents(tile, spec.contraction, 0, exponents);
      break;
    case GradientScale::kFp4Group:
    case GradientScale::kFp4Stochastic:
    case GradientScale::kFp4Sixth:
      quantize_fp4(spec, tile, operand, exponents);
      break;
  }
  if (flush != nullptr) count_flushed(tile, operand, flush);
}

GradientScale value_gradient_scale(const Conventions& conventions) {
  if (conventions.path == Path::kAll4Bit) return GradientScale::kFp4Sixth;
  if (conventions.grad_products == GradProducts::kBf16) return GradientScale::kBf16;
  return conventions.family == Family::kHopper ? GradientScale::kLine : GradientScale::kFixed;
}

GradientScale key_gradient_scale(const Conventions& conventions) {
  if (conventions.path == Path::kAll4Bit) return GradientScale::kFp4Stochastic;
  if (conventions.grad_products == GradProducts::kBf16) return GradientScale::kBf16;
  if (conventions.family == Family::kHopper) return GradientScale::kLine;
  return conventions.safety == Safety::kExact ? GradientScale::kLineGroup : GradientScale::kBlock;
}

GradientScale query_gradient_scale(const Conventions& conventions) {
  if (conventions.path == Path::kAll4Bit) return GradientScale::kFp4Group;
  return key_gradient_scale(conventions);
}

}  // namespace flamia::cpu
