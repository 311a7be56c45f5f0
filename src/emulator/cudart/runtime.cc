// State of the process and the frame of calls.
#include "emulator/cudart/runtime.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/message.h"
#include "emulator/cudart/statistics.h"

namespace flamia::emulator::cudart {
namespace {

MakeExecutor& executor_maker() {
  static MakeExecutor make = nullptr;
  return make;
}

constexpr size_t kDefaultLimits[] = {
    1024,     // stack bytes of a thread
    8650752,  // printf buffer; printing is unlimited here
    8388608,  // heap of device malloc
    0,        // depth of device-side synchronization: not in CUDA 12 and later
    2048,     // pending launches of device code
    64,       // L2 fetch granularity
    0,        // persisting L2
};

}  // namespace

bool set_executor_maker(MakeExecutor make) {
  executor_maker() = make;
  return true;
}

Runtime& Runtime::get() {
  static Runtime* const runtime = new Runtime();
  return *runtime;
}

Runtime::Runtime() {
  read_environment();
  std::memcpy(limits, kDefaultLimits, sizeof(kDefaultLimits));
  on_exit([](int code, void*) { get().at_exit(code); }, nullptr);
}

void Runtime::at_exit(int code) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    const Status status = write_statistics(*this);
    if (!status.ok()) print_line(status.message());
  }
  if (code != 0 || !trapped_ || settings_.trap_exit == 0) return;
  print_line(concat("a kernel was stopped by a trap, and the program ended with 0: exit code ",
                    settings_.trap_exit));
  // On Linux the handlers that are left go on with the new code.
  std::exit(static_cast<int>(settings_.trap_exit));
}

void Runtime::read_environment() {
  settings_ = Settings();
  settings_error_ = cudaSuccess;
  const Status status =
      read_settings([](const char* name) { return std::getenv(name); }, &settings_);
  if (!status.ok()) settings_error_ = Outcome(cudaErrorInitializationError, status.message());
}

Outcome Runtime::start() {
  if (!settings_error_.ok()) {
    Outcome error = settings_error_;
    settings_error_.text.clear();  // said once
    return error;
  }
  if (executor_ != nullptr) return cudaSuccess;
  if (executor_maker() == nullptr) {
    return {cudaErrorInitializationError, "an executor must be linked; got none"};
  }
  executor_ = executor_maker()(settings_.machine);
  return cudaSuccess;
}

Outcome Runtime::break_device(cudaError_t error, std::string text) {
  if (sticky_ == cudaSuccess) sticky_ = error;
  trapped_ = true;
  return {sticky_, std::move(text)};
}

void Runtime::reset() {
  // As on hardware: a process cannot use a device again after an error of a kernel.
  if (sticky_ != cudaSuccess) sticky_ = cudaErrorDevicesUnavailable;
  streams = StreamTable();
  programs.clear();
  graphs.clear();
  registry.reset();
  executor_.reset();
  for (const auto& [address, block] : host_blocks) {
    if (block.is_ours) std::free(reinterpret_cast<void*>(address));
  }
  host_blocks.clear();
  device_flags = 0;
  cache_preference = cudaFuncCachePreferNone;
  std::memcpy(limits, kDefaultLimits, sizeof(kDefaultLimits));
}

void Runtime::restart() {
  reset();
  sticky_ = cudaSuccess;
  trapped_ = false;
  registry = Registry();
  totals.clear();
  launches.clear();
  launches_left_out = 0;
  read_environment();
  thread_state() = ThreadState();
}

void Runtime::call_unlocked(const HostWork& work) noexcept {
  mutex.unlock();
  thread_state().in_host_function = true;
  work.function(work.data);
  thread_state().in_host_function = false;
  mutex.lock();
}

Graph* Runtime::find_graph(cudaGraph_t handle) const {
  const auto it = graphs.find(handle);
  return it == graphs.end() ? nullptr : it->second.get();
}

Node* Runtime::find_node(cudaGraphNode_t handle) const {
  for (const auto& [key, graph] : graphs) {
    for (const std::unique_ptr<Node>& node : graph->nodes) {
      if (static_cast<const void*>(node.get()) == handle) return node.get();
    }
  }
  return nullptr;
}

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

void print_line(const std::string& line) {
  std::fflush(stdout);
  std::fprintf(stderr, "flamia vgpu: %s\n", line.c_str());
}

cudaError_t finish_call(const char* name, const Outcome& outcome) {
  if (!outcome.text.empty()) print_line(concat(name, ": ", outcome.text));
  if (outcome.error != cudaSuccess && outcome.error != cudaErrorNotReady) {
    thread_state().last_error = outcome.error;
  }
  return outcome.error;
}

Outcome enter_call(Runtime& runtime, Needs needs) {
  if (thread_state().in_host_function) {
    return {cudaErrorNotPermitted, "host functions must not call the runtime"};
  }
  Outcome started = runtime.start();
  if (!started.ok()) return started;
  if (needs == Needs::kNothing) return cudaSuccess;
  if (runtime.sticky() != cudaSuccess) return runtime.sticky();
  if (needs == Needs::kNoCapture && runtime.streams.forbids(thread_state().capture_mode)) {
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

}  // namespace flamia::emulator::cudart
