// The resolution of automatic choices, and the check of records that come from outside.
#include "plan/conventions.h"

#include <cmath>
#include <cstring>

#include "numerics/online_softmax.h"
#include "numerics/p_hat.h"
#include "plan/support.h"
#include "problem/names.h"
#include "problem/path.h"
#include "problem/validate.h"

namespace flamia {

namespace {

struct Window {
  int64_t left = -1;
  int64_t right = -1;
};

/// A window wider than any document is recorded as unlimited: the same keys are visible.
int64_t recorded_side(int64_t side) { return side >= kMaxTokens ? -1 : side; }

Window resolve_window(const Mask& mask) {
  switch (mask.kind) {
    case MaskKind::kFull:
      return {};
    case MaskKind::kCausal:
      return {-1, 0};
    case MaskKind::kWindow:
      return {recorded_side(mask.window_left), recorded_side(mask.window_right)};
  }
  return {};
}

bool hadamard_is_on(const Problem& problem, const Options& options) {
  if (options.hadamard != Hadamard::kAuto) return options.hadamard == Hadamard::kOn;
  return path_spec(options.path).hadamard_head_dim == problem.head_dim;
}

DqScale resolve_dq_scale(const Options& options) {
  if (options.dq_scale != DqScale::kAuto) return options.dq_scale;
  const bool exact_fp16 =
      options.safety == Safety::kExact && resolve_dq_accumulate(options) == DqAccumulate::kFp16;
  return exact_fp16 ? DqScale::kCausal : DqScale::kDocument;
}

/// Compares one field of the record with the problem's.
template <typename Value>
void expect(const char* argument, Value got, int64_t expected, Refusals* refusals) {
  if (got == expected) return;
  refusals->invalid(argument, concat("be ", expected, " as in the problem"), concat(got));
}

/// A choice that the forward pass never records as automatic.
template <typename Enum>
void check_resolved(const char* argument, Enum value, Refusals* refusals) {
  check_choice(argument, value, refusals);
  if (value == Enum::kAuto) refusals->invalid(argument, "be resolved", name(value));
}

void check_choices(const Conventions& c, Refusals* refusals) {
  check_choice("conventions.path", c.path, refusals);
  check_choice("conventions.family", c.family, refusals);
  check_choice("conventions.safety", c.safety, refusals);
  check_choice("conventions.determinism", c.determinism, refusals);
  check_resolved("conventions.hadamard", c.hadamard, refusals);
  check_choice("conventions.kv_order", c.kv_order, refusals);
  check_choice("conventions.exponential", c.exponential, refusals);
  check_choice("conventions.row_sum", c.row_sum, refusals);
  check_choice("conventions.delta", c.delta, refusals);
  check_resolved("conventions.accumulate", c.accumulate, refusals);
  check_choice("conventions.promote", c.promote, refusals);
  check_choice("conventions.score_accumulator", c.score_accumulator, refusals);
  check_choice("conventions.ds_format", c.ds_format, refusals);
  check_resolved("conventions.grad_products", c.grad_products, refusals);
  check_resolved("conventions.dq_accumulate", c.dq_accumulate, refusals);
  check_resolved("conventions.dq_scale", c.dq_scale, refusals);
  check_resolved("conventions.backend", c.backend, refusals);
}

}  // namespace

bool takes_p_scale(Path path, Family family) {
  return path == Path::kMxfp8 || (path == Path::kNvfp4 && family == Family::kHopper);
}

PScale resolve_p_scale(const Options& options) {
  PScale result;
  const bool hopper = options.emulate == Family::kHopper;
  // With a factor of the caller's the threshold stays one that fits any factor that fits.
  const bool half =
      options.score_accumulator == ScoreAccumulator::kF16 && !options.p_scale.has_value();
  const PHatScale& family = hopper ? (half ? kHopperHalfPHat : kHopperPHat) : kBlackwellPHat;
  if (options.path == Path::kBf16) {
    result = {1.0f, 0.0f};  // BF16 holds every probability: nothing to lift, nothing to delay
  } else if (!takes_p_scale(options.path, options.emulate)) {
    result = {1.0f, family.tau};
  } else {
    result = {family.multiplier, family.tau};
  }
  return {options.p_scale.value_or(result.s), options.tau.value_or(result.tau)};
}

GradProducts resolve_grad_products(const Options& options) {
  return options.grad_products != GradProducts::kAuto ? options.grad_products
                                                      : path_spec(options.path).grad_products;
}

DqAccumulate resolve_dq_accumulate(const Options& options) {
  return options.dq_accumulate != DqAccumulate::kAuto ? options.dq_accumulate
                                                      : path_spec(options.path).dq_accumulate;
}

Accumulate resolve_accumulate(const Options& options, BackendKind backend) {
  if (options.accumulate != Accumulate::kAuto) return options.accumulate;
  return backend == BackendKind::kCpu ? Accumulate::kExact : Accumulate::kHardware;
}

Conventions resolve(const Problem& problem, const Options& options, BackendKind backend) {
  const Window window = resolve_window(options.mask);
  const PScale p_scale = resolve_p_scale(options);
  const double default_scale = 1.0 / std::sqrt(static_cast<double>(problem.head_dim));
  Conventions result;
  result.heads = problem.heads;
  result.kv_heads = problem.kv_heads;
  result.head_dim = static_cast<int16_t>(problem.head_dim);
  result.path = options.path;
  result.family = options.emulate;
  result.window_left = window.left;
  result.window_right = window.right;
  result.softmax_scale = options.softmax_scale.value_or(static_cast<float>(default_scale));
  result.p_scale = p_scale.s;
  result.tau = p_scale.tau;
  result.safety = options.safety;
  result.determinism = options.determinism;
  result.hadamard = hadamard_is_on(problem, options) ? Hadamard::kOn : Hadamard::kOff;
  result.kv_order = options.kv_order;
  result.exponential = options.exponential;
  result.row_sum = options.row_sum;
  result.delta = options.delta;
  result.accumulate = resolve_accumulate(options, backend);
  result.promote = options.promote;
  result.score_accumulator = options.score_accumulator;
  result.ds_format = options.ds_format;
  result.grad_products = resolve_grad_products(options);
  result.dq_accumulate = resolve_dq_accumulate(options);
  result.dq_scale = resolve_dq_scale(options);
  result.backend = backend;
  result.checksum = checksum_of(result);
  return result;
}

uint32_t checksum_of(const Conventions& conventions) {
  // No byte of the record before the checksum is padding.
  static_assert(offsetof(Conventions, checksum) == 60 && offsetof(Conventions, reserved) == 59);
  unsigned char bytes[offsetof(Conventions, checksum)];
  std::memcpy(bytes, &conventions, sizeof bytes);
  uint32_t hash = 0x811c9dc5u;
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x01000193u;
  return hash;
}

float score_multiplier_of(const Conventions& conventions) {
  return conventions.score_accumulator == ScoreAccumulator::kF16
             ? half_score_multiplier(conventions.softmax_scale)
             : score_multiplier(conventions.softmax_scale);
}

Options options_of(const Conventions& conventions) {
  Options options;
  options.path = conventions.path;
  options.backend = conventions.backend;
  options.emulate = conventions.family;
  options.mask = {MaskKind::kWindow, conventions.window_left, conventions.window_right};
  options.softmax_scale = conventions.softmax_scale;
  options.safety = conventions.safety;
  options.determinism = conventions.determinism;
  options.hadamard = conventions.hadamard;
  options.kv_order = conventions.kv_order;
  options.p_scale = conventions.p_scale;
  options.tau = conventions.tau;
  options.exponential = conventions.exponential;
  options.row_sum = conventions.row_sum;
  options.delta = conventions.delta;
  options.accumulate = conventions.accumulate;
  options.promote = conventions.promote;
  options.score_accumulator = conventions.score_accumulator;
  options.ds_format = conventions.ds_format;
  options.grad_products = conventions.grad_products;
  options.dq_accumulate = conventions.dq_accumulate;
  options.dq_scale = conventions.dq_scale;
  return options;
}

Status check_conventions(const char* function, const Problem& problem,
                         const Conventions& conventions) {
  const Conventions& c = conventions;
  if (c.version != kConventionsVersion) {
    return invalid_argument(function, "conventions.version", concat("be ", kConventionsVersion),
                            concat(c.version), "pass the record that the forward pass returned");
  }
  Refusals refusals;
  expect("conventions.heads", c.heads, problem.heads, &refusals);
  expect("conventions.kv_heads", c.kv_heads, problem.kv_heads, &refusals);
  expect("conventions.head_dim", c.head_dim, problem.head_dim, &refusals);
  check_choices(c, &refusals);
  if (c.reserved != 0) {
    refusals.invalid("conventions.reserved", "be zero", concat(c.reserved),
                     "a newer version wrote this record");
  }
  if (c.window_left >= kMaxTokens || c.window_right >= kMaxTokens) {
    refusals.invalid("conventions.window", "be less than 2^40",
                     concat(c.window_left, ",", c.window_right));
  }
  return refusals.status(function);
}

Status check_unchanged(const char* function, const Conventions& conventions) {
  if (conventions.checksum == checksum_of(conventions)) return {};
  return invalid_argument(function, "conventions", "be a record as a forward pass wrote it",
                          "one that was changed", "pass the record on as it is");
}

}  // namespace flamia
