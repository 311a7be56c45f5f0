// Calls for streams: making them, waiting, host functions, capture.
#include <algorithm>
#include <thread>
#include <utility>

#include "emulator/cudart/api.h"
#include "emulator/cudart/chip.h"
#include "emulator/cudart/enqueue.h"

namespace flamia::emulator::cudart {
namespace {

Outcome create_stream(Runtime& runtime, cudaStream_t* stream, unsigned int flags, int priority) {
  if (stream == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
    return cudaErrorInvalidValue;
  }
  const int clamped = std::max(kGreatestPriority, std::min(0, priority));
  *stream = reinterpret_cast<cudaStream_t>(runtime.streams.create(flags, clamped));
  return cudaSuccess;
}

bool is_created(cudaStream_t stream) {
  return stream != nullptr && stream != cudaStreamLegacy && stream != cudaStreamPerThread;
}

/// A question about a stream, which every stream answers.
template <typename Value, typename Answer>
cudaError_t ask(const char* name, cudaStream_t stream, Value* value, Answer answer) {
  return api_call(name, Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    const Stream* found = runtime.streams.find(stream);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    if (value == nullptr) return cudaErrorInvalidValue;
    *value = answer(*found);
    return cudaSuccess;
  });
}

/// Everything that was enqueued has run: to wait is to check that waiting is allowed.
cudaError_t wait_stream(const char* name, cudaStream_t stream) {
  return api_call(name, Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    const Stream* found = runtime.streams.find(stream);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    if (found->capture != nullptr) {
      found->capture->invalid = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    if (found->is_legacy && runtime.streams.forbids_legacy()) {
      return cudaErrorStreamCaptureImplicit;
    }
    if (runtime.streams.forbids(thread_state().capture_mode)) {
      return cudaErrorStreamCaptureUnsupported;
    }
    return cudaSuccess;
  });
}

Outcome wait_event(Runtime& runtime, cudaStream_t handle, cudaEvent_t event_handle,
                   unsigned int flags) {
  Event* event = runtime.streams.find_event(event_handle);
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  if ((flags & ~unsigned{cudaEventWaitExternal}) != 0) return cudaErrorInvalidValue;
  if (flags == cudaEventWaitExternal) return enqueue(runtime, handle, EventWork{event, false});
  Stream* stream = nullptr;
  Capture* capture = nullptr;
  Outcome outcome = open_stream(runtime, handle, &stream, &capture);
  if (!outcome.ok()) return outcome;
  if (event->capture_id == 0) {
    if (capture == nullptr || !event->recorded) return cudaSuccess;
    capture->invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  Capture* source = runtime.streams.find_capture(event->capture_id);
  if (source == nullptr) return cudaErrorInvalidValue;
  if (source->invalid) return cudaErrorStreamCaptureInvalidated;
  if (stream->is_legacy) {
    source->invalid = true;
    return cudaErrorStreamCaptureImplicit;
  }
  if (capture == nullptr) {
    runtime.streams.join(source, stream, event->ends);
    return cudaSuccess;
  }
  if (capture != source) {
    capture->invalid = source->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  for (Node* node : event->ends) {
    if (std::find(stream->ends.begin(), stream->ends.end(), node) == stream->ends.end()) {
      stream->ends.push_back(node);
    }
  }
  return cudaSuccess;
}

cudaError_t host_function(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return api_call("cudaLaunchHostFunc", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if (function == nullptr) return cudaErrorInvalidValue;
    return enqueue(runtime, stream, HostWork{function, data});
  });
}

struct CallbackData {
  cudaStreamCallback_t callback;
  cudaStream_t stream;
  void* data;
};

void call_back(void* data) {
  const auto* call = static_cast<const CallbackData*>(data);
  call->callback(call->stream, cudaSuccess, call->data);
}

cudaError_t add_callback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                         unsigned int flags) {
  return api_call("cudaStreamAddCallback", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if (callback == nullptr || flags != 0) return cudaErrorInvalidValue;
    CallbackData call{callback, stream, data};
    return enqueue_and_wait(runtime, stream, HostWork{&call_back, &call});
  });
}

Outcome begin_capture(Runtime& runtime, cudaStream_t handle, Graph* target,
                      cudaStreamCaptureMode mode) {
  Stream* stream = runtime.streams.find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed) {
    return cudaErrorInvalidValue;
  }
  if (stream->is_legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  runtime.streams.begin_capture(stream, mode, target);
  return cudaSuccess;
}

/// What a capture is refused for when it ends; success if it is a graph.
cudaError_t capture_error(const Capture& capture) {
  if (capture.mode != cudaStreamCaptureModeRelaxed &&
      capture.thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  if (capture.invalid) return cudaErrorStreamCaptureInvalidated;
  for (const Stream* stream : capture.streams) {
    for (const Node* end : stream->ends) {
      if (!reaches(capture.origin->ends, end)) return cudaErrorStreamCaptureUnjoined;
    }
  }
  return cudaSuccess;
}

cudaError_t end_capture(cudaStream_t handle, cudaGraph_t* graph) {
  return api_call("cudaStreamEndCapture", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    Stream* stream = runtime.streams.find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (graph == nullptr) return cudaErrorInvalidValue;
    *graph = nullptr;
    Capture* capture = stream->capture;
    if (capture == nullptr) return cudaErrorIllegalState;
    if (capture->origin != stream) {
      capture->invalid = true;
      return cudaErrorStreamCaptureUnmatched;
    }
    const cudaError_t error = capture_error(*capture);
    std::unique_ptr<Capture> ended = runtime.streams.end_capture(capture);
    if (error != cudaSuccess) return error;
    Graph* captured = &ended->into();
    if (ended->target == nullptr) runtime.graphs[captured] = std::move(ended->graph);
    *graph = reinterpret_cast<cudaGraph_t>(captured);
    return cudaSuccess;
  });
}

