// The checks of tensors: each call is a table of its arguments, checked row by row, then pairwise.
#include "problem/validate.h"

#include <span>

#include "problem/footprint.h"
#include "problem/names.h"

namespace flamia {

namespace {

enum class Access : uint8_t { kInput, kOutput };
enum class Need : uint8_t { kRequired, kOptional };

struct Expected {
  DType dtype = DType::kBF16;
  int32_t rank = 0;
  int64_t shape[4] = {0, 0, 0, 0};
};

struct Argument {
  const char* name;
  const TensorView* view;
  Expected expected;
  Access access = Access::kInput;
  Need need = Need::kRequired;
  const char* absent_hint = "";  ///< where a required tensor comes from
};

std::string list_text(const int64_t* values, int count) {
  std::string out = "[";
  for (int i = 0; i < count; ++i) out += concat(i > 0 ? ", " : "", values[i]);
  return out + "]";
}

/// [tokens, heads, columns], or [batch, length, heads, columns].
Expected rows_of(const Problem& problem, DType dtype, int64_t tokens, int64_t heads,
                 int64_t columns) {
  if (problem.batch == 0) return {dtype, 3, {tokens, heads, columns, 0}};
  return {dtype, 4, {problem.batch, tokens / problem.batch, heads, columns}};
}

Expected queries(const Problem& problem) {
  return rows_of(problem, DType::kBF16, problem.query_tokens, problem.heads, problem.head_dim);
}

Expected keys(const Problem& problem) {
  return rows_of(problem, DType::kBF16, problem.key_tokens, problem.kv_heads, problem.head_dim);
}

/// [heads, tokens], or [batch, heads, length].
Expected lse_of(const Problem& problem) {
  if (problem.batch == 0) return {DType::kF32, 2, {problem.heads, problem.query_tokens, 0, 0}};
  return {DType::kF32, 3, {problem.batch, problem.heads, problem.query_tokens / problem.batch, 0}};
}

Status check_dtype(const char* function, const Argument& argument) {
  const DType dtype = argument.view->dtype;
  const DType expected = argument.expected.dtype;
  if (dtype == expected) return {};
  std::string hint;
  if (argument.access == Access::kOutput) {
    hint = concat("allocate ", argument.name, " as ", name(expected));
  } else if (dtype == DType::kF16 || dtype == DType::kF32 || dtype == DType::kBF16) {
    hint = concat("convert ", argument.name, " to ", name(expected));
  }
  return invalid_argument(function, concat(argument.name, ".dtype"), concat("be ", name(expected)),
                          shown(dtype), hint);
}

Status check_shape(const char* function, const Argument& argument) {
  const TensorView& view = *argument.view;
  const Expected& expected = argument.expected;
  if (view.rank != expected.rank) {
    return invalid_argument(function, concat(argument.name, ".rank"), concat("be ", expected.rank),
                            concat(view.rank));
  }
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] == expected.shape[i]) continue;
    return invalid_argument(function, concat(argument.name, ".shape"),
                            concat("be ", list_text(expected.shape, view.rank)),
                            list_text(view.shape, view.rank));
  }
  return {};
}

/// Unit last stride, alignment, addresses; for outputs also that no two indices share an element.
Status check_placement(const char* function, const Argument& argument) {
  const TensorView& view = *argument.view;
  if (is_empty(view)) return {};
  const int last = view.rank - 1;
  if (view.shape[last] > 1 && view.stride[last] != 1) {
    return invalid_argument(function, concat(argument.name, ".stride[", last, "]"), "be 1",
                            concat(view.stride[last]),
                            concat("copy ", argument.name, " to a contiguous layout"));
  }
  const int64_t bytes = dtype_bytes(view.dtype);
  const uintptr_t address = reinterpret_cast<uintptr_t>(view.data);
  if (address % static_cast<uintptr_t>(bytes) != 0) {
    return invalid_argument(
        function, concat(argument.name, ".data"), concat("be aligned to ", bytes, " bytes"),
        concat("an address ", address % static_cast<uintptr_t>(bytes), " past a multiple"));
  }
  if (!is_addressable(view)) {
    return invalid_argument(function, concat(argument.name, ".stride"),
                            "stay inside the address space", list_text(view.stride, view.rank));
  }
  if (argument.access == Access::kOutput && may_overlap_itself(view)) {
    return invalid_argument(function, argument.name, "not overlap itself",
                            concat("strides ", list_text(view.stride, view.rank)));
  }
  return {};
}

