// Safetensors files in and out.
// Depends on: tensor_header (what a header may say), atomic_file (how a file appears).
// Used by: attend, quantize, explain; tests and the fuzzer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "flamia/status.h"
#include "tools/host_tensor.h"
#include "tools/tensor_header.h"

namespace flamia::tools {

/// A file opened for reading. Its header is checked by open(); tensors are read one by one, so a
/// file may be larger than memory.
class TensorFile {
 public:
  TensorFile() = default;
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;
  ~TensorFile();

  /// Only regular files are read. Errors are one sentence that begins with the path.
  Status open(const std::string& path);

  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  /// Null if the file has no such tensor.
  const TensorInfo* find(std::string_view name) const;

  /// Reads the bytes of one tensor. A file that shrank since open() is an error.
  Status read(const TensorInfo& tensor, HostTensor* result) const;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  uint64_t data_begin_ = 0;
  TensorHeader header_;
};

/// A tensor to be written; the memory must live until write_tensor_file() returns.
struct NamedTensor {
  std::string name;
  const HostTensor* tensor = nullptr;
};

/// Writes all or nothing (see atomic_file.h). Names must be distinct and not "__metadata__".
/// Tensors of wide elements come first, so that each one is aligned to its element size.
Status write_tensor_file(const std::string& path, std::vector<NamedTensor> tensors,
                         const std::map<std::string, std::string>& metadata);

}  // namespace flamia::tools
