// Any bytes as a safetensors file: the reader refuses or gives tensors that cover the data exactly,
// and what it gives can be written and read again. The file lives in memory.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <string>
#include <vector>

#include "tools/tensor_file.h"

namespace {

using flamia::Status;
using flamia::tools::HostTensor;
using flamia::tools::NamedTensor;
using flamia::tools::TensorFile;
using flamia::tools::TensorInfo;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "tensor_file_fuzz: %s\n", what);
  std::abort();
}

// One memory file for all inputs; the path stays the same.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : descriptor_(memfd_create(name, MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "memfd_create failed");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  void set(const uint8_t* data, size_t size) const {
    require(ftruncate(descriptor_, 0) == 0, "ftruncate failed");
    require(pwrite(descriptor_, data, size, 0) == static_cast<ssize_t>(size), "pwrite failed");
  }

 private:
  int descriptor_;
};

std::list<HostTensor> read_all(const TensorFile& file) {
  std::list<HostTensor> tensors;
  for (const TensorInfo& info : file.tensors()) {
    HostTensor& tensor = tensors.emplace_back();
    require(file.read(info, &tensor).ok(), "a tensor of an accepted file must be readable");
    require(tensor.bytes() == info.end - info.begin, "a tensor must have its bytes");
  }
  return tensors;
}

void write_and_compare(const TensorFile& file, const std::list<HostTensor>& tensors) {
  std::vector<NamedTensor> named;
  auto tensor = tensors.begin();
  for (const TensorInfo& info : file.tensors()) named.push_back({info.name, &*tensor++});
  const std::string path = "/tmp/tensor_file_fuzz." + std::to_string(getpid());
  require(flamia::tools::write_tensor_file(path, named, file.metadata()).ok(), "write failed");
  TensorFile copy;
  const Status opened = copy.open(path);
  unlink(path.c_str());
  require(opened.ok(), "what was written must be readable");
  require(copy.metadata() == file.metadata(), "metadata must be kept");
  for (const NamedTensor& entry : named) {
    const TensorInfo* info = copy.find(entry.name);
    require(info != nullptr, "names must be kept");
    HostTensor read;
    require(copy.read(*info, &read).ok(), "copies must be readable");
    require(read.type() == entry.tensor->type() && read.shape() == entry.tensor->shape(),
            "types and shapes must be kept");
    require(std::memcmp(read.data(), entry.tensor->data(), read.bytes()) == 0,
            "bytes must be kept");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile memory("tensor_file_fuzz");
  memory.set(data, size);
  TensorFile file;
  const Status status = file.open(memory.path());
  if (!status.ok()) {
    require(!status.message().empty(), "a refusal must have words");
    for (const char character : status.message()) {
      require(static_cast<unsigned char>(character) >= 0x20, "a refusal must be one line");
    }
    return 0;
  }
  const std::list<HostTensor> tensors = read_all(file);
  // Writing to disk is slow; one input in eight is enough.
  if (size % 8 == 0) write_and_compare(file, tensors);
  return 0;
}
