// Tensor maps of kernel cases for the virtual GPU.
// Depends on: tests/cuda/silicon/kernel_case.h, emulator/tma/tensor_map.h.
// Used by: kernels_silicon_test.cc, blackwell_kernel.h.
#pragma once

#include <gtest/gtest.h>

#include <array>

#include "emulator/tma/tensor_map.h"
#include "tests/cuda/silicon/kernel_case.h"

namespace flamia::emulator {

using KernelMap = std::array<uint8_t, kMapBytes>;

/// in and out: addresses of the buffers of the case.
inline KernelMap encode(const silicon::MapSpec& spec, uint64_t in, uint64_t out, bool blackwell) {
  alignas(64) KernelMap map{};
  EncodeTiledArguments arguments;
  arguments.map = map.data();
  arguments.type = spec.type;
  arguments.rank = spec.rank;
  arguments.address = (spec.of_output ? out : in) + spec.offset_bytes;
  arguments.dims = spec.dims;
  arguments.strides = spec.strides;
  arguments.box = spec.box;
  arguments.element_strides = spec.element_strides;
  arguments.swizzle = spec.swizzle;
  arguments.oob_fill = spec.nan_fill ? 1 : 0;
  const Status status = encode_tiled(arguments, blackwell);
  EXPECT_TRUE(status.ok()) << status.message();
  return map;
}

}  // namespace flamia::emulator
