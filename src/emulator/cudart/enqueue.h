// Work into a stream: run now, or recorded where the stream is being captured.
// Depends on: runtime.h. Used by: every call that gives work to a stream.
#pragma once

#include "emulator/cudart/runtime.h"

namespace flamia::emulator::cudart {

/// Runs or records work.
Outcome enqueue(Runtime& runtime, cudaStream_t stream, Work work);

/// The same for a call that waits for its end, which no capture can record.
Outcome enqueue_and_wait(Runtime& runtime, cudaStream_t stream, Work work);

/// Checks that a stream exists and that work may be given to it now; *capture: where it is
/// recorded, null if it runs.
Outcome open_stream(Runtime& runtime, cudaStream_t handle, Stream** stream, Capture** capture);

/// Runs work of any kind.
Outcome run_work(Runtime& runtime, const Work& work);

/// The clock of events.
double clock_milliseconds();

}  // namespace flamia::emulator::cudart
