// All cases of the comparison with silicon that are kernels.
// Depends on: kernel_*_cases.h. Used by: silicon_kernels.cc, kernels_silicon_test.cc.
#pragma once

#include "tests/cuda/silicon/kernel_atomic_cases.h"
#include "tests/cuda/silicon/kernel_barrier_cases.h"
#include "tests/cuda/silicon/kernel_hopper_cases.h"
#include "tests/cuda/silicon/kernel_tma_cases.h"
#include "tests/cuda/silicon/kernel_warp_cases.h"
#include "tests/cuda/silicon/kernel_wgmma_cases.h"

namespace flamia::silicon {

inline void add_warp(std::vector<KernelCase>* cases) {
  add_shuffles(cases);
  add_votes(cases);
  add_matrix_rows(cases);
  add_mma(cases);
}

inline void add_synchronization(std::vector<KernelCase>* cases) {
  add_barriers(cases);
  add_clusters(cases);
  add_copies(cases);
  add_control(cases);
}

struct KernelGroup {
  const char* name;
  void (*add)(std::vector<KernelCase>*);
};
inline constexpr KernelGroup kKernelGroups[] = {
    {"warp", add_warp},      {"wgmma", add_wgmma}, {"synchronization", add_synchronization},
    {"atomic", add_atomics}, {"tma", add_tma},     {"hopper", add_hopper},
};

}  // namespace flamia::silicon
