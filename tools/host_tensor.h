// A dense tensor in host memory, with the element types that safetensors files carry.
// Depends on: TensorView. Used by: tensor files, generated workloads, every subcommand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flamia/problem.h"
#include "flamia/status.h"

namespace flamia::tools {

enum class ElementType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64,
};

/// Spelling in safetensors files, e.g. "BF16".
const char* element_name(ElementType type);
int64_t element_bytes(ElementType type);
/// The type with this spelling, nothing if there is none.
std::optional<ElementType> element_from_name(std::string_view name);
/// The library's type, nothing where the library has none.
std::optional<DType> library_type(ElementType type);

/// "[4096, 16, 128]".
std::string shape_text(const std::vector<int64_t>& shape);

/// Product of the dims, nothing on overflow or a negative dim; 1 for rank 0.
std::optional<int64_t> element_count(const std::vector<int64_t>& shape);

/// Owns 64-byte aligned memory; contiguous, last dim fastest.
class HostTensor {
 public:
  HostTensor() = default;

  /// Uninitialized memory for the shape. Errors: kInvalidArgument when the size overflows,
  /// kOutOfMemory.
  static Status allocate(ElementType type, std::vector<int64_t> shape, HostTensor* tensor);

  bool empty() const { return data_ == nullptr; }
  ElementType type() const { return type_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t elements() const { return elements_; }
  size_t bytes() const { return static_cast<size_t>(elements_ * element_bytes(type_)); }
  void fill_zero();

  void* data() { return data_.get(); }
  const void* data() const { return data_.get(); }
  template <typename Element>
  Element* as() {
    return static_cast<Element*>(data_.get());
  }
  template <typename Element>
  const Element* as() const {
    return static_cast<const Element*>(data_.get());
  }

  /// A view for the library; without data if the tensor is empty. The type must have a
  /// library_type() and the rank must be 4 at most.
  TensorView view() const;

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  ElementType type_ = ElementType::kBF16;
  std::vector<int64_t> shape_;
  int64_t elements_ = 0;
  std::unique_ptr<void, Free> data_;
};

}  // namespace flamia::tools
