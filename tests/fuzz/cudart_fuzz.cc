// Hostile calls of the CUDA runtime: sequences of calls with null, freed and foreign pointers,
// sizes that wrap, kinds that do not exist, handles that are gone. Every call returns; the host's
// memory stays whole, which the sanitizers watch. Input: bytes: calls, each with its arguments.
// Pointers of the host are passed with sizes that fit it: that the program says what is not true of
// its own memory is no fault of the runtime.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "emulator/cudart/runtime.h"
#include "emulator/emulator.h"
#include "tests/fuzz/launch_input.h"

extern "C" {
void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name,
                            int limit, uint3* tid, uint3* bid, dim3* block, dim3* grid, int* size);
void __cudaRegisterVar(void** handle, char* host, char* address, const char* name, int external,
                       size_t bytes, int constant, int global);
}

namespace {

using flamia::emulator::fuzz::Input;
using flamia::emulator::fuzz::require;

constexpr char kPtx[] = R"(
.version 9.0
.target sm_90a
.address_size 64
.visible .global .align 4 .b8 counter[64];
.visible .const .align 4 .b8 table[64];
.visible .entry plain(.param .u64 p)
{ .reg .b64 %d<2>; ld.param.u64 %d1, [p]; st.global.u32 [%d1], 1; ret; }
.visible .entry clustered(.param .u64 p) .explicitcluster .reqnctapercluster 2, 1, 1 { ret; }
)";
constexpr uint32_t kHostBytes = 65536;
constexpr size_t kSlots = 8;
constexpr uint32_t kMostCalls = 32;

char symbols[4];

template <typename Number>
void put(std::string* bytes, size_t at, Number number) {
  std::memcpy(bytes->data() + at, &number, sizeof number);
}

const std::string& container() {
  static const std::string whole = [] {
    const size_t padded = (sizeof kPtx + 7) / 8 * 8;
    std::string bytes(80 + padded, '\0');
    put<uint32_t>(&bytes, 0, 0xba55ed50u);
    put<uint16_t>(&bytes, 4, 1);
    put<uint16_t>(&bytes, 6, 16);
    put<uint64_t>(&bytes, 8, 64 + padded);
    put<uint16_t>(&bytes, 16, 1);
    put<uint32_t>(&bytes, 20, 64);
    put<uint64_t>(&bytes, 24, padded);
    put<uint32_t>(&bytes, 44, 90);
    put<uint64_t>(&bytes, 56, 0x100000);
    std::memcpy(bytes.data() + 80, kPtx, sizeof kPtx - 1);
    return bytes;
  }();
  return whole;
}

