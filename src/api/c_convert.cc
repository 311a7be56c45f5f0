// The conversions, one function per struct, field by field.
#include "api/c_convert.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace flamia::c_convert {

namespace {

// No padding at the end: a later field there would be read from an older caller's garbage.
static_assert(sizeof(flamia_problem) == offsetof(flamia_problem, reserved) + sizeof(int32_t));
static_assert(sizeof(flamia_options) == offsetof(flamia_options, assignment) + sizeof(int32_t));

template <typename Enum>
constexpr bool counts_from_one(int in_c, Enum value) {
  return in_c == static_cast<int>(value) + 1;
}
static_assert(counts_from_one(FLAMIA_DTYPE_I8, DType::kI8));
static_assert(counts_from_one(FLAMIA_PATH_ALL4BIT, Path::kAll4Bit));
static_assert(counts_from_one(FLAMIA_BACKEND_BLACKWELL, BackendKind::kBlackwell));
static_assert(counts_from_one(FLAMIA_FAMILY_BLACKWELL, Family::kBlackwell));
static_assert(counts_from_one(FLAMIA_MASK_CAUSAL, MaskKind::kCausal));
static_assert(counts_from_one(FLAMIA_MASK_WINDOW, MaskKind::kWindow));
static_assert(counts_from_one(FLAMIA_SAFETY_EXACT, Safety::kExact));
static_assert(counts_from_one(FLAMIA_DETERMINISM_DETERMINISTIC, Determinism::kDeterministic));
static_assert(counts_from_one(FLAMIA_HADAMARD_OFF, Hadamard::kOff));
static_assert(counts_from_one(FLAMIA_KV_ORDER_FORWARD, KvOrder::kForward));
static_assert(counts_from_one(FLAMIA_EXPONENTIAL_MITCHELL, Exponential::kMitchell));
static_assert(counts_from_one(FLAMIA_ROW_SUM_P, RowSum::kP));
static_assert(counts_from_one(FLAMIA_DELTA_O_BF16, Delta::kOBf16));
static_assert(counts_from_one(FLAMIA_ACCUMULATE_AUTO, Accumulate::kAuto));
static_assert(counts_from_one(FLAMIA_PROMOTE_NONE, Promote::kNone));
static_assert(counts_from_one(FLAMIA_SCORE_ACCUMULATOR_F16, ScoreAccumulator::kF16));
static_assert(counts_from_one(FLAMIA_DS_FORMAT_E5M2, DsFormat::kE5M2));
static_assert(counts_from_one(FLAMIA_GRAD_PRODUCTS_BF16, GradProducts::kBf16));
static_assert(counts_from_one(FLAMIA_DQ_ACCUMULATE_FP32, DqAccumulate::kFp32));
static_assert(counts_from_one(FLAMIA_DQ_SCALE_CAUSAL, DqScale::kCausal));
static_assert(counts_from_one(FLAMIA_ASSIGNMENT_ALTERNATING, Assignment::kAlternating));
static_assert(counts_from_one(FLAMIA_PASS_BACKWARD, Pass::kBackward));
static_assert(counts_from_one(FLAMIA_ROLE_DO, Role::kDo));
static_assert(counts_from_one(FLAMIA_AXIS_TOKENS, ContractionAxis::kTokens));

Status check_reserved(const char* function, const char* argument, int32_t reserved) {
  if (reserved == 0) return {};
  return invalid_argument(function, concat(argument, ".reserved"), "be 0", concat(reserved));
}

/// Stops at the first of several conversions that fails.
class OptionReader {
 public:
  OptionReader(const char* function, const flamia_options* source)
      : function_(function), fields_(source) {}

  template <typename Enum>
  void read(const char* argument, int32_t flamia_options::*member, Enum* result) {
    if (status_.ok()) status_ = to_enum(function_, argument, fields_.get(member), result);
  }
  void read(int32_t flamia_options::*given, float flamia_options::*member,
            std::optional<float>* result) const {
    if (fields_.get(given) != 0) *result = fields_.get(member);
  }
  const Fields<const flamia_options>& fields() const { return fields_; }
  Status status() const { return status_; }

 private:
  const char* function_;
  Fields<const flamia_options> fields_;
  Status status_;
};

/// Converts the members of a struct of tensors one after the other.
template <typename Struct>
class ViewReader {
 public:
  ViewReader(const char* function, const Struct* source)
      : function_(function), fields_(source), status_(fields_.check(function, "tensors")) {}

  void read(const char* argument, const flamia_tensor* Struct::*member, TensorView* view) {
    if (status_.ok()) status_ = to_view(function_, argument, fields_.get(member), view);
  }
  Status status() const { return status_; }

 private:
  const char* function_;
  Fields<const Struct> fields_;
  Status status_;
};

constexpr size_t kRecordBytes = sizeof(Conventions);
static_assert(kRecordBytes == sizeof(flamia_conventions::record));

}  // namespace

