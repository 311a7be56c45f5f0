// 2^x of the forward kernel's scores: the chip's, or for some columns the polynomial or the
// bit-level one.
// Paper: 3.5.2, 3.7. Used by: forward_math.cuh, forward_token_scales.cuh.
//
// Which columns is the numerics' choice, by pairs; a thread holds every fourth pair, so that one
// instruction serves columns of both kinds and computes both. So this costs time on this chip,
// where the default leaves nothing for it to gain; it is there for the numbers.
#pragma once

#include "kernels/hopper/forward_config.h"
#include "numerics/exp2.h"
#include "numerics/exp2_bitlevel.h"
#include "ptx/warp.cuh"

namespace flamia::hopper {

/// 2^x for a column of the pair 4 j + quad: columns 8 j + 2 quad and the next of a tile.
template <ForwardExponential kExponential>
FLAMIA_DEVICE float exponential(float x, int j, int quad) {
  const float exact = ptx::exp2_approximate(x);
  if constexpr (kExponential == ForwardExponential::kExact) {
    return exact;
  } else {
    const int pair = j % 2 * 4 + quad;  // of eight
    if constexpr (kExponential == ForwardExponential::kPolynomial) {
      const float polynomial = exp2_polynomial(x);
      return uses_polynomial(pair, kPolynomialPairsOf8) ? polynomial : exact;
    } else {
      const float schraudolph = schraudolph_exp2(x);
      return uses_schraudolph(2 * pair) ? schraudolph : exact;
    }
  }
}

}  // namespace flamia::hopper
