// The table of streams and events, and the rules of capture.
#include "emulator/cudart/stream.h"

#include <algorithm>

namespace flamia::emulator::cudart {

StreamTable::StreamTable() {
  legacy_.is_legacy = true;
  legacy_.id = next_id_++;
}

Stream* StreamTable::find(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return &legacy_;
  if (handle == cudaStreamPerThread) {
    std::unique_ptr<Stream>& own = own_[std::this_thread::get_id()];
    if (own == nullptr) {
      own = std::make_unique<Stream>();
      own->id = next_id_++;
    }
    return own.get();
  }
  const auto it = streams_.find(handle);
  return it == streams_.end() ? nullptr : it->second.get();
}

Stream* StreamTable::create(unsigned int flags, int priority) {
  auto stream = std::make_unique<Stream>();
  Stream* created = stream.get();
  created->flags = flags;
  created->priority = priority;
  created->id = next_id_++;
  streams_[created] = std::move(stream);
  return created;
}

void StreamTable::destroy(Stream* stream) {
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    std::erase(stream->capture->streams, stream);
    if (stream->capture->origin == stream) end_capture(stream->capture);
  }
  streams_.erase(stream);
}

Event* StreamTable::find_event(cudaEvent_t handle) const {
  const auto it = events_.find(handle);
  return it == events_.end() ? nullptr : it->second.get();
}

Event* StreamTable::create_event(unsigned int flags) {
  auto event = std::make_unique<Event>();
  Event* created = event.get();
  created->flags = flags;
  events_[created] = std::move(event);
  return created;
}

Capture* StreamTable::begin_capture(Stream* origin, cudaStreamCaptureMode mode, Graph* target) {
  captures_.push_back(std::make_unique<Capture>());
  Capture* capture = captures_.back().get();
  capture->id = next_capture_++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = origin;
  capture->target = target;
  if (target == nullptr) capture->graph = std::make_unique<Graph>();
  join(capture, origin, {});
  return capture;
}

void StreamTable::join(Capture* capture, Stream* stream, const std::vector<Node*>& ends) {
  stream->capture = capture;
  stream->ends = ends;
  capture->streams.push_back(stream);
}

std::unique_ptr<Capture> StreamTable::end_capture(Capture* capture) {
  for (Stream* stream : capture->streams) {
    stream->capture = nullptr;
    stream->ends.clear();
  }
  const auto it = std::find_if(captures_.begin(), captures_.end(),
                               [&](const auto& held) { return held.get() == capture; });
  std::unique_ptr<Capture> ended = std::move(*it);
  captures_.erase(it);
  return ended;
}

Capture* StreamTable::find_capture(uint64_t id) const {
  for (const std::unique_ptr<Capture>& capture : captures_) {
    if (capture->id == id) return capture.get();
  }
  return nullptr;
}

bool StreamTable::forbids(cudaStreamCaptureMode thread_mode) {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return false;
  bool found = false;
  for (const std::unique_ptr<Capture>& capture : captures_) {
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    const bool is_mine = capture->thread == std::this_thread::get_id();
    const bool is_global =
        capture->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
    if (!is_mine && !is_global) continue;
    capture->invalid = true;
    found = true;
  }
  return found;
}

bool StreamTable::forbids_legacy() {
  bool found = false;
  for (const std::unique_ptr<Capture>& capture : captures_) {
    const bool waits = std::any_of(capture->streams.begin(), capture->streams.end(),
                                   [](const Stream* stream) { return stream->is_blocking(); });
    if (!waits) continue;
    capture->invalid = true;
    found = true;
  }
  return found;
}

bool StreamTable::forbids_synchronize() {
  for (const std::unique_ptr<Capture>& capture : captures_) capture->invalid = true;
  return !captures_.empty();
}

}  // namespace flamia::emulator::cudart
