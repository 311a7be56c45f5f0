// Checks of launches, with the codes that the CUDA 13.0 runtime gave on a card.
#include "emulator/cudart/launch.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/message.h"
#include "emulator/cudart/chip.h"
#include "emulator/cudart/occupancy.h"

namespace flamia::emulator::cudart {
namespace {

constexpr uint32_t kMostGridX = 2147483647, kMostGridYz = 65535;
constexpr uint32_t kMostBlockXy = 1024, kMostBlockZ = 64;

std::string text_of(const ptx::Dim3& size) {
  return concat("(", size.x, ", ", size.y, ", ", size.z, ")");
}

ptx::Dim3 dims(const dim3& size) { return {size.x, size.y, size.z}; }

Outcome wrong(const Kernel& kernel, cudaError_t error, std::string_view argument,
              std::string_view rule, std::string_view got, std::string_view hint = {}) {
  return {error, concat(kernel.name, ": ", refusal(argument, rule, got, hint))};
}

const char* attribute_name(cudaLaunchAttributeID id) {
  switch (id) {
    case cudaLaunchAttributeAccessPolicyWindow:
      return "cudaLaunchAttributeAccessPolicyWindow";
    case cudaLaunchAttributeSynchronizationPolicy:
      return "cudaLaunchAttributeSynchronizationPolicy";
    case cudaLaunchAttributeProgrammaticEvent:
      return "cudaLaunchAttributeProgrammaticEvent";
    case cudaLaunchAttributeMemSyncDomainMap:
      return "cudaLaunchAttributeMemSyncDomainMap";
    case cudaLaunchAttributeMemSyncDomain:
      return "cudaLaunchAttributeMemSyncDomain";
    case cudaLaunchAttributeLaunchCompletionEvent:
      return "cudaLaunchAttributeLaunchCompletionEvent";
    case cudaLaunchAttributeDeviceUpdatableKernelNode:
      return "cudaLaunchAttributeDeviceUpdatableKernelNode";
    case cudaLaunchAttributeNvlinkUtilCentricScheduling:
      return "cudaLaunchAttributeNvlinkUtilCentricScheduling";
    default:
      return "an attribute that CUDA 13.0 does not know";
  }
}

Outcome read_attribute(const cudaLaunchAttribute& attribute, LaunchShape* shape) {
  switch (attribute.id) {
    case cudaLaunchAttributeIgnore:
      return cudaSuccess;
    case cudaLaunchAttributeCooperative:
      shape->cooperative = attribute.val.cooperative != 0;
      return cudaSuccess;
    case cudaLaunchAttributeClusterDimension:
      shape->has_cluster = true;
      shape->cluster = {attribute.val.clusterDim.x, attribute.val.clusterDim.y,
                        attribute.val.clusterDim.z};
      return cudaSuccess;
    case cudaLaunchAttributePriority:
      shape->priority = attribute.val.priority;
      return cudaSuccess;
    case cudaLaunchAttributeProgrammaticStreamSerialization:
      // It allows an overlap. Program order, in which work runs here, is one of those it allows.
      return cudaSuccess;
    case cudaLaunchAttributePreferredClusterDimension:
      // The hardware may use the dimensions of cudaLaunchAttributeClusterDimension instead; so
      // does this machine, always.
      return attribute.val.preferredClusterDim.x != 0 ? cudaSuccess : cudaErrorInvalidValue;
    case cudaLaunchAttributeClusterSchedulingPolicyPreference:
      return attribute.val.clusterSchedulingPolicyPreference <=
                     cudaClusterSchedulingPolicyLoadBalancing
                 ? cudaSuccess
                 : cudaErrorInvalidValue;
    case cudaLaunchAttributePreferredSharedMemoryCarveout:
      // A preference between cache and shared memory; shared memory always has its full size here.
      return attribute.val.sharedMemCarveout <= 100 ? cudaSuccess : cudaErrorInvalidValue;
    default:
      return {cudaErrorNotSupported,
              concat("launch attributes must be those of the virtual GPU; got ",
                     attribute_name(attribute.id), " (", static_cast<int>(attribute.id), ")")};
  }
}

/// What the kernel demands of every launch; all 0: nothing.
ptx::Dim3 required_cluster(const Kernel& kernel) {
  const KernelAttributes& set = kernel.attributes;
  if (set.cluster_width != 0 || set.cluster_height != 0 || set.cluster_depth != 0) {
    return {static_cast<uint32_t>(set.cluster_width), static_cast<uint32_t>(set.cluster_height),
            static_cast<uint32_t>(set.cluster_depth)};
  }
  return kernel.code().bounds.required_cluster;
}

bool is_none(const ptx::Dim3& size) { return size.x == 0 && size.y == 0 && size.z == 0; }

bool equal(const ptx::Dim3& a, const ptx::Dim3& b) {
  return a.x == b.x && a.y == b.y && a.z == b.z;
}

Outcome check_cluster(const Kernel& kernel, const LaunchShape& shape, const ptx::Dim3& cluster) {
  constexpr cudaError_t kError = cudaErrorInvalidClusterSize;
  const ptx::Dim3 grid = dims(shape.grid);
  if (cluster.x == 0 || cluster.y == 0 || cluster.z == 0) {
    return wrong(kernel, kError, "cluster", "have no zero", text_of(cluster));
  }
  const uint64_t size = uint64_t{cluster.x} * cluster.y * cluster.z;
  const bool fits = cluster.x <= kLargestCluster && cluster.y <= kLargestCluster &&
                    cluster.z <= kLargestCluster && size <= kLargestCluster;
  const uint32_t rank_limit = kernel.code().bounds.max_cluster_rank;
  if (!fits || (rank_limit != 0 && size > rank_limit)) {
    return wrong(kernel, kError, "cluster",
                 concat("have at most ", rank_limit != 0 ? rank_limit : kLargestCluster, " blocks"),
                 text_of(cluster));
  }
  if (size > kPortableCluster && kernel.attributes.non_portable_cluster == 0) {
    return wrong(kernel, kError, "cluster", "have at most 8 blocks", text_of(cluster),
                 "set cudaFuncAttributeNonPortableClusterSizeAllowed");
  }
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
    return wrong(kernel, kError, "grid", concat("be a multiple of cluster ", text_of(cluster)),
                 text_of(grid));
  }
  return cudaSuccess;
}

Outcome check_sizes(const Kernel& kernel, const LaunchShape& shape) {
  const ptx::Dim3 grid = dims(shape.grid);
  const ptx::Dim3 block = dims(shape.block);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > kMostGridX || grid.y > kMostGridYz ||
      grid.z > kMostGridYz) {
    return wrong(kernel, cudaErrorInvalidValue, "grid", "lie in 1 to (2^31 - 1, 65535, 65535)",
                 text_of(grid));
  }
  if (block.x == 0 || block.y == 0 || block.z == 0 || block.x > kMostBlockXy ||
      block.y > kMostBlockXy || block.z > kMostBlockZ) {
    return wrong(kernel, cudaErrorInvalidValue, "block", "lie in 1 to (1024, 1024, 64)",
                 text_of(block));
  }
  const ptx::Function& code = kernel.code();
  const uint32_t limit = largest_block(code);
  if (uint64_t{block.x} * block.y * block.z > limit) {
    return wrong(kernel, cudaErrorInvalidValue, "block", concat("have at most ", limit, " threads"),
                 text_of(block));
  }
  if (!is_none(code.bounds.required_threads) && !equal(block, code.bounds.required_threads)) {
    return wrong(kernel, cudaErrorInvalidValue, "block",
                 concat("equal .reqntid ", text_of(code.bounds.required_threads)), text_of(block));
  }
  const uint32_t shared_limit = dynamic_shared_limit(kernel);
  if (shape.dynamic_shared > shared_limit) {
    return wrong(kernel, cudaErrorInvalidValue, "dynamic shared memory",
                 concat("be at most ", shared_limit, " bytes"), concat(shape.dynamic_shared),
                 "cudaFuncAttributeMaxDynamicSharedMemorySize raises it");
  }
  return cudaSuccess;
}

