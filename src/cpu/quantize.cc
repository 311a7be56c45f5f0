// The quantizers: one loop nest per scale scheme. Reads the BF16 source once.
#include "cpu/quantize.h"

#include "base/bits.h"
#include "cpu/encode_vector.h"
#include "cpu/hadamard_vector.h"
#include "cpu/parallel.h"
#include "cpu/row_reduce.h"
#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/nvfp4_scale.h"
#include "numerics/scale_codes.h"
#include "numerics/token_block_scale.h"

namespace flamia::cpu {

std::vector<TokenRange> token_ranges(const PackedLayout& layout, Side side) {
  std::vector<TokenRange> ranges;
  for (int32_t document = 0; document < layout.documents(); ++document) {
    const DocumentSpan span = layout.span(document);
    const int64_t begin = side == Side::kQueries ? span.query_begin : span.key_begin;
    const int64_t end = side == Side::kQueries ? span.query_end : span.key_end;
    for (int64_t first = begin; first < end; first += kQuantizeTokens) {
      ranges.push_back(
          {first, static_cast<int32_t>(smaller<int64_t>(kQuantizeTokens, end - first))});
    }
  }
  return ranges;
}

namespace {

/// One scale block of rows, read and rotated.
template <int kDim>
struct Rows {
  float x[kTokenBlock][kDim];
};

template <int kDim>
void read_rows(const Operand& operand, int head, int64_t first, int rows, Rows<kDim>* block) {
  for (int r = 0; r < rows; ++r) {
    const uint16_t* source = operand.source_row(head, first + r);
    float* x = block->x[r];
    for (int c = 0; c < kDim; ++c) x[c] = bf16_to_float(source[c]);
    if (operand.spec.hadamard) hadamard_vector<kDim>(x);
  }
}

template <int kDim>
float rows_magnitude(const Rows<kDim>& block, int rows) {
  return row_magnitude(block.x[0], rows * kDim);
}

uint8_t* codes_row(const Operand& operand, int head, int64_t token) {
  return operand.code_rows.at(head, token);
}
uint8_t* scales_row(const Operand& operand, int head, int64_t token) {
  return operand.scale_rows.at(head, token);
}
void set_exponent(const Operand& operand, int head, int64_t token, int e) {
  *reinterpret_cast<int8_t*>(operand.exp_rows.at(head, token)) = static_cast<int8_t>(e);
}

template <int kDim>
void quantize_e4m3_rows(const Operand& operand, int head, int64_t first, int rows,
                        const Rows<kDim>& block) {
  const auto exponent_of = [&](float amax) {
    const int e = round_up_exponent_e4m3(amax);
    return amax == 0.0f ? e : smaller(e + operand.spec.headroom_exponent, kMaxScaleExponent);
  };
  const int shared = operand.spec.per_token ? 0 : exponent_of(rows_magnitude(block, rows));
  for (int r = 0; r < rows; ++r) {
    const int e = operand.spec.per_token ? exponent_of(row_magnitude(block.x[r], kDim)) : shared;
    set_exponent(operand, head, first + r, e);
    encode_e4m3_row(block.x[r], inverse_scale(e), kDim, codes_row(operand, head, first + r));
  }
}

template <int kDim>
void quantize_e2m1_token_rows(const Operand& operand, int head, int64_t first, int rows,
                              const Rows<kDim>& block) {
  for (int r = 0; r < rows; ++r) {
    const int e = round_up_exponent_e2m1(row_magnitude(block.x[r], kDim));
    set_exponent(operand, head, first + r, e);
    const float factor = inverse_scale(e);
    uint8_t* codes = codes_row(operand, head, first + r);
    for (int c = 0; c < kDim; ++c) codes[c] = encode_e2m1(block.x[r][c] * factor);
  }
}

template <int kDim>
void quantize_nvfp4_channels(const Operand& operand, int head, int64_t first, int rows,
                             const Rows<kDim>& block) {
  for (int r = 0; r < rows; ++r) {
    const float* x = block.x[r];
    const int te = nvfp4_token_exponent(row_magnitude(x, kDim));
    set_exponent(operand, head, first + r, te);
    uint8_t* codes = codes_row(operand, head, first + r);
    uint8_t* scales = scales_row(operand, head, first + r);
    for (int g = 0; g < kDim / kNvfp4Block; ++g) {
      const float* group = x + g * kNvfp4Block;
      scales[g] = nvfp4_block_scale(row_magnitude(group, kNvfp4Block), te);
      const float scale = nvfp4_scale_value(scales[g], te);
      for (int c = 0; c < kNvfp4Block; ++c) {
        codes[g * kNvfp4Block + c] = encode_nvfp4(group[c], scale);
      }
    }
  }
}

template <int kDim>
void quantize_mxfp4_channels(const Operand& operand, int head, int64_t first, int rows,
                             const Rows<kDim>& block) {
  for (int r = 0; r < rows; ++r) {
    uint8_t* codes = codes_row(operand, head, first + r);
    uint8_t* scales = scales_row(operand, head, first + r);
    for (int g = 0; g < kDim / 32; ++g) {
      const float* group = block.x[r] + g * 32;
      const int e = round_up_exponent_e2m1(row_magnitude(group, 32));
      scales[g] = encode_ue8m0(e);
      const float factor = inverse_scale(e);
      for (int c = 0; c < 32; ++c) codes[g * 32 + c] = encode_e2m1(group[c] * factor);
    }
  }
}

/// Largest magnitude of each channel over rows [begin, end), NaN ignored.
template <int kDim>
void channel_magnitudes(const Rows<kDim>& block, int begin, int end, float* amax) {
  for (int c = 0; c < kDim; ++c) amax[c] = 0.0f;
  for (int r = begin; r < end; ++r) {
    for (int c = 0; c < kDim; ++c) amax[c] = max_number(amax[c], magnitude(block.x[r][c]));
  }
}

template <int kDim>
void quantize_mxfp4_tokens(const Operand& operand, int head, int64_t first, int rows,
                           const Rows<kDim>& block) {
  float amax[kDim];
  channel_magnitudes(block, 0, rows, amax);
  for (int r = 0; r < rows; ++r) {
    uint8_t* codes = codes_row(operand, head, first + r);
    uint8_t* scales = scales_row(operand, head, first + r);
    for (int c = 0; c < kDim; ++c) {
      const int e = round_up_exponent_e2m1(amax[c]);
      scales[c] = encode_ue8m0(e);
      codes[c] = encode_e2m1(block.x[r][c] * inverse_scale(e));
    }
  }
}

template <int kDim>
void quantize_nvfp4_tokens(const Operand& operand, int head, int64_t first, int rows,
                           const Rows<kDim>& block) {
  const int te = nvfp4_token_exponent(rows_magnitude(block, rows));
  float amax[kDim];
  for (int begin = 0; begin < rows; begin += kNvfp4Block) {
    const int end = smaller(begin + kNvfp4Block, rows);
    channel_magnitudes(block, begin, end, amax);
    for (int r = begin; r < end; ++r) {
      set_exponent(operand, head, first + r, te);
      uint8_t* codes = codes_row(operand, head, first + r);
      uint8_t* scales = scales_row(operand, head, first + r);
      for (int c = 0; c < kDim; ++c) {
        scales[c] = nvfp4_block_scale(amax[c], te);
        codes[c] = encode_nvfp4(block.x[r][c], nvfp4_scale_value(scales[c], te));
      }
    }
  }
}

template <int kDim>
void quantize_block(const Operand& operand, int head, int64_t first, int rows, Rows<kDim>* block) {
  read_rows(operand, head, first, rows, block);
  switch (operand.spec.scheme) {
    case Scheme::kE4m3:
      return quantize_e4m3_rows(operand, head, first, rows, *block);
    case Scheme::kE2m1Token:
      return quantize_e2m1_token_rows(operand, head, first, rows, *block);
    case Scheme::kNvfp4Channels:
      return quantize_nvfp4_channels(operand, head, first, rows, *block);
    case Scheme::kNvfp4Tokens:
      return quantize_nvfp4_tokens(operand, head, first, rows, *block);
    case Scheme::kMxfp4Channels:
      return quantize_mxfp4_channels(operand, head, first, rows, *block);
    case Scheme::kMxfp4Tokens:
      return quantize_mxfp4_tokens(operand, head, first, rows, *block);
    case Scheme::kBf16:
      return;
  }
}

template <int kDim>
void quantize_range(const Operand& operand, const TokenRange& range) {
  Rows<kDim> block = {};
  for (int begin = 0; begin < range.count; begin += kTokenBlock) {
    const int rows = smaller(kTokenBlock, range.count - begin);
    for (int head = 0; head < operand.heads; ++head) {
      quantize_block<kDim>(operand, head, range.first + begin, rows, &block);
    }
  }
}

}  // namespace

void quantize_operand(const Operand& operand, const std::vector<TokenRange>& ranges, int threads) {
  if (operand.spec.scheme == Scheme::kBf16) return;
  // Short documents share a work item, so that handing out items costs little.
  constexpr int64_t kRangesPerItem = 4;
  const int64_t count = static_cast<int64_t>(ranges.size());
  parallel_for(ceil_div(count, kRangesPerItem), threads, [&](int64_t item, int) {
    const int64_t end = smaller((item + 1) * kRangesPerItem, count);
    for (int64_t r = item * kRangesPerItem; r < end; ++r) {
      const TokenRange& range = ranges[static_cast<size_t>(r)];
      if (operand.dim == 128) {
        quantize_range<128>(operand, range);
      } else {
        quantize_range<64>(operand, range);
      }
    }
  });
}

}  // namespace flamia::cpu
