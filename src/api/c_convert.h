// Structs of C to structs of C++ and back: reads structs of any known size, range-checks integers.
// Used by: api/c_api.cc. Checks of meaning are not made here; the C++ calls make them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/refusals.h"
#include "flamia/attention.h"
#include "flamia/c_api.h"
#include "plan/role_names.h"

#pragma GCC visibility push(hidden)  // internal, though this folder exports
namespace flamia::c_convert {

/// Reads and writes the fields of a struct that its size says are there.
template <typename Struct>
class Fields {
 public:
  explicit Fields(Struct* source) : source_(source) {}

  Status check(const char* function, const char* argument) const {
    if (source_ == nullptr) {
      return invalid_argument(function, argument, "be given", "null");
    }
    if (source_->struct_size < sizeof(size_t) || source_->struct_size > sizeof(Struct)) {
      return invalid_argument(function, concat(argument, ".struct_size"),
                              concat("be between ", sizeof(size_t), " and ", sizeof(Struct)),
                              concat(source_->struct_size), "set it to sizeof the struct");
    }
    return {};
  }

  /// The field, or zero where an older caller has none.
  template <typename Field, typename Owner>
  Field get(Field Owner::*member) const {
    return has(member) ? source_->*member : Field{};
  }
  template <typename Field, typename Owner>
  void set(Field Owner::*member, Field value) const {
    if (has(member)) source_->*member = value;
  }
  template <typename Field, typename Owner>
  bool has(Field Owner::*member) const {
    const char* begin = reinterpret_cast<const char*>(source_);
    const char* field = reinterpret_cast<const char*>(&(source_->*member));
    return static_cast<size_t>(field - begin) + sizeof(source_->*member) <= source_->struct_size;
  }

 private:
  Struct* source_;
};

/// Converts an integer of C, where 0 means the default and values count from 1.
template <typename Enum>
Status to_enum(const char* function, const char* argument, int32_t value, Enum* result) {
  if (value == 0) return {};
  const auto count = static_cast<int32_t>(spellings<Enum>().size());
  if (value < 0 || value > count) {
    return invalid_argument(function, argument, concat("be between 0 and ", count), concat(value),
                            concat(choices<Enum>(), ", counted from 1"));
  }
  *result = static_cast<Enum>(value - 1);
  return {};
}

/// The same for enums without a default.
template <typename Enum>
Status to_required_enum(const char* function, const char* argument, int32_t value, Enum* result) {
  if (value > 0 && static_cast<size_t>(value) <= spellings<Enum>().size()) {
    *result = static_cast<Enum>(value - 1);
    return {};
  }
  return invalid_argument(function, argument, concat("be between 1 and ", spellings<Enum>().size()),
                          concat(value), concat(choices<Enum>(), ", counted from 1"));
}

/// A view that may be null; the result has no data then.
Status to_view(const char* function, const char* argument, const flamia_tensor* source,
               TensorView* view);
Status to_problem(const char* function, const flamia_problem* source, Problem* problem);
/// Null means all defaults.
Status to_options(const char* function, const flamia_options* source, Options* options);
Status to_tensors(const char* function, const flamia_forward_tensors* source,
                  ForwardTensors* tensors);
Status to_tensors(const char* function, const flamia_backward_tensors* source,
                  BackwardTensors* tensors);
Status to_tensors(const char* function, const flamia_quantized_tensors* source,
                  QuantizedTensors* tensors);
/// Null means no workspace.
Status to_workspace(const char* function, const flamia_workspace* source, Workspace* workspace);
Status to_conventions(const char* function, const flamia_conventions* source,
                      Conventions* conventions);

/// Outputs are checked before the work, so that writing them cannot fail.
Status check_problem_output(const char* function, const flamia_problem* target);
Status check_conventions_output(const char* function, const flamia_conventions* target);
Status check_statistics_output(const char* function, const flamia_statistics* target);
void write_problem(const Problem& problem, flamia_problem* target);
void write_conventions(const Conventions& conventions, flamia_conventions* target);
/// Null is allowed.
void write_statistics(const PassStatistics& statistics, flamia_statistics* target);

}  // namespace flamia::c_convert
#pragma GCC visibility pop
