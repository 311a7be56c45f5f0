// Function annotations shared by host and device code.
// Used by: every header that nvcc compiles for both sides.
#pragma once

#if defined(__CUDACC__)
#define FLAMIA_HD __host__ __device__
#define FLAMIA_DEVICE __device__ __forceinline__
#else
#define FLAMIA_HD
#endif

#if defined(__GNUC__)
#define FLAMIA_FORCE_INLINE inline __attribute__((always_inline))
#else
#define FLAMIA_FORCE_INLINE inline
#endif