Status check_tensor(const char* function, const Argument& argument) {
  const TensorView& view = *argument.view;
  if (view.data == nullptr && argument.need == Need::kOptional) return {};
  // The dtype decides first: nothing else is worth fixing before it.
  if (view.rank == 0 && view.data == nullptr) {
    return invalid_argument(function, argument.name, "be given", "none", argument.absent_hint);
  }
  if (Status status = check_dtype(function, argument); !status.ok()) return status;
  if (Status status = check_shape(function, argument); !status.ok()) return status;
  if (view.data == nullptr && !is_empty(view)) {
    return invalid_argument(function, concat(argument.name, ".data"), "be given", "null");
  }
  return check_placement(function, argument);
}

/// One set of cumulative lengths.
struct Lengths {
  const char* name;
  const TensorView* view;
  const char* owner;  ///< the tensor whose tokens they count
  int64_t tokens;
};

int64_t entry(const TensorView& view, int64_t index) {
  return view.dtype == DType::kI64 ? static_cast<const int64_t*>(view.data)[index]
                                   : int64_t{static_cast<const int32_t*>(view.data)[index]};
}

Status check_lengths_content(const char* function, const Lengths& lengths) {
  const TensorView& view = *lengths.view;
  int64_t previous = entry(view, 0);
  if (previous != 0) {
    return invalid_argument(function, concat(lengths.name, "[0]"), "be 0", concat(previous));
  }
  for (int64_t i = 1; i < view.shape[0]; ++i) {
    const int64_t next = entry(view, i);
    if (next < previous) {
      return invalid_argument(function, concat(lengths.name, "[", i, "]"),
                              concat("be >= ", lengths.name, "[", i - 1, "]"),
                              concat(next, " < ", previous));
    }
    if (next > lengths.tokens) {
      return invalid_argument(function, concat(lengths.name, "[", i, "]"),
                              concat("be <= ", lengths.tokens, ", the tokens of ", lengths.owner),
                              concat(next));
    }
    previous = next;
  }
  return {};
}

Status check_lengths(const char* function, const Problem& problem, const Lengths& lengths,
                     Residence residence) {
  const TensorView& view = *lengths.view;
  if (problem.batch > 0) {
    if (view.data == nullptr) return {};
    return invalid_argument(function, lengths.name, "not be given for a batch",
                            "cumulative lengths", "entries of a batch are equally long");
  }
  if (view.data == nullptr) {
    return invalid_argument(function, lengths.name, "be given for packed tensors", "none",
                            "a batch without cumulative lengths has rank 4");
  }
  if (view.dtype != DType::kI32 && view.dtype != DType::kI64) {
    return invalid_argument(function, concat(lengths.name, ".dtype"), "be I32 or I64",
                            shown(view.dtype));
  }
  const Argument argument{
      lengths.name, &view, {view.dtype, 1, {int64_t{problem.documents} + 1, 0, 0, 0}}};
  if (Status status = check_shape(function, argument); !status.ok()) return status;
  if (Status status = check_placement(function, argument); !status.ok()) return status;
  return residence == Residence::kHost ? check_lengths_content(function, lengths) : Status();
}

