// Exact attention in FP64: argument checks, and heads of documents handed out to threads.
// Used by: see oracle.h.
#include "oracle/oracle.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "oracle/head.h"
#include "oracle/rows.h"

namespace flamia::oracle {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Hands out (document, head) pairs to threads, the costliest documents first. Gradients of a
/// key-value head are summed in the order of its query heads, whatever thread computed them.
class Work {
 public:
  explicit Work(const Call& call) : call_(call), turns_(call.documents.size()) {
    for (size_t b = 0; b < call.documents.size(); ++b) order_.push_back(b);
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      const Document& left = call.documents[a];
      const Document& right = call.documents[b];
      return left.queries * left.keys > right.queries * right.keys;
    });
  }

  /// Runs until nothing is left; false if memory ran out.
  bool run() {
    const size_t heads = static_cast<size_t>(call_.problem.heads);
    for (;;) {
      const size_t item = next_.fetch_add(1);
      if (item >= order_.size() * heads) return true;
      const size_t document = order_[item / heads];
      const int32_t head = static_cast<int32_t>(item % heads);
      bool computed = true;
      try {
        Head task(call_, document, head);
        task.compute();
        wait_for_turn(document, head);
        task.add_key_gradients();
      } catch (const std::bad_alloc&) {
        wait_for_turn(document, head);
        computed = false;
      }
      pass_turn(document);
      if (!computed) return false;
    }
  }

 private:
  void wait_for_turn(size_t document, int32_t head) {
    std::unique_lock<std::mutex> lock(mutex_);
    turn_passed_.wait(lock, [&] { return turns_[document] == head; });
  }
  void pass_turn(size_t document) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++turns_[document];
    turn_passed_.notify_all();
  }

  const Call& call_;
  std::vector<size_t> order_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable turn_passed_;
  std::vector<int32_t> turns_;  ///< per document: the head whose turn it is to add
};

Status invalid(const std::string& text) {
  return Status(StatusCode::kInvalidArgument, "oracle::attention: " + text);
}

Status check_tensor(const char* name, const TensorView& view, const Problem& problem,
                    int64_t tokens, int32_t heads) {
  const int32_t rank = problem.batch > 0 ? 4 : 3;
  const std::string text = name;
  if (view.data == nullptr && tokens > 0) return invalid(text + " must be given; got no data");
  if (view.rank != rank) {
    return invalid(text + " must have rank " + std::to_string(rank) + "; got " +
                   std::to_string(view.rank));
  }
  if (view.dtype != DType::kBF16 && view.dtype != DType::kF32) {
    return invalid(text + " must be BF16 or F32; got another dtype");
  }
  const int64_t given = rank == 4 ? view.shape[0] * view.shape[1] : view.shape[0];
  if (given != tokens || view.shape[rank - 2] != heads ||
      view.shape[rank - 1] != problem.head_dim) {
    return invalid(text + " must have the shape of the problem; got another shape");
  }
  if (view.stride[rank - 1] != 1) return invalid(text + " must have a unit last stride");
  return Status();
}

Status check(const Problem& problem, const ForwardTensors& inputs, const TensorView& d_o,
             bool backward) {
  if (problem.heads < 1 || problem.kv_heads < 1 || problem.heads % problem.kv_heads != 0) {
    return invalid("heads must be a multiple of kv_heads; got " + std::to_string(problem.heads) +
                   " and " + std::to_string(problem.kv_heads));
  }
  if (problem.batch == 0 && problem.documents > 0 && inputs.cu_seqlens_q.data == nullptr) {
    return invalid("cu_seqlens_q must be given for packed rows; got no data");
  }
  Status status = check_tensor("q", inputs.q, problem, problem.query_tokens, problem.heads);
  if (!status.ok()) return status;
  status = check_tensor("k", inputs.k, problem, problem.key_tokens, problem.kv_heads);
  if (!status.ok()) return status;
  status = check_tensor("v", inputs.v, problem, problem.key_tokens, problem.kv_heads);
  if (!status.ok() || !backward) return status;
  return check_tensor("d_o", d_o, problem, problem.query_tokens, problem.heads);
}

