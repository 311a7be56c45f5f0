// The tables of spellings.
#include "plan/role_names.h"

namespace flamia {

namespace {

constexpr const char* kRole[] = {"q", "k", "v", "do"};
constexpr const char* kContractionAxis[] = {"head_dim", "tokens"};
constexpr const char* kPass[] = {"forward", "backward"};

}  // namespace

template <>
std::span<const char* const> spellings<Role>() {
  return kRole;
}
template <>
std::span<const char* const> spellings<ContractionAxis>() {
  return kContractionAxis;
}
template <>
std::span<const char* const> spellings<Pass>() {
  return kPass;
}

}  // namespace flamia