Outcome check_cooperative(Runtime& runtime, const Kernel& kernel, const LaunchShape& shape) {
  if (!shape.cooperative) return cudaSuccess;
  const uint32_t threads = shape.block.x * shape.block.y * shape.block.z;
  const uint64_t resident = uint64_t{runtime.executor().options().sms} *
                            blocks_of_sm(kernel, threads, shape.dynamic_shared);
  // grid.y and grid.z have 16 bits each: the product fits.
  const uint64_t blocks = uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
  if (blocks <= resident) return cudaSuccess;
  return wrong(kernel, cudaErrorCooperativeLaunchTooLarge, "a cooperative grid",
               concat("have at most ", resident, " blocks"), text_of(dims(shape.grid)),
               "FLAMIA_VGPU_SMS raises it");
}

/// Opens the kernel, checks the shape and fills in all but the parameters.
Outcome begin_work(Runtime& runtime, const void* function, const LaunchShape& shape,
                   KernelWork* work) {
  Kernel* kernel = nullptr;
  Outcome outcome = runtime.registry.open_kernel(runtime.executor(), function, &kernel);
  if (!outcome.ok()) return outcome;
  outcome = check_sizes(*kernel, shape);
  if (!outcome.ok()) return outcome;
  outcome = choose_cluster(*kernel, shape, &work->request.cluster);
  if (!outcome.ok()) return outcome;
  outcome = check_cooperative(runtime, *kernel, shape);
  if (!outcome.ok()) return outcome;
  work->kernel = kernel;
  work->request.grid = dims(shape.grid);
  work->request.block = dims(shape.block);
  work->request.dynamic_shared_bytes = static_cast<uint32_t>(shape.dynamic_shared);
  work->priority = shape.priority;
  work->cooperative = shape.cooperative;
  return cudaSuccess;
}

