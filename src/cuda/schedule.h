// Builds the packed layout and the forward work list on the device.
// Paper: 3.6.1, 3.6.2, B.6. Used by: the CUDA backend, once per set of lengths (a training step).
#pragma once

#include <cstddef>
#include <cstdint>

#include "flamia/status.h"
#include "plan/kernel_info.h"

namespace flamia::cuda {

/// Bytes of ScheduleArgs::scratch for any lengths of so many documents in so many tokens; 0 if
/// build_schedule() refuses such sizes. The scratch is free again when the launches are done.
size_t schedule_scratch_bytes(int64_t query_tokens, int64_t key_tokens, int64_t documents);

/// Enqueues three to five launches on `stream` (a cudaStream_t), their number and grids chosen by
/// capacities alone. Allocates nothing, reads no lengths, waits for nothing: may be captured.
/// Both block tables of the schedule may be one; then both sides must be the same.
/// Pointers are multiples of 16 bytes. Contents: schedule/work_list.h.
Status build_schedule(const ScheduleArgs& args, void* stream);

}  // namespace flamia::cuda
