// Single-precision GEMM rate of this machine: the yardstick of the CPU backend.
// Depends on: OpenBLAS where the build found it (FLAMIA_HAVE_OPENBLAS), Eigen always.
// Used by: bench train, forward, backward.
#pragma once

#include <string>

namespace flamia::bench {

struct GemmRate {
  double gflops = 0;          ///< of all threads together, 2 per multiply-add
  double gflops_per_cpu = 0;  ///< per second of processor time
  std::string library;        ///< the faster one
};

/// Rate of square products of 1024 x 1024 x 1024, one library call a thread at a time on as many
/// threads as given: the best of several rounds of every library. About a second.
GemmRate measure_gemm(int threads);

}  // namespace flamia::bench
