// What the programs of this folder share: a check that names what failed, and the result line.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

/// Ends the program unless a call has the error code `expected`.
inline void expect_code(const char* call, cudaError_t code, cudaError_t expected, int line) {
  if (code == expected) return;
  std::printf("line %d: %s must be %s; got %s\n", line, call, cudaGetErrorName(expected),
              cudaGetErrorName(code));
  std::exit(1);
}

/// Ends the program unless a condition holds.
inline void expect_true(const char* condition, bool holds, int line) {
  if (holds) return;
  std::printf("line %d: %s must hold\n", line, condition);
  std::exit(1);
}

#define EXPECT_OK(call) expect_code(#call, call, cudaSuccess, __LINE__)
#define EXPECT_CODE(call, code) expect_code(#call, call, code, __LINE__)
#define EXPECT(condition) expect_true(#condition, condition, __LINE__)