Status to_view(const char* function, const char* argument, const flamia_tensor* source,
               TensorView* view) {
  *view = {};
  if (source == nullptr) return {};
  const Fields<const flamia_tensor> fields(source);
  if (Status status = fields.check(function, argument); !status.ok()) return status;
  view->data = fields.get(&flamia_tensor::data);
  const int32_t rank = fields.get(&flamia_tensor::rank);
  if (rank < 0 || rank > 4) {
    return invalid_argument(function, concat(argument, ".rank"), "be between 0 and 4",
                            concat(rank));
  }
  view->rank = rank;
  if (rank == 0 && view->data == nullptr) return {};  // an optional tensor, all zeros
  if (fields.has(&flamia_tensor::shape)) std::copy_n(source->shape, 4, view->shape);
  if (fields.has(&flamia_tensor::stride)) std::copy_n(source->stride, 4, view->stride);
  return to_required_enum(function, concat(argument, ".dtype").c_str(),
                          fields.get(&flamia_tensor::dtype), &view->dtype);
}

Status to_problem(const char* function, const flamia_problem* source, Problem* problem) {
  const Fields<const flamia_problem> fields(source);
  if (Status status = fields.check(function, "problem"); !status.ok()) return status;
  problem->query_tokens = fields.get(&flamia_problem::query_tokens);
  problem->key_tokens = fields.get(&flamia_problem::key_tokens);
  problem->batch = fields.get(&flamia_problem::batch);
  problem->documents = fields.get(&flamia_problem::documents);
  problem->heads = fields.get(&flamia_problem::heads);
  problem->kv_heads = fields.get(&flamia_problem::kv_heads);
  problem->head_dim = fields.get(&flamia_problem::head_dim);
  return check_reserved(function, "problem", fields.get(&flamia_problem::reserved));
}

Status to_options(const char* function, const flamia_options* source, Options* options) {
  *options = {};
  if (source == nullptr) return {};
  OptionReader reader(function, source);
  const Fields<const flamia_options>& fields = reader.fields();
  if (Status status = fields.check(function, "options"); !status.ok()) return status;
  reader.read("path", &flamia_options::path, &options->path);
  reader.read("backend", &flamia_options::backend, &options->backend);
  reader.read("emulate", &flamia_options::emulate, &options->emulate);
  reader.read("mask", &flamia_options::mask, &options->mask.kind);
  if (options->mask.kind == MaskKind::kWindow) {
    options->mask.window_left = fields.get(&flamia_options::window_left);
    options->mask.window_right = fields.get(&flamia_options::window_right);
  }
  reader.read(&flamia_options::has_softmax_scale, &flamia_options::softmax_scale,
              &options->softmax_scale);
  reader.read(&flamia_options::has_p_scale, &flamia_options::p_scale, &options->p_scale);
  reader.read(&flamia_options::has_tau, &flamia_options::tau, &options->tau);
  reader.read("safety", &flamia_options::safety, &options->safety);
  reader.read("determinism", &flamia_options::determinism, &options->determinism);
  reader.read("hadamard", &flamia_options::hadamard, &options->hadamard);
  reader.read("kv_order", &flamia_options::kv_order, &options->kv_order);
  reader.read("exponential", &flamia_options::exponential, &options->exponential);
  reader.read("row_sum", &flamia_options::row_sum, &options->row_sum);
  reader.read("delta", &flamia_options::delta, &options->delta);
  reader.read("accumulate", &flamia_options::accumulate, &options->accumulate);
  reader.read("promote", &flamia_options::promote, &options->promote);
  reader.read("score_accumulator", &flamia_options::score_accumulator, &options->score_accumulator);
  reader.read("ds_format", &flamia_options::ds_format, &options->ds_format);
  reader.read("grad_products", &flamia_options::grad_products, &options->grad_products);
  reader.read("dq_accumulate", &flamia_options::dq_accumulate, &options->dq_accumulate);
  reader.read("dq_scale", &flamia_options::dq_scale, &options->dq_scale);
  reader.read("assignment", &flamia_options::assignment, &options->assignment);
  options->threads = fields.get(&flamia_options::threads);
  return reader.status();
}

Status to_tensors(const char* function, const flamia_forward_tensors* source,
                  ForwardTensors* tensors) {
  using Source = flamia_forward_tensors;
  ViewReader<Source> reader(function, source);
  reader.read("q", &Source::q, &tensors->q);
  reader.read("k", &Source::k, &tensors->k);
  reader.read("v", &Source::v, &tensors->v);
  reader.read("cu_seqlens_q", &Source::cu_seqlens_q, &tensors->cu_seqlens_q);
  reader.read("cu_seqlens_k", &Source::cu_seqlens_k, &tensors->cu_seqlens_k);
  reader.read("o", &Source::o, &tensors->o);
  reader.read("lse", &Source::lse, &tensors->lse);
  reader.read("o_residual", &Source::o_residual, &tensors->o_residual);
  return reader.status();
}

