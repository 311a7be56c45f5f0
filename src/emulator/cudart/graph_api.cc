// Calls for whole graphs: making, asking, instantiating, launching.
#include <algorithm>
#include <utility>

#include "base/message.h"
#include "emulator/cudart/api.h"
#include "emulator/cudart/enqueue.h"
#include "emulator/cudart/graph_access.h"

namespace flamia::emulator::cudart {

Outcome find_nodes(Runtime& runtime, const Graph* graph, const cudaGraphNode_t* handles,
                   size_t count, std::vector<Node*>* nodes) {
  if (handles == nullptr && count != 0) return cudaErrorInvalidValue;
  for (size_t i = 0; i < count; ++i) {
    Node* node = runtime.find_node(handles[i]);
    if (node == nullptr || node->graph != graph) return cudaErrorInvalidValue;
    nodes->push_back(node);
  }
  return cudaSuccess;
}

namespace {

/// Edges carry no data here: programmatic dependencies between nodes are refused.
Outcome check_edges(const cudaGraphEdgeData* edges, size_t count) {
  for (size_t i = 0; edges != nullptr && i < count; ++i) {
    if (edges[i].from_port != 0 || edges[i].to_port != 0 || edges[i].type != 0) {
      return {cudaErrorNotSupported, "edges of a graph must have no data"};
    }
  }
  return cudaSuccess;
}

/// Writes handles into an array whose size is in *count; null: only the number.
Outcome list(const std::vector<const Node*>& nodes, cudaGraphNode_t* out, size_t* count) {
  if (count == nullptr) return cudaErrorInvalidValue;
  if (out != nullptr) {
    for (size_t i = 0; i < *count; ++i) {
      out[i] = i < nodes.size() ? to_handle(nodes[i]) : nullptr;
    }
  }
  if (out == nullptr || *count > nodes.size()) *count = nodes.size();
  return cudaSuccess;
}

template <typename Body>
cudaError_t graph_call(const char* name, cudaGraph_t handle, Body body) {
  return api_call(name, Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    Graph* graph = runtime.find_graph(handle);
    if (graph == nullptr) return cudaErrorInvalidValue;
    return body(runtime, *graph);
  });
}

Outcome make_program(const Graph& graph, Program* program) {
  const std::vector<const Node*> order = graph.order();
  if (order.size() != graph.nodes.size()) {
    return {cudaErrorInvalidValue, "a graph must have no cycle"};
  }
  for (const Node* node : order) program->steps.emplace_back(node, node->work);
  return cudaSuccess;
}

cudaError_t instantiate(const char* name, cudaGraphExec_t* executable, cudaGraph_t handle,
                        unsigned long long flags) {
  return graph_call(name, handle, [&](Runtime& runtime, const Graph& graph) -> Outcome {
    if (executable == nullptr) return cudaErrorInvalidValue;
    constexpr unsigned long long kTaken =
        cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUseNodePriority;
    if ((flags & ~kTaken) != 0) {
      return {cudaErrorNotSupported,
              concat("graphs must be launched from the host; got instantiation flags ", flags)};
    }
    auto program = std::make_shared<Program>();
    Outcome outcome = make_program(graph, program.get());
    if (!outcome.ok()) return outcome;
    Program* made = program.get();
    runtime.programs[made] = std::move(program);
    *executable = reinterpret_cast<cudaGraphExec_t>(made);
    return cudaSuccess;
  });
}

cudaError_t launch_graph(cudaGraphExec_t executable, cudaStream_t stream) {
  return api_call("cudaGraphLaunch", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    const auto it = runtime.programs.find(executable);
    if (it == runtime.programs.end()) return cudaErrorInvalidValue;
    return enqueue(runtime, stream, GraphWork{it->second});
  });
}

cudaError_t upload_graph(cudaGraphExec_t executable, cudaStream_t stream) {
  // There is no device memory into which a graph would be copied.
  return api_call("cudaGraphUpload", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if (!runtime.programs.contains(executable)) return cudaErrorInvalidValue;
    return runtime.streams.find(stream) == nullptr ? cudaErrorInvalidResourceHandle : cudaSuccess;
  });
}

