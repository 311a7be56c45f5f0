// The GPU backends.
// Used by: api. Present in builds with device code only.
#pragma once

#include "backend/backend.h"

namespace flamia::cuda {

/// Forward attention on GPUs of compute capability 9.0. Enqueues its work on the stream of
/// the call and returns: it allocates nothing, waits for nothing and reads no lengths on the host,
/// so that a call may be captured into a graph and replayed with other lengths in the same buffer.
const Backend& hopper_backend();

}  // namespace flamia::cuda
