// The checks of shapes: problems, and how they follow from tensors.
#include "problem/validate.h"

namespace flamia {

namespace {

std::string head_dim_hint(int64_t head_dim) {
  if (head_dim > 64 && head_dim < 128) return "pad q, k, v to 128";
  if (head_dim > 0 && head_dim < 64) return "pad q, k, v to 64";
  return {};
}

void check_tokens(const char* argument, int64_t tokens, int32_t batch, Refusals* refusals) {
  if (tokens < 0 || tokens > kMaxTokens) {
    refusals->invalid(argument, "be between 0 and 2^40", concat(tokens));
  } else if (batch > 0 && tokens % batch != 0) {
    refusals->invalid(argument, "be a multiple of batch", concat(tokens, " and ", batch));
  }
}

void check_heads(const char* argument, int32_t heads, Refusals* refusals) {
  if (heads < 1 || heads > kMaxHeads) {
    refusals->invalid(argument, concat("be between 1 and ", kMaxHeads), concat(heads));
  }
}

/// Refuses q, k or an input with a negative or absurd dimension.
Status check_sizes(const char* function, const char* argument, const TensorView& view) {
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] < 0 || view.shape[i] > kMaxTokens) {
      return invalid_argument(function, concat(argument, ".shape[", i, "]"),
                              "be between 0 and 2^40", concat(view.shape[i]));
    }
  }
  return {};
}

Status check_rank(const char* function, const char* argument, const TensorView& view) {
  if (view.rank == 3 || view.rank == 4) return {};
  return invalid_argument(function, concat(argument, ".rank"), "be 3 or 4", concat(view.rank),
                          "packed [T, H, D] or batched [B, L, H, D]");
}

/// Documents of a packed call, batch entries of a batched one.
Status count_documents(const char* function, const char* argument, const TensorView& cu_seqlens,
                       Problem* problem) {
  if (problem->batch > 0) {
    problem->documents = problem->batch;
    return {};
  }
  if (cu_seqlens.rank == 0) {
    return invalid_argument(function, argument, "be given for packed tensors", "none",
                            "a batch without cumulative lengths has rank 4");
  }
  if (cu_seqlens.rank != 1) {
    return invalid_argument(function, concat(argument, ".rank"), "be 1", concat(cu_seqlens.rank));
  }
  if (cu_seqlens.shape[0] < 1 || cu_seqlens.shape[0] > INT32_MAX) {
    return invalid_argument(function, concat(argument, ".shape[0]"), "be between 1 and 2^31 - 1",
                            concat(cu_seqlens.shape[0]), "documents + 1 entries");
  }
  problem->documents = static_cast<int32_t>(cu_seqlens.shape[0] - 1);
  return {};
}

/// Batch and tokens of a [T, H, D] or [B, L, H, D] tensor.
Status count_tokens(const char* function, const char* argument, const TensorView& view,
                    int32_t* batch, int64_t* tokens) {
  *batch = 0;
  *tokens = view.shape[0];
  if (view.rank == 3) return {};
  if (view.shape[0] < 1 || view.shape[0] > INT32_MAX) {
    return invalid_argument(function, concat(argument, ".shape[0]"), "be between 1 and 2^31 - 1",
                            concat(view.shape[0]), "entries of the batch");
  }
  if (view.shape[1] > kMaxTokens / view.shape[0]) {
    return invalid_argument(function, concat(argument, ".shape"), "hold at most 2^40 tokens",
                            concat(view.shape[0], " * ", view.shape[1]));
  }
  *batch = static_cast<int32_t>(view.shape[0]);
  *tokens = view.shape[0] * view.shape[1];
  return {};
}

/// A dimension as the int32_t of a Problem; larger ones are refused by check_problem() all the
/// same.
int32_t narrowed(int64_t size) { return static_cast<int32_t>(size < INT32_MAX ? size : INT32_MAX); }

}  // namespace

