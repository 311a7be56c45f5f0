// Spellings of every choice, as the program and its reports write them.
// Used by: command line, messages, reports, the C ABI. One table per enum; values outside an enum
// (from C, from a file) have no name and are not valid.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/message.h"
#include "flamia/options.h"
#include "flamia/problem.h"

namespace flamia {

/// Spellings of an enum in the order of its values, which count from 0.
template <typename Enum>
std::span<const char* const> spellings();

template <>
std::span<const char* const> spellings<Path>();
template <>
std::span<const char* const> spellings<BackendKind>();
template <>
std::span<const char* const> spellings<Family>();
template <>
std::span<const char* const> spellings<MaskKind>();
template <>
std::span<const char* const> spellings<Safety>();
template <>
std::span<const char* const> spellings<Hadamard>();
template <>
std::span<const char* const> spellings<KvOrder>();
template <>
std::span<const char* const> spellings<Exponential>();
template <>
std::span<const char* const> spellings<RowSum>();
template <>
std::span<const char* const> spellings<Delta>();
template <>
std::span<const char* const> spellings<Accumulate>();
template <>
std::span<const char* const> spellings<Promote>();
template <>
std::span<const char* const> spellings<ScoreAccumulator>();
template <>
std::span<const char* const> spellings<DsFormat>();
template <>
std::span<const char* const> spellings<GradProducts>();
template <>
std::span<const char* const> spellings<DqAccumulate>();
template <>
std::span<const char* const> spellings<DqScale>();
template <>
std::span<const char* const> spellings<Determinism>();
template <>
std::span<const char* const> spellings<Assignment>();
template <>
std::span<const char* const> spellings<DType>();

/// Whether value is one of the enum's.
template <typename Enum>
requires std::is_enum_v<Enum>
bool is_valid(Enum value) { return static_cast<size_t>(value) < spellings<Enum>().size(); }

/// Spelling of a value; "invalid" outside the enum.
template <typename Enum>
requires std::is_enum_v<Enum>
const char* name(Enum value) {
  return is_valid(value) ? spellings<Enum>()[static_cast<size_t>(value)] : "invalid";
}

/// Spelling of a value, or its number outside the enum: what a message shows.
template <typename Enum>
requires std::is_enum_v<Enum> std::string shown(Enum value) {
  return is_valid(value) ? name(value) : concat(static_cast<unsigned>(value));
}

/// All spellings: "bf16, mxfp8, nvfp4 or all4bit".
template <typename Enum>
requires std::is_enum_v<Enum> std::string choices() {
  const std::span<const char* const> all = spellings<Enum>();
  std::string out;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i > 0) out += i + 1 == all.size() ? " or " : ", ";
    out += all[i];
  }
  return out;
}

/// The value that text spells. False, and value untouched, if there is none.
template <typename Enum>
requires std::is_enum_v<Enum>
bool parse(std::string_view text, Enum* value) {
  const std::span<const char* const> all = spellings<Enum>();
  for (size_t i = 0; i < all.size(); ++i) {
    if (text == all[i]) {
      *value = static_cast<Enum>(i);
      return true;
    }
  }
  return false;
}

/// "causal", "full" or "window:LEFT,RIGHT" (-1: unlimited).
std::string mask_text(const Mask& mask);

/// Reads what mask_text() writes; LEFT and RIGHT are at least -1. False, and mask untouched, if
/// text is no mask.
bool parse(std::string_view text, Mask* mask);

}  // namespace flamia
