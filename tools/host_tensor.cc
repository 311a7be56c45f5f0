// A dense tensor in host memory, with the element types that safetensors files carry.

#include "tools/host_tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "base/bits.h"
#include "tools/errors.h"

namespace flamia::tools {

namespace {

struct ElementRow {
  ElementType type;
  const char* name;
  int64_t bytes;
  std::optional<DType> library;
};

constexpr ElementRow kElements[] = {
    {ElementType::kBool, "BOOL", 1, std::nullopt},
    {ElementType::kU8, "U8", 1, DType::kU8},
    {ElementType::kI8, "I8", 1, DType::kI8},
    {ElementType::kF8E5M2, "F8_E5M2", 1, std::nullopt},
    {ElementType::kF8E4M3, "F8_E4M3", 1, std::nullopt},
    {ElementType::kF8E8M0, "F8_E8M0", 1, std::nullopt},
    {ElementType::kI16, "I16", 2, std::nullopt},
    {ElementType::kU16, "U16", 2, std::nullopt},
    {ElementType::kF16, "F16", 2, DType::kF16},
    {ElementType::kBF16, "BF16", 2, DType::kBF16},
    {ElementType::kI32, "I32", 4, DType::kI32},
    {ElementType::kU32, "U32", 4, std::nullopt},
    {ElementType::kF32, "F32", 4, DType::kF32},
    {ElementType::kI64, "I64", 8, DType::kI64},
    {ElementType::kU64, "U64", 8, std::nullopt},
    {ElementType::kF64, "F64", 8, std::nullopt},
};

constexpr bool rows_follow_the_enum() {
  int index = 0;
  for (const ElementRow& row : kElements) {
    if (static_cast<int>(row.type) != index++) return false;
  }
  return index == static_cast<int>(ElementType::kF64) + 1;
}
static_assert(rows_follow_the_enum());

const ElementRow& row_of(ElementType type) { return kElements[static_cast<int>(type)]; }

constexpr size_t kAlignment = 64;

}  // namespace

const char* element_name(ElementType type) { return row_of(type).name; }
int64_t element_bytes(ElementType type) { return row_of(type).bytes; }
std::optional<DType> library_type(ElementType type) { return row_of(type).library; }

std::optional<ElementType> element_from_name(std::string_view name) {
  for (const ElementRow& row : kElements) {
    if (name == row.name) return row.type;
  }
  return std::nullopt;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::optional<int64_t> element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  bool has_zero = false;
  bool overflows = false;
  for (const int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    has_zero = has_zero || dim == 0;
    if (dim != 0 && __builtin_mul_overflow(count, dim, &count)) overflows = true;
  }
  if (has_zero) return 0;
  if (overflows) return std::nullopt;
  return count;
}

Status HostTensor::allocate(ElementType type, std::vector<int64_t> shape, HostTensor* tensor) {
  const std::optional<int64_t> elements = element_count(shape);
  int64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, element_bytes(type), &bytes)) {
    return bad_input("a tensor of shape {} must fit into memory", shape_text(shape));
  }
  const size_t padded = round_up(static_cast<size_t>(bytes) + 1, kAlignment);
  void* memory = std::aligned_alloc(kAlignment, padded);
  if (memory == nullptr) {
    return Status(StatusCode::kOutOfMemory,
                  fmt::format("out of memory: {} bytes for a tensor {} {}", bytes,
                              element_name(type), shape_text(shape)));
  }
  tensor->type_ = type;
  tensor->shape_ = std::move(shape);
  tensor->elements_ = *elements;
  tensor->data_.reset(memory);
  return Status();
}

void HostTensor::fill_zero() {
  if (!empty()) std::memset(data_.get(), 0, bytes());
}

TensorView HostTensor::view() const {
  TensorView result;
  if (empty()) return result;
  result.data = data_.get();
  result.dtype = library_type(type_).value_or(DType::kU8);
  result.rank = static_cast<int32_t>(shape_.size());
  int64_t stride = 1;
  for (size_t i = shape_.size(); i-- > 0;) {
    result.shape[i] = shape_[i];
    result.stride[i] = stride;
    stride *= shape_[i];
  }
  return result;
}

}  // namespace flamia::tools
