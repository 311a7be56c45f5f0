// The rules, grouped: ranges, masks, quantized probabilities, paths, causal safety.
#include "plan/support.h"

#include <cmath>
#include <cstdint>
#include <string>

#include "numerics/p_hat.h"
#include "plan/conventions.h"
#include "problem/names.h"
#include "problem/validate.h"
#include "schedule/work_item.h"

namespace flamia {

namespace {

/// Values from C or from a cast may be none of their enum's.
void check_choices(const Options& options, Refusals* refusals) {
  check_choice("path", options.path, refusals);
  check_choice("backend", options.backend, refusals);
  check_choice("emulate", options.emulate, refusals);
  check_choice("mask", options.mask.kind, refusals);
  check_choice("safety", options.safety, refusals);
  check_choice("determinism", options.determinism, refusals);
  check_choice("hadamard", options.hadamard, refusals);
  check_choice("kv_order", options.kv_order, refusals);
  check_choice("exponential", options.exponential, refusals);
  check_choice("row_sum", options.row_sum, refusals);
  check_choice("delta", options.delta, refusals);
  check_choice("accumulate", options.accumulate, refusals);
  check_choice("promote", options.promote, refusals);
  check_choice("score_accumulator", options.score_accumulator, refusals);
  check_choice("ds_format", options.ds_format, refusals);
  check_choice("grad_products", options.grad_products, refusals);
  check_choice("dq_accumulate", options.dq_accumulate, refusals);
  check_choice("dq_scale", options.dq_scale, refusals);
  check_choice("assignment", options.assignment, refusals);
}

void check_executor(const Options& options, const Machine& machine, Refusals* refusals) {
  const BackendKind backend = resolve_backend(options, machine);
  const std::string emulation = concat("cpu with emulate=", name(backend), " gives its numbers");
  if (backend == BackendKind::kBlackwell) {
    refusals->unsupported("backend", "be cpu, hopper or auto in this build", name(backend),
                          emulation);
  }
  if (backend == BackendKind::kHopper && !machine.no_hopper.empty()) {
    refusals->unsupported("backend", "be cpu or auto on this machine", name(backend),
                          concat(machine.no_hopper, "; ", emulation));
  }
  if (options.threads < 0 || options.threads > kMaxThreads) {
    refusals->invalid("threads", concat("be between 0 and ", kMaxThreads), concat(options.threads),
                      "0 means one per core");
  }
}

void check_mask(const Mask& mask, Refusals* refusals) {
  const int64_t left = mask.window_left;
  const int64_t right = mask.window_right;
  if (mask.kind == MaskKind::kWindow) {
    if (left < -1) {
      refusals->invalid("mask.window_left", "be >= -1", concat(left), "-1 means unlimited");
    }
    if (right < -1) {
      refusals->invalid("mask.window_right", "be >= -1", concat(right), "-1 means unlimited");
    }
    return;
  }
  const bool unset = left == -1 && right == -1;
  const bool same = mask.kind == MaskKind::kCausal && left == -1 && right == 0;
  if (unset || same) return;
  refusals->invalid("mask.kind", "be window when a window is set",
                    concat(name(mask.kind), " with window ", left, ",", right));
}

void check_probabilities(const Options& options, Refusals* refusals) {
  const PScale p = resolve_p_scale(options);
  if (options.softmax_scale.has_value() && !std::isfinite(*options.softmax_scale)) {
    refusals->invalid("softmax_scale", "be finite", concat(*options.softmax_scale));
  }
  const bool s_ok = std::isfinite(p.s) && p.s >= 1.0f;
  const bool tau_ok = std::isfinite(p.tau) && p.tau >= 0.0f;
  if (!s_ok) {
    refusals->invalid("p_scale", "be finite and >= 1", concat(p.s),
                      "smaller factors flush probabilities");
  }
  if (!tau_ok) refusals->invalid("tau", "be finite and >= 0", concat(p.tau));
  if (s_ok && tau_ok &&
      !p_hat_fits(std::log2(static_cast<double>(p.s)), static_cast<double>(p.tau))) {
    refusals->invalid("p_scale", concat("keep log2(p_scale) + tau <= log2(", kE4m3Max, ")"),
                      concat("p_scale=", p.s, " tau=", p.tau),
                      "larger probabilities would saturate");
  }
  if (s_ok && p.s != 1.0f && !takes_p_scale(options.path, options.emulate)) {
    const bool bf16 = options.path == Path::kBf16;
    refusals->invalid("p_scale",
                      concat("be 1 for path ", name(options.path),
                             bf16 ? "" : concat(" with the numbers of ", name(options.emulate))),
                      concat(p.s),
                      bf16 ? "probabilities in BF16 need no scale"
                           : "its probabilities have a scale for each 32 keys");
  }
}

void check_exponential(const Options& options, Refusals* refusals) {
  if (options.exponential == Exponential::kSchraudolph && options.path != Path::kMxfp8) {
    refusals->unsupported("exponential",
                          concat("be exact or polynomial for path ", name(options.path)),
                          name(options.exponential), "schraudolph needs path mxfp8");
  }
  if (options.exponential == Exponential::kMitchell && options.path != Path::kAll4Bit) {
    refusals->unsupported("exponential",
                          concat("be exact or polynomial for path ", name(options.path)),
                          name(options.exponential), "mitchell needs path all4bit");
  }
}

void check_products(const Options& options, BackendKind backend, Refusals* refusals) {
  const GradProducts grad_products = resolve_grad_products(options);
  if (options.path == Path::kBf16) {
    if (options.hadamard == Hadamard::kOn) {
      refusals->unsupported("hadamard", "be auto or off for path bf16", name(options.hadamard));
    }
    if (grad_products == GradProducts::kFp8) {
      refusals->unsupported("grad_products", "be auto or bf16 for path bf16", name(grad_products));
    }
    if (options.dq_accumulate == DqAccumulate::kFp16) {
      refusals->unsupported("dq_accumulate", "be auto or fp32 for path bf16",
                            name(options.dq_accumulate));
    }
  }
  if (options.path == Path::kAll4Bit && grad_products == GradProducts::kBf16) {
    refusals->unsupported("grad_products", "be auto or fp8 for path all4bit", name(grad_products));
  }
  if (options.ds_format == DsFormat::kE5M2) {
    const bool eight_bit = options.path == Path::kMxfp8 || options.path == Path::kNvfp4;
    if (!eight_bit || grad_products != GradProducts::kFp8) {
      refusals->unsupported("ds_format",
                            concat("be e4m3 for path ", name(options.path), " with grad_products ",
                                   name(grad_products)),
                            name(options.ds_format),
                            "e5m2 needs path mxfp8 or nvfp4 with grad_products fp8");
    }
  }
  if (options.score_accumulator == ScoreAccumulator::kF16 && options.path != Path::kMxfp8) {
    refusals->unsupported("score_accumulator", concat("be f32 for path ", name(options.path)),
                          name(options.score_accumulator), "f16 needs path mxfp8");
  }
  if (options.promote == Promote::kNone &&
      resolve_accumulate(options, backend) == Accumulate::kExact) {
    refusals->invalid("promote", "be tile with accumulate exact", name(options.promote),
                      "promote none has no effect with exact accumulation");
  }
}

void check_safety(const Options& options, Refusals* refusals) {
  if (options.safety == Safety::kExact && options.dq_scale == DqScale::kDocument &&
      resolve_dq_accumulate(options) == DqAccumulate::kFp16) {
    refusals->invalid("dq_scale", "be auto or causal for safety exact with dq_accumulate fp16",
                      name(options.dq_scale),
                      "one scale for a document lets later tokens round earlier rows of dq");
  }
}

/// Choices that a backend has no kernel for, each named with the nearest one that it has.
class HopperRules {
 public:
  explicit HopperRules(Refusals* refusals) : refusals_(refusals) {}

