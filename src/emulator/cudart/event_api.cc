// Calls for events. Their time is the host's: how long the virtual GPU took, not a GPU.
#include "emulator/cudart/api.h"
#include "emulator/cudart/enqueue.h"

namespace flamia::emulator::cudart {
namespace {

constexpr unsigned int kEventFlags =
    cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;

Outcome create_event(Runtime& runtime, cudaEvent_t* event, unsigned int flags) {
  if (event == nullptr || (flags & ~kEventFlags) != 0) return cudaErrorInvalidValue;
  if ((flags & cudaEventInterprocess) != 0) {
    return {cudaErrorNotSupported, "events must not be shared between processes"};
  }
  *event = reinterpret_cast<cudaEvent_t>(runtime.streams.create_event(flags));
  return cudaSuccess;
}

cudaError_t record_event(const char* name, cudaEvent_t handle, cudaStream_t stream_handle,
                         unsigned int flags) {
  return api_call(name, Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    Event* event = runtime.streams.find_event(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if ((flags & ~unsigned{cudaEventRecordExternal}) != 0) return cudaErrorInvalidValue;
    Stream* stream = nullptr;
    Capture* capture = nullptr;
    Outcome outcome = open_stream(runtime, stream_handle, &stream, &capture);
    if (!outcome.ok()) return outcome;
    if (capture == nullptr || flags == cudaEventRecordExternal) {
      return enqueue(runtime, stream_handle, EventWork{event, true});
    }
    event->recorded = true;
    event->capture_id = capture->id;
    event->ends = stream->ends;
    return cudaSuccess;
  });
}

cudaError_t wait_for_event(const char* name, cudaEvent_t handle) {
  return api_call(name, Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    const Event* event = runtime.streams.find_event(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->capture_id != 0) {
      Capture* capture = runtime.streams.find_capture(event->capture_id);
      if (capture == nullptr) return cudaErrorInvalidValue;
      capture->invalid = true;
      return cudaErrorCapturedEvent;
    }
    if (runtime.streams.forbids(thread_state().capture_mode)) {
      return cudaErrorStreamCaptureUnsupported;
    }
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace flamia::emulator::cudart

using namespace flamia::emulator::cudart;  // NOLINT: this file is the C boundary

FLAMIA_VGPU_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return api_call("cudaEventCreate", Needs::kDevice,
                  [&](Runtime& runtime) { return create_event(runtime, event, 0); });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return api_call("cudaEventCreateWithFlags", Needs::kDevice,
                  [&](Runtime& runtime) { return create_event(runtime, event, flags); });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api_call("cudaEventDestroy", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    Event* found = runtime.streams.find_event(event);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    runtime.streams.destroy_event(found);
    return cudaSuccess;
  });
}

FLAMIA_VGPU_STREAM_CALL(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream),
                        record_event("cudaEventRecord", event, stream, 0))
FLAMIA_VGPU_STREAM_CALL(cudaEventRecordWithFlags,
                        (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
                        record_event("cudaEventRecordWithFlags", event, stream, flags))

FLAMIA_VGPU_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  return wait_for_event("cudaEventQuery", event);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return wait_for_event("cudaEventSynchronize", event);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                                    cudaEvent_t end) {
  return api_call("cudaEventElapsedTime", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    for (const cudaEvent_t handle : {start, end}) {
      const Event* event = runtime.streams.find_event(handle);
      if (event == nullptr || !event->recorded || (event->flags & cudaEventDisableTiming) != 0) {
        return cudaErrorInvalidResourceHandle;
      }
      if (event->capture_id != 0) return cudaErrorCapturedEvent;
    }
    *milliseconds = static_cast<float>(runtime.streams.find_event(end)->milliseconds -
                                       runtime.streams.find_event(start)->milliseconds);
    return cudaSuccess;
  });
}
