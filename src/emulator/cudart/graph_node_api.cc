// Calls for the nodes of graphs: adding each kind, reading and changing its parameters.
#include <cstring>
#include <utility>

#include "base/message.h"
#include "emulator/cudart/api.h"
#include "emulator/cudart/graph_access.h"
#include "emulator/cudart/launch.h"
#include "emulator/cudart/transfer.h"

namespace flamia::emulator::cudart {
namespace {

using MakeWork = Outcome (*)(Runtime& runtime, const void* parameters, Work* work);

Outcome kernel_work(Runtime& runtime, const void* parameters, Work* work) {
  const auto* given = static_cast<const cudaKernelNodeParams*>(parameters);
  LaunchShape shape;
  shape.grid = given->gridDim;
  shape.block = given->blockDim;
  shape.dynamic_shared = given->sharedMemBytes;
  if (given->extra != nullptr) {
    return {cudaErrorNotSupported, "kernelParams must be given; got extra"};
  }
  KernelWork kernel;
  Outcome outcome = make_kernel_work(runtime, given->func, shape, given->kernelParams, &kernel);
  if (outcome.ok()) *work = std::move(kernel);
  return outcome;
}

Outcome fill_work(Runtime& runtime, const void* parameters, Work* work) {
  const auto* given = static_cast<const cudaMemsetParams*>(parameters);
  if (given->elementSize != 1 && given->elementSize != 2 && given->elementSize != 4) {
    return cudaErrorInvalidValue;
  }
  FillWork fill;
  fill.to = given->dst;
  fill.pitch = given->pitch;
  fill.value = given->value;
  fill.element_bytes = given->elementSize;
  fill.width = given->width;
  fill.height = given->height;
  Outcome outcome = check_fill(runtime, fill);
  if (outcome.ok()) *work = fill;
  return outcome;
}

Outcome host_work(Runtime&, const void* parameters, Work* work) {
  const auto* given = static_cast<const cudaHostNodeParams*>(parameters);
  if (given->fn == nullptr) return cudaErrorInvalidValue;
  *work = HostWork{given->fn, given->userData};
  return cudaSuccess;
}

struct RowCopy {
  void* to;
  const void* from;
  size_t bytes;
  cudaMemcpyKind kind;
};

Outcome copy_work(Runtime& runtime, const void* parameters, Work* work) {
  const auto* given = static_cast<const RowCopy*>(parameters);
  CopyWork copy;
  copy.to = given->to;
  copy.from = given->from;
  copy.width = given->bytes;
  copy.kind = given->kind;
  Outcome outcome = check_copy(runtime, copy);
  if (outcome.ok()) *work = copy;
  return outcome;
}

struct NodeSite {
  cudaGraphNode_t* node;
  cudaGraph_t graph;
  const cudaGraphNode_t* dependencies;
  size_t count;
};

cudaError_t add_node(const char* name, const NodeSite& site, MakeWork make,
                     const void* parameters) {
  return api_call(name, Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    Graph* graph = runtime.find_graph(site.graph);
    if (graph == nullptr || site.node == nullptr || parameters == nullptr) {
      return cudaErrorInvalidValue;
    }
    std::vector<Node*> dependencies;
    Outcome outcome = find_nodes(runtime, graph, site.dependencies, site.count, &dependencies);
    Work work = EmptyWork();
    if (outcome.ok()) outcome = make(runtime, parameters, &work);
    if (!outcome.ok()) return outcome;
    *site.node = to_handle(graph->add(std::move(work), std::move(dependencies)));
    return cudaSuccess;
  });
}

/// The attributes of a kernel node stay when its parameters and sizes are new.
Outcome keep_attributes(const Work& old_work, Work* work) {
  auto* kernel = std::get_if<KernelWork>(work);
  if (kernel == nullptr) return cudaSuccess;
  const auto& old = std::get<KernelWork>(old_work);
  const ptx::Dim3& cluster = old.request.cluster;
  const ptx::Dim3& grid = kernel->request.grid;
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
    return cudaErrorInvalidClusterSize;
  }
  kernel->request.cluster = cluster;
  kernel->priority = old.priority;
  kernel->cooperative = old.cooperative;
  return cudaSuccess;
}

/// New parameters for a node; its kind stays.
cudaError_t set_node(const char* name, cudaGraphNode_t handle, MakeWork make,
                     const void* parameters) {
  return api_call(name, Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    Node* node = runtime.find_node(handle);
    if (node == nullptr || parameters == nullptr) return cudaErrorInvalidValue;
    Work work = EmptyWork();
    Outcome outcome = make(runtime, parameters, &work);
    if (!outcome.ok()) return outcome;
    if (work.index() != node->work.index()) return cudaErrorInvalidValue;
    outcome = keep_attributes(node->work, &work);
    if (outcome.ok()) node->work = std::move(work);
    return outcome;
  });
}