void check_problem(const Problem& problem, Refusals* refusals) {
  if (problem.batch < 0) refusals->invalid("batch", "be >= 0", concat(problem.batch));
  check_tokens("query_tokens", problem.query_tokens, problem.batch, refusals);
  check_tokens("key_tokens", problem.key_tokens, problem.batch, refusals);
  if (problem.documents < 0 || problem.documents == INT32_MAX) {
    refusals->invalid("documents", "be between 0 and 2^31 - 2", concat(problem.documents));
  } else if (problem.batch > 0 && problem.documents != problem.batch) {
    refusals->invalid("documents", "equal batch", concat(problem.documents, " != ", problem.batch));
  }
  check_heads("heads", problem.heads, refusals);
  check_heads("kv_heads", problem.kv_heads, refusals);
  if (problem.kv_heads > 0 && problem.heads > 0 && problem.heads % problem.kv_heads != 0) {
    refusals->invalid("heads", "be a multiple of kv_heads",
                      concat(problem.heads, " and ", problem.kv_heads));
  }
  if (problem.head_dim != 64 && problem.head_dim != 128) {
    refusals->invalid("head_dim", "be 64 or 128", concat(problem.head_dim),
                      head_dim_hint(problem.head_dim));
  }
  if (!refusals->empty()) return;
  const int64_t tokens =
      problem.query_tokens > problem.key_tokens ? problem.query_tokens : problem.key_tokens;
  if (tokens > kMaxElements / problem.heads / problem.head_dim) {
    refusals->invalid("tokens * heads * head_dim", "be at most 2^46",
                      concat(tokens, " * ", problem.heads, " * ", problem.head_dim));
  }
}

Status problem_from_views(const char* function, const ForwardTensors& tensors, Problem* problem) {
  const TensorView& q = tensors.q;
  const TensorView& k = tensors.k;
  if (Status status = check_rank(function, "q", q); !status.ok()) return status;
  if (k.rank != q.rank) {
    return invalid_argument(function, "k.rank", "equal q.rank", concat(k.rank, " != ", q.rank));
  }
  if (Status status = check_sizes(function, "q", q); !status.ok()) return status;
  if (Status status = check_sizes(function, "k", k); !status.ok()) return status;
  const int last = q.rank - 1;
  if (k.shape[last] != q.shape[last]) {
    return invalid_argument(function, concat("k.shape[", last, "]"),
                            concat("equal q.shape[", last, "]"),
                            concat(k.shape[last], " != ", q.shape[last]));
  }
  Problem result;
  int32_t key_batch = 0;
  if (Status status = count_tokens(function, "q", q, &result.batch, &result.query_tokens);
      !status.ok()) {
    return status;
  }
  if (Status status = count_tokens(function, "k", k, &key_batch, &result.key_tokens);
      !status.ok()) {
    return status;
  }
  if (key_batch != result.batch) {
    return invalid_argument(function, "k.shape[0]", "equal q.shape[0]",
                            concat(key_batch, " != ", result.batch));
  }
  if (Status status = count_documents(function, "cu_seqlens_q", tensors.cu_seqlens_q, &result);
      !status.ok()) {
    return status;
  }
  result.heads = narrowed(q.shape[last - 1]);
  result.kv_heads = narrowed(k.shape[last - 1]);
  result.head_dim = narrowed(q.shape[last]);
  Refusals refusals;
  check_problem(result, &refusals);
  if (!refusals.empty()) return refusals.status(function);
  *problem = result;
  return {};
}

Status problem_from_input(const char* function, const TensorView& input,
                          const TensorView& cu_seqlens, Problem* problem) {
  if (Status status = check_rank(function, "input", input); !status.ok()) return status;
  if (Status status = check_sizes(function, "input", input); !status.ok()) return status;
  Problem result;
  if (Status status = count_tokens(function, "input", input, &result.batch, &result.query_tokens);
      !status.ok()) {
    return status;
  }
  if (Status status = count_documents(function, "cu_seqlens", cu_seqlens, &result); !status.ok()) {
    return status;
  }
  result.key_tokens = result.query_tokens;
  result.heads = narrowed(input.shape[input.rank - 2]);
  result.kv_heads = result.heads;
  result.head_dim = narrowed(input.shape[input.rank - 1]);
  Refusals refusals;
  check_problem(result, &refusals);
  if (!refusals.empty()) return refusals.status(function);
  *problem = result;
  return {};
}

}  // namespace flamia
