// Calls that copy and fill: of one row and of two dimensions, by symbol, between equal devices.
#include "emulator/cudart/api.h"
#include "emulator/cudart/enqueue.h"
#include "emulator/cudart/transfer.h"

namespace flamia::emulator::cudart {
namespace {

enum class Wait : uint8_t { kNo, kYes };

CopyWork row_copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  CopyWork work;
  work.to = to;
  work.from = from;
  work.width = bytes;
  work.kind = kind;
  return work;
}

cudaError_t give(const char* name, Wait wait, Work work, cudaStream_t stream) {
  return api_call(name, Needs::kDevice, [&](Runtime& runtime) {
    return wait == Wait::kYes ? enqueue_and_wait(runtime, stream, std::move(work))
                              : enqueue(runtime, stream, std::move(work));
  });
}

cudaError_t copy(const char* name, Wait wait, void* to, const void* from, size_t bytes,
                 cudaMemcpyKind kind, cudaStream_t stream) {
  return give(name, wait, row_copy(to, from, bytes, kind), stream);
}

cudaError_t copy_2d(const char* name, Wait wait, void* to, size_t to_pitch, const void* from,
                    size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind,
                    cudaStream_t stream) {
  CopyWork work = row_copy(to, from, width, kind);
  work.height = height;
  work.to_pitch = to_pitch;
  work.from_pitch = from_pitch;
  return give(name, wait, work, stream);
}

cudaError_t fill(const char* name, Wait wait, void* to, size_t pitch, int value, size_t width,
                 size_t height, cudaStream_t stream) {
  FillWork work;
  work.to = to;
  work.pitch = pitch;
  work.value = static_cast<uint32_t>(value) & 0xffu;
  work.width = width;
  work.height = height;
  return give(name, wait, work, stream);
}

/// A copy to or from a variable; its other side may be host or device memory.
cudaError_t copy_symbol(const char* name, Wait wait, bool to_symbol, const void* symbol,
                        const void* other, size_t bytes, size_t offset, cudaMemcpyKind kind,
                        cudaStream_t stream) {
  return api_call(name, Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    const cudaMemcpyKind host_kind = to_symbol ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    if (kind != host_kind && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) {
      return cudaErrorInvalidMemcpyDirection;
    }
    void* data = nullptr;
    const Outcome outcome = locate_symbol(runtime, symbol, offset, bytes, &data);
    if (!outcome.ok()) return outcome;
    if (other == nullptr && bytes != 0) return cudaErrorInvalidValue;
    const CopyWork work = to_symbol
                              ? row_copy(data, other, bytes, cudaMemcpyDefault)
                              : row_copy(const_cast<void*>(other), data, bytes, cudaMemcpyDefault);
    return wait == Wait::kYes ? enqueue_and_wait(runtime, stream, work)
                              : enqueue(runtime, stream, work);
  });
}

cudaError_t copy_peer(const char* name, Wait wait, void* to, int to_device, const void* from,
                      int from_device, size_t bytes, cudaStream_t stream) {
  if (to_device != 0 || from_device != 0) return finish_call(name, cudaErrorInvalidDevice);
  return copy(name, wait, to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

}  // namespace
}  // namespace flamia::emulator::cudart

using namespace flamia::emulator::cudart;  // NOLINT: this file is the C boundary

FLAMIA_VGPU_DEFAULT_STREAM_CALL(cudaMemcpy,
                                (void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
                                copy("cudaMemcpy", Wait::kYes, to, from, bytes, kind, stream))
FLAMIA_VGPU_STREAM_CALL(cudaMemcpyAsync,
                        (void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                         cudaStream_t stream),
                        copy("cudaMemcpyAsync", Wait::kNo, to, from, bytes, kind, stream))
FLAMIA_VGPU_DEFAULT_STREAM_CALL(cudaMemcpy2D,
                                (void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                 size_t width, size_t height, cudaMemcpyKind kind),
                                copy_2d("cudaMemcpy2D", Wait::kYes, to, to_pitch, from, from_pitch,
                                        width, height, kind, stream))
FLAMIA_VGPU_STREAM_CALL(cudaMemcpy2DAsync,
                        (void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                        copy_2d("cudaMemcpy2DAsync", Wait::kNo, to, to_pitch, from, from_pitch,
                                width, height, kind, stream))
FLAMIA_VGPU_DEFAULT_STREAM_CALL(cudaMemcpyToSymbol,
                                (const void* symbol, const void* from, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind),
                                copy_symbol("cudaMemcpyToSymbol", Wait::kYes, true, symbol, from,
                                            bytes, offset, kind, stream))
FLAMIA_VGPU_STREAM_CALL(cudaMemcpyToSymbolAsync,
                        (const void* symbol, const void* from, size_t bytes, size_t offset,
                         cudaMemcpyKind kind, cudaStream_t stream),
                        copy_symbol("cudaMemcpyToSymbolAsync", Wait::kNo, true, symbol, from, bytes,
                                    offset, kind, stream))
FLAMIA_VGPU_DEFAULT_STREAM_CALL(cudaMemcpyFromSymbol,
                                (void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind),
                                copy_symbol("cudaMemcpyFromSymbol", Wait::kYes, false, symbol, to,
                                            bytes, offset, kind, stream))
FLAMIA_VGPU_STREAM_CALL(cudaMemcpyFromSymbolAsync,
                        (void* to, const void* symbol, size_t bytes, size_t offset,
                         cudaMemcpyKind kind, cudaStream_t stream),
                        copy_symbol("cudaMemcpyFromSymbolAsync", Wait::kNo, false, symbol, to,
                                    bytes, offset, kind, stream))

FLAMIA_VGPU_EXPORT cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from,
                                              int from_device, size_t bytes) {
  return copy_peer("cudaMemcpyPeer", Wait::kYes, to, to_device, from, from_device, bytes, nullptr);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from,
                                                   int from_device, size_t bytes,
                                                   cudaStream_t stream) {
  return copy_peer("cudaMemcpyPeerAsync", Wait::kNo, to, to_device, from, from_device, bytes,
                   stream);
}

FLAMIA_VGPU_DEFAULT_STREAM_CALL(cudaMemset, (void* to, int value, size_t bytes),
                                fill("cudaMemset", Wait::kYes, to, 0, value, bytes, 1, stream))
FLAMIA_VGPU_STREAM_CALL(cudaMemsetAsync, (void* to, int value, size_t bytes, cudaStream_t stream),
                        fill("cudaMemsetAsync", Wait::kNo, to, 0, value, bytes, 1, stream))
FLAMIA_VGPU_DEFAULT_STREAM_CALL(cudaMemset2D,
                                (void* to, size_t pitch, int value, size_t width, size_t height),
                                fill("cudaMemset2D", Wait::kYes, to, pitch, value, width, height,
                                     stream))
FLAMIA_VGPU_STREAM_CALL(cudaMemset2DAsync,
                        (void* to, size_t pitch, int value, size_t width, size_t height,
                         cudaStream_t stream),
                        fill("cudaMemset2DAsync", Wait::kNo, to, pitch, value, width, height,
                             stream))
