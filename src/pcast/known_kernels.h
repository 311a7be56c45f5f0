// Order of the key blocks and scale of P in kernels that people use, and in ours.
// Paper: P-Cast Table 3. Depends on: numerics/p_hat.h for ours. Used by: recommend.
// The paper does not give block sizes; its own simulation has 64 keys, and so have these rows.
#pragma once

#include <span>

#include "pcast/cast_kernel.h"

namespace flamia::pcast {

struct KnownKernel {
  const char* name;
  CastKernel kernel;
  const char* note;  ///< what the paper says of it; of ours: what differs from Algorithm 1
};

std::span<const KnownKernel> known_kernels();

/// "forward" or "reverse".
const char* order_name(KeyOrder order);

}  // namespace flamia::pcast