void register_program() {
  static struct {
    uint32_t magic = 0x466243b1;
    uint32_t version = 1;
    const void* container = ::container().data();
    const void* prelinked = nullptr;
  } wrapper;
  void** const module = __cudaRegisterFatBinary(&wrapper);
  constexpr const char* kEntries[] = {"plain", "clustered"};
  for (int i = 0; i < 2; ++i) {
    __cudaRegisterFunction(module, &symbols[i], nullptr, kEntries[i], -1, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
  }
  __cudaRegisterVar(module, &symbols[2], nullptr, "counter", 0, 64, 0, 0);
  __cudaRegisterVar(module, &symbols[3], nullptr, "table", 0, 64, 1, 0);
  __cudaRegisterFatBinaryEnd(module);
}

/// What a program holds: pointers that live or are gone, its own memory, handles.
class Program {
 public:
  explicit Program(Input* input) : input_(*input), host_(kHostBytes) {}
  ~Program() { cudaHostUnregister(host_.data()); }
  void call();

 private:
  struct Region {
    void* pointer;
    bool of_host;
  };
  uint64_t small() { return input_.take(1); }
  uint64_t any() {
    const uint64_t choice = small();
    if (choice % 4 != 0) return small();
    return choice < 64 ? input_.take(3) : (choice < 128 ? ~small() : input_.take(8));
  }
  size_t slot() { return small() % kSlots; }
  Region region();
  /// A size for regions, small if one of them is the program's own memory.
  uint64_t size_for(bool of_host, uint64_t most) { return of_host ? any() % most : any(); }
  const void* symbol() { return small() % 8 == 0 ? nullptr : &symbols[small() % 4]; }
  cudaStream_t stream() {
    const uint64_t choice = small();
    return choice % 4 == 0 ? reinterpret_cast<cudaStream_t>(any()) : streams_[choice % kSlots];
  }
  cudaMemcpyKind kind() { return static_cast<cudaMemcpyKind>(static_cast<int>(small() % 7) - 1); }
  /// Few blocks and threads, or more than there can be: what lies between only takes time.
  uint32_t extent() {
    const uint64_t choice = small();
    return choice % 8 == 0 ? 0x80000000u | static_cast<uint32_t>(input_.take(4))
                           : static_cast<uint32_t>(choice % 8);
  }
  dim3 dim() {
    return {extent(), small() % 4 == 0 ? extent() : 1, small() % 4 == 0 ? extent() : 1};
  }
  void memory_call(uint64_t which);
  void copy_call(uint64_t which);
  void launch_call(uint64_t which);
  void stream_call(uint64_t which);
  void graph_call(uint64_t which);

  Input& input_;
  std::vector<uint8_t> host_;
  void* pointers_[kSlots] = {};
  cudaStream_t streams_[kSlots] = {};
  cudaEvent_t events_[kSlots] = {};
  cudaGraph_t graphs_[kSlots] = {};
  cudaGraphExec_t executables_[kSlots] = {};
};

Program::Region Program::region() {
  const uint64_t choice = small();
  switch (choice % 8) {
    case 0:
      return {host_.data(), true};
    case 1:
      return {nullptr, false};
    case 2: {  // inside of an allocation, or beside it
      void* const pointer = pointers_[choice >> 3 & 7];
      if (pointer == nullptr) return {host_.data(), true};
      return {static_cast<uint8_t*>(pointer) + any() % kHostBytes, false};
    }
    case 3:
      return {reinterpret_cast<void*>(flamia::emulator::kConstWindow + small()), false};
    default:
      return {pointers_[choice >> 3 & 7], false};
  }
}

void Program::memory_call(uint64_t which) {
  const size_t at = slot();
  switch (which) {
    case 0:
      cudaMalloc(small() % 16 == 0 ? nullptr : &pointers_[at], any());
      return;
    case 1:
      cudaFree(pointers_[at]);
      return;
    case 2: {
      size_t pitch = 0;
      cudaMallocPitch(&pointers_[at], &pitch, any(), any());
      return;
    }
    case 3:
      cudaHostRegister(small() % 4 == 0 ? reinterpret_cast<void*>(any()) : host_.data(),
                       small() % 2 == 0 ? kHostBytes : any(), static_cast<unsigned>(small() % 8));
      return;
    case 4:
      cudaHostUnregister(host_.data());
      return;
    case 5:
      cudaFree(reinterpret_cast<void*>(any()));
      cudaFreeHost(reinterpret_cast<void*>(any()));
      cudaFreeHost(pointers_[at]);
      return;
    case 6: {
      cudaPointerAttributes attributes;
      cudaPointerGetAttributes(small() % 16 == 0 ? nullptr : &attributes,
                               reinterpret_cast<const void*>(any()));
      return;
    }
    default:
      cudaMallocAsync(&pointers_[at], any(), stream());
      cudaFreeAsync(pointers_[slot()], stream());
      return;
  }
}

void Program::copy_call(uint64_t which) {
  const Region to = region(), from = region();
  // A device pointer whose block is gone, or a kind that does not fit, may be taken for the host's.
  const bool of_host = to.of_host || from.of_host;
  switch (which) {
    case 0:
      cudaMemcpy(to.pointer, from.pointer, size_for(of_host, 4096), kind());
      return;
    case 1:
      cudaMemcpy2D(to.pointer, size_for(of_host, 512), from.pointer, size_for(of_host, 512),
                   size_for(of_host, 512), size_for(of_host, 64), kind());
      return;
    case 2:
      cudaMemset(to.pointer, static_cast<int>(small()), any());
      return;
    case 3:
      cudaMemset2D(to.pointer, any(), static_cast<int>(small()), any(), any());
      return;
    case 4:
      cudaMemcpyToSymbol(symbol(), host_.data(), any() % kHostBytes, any(), kind());
      return;
    case 5:
      cudaMemcpyFromSymbol(host_.data(), symbol(), any() % kHostBytes, any(), kind());
      return;
    default:
      cudaMemcpyAsync(to.pointer, from.pointer, size_for(of_host, 4096), kind(), stream());
      return;
  }
}

void Program::launch_call(uint64_t which) {
  uint64_t argument = reinterpret_cast<uint64_t>(pointers_[slot()]);
  void* arguments[] = {&argument};
  const void* const function = symbol();
  switch (which) {
    case 0:
      cudaLaunchKernel(function, dim(), dim(), arguments, any(), stream());
      return;
    case 1: {
      cudaLaunchAttribute attribute = {};
      attribute.id = static_cast<cudaLaunchAttributeID>(small() % 16);
      attribute.val.clusterDim.x = static_cast<uint32_t>(any());
      attribute.val.clusterDim.y = attribute.val.clusterDim.z = static_cast<uint32_t>(small());
      cudaLaunchConfig_t config = {};
      config.gridDim = dim();
      config.blockDim = dim();
      config.dynamicSmemBytes = any();
      config.stream = stream();
      config.attrs = &attribute;
      config.numAttrs = 1;
      cudaLaunchKernelExC(small() % 16 == 0 ? nullptr : &config, function, arguments);
      return;
    }
    case 2:
      cudaFuncSetAttribute(function, static_cast<cudaFuncAttribute>(small()),
                           static_cast<int>(any()));
      return;
    case 3: {
      cudaFuncAttributes attributes;
      cudaFuncGetAttributes(small() % 16 == 0 ? nullptr : &attributes, function);
      return;
    }
    case 4: {
      int count = 0;
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, function, static_cast<int>(any()),
                                                    any());
      return;
    }
    default: {
      int value = 0;
      cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(small()), static_cast<int>(any()));
      cudaSetDevice(static_cast<int>(any()));
      return;
    }
  }
}

