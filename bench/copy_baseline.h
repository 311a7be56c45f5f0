// Memory rate of this machine: the yardstick of the quantizers.
// Used by: bench quantize.
#pragma once

namespace flamia::bench {

struct CopyRate {
  double gb_per_s = 0;      ///< bytes read plus bytes written, of all threads (GB: 1e9 bytes)
  double gb_per_cpu_s = 0;  ///< per second of processor time
};

/// memcpy between buffers that no cache holds, on all threads at once: the best of several rounds.
CopyRate measure_copy(int threads);

}  // namespace flamia::bench
