// The npy reader behind load_golden.
// Depends on: the header dictionary as numpy writes it. Used by: golden.h.
#include "tests/support/golden.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace flamia::test {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& rule) {
  throw std::runtime_error("read_npy: " + path + " must " + rule);
}

/// The text after `key` in the header dictionary, up to the first of `stops`.
std::string field(const std::string& header, const std::string& key, const std::string& stops) {
  const size_t at = header.find(key);
  if (at == std::string::npos) return "";
  const size_t first = at + key.size();
  return header.substr(first, header.find_first_of(stops, first) - first);
}

size_t type_size(const std::string& type) { return static_cast<size_t>(type.back() - '0'); }

}  // namespace

std::string golden_path(const std::string& name) {
  return std::string(FLAMIA_SOURCE_DIR) + "/tests/golden/" + name + ".npy";
}

NpyFile read_npy(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail(path, "exist and be readable");
  const std::string content{std::istreambuf_iterator<char>(stream), {}};
  constexpr size_t kPreamble = 10;  // magic, version, header length
  if (content.size() < kPreamble || content.compare(0, 7, "\x93NUMPY\x01") != 0) {
    fail(path, "be a numpy file of version 1");
  }
  const size_t header_size =
      static_cast<unsigned char>(content[8]) + 256u * static_cast<unsigned char>(content[9]);
  if (content.size() < kPreamble + header_size) fail(path, "hold its whole header");
  const std::string header = content.substr(kPreamble, header_size);
  if (field(header, "'fortran_order': ", ",") != "False") fail(path, "be in C order");

  NpyFile file;
  file.type = field(header, "'descr': '", "'");
  if (file.type.empty()) fail(path, "name an element type");
  size_t elements = 1;
  const std::string sizes = field(header, "'shape': (", ")");
  for (const char* at = sizes.c_str(); *at != '\0';) {
    char* end = nullptr;
    const long size = std::strtol(at, &end, 10);
    if (end == at) break;
    file.shape.push_back(static_cast<int>(size));
    elements *= static_cast<size_t>(size);
    at = end;
    while (*at == ',' || *at == ' ') ++at;
  }
  file.bytes.assign(content.begin() + static_cast<ptrdiff_t>(kPreamble + header_size),
                    content.end());
  if (file.bytes.size() != elements * type_size(file.type))
    fail(path, "hold as many bytes as its shape says");
  return file;
}

}  // namespace flamia::test
