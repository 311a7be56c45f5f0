// A quantized operand in the CPU backend's memory, and how a tile of it becomes floats.
// Paper: 3.1, 3.4, A.1. Used by: the quantizers and both passes.
#pragma once

#include <cstdint>

#include "cpu/arena.h"
#include "flamia/problem.h"

namespace flamia::cpu {

/// Format and scale scheme of one representation.
enum class Scheme : uint8_t {
  kBf16,           ///< the caller's tensor itself
  kE4m3,           ///< E4M3, one exponent per 32 tokens of a document (or per token)
  kNvfp4Channels,  ///< E2M1, UE4M3 scale per 16 channels, exponent per token
  kNvfp4Tokens,    ///< E2M1, UE4M3 scale per channel and 16 tokens, exponent per 32 tokens
  kMxfp4Channels,  ///< E2M1, power-of-two scale per 32 channels
  kMxfp4Tokens,    ///< E2M1, power-of-two scale per channel and 32 tokens
  kE2m1Token,      ///< E2M1, exponent per token
};

/// What decides the codes besides the input.
struct QuantizeSpec {
  Scheme scheme = Scheme::kE4m3;
  bool hadamard = false;      ///< rotate the head channels first
  bool per_token = false;     ///< exact safety: exponents per token instead of per block
  int headroom_exponent = 0;  ///< added to E4M3 exponents (f16 score accumulators)
};

constexpr int kPaddedExponents = 128;

/// Rows of bytes of every (head, token): [tokens, heads, ...], or [batch, length, heads, ...].
struct ByteRows {
  TensorView view;
  bool batched = false;

  uint8_t* at(int head, int64_t token) const {
    auto* base = static_cast<uint8_t*>(view.data);
    if (!batched) return base + token * view.stride[0] + head * view.stride[1];
    const int64_t length = view.shape[1];
    return base + token / length * view.stride[0] + token % length * view.stride[1] +
           head * view.stride[2];
  }
};

struct Operand {
  QuantizeSpec spec;
  int heads = 0;
  int dim = 0;
  int64_t tokens = 0;
  TensorView source;                         ///< the BF16 tensor
  ByteRows code_rows, exp_rows, scale_rows;  ///< where the quantizer writes
  uint8_t* codes = nullptr;                  ///< [heads][tokens][dim]
  int8_t* exp = nullptr;      ///< [heads][tokens]; null for schemes without exponents
  uint8_t* scales = nullptr;  ///< [heads][tokens][scale_columns()]

  bool has_exp() const {
    return spec.scheme != Scheme::kBf16 && spec.scheme != Scheme::kMxfp4Channels &&
           spec.scheme != Scheme::kMxfp4Tokens;
  }
  int scale_columns() const {
    switch (spec.scheme) {
      case Scheme::kNvfp4Channels:
        return dim / 16;
      case Scheme::kMxfp4Channels:
        return dim / 32;
      case Scheme::kNvfp4Tokens:
      case Scheme::kMxfp4Tokens:
        return dim;
      default:
        return 0;
    }
  }
  /// Exponents of count tokens copied into padded[0, kPaddedExponents), the rest filled with the
  /// smallest one, so that vector loops over a partial tile never read a neighbour's. Null (and
  /// nothing copied) for schemes without exponents.
  const int8_t* padded_exponents(int head, int64_t token, int count, int8_t* padded) const;
  /// Exponent of a token, 0 for schemes without one.
  int exponent(int head, int64_t token) const {
    return exp == nullptr ? 0 : exp[head * tokens + token];
  }
  const uint16_t* source_row(int head, int64_t token) const;
};

/// An operand with its arrays carved from the arena.
Operand make_operand(const QuantizeSpec& spec, const TensorView& source, int64_t tokens, int heads,
                     int dim, Arena& arena);

/// Row of a [T, H, D] or [B, L, H, D] tensor of 2-byte elements.
uint16_t* tensor_row(const TensorView& tensor, int head, int64_t token);

/// Whether the per-token exponent multiplies the values.
enum class Exponents : uint8_t { kApply, kLeave };

/// rows x dim values of tokens [first, first + rows), row-major with stride dim.
void load_tile(const Operand& operand, int head, int64_t first, int rows, Exponents exponents,
               float* out);

}  // namespace flamia::cpu
