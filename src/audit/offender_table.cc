// The schemes of the leak table, each with what an independent emulation measured.
// A row is a change of the default, the token-block scheme, so that it shows what it is about.
// P stays in FP32 where a row is not about P, as in the reference: E4M3 codes of P that flip when a
// score moves a little would hide the operand's own leak (token-block-32-p8 shows by how much).

#include <algorithm>
#include <limits>
#include <string>

#include "audit/offender.h"
#include "base/message.h"

namespace flamia::audit {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

using enum ScaleRule;

constexpr OperandRule tensor(ScaleRule scale) {
  return {Element::kE4m3, ScaleScope::kTensor, 0, 0, scale};
}
constexpr OperandRule document(ScaleRule scale) {
  return {Element::kE4m3, ScaleScope::kDocument, 0, 0, scale};
}
constexpr OperandRule group(int32_t tokens, int32_t channels, ScaleRule scale) {
  return {Element::kE4m3, ScaleScope::kGroup, tokens, channels, scale};
}
constexpr OperandRule four_bit(int32_t tokens, int32_t channels, ScaleRule scale) {
  return {Element::kE2m1, ScaleScope::kGroup, tokens, channels, scale};
}
constexpr OperandRule kPerToken = group(1, 0, kPowerOfTwoUp);

constexpr Scheme exact_p() {
  Scheme scheme;
  scheme.p = ProbabilityRule::kFp32;
  return scheme;
}

constexpr Scheme everywhere(const OperandRule& rule) {
  Scheme scheme = exact_p();
  for (OperandRule Scheme::*operand :
       {&Scheme::q, &Scheme::k, &Scheme::v_pv, &Scheme::v_dp, &Scheme::k_dq, &Scheme::d_o}) {
    scheme.*operand = rule;
  }
  return scheme;
}

constexpr Scheme nvfp4_scores(ScaleRule scale) {
  Scheme scheme = exact_p();
  scheme.q = scheme.k = four_bit(1, 16, scale);
  return scheme;
}

constexpr Scheme accumulated(Scheme scheme, DqSum sum) {
  scheme.dq = sum;
  return scheme;
}

// 1x32 blocks along whatever axis a product contracts.
constexpr Scheme along_contraction(ScaleRule scale) {
  Scheme scheme = everywhere(group(1, 32, scale));
  scheme.v_pv = scheme.k_dq = group(32, 1, scale);
  return scheme;
}

constexpr Scheme exact_options(DqSum sum) {
  Scheme scheme = everywhere(kPerToken);
  scheme.p = ProbabilityRule::kE4m3;
  scheme.v_fold = FoldReference::kVisibleKeys;
  scheme.ds = DsScale::kQueryRow;
  scheme.k_fold = true;
  scheme.dq = sum;
  return scheme;
}

constexpr Scheme four_bit_v(const OperandRule& v, bool per_key_on_diagonal) {
  Scheme scheme = nvfp4_scores(kUe4m3PerToken);
  scheme.v_pv = v;
  scheme.per_key_v_on_diagonal = per_key_on_diagonal;
  scheme.p = ProbabilityRule::kE2m1;
  return scheme;
}
constexpr OperandRule kV16 = four_bit(16, 1, kUe4m3);
constexpr OperandRule kV32 = four_bit(32, 1, kPowerOfTwoUp);

constexpr Scheme hopper(const OperandRule& v, FoldReference fold) {
  Scheme scheme = exact_p();
  scheme.v_pv = v;
  scheme.v_fold = fold;
  if (fold != FoldReference::kNone) scheme.p = ProbabilityRule::kE4m3;
  return scheme;
}

constexpr Scheme per_token_with(DsScale scale) {
  Scheme scheme = exact_options(DqSum::kFp32);
  scheme.ds = scale;
  return scheme;
}

constexpr Scheme kDefault = exact_p();

constexpr const char* kFoldNote =
    "2^10 pushes P-hat of the other blocks to E4M3's subnormals, so that most weights of a row are "
    "rounded anew; a factor of 8 gives 4.8e-3 in the block and 6.9e-3 in the tile";
constexpr const char* kDsTileNote =
    "8 moves an exponent of dS only where the changed entries are near the largest of the tile";
constexpr const char* kFloorNote =
    "the change is that of clamped entries, up to 1/8 each: rows that sit on one key show it whole";

const Offender kOffenders[] = {
    {"tensor-amax",
     "every operand in E4M3 with one FP32 scale, amax over the largest value",
     everywhere(tensor(kAmax)),
     Reach::kEverything,
     Reach::kEverything,
     true,
     {.46, .59, 2.4, kNone, kNone, .24}},
    {"tensor-power-of-two",
     "every operand in E4M3 with one power of two, rounded up",
     everywhere(tensor(kPowerOfTwoUp)),
     Reach::kEverything,
     Reach::kEverything,
     true,
     {.11, .06, .13, kNone, kNone, .08}},
    {"nvfp4-tensor-factor",
     "Q and K in NVFP4 with one FP32 factor for the tensor",
     nvfp4_scores(kUe4m3TensorFactor),
     Reach::kEverything,
     Reach::kEverything,
     true,
     {1.3, 2.5, 1.5, kNone, kNone, 1.4}},
    {"nvfp4",
     "Q and K in NVFP4 with a second level of 1",
     nvfp4_scores(kUe4m3),
     Reach::kBlock32,
     Reach::kBlock32,
     true,
     {1.6e-3, 0, 0, kNone, kNone, 1.4e-4}},
    {"nvfp4-token",
     "Q and K in NVFP4 with a power of two per token",
     nvfp4_scores(kUe4m3PerToken),
     Reach::kBlock32,
     Reach::kBlock32,
     true,
     {1.6e-3, 0, 0, kNone, kNone, 1.4e-4}},
    {"mx-floor",
     "E4M3 in blocks of 32 along the contraction, exponents by the OCP floor rule",
     along_contraction(kPowerOfTwoFloor),
     Reach::kBlock32,
     Reach::kBlock32,
     true,
     {2.8e-3, 0, 0, kNone, kNone, 1e-4},
     kFloorNote},
    {"mx-up",
     "E4M3 in blocks of 32 along the contraction, exponents rounded up",
     along_contraction(kPowerOfTwoUp),
     Reach::kBlock32,
     Reach::kBlock32,
     true,
     {6.9e-4, 0, 0, kNone, kNone, 1e-4}},
    {"token-block-32",
     "E4M3 with one exponent per 32 tokens, rounded up: the default",
     kDefault,
     Reach::kBlock32,
     Reach::kBlock32,
     true,
     {1.6e-3, 0, 0, kNone, kNone, 8e-5}},
    {"token-block-32-p8",
     "the default with P in E4M3 too",
     Scheme(),
     Reach::kBlock32,
     Reach::kBlock32,
     true,
     {kNone, 0, 0, kNone, kNone, kNone}},
    {"token-block-32-fp32-dq",
     "the default with FP32 sums of dQ",
     accumulated(kDefault, DqSum::kFp32),
     Reach::kBlock32,
     Reach::kBlock32,
     false,
     {1.6e-3, 0, 0, kNone, kNone, 0}},
    {"token-block-32-causal-dq",
     "the default with the causal scale of FP16 sums of dQ",
     accumulated(kDefault, DqSum::kFp16CausalScale),
     Reach::kBlock32,
     Reach::kBlock32,
     false,
     {1.6e-3, 0, 0, kNone, kNone, 0}},
    {"token-block-128",
     "E4M3 with one exponent per 128 tokens",
     everywhere(group(128, 0, kPowerOfTwoUp)),
     Reach::kTile128,
     Reach::kTile128,
     true,
     {3.5e-2, 3.6e-2, 0, kNone, kNone, 8e-5}},
    {"exact-fp32-dq",
     "one exponent per token, one per row of dS, FP32 sums of dQ",
     exact_options(DqSum::kFp32),
     Reach::kNothing,
     Reach::kNothing,
     false,
     {0, 0, 0, 0, 0, 0}},
    {"exact-causal-dq",
     "one exponent per token, one per row of dS, causal scale of FP16 sums",
     exact_options(DqSum::kFp16CausalScale),
     Reach::kNothing,
     Reach::kNothing,
     false,
     {0, 0, 0, 0, 0, 0}},
    {"v4-16-keys",
     "V in E2M1 with a UE4M3 scale per 16 keys, P in E2M1",
     four_bit_v(kV16, false),
     Reach::kGroup16,
     Reach::kBlock32,
     true,
     {.19, 0, 0, kNone, kNone, kNone}},
    {"v4-32-keys",
     "V in E2M1 with a power of two per 32 keys, P in E2M1",
     four_bit_v(kV32, false),
     Reach::kBlock32,
     Reach::kBlock32,
     true,
     {.27, 0, 0, kNone, kNone, kNone}},
    {"v4-16-keys-diagonal",
     "the same per 16 keys, one power of two per key on diagonal tiles",
     four_bit_v(kV16, true),
     Reach::kNothing,
     Reach::kBlock32,
     true,
     {0, 0, 0, kNone, kNone, kNone}},
    {"v4-32-keys-diagonal",
     "the same per 32 keys, one power of two per key on diagonal tiles",
     four_bit_v(kV32, true),
     Reach::kNothing,
     Reach::kBlock32,
     true,
     {0, 0, 0, kNone, kNone, kNone}},
    {"fold-tile",
     "V in blocks of 32 tokens, folded into P-hat relative to its tile's largest",
     hopper(group(32, 0, kPowerOfTwoUp), FoldReference::kTile),
     Reach::kTile128,
     Reach::kTile128,
     true,
     {5e-3, 3.6e-3, 0, kNone, kNone, kNone},
     kFoldNote},
    {"fold-visible",
     "the same relative to the largest block that 32 rows can see",
     hopper(group(32, 0, kPowerOfTwoUp), FoldReference::kVisibleBlocks),
     Reach::kBlock32,
     Reach::kBlock32,
     true,
     {5e-3, 0, 0, kNone, kNone, kNone},
     kFoldNote},
    {"v-tile",
     "V with one exponent per 128 tokens, the rest as the default",
     hopper(group(128, 0, kPowerOfTwoUp), FoldReference::kNone),
     Reach::kTile128,
     Reach::kTile128,
     true,
     {1.7e-2, 3.6e-2, 0, kNone, kNone, kNone}},
    {"v-document",
     "V with one exponent per document, the rest as the default",
     hopper(document(kPowerOfTwoUp), FoldReference::kNone),
     Reach::kEverything,
     Reach::kEverything,
     true,
     {.11, .06, .13, kNone, kNone, kNone}},
    {"ds-tile",
     "exact options but for one exponent per 64 x 128 entries of dS",
     per_token_with(DsScale::kTile64x128),
     Reach::kNothing,
     Reach::kTile128,
     false,
     {0, 0, 0, 1.6e-4, 7.6e-5, 0},
     kDsTileNote},
    {"ds-row",
     "exact options: one exponent per row of dS and 128 keys",
     per_token_with(DsScale::kQueryRow),
     Reach::kNothing,
     Reach::kNothing,
     false,
     {0, 0, 0, 0, 0, 0}},
};

int64_t shared_tokens(Reach reach) {
  switch (reach) {
    case Reach::kNothing:
      return 0;
    case Reach::kGroup16:
      return 16;
    case Reach::kBlock32:
      return 32;
    case Reach::kTile128:
    case Reach::kEverything:
      break;
  }
  return 128;
}

}  // namespace

