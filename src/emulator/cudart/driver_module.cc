// Driver calls for modules, kernels, launches and tensor maps.
#include <cstring>
#include <utility>

#include "base/message.h"
#include "emulator/cudart/driver.h"
#include "emulator/cudart/enqueue.h"
#include "emulator/cudart/function_attributes.h"
#include "emulator/cudart/launch.h"
#include "emulator/tma/tensor_map.h"

namespace flamia::emulator::cudart {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243b1;
constexpr uint32_t kContainerMagic = 0xba55ed50;
constexpr uint32_t kElfMagic = 0x464c457f;

Outcome load_module(Runtime& runtime, CUmodule* out, const void* image) {
  if (out == nullptr || image == nullptr) return cudaErrorInvalidValue;
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof(magic));
  if (magic == kElfMagic) {
    return {cudaErrorNoKernelImageForDevice, "a module must be PTX or a fat binary; got a cubin"};
  }
  const bool is_binary = magic == kWrapperMagic || magic == kContainerMagic;
  ModuleRecord* module =
      is_binary ? runtime.registry.add_module(image, magic == kWrapperMagic)
                : runtime.registry.add_text(std::string(static_cast<const char*>(image)));
  // The image may go after this call, so that it is loaded now.
  module->is_borrowed = true;
  Outcome outcome = runtime.registry.load(runtime.executor(), module);
  if (outcome.ok()) {
    *out = reinterpret_cast<CUmodule>(module);
  } else {
    runtime.registry.unload(module, &runtime.executor());
  }
  return outcome;
}

template <typename Body>
CUresult module_call(const char* name, CUmodule handle, Body body) {
  return driver_call(name, Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if (!runtime.registry.is_module(handle)) return cudaErrorInvalidResourceHandle;
    auto* module = reinterpret_cast<ModuleRecord*>(handle);
    const Outcome outcome = runtime.registry.load(runtime.executor(), module);
    return outcome.ok() ? body(runtime, module) : outcome;
  });
}

/// Launches with parameters one by one, or as one block in `extra`.
Outcome launch(Runtime& runtime, CUfunction function, const LaunchShape& shape, void** parameters,
               void** extra, CUstream stream) {
  KernelWork work;
  Outcome outcome;
  if (extra == nullptr) {
    outcome = make_kernel_work(runtime, function, shape, parameters, &work);
  } else {
    const void* block = nullptr;
    const size_t* bytes = nullptr;
    for (void** entry = extra; *entry != CU_LAUNCH_PARAM_END; entry += 2) {
      if (*entry == CU_LAUNCH_PARAM_BUFFER_POINTER) {
        block = entry[1];
      } else if (*entry == CU_LAUNCH_PARAM_BUFFER_SIZE) {
        bytes = static_cast<const size_t*>(entry[1]);
      } else {
        return cudaErrorInvalidValue;
      }
    }
    if (bytes == nullptr || parameters != nullptr) return cudaErrorInvalidValue;
    outcome = make_packed_work(runtime, function, shape, block, *bytes, &work);
  }
  return outcome.ok() ? enqueue(runtime, stream, std::move(work)) : outcome;
}

int attribute_value(const cudaFuncAttributes& from, CUfunction_attribute attribute, bool* known) {
  *known = true;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return from.maxThreadsPerBlock;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return static_cast<int>(from.sharedSizeBytes);
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      return static_cast<int>(from.constSizeBytes);
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      return static_cast<int>(from.localSizeBytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return from.numRegs;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      return from.ptxVersion;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return from.binaryVersion;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      return from.cacheModeCA;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return from.maxDynamicSharedSizeBytes;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return from.preferredShmemCarveout;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      return from.clusterDimMustBeSet;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      return from.requiredClusterWidth;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      return from.requiredClusterHeight;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      return from.requiredClusterDepth;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      return from.nonPortableClusterSizeAllowed;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return from.clusterSchedulingPolicyPreference;
    default:
      *known = false;
      return 0;
  }
}

EncodeTiledArguments tiled_arguments(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                     const void* address) {
  EncodeTiledArguments arguments;
  arguments.map = map;
  arguments.type = static_cast<uint32_t>(type);
  arguments.rank = rank;
  arguments.address = reinterpret_cast<uint64_t>(address);
  return arguments;
}

}  // namespace
}  // namespace flamia::emulator::cudart

using namespace flamia::emulator::cudart;  // NOLINT: this file is the C boundary

FLAMIA_VGPU_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return driver_call("cuModuleLoadData", Needs::kDevice,
                     [&](Runtime& runtime) { return load_module(runtime, module, image); });
}

FLAMIA_VGPU_EXPORT CUresult cuModuleUnload(CUmodule handle) {
  return module_call("cuModuleUnload", handle, [](Runtime& runtime, ModuleRecord* module) {
    runtime.registry.unload(module, &runtime.executor());
    return Outcome();
  });
}

FLAMIA_VGPU_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle,
                                                const char* name) {
  return module_call(
      "cuModuleGetFunction", handle, [&](Runtime& runtime, ModuleRecord* module) -> Outcome {
        if (function == nullptr || name == nullptr) return cudaErrorInvalidValue;
        const auto& code = module->loaded->module;
        const uint32_t index = code.find_function(name);
        if (index == flamia::emulator::ptx::kNoIndex || !code.functions[index].is_entry) {
          return cudaErrorSymbolNotFound;
        }
        *function =
            reinterpret_cast<CUfunction>(runtime.registry.add_kernel(module, name, nullptr));
        return cudaSuccess;
      });
}

