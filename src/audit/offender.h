// Reference offenders: attention with the quantizers of known schemes around FP32 arithmetic, so
// that an audit has something whose leak is known.
// Paper: 3.2, 3.3, A.1, A.3, A.4, 4.5 (Table 5). Used by: the leak table, audits, tests.
// They model what a scheme does to the numbers, not how a kernel computes them: row maxima are
// final ones, P V and dS K are FP32 sums, no product runs on a model of tensor cores.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "flamia/audit.h"
#include "flamia/status.h"

namespace flamia::audit {

enum class Element : uint8_t { kFp32, kE4m3, kE2m1 };  ///< kFp32: not quantized

/// Which values share a scale. Documents and heads never do, except in kTensor.
enum class ScaleScope : uint8_t {
  kTensor,    ///< everything: all documents and heads
  kDocument,  ///< one document of one head
  kGroup,     ///< `tokens` consecutive tokens x `channels` channels, from the document's start
};

enum class ScaleRule : uint8_t {
  kAmax,               ///< FP32, amax over the format's largest value
  kPowerOfTwoUp,       ///< rounded up: nothing saturates (numerics/token_block_scale.h)
  kPowerOfTwoFloor,    ///< the OCP rule, floor(log2 amax) less the format's: the top may saturate
  kUe4m3,              ///< NVFP4 with a second level of 1
  kUe4m3PerToken,      ///< NVFP4 with a second-level power of two per token
  kUe4m3TensorFactor,  ///< NVFP4 with a second-level FP32 factor of the whole tensor
};

struct OperandRule {
  Element element = Element::kE4m3;
  ScaleScope scope = ScaleScope::kGroup;
  int32_t tokens = 32;   ///< of a group
  int32_t channels = 0;  ///< of a group; 0: all
  ScaleRule scale = ScaleRule::kPowerOfTwoUp;
};

/// P-hat of 2^(x - m), m the largest score that the row sees.
enum class ProbabilityRule : uint8_t {
  kFp32,
  kE4m3,  ///< E4M3(2^(x - m) * 2^8)
  kE2m1,  ///< E2M1 with an FP32 scale, largest / 6, per row and 32 keys
};

/// Exponents of V that P-hat takes over: P-hat * 2^(e_key - E), where E is the largest exponent ...
enum class FoldReference : uint8_t {
  kNone,           ///< nothing is folded
  kTile,           ///< of the tile of 128 keys
  kVisibleBlocks,  ///< of the blocks of 32 keys that the 32 rows around a row can see
  kVisibleKeys,    ///< of the keys that the row can see
};

/// Which entries of dS share an exponent (E4M3, rounded up).
enum class DsScale : uint8_t {
  kFp32,        ///< not quantized
  kBlock32,     ///< 32 rows x 32 keys
  kTile64x128,  ///< 64 rows x 128 keys
  kQueryRow,    ///< one row x 128 keys
};

/// How partials of dQ, one per 128 keys, are summed.
enum class DqSum : uint8_t {
  kFp32,
  kFp16SequenceScale,  ///< times 2^r, r from maxima over the document (numerics/dq_scale.h)
  kFp16CausalScale,    ///< r from what the row can see
};

struct Scheme {
  OperandRule q;     ///< in Q K^T and in dK
  OperandRule k;     ///< in Q K^T
  OperandRule v_pv;  ///< in P V, contracted over keys
  OperandRule v_dp;  ///< in dO V^T
  OperandRule k_dq;  ///< in dS K, contracted over keys
  OperandRule d_o;   ///< in dP, D and dV
  /// Tiles on the diagonal take V with one power of two per key, folded into P-hat.
  bool per_key_v_on_diagonal = false;
  ProbabilityRule p = ProbabilityRule::kE4m3;
  FoldReference v_fold = FoldReference::kNone;  ///< needs a power of two per group of tokens
  DsScale ds = DsScale::kBlock32;
  bool k_fold = false;  ///< dS takes the exponents of k_dq before its own is chosen
  DqSum dq = DqSum::kFp16SequenceScale;
};

/// Largest changes of rows before the changed token that an offender was measured to have: O by
/// the norm of its row, dQ by its largest entry. NaN: no figure.
struct LeakFigures {
  double o_block;    ///< rows of the token's own 32 rows
  double o_tile;     ///< earlier ones of its 128 rows
  double o_earlier;  ///< rows before that
  double dq_block;   ///< the same for dQ
  double dq_tile;
  double dq_earlier;
};

/// How far back a token can reach.
enum class Reach : uint8_t { kNothing, kGroup16, kBlock32, kTile128, kEverything };
const char* reach_name(Reach reach);

struct Offender {
  const char* name;
  const char* description;  ///< one sentence
  Scheme scheme;
  Reach o_reach;          ///< of O, and of dQ but for the rounding of FP16 sums
  Reach dq_reach;         ///< of dQ apart from that rounding
  bool dq_rounding;       ///< a sequence-wide prescale re-rounds every row of dQ
  LeakFigures reference;  ///< of an independent emulation; magnitudes: see leak_table.h
  const char* note = "";  ///< why a figure of ours may differ from the reference
};

/// Every scheme of the leak table, in its order.
std::span<const Offender> offenders();

/// Errors: kInvalidArgument for a name that is not in the table.
Status find_offender(std::string_view name, const Offender** offender);

/// What a token may change according to o_reach, dq_reach and dq_rounding. Offenders that reach
/// everything promise nothing: there is no promise for them to keep.
AuditPromise offender_promise(const Offender& offender);

/// A scheme without any quantizer: exact attention in FP32.
Scheme exact_scheme();

/// Which gradients to compute.
enum class Gradients : uint8_t { kNone, kQueries, kAll };

/// O (not rounded to BF16), LSE and the gradients wanted, which need d_o. Errors:
/// kInvalidArgument for sizes that do not fit together or head_dim no multiple of 16.
Status run_offender(const Scheme& scheme, const AuditInputs& inputs, Gradients gradients,
                    AuditOutputs* outputs);

/// The same as a function to audit: all gradients where the inputs have d_o.
AttentionFunction offender_function(const Scheme& scheme);

}  // namespace flamia::audit
