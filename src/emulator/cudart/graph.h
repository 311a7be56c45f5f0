// Work of a stream as plain data, and graphs of it.
// Depends on: registry.h. Used by: streams (enqueue), capture, graph calls, execute.cc.
#pragma once

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "emulator/cudart/registry.h"

namespace flamia::emulator::cudart {

struct Event;
struct Node;
struct Program;

struct KernelWork {
  Kernel* kernel = nullptr;
  GridRequest request;  ///< its module is filled in when it runs
  int priority = 0;
  bool cooperative = false;
};

/// Rows of bytes, checked when they are enqueued and again when they run.
struct CopyWork {
  void* to = nullptr;
  const void* from = nullptr;
  size_t width = 0;  ///< bytes of a row
  size_t height = 1;
  size_t to_pitch = 0;
  size_t from_pitch = 0;
  cudaMemcpyKind kind = cudaMemcpyDefault;
};

struct FillWork {
  void* to = nullptr;
  size_t pitch = 0;
  uint32_t value = 0;
  uint32_t element_bytes = 1;  ///< 1, 2 or 4
  size_t width = 0;            ///< elements of a row
  size_t height = 1;
};

struct HostWork {
  cudaHostFn_t function = nullptr;
  void* data = nullptr;
};

struct EventWork {
  Event* event = nullptr;
  bool record = true;  ///< otherwise a wait, which program order has done already
};

struct EmptyWork {};

struct GraphWork {
  std::shared_ptr<const Program> program;
};

using Work =
    std::variant<KernelWork, CopyWork, FillWork, HostWork, EventWork, EmptyWork, GraphWork>;

cudaGraphNodeType type_of(const Work& work);

struct Graph;

struct Node {
  Graph* graph = nullptr;
  Work work;
  std::vector<Node*> dependencies;
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;

  Node* add(Work work, std::vector<Node*> dependencies);
  /// Adds or finds an edge; false if it is there already.
  bool connect(Node* from, Node* to);
  /// Removes a node and the edges at it.
  void remove(Node* node);
  /// The nodes in an order that runs every dependency first; empty if there is a cycle.
  std::vector<const Node*> order() const;
};

/// An instantiated graph: work in the order in which it runs, with the node that each is from.
struct Program {
  std::vector<std::pair<const Node*, Work>> steps;
};

/// Whether `node` is one of `roots` or of what they depend on.
bool reaches(const std::vector<Node*>& roots, const Node* node);

}  // namespace flamia::emulator::cudart
