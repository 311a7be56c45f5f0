// One operand of an offender: decoded values by head, and the exponents that a fold needs.
// Paper: 3.1, 3.2. Depends on: numerics/*. Used by: offender.cc, tests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "audit/offender.h"

namespace flamia::audit {

/// The tensor as it comes: [tokens, heads, head_dim] BF16.
struct OperandSource {
  const std::vector<uint16_t>* values;
  int64_t tokens;
  int32_t heads;
  int32_t head_dim;
  std::span<const int32_t> cu_seqlens;
};

struct DecodedOperand {
  int64_t tokens = 0;
  int32_t head_dim = 0;
  std::vector<float> values;       ///< [heads, tokens, head_dim], codes times scales
  std::vector<int32_t> exponents;  ///< [heads, tokens]; empty unless a token has a single one

  const float* row(int32_t head, int64_t token) const {
    return values.data() + (head * tokens + token) * head_dim;
  }
  const int32_t* exponents_of(int32_t head) const { return exponents.data() + head * tokens; }
};

/// Quantizes and decodes. Tokens outside every document are left zero.
DecodedOperand quantize_operand(const OperandRule& rule, const OperandSource& source);

}  // namespace flamia::audit