/// cu_seqlens_q, and cu_seqlens_k where it is given.
Status check_both_lengths(const char* function, const Problem& problem, const TensorView& q,
                          const TensorView& k, Residence residence) {
  if (Status status = check_lengths(function, problem,
                                    {"cu_seqlens_q", &q, "q", problem.query_tokens}, residence);
      !status.ok()) {
    return status;
  }
  if (k.data != nullptr) {
    return check_lengths(function, problem, {"cu_seqlens_k", &k, "k", problem.key_tokens},
                         residence);
  }
  if (problem.batch == 0 && problem.query_tokens != problem.key_tokens) {
    return invalid_argument(function, "cu_seqlens_k", "be given when q and k differ in tokens",
                            concat("none for ", problem.query_tokens, " and ", problem.key_tokens));
  }
  return {};
}

/// Outputs must share no byte with any input, with each other, or with the workspace.
Status check_overlaps(const char* function, std::span<const Argument> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& output = arguments[i];
    if (output.access == Access::kInput || output.view->data == nullptr) continue;
    for (size_t j = 0; j < arguments.size(); ++j) {
      const Argument& other = arguments[j];
      // Of two outputs the later one is named first; the workspace is the last output.
      if (j == i || other.view->data == nullptr) continue;
      if (other.access == Access::kOutput && j > i) continue;
      const int64_t shared = shared_bytes(*output.view, *other.view);
      if (shared == 0) continue;
      return invalid_argument(function, output.name, concat("not overlap ", other.name),
                              concat(shared, " shared bytes"));
    }
  }
  return {};
}

Status check_workspace(const char* function, const LentWorkspace& lent) {
  if (lent.needed == 0) return {};
  const Workspace& workspace = lent.workspace;
  if (workspace.data == nullptr) {
    return invalid_argument(function, "workspace.data", "be given", "null",
                            concat(lent.size_function, " is ", lent.needed));
  }
  if (workspace.bytes < lent.needed) {
    return invalid_argument(function, "workspace.bytes", concat("be at least ", lent.needed),
                            concat(workspace.bytes));
  }
  const size_t past = reinterpret_cast<uintptr_t>(workspace.data) % kWorkspaceAlignment;
  if (past != 0) {
    return invalid_argument(function, "workspace.data",
                            concat("be aligned to ", kWorkspaceAlignment, " bytes"),
                            concat("an address ", past, " past a multiple"));
  }
  return {};
}

/// The needed part of a workspace as a view; without data if nothing is needed.
TensorView workspace_view(const LentWorkspace& lent) {
  TensorView view;
  view.dtype = DType::kU8;
  view.rank = 1;
  view.shape[0] = static_cast<int64_t>(lent.needed);
  view.stride[0] = 1;
  view.data = lent.needed > 0 ? lent.workspace.data : nullptr;
  return view;
}

/// The checks that forward and backward share. arguments: tensors first, then the cumulative
/// lengths and the workspace, which take part in the test of overlaps only.
Status validate_call(const char* function, const Problem& problem,
                     std::span<const Argument> arguments, size_t tensors, const LentWorkspace& lent,
                     Residence residence) {
  for (const Argument& argument : arguments.first(tensors)) {
    if (Status status = check_tensor(function, argument); !status.ok()) return status;
  }
  const TensorView& cu_seqlens_q = *arguments[tensors].view;
  const TensorView& cu_seqlens_k = *arguments[tensors + 1].view;
  if (Status status = check_both_lengths(function, problem, cu_seqlens_q, cu_seqlens_k, residence);
      !status.ok()) {
    return status;
  }
  if (Status status = check_workspace(function, lent); !status.ok()) return status;
  return check_overlaps(function, arguments);
}

}  // namespace

Status validate_forward(const char* function, const Problem& problem, const ForwardTensors& tensors,
                        const LentWorkspace& lent, Residence residence) {
  const TensorView scratch = workspace_view(lent);
  const Argument arguments[] = {
      {"q", &tensors.q, queries(problem)},
      {"k", &tensors.k, keys(problem)},
      {"v", &tensors.v, keys(problem)},
      {"o", &tensors.o, queries(problem), Access::kOutput},
      {"lse", &tensors.lse, lse_of(problem), Access::kOutput},
      {"o_residual", &tensors.o_residual, queries(problem), Access::kOutput, Need::kOptional},
      {"cu_seqlens_q", &tensors.cu_seqlens_q, {}},
      {"cu_seqlens_k", &tensors.cu_seqlens_k, {}},
      {"workspace", &scratch, {}, Access::kOutput},
  };
  return validate_call(function, problem, arguments, 6, lent, residence);
}

