// The JSON header of a safetensors file: what it may say, and every way in which it can lie.

#include "tools/tensor_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tools/errors.h"

namespace flamia::tools {

namespace {

using Json = nlohmann::json;

// Receives the parser's events. The format is flat, so the nesting is an enum, and whatever does
// not fit ends the parse: hostile depth, size or repetition is never built in memory.
class HeaderHandler final : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderHandler(TensorHeader* header) : header_(header) {}

  const std::string& error() const { return error_; }

  bool start_object(std::size_t) override {
    if (place_ == Place::kOutside) return go_to(Place::kRoot);
    if (place_ == Place::kMetadataValue) return go_to(Place::kMetadata);
    if (place_ == Place::kTensorValue) {
      fields_ = {};
      return go_to(Place::kTensor);
    }
    return unexpected("an object");
  }

  bool end_object() override {
    if (place_ == Place::kRoot) return go_to(Place::kOutside);
    if (place_ == Place::kTensor && !finish_tensor()) return false;
    return go_to(Place::kRoot);
  }

  bool key(string_t& name) override {
    if (place_ == Place::kRoot) {
      if (!names_.insert(name).second) {
        return fail(fmt::format("tensor {} is there twice", printable(name)));
      }
      if (name == "__metadata__") return go_to(Place::kMetadataValue);
      tensor_ = TensorInfo();
      tensor_.name = name;
      return go_to(Place::kTensorValue);
    }
    if (place_ == Place::kMetadata) {
      if (header_->metadata.count(name) != 0) {
        return fail(fmt::format("metadata entry {} is there twice", printable(name)));
      }
      metadata_key_ = name;
      return go_to(Place::kMetadataText);
    }
    if (name == "dtype") return start_field(&fields_.type, name, Place::kType);
    if (name == "shape") return start_field(&fields_.shape, name, Place::kShapeValue);
    if (name == "data_offsets") return start_field(&fields_.offsets, name, Place::kOffsetsValue);
    return fail(fmt::format("{}: field {} is unknown", tensor_text(), printable(name)));
  }

  bool string(string_t& text) override {
    if (place_ == Place::kMetadataText) {
      header_->metadata.emplace(std::move(metadata_key_), text);
      return go_to(Place::kMetadata);
    }
    if (place_ != Place::kType) return unexpected("a string");
    const std::optional<ElementType> type = element_from_name(text);
    if (!type) {
      return fail(fmt::format("{}: dtype {} is unknown", tensor_text(), printable(text)));
    }
    tensor_.type = *type;
    return go_to(Place::kTensor);
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::kShapeValue) return go_to(Place::kShape);
    if (place_ == Place::kOffsetsValue) return go_to(Place::kOffsets);
    return unexpected("an array");
  }

  bool end_array() override { return go_to(Place::kTensor); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return fail(fmt::format("{}: dim {} is too large", tensor_text(), value));
      }
      if (tensor_.shape.size() == kHighestRank) {
        return fail(fmt::format("{}: rank must be {} at most", tensor_text(), kHighestRank));
      }
      tensor_.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ == Place::kOffsets) {
      if (offsets_ == 2) return fail(tensor_text() + ": data_offsets must be two numbers");
      (offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
      return true;
    }
    return unexpected("a number");
  }

  bool number_integer(number_integer_t value) override {
    return unexpected(fmt::format("the negative number {}", value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return unexpected(fmt::format("the number {}", printable(text)));
  }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return fail(fmt::format("the header is not valid JSON at its byte {}", position));
  }

 private:
  enum class Place {
    kOutside,
    kRoot,
    kMetadataValue,
    kMetadata,
    kMetadataText,
    kTensorValue,
    kTensor,
    kType,
    kShapeValue,
    kShape,
    kOffsetsValue,
    kOffsets,
  };
  struct Fields {
    bool type = false;
    bool shape = false;
    bool offsets = false;
  };

  bool go_to(Place place) {
    place_ = place;
    return true;
  }
  bool fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }
  std::string tensor_text() const { return "tensor " + printable(tensor_.name); }

  bool start_field(bool* seen, const std::string& name, Place place) {
    if (*seen) return fail(fmt::format("{}: field {} is there twice", tensor_text(), name));
    *seen = true;
    if (place == Place::kOffsetsValue) offsets_ = 0;
    return go_to(place);
  }

  bool finish_tensor() {
    const char* missing = !fields_.type      ? "dtype"
                          : !fields_.shape   ? "shape"
                          : !fields_.offsets ? "data_offsets"
                                             : nullptr;
    if (missing != nullptr) {
      return fail(fmt::format("{}: field {} is missing", tensor_text(), missing));
    }
    if (offsets_ != 2) return fail(tensor_text() + ": data_offsets must be two numbers");
    header_->tensors.push_back(std::move(tensor_));
    return true;
  }

  // Says what the format wants at this place.
  bool unexpected(const std::string& got) {
    const auto wanted = [this]() -> std::string {
      switch (place_) {
        case Place::kOutside:
        case Place::kRoot:
          return "the header must be one JSON object";
        case Place::kMetadataValue:
          return "__metadata__ must be an object";
        case Place::kMetadata:
        case Place::kMetadataText:
          return "metadata must be strings";
        case Place::kTensorValue:
        case Place::kTensor:
          return tensor_text() + " must be an object";
        case Place::kType:
          return tensor_text() + ": dtype must be a string";
        case Place::kShapeValue:
        case Place::kShape:
          return tensor_text() + ": shape must be an array of non-negative integers";
        case Place::kOffsetsValue:
        case Place::kOffsets:
          return tensor_text() + ": data_offsets must be two non-negative integers";
      }
      return "the header must be one JSON object";
    };
    return fail(fmt::format("{}; got {}", wanted(), got));
  }

  TensorHeader* header_;
  Place place_ = Place::kOutside;
  std::set<std::string> names_;
  TensorInfo tensor_;
  Fields fields_;
  int offsets_ = 0;
  std::string metadata_key_;
  std::string error_;
};

