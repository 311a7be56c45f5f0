// Reads the golden vectors of tests/golden: small numpy files, described in their README.
// Depends on: version 1 of the npy format, C order, little endian. Used by: tests of any folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace flamia::test {

/// A numpy file as it lies on disk.
struct NpyFile {
  std::string type;        ///< numpy's name of the element type, such as "<f4" or "|u1"
  std::vector<int> shape;  ///< outermost first
  std::vector<char> bytes;
};

/// Reads `path`; throws std::runtime_error that names the file and what is wrong with it.
NpyFile read_npy(const std::string& path);

/// A golden array: row-major values and their shape.
template <typename T>
struct Golden {
  std::vector<int> shape;
  std::vector<T> values;

  /// Elements below one index of the first dimension.
  int row_size() const {
    int size = 1;
    for (size_t axis = 1; axis < shape.size(); ++axis) size *= shape[axis];
    return size;
  }
  const T* row(int i) const { return values.data() + static_cast<ptrdiff_t>(i) * row_size(); }
  T operator[](size_t i) const { return values.at(i); }
};

/// numpy's name of a C++ type.
template <typename T>
const char* npy_type();
template <>
inline const char* npy_type<uint8_t>() {
  return "|u1";
}
template <>
inline const char* npy_type<int8_t>() {
  return "|i1";
}
template <>
inline const char* npy_type<uint16_t>() {
  return "<u2";
}
template <>
inline const char* npy_type<int32_t>() {
  return "<i4";
}
template <>
inline const char* npy_type<uint32_t>() {
  return "<u4";
}
template <>
inline const char* npy_type<float>() {
  return "<f4";
}

/// Path of tests/golden/<name>.npy.
std::string golden_path(const std::string& name);

/// The array tests/golden/<name>.npy; its element type must be T.
template <typename T>
Golden<T> load_golden(const std::string& name) {
  const NpyFile file = read_npy(golden_path(name));
  if (file.type != npy_type<T>()) {
    throw std::runtime_error("load_golden: " + name + " must hold " + npy_type<T>() + "; got " +
                             file.type);
  }
  Golden<T> golden{file.shape, std::vector<T>(file.bytes.size() / sizeof(T))};
  std::memcpy(golden.values.data(), file.bytes.data(), file.bytes.size());
  return golden;
}

}  // namespace flamia::test
