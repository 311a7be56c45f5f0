// The mutation check: a correct pipeline of PTX, its mutants without one synchronization each, and
// what becomes of them on the virtual GPU.
// Depends on: execution_harness.h, tma/tensor_map.h. Used by: mutation_test.cc.
#pragma once

#include <string>
#include <vector>

#include "emulator/emulator.h"

namespace flamia::emulator {

struct Pipeline {
  const char* file;  ///< in tests/emulator/data
  Chip chip;
  uint32_t threads;
  uint32_t cluster;
  uint32_t b_box_rows;
};

inline constexpr Pipeline kHopperPipeline = {"pipeline_sm90a.ptx", Chip::kH200, 288, 2, 16};
inline constexpr Pipeline kBlackwellPipeline = {"pipeline_sm100a.ptx", Chip::kB200, 256, 1, 32};

struct Mutant {
  uint32_t line = 0;
  std::string change;  ///< "without fence.proxy.async", ...
  std::string text;
};

/// Every mutant, in the order of the lines.
std::vector<Mutant> mutants_of(const std::string& text);

struct Verdict {
  std::string by;  ///< kind of the trap, "wrong result", or "" if nothing was noticed
  std::string text;
  uint32_t runs = 0;  ///< until it was noticed
};

/// Runs a text under the adversaries, `seeds` seeds each, until something is noticed.
/// strict: by Rules::kStrict.
Verdict judge_mutant(const Pipeline& pipeline, const std::string& text, uint32_t seeds,
                     bool strict);

std::string read_pipeline(const Pipeline& pipeline);

}  // namespace flamia::emulator
