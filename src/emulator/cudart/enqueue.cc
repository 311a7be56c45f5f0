// Running and recording.
#include "emulator/cudart/enqueue.h"

#include <chrono>
#include <utility>

#include "emulator/cudart/launch.h"
#include "emulator/cudart/transfer.h"

namespace flamia::emulator::cudart {
namespace {

struct Runner {
  Runtime& runtime;

  Outcome operator()(const KernelWork& work) const { return run_kernel(runtime, work); }
  Outcome operator()(const CopyWork& work) const { return run_copy(runtime, work); }
  Outcome operator()(const FillWork& work) const { return run_fill(runtime, work); }
  Outcome operator()(const HostWork& work) const {
    runtime.call_unlocked(work);
    return cudaSuccess;
  }
  Outcome operator()(const EventWork& work) const {
    if (runtime.streams.find_event(reinterpret_cast<cudaEvent_t>(work.event)) == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    if (!work.record) return cudaSuccess;
    work.event->recorded = true;
    work.event->capture_id = 0;
    work.event->milliseconds = clock_milliseconds();
    return cudaSuccess;
  }
  Outcome operator()(const EmptyWork&) const { return cudaSuccess; }
  Outcome operator()(const GraphWork& work) const {
    const std::shared_ptr<const Program> held = work.program;  // a host function may destroy it
    for (const auto& [node, step] : held->steps) {
      Outcome outcome = run_work(runtime, step);
      if (!outcome.ok()) return outcome;
    }
    return cudaSuccess;
  }
};

/// A copy that a stream is given must be right when it is enqueued.
Outcome check_work(Runtime& runtime, const Work& work) {
  if (const auto* copy = std::get_if<CopyWork>(&work)) return check_copy(runtime, *copy);
  if (const auto* fill = std::get_if<FillWork>(&work)) return check_fill(runtime, *fill);
  return cudaSuccess;
}

}  // namespace

double clock_milliseconds() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Outcome run_work(Runtime& runtime, const Work& work) { return std::visit(Runner{runtime}, work); }

Outcome open_stream(Runtime& runtime, cudaStream_t handle, Stream** stream, Capture** capture) {
  *stream = runtime.streams.find(handle);
  if (*stream == nullptr) return cudaErrorInvalidResourceHandle;
  *capture = (*stream)->capture;
  if (*capture != nullptr && (*capture)->invalid) return cudaErrorStreamCaptureInvalidated;
  if ((*stream)->is_legacy && runtime.streams.forbids_legacy()) {
    return cudaErrorStreamCaptureImplicit;
  }
  return cudaSuccess;
}

Outcome enqueue(Runtime& runtime, cudaStream_t handle, Work work) {
  Stream* stream = nullptr;
  Capture* capture = nullptr;
  Outcome outcome = open_stream(runtime, handle, &stream, &capture);
  if (!outcome.ok()) return outcome;
  outcome = check_work(runtime, work);
  if (!outcome.ok()) return outcome;
  if (capture == nullptr) return run_work(runtime, work);
  Node* node = capture->into().add(std::move(work), stream->ends);
  stream->ends = {node};
  return cudaSuccess;
}

Outcome enqueue_and_wait(Runtime& runtime, cudaStream_t handle, Work work) {
  const Stream* stream = runtime.streams.find(handle);
  if (stream != nullptr && stream->capture != nullptr) {
    stream->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return enqueue(runtime, handle, std::move(work));
}

}  // namespace flamia::emulator::cudart
