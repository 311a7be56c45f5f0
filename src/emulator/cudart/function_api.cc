// Calls for kernels: their attributes, names, handles, and how many blocks and clusters fit.
#include <algorithm>
#include <cstring>

#include "emulator/cudart/api.h"
#include "emulator/cudart/chip.h"
#include "emulator/cudart/function_attributes.h"
#include "emulator/cudart/launch.h"
#include "emulator/cudart/occupancy.h"
#include "emulator/cudart/runtime.h"

namespace flamia::emulator::cudart {

Outcome set_function_attribute(Kernel& kernel, cudaFuncAttribute attribute, int value) {
  KernelAttributes& set = kernel.attributes;
  const uint64_t used = kernel.code().shared_bytes;
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      if (value < 0 || static_cast<uint64_t>(value) + used > kSharedMax) {
        return cudaErrorInvalidValue;
      }
      set.max_dynamic_shared = value;
      return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      if (value < -1 || value > 100) return cudaErrorInvalidValue;
      set.carveout = value;
      return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      set.non_portable_cluster = value;
      return cudaSuccess;
    case cudaFuncAttributeClusterSchedulingPolicyPreference:
      if (value < 0 || value > cudaClusterSchedulingPolicyLoadBalancing) {
        return cudaErrorInvalidValue;
      }
      set.cluster_policy = value;
      return cudaSuccess;
    case cudaFuncAttributeRequiredClusterWidth:
    case cudaFuncAttributeRequiredClusterHeight:
    case cudaFuncAttributeRequiredClusterDepth: {
      if (value < 0 || kernel.code().bounds.required_cluster.x != 0) return cudaErrorInvalidValue;
      int* const sides[] = {&set.cluster_width, &set.cluster_height, &set.cluster_depth};
      *sides[attribute - cudaFuncAttributeRequiredClusterWidth] = value;
      return cudaSuccess;
    }
    default:
      return cudaErrorInvalidValue;
  }
}

namespace {

template <typename Body>
cudaError_t kernel_call(const char* name, const void* function, Body body) {
  return api_call(name, Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    Kernel* kernel = nullptr;
    const Outcome outcome = runtime.registry.open_kernel(runtime.executor(), function, &kernel);
    if (!outcome.ok()) return outcome;
    return body(runtime, *kernel);
  });
}

uint64_t constant_bytes(const ptx::Module& module) {
  uint64_t bytes = 0;
  for (const ptx::Variable& variable : module.variables) {
    if (variable.space == ptx::StateSpace::kConst) bytes += variable.bytes;
  }
  return bytes;
}

void fill_attributes(const ChipFacts& chip, const Kernel& kernel, cudaFuncAttributes* out) {
  const ptx::Function& code = kernel.code();
  std::memset(out, 0, sizeof(*out));
  out->sharedSizeBytes = code.shared_bytes;
  out->constSizeBytes = constant_bytes(kernel.module->loaded->module);
  out->localSizeBytes = code.local_bytes;
  out->maxThreadsPerBlock = static_cast<int>(largest_block(code));
  out->numRegs = static_cast<int>(estimated_registers(code));
  out->ptxVersion = out->binaryVersion = chip.major * 10 + chip.minor;
  out->maxDynamicSharedSizeBytes = static_cast<int>(dynamic_shared_limit(kernel));
  out->preferredShmemCarveout = kernel.attributes.carveout;
  const ptx::Dim3& cluster = code.bounds.required_cluster;
  const KernelAttributes& set = kernel.attributes;
  out->requiredClusterWidth = cluster.x != 0 ? static_cast<int>(cluster.x) : set.cluster_width;
  out->requiredClusterHeight = cluster.x != 0 ? static_cast<int>(cluster.y) : set.cluster_height;
  out->requiredClusterDepth = cluster.x != 0 ? static_cast<int>(cluster.z) : set.cluster_depth;
  out->clusterDimMustBeSet = cluster.x != 0 || code.bounds.explicit_cluster ? 1 : 0;
  out->clusterSchedulingPolicyPreference = kernel.attributes.cluster_policy;
  out->nonPortableClusterSizeAllowed = kernel.attributes.non_portable_cluster;
}

cudaError_t blocks_call(const char* name, int* blocks, const void* function, int threads,
                        size_t dynamic_shared, unsigned int flags) {
  return kernel_call(name, function, [&](Runtime&, const Kernel& kernel) -> Outcome {
    if (blocks == nullptr) return cudaErrorInvalidValue;
    if ((flags & ~unsigned{cudaOccupancyDisableCachingOverride}) != 0) return cudaErrorInvalidValue;
    *blocks = 0;
    if (threads <= 0) return cudaErrorInvalidValue;
    *blocks =
        static_cast<int>(blocks_of_sm(kernel, static_cast<uint32_t>(threads), dynamic_shared));
    return cudaSuccess;
  });
}

Outcome shape_of(const cudaLaunchConfig_t* config, LaunchShape* shape) {
  if (config == nullptr) return cudaErrorInvalidValue;
  shape->grid = config->gridDim;
  shape->block = config->blockDim;
  shape->dynamic_shared = config->dynamicSmemBytes;
  return read_attributes(config->attrs, config->numAttrs, shape);
}