Status to_tensors(const char* function, const flamia_backward_tensors* source,
                  BackwardTensors* tensors) {
  using Source = flamia_backward_tensors;
  ViewReader<Source> reader(function, source);
  reader.read("q", &Source::q, &tensors->q);
  reader.read("k", &Source::k, &tensors->k);
  reader.read("v", &Source::v, &tensors->v);
  reader.read("cu_seqlens_q", &Source::cu_seqlens_q, &tensors->cu_seqlens_q);
  reader.read("cu_seqlens_k", &Source::cu_seqlens_k, &tensors->cu_seqlens_k);
  reader.read("o", &Source::o, &tensors->o);
  reader.read("o_residual", &Source::o_residual, &tensors->o_residual);
  reader.read("lse", &Source::lse, &tensors->lse);
  reader.read("d_o", &Source::d_o, &tensors->d_o);
  reader.read("d_lse", &Source::d_lse, &tensors->d_lse);
  reader.read("dq", &Source::dq, &tensors->dq);
  reader.read("dk", &Source::dk, &tensors->dk);
  reader.read("dv", &Source::dv, &tensors->dv);
  return reader.status();
}

Status to_tensors(const char* function, const flamia_quantized_tensors* source,
                  QuantizedTensors* tensors) {
  using Source = flamia_quantized_tensors;
  ViewReader<Source> reader(function, source);
  reader.read("codes", &Source::codes, &tensors->codes);
  reader.read("exp", &Source::exp, &tensors->exp);
  reader.read("scales", &Source::scales, &tensors->scales);
  return reader.status();
}

Status to_workspace(const char* function, const flamia_workspace* source, Workspace* workspace) {
  *workspace = {};
  if (source == nullptr) return {};
  const Fields<const flamia_workspace> fields(source);
  if (Status status = fields.check(function, "workspace"); !status.ok()) return status;
  workspace->data = fields.get(&flamia_workspace::data);
  workspace->bytes = fields.get(&flamia_workspace::bytes);
  return {};
}

Status check_conventions_output(const char* function, const flamia_conventions* target) {
  const Fields<const flamia_conventions> fields(target);
  if (Status status = fields.check(function, "conventions"); !status.ok()) return status;
  if (fields.has(&flamia_conventions::record)) return {};
  return invalid_argument(function, "conventions.struct_size",
                          concat("be ", sizeof(flamia_conventions)), concat(target->struct_size));
}

void write_conventions(const Conventions& conventions, flamia_conventions* target) {
  std::memset(target->record, 0, sizeof(target->record));
  std::memcpy(target->record, &conventions, kRecordBytes);
}

Status to_conventions(const char* function, const flamia_conventions* source,
                      Conventions* conventions) {
  if (Status status = check_conventions_output(function, source); !status.ok()) return status;
  for (size_t i = kRecordBytes; i < sizeof(source->record); ++i) {
    if (source->record[i] == 0) continue;
    return invalid_argument(function, concat("conventions.record[", i, "]"), "be 0",
                            concat(static_cast<int>(source->record[i])));
  }
  std::memcpy(static_cast<void*>(conventions), source->record, kRecordBytes);
  return {};
}

Status check_statistics_output(const char* function, const flamia_statistics* target) {
  if (target == nullptr) return {};
  return Fields<const flamia_statistics>(target).check(function, "statistics");
}

void write_statistics(const PassStatistics& statistics, flamia_statistics* target) {
  if (target == nullptr) return;
  const Fields<flamia_statistics> fields(target);
  fields.set(&flamia_statistics::quantize_ms, statistics.quantize_ms);
  fields.set(&flamia_statistics::attention_ms, statistics.attention_ms);
  fields.set(&flamia_statistics::ds_nonzero, statistics.ds_nonzero);
  fields.set(&flamia_statistics::ds_flushed, statistics.ds_flushed);
  fields.set(&flamia_statistics::ds_row_sum_residual, statistics.ds_row_sum_residual);
}

Status check_problem_output(const char* function, const flamia_problem* target) {
  return Fields<const flamia_problem>(target).check(function, "problem");
}

void write_problem(const Problem& problem, flamia_problem* target) {
  const Fields<flamia_problem> fields(target);
  fields.set(&flamia_problem::query_tokens, problem.query_tokens);
  fields.set(&flamia_problem::key_tokens, problem.key_tokens);
  fields.set(&flamia_problem::batch, problem.batch);
  fields.set(&flamia_problem::documents, problem.documents);
  fields.set(&flamia_problem::heads, problem.heads);
  fields.set(&flamia_problem::kv_heads, problem.kv_heads);
  fields.set(&flamia_problem::head_dim, problem.head_dim);
  fields.set(&flamia_problem::reserved, 0);
}

}  // namespace flamia::c_convert