cudaError_t begin_capture_call(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return api_call("cudaStreamBeginCapture", Needs::kDevice,
                  [&](Runtime& runtime) { return begin_capture(runtime, stream, nullptr, mode); });
}

cudaStreamCaptureStatus capture_status(const Stream& stream) {
  if (stream.capture == nullptr) return cudaStreamCaptureStatusNone;
  return stream.capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
}

cudaError_t capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status,
                         unsigned long long* id, cudaGraph_t* graph,
                         const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                         size_t* count) {
  return api_call("cudaStreamGetCaptureInfo", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    Stream* found = runtime.streams.find(stream);
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    if (status == nullptr) return cudaErrorInvalidValue;
    if (found->is_legacy && runtime.streams.forbids_legacy()) {
      return cudaErrorStreamCaptureImplicit;
    }
    *status = capture_status(*found);
    if (edges != nullptr) *edges = nullptr;
    if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
    if (id != nullptr) *id = found->capture->id;
    if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(&found->capture->into());
    if (count != nullptr) *count = found->ends.size();
    if (dependencies != nullptr) {
      *dependencies = reinterpret_cast<const cudaGraphNode_t*>(found->ends.data());
    }
    return cudaSuccess;
  });
}

cudaError_t wait_event_call(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return api_call("cudaStreamWaitEvent", Needs::kDevice,
                  [&](Runtime& runtime) { return wait_event(runtime, stream, event, flags); });
}

}  // namespace
}  // namespace flamia::emulator::cudart

using namespace flamia::emulator::cudart;  // NOLINT: this file is the C boundary

FLAMIA_VGPU_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return api_call("cudaStreamCreate", Needs::kDevice,
                  [&](Runtime& runtime) { return create_stream(runtime, stream, 0, 0); });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return api_call("cudaStreamCreateWithFlags", Needs::kDevice,
                  [&](Runtime& runtime) { return create_stream(runtime, stream, flags, 0); });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream,
                                                            unsigned int flags, int priority) {
  return api_call("cudaStreamCreateWithPriority", Needs::kDevice, [&](Runtime& runtime) {
    return create_stream(runtime, stream, flags, priority);
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return api_call("cudaStreamDestroy", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    Stream* found = is_created(stream) ? runtime.streams.find(stream) : nullptr;
    if (found == nullptr) return cudaErrorInvalidResourceHandle;
    runtime.streams.destroy(found);
    return cudaSuccess;
  });
}

FLAMIA_VGPU_STREAM_CALL(cudaStreamSynchronize, (cudaStream_t stream),
                        wait_stream("cudaStreamSynchronize", stream))
FLAMIA_VGPU_STREAM_CALL(cudaStreamQuery, (cudaStream_t stream),
                        wait_stream("cudaStreamQuery", stream))
FLAMIA_VGPU_STREAM_CALL(cudaStreamGetPriority, (cudaStream_t stream, int* priority),
                        ask("cudaStreamGetPriority", stream, priority,
                            [](const Stream& found) { return found.priority; }))
FLAMIA_VGPU_STREAM_CALL(cudaStreamGetFlags, (cudaStream_t stream, unsigned int* flags),
                        ask("cudaStreamGetFlags", stream, flags,
                            [](const Stream& found) { return found.flags; }))
FLAMIA_VGPU_STREAM_CALL(cudaStreamGetId, (cudaStream_t stream, unsigned long long* id),
                        ask("cudaStreamGetId", stream, id,
                            [](const Stream& found) { return found.id; }))
FLAMIA_VGPU_STREAM_CALL(cudaStreamGetDevice, (cudaStream_t stream, int* device),
                        ask("cudaStreamGetDevice", stream, device, [](const Stream&) { return 0; }))
FLAMIA_VGPU_STREAM_CALL(cudaStreamIsCapturing,
                        (cudaStream_t stream, cudaStreamCaptureStatus* status),
                        ask("cudaStreamIsCapturing", stream, status, &capture_status))
FLAMIA_VGPU_STREAM_CALL(cudaStreamWaitEvent,
                        (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
                        wait_event_call(stream, event, flags))
FLAMIA_VGPU_STREAM_CALL(cudaLaunchHostFunc,
                        (cudaStream_t stream, cudaHostFn_t function, void* data),
                        host_function(stream, function, data))
FLAMIA_VGPU_STREAM_CALL(cudaStreamAddCallback,
                        (cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                         unsigned int flags),
                        add_callback(stream, callback, data, flags))
FLAMIA_VGPU_STREAM_CALL(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode),
                        begin_capture_call(stream, mode))
FLAMIA_VGPU_STREAM_CALL(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t* graph),
                        end_capture(stream, graph))
FLAMIA_VGPU_STREAM_CALL(cudaStreamGetCaptureInfo,
                        (cudaStream_t stream, cudaStreamCaptureStatus* status,
                         unsigned long long* id, cudaGraph_t* graph,
                         const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                         size_t* count),
                        capture_info(stream, status, id, graph, dependencies, edges, count))

FLAMIA_VGPU_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return api_call("cudaThreadExchangeStreamCaptureMode", Needs::kDevice, [&](Runtime&) -> Outcome {
    if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal ||
        *mode > cudaStreamCaptureModeRelaxed) {
      return cudaErrorInvalidValue;
    }
    std::swap(*mode, thread_state().capture_mode);
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api_call("cudaDeviceGetStreamPriorityRange", Needs::kDevice, [&](Runtime&) -> Outcome {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = kGreatestPriority;
    return cudaSuccess;
  });
}
