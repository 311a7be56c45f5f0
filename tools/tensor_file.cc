// Safetensors files in and out: 8 bytes of header length, a JSON header, the tensors' bytes.

#include "tools/tensor_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/bits.h"
#include "tools/atomic_file.h"
#include "tools/errors.h"

namespace flamia::tools {

namespace {

constexpr uint64_t kLengthBytes = 8;

uint64_t little_endian(const unsigned char* bytes) {
  uint64_t value = 0;
  for (uint64_t i = 0; i < kLengthBytes; ++i) value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

// Reads exactly `bytes` bytes; the error text is empty on success.
std::string read_fully(int descriptor, uint64_t offset, void* data, uint64_t bytes) {
  char* next = static_cast<char*>(data);
  constexpr uint64_t kChunk = uint64_t{1} << 30;
  while (bytes > 0) {
    const ssize_t got = pread(descriptor, next, static_cast<size_t>(std::min(bytes, kChunk)),
                              static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return "reading failed: " + errno_text(errno);
    if (got == 0) return "the file ends too early";
    next += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<uint64_t>(got);
  }
  return "";
}

const char* kind_of_file(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

struct OpenedFile {
  int descriptor = -1;
  uint64_t bytes = 0;
};

// A pipe without a writer would block for ever, hence O_NONBLOCK; regular files ignore it.
Status open_regular(const std::string& path, OpenedFile* file) {
  const std::string shown = printable(path);
  if (path.find('\0') != std::string::npos) return bad_input("{}: not a file name", shown);
  file->descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (file->descriptor < 0) return bad_input("{}: {}", shown, errno_text(errno));
  struct stat facts = {};
  if (fstat(file->descriptor, &facts) != 0) return bad_input("{}: {}", shown, errno_text(errno));
  if (!S_ISREG(facts.st_mode)) {
    return bad_input("{}: must be a regular file; it is {}", shown, kind_of_file(facts.st_mode));
  }
  file->bytes = static_cast<uint64_t>(facts.st_size);
  return Status();
}

nlohmann::ordered_json header_of(const std::vector<NamedTensor>& tensors,
                                 const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const NamedTensor& entry : tensors) {
    const uint64_t end = offset + entry.tensor->bytes();
    header[entry.name] = {{"dtype", element_name(entry.tensor->type())},
                          {"shape", entry.tensor->shape()},
                          {"data_offsets", {offset, end}}};
    offset = end;
  }
  return header;
}

}  // namespace

TensorFile::~TensorFile() {
  if (descriptor_ >= 0) (void)close(descriptor_);
}

Status TensorFile::open(const std::string& path) {
  path_ = path;
  const std::string shown = printable(path);
  OpenedFile file;
  Status opened = open_regular(path, &file);
  if (descriptor_ >= 0) (void)close(descriptor_);
  descriptor_ = file.descriptor;
  if (!opened.ok()) return opened;
  if (file.bytes < kLengthBytes) {
    return bad_input("{}: must be a safetensors file; it has {} bytes", shown, file.bytes);
  }
  unsigned char length_field[kLengthBytes];
  std::string problem = read_fully(descriptor_, 0, length_field, kLengthBytes);
  if (!problem.empty()) return failure("{}: {}", shown, problem);
  const uint64_t length = little_endian(length_field);
  if (length > file.bytes - kLengthBytes) {
    return bad_input(
        "{}: the header claims {} bytes, but the file has only {} after its first 8 "
        "(truncated, or not a safetensors file?)",
        shown, length, file.bytes - kLengthBytes);
  }
  if (length > kLongestHeaderBytes) {
    return bad_input("{}: the header must have {} bytes at most; it has {}", shown,
                     kLongestHeaderBytes, length);
  }
  std::string json(static_cast<size_t>(length), '\0');
  problem = read_fully(descriptor_, kLengthBytes, json.data(), length);
  if (!problem.empty()) return failure("{}: {}", shown, problem);
  data_begin_ = kLengthBytes + length;
  const Status parsed = parse_tensor_header(json, file.bytes - data_begin_, &header_);
  if (!parsed.ok()) return bad_input("{}: {}", shown, parsed.message());
  return Status();
}

const TensorInfo* TensorFile::find(std::string_view name) const {
  for (const TensorInfo& tensor : header_.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

Status TensorFile::read(const TensorInfo& tensor, HostTensor* result) const {
  Status allocated = HostTensor::allocate(tensor.type, tensor.shape, result);
  if (!allocated.ok()) {
    return Status(allocated.code(), fmt::format("{}: tensor {}: {}", printable(path_),
                                                printable(tensor.name), allocated.message()));
  }
  const std::string problem =
      read_fully(descriptor_, data_begin_ + tensor.begin, result->data(), result->bytes());
  if (problem.empty()) return Status();
  return failure("{}: tensor {}: {}", printable(path_), printable(tensor.name), problem);
}

Status write_tensor_file(const std::string& path, std::vector<NamedTensor> tensors,
                         const std::map<std::string, std::string>& metadata) {
  std::set<std::string> names = {"__metadata__"};
  for (const NamedTensor& entry : tensors) {
    if (!names.insert(entry.name).second) {
      return failure("{}: tensor name {} must be free", printable(path), printable(entry.name));
    }
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return element_bytes(a.tensor->type()) > element_bytes(b.tensor->type());
  });
  std::string json = header_of(tensors, metadata)
                         .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  json.resize(round_up(json.size(), static_cast<size_t>(kLengthBytes)), ' ');

  AtomicFile file;
  if (Status status = file.open(path); !status.ok()) return status;
  unsigned char length[kLengthBytes];
  for (uint64_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<unsigned char>(json.size() >> (8 * i));
  }
  if (Status status = file.write(length, sizeof(length)); !status.ok()) return status;
  if (Status status = file.write(json.data(), json.size()); !status.ok()) return status;
  for (const NamedTensor& entry : tensors) {
    Status status = file.write(entry.tensor->data(), entry.tensor->bytes());
    if (!status.ok()) return status;
  }
  return file.commit();
}

}  // namespace flamia::tools