Outcome clone(Runtime& runtime, const Graph& graph, cudaGraph_t* out) {
  auto copy = std::make_unique<Graph>();
  std::map<const Node*, Node*> twins;
  for (const std::unique_ptr<Node>& node : graph.nodes) {
    twins[node.get()] = copy->add(node->work, {});
  }
  for (const std::unique_ptr<Node>& node : graph.nodes) {
    for (const Node* from : node->dependencies) copy->connect(twins[from], twins[node.get()]);
  }
  *out = reinterpret_cast<cudaGraph_t>(copy.get());
  runtime.graphs[copy.get()] = std::move(copy);
  return cudaSuccess;
}

/// A graph of the same shape replaces the work of an instantiated one.
Outcome update_program(const Graph& graph, Program* program, cudaGraphExecUpdateResultInfo* info) {
  Program next;
  const Outcome outcome = make_program(graph, &next);
  if (!outcome.ok()) return outcome;
  info->result = cudaGraphExecUpdateSuccess;
  if (next.steps.size() != program->steps.size()) {
    info->result = cudaGraphExecUpdateErrorTopologyChanged;
    return cudaErrorGraphExecUpdateFailure;
  }
  for (size_t i = 0; i < next.steps.size(); ++i) {
    if (next.steps[i].second.index() == program->steps[i].second.index()) continue;
    info->result = cudaGraphExecUpdateErrorNodeTypeChanged;
    info->errorNode = to_handle(next.steps[i].first);
    return cudaErrorGraphExecUpdateFailure;
  }
  for (size_t i = 0; i < next.steps.size(); ++i) {
    program->steps[i].second = next.steps[i].second;
  }
  return cudaSuccess;
}

std::vector<const Node*> all_nodes(const Graph& graph, bool roots_only) {
  std::vector<const Node*> nodes;
  for (const std::unique_ptr<Node>& node : graph.nodes) {
    if (!roots_only || node->dependencies.empty()) nodes.push_back(node.get());
  }
  return nodes;
}

}  // namespace
}  // namespace flamia::emulator::cudart

