// Every check of the shapes and tensors that a caller passes, before any work starts.
// Messages: "FUNCTION: ARGUMENT must RULE; got VALUE (HINT)". Options are checked in
// plan/support.h. Used by: planning and the API. Tensor data is never read, except the cumulative
// lengths.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/refusals.h"
#include "flamia/options.h"
#include "flamia/problem.h"
#include "flamia/status.h"

namespace flamia {

/// Limits that keep every index and every buffer size of the library inside 64 bits.
constexpr int64_t kMaxTokens = int64_t{1} << 40;
constexpr int64_t kMaxElements = int64_t{1} << 46;  ///< tokens * heads * head_dim
constexpr int32_t kMaxHeads = 65536;
/// Alignment of a workspace in bytes.
constexpr size_t kWorkspaceAlignment = 64;

/// Where tensors live: the content of cu_seqlens is checked only where the host can read it.
enum class Residence : uint8_t { kHost, kDevice };

/// Adds what is wrong with the shapes.
void check_problem(const Problem& problem, Refusals* refusals);

/// Shapes from q, k and the cumulative lengths. No tensor needs data for it.
/// Errors: kInvalidArgument for ranks, sizes, head ratios, head dims.
Status problem_from_views(const char* function, const ForwardTensors& tensors, Problem* problem);

/// Shapes of a quantize() call, whose input stands for q, k and v.
Status problem_from_input(const char* function, const TensorView& input,
                          const TensorView& cu_seqlens, Problem* problem);

/// Memory for a call as lent, and the bytes that its plan needs.
struct LentWorkspace {
  Workspace workspace;
  size_t needed = 0;
  const char* size_function = "workspace_size()";  ///< tells the caller
};

/// Checks every tensor and the workspace of a forward call; problem has passed check_problem().
Status validate_forward(const char* function, const Problem& problem, const ForwardTensors& tensors,
                        const LentWorkspace& lent, Residence residence);

/// Checks a backward call. delta: o_residual is required with kOResidual and ignored otherwise.
Status validate_backward(const char* function, const Problem& problem, Delta delta,
                         const BackwardTensors& tensors, const LentWorkspace& lent,
                         Residence residence);

/// Tensors of a quantize() call. A batch may have outputs of shape [B, L, ...] instead.
struct QuantizeViews {
  TensorView input;
  TensorView cu_seqlens;
  TensorView codes;           ///< [T, H, D] U8
  TensorView exp;             ///< [T, H] I8
  TensorView scales;          ///< [T, H, scale_columns] U8
  int32_t scale_columns = 0;  ///< 0: the representation has no scales, none may be given
  LentWorkspace lent;
};

/// Checks every tensor of a quantize() call.
Status validate_quantize(const char* function, const Problem& problem, const QuantizeViews& views,
                         Residence residence);

}  // namespace flamia
