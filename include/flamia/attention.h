// The verbs: forward, backward, quantize, and the questions to ask before them.
// No call allocates device memory, synchronizes, or reads lengths on behalf of a GPU kernel.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "flamia/conventions.h"
#include "flamia/options.h"
#include "flamia/problem.h"
#include "flamia/status.h"

namespace flamia {

/// Shapes of a call from its tensors (rank 3: packed, rank 4: batched).
/// Errors: kInvalidArgument for ranks, head ratios or head dims that do not fit together.
Status problem_from_tensors(const ForwardTensors& tensors, Problem* problem);

/// Whether a call with these shapes and options can run here. On refusal the message lists every
/// reason, separated by "; ".
Status is_supported(const Problem& problem, const Options& options);

/// The numeric choices that a forward call with these options makes. Errors as is_supported().
Status resolve_conventions(const Problem& problem, const Options& options,
                           Conventions* conventions);

enum class Pass : uint8_t { kForward, kBackward };

/// Bytes of workspace for one pass. Depends on shapes and options, never on document lengths.
Status workspace_size(const Problem& problem, const Options& options, Pass pass, size_t* bytes);

/// Per-call figures that the CPU backend can report (all zero where not measured).
struct PassStatistics {
  double quantize_ms = 0;
  double attention_ms = 0;
  int64_t ds_nonzero = 0;  ///< visible dS entries that are not zero, both operands counted
  int64_t ds_flushed = 0;  ///< of these, how many quantize to zero
  double ds_row_sum_residual =
      0;  ///< rms over rows of sum_j dS_ij / mean over rows of sum_j |dS_ij|
};

/// O, LSE (and the residual of O) of packed or batched attention, and the conventions used.
/// tensors: see ForwardTensors. stream: a cudaStream_t for GPU backends, null for the CPU.
/// GPU backends take tensors and workspace in device memory, enqueue their work on the stream and
/// return; a captured call may be replayed with other lengths in the same cu_seqlens. Rows of their
/// q, k, v, o and o_residual begin at multiples of 16 bytes.
/// statistics may be null. Paper: 3.1-3.6.
Status attention_forward(const Problem& problem, const Options& options,
                         const ForwardTensors& tensors, Workspace workspace, void* stream,
                         Conventions* conventions, PassStatistics* statistics = nullptr);

/// Parts of a forward call on a GPU, in the order in which they run.
enum ForwardPart : uint32_t {
  kWorkListPart = 1,  ///< the layout and the list of query tiles, from the lengths alone
  kQuantizePart = 2,  ///< codes and exponents of q, k and v
  kAttendPart = 4,
  kAllForwardParts = 7,
};

/// Some parts of attention_forward(). What they read from earlier parts must lie in the same
/// workspace, made with the same shapes, options and lengths: layers that share their lengths need
/// one work list. parts: a sum of ForwardPart. CPU backend: all of them only.
Status attention_forward_parts(const Problem& problem, const Options& options,
                               const ForwardTensors& tensors, Workspace workspace, void* stream,
                               uint32_t parts, Conventions* conventions);

/// dQ, dK, dV. Takes the forward's conventions, no options. threads as in Options.
Status attention_backward(const Problem& problem, const Conventions& conventions,
                          const BackwardTensors& tensors, Workspace workspace, void* stream,
                          int32_t threads = 0, PassStatistics* statistics = nullptr);

/// Roles of a tensor in quantize(): scales and formats depend on it.
enum class Role : uint8_t { kQ, kK, kV, kDo };
/// The axis along which a representation is contracted (and along which its scales are grouped).
enum class ContractionAxis : uint8_t { kHeadDim, kTokens };

/// One quantized representation in logical order, dense.
struct QuantizedTensors {
  TensorView codes;  ///< out: [T, H, D] U8, one code a byte (4-bit codes in the low nibble)
  TensorView exp;  ///< out: [T, H] I8, power-of-two exponent of each token's block or second level
  TensorView scales;  ///< out: block scales U8, UE4M3 (nvfp4) or UE8M0 (mxfp4). Along kHeadDim
                      ///< [T, H, D/16] or [T, H, D/32]; along kTokens [T, H, D], the scale of a
                      ///< group of 16 or 32 tokens repeated for each of them
};

/// Names the representations of a role on a path: which axes exist, in which format.
struct Representation {
  ContractionAxis axis = ContractionAxis::kHeadDim;
  bool serves_both_axes = false;  ///< token-block scales: one payload for both contractions
  bool has_block_scales = false;  ///< scale bytes beside the exponents
  const char* format = "";        ///< "e4m3", "nvfp4", "mxfp4", "bf16"
};
std::vector<Representation> representations(Path path, Role role);

/// Codes and scales of one tensor, as the attention passes compute them.
/// input: [T, H, D] BF16 packed with cu_seqlens, or [B, L, H, D]. options: path, hadamard, safety,
/// emulate, score_accumulator. workspace and stream: as in attention_forward(); the CPU backend
/// needs neither. GPU backends have the representations in E4M3, and those in NVFP4 along head
/// channels, of paths that they run. Every backend gives the same bytes in the same order.
/// Errors: kInvalidArgument; kUnsupported for Path::kBf16 and for what a GPU backend has not.
Status quantize(const TensorView& input, const TensorView& cu_seqlens, Role role,
                ContractionAxis axis, const Options& options, const QuantizedTensors& output,
                Workspace workspace = {}, void* stream = nullptr);

/// Bytes of workspace for such a call. Depends on shapes and options; no data is read.
Status quantize_workspace_size(const TensorView& input, const TensorView& cu_seqlens, Role role,
                               ContractionAxis axis, const Options& options, size_t* bytes);

/// What a call would do: backend, kernels or passes, conventions, workspace, refusals; as text
/// lines "key: value".
std::string explain(const Problem& problem, const Options& options);

/// Version of the library, "major.minor.patch".
const char* version();

}  // namespace flamia
