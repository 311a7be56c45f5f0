// The quantizers: one loop nest per scale scheme. Reads the BF16 source once.
#include "cpu/quantize.h"

#include <algorithm>
#include <memory>

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
  int32_t largest[kTokenBlock];  ///< bits of each row's largest magnitude, where rows are rotated
};

/// Heads that are read together, so that memory is read in order: 128 KiB of floats at most.
constexpr int kHeadsTogether = 8;

/// blocks[h]: rows of head first_head + h.
template <int kDim>
void read_rows(const Operand& operand, int first_head, int heads, int64_t first, int rows,
               Rows<kDim>* blocks) {
  for (int r = 0; r < rows; ++r) {
    for (int h = 0; h < heads; ++h) {
      const uint16_t* source = operand.source_row(first_head + h, first + r);
      float* x = blocks[h].x[r];
      for (int c = 0; c < kDim; ++c) x[c] = bf16_to_float(source[c]);
      if (operand.spec.hadamard) blocks[h].largest[r] = hadamard_vector<kDim>(x);
    }
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

int e4m3_exponent(const Operand& operand, float amax) {
  const int e = round_up_exponent_e4m3(amax);
  return amax == 0.0f ? e : smaller(e + operand.spec.headroom_exponent, kMaxScaleExponent);
}

/// Rows that need no rotation, straight from BF16 bits, token by token so that memory is read and
/// written in order. Heads that hold NaN or infinity, or are so small that BF16 subnormals matter
/// (zero rows too), are marked in `left` and not written.
template <int kDim>
void quantize_e4m3_direct(const Operand& operand, int first_head, int heads, int64_t first,
                          int rows, bool* left) {
  constexpr uint16_t kInfinity = 0x7f80;
  uint16_t largest[kTokenBlock][kHeadsTogether];
  for (int r = 0; r < rows; ++r) {
    for (int h = 0; h < heads; ++h) {
      largest[r][h] = bf16_magnitude(operand.source_row(first_head + h, first + r), kDim);
    }
  }
  int exponent[kTokenBlock][kHeadsTogether];
  for (int h = 0; h < heads; ++h) {
    uint16_t block = 0;
    for (int r = 0; r < rows; ++r) block = larger(block, largest[r][h]);
    const int shared = e4m3_exponent(operand, bf16_to_float(block));
    left[h] = block >= kInfinity;
    for (int r = 0; r < rows; ++r) {
      exponent[r][h] =
          operand.spec.per_token ? e4m3_exponent(operand, bf16_to_float(largest[r][h])) : shared;
      left[h] = left[h] || exponent[r][h] < kSmallestDirectExponent;
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int h = 0; h < heads; ++h) {
      if (left[h]) continue;
      const int head = first_head + h;
      set_exponent(operand, head, first + r, exponent[r][h]);
      encode_bf16_e4m3_row(operand.source_row(head, first + r), exponent[r][h], kDim,
                           codes_row(operand, head, first + r));
    }
  }
}

/// Rotated rows without NaN or infinity: their maxima are known already. False otherwise.
template <int kDim>
bool quantize_e4m3_rotated(const Operand& operand, int head, int64_t first, int rows,
                           const Rows<kDim>& block) {
  int32_t largest = 0;
  for (int r = 0; r < rows; ++r) largest = larger(largest, block.largest[r]);
  if (largest >= static_cast<int32_t>(kFloatInfinityBits)) return false;
  for (int r = 0; r < rows; ++r) {
    const int32_t amax = operand.spec.per_token ? block.largest[r] : largest;
    const int e = e4m3_exponent(operand, bits_float(static_cast<uint32_t>(amax)));
    set_exponent(operand, head, first + r, e);
    encode_finite_e4m3_row(block.x[r], inverse_scale(e), kDim, codes_row(operand, head, first + r));
  }
  return true;
}

template <int kDim>
void quantize_e4m3_rows(const Operand& operand, int head, int64_t first, int rows,
                        const Rows<kDim>& block) {
  if (operand.spec.hadamard && quantize_e4m3_rotated(operand, head, first, rows, block)) return;
  const int shared =
      operand.spec.per_token ? 0 : e4m3_exponent(operand, rows_magnitude(block, rows));
  for (int r = 0; r < rows; ++r) {
    const int e =
        operand.spec.per_token ? e4m3_exponent(operand, row_magnitude(block.x[r], kDim)) : shared;
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
void quantize_block(const Operand& operand, int head, int64_t first, int rows,
                    const Rows<kDim>& block) {
  switch (operand.spec.scheme) {
    case Scheme::kE4m3:
      return quantize_e4m3_rows(operand, head, first, rows, block);
    case Scheme::kE2m1Token:
      return quantize_e2m1_token_rows(operand, head, first, rows, block);
    case Scheme::kNvfp4Channels:
      return quantize_nvfp4_channels(operand, head, first, rows, block);
    case Scheme::kNvfp4Tokens:
      return quantize_nvfp4_tokens(operand, head, first, rows, block);
    case Scheme::kMxfp4Channels:
      return quantize_mxfp4_channels(operand, head, first, rows, block);
    case Scheme::kMxfp4Tokens:
      return quantize_mxfp4_tokens(operand, head, first, rows, block);
    case Scheme::kBf16:
      return;
  }
}

/// One token block of kHeadsTogether heads at most.
template <int kDim>
void quantize_heads(const Operand& operand, int first_head, int heads, int64_t first, int rows,
                    Rows<kDim>* blocks) {
  bool left[kHeadsTogether];
  std::fill_n(left, heads, true);
  if (operand.spec.scheme == Scheme::kE4m3 && !operand.spec.hadamard) {
    quantize_e4m3_direct<kDim>(operand, first_head, heads, first, rows, left);
    if (std::none_of(left, left + heads, [](bool one) { return one; })) return;
  }
  read_rows(operand, first_head, heads, first, rows, blocks);
  for (int h = 0; h < heads; ++h) {
    if (left[h]) quantize_block(operand, first_head + h, first, rows, blocks[h]);
  }
}

template <int kDim>
void quantize_range(const Operand& operand, const TokenRange& range, Rows<kDim>* blocks) {
  for (int begin = 0; begin < range.count; begin += kTokenBlock) {
    const int rows = smaller(kTokenBlock, range.count - begin);
    for (int head = 0; head < operand.heads; head += kHeadsTogether) {
      quantize_heads<kDim>(operand, head, smaller(kHeadsTogether, operand.heads - head),
                           range.first + begin, rows, blocks);
    }
  }
}

template <int kDim>
void quantize_ranges(const Operand& operand, const std::vector<TokenRange>& ranges, int threads) {
  // Short documents share a work item, so that handing out items costs little.
  constexpr int64_t kRangesPerItem = 4;
  const int64_t count = static_cast<int64_t>(ranges.size());
  std::vector<std::unique_ptr<Rows<kDim>[]>> scratch(static_cast<size_t>(threads));
  parallel_for(ceil_div(count, kRangesPerItem), threads, [&](int64_t item, int worker) {
    std::unique_ptr<Rows<kDim>[]>& blocks = scratch[static_cast<size_t>(worker)];
    if (blocks == nullptr) blocks = std::make_unique<Rows<kDim>[]>(kHeadsTogether);
    const int64_t end = smaller((item + 1) * kRangesPerItem, count);
    for (int64_t r = item * kRangesPerItem; r < end; ++r) {
      quantize_range<kDim>(operand, ranges[static_cast<size_t>(r)], blocks.get());
    }
  });
}

}  // namespace

void quantize_operand(const Operand& operand, const std::vector<TokenRange>& ranges, int threads) {
  if (operand.spec.scheme == Scheme::kBf16) return;
  if (operand.dim == 128) {
    quantize_ranges<128>(operand, ranges, threads);
  } else {
    quantize_ranges<64>(operand, ranges, threads);
  }
}

}  // namespace flamia::cpu
