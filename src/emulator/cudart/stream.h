// Streams, events, and captures of streams into graphs.
// Depends on: graph.h. Used by: runtime.h, the calls for streams, events and capture.
// Work runs when it is enqueued, in program order over all streams. That is one of the orders that
// CUDA allows; programs in which a stream waits for work that is enqueued later cannot run.
#pragma once

#include <map>
#include <memory>
#include <thread>
#include <unordered_set>
#include <vector>

#include "emulator/cudart/graph.h"

namespace flamia::emulator::cudart {

struct Capture;

struct Stream {
  unsigned int flags = 0;
  int priority = 0;
  uint64_t id = 0;
  bool is_legacy = false;
  Capture* capture = nullptr;
  std::vector<Node*> ends;  ///< what the next captured node depends on

  bool is_blocking() const { return (flags & cudaStreamNonBlocking) == 0; }
};

struct Event {
  unsigned int flags = 0;
  bool recorded = false;
  double milliseconds = 0;  ///< of the host's steady clock
  uint64_t capture_id = 0;  ///< 0: recorded outside of captures
  std::vector<Node*> ends;
};

struct Capture {
  uint64_t id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  Stream* origin = nullptr;
  std::unique_ptr<Graph> graph;
  Graph* target = nullptr;  ///< of cudaStreamBeginCaptureToGraph; null: `graph`
  bool invalid = false;
  std::vector<Stream*> streams;

  Graph& into() { return target != nullptr ? *target : *graph; }
};

class StreamTable {
 public:
  StreamTable();

  /// The stream of a handle, also of the three special ones; null for what is none.
  Stream* find(cudaStream_t handle);
  Stream* create(unsigned int flags, int priority);
  void destroy(Stream* stream);
  Event* find_event(cudaEvent_t handle) const;
  Event* create_event(unsigned int flags);
  void destroy_event(Event* event) { events_.erase(event); }

  Capture* begin_capture(Stream* origin, cudaStreamCaptureMode mode, Graph* target);
  /// Lets another stream take part, after `ends`.
  void join(Capture* capture, Stream* stream, const std::vector<Node*>& ends);
  /// Ends a capture for all its streams and hands it over.
  std::unique_ptr<Capture> end_capture(Capture* capture);
  Capture* find_capture(uint64_t id) const;

  /// Whether a call that a capture forbids is made now; those captures are invalid afterwards.
  bool forbids(cudaStreamCaptureMode thread_mode);
  /// Whether a stream that the legacy stream waits for is being captured; the same consequence.
  bool forbids_legacy();
  /// Whether anything is being captured; the same consequence.
  bool forbids_synchronize();

 private:
  std::map<const void*, std::unique_ptr<Stream>> streams_;
  std::map<const void*, std::unique_ptr<Event>> events_;
  std::map<std::thread::id, std::unique_ptr<Stream>> own_;
  std::vector<std::unique_ptr<Capture>> captures_;
  Stream legacy_;
  uint64_t next_id_ = 1;
  uint64_t next_capture_ = 1;
};

}  // namespace flamia::emulator::cudart