/// Sets the outputs of documents' rows to NaN, those of rows that belong to nobody to their values.
void prepare(const Call& call) {
  const Problem& problem = call.problem;
  Result& result = *call.result;
  const size_t o_size =
      static_cast<size_t>(problem.query_tokens * problem.heads * problem.head_dim);
  const size_t k_size =
      static_cast<size_t>(problem.key_tokens * problem.kv_heads * problem.head_dim);
  result = Result();
  result.o.assign(o_size, 0.0);
  result.lse.assign(static_cast<size_t>(problem.query_tokens * problem.heads), -kInfinity);
  if (call.backward) {
    result.dq.assign(o_size, 0.0);
    result.dk.assign(k_size, 0.0);
    result.dv.assign(k_size, 0.0);
  }
  const auto fill_token = [](std::vector<double>* values, int64_t token, int64_t width, double x) {
    if (values->empty()) return;
    std::fill_n(values->begin() + token * width, width, x);
  };
  bool any_sampled = false;
  for (size_t b = 0; b < call.documents.size(); ++b) any_sampled |= call.sampled(b);
  if (!any_sampled) return;

  const int64_t query_width = static_cast<int64_t>(problem.heads) * problem.head_dim;
  const int64_t key_width = static_cast<int64_t>(problem.kv_heads) * problem.head_dim;
  const int64_t length =
      problem.batch > 0 ? problem.query_tokens / problem.batch : problem.query_tokens;
  for (size_t b = 0; b < call.documents.size(); ++b) {
    const Document& document = call.documents[b];
    for (int64_t i = 0; i < document.queries; ++i) {
      const int64_t token = document.query_begin + i;
      fill_token(&result.o, token, query_width, kNan);
      fill_token(&result.dq, token, query_width, kNan);
      const int64_t first = token / length * problem.heads * length + token % length;
      for (int64_t h = 0; h < problem.heads; ++h) {
        result.lse[static_cast<size_t>(first + h * length)] = kNan;
      }
    }
    for (int64_t j = 0; j < document.keys; ++j) {
      fill_token(&result.dk, document.key_begin + j, key_width, kNan);
      fill_token(&result.dv, document.key_begin + j, key_width, kNan);
    }
    for (const int64_t i : call.query_samples[b]) {
      result.query_rows.push_back(document.query_begin + i);
    }
    for (const int64_t j : call.key_samples[b]) {
      fill_token(&result.dk, document.key_begin + j, key_width, 0.0);
      fill_token(&result.dv, document.key_begin + j, key_width, 0.0);
      result.key_rows.push_back(document.key_begin + j);
    }
  }
}

}  // namespace

Status attention(const Problem& problem, const Mask& mask, double softmax_scale,
                 const ForwardTensors& inputs, const TensorView& d_o, const Settings& settings,
                 Result* result) {
  const bool backward = settings.backward && d_o.data != nullptr;
  const Status status = check(problem, inputs, d_o, backward);
  if (!status.ok()) return status;
  try {
    Call call{problem, mask, softmax_scale, inputs, d_o, backward, documents_of(problem, inputs),
              {},      {},   result};
    for (size_t b = 0; b < call.documents.size(); ++b) {
      const Document& document = call.documents[b];
      const uint64_t seed = settings.seed * 0x100000001b3u + 2 * b;
      call.query_samples.push_back(sample_rows(document.queries, settings.rows_per_document, seed));
      call.key_samples.push_back(sample_rows(document.keys, settings.rows_per_document, seed + 1));
    }
    prepare(call);

    Work work(call);
    int threads = settings.threads > 0 ? settings.threads
                                       : static_cast<int>(std::thread::hardware_concurrency());
    std::atomic<bool> complete{true};
    std::vector<std::thread> pool;
    for (int t = 1; t < threads; ++t) {
      pool.emplace_back([&] {
        if (!work.run()) complete = false;
      });
    }
    if (!work.run()) complete = false;
    for (std::thread& thread : pool) thread.join();
    if (complete) return Status();
  } catch (const std::bad_alloc&) {
  }
  return Status(StatusCode::kOutOfMemory, "oracle::attention: must allocate memory for " +
                                              std::to_string(problem.query_tokens) +
                                              " tokens; got none");
}

}  // namespace flamia::oracle