void Program::stream_call(uint64_t which) {
  const size_t at = slot();
  switch (which) {
    case 0:
      cudaStreamCreateWithPriority(&streams_[at], static_cast<unsigned>(small() % 4),
                                   static_cast<int>(any()));
      return;
    case 1:
      cudaStreamDestroy(stream());
      return;
    case 2:
      cudaEventCreateWithFlags(&events_[at], static_cast<unsigned>(small() % 16));
      return;
    case 3:
      cudaEventDestroy(events_[at]);
      return;
    case 4:
      cudaEventRecord(events_[at], stream());
      return;
    case 5:
      cudaStreamWaitEvent(stream(), events_[at], static_cast<unsigned>(small() % 4));
      return;
    case 6: {
      float time = 0;
      cudaEventElapsedTime(&time, events_[at], events_[slot()]);
      return;
    }
    default:
      cudaStreamSynchronize(stream());
      cudaDeviceSynchronize();
      return;
  }
}

void Program::graph_call(uint64_t which) {
  const size_t at = slot();
  switch (which) {
    case 0:
      cudaStreamBeginCapture(stream(), static_cast<cudaStreamCaptureMode>(small() % 4));
      return;
    case 1:
      cudaStreamEndCapture(stream(), small() % 16 == 0 ? nullptr : &graphs_[at]);
      return;
    case 2:
      cudaGraphInstantiate(&executables_[at], graphs_[slot()], small() % 4);
      return;
    case 3:
      cudaGraphLaunch(executables_[at], stream());
      return;
    case 4:
      cudaGraphDestroy(graphs_[at]);
      return;
    default:
      cudaGraphExecDestroy(executables_[at]);
      return;
  }
}

void Program::call() {
  const uint64_t which = small();
  switch (which % 5) {
    case 0:
      return memory_call(which / 5 % 8);
    case 1:
      return copy_call(which / 5 % 7);
    case 2:
      return launch_call(which / 5 % 6);
    case 3:
      return stream_call(which / 5 % 8);
    default:
      return graph_call(which / 5 % 6);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  flamia::emulator::cudart::Runtime::get().restart();
  register_program();
  Program program(&input);
  for (size_t i = 0; i < kMostCalls && input.is_left(); ++i) program.call();
  require(cudaPeekAtLastError() < cudaErrorApiFailureBase, "errors must be those of CUDA");
  return 0;
}
