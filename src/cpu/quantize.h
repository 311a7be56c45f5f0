// Codes and scales of an operand, computed by the definitions of numerics/, documents apart.
// Paper: 3.1, 3.2, 3.5.1, 3.6.1, A.1, A.2. Used by: both passes, and quantize() of the API.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/operand.h"
#include "problem/packed_layout.h"

namespace flamia::cpu {

/// Up to kQuantizeTokens consecutive tokens of one document, starting at a multiple of that in it.
struct TokenRange {
  int64_t first = 0;
  int32_t count = 0;
};
constexpr int kQuantizeTokens = 128;

enum class Side : uint8_t { kQueries, kKeys };

/// The ranges of all documents, in order.
std::vector<TokenRange> token_ranges(const PackedLayout& layout, Side side);

/// Fills codes, exponents and scales of the operand for these ranges; does nothing for kBf16.
void quantize_operand(const Operand& operand, const std::vector<TokenRange>& ranges, int threads);

}  // namespace flamia::cpu
