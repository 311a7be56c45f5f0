// Spellings of the roles, axes and passes of calls; continues problem/names.h.
// Used by: command line, messages, the C ABI.
#pragma once

#include <span>

#include "flamia/attention.h"
#include "problem/names.h"

namespace flamia {

template <>
std::span<const char* const> spellings<Role>();
template <>
std::span<const char* const> spellings<ContractionAxis>();
template <>
std::span<const char* const> spellings<Pass>();

}  // namespace flamia
