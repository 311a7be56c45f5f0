// The state of the process: one device with its allocations, modules, streams and graphs, the
// errors of threads, and the frame in which every call runs.
// Depends on: all data of cudart/. Used by: every call.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_set>
#include <vector>

#include "emulator/cudart/registry.h"
#include "emulator/cudart/settings.h"
#include "emulator/cudart/stream.h"

namespace flamia::emulator::cudart {

/// Page-locked memory: made here, or the program's own that it registered.
struct HostBlock {
  uint64_t bytes = 0;
  unsigned int flags = 0;
  bool is_ours = false;
};

/// What a kernel did, summed over its launches; for FLAMIA_VGPU_STATS.
struct KernelTotals {
  uint64_t launches = 0;
  uint64_t warp_instructions = 0;
  uint64_t lane_instructions = 0;
  double seconds = 0;
};

/// One launch with what was counted.
struct LaunchRecord {
  std::string kernel;
  ptx::Dim3 grid, block, cluster;
  double seconds = 0;  ///< of the host
  std::shared_ptr<const model::LaunchCounters> counters;
};
inline constexpr size_t kMostLaunchRecords = 4096;

class Runtime {
 public:
  /// The one of the process; never destroyed, because programs call into it while they exit.
  static Runtime& get();

  std::mutex mutex;
  Registry registry;
  StreamTable streams;
  std::map<const void*, std::unique_ptr<Graph>> graphs;
  std::map<const void*, std::shared_ptr<Program>> programs;
  std::map<uint64_t, HostBlock> host_blocks;
  std::map<std::string, KernelTotals> totals;
  std::vector<LaunchRecord> launches;  ///< if counted: the first kMostLaunchRecords
  uint64_t launches_left_out = 0;
  size_t limits[8] = {};
  cudaFuncCache cache_preference = cudaFuncCachePreferNone;
  unsigned int device_flags = 0;

  const Settings& settings() const { return settings_; }
  /// The device, made at its first use.
  Executor& executor() { return *executor_; }
  bool has_executor() const { return executor_ != nullptr; }
  /// Makes the device. Errors: the settings are not understood, no executor is linked.
  Outcome start();
  /// A device error that stays: every later call fails with it.
  Outcome break_device(cudaError_t error, std::string text);
  cudaError_t sticky() const { return sticky_; }
  /// cudaDeviceReset: everything that the program made is gone.
  void reset();
  /// As after process start, with settings read again; for tests.
  void restart();
  /// The host functions of the program run without the lock.
  void call_unlocked(const HostWork& work) noexcept;

  Graph* find_graph(cudaGraph_t handle) const;
  Node* find_node(cudaGraphNode_t handle) const;

 private:
  Runtime();
  void read_environment();
  void at_exit(int code);

  Settings settings_;
  Outcome settings_error_;
  std::unique_ptr<Executor> executor_;
  cudaError_t sticky_ = cudaSuccess;
  bool trapped_ = false;  ///< some kernel of this process was
};

/// The errors and modes of the calling thread.
struct ThreadState {
  cudaError_t last_error = cudaSuccess;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  bool in_host_function = false;
};
ThreadState& thread_state();

/// What a call needs.
enum class Needs : uint8_t {
  kNothing,   ///< works on a broken device too
  kDevice,    ///< a device without a sticky error
  kNoCapture  ///< that, and no capture that forbids calls of this kind
};

/// Prints one line of ours to stderr.
void print_line(const std::string& line);
/// Ends a call: prints the sentence of the outcome, keeps the error for cudaGetLastError.
cudaError_t finish_call(const char* name, const Outcome& outcome);
/// Checks `needs` under the lock.
Outcome enter_call(Runtime& runtime, Needs needs);

/// Runs the body of a call: Outcome body(Runtime&).
template <typename Body>
cudaError_t api_call(const char* name, Needs needs, Body body) {
  Outcome outcome;
  try {
    Runtime& runtime = Runtime::get();
    const std::lock_guard<std::mutex> lock(runtime.mutex);
    outcome = enter_call(runtime, needs);
    if (outcome.ok()) outcome = body(runtime);
  } catch (const std::bad_alloc&) {
    outcome = Outcome(cudaErrorMemoryAllocation, "the host is out of memory");
  } catch (const std::exception& error) {
    outcome = Outcome(cudaErrorUnknown, error.what());
  }
  return finish_call(name, outcome);
}

}  // namespace flamia::emulator::cudart