// Bytes of the shape, or an error text.
Status check_size(const TensorInfo& tensor) {
  const std::string name = printable(tensor.name);
  const std::optional<int64_t> elements = element_count(tensor.shape);
  int64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, element_bytes(tensor.type), &bytes)) {
    return bad_input("tensor {}: shape {} is too large", name, shape_text(tensor.shape));
  }
  if (tensor.begin > tensor.end) {
    return bad_input("tensor {}: data_offsets must not decrease; got [{}, {}]", name, tensor.begin,
                     tensor.end);
  }
  if (tensor.end - tensor.begin != static_cast<uint64_t>(bytes)) {
    return bad_input("tensor {}: {} {} must have {} bytes; data_offsets [{}, {}] have {}", name,
                     element_name(tensor.type), shape_text(tensor.shape), bytes, tensor.begin,
                     tensor.end, tensor.end - tensor.begin);
  }
  return Status();
}

// The data must be covered from its first byte to its last, each byte once.
Status check_coverage(const std::vector<TensorInfo>& tensors, uint64_t data_bytes) {
  uint64_t covered = 0;
  for (const TensorInfo& tensor : tensors) {
    const std::string name = printable(tensor.name);
    if (tensor.end > data_bytes) {
      return bad_input(
          "tensor {} ends at byte {} of the data, but the file has only {} (truncated?)", name,
          tensor.end, data_bytes);
    }
    if (tensor.begin < covered) {
      return bad_input("tensor {} begins at byte {} of the data, inside the tensor before it", name,
                       tensor.begin);
    }
    if (tensor.begin > covered) {
      return bad_input("tensor {} begins at byte {} of the data, after a hole of {} bytes", name,
                       tensor.begin, tensor.begin - covered);
    }
    covered = tensor.end;
  }
  if (covered != data_bytes) {
    return bad_input("{} bytes after the last tensor belong to no tensor", data_bytes - covered);
  }
  return Status();
}

}  // namespace

Status parse_tensor_header(std::string_view json, uint64_t data_bytes, TensorHeader* header) {
  *header = TensorHeader();
  if (json.empty() || json.front() != '{') {
    return bad_input("the header must begin with {{ (is this a safetensors file?)");
  }
  // The parser takes a NUL byte for the end of its input and would ignore what follows.
  if (json.find('\0') != std::string_view::npos) {
    return bad_input("the header must not contain NUL bytes");
  }
  HeaderHandler handler(header);
  if (!Json::sax_parse(json.begin(), json.end(), &handler)) {
    return bad_input("{}", handler.error());
  }
  for (const TensorInfo& tensor : header->tensors) {
    if (Status status = check_size(tensor); !status.ok()) return status;
  }
  std::sort(header->tensors.begin(), header->tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  return check_coverage(header->tensors, data_bytes);
}

}  // namespace flamia::tools