Status validate_backward(const char* function, const Problem& problem, Delta delta,
                         const BackwardTensors& tensors, const LentWorkspace& lent,
                         Residence residence) {
  const TensorView scratch = workspace_view(lent);
  const TensorView nothing;
  const bool with_residual = delta == Delta::kOResidual;
  const TensorView& residual = with_residual ? tensors.o_residual : nothing;
  const Need residual_need = with_residual ? Need::kRequired : Need::kOptional;
  const Argument arguments[] = {
      {"q", &tensors.q, queries(problem)},
      {"k", &tensors.k, keys(problem)},
      {"v", &tensors.v, keys(problem)},
      {"o", &tensors.o, queries(problem)},
      {"o_residual", &residual, queries(problem), Access::kInput, residual_need,
       "the forward pass writes it, unless its delta is o_bf16"},
      {"lse", &tensors.lse, lse_of(problem)},
      {"d_o", &tensors.d_o, queries(problem)},
      {"d_lse", &tensors.d_lse, lse_of(problem), Access::kInput, Need::kOptional},
      {"dq", &tensors.dq, queries(problem), Access::kOutput},
      {"dk", &tensors.dk, keys(problem), Access::kOutput},
      {"dv", &tensors.dv, keys(problem), Access::kOutput},
      {"cu_seqlens_q", &tensors.cu_seqlens_q, {}},
      {"cu_seqlens_k", &tensors.cu_seqlens_k, {}},
      {"workspace", &scratch, {}, Access::kOutput},
  };
  return validate_call(function, problem, arguments, 11, lent, residence);
}

Status validate_quantize(const char* function, const Problem& problem, const QuantizeViews& views,
                         Residence residence) {
  const int64_t tokens = problem.query_tokens;
  const bool has_scales = views.scale_columns > 0;
  if (!has_scales && views.scales.data != nullptr) {
    return invalid_argument(function, "scales", "not be given", "scales",
                            "this representation has only exponents");
  }
  // Outputs of a batch may be [B, L, H, D] or [T, H, D], all of them alike.
  Problem shape = problem;
  if (views.codes.rank == 3) shape.batch = 0;
  const Expected codes = rows_of(shape, DType::kU8, tokens, problem.heads, problem.head_dim);
  const Expected scales = rows_of(shape, DType::kU8, tokens, problem.heads, views.scale_columns);
  Expected exp = rows_of(shape, DType::kI8, tokens, problem.heads, 0);
  --exp.rank;
  const TensorView scratch = workspace_view(views.lent);
  const Argument arguments[] = {
      {"input", &views.input, queries(problem)},
      {"codes", &views.codes, codes, Access::kOutput},
      {"exp", &views.exp, exp, Access::kOutput},
      {"scales", &views.scales, scales, Access::kOutput,
       has_scales ? Need::kRequired : Need::kOptional},
      {"cu_seqlens", &views.cu_seqlens, {}},
      {"workspace", &scratch, {}, Access::kOutput},
  };
  const std::span<const Argument> all(arguments);
  for (const Argument& argument : all.first(4)) {
    if (Status status = check_tensor(function, argument); !status.ok()) return status;
  }
  if (Status status = check_lengths(function, problem,
                                    {"cu_seqlens", &views.cu_seqlens, "input", tokens}, residence);
      !status.ok()) {
    return status;
  }
  if (Status status = check_workspace(function, views.lent); !status.ok()) return status;
  return check_overlaps(function, all);
}

}  // namespace flamia