using namespace flamia::emulator::cudart;  // NOLINT: this file is the C boundary

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned int flags) {
  return api_call("cudaGraphCreate", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if (graph == nullptr || flags != 0) return cudaErrorInvalidValue;
    auto made = std::make_unique<Graph>();
    *graph = reinterpret_cast<cudaGraph_t>(made.get());
    runtime.graphs[made.get()] = std::move(made);
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  return graph_call("cudaGraphDestroy", handle, [&](Runtime& runtime, const Graph&) -> Outcome {
    runtime.graphs.erase(handle);
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphClone(cudaGraph_t* copy, cudaGraph_t original) {
  return graph_call("cudaGraphClone", original, [&](Runtime& runtime, const Graph& graph) {
    return copy == nullptr ? Outcome(cudaErrorInvalidValue) : clone(runtime, graph, copy);
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphAddDependencies(cudaGraph_t handle,
                                                        const cudaGraphNode_t* from,
                                                        const cudaGraphNode_t* to,
                                                        const cudaGraphEdgeData* edges,
                                                        size_t count) {
  return graph_call(
      "cudaGraphAddDependencies", handle, [&](Runtime& runtime, const Graph& graph) -> Outcome {
        Outcome outcome = check_edges(edges, count);
        std::vector<Node*> sources, targets;
        if (outcome.ok()) outcome = find_nodes(runtime, &graph, from, count, &sources);
        if (outcome.ok()) outcome = find_nodes(runtime, &graph, to, count, &targets);
        for (size_t i = 0; outcome.ok() && i < count; ++i) {
          const bool is_new =
              sources[i] != targets[i] && sources[i]->graph->connect(sources[i], targets[i]);
          if (!is_new) outcome = cudaErrorInvalidValue;
        }
        return outcome;
      });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes,
                                                 size_t* count) {
  return graph_call("cudaGraphGetNodes", handle, [&](Runtime&, const Graph& graph) {
    return list(all_nodes(graph, false), nodes, count);
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphGetRootNodes(cudaGraph_t handle, cudaGraphNode_t* nodes,
                                                     size_t* count) {
  return graph_call("cudaGraphGetRootNodes", handle, [&](Runtime&, const Graph& graph) {
    return list(all_nodes(graph, true), nodes, count);
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphGetEdges(cudaGraph_t handle, cudaGraphNode_t* from,
                                                 cudaGraphNode_t* to, cudaGraphEdgeData* edges,
                                                 size_t* count) {
  return graph_call("cudaGraphGetEdges", handle, [&](Runtime&, const Graph& graph) -> Outcome {
    if (count == nullptr || (from == nullptr) != (to == nullptr)) return cudaErrorInvalidValue;
    std::vector<const Node*> sources, targets;
    for (const std::unique_ptr<Node>& node : graph.nodes) {
      for (const Node* dependency : node->dependencies) {
        sources.push_back(dependency);
        targets.push_back(node.get());
      }
    }
    for (size_t i = 0; edges != nullptr && i < std::min(*count, sources.size()); ++i) {
      edges[i] = cudaGraphEdgeData{};
    }
    size_t same = *count;
    Outcome outcome = list(sources, from, &same);
    return outcome.ok() ? list(targets, to, count) : outcome;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                                    unsigned long long flags) {
  return instantiate("cudaGraphInstantiate", executable, graph, flags);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable,
                                                             cudaGraph_t graph,
                                                             unsigned long long flags) {
  return instantiate("cudaGraphInstantiateWithFlags", executable, graph, flags);
}

FLAMIA_VGPU_STREAM_CALL(cudaGraphLaunch, (cudaGraphExec_t executable, cudaStream_t stream),
                        launch_graph(executable, stream))
FLAMIA_VGPU_STREAM_CALL(cudaGraphUpload, (cudaGraphExec_t executable, cudaStream_t stream),
                        upload_graph(executable, stream))

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return api_call("cudaGraphExecDestroy", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    return runtime.programs.erase(executable) == 1 ? cudaSuccess : cudaErrorInvalidValue;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t handle,
                                                   cudaGraphExecUpdateResultInfo* info) {
  return graph_call("cudaGraphExecUpdate", handle,
                    [&](Runtime& runtime, const Graph& graph) -> Outcome {
                      const auto it = runtime.programs.find(executable);
                      if (it == runtime.programs.end() || info == nullptr) {
                        return cudaErrorInvalidValue;
                      }
                      *info = cudaGraphExecUpdateResultInfo{};
                      return update_program(graph, it->second.get(), info);
                    });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t handle,
                                                            cudaGraphNode_t* nodes,
                                                            cudaGraphEdgeData* edges,
                                                            size_t* count) {
  return api_call("cudaGraphNodeGetDependencies", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    const Node* node = runtime.find_node(handle);
    if (node == nullptr || count == nullptr) return cudaErrorInvalidValue;
    const std::vector<const Node*> found(node->dependencies.begin(), node->dependencies.end());
    for (size_t i = 0; edges != nullptr && i < std::min(*count, found.size()); ++i) {
      edges[i] = cudaGraphEdgeData{};
    }
    return list(found, nodes, count);
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t handle,
                                                              cudaGraphNode_t* nodes,
                                                              cudaGraphEdgeData* edges,
                                                              size_t* count) {
  return api_call(
      "cudaGraphNodeGetDependentNodes", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
        Node* node = runtime.find_node(handle);
        if (node == nullptr || count == nullptr) return cudaErrorInvalidValue;
        std::vector<const Node*> found;
        for (const std::unique_ptr<Node>& other : node->graph->nodes) {
          for (const Node* from : other->dependencies) {
            if (from == node) found.push_back(other.get());
          }
        }
        for (size_t i = 0; edges != nullptr && i < std::min(*count, found.size()); ++i) {
          edges[i] = cudaGraphEdgeData{};
        }
        return list(found, nodes, count);
      });
}
