// Options of the command line whose refusals read like those of the library.
// Depends on: CLI11, spellings of enums. Used by: every subcommand.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <type_traits>

#include "problem/names.h"
#include "tools/errors.h"
#include "tools/numbers.h"

namespace flamia::tools {

/// Ends the parse with this message and exit code 2.
[[noreturn]] inline void refuse_option(const std::string& message) {
  throw CLI::ValidationError(message);
}

/// Adds an option whose value is one of an enum's spellings.
template <typename Enum>
CLI::Option* add_choice(CLI::App& app, const std::string& option, const std::string& description,
                        Enum* value) {
  const auto set = [option, value](const std::string& text) {
    if (!parse(text, value)) {
      refuse_option(fmt::format("{} must be {}; got {}", option, choices<Enum>(), printable(text)));
    }
  };
  return app.add_option_function<std::string>(option, set, description)->type_name(choices<Enum>());
}

/// Adds an option whose value is a number in [lowest, highest]. Target is Number or
/// std::optional<Number>.
template <typename Number, typename Target>
CLI::Option* add_number(CLI::App& app, const std::string& option, const std::string& description,
                        std::type_identity_t<Number> lowest, std::type_identity_t<Number> highest,
                        Target* value) {
  const auto set = [option, value, lowest, highest](const std::string& text) {
    const std::optional<Number> number = parse_number<Number>(text);
    if (!number || !(*number >= lowest && *number <= highest)) {
      const char* kind = std::is_integral_v<Number> ? "whole number" : "number";
      refuse_option(fmt::format("{} must be a {} from {} to {}; got {}", option, kind, lowest,
                                highest, printable(text)));
    }
    *value = *number;
  };
  return app.add_option_function<std::string>(option, set, description)
      ->type_name(std::is_integral_v<Number> ? "N" : "X");
}

/// Adds an option whose value is any text but the empty one.
inline CLI::Option* add_text(CLI::App& app, const std::string& option,
                             const std::string& description, const std::string& type,
                             std::string* value) {
  const auto set = [option, value](const std::string& text) {
    if (text.empty()) refuse_option(option + " must not be empty");
    *value = text;
  };
  return app.add_option_function<std::string>(option, set, description)->type_name(type);
}

}  // namespace flamia::tools