  void check(const Problem& problem, const Options& options) {
    if (options.path == Path::kAll4Bit) {
      refuse("path", "be mxfp8, nvfp4 or bf16", name(options.path));
    }
    expect("emulate", options.emulate, Family::kHopper);
    if (options.exponential == Exponential::kPolynomial && options.path != Path::kMxfp8) {
      refuse("exponential", concat("be exact with path ", name(options.path)),
             name(options.exponential));
    }
    if (options.accumulate == Accumulate::kExact) {
      refuse("accumulate", "be auto or hw", name(options.accumulate));
    }
    expect("promote", options.promote, Promote::kTile);
    if (options.score_accumulator == ScoreAccumulator::kF16 &&
        (options.safety == Safety::kExact || options.exponential != Exponential::kExact)) {
      refuse("score_accumulator", "be f32 with safety exact or another exponential than exact",
             name(options.score_accumulator));
    }
    if (options.softmax_scale.has_value() && *options.softmax_scale <= 0.0f) {
      refuse("softmax_scale", "be > 0", concat(*options.softmax_scale));
    }
    check_tokens("query_tokens", problem.query_tokens);
    check_tokens("key_tokens", problem.key_tokens);
    const int64_t items = forward_item_capacity(problem.query_tokens, problem.documents);
    if (problem.query_tokens <= INT32_MAX && items > INT32_MAX / larger(1, problem.heads)) {
      refuse("tokens * heads", "make fewer than 2^31 query tiles",
             concat(items, " * ", problem.heads));
    }
  }

 private:
  template <typename Enum>
  void expect(const char* argument, Enum got, Enum wanted) {
    if (got != wanted) refuse(argument, concat("be ", name(wanted)), name(got));
  }
  void check_tokens(const char* argument, int64_t tokens) {
    if (tokens > INT32_MAX) refuse(argument, "be less than 2^31", concat(tokens));
  }
  void refuse(const char* argument, const std::string& rule, const std::string& got) {
    refusals_->unsupported(argument, concat(rule, " for backend hopper"), got);
  }

  Refusals* refusals_;
};

}  // namespace

BackendKind resolve_backend(const Options& options, const Machine& machine) {
  return options.backend == BackendKind::kAuto ? machine.gpu : options.backend;
}

void check_support(const Problem& problem, const Options& options, const Machine& machine,
                   Refusals* refusals) {
  check_problem(problem, refusals);
  const int before = refusals->count();
  check_choices(options, refusals);
  if (refusals->count() > before) return;  // rules about combinations need values that exist
  const BackendKind backend = resolve_backend(options, machine);
  check_executor(options, machine, refusals);
  check_mask(options.mask, refusals);
  check_probabilities(options, refusals);
  check_exponential(options, refusals);
  check_products(options, backend, refusals);
  check_safety(options, refusals);
  if (backend == BackendKind::kHopper) HopperRules(refusals).check(problem, options);
}

void check_backward_support(const Options& options, BackendKind backend, Refusals* refusals) {
  if (backend != BackendKind::kCpu) {
    refusals->unsupported("backend", "be cpu for a backward pass", name(backend),
                          "gradients are not there yet on a GPU");
  }
  if (options.exponential == Exponential::kSchraudolph ||
      options.exponential == Exponential::kMitchell) {
    refusals->unsupported("exponential", "be exact or polynomial for a backward pass",
                          name(options.exponential), "it is for inference only");
  }
}

}  // namespace flamia
