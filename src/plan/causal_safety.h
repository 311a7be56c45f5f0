// Conventions to scale choices, and what each leaves of a causal leak, in words.
// Paper: 3.2, A.3, A.4 (causal-safety options). Used by: explain(). The choices themselves are made
// in plan/conventions.cc; leak probes in the tests hold these promises against the backends.
#pragma once

#include "flamia/conventions.h"

namespace flamia {

struct CausalSafety {
  const char* operand_exponents = "";  ///< what shares an exponent among Q, K, V, dO
  const char* ds_exponents = "";       ///< what shares an exponent among dS
  const char* dq_sums = "";            ///< how partial sums of dQ are scaled
  const char* o_residue = "";          ///< what a later token can change in earlier rows of O
  const char* dq_residue = "";         ///< the same for dQ, apart from the rounding of its sums
  const char* dq_sum_residue = "";     ///< what it can change through the rounding of dQ's sums
};

/// The row of a record; the residues say so where the mask is not causal.
CausalSafety causal_safety(const Conventions& conventions);

}  // namespace flamia
