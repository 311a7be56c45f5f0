// The JSON header of a safetensors file: what it may say, and every way in which it can lie.
// Depends on: element types. Used by: tensor_file, its fuzzer.
// Reads nothing from disk.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "flamia/status.h"
#include "tools/host_tensor.h"

namespace flamia::tools {

/// One tensor of a file. begin and end are byte offsets into the data after the header.
struct TensorInfo {
  std::string name;
  ElementType type = ElementType::kU8;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct TensorHeader {
  std::vector<TensorInfo> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// Longest header that is read, as in the reference implementation of the format.
constexpr uint64_t kLongestHeaderBytes = 100'000'000;
constexpr size_t kHighestRank = 16;

/// Checks and reads a header; data_bytes is what the file has after it. Refused: anything that is
/// not one JSON object of tensors, duplicate or unknown fields, unknown types, dims that are not
/// non-negative integers, sizes that overflow, byte ranges that do not match the shape, overlap,
/// leave a hole, or do not end where the file ends.
Status parse_tensor_header(std::string_view json, uint64_t data_bytes, TensorHeader* header);

}  // namespace flamia::tools