FLAMIA_VGPU_EXPORT CUresult cuModuleGetGlobal(CUdeviceptr* address, size_t* bytes, CUmodule handle,
                                              const char* name) {
  return module_call("cuModuleGetGlobal", handle, [&](Runtime&, ModuleRecord* module) -> Outcome {
    if (name == nullptr) return cudaErrorInvalidValue;
    const uint32_t index = module->loaded->module.find_variable(name);
    if (index == flamia::emulator::ptx::kNoIndex) return cudaErrorSymbolNotFound;
    if (address != nullptr) *address = module->loaded->variable_address[index];
    if (bytes != nullptr) *bytes = module->loaded->module.variables[index].bytes;
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                               CUfunction function) {
  const KeepLastError keep;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, function);
  if (error != cudaSuccess) return to_result(error);
  bool known = false;
  const int found = attribute_value(attributes, attribute, &known);
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  *value = found;
  return CUDA_SUCCESS;
}

FLAMIA_VGPU_EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                               int value) {
  const KeepLastError keep;
  return to_result(
      cudaFuncSetAttribute(function, static_cast<cudaFuncAttribute>(attribute), value));
}

FLAMIA_VGPU_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x,
                                           unsigned int grid_y, unsigned int grid_z,
                                           unsigned int block_x, unsigned int block_y,
                                           unsigned int block_z, unsigned int shared,
                                           CUstream stream, void** parameters, void** extra) {
  return driver_call("cuLaunchKernel", Needs::kDevice, [&](Runtime& runtime) {
    LaunchShape shape;
    shape.grid = dim3(grid_x, grid_y, grid_z);
    shape.block = dim3(block_x, block_y, block_z);
    shape.dynamic_shared = shared;
    return launch(runtime, function, shape, parameters, extra, stream);
  });
}

FLAMIA_VGPU_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                             void** parameters, void** extra) {
  static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute));
  return driver_call("cuLaunchKernelEx", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if (config == nullptr) return cudaErrorInvalidValue;
    LaunchShape shape;
    shape.grid = dim3(config->gridDimX, config->gridDimY, config->gridDimZ);
    shape.block = dim3(config->blockDimX, config->blockDimY, config->blockDimZ);
    shape.dynamic_shared = config->sharedMemBytes;
    // Attributes of the driver and of the runtime have one layout and the same numbers.
    const Outcome outcome = read_attributes(
        reinterpret_cast<const cudaLaunchAttribute*>(config->attrs), config->numAttrs, &shape);
    if (!outcome.ok()) return outcome;
    return launch(runtime, function, shape, parameters, extra, config->hStream);
  });
}

FLAMIA_VGPU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                        CUfunction function,
                                                                        int threads,
                                                                        size_t shared) {
  const KeepLastError keep;
  return to_result(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared));
}

FLAMIA_VGPU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, CUfunction function, int threads, size_t shared, unsigned int flags) {
  const KeepLastError keep;
  return to_result(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                          shared, flags));
}

FLAMIA_VGPU_EXPORT CUresult cuTensorMapEncodeTiled(
    CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
    const cuuint32_t* element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion l2_promotion, CUtensorMapFloatOOBfill fill) {
  return driver_call("cuTensorMapEncodeTiled", Needs::kNothing, [&](Runtime& runtime) {
    flamia::emulator::EncodeTiledArguments arguments = tiled_arguments(map, type, rank, address);
    arguments.dims = dims;
    arguments.strides = strides;
    arguments.box = box;
    arguments.element_strides = element_strides;
    arguments.interleave = static_cast<uint32_t>(interleave);
    arguments.swizzle = static_cast<uint32_t>(swizzle);
    arguments.l2_promotion = static_cast<uint32_t>(l2_promotion);
    arguments.oob_fill = static_cast<uint32_t>(fill);
    const bool blackwell = runtime.executor().options().chip != flamia::emulator::Chip::kH200;
    return to_outcome(flamia::emulator::encode_tiled(arguments, blackwell));
  });
}

FLAMIA_VGPU_EXPORT CUresult cuTensorMapEncodeIm2col(CUtensorMap*, CUtensorMapDataType, cuuint32_t,
                                                    void*, const cuuint64_t*, const cuuint64_t*,
                                                    const int*, const int*, cuuint32_t, cuuint32_t,
                                                    const cuuint32_t*, CUtensorMapInterleave,
                                                    CUtensorMapSwizzle, CUtensorMapL2promotion,
                                                    CUtensorMapFloatOOBfill) {
  return driver_call("cuTensorMapEncodeIm2col", Needs::kNothing,
                     [](Runtime&) { return to_outcome(flamia::emulator::encode_im2col()); });
}

FLAMIA_VGPU_EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  return driver_call("cuTensorMapReplaceAddress", Needs::kNothing, [&](Runtime&) -> Outcome {
    if (map == nullptr) return cudaErrorInvalidValue;
    flamia::emulator::TensorMap decoded;
    auto* bytes = reinterpret_cast<uint8_t*>(map);
    flamia::emulator::Fault fault = flamia::emulator::decode_map(bytes, &decoded);
    if (!fault.ok()) return {cudaErrorInvalidValue, fault.text};
    decoded.address = reinterpret_cast<uint64_t>(address);
    fault = flamia::emulator::check_map(decoded);
    if (!fault.ok()) return {cudaErrorInvalidValue, fault.text};
    flamia::emulator::encode_map(decoded, bytes);
    return cudaSuccess;
  });
}
