// Options to conventions and back: how every automatic choice is resolved.
// Paper: 3.3. Depends on: the rows of problem/paths.def, the (c, tau) pairs of numerics/p_hat.h.
// Used by: plan_forward(), plan_backward(). The record itself is flamia/conventions.h.
#pragma once

#include <cstdint>

#include "base/refusals.h"
#include "flamia/conventions.h"
#include "flamia/options.h"
#include "flamia/problem.h"

namespace flamia {

/// Multiplier S of P and the rescale threshold tau.
struct PScale {
  float s = 0.0f;
  float tau = 0.0f;
};

/// Whether P is multiplied by a factor S before its cast; the other forms of P-hat have scales of
/// their own (numerics/p_hat.h) or need none.
bool takes_p_scale(Path path, Family family);

/// S and tau of these options: as given, else the default of path and family.
PScale resolve_p_scale(const Options& options);
Accumulate resolve_accumulate(const Options& options, BackendKind backend);
GradProducts resolve_grad_products(const Options& options);
DqAccumulate resolve_dq_accumulate(const Options& options);

/// The record of a forward call on a backend, which is not kAuto. problem and options must have
/// passed plan/support.h.
Conventions resolve(const Problem& problem, const Options& options,
                    BackendKind backend = BackendKind::kCpu);

/// Options that resolve() turns into this record again. conventions must have passed
/// check_conventions().
Options options_of(const Conventions& conventions);

/// Factor that turns raw scores into exponents of two under these conventions.
float score_multiplier_of(const Conventions& conventions);

/// FNV-1a of the bytes of the record before its checksum.
uint32_t checksum_of(const Conventions& conventions);

/// Refuses a record that no forward call of this problem writes: it may come from a file, from C,
/// or from another call.
Status check_conventions(const char* function, const Problem& problem,
                         const Conventions& conventions);

/// Refuses a record whose choices may all be possible, but were changed since: the last check.
Status check_unchanged(const char* function, const Conventions& conventions);

}  // namespace flamia
