// Whole kernels as cases: hopper_kernels.cu, compiled to
// tests/emulator/data/hopper_kernels_sm90a.ptx. Depends on: kernel_wgmma_cases.h (codes),
// FLAMIA_SOURCE_DIR. Used by: kernel_cases.h.
#pragma once

#include <fstream>
#include <iterator>

#include "tests/cuda/silicon/kernel_wgmma_cases.h"

namespace flamia::silicon {

inline MapSpec matrix_map(uint32_t type, uint32_t offset, uint64_t row_bytes, uint64_t columns,
                          uint64_t rows, uint32_t box_columns, uint32_t box_rows) {
  MapSpec map;
  map.type = type;
  map.rank = 2;
  map.offset_bytes = offset;
  map.dims[0] = columns;
  map.dims[1] = rows;
  map.strides[0] = row_bytes;
  map.box[0] = box_columns;
  map.box[1] = box_rows;
  map.swizzle = 3;
  return map;
}

/// Numbers around one with a few of every other kind.
inline std::vector<uint32_t> matrix_words(CodeType type, uint32_t matrix, uint32_t words) {
  std::vector<uint32_t> out = code_words(type, 3, matrix, words);
  const std::vector<uint32_t> rare = code_words(type, 1, matrix, words);
  for (uint32_t i = 0; i < words; i += 257) out[i] = rare[i];
  return out;
}

inline void add_hopper(std::vector<KernelCase>* cases) {
  std::ifstream file(std::string(FLAMIA_SOURCE_DIR) +
                     "/tests/emulator/data/hopper_kernels_sm90a.ptx");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  // D[256, 256] = sum over K tiles of scale[tile] * A B^T; A and B [256, 512] e4m3.
  KernelCase product;
  product.name = "hopper.product.256x256x512";
  product.text = text;
  product.entry = "product";
  product.threads = 384;
  product.ctas = 4;
  product.shared_bytes = 1024 + 3 * 32768 + 64;
  product.in = {0x3f800000u, 0x3e99999au, 0xbfc00000u, 0x40490fdbu};  // scales
  product.in.resize(256, 0);
  for (const uint32_t matrix : {0u, 1u}) {
    const auto codes = matrix_words(kCodeE4m3, matrix, 256 * 512 / 4);
    product.in.insert(product.in.end(), codes.begin(), codes.end());
    product.maps.push_back(matrix_map(0, 1024 + matrix * 256 * 512, 512, 512, 256, 128, 128));
  }
  product.out.assign(256 * 256, 0);
  cases->push_back(product);
  // O[256, 64] and the log-sum of each row; Q, K, V [256, 64] bf16, causal.
  KernelCase attention;
  attention.name = "hopper.attention.256x256x64";
  attention.text = text;
  attention.entry = "attention";
  attention.threads = 160;
  attention.ctas = 4;
  attention.shared_bytes = 1024 + 5 * 8192 + 64;
  attention.in = code_words(kCodeBf16, 3, 5, 3 * 256 * 64 / 2);
  attention.maps.push_back(matrix_map(9, 0, 128, 64, 768, 64, 64));
  attention.maps.push_back(attention.maps[0]);
  attention.out.assign(256 * 64 + 256, 0);
  cases->push_back(attention);
}

}  // namespace flamia::silicon