/// As the driver: what the machine refuses is refused at the launch.
Outcome check_request(Runtime& runtime, const KernelWork& work) {
  GridRequest request = work.request;
  request.module = work.kernel->module->loaded.get();
  request.function = work.kernel->function;
  request.cooperative = work.cooperative;
  Outcome outcome = to_outcome(runtime.executor().check(request));
  if (outcome.error == cudaErrorMemoryAllocation) outcome.error = cudaErrorLaunchOutOfResources;
  return outcome;
}

std::string traps_text(const Status& status, const GridReport& report) {
  std::string text = status.message();
  for (size_t i = 0; i < report.traps.size(); ++i) {
    if (i == 0 && text.find(report.traps[0].text) != std::string::npos) continue;
    text += concat("\n  ", report.traps[i].kind, ": ", report.traps[i].text);
  }
  return text;
}

}  // namespace

Outcome read_attributes(const cudaLaunchAttribute* attributes, unsigned int count,
                        LaunchShape* shape) {
  if (attributes == nullptr && count != 0) return cudaErrorInvalidValue;
  for (unsigned int i = 0; i < count; ++i) {
    Outcome outcome = read_attribute(attributes[i], shape);
    if (!outcome.ok()) return outcome;
  }
  return cudaSuccess;
}

Outcome choose_cluster(const Kernel& kernel, const LaunchShape& shape, ptx::Dim3* cluster) {
  const ptx::Dim3 required = required_cluster(kernel);
  *cluster = {1, 1, 1};
  if (!shape.has_cluster && is_none(required)) return cudaSuccess;
  *cluster = shape.has_cluster ? shape.cluster : required;
  if (shape.has_cluster && !is_none(required) && !equal(required, shape.cluster)) {
    return wrong(kernel, cudaErrorInvalidClusterSize, "cluster",
                 concat("equal ", text_of(required), " of the kernel"), text_of(shape.cluster));
  }
  return check_cluster(kernel, shape, *cluster);
}

Outcome make_kernel_work(Runtime& runtime, const void* function, const LaunchShape& shape,
                         void* const* arguments, KernelWork* work) {
  const Outcome outcome = begin_work(runtime, function, shape, work);
  if (!outcome.ok()) return outcome;
  const ptx::Function& code = work->kernel->code();
  if (arguments == nullptr && !code.parameters.empty()) return cudaErrorInvalidValue;
  work->request.parameters.assign(code.parameter_bytes, 0);
  for (size_t i = 0; i < code.parameters.size(); ++i) {
    const ptx::Parameter& parameter = code.parameters[i];
    if (arguments[i] == nullptr) return cudaErrorInvalidValue;
    std::memcpy(work->request.parameters.data() + parameter.offset, arguments[i], parameter.bytes);
  }
  return check_request(runtime, *work);
}

Outcome make_packed_work(Runtime& runtime, const void* function, const LaunchShape& shape,
                         const void* parameters, size_t bytes, KernelWork* work) {
  const Outcome outcome = begin_work(runtime, function, shape, work);
  if (!outcome.ok()) return outcome;
  const uint32_t expected = work->kernel->code().parameter_bytes;
  if (parameters == nullptr || bytes != expected) {
    return wrong(*work->kernel, cudaErrorInvalidValue, "parameters",
                 concat("have ", expected, " bytes"), concat(bytes));
  }
  const auto* first = static_cast<const uint8_t*>(parameters);
  work->request.parameters.assign(first, first + bytes);
  return check_request(runtime, *work);
}

Outcome run_kernel(Runtime& runtime, const KernelWork& work) {
  if (work.kernel->module->loaded == nullptr) return cudaErrorInvalidResourceHandle;
  GridRequest request = work.request;
  request.module = work.kernel->module->loaded.get();
  request.function = work.kernel->function;
  request.cooperative = work.cooperative;
  GridReport report;
  const auto start = std::chrono::steady_clock::now();
  const Status status = runtime.executor().run(request, &report);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  KernelTotals& totals = runtime.totals[work.kernel->name];
  ++totals.launches;
  totals.warp_instructions += report.warp_instructions;
  totals.lane_instructions += report.lane_instructions;
  totals.seconds += spent.count();
  if (report.counters != nullptr && runtime.launches.size() < kMostLaunchRecords) {
    runtime.launches.push_back({work.kernel->name, request.grid, request.block, request.cluster,
                                spent.count(), report.counters});
  } else if (report.counters != nullptr) {
    ++runtime.launches_left_out;
  }
  std::fwrite(report.printed.data(), 1, report.printed.size(), stdout);
  if (status.ok()) return cudaSuccess;
  if (status.code() != StatusCode::kDeviceError) return to_outcome(status);
  const cudaError_t error =
      report.traps.empty() ? cudaErrorLaunchFailure : trap_error(report.traps[0].kind);
  return runtime.break_device(error, traps_text(status, report));
}

}  // namespace flamia::emulator::cudart
