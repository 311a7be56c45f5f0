// A window of executed instructions as text: who executed what, with the values of its registers.
// Depends on: state.h. Used by: the inner loop and the scheduler, when a trace is asked for.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "emulator/execution/state.h"

namespace flamia::emulator::execution {

class Tracer {
 public:
  /// Null if the grid is not one that `options` asks for. `launch` counts all grids from 0.
  static std::unique_ptr<Tracer> make(const TraceOptions& options, const std::string& kernel,
                                      uint64_t launch, std::FILE* to);

  /// Around the execution of one instruction by one group.
  void before(Warp& warp, const Step& step, uint32_t active);
  void after(Warp& warp, const Step& step, uint32_t active, Outcome outcome);
  /// What ends the grid, with the place of it.
  void trap(const std::string& text) { std::fprintf(to_, "trap: %s\n", text.c_str()); }
  /// Asynchronous work that takes effect now.
  void completes(const Grid& grid, const Job& job);

 private:
  Tracer(const TraceOptions& options, std::FILE* to) : options_(options), to_(to) {}
  bool wanted(const Warp& warp, uint32_t line) const;
  bool take();

  const TraceOptions& options_;
  std::FILE* to_;
  uint64_t seen_ = 0;
  std::vector<uint64_t> values_;  ///< of the operands before the instruction
};

}  // namespace flamia::emulator::execution
