// Calls that nvcc's generated code makes: registration of fat binaries, kernels and variables, and
// the launch of `kernel<<<...>>>`.
#include <cstdint>
#include <vector>

#include "base/message.h"
#include "emulator/cudart/api.h"
#include "emulator/cudart/enqueue.h"
#include "emulator/cudart/launch.h"

namespace flamia::emulator::cudart {
namespace {

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
};

std::vector<CallConfiguration>& configurations() {
  thread_local std::vector<CallConfiguration> stack;
  return stack;
}

/// Registration runs before main: it needs no device and must not fail on one.
template <typename Body>
void register_call(const char* name, void** handle, Body body) {
  Runtime& runtime = Runtime::get();
  const std::lock_guard<std::mutex> lock(runtime.mutex);
  auto* module = reinterpret_cast<ModuleRecord*>(handle);
  if (!runtime.registry.is_module(module)) {
    print_line(concat(name, ": the handle must come from __cudaRegisterFatBinary; ignored"));
    return;
  }
  body(runtime, module);
}

cudaError_t launch(const char* name, const void* function, const LaunchShape& shape, void** args,
                   cudaStream_t stream) {
  return api_call(name, Needs::kDevice, [&](Runtime& runtime) {
    KernelWork work;
    Outcome outcome = make_kernel_work(runtime, function, shape, args, &work);
    return outcome.ok() ? enqueue(runtime, stream, std::move(work)) : outcome;
  });
}

LaunchShape shape_of(dim3 grid, dim3 block, size_t shared) {
  LaunchShape shape;
  shape.grid = grid;
  shape.block = block;
  shape.dynamic_shared = shared;
  return shape;
}

}  // namespace
}  // namespace flamia::emulator::cudart

using namespace flamia::emulator::cudart;  // NOLINT: this file is the C boundary

FLAMIA_VGPU_EXPORT void** __cudaRegisterFatBinary(void* wrapper) {
  Runtime& runtime = Runtime::get();
  const std::lock_guard<std::mutex> lock(runtime.mutex);
  return reinterpret_cast<void**>(runtime.registry.add_module(wrapper, true));
}

FLAMIA_VGPU_EXPORT void __cudaRegisterFatBinaryEnd(void** handle) {
  // Everything is loaded at its first use: all that there is to do is to know the handle.
  register_call("__cudaRegisterFatBinaryEnd", handle, [](Runtime&, ModuleRecord*) {});
}

FLAMIA_VGPU_EXPORT void __cudaUnregisterFatBinary(void** handle) {
  register_call("__cudaUnregisterFatBinary", handle, [](Runtime& runtime, ModuleRecord* module) {
    runtime.registry.unload(module, runtime.has_executor() ? &runtime.executor() : nullptr);
  });
}

FLAMIA_VGPU_EXPORT void __cudaRegisterFunction(void** handle, const char* host, char*,
                                               const char* name, int, uint3*, uint3*, dim3*, dim3*,
                                               int*) {
  register_call("__cudaRegisterFunction", handle, [&](Runtime& runtime, ModuleRecord* module) {
    runtime.registry.add_kernel(module, name, host);
  });
}

FLAMIA_VGPU_EXPORT void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int,
                                          size_t bytes, int, int) {
  register_call("__cudaRegisterVar", handle, [&](Runtime& runtime, ModuleRecord* module) {
    runtime.registry.add_variable(module, name, bytes, host);
  });
}

FLAMIA_VGPU_EXPORT void __cudaRegisterManagedVar(void** handle, void**, char*, const char* name,
                                                 int, size_t, int, int) {
  register_call("__cudaRegisterManagedVar", handle, [&](Runtime&, ModuleRecord*) {
    print_line(
        flamia::concat("__cudaRegisterManagedVar: __managed__ variables must not be used; got ",
                       name, " (the host would have to see every write of a kernel)"));
    std::abort();  // the program would dereference an address that nothing fills in
  });
}

FLAMIA_VGPU_EXPORT char __cudaInitModule(void** handle) {
  char known = 0;
  register_call("__cudaInitModule", handle, [&](Runtime&, ModuleRecord*) { known = 1; });
  return known;
}

FLAMIA_VGPU_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  // It runs in static initializers too, with modules that may have no PTX for this chip: the kernel
  // is only looked up, and loaded when it is launched.
  Runtime& runtime = Runtime::get();
  const std::lock_guard<std::mutex> lock(runtime.mutex);
  if (kernel == nullptr) return finish_call("__cudaGetKernel", cudaErrorInvalidValue);
  Kernel* found = runtime.registry.find_kernel(host);
  *kernel = reinterpret_cast<cudaKernel_t>(found);
  return finish_call("__cudaGetKernel",
                     found == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess);
}

FLAMIA_VGPU_EXPORT unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                            cudaStream_t stream) {
  configurations().push_back(CallConfiguration{grid, block, shared, stream});
  return 0;
}

FLAMIA_VGPU_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared,
                                                          void* stream) {
  std::vector<CallConfiguration>& stack = configurations();
  if (stack.empty()) {
    return finish_call("__cudaPopCallConfiguration", cudaErrorMissingConfiguration);
  }
  const CallConfiguration top = stack.back();
  stack.pop_back();
  if (grid == nullptr || block == nullptr || shared == nullptr || stream == nullptr) {
    return finish_call("__cudaPopCallConfiguration", cudaErrorInvalidValue);
  }
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

FLAMIA_VGPU_STREAM_CALL(__cudaLaunchKernel,
                        (cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                         size_t shared, cudaStream_t stream),
                        launch("__cudaLaunchKernel", kernel, shape_of(grid, block, shared),
                               arguments, stream))

FLAMIA_VGPU_STREAM_CALL(cudaLaunchKernel,
                        (const void* function, dim3 grid, dim3 block, void** arguments,
                         size_t shared, cudaStream_t stream),
                        launch("cudaLaunchKernel", function, shape_of(grid, block, shared),
                               arguments, stream))

namespace flamia::emulator::cudart {
namespace {

cudaError_t launch_cooperative(const void* function, LaunchShape shape, void** arguments,
                               cudaStream_t stream) {
  shape.cooperative = true;
  return launch("cudaLaunchCooperativeKernel", function, shape, arguments, stream);
}

cudaError_t launch_extended(const cudaLaunchConfig_t* config, const void* function,
                            void** arguments, bool own) {
  constexpr const char* kName = "cudaLaunchKernelExC";
  if (config == nullptr) return finish_call(kName, cudaErrorInvalidValue);
  LaunchShape shape = shape_of(config->gridDim, config->blockDim, config->dynamicSmemBytes);
  const Outcome outcome = read_attributes(config->attrs, config->numAttrs, &shape);
  if (!outcome.ok()) return finish_call(kName, outcome);
  return launch(kName, function, shape, arguments,
                own ? own_stream(config->stream) : config->stream);
}

}  // namespace
}  // namespace flamia::emulator::cudart

FLAMIA_VGPU_STREAM_CALL(cudaLaunchCooperativeKernel,
                        (const void* function, dim3 grid, dim3 block, void** arguments,
                         size_t shared, cudaStream_t stream),
                        launch_cooperative(function, shape_of(grid, block, shared), arguments,
                                           stream))

FLAMIA_VGPU_EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config,
                                                   const void* function, void** arguments) {
  return launch_extended(config, function, arguments, false);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config,
                                                        const void* function, void** arguments) {
  return launch_extended(config, function, arguments, true);
}
