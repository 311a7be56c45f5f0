// What a path is: the format and the scale scheme of every operand, and its automatic choices.
// Paper: 3.1, 3.2, 3.4. Used by: planning, validation, the questions of the API.
// The rows are in problem/paths.def.
#pragma once

#include <cstddef>
#include <cstdint>

#include "flamia/options.h"
#include "numerics/scale_codes.h"

namespace flamia {

/// Element format together with its scales.
enum class OperandFormat : uint8_t {
  kBf16,   ///< the caller's tensor itself
  kE4m3,   ///< one power of two per 32 tokens x head_dim of a document: serves both contractions
  kNvfp4,  ///< E2M1, a UE4M3 scale per 16 values of the contraction, a power of two beside it
  kMxfp4,  ///< E2M1, a power of two per 32 values of the contraction
  kE2m1,   ///< E2M1, a power of two per token
};

struct OperandSpec {
  OperandFormat along_head_dim = OperandFormat::kBf16;
  OperandFormat along_tokens = OperandFormat::kBf16;

  /// Whether one payload serves both contractions.
  constexpr bool shared() const {
    return along_head_dim == OperandFormat::kE4m3 && along_tokens == OperandFormat::kE4m3;
  }
};

struct PathSpec {
  Path path = Path::kBf16;
  OperandSpec q, k, v, d_o;
  OperandFormat v_along_tokens_exact = OperandFormat::kBf16;  ///< with exact causal safety
  int32_t hadamard_head_dim = 0;                     ///< Hadamard::kAuto is on for it; 0: never
  DqAccumulate dq_accumulate = DqAccumulate::kFp32;  ///< of kAuto
  GradProducts grad_products = GradProducts::kBf16;  ///< of kAuto
};

namespace path_table {

#define FLAMIA_PATH(path, q_d, q_t, k_d, k_t, v_d, v_t, do_d, do_t, v_t_exact, hadamard, dq, grad) \
  PathSpec{Path::path,                                                                             \
           {OperandFormat::q_d, OperandFormat::q_t},                                               \
           {OperandFormat::k_d, OperandFormat::k_t},                                               \
           {OperandFormat::v_d, OperandFormat::v_t},                                               \
           {OperandFormat::do_d, OperandFormat::do_t},                                             \
           OperandFormat::v_t_exact,                                                               \
           hadamard,                                                                               \
           DqAccumulate::dq,                                                                       \
           GradProducts::grad},
inline constexpr PathSpec kRows[] = {
#include "problem/paths.def"
};
#undef FLAMIA_PATH

}  // namespace path_table

/// The row of a path; path must be one of the enum's values.
constexpr const PathSpec& path_spec(Path path) {
  return path_table::kRows[static_cast<size_t>(path)];
}

/// Spelling of a format, as in Representation::format.
constexpr const char* operand_format_name(OperandFormat format) {
  switch (format) {
    case OperandFormat::kBf16:
      return "bf16";
    case OperandFormat::kE4m3:
      return "e4m3";
    case OperandFormat::kNvfp4:
      return "nvfp4";
    case OperandFormat::kMxfp4:
      return "mxfp4";
    case OperandFormat::kE2m1:
      return "e2m1";
  }
  return "invalid";
}

/// Scales of one token and head that lie beside the codes: groups of 16 or 32 channels, or one per
/// channel where groups run along tokens. 0 where a token has one exponent only.
constexpr int32_t scale_columns(OperandFormat format, bool along_tokens, int32_t head_dim) {
  switch (format) {
    case OperandFormat::kNvfp4:
      return along_tokens ? head_dim : head_dim / 16;
    case OperandFormat::kMxfp4:
      return along_tokens ? head_dim : head_dim / 32;
    default:
      return 0;
  }
}

/// The UE4M3 scale 1: what an NVFP4 representation holds where exponents alone carry the scale.
inline constexpr uint8_t kUnitScaleCode = encode_ue4m3(1.0f);

static_assert(path_spec(Path::kBf16).path == Path::kBf16);
static_assert(path_spec(Path::kMxfp8).path == Path::kMxfp8 && path_spec(Path::kMxfp8).q.shared());
static_assert(path_spec(Path::kNvfp4).path == Path::kNvfp4 && !path_spec(Path::kNvfp4).q.shared());
static_assert(path_spec(Path::kAll4Bit).path == Path::kAll4Bit);
static_assert(sizeof(path_table::kRows) / sizeof(PathSpec) == 4);

}  // namespace flamia
