// The tables of spellings.
#include "problem/names.h"

#include <charconv>
#include <cstdint>

namespace flamia {

namespace {

constexpr const char* kPath[] = {"bf16", "mxfp8", "nvfp4", "all4bit"};
constexpr const char* kBackendKind[] = {"auto", "cpu", "hopper", "blackwell"};
constexpr const char* kFamily[] = {"hopper", "blackwell"};
constexpr const char* kMaskKind[] = {"full", "causal", "window"};
constexpr const char* kSafety[] = {"default", "exact"};
constexpr const char* kHadamard[] = {"auto", "on", "off"};
constexpr const char* kKvOrder[] = {"reverse", "forward"};
constexpr const char* kExponential[] = {"exact", "polynomial", "schraudolph", "mitchell"};
constexpr const char* kRowSum[] = {"p_hat", "p"};
constexpr const char* kDelta[] = {"o_residual", "o_bf16"};
constexpr const char* kAccumulate[] = {"exact", "hw", "auto"};
constexpr const char* kPromote[] = {"tile", "none"};
constexpr const char* kScoreAccumulator[] = {"f32", "f16"};
constexpr const char* kDsFormat[] = {"e4m3", "e5m2"};
constexpr const char* kGradProducts[] = {"auto", "fp8", "bf16"};
constexpr const char* kDqAccumulate[] = {"auto", "fp16", "fp32"};
constexpr const char* kDqScale[] = {"auto", "document", "causal"};
constexpr const char* kDeterminism[] = {"any", "deterministic"};
constexpr const char* kAssignment[] = {"dynamic", "alternating"};
constexpr const char* kDType[] = {"BF16", "F16", "F32", "I32", "I64", "U8", "I8"};

/// Reads one whole number that is at least -1 and fills text.
bool parse_window(std::string_view text, int64_t* value) {
  int64_t parsed = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, parsed);
  if (result.ec != std::errc() || result.ptr != end || parsed < -1) return false;
  *value = parsed;
  return true;
}

}  // namespace

template <>
std::span<const char* const> spellings<Path>() {
  return kPath;
}
template <>
std::span<const char* const> spellings<BackendKind>() {
  return kBackendKind;
}
template <>
std::span<const char* const> spellings<Family>() {
  return kFamily;
}
template <>
std::span<const char* const> spellings<MaskKind>() {
  return kMaskKind;
}
template <>
std::span<const char* const> spellings<Safety>() {
  return kSafety;
}
template <>
std::span<const char* const> spellings<Hadamard>() {
  return kHadamard;
}
template <>
std::span<const char* const> spellings<KvOrder>() {
  return kKvOrder;
}
template <>
std::span<const char* const> spellings<Exponential>() {
  return kExponential;
}
template <>
std::span<const char* const> spellings<RowSum>() {
  return kRowSum;
}
template <>
std::span<const char* const> spellings<Delta>() {
  return kDelta;
}
template <>
std::span<const char* const> spellings<Accumulate>() {
  return kAccumulate;
}
template <>
std::span<const char* const> spellings<Promote>() {
  return kPromote;
}
template <>
std::span<const char* const> spellings<ScoreAccumulator>() {
  return kScoreAccumulator;
}
template <>
std::span<const char* const> spellings<DsFormat>() {
  return kDsFormat;
}
template <>
std::span<const char* const> spellings<GradProducts>() {
  return kGradProducts;
}
template <>
std::span<const char* const> spellings<DqAccumulate>() {
  return kDqAccumulate;
}
template <>
std::span<const char* const> spellings<DqScale>() {
  return kDqScale;
}
template <>
std::span<const char* const> spellings<Determinism>() {
  return kDeterminism;
}
template <>
std::span<const char* const> spellings<Assignment>() {
  return kAssignment;
}
template <>
std::span<const char* const> spellings<DType>() {
  return kDType;
}

std::string mask_text(const Mask& mask) {
  if (mask.kind != MaskKind::kWindow) return name(mask.kind);
  return concat("window:", mask.window_left, ",", mask.window_right);
}

bool parse(std::string_view text, Mask* mask) {
  if (text == "full" || text == "causal") {
    *mask = {};
    return parse(text, &mask->kind);
  }
  constexpr std::string_view kPrefix = "window:";
  if (!text.starts_with(kPrefix)) return false;
  text.remove_prefix(kPrefix.size());
  const size_t comma = text.find(',');
  if (comma == std::string_view::npos) return false;
  Mask parsed{MaskKind::kWindow, 0, 0};
  if (!parse_window(text.substr(0, comma), &parsed.window_left) ||
      !parse_window(text.substr(comma + 1), &parsed.window_right)) {
    return false;
  }
  *mask = parsed;
  return true;
}

}  // namespace flamia
