// Causal leak probe: does a future token change earlier rows through a shared scale?
// Paper: 3.2, 4.3 (Table 5), A.3, A.4. Used by: the program's attend and audit, benchmarks, tests.
// Goes through the public API only, so it probes what users get.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "audit/library_call.h"
#include "flamia/options.h"
#include "flamia/problem.h"
#include "flamia/status.h"

namespace flamia::audit {

struct LeakVerdict {
  bool tested = false;  ///< false: the mask shows later keys, or no document has two tokens
  bool passed = false;  ///< nothing beyond the promise changed
  int64_t o_reach = 0;  ///< largest distance in tokens back from a perturbed token at which an
                        ///< earlier row of O or LSE changed; 0: none
  int64_t dq_reach = 0;
  double o_change = 0;  ///< largest change relative to the largest |entry| of the tensor
  double dq_change = 0;
  double dq_change_before_block = 0;  ///< of rows before the token's 32-token block only
  std::string words;                  ///< what was found
  std::string promise;                ///< what the options promise
};

/// Runs forward and, when d_o is given, backward on a copy of at most the first 384 rows and few
/// heads of the longest document, then again with one token's row of k, v, q or d_o times 2^20, or
/// with all its rows zero, at offsets around the edges of 32-token blocks and tiles. Rows before
/// the token are compared bitwise.
///
/// Promise: Path::kBf16 and Safety::kExact: nothing changes. Safety::kDefault: O, LSE and dQ
/// change inside the token's 32-token block only, but for the rounding of an FP16 dQ accumulator
/// prescaled by maxima of the document. That it is this rounding is shown twice: the same probes
/// with the causal prescale change nothing before the block, and no entry of dQ moves by more than
/// the step of the prescaled accumulator and of BF16 allow.
///
/// inputs: q, k, v and cumulative lengths are read, in host memory. forward: see HostForward.
/// Errors: those of the library's calls.
Status causal_leak(const Problem& problem, const Options& options, const ForwardTensors& inputs,
                   const TensorView& d_o, LeakVerdict* verdict, const HostForward& forward = {});

/// The same at chosen tokens, counted from the start of the copy; others than [1, rows) are
/// skipped.
Status causal_leak_at(const Problem& problem, const Options& options, const ForwardTensors& inputs,
                      const TensorView& d_o, const std::vector<int64_t>& tokens,
                      LeakVerdict* verdict, const HostForward& forward = {});

}  // namespace flamia::audit
