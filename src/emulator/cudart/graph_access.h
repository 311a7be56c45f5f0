// Handles of graph nodes, shared by the two files of graph calls.
// Depends on: runtime.h. Used by: graph_api.cc, graph_node_api.cc.
#pragma once

#include "emulator/cudart/runtime.h"

namespace flamia::emulator::cudart {

inline cudaGraphNode_t to_handle(const Node* node) {
  return reinterpret_cast<cudaGraphNode_t>(const_cast<Node*>(node));
}

/// The nodes of handles, all of `graph`; cudaErrorInvalidValue otherwise.
Outcome find_nodes(Runtime& runtime, const Graph* graph, const cudaGraphNode_t* handles,
                   size_t count, std::vector<Node*>* nodes);

}  // namespace flamia::emulator::cudart
