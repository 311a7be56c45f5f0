// Graphs: edges, order, reachability.
#include "emulator/cudart/graph.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace flamia::emulator::cudart {

cudaGraphNodeType type_of(const Work& work) {
  struct Visitor {
    cudaGraphNodeType operator()(const KernelWork&) const { return cudaGraphNodeTypeKernel; }
    cudaGraphNodeType operator()(const CopyWork&) const { return cudaGraphNodeTypeMemcpy; }
    cudaGraphNodeType operator()(const FillWork&) const { return cudaGraphNodeTypeMemset; }
    cudaGraphNodeType operator()(const HostWork&) const { return cudaGraphNodeTypeHost; }
    cudaGraphNodeType operator()(const EventWork& work) const {
      return work.record ? cudaGraphNodeTypeEventRecord : cudaGraphNodeTypeWaitEvent;
    }
    cudaGraphNodeType operator()(const EmptyWork&) const { return cudaGraphNodeTypeEmpty; }
    cudaGraphNodeType operator()(const GraphWork&) const { return cudaGraphNodeTypeGraph; }
  };
  return std::visit(Visitor(), work);
}

Node* Graph::add(Work work, std::vector<Node*> dependencies) {
  nodes.push_back(std::make_unique<Node>());
  Node* node = nodes.back().get();
  node->graph = this;
  node->work = std::move(work);
  for (Node* dependency : dependencies) connect(dependency, node);
  return node;
}

bool Graph::connect(Node* from, Node* to) {
  std::vector<Node*>& known = to->dependencies;
  if (std::find(known.begin(), known.end(), from) != known.end()) return false;
  known.push_back(from);
  return true;
}

void Graph::remove(Node* node) {
  for (const std::unique_ptr<Node>& other : nodes) std::erase(other->dependencies, node);
  std::erase_if(nodes, [&](const std::unique_ptr<Node>& other) { return other.get() == node; });
}

std::vector<const Node*> Graph::order() const {
  std::unordered_map<const Node*, size_t> waits_for;
  std::unordered_map<const Node*, std::vector<const Node*>> releases;
  std::vector<const Node*> sorted;
  for (const std::unique_ptr<Node>& node : nodes) {
    waits_for[node.get()] = node->dependencies.size();
    for (const Node* dependency : node->dependencies) releases[dependency].push_back(node.get());
    if (node->dependencies.empty()) sorted.push_back(node.get());
  }
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (const Node* next : releases[sorted[i]]) {
      if (--waits_for[next] == 0) sorted.push_back(next);
    }
  }
  if (sorted.size() != nodes.size()) sorted.clear();
  return sorted;
}

bool reaches(const std::vector<Node*>& roots, const Node* node) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> open(roots.begin(), roots.end());
  while (!open.empty()) {
    const Node* next = open.back();
    open.pop_back();
    if (next == node) return true;
    if (!seen.insert(next).second) continue;
    open.insert(open.end(), next->dependencies.begin(), next->dependencies.end());
  }
  return false;
}

}  // namespace flamia::emulator::cudart