/// Resident blocks on all SMs of the machine.
uint64_t resident_blocks(Runtime& runtime, const Kernel& kernel, const LaunchShape& shape) {
  const uint64_t threads = uint64_t{shape.block.x} * shape.block.y * shape.block.z;
  if (threads == 0 || threads > kMaxThreads) return 0;
  return uint64_t{runtime.executor().options().sms} *
         blocks_of_sm(kernel, static_cast<uint32_t>(threads), shape.dynamic_shared);
}

}  // namespace
}  // namespace flamia::emulator::cudart

using namespace flamia::emulator::cudart;  // NOLINT: this file is the C boundary

FLAMIA_VGPU_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                                     const void* function) {
  return kernel_call(
      "cudaFuncGetAttributes", function, [&](Runtime& runtime, const Kernel& kernel) -> Outcome {
        if (attributes == nullptr) return cudaErrorInvalidValue;
        fill_attributes(chip_facts(runtime.executor().options().chip), kernel, attributes);
        return cudaSuccess;
      });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaFuncSetAttribute(const void* function,
                                                    cudaFuncAttribute attribute, int value) {
  return kernel_call("cudaFuncSetAttribute", function, [&](Runtime&, Kernel& kernel) {
    return set_function_attribute(kernel, attribute, value);
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaFuncSetCacheConfig(const void* function,
                                                      cudaFuncCache preference) {
  // A preference between cache and shared memory: shared memory always has its full size.
  return kernel_call("cudaFuncSetCacheConfig", function, [&](Runtime&, Kernel&) -> Outcome {
    const bool known =
        preference >= cudaFuncCachePreferNone && preference <= cudaFuncCachePreferEqual;
    return known ? cudaSuccess : cudaErrorInvalidValue;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaFuncGetName(const char** name, const void* function) {
  return kernel_call("cudaFuncGetName", function, [&](Runtime&, const Kernel& kernel) -> Outcome {
    if (name == nullptr) return cudaErrorInvalidValue;
    *name = kernel.name.c_str();
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGetFuncBySymbol(cudaFunction_t* handle, const void* function) {
  return kernel_call("cudaGetFuncBySymbol", function, [&](Runtime&, Kernel& kernel) -> Outcome {
    if (handle == nullptr) return cudaErrorInvalidValue;
    *handle = reinterpret_cast<cudaFunction_t>(&kernel);
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGetKernel(cudaKernel_t* handle, const void* function) {
  return kernel_call("cudaGetKernel", function, [&](Runtime&, Kernel& kernel) -> Outcome {
    if (handle == nullptr) return cudaErrorInvalidValue;
    *handle = reinterpret_cast<cudaKernel_t>(&kernel);
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int* blocks, const void* function, int threads, size_t dynamic_shared) {
  return blocks_call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", blocks, function, threads,
                     dynamic_shared, 0);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int threads, size_t dynamic_shared, unsigned int flags) {
  return blocks_call("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", blocks, function,
                     threads, dynamic_shared, flags);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes,
                                                                         const void* function,
                                                                         int blocks, int threads) {
  return kernel_call("cudaOccupancyAvailableDynamicSMemPerBlock", function,
                     [&](Runtime&, const Kernel& kernel) -> Outcome {
                       if (bytes == nullptr || blocks <= 0 || threads <= 0)
                         return cudaErrorInvalidValue;
                       const uint64_t part =
                           std::min<uint64_t>(kSharedOfSm / static_cast<uint32_t>(blocks),
                                              flamia::emulator::kSharedMax);
                       const uint64_t used = kernel.code().shared_bytes;
                       const bool fits = blocks_of_sm(kernel, static_cast<uint32_t>(threads), 0) >=
                                         static_cast<uint32_t>(blocks);
                       *bytes = fits && part > used ? part - used : 0;
                       return cudaSuccess;
                     });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                                              const cudaLaunchConfig_t* config) {
  return kernel_call("cudaOccupancyMaxActiveClusters", function,
                     [&](Runtime& runtime, const Kernel& kernel) -> Outcome {
                       LaunchShape shape;
                       Outcome outcome = shape_of(config, &shape);
                       if (outcome.ok() && clusters == nullptr) outcome = cudaErrorInvalidValue;
                       flamia::emulator::ptx::Dim3 cluster;
                       if (outcome.ok()) outcome = choose_cluster(kernel, shape, &cluster);
                       if (!outcome.ok()) return outcome;
                       const uint64_t size = uint64_t{cluster.x} * cluster.y * cluster.z;
                       const bool asked = shape.has_cluster || size != 1;
                       const uint64_t resident = resident_blocks(runtime, kernel, shape);
                       *clusters = asked ? static_cast<int>(resident / size) : 0;
                       return cudaSuccess;
                     });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaOccupancyMaxPotentialClusterSize(
    int* size, const void* function, const cudaLaunchConfig_t* config) {
  return kernel_call("cudaOccupancyMaxPotentialClusterSize", function,
                     [&](Runtime& runtime, const Kernel& kernel) -> Outcome {
                       LaunchShape shape;
                       Outcome outcome = shape_of(config, &shape);
                       if (outcome.ok() && size == nullptr) outcome = cudaErrorInvalidValue;
                       if (!outcome.ok()) return outcome;
                       const uint64_t resident = resident_blocks(runtime, kernel, shape);
                       const bool wide = kernel.attributes.non_portable_cluster != 0;
                       uint64_t limit = wide ? kLargestCluster : kPortableCluster;
                       const uint32_t rank = kernel.code().bounds.max_cluster_rank;
                       if (rank != 0) limit = std::min<uint64_t>(limit, rank);
                       *size = static_cast<int>(std::min(limit, resident));
                       return cudaSuccess;
                     });
}
