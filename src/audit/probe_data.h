// Streams of random numbers of the probes: no two probes see the same inputs.
// Used by: every probe.
#pragma once

#include <cstdint>

namespace flamia::audit {

inline constexpr uint64_t kAccuracyStream = 1;
inline constexpr uint64_t kCausalStream = 2;
inline constexpr uint64_t kDocumentStream = 3;
inline constexpr uint64_t kPackingStream = 4;
inline constexpr uint64_t kTailStream = 5;
inline constexpr uint64_t kSumStream = 6;
inline constexpr uint64_t kUnderflowStream = 7;
inline constexpr uint64_t kContextStream = 8;
inline constexpr uint64_t kConsistencyStream = 9;

/// Tokens of the largest tile that probes know of.
inline constexpr int64_t kProbeTile = 128;

}  // namespace flamia::audit