/// New parameters for the step of an instantiated graph that came from a node.
cudaError_t set_step(const char* name, cudaGraphExec_t executable, cudaGraphNode_t handle,
                     MakeWork make, const void* parameters) {
  return api_call(name, Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    const auto it = runtime.programs.find(executable);
    if (it == runtime.programs.end() || parameters == nullptr) return cudaErrorInvalidValue;
    for (auto& [node, step] : it->second->steps) {
      if (static_cast<const void*>(node) != handle) continue;
      Work work = EmptyWork();
      Outcome outcome = make(runtime, parameters, &work);
      if (!outcome.ok()) return outcome;
      if (work.index() != step.index()) return cudaErrorInvalidValue;
      outcome = keep_attributes(step, &work);
      if (outcome.ok()) step = std::move(work);
      return outcome;
    }
    return cudaErrorInvalidValue;
  });
}

template <typename Kind, typename Body>
cudaError_t read_node(const char* name, cudaGraphNode_t handle, const void* out, Body body) {
  return api_call(name, Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    const Node* node = runtime.find_node(handle);
    if (node == nullptr || out == nullptr) return cudaErrorInvalidValue;
    const auto* work = std::get_if<Kind>(&node->work);
    if (work == nullptr) return cudaErrorInvalidValue;
    body(*work);
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace flamia::emulator::cudart

using namespace flamia::emulator::cudart;  // NOLINT: this file is the C boundary

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                      const cudaGraphNode_t* dependencies,
                                                      size_t count,
                                                      const cudaKernelNodeParams* parameters) {
  return add_node("cudaGraphAddKernelNode", {node, graph, dependencies, count}, &kernel_work,
                  parameters);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                      const cudaGraphNode_t* dependencies,
                                                      size_t count,
                                                      const cudaMemsetParams* parameters) {
  return add_node("cudaGraphAddMemsetNode", {node, graph, dependencies, count}, &fill_work,
                  parameters);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                    const cudaGraphNode_t* dependencies,
                                                    size_t count,
                                                    const cudaHostNodeParams* parameters) {
  return add_node("cudaGraphAddHostNode", {node, graph, dependencies, count}, &host_work,
                  parameters);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                                        const cudaGraphNode_t* dependencies,
                                                        size_t count, void* to, const void* from,
                                                        size_t bytes, cudaMemcpyKind kind) {
  const RowCopy copy{to, from, bytes, kind};
  return add_node("cudaGraphAddMemcpyNode1D", {node, graph, dependencies, count}, &copy_work,
                  &copy);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                     const cudaGraphNode_t* dependencies,
                                                     size_t count) {
  const MakeWork make = [](Runtime&, const void*, Work*) { return Outcome(); };
  return add_node("cudaGraphAddEmptyNode", {node, graph, dependencies, count}, make, "");
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphDestroyNode(cudaGraphNode_t handle) {
  return api_call("cudaGraphDestroyNode", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    Node* node = runtime.find_node(handle);
    if (node == nullptr) return cudaErrorInvalidValue;
    node->graph->remove(node);
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t handle,
                                                    cudaGraphNodeType* type) {
  return api_call("cudaGraphNodeGetType", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    const Node* node = runtime.find_node(handle);
    if (node == nullptr || type == nullptr) return cudaErrorInvalidValue;
    *type = type_of(node->work);
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node,
                                                            cudaMemsetParams* out) {
  return read_node<FillWork>("cudaGraphMemsetNodeGetParams", node, out, [&](const FillWork& work) {
    std::memset(out, 0, sizeof(*out));
    out->dst = work.to;
    out->pitch = work.pitch;
    out->value = work.value;
    out->elementSize = work.element_bytes;
    out->width = work.width;
    out->height = work.height;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node,
                                                          cudaHostNodeParams* out) {
  return read_node<HostWork>("cudaGraphHostNodeGetParams", node, out, [&](const HostWork& work) {
    out->fn = work.function;
    out->userData = work.data;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t
cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* parameters) {
  return set_node("cudaGraphKernelNodeSetParams", node, &kernel_work, parameters);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
                                                            const cudaMemsetParams* parameters) {
  return set_node("cudaGraphMemsetNodeSetParams", node, &fill_work, parameters);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node,
                                                          const cudaHostNodeParams* parameters) {
  return set_node("cudaGraphHostNodeSetParams", node, &host_work, parameters);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphExecKernelNodeSetParams(
    cudaGraphExec_t executable, cudaGraphNode_t node, const cudaKernelNodeParams* parameters) {
  return set_step("cudaGraphExecKernelNodeSetParams", executable, node, &kernel_work, parameters);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphExecMemsetNodeSetParams(
    cudaGraphExec_t executable, cudaGraphNode_t node, const cudaMemsetParams* parameters) {
  return set_step("cudaGraphExecMemsetNodeSetParams", executable, node, &fill_work, parameters);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphExecHostNodeSetParams(
    cudaGraphExec_t executable, cudaGraphNode_t node, const cudaHostNodeParams* parameters) {
  return set_step("cudaGraphExecHostNodeSetParams", executable, node, &host_work, parameters);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t executable,
                                                                  cudaGraphNode_t node, void* to,
                                                                  const void* from, size_t bytes,
                                                                  cudaMemcpyKind kind) {
  const RowCopy copy{to, from, bytes, kind};
  return set_step("cudaGraphExecMemcpyNodeSetParams1D", executable, node, &copy_work, &copy);
}
