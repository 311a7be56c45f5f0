// Safetensors files as bytes, put together by hand: what a test says is what the file has.
#pragma once

#include <cstdint>
#include <string>

namespace flamia::tools {

inline std::string length_field(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xff);
  return bytes;
}

/// Length, header, data.
inline std::string safetensors(const std::string& header, const std::string& data) {
  return length_field(header.size()) + header + data;
}

}  // namespace flamia::tools