const char* reach_name(Reach reach) {
  static constexpr const char* kNames[] = {"nothing", "16 keys", "32 tokens", "128 tokens",
                                           "everything"};
  return kNames[static_cast<int>(reach)];
}

std::span<const Offender> offenders() { return kOffenders; }

Status find_offender(std::string_view name, const Offender** offender) {
  std::string names;
  for (const Offender& one : kOffenders) {
    if (one.name == name) {
      *offender = &one;
      return Status();
    }
    names += concat(names.empty() ? "" : ", ", one.name);
  }
  return Status(StatusCode::kInvalidArgument,
                "find_offender: " + refusal("name", "be one of " + names, name));
}

AuditPromise offender_promise(const Offender& offender) {
  AuditPromise promise;
  const bool boundless =
      offender.o_reach == Reach::kEverything || offender.dq_reach == Reach::kEverything;
  if (boundless) return promise;
  promise.shared_tokens =
      std::max(shared_tokens(offender.o_reach), shared_tokens(offender.dq_reach));
  promise.dq_rounding = offender.dq_rounding;
  return promise;
}

Scheme exact_scheme() {
  OperandRule rule;
  rule.element = Element::kFp32;
  Scheme scheme = everywhere(rule);
  scheme.p = ProbabilityRule::kFp32;
  scheme.ds = DsScale::kFp32;
  scheme.dq = DqSum::kFp32;
  return scheme;
}

}  // namespace flamia::audit
