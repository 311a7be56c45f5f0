// Choices of a call. Every choice that changes a number is recorded in Conventions by the forward
// pass, and the backward pass reads it from there.
// Paper: 3.1-3.5, A, B; P-Cast (iteration order and scale of P). Rules: docs/numerics.md.
#pragma once

#include <cstdint>
#include <optional>

namespace flamia {

enum class Path : uint8_t { kBf16, kMxfp8, kNvfp4, kAll4Bit };
enum class BackendKind : uint8_t { kAuto, kCpu, kHopper, kBlackwell };
/// GPU family whose numeric conventions the CPU backend follows.
enum class Family : uint8_t { kHopper, kBlackwell };
enum class MaskKind : uint8_t { kFull, kCausal, kWindow };
/// Causal safety: kDefault leaves the documented residue inside 32-token blocks, kExact none.
enum class Safety : uint8_t { kDefault, kExact };
enum class Hadamard : uint8_t { kAuto, kOn, kOff };
enum class KvOrder : uint8_t { kReverse, kForward };
/// 2^x of the softmax; the last two are for inference only.
enum class Exponential : uint8_t { kExact, kPolynomial, kSchraudolph, kMitchell };
enum class RowSum : uint8_t { kPHat, kP };
/// O used in D = rowsum(dO * O): with its BF16 residual, or BF16 alone.
enum class Delta : uint8_t { kOResidual, kOBf16 };
/// Sums of FP8 products: FP32 as a GEMM library sums, or the tensor core's aligned truncated sums.
/// kAuto: exact on the CPU, the tensor core's on a GPU, which has no other.
enum class Accumulate : uint8_t { kExact, kHardware, kAuto };
/// kTile: no tensor-core accumulator outlives one tile. kNone: one accumulator per sequence.
enum class Promote : uint8_t { kTile, kNone };
enum class ScoreAccumulator : uint8_t { kF32, kF16 };
enum class DsFormat : uint8_t { kE4M3, kE5M2 };
enum class GradProducts : uint8_t { kAuto, kFp8, kBf16 };
enum class DqAccumulate : uint8_t { kAuto, kFp16, kFp32 };
enum class DqScale : uint8_t { kAuto, kDocument, kCausal };
enum class Determinism : uint8_t { kAny, kDeterministic };
/// Who does which part of the work list on a GPU: whoever is free takes the next, or everybody has
/// their share from the start, dealt in alternating directions. The bits are the same.
enum class Assignment : uint8_t { kDynamic, kAlternating };

/// Which keys a query may see. Bottom-right aligned: query i of a document with Lq queries and Lk
/// keys sits at key position i + Lk - Lq. A window keeps keys in [position - left,
/// position + right]; -1 means unlimited. kCausal equals the window (-1, 0).
struct Mask {
  MaskKind kind = MaskKind::kFull;
  int64_t window_left = -1;
  int64_t window_right = -1;
};

struct Options {
  Path path = Path::kMxfp8;
  BackendKind backend = BackendKind::kAuto;
  Family emulate = Family::kHopper;  ///< CPU backend: whose numbers; a GPU has its own only
  Mask mask;
  std::optional<float> softmax_scale;  ///< default 1 / sqrt(head_dim)
  Safety safety = Safety::kDefault;
  Determinism determinism = Determinism::kAny;
  Hadamard hadamard = Hadamard::kAuto;
  KvOrder kv_order = KvOrder::kReverse;
  std::optional<float> p_scale;  ///< S; default 256 (Hopper) or 16 (Blackwell)
  std::optional<float> tau;      ///< default 0 (Hopper) or 4 (Blackwell); log2 S + tau <= log2 448
  Exponential exponential = Exponential::kExact;
  RowSum row_sum = RowSum::kPHat;
  Delta delta = Delta::kOResidual;
  Accumulate accumulate = Accumulate::kAuto;
  Promote promote = Promote::kTile;
  ScoreAccumulator score_accumulator = ScoreAccumulator::kF32;
  DsFormat ds_format = DsFormat::kE4M3;
  GradProducts grad_products = GradProducts::kAuto;
  DqAccumulate dq_accumulate = DqAccumulate::kAuto;
  DqScale dq_scale = DqScale::kAuto;
  Assignment assignment = Assignment::kDynamic;  ///< GPU backends. Changes no number.
  int32_t threads = 0;  ///< CPU backend: worker threads; 0 means one per core. Changes no number.
};

}  // namespace flamia
