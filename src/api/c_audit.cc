// flamia_audit: an audit whose function, if not the library's, is a C callback.
// Used by: Python's ctypes, C programs.
#include <algorithm>
#include <cstring>
#include <string>

#include "api/c_convert.h"
#include "api/c_status.h"
#include "flamia/audit.h"
#include "flamia/c_api.h"

namespace {

using namespace flamia::c_convert;  // NOLINT: as in c_api.cc
using flamia::AuditInputs;
using flamia::AuditOptions;
using flamia::AuditOutputs;
using flamia::Status;
using flamia::StatusCode;

constexpr const char* kFunction = "audit";

/// Buffers of one call, and what the callback says of them.
class Call {
 public:
  explicit Call(const AuditInputs& inputs) {
    const auto query = static_cast<size_t>(inputs.query_entries());
    const auto key = static_cast<size_t>(inputs.key_entries());
    const bool gradients = !inputs.d_o.empty();
    outputs_.o.resize(query);
    outputs_.lse.resize(static_cast<size_t>(inputs.tokens * inputs.heads));
    outputs_.dq.resize(gradients ? query : 0);
    outputs_.dk.resize(gradients ? key : 0);
    outputs_.dv.resize(gradients ? key : 0);
    call_.struct_size = sizeof call_;
    call_.tokens = inputs.tokens;
    call_.heads = inputs.heads;
    call_.kv_heads = inputs.kv_heads;
    call_.head_dim = inputs.head_dim;
    call_.documents = static_cast<int32_t>(inputs.cu_seqlens.size()) - 1;
    call_.causal = inputs.causal ? 1 : 0;
    call_.softmax_scale = inputs.softmax_scale;
    call_.cu_seqlens = inputs.cu_seqlens.data();
    call_.q = inputs.q.data();
    call_.k = inputs.k.data();
    call_.v = inputs.v.data();
    call_.d_o = gradients ? inputs.d_o.data() : nullptr;
    call_.o = outputs_.o.data();
    call_.lse = outputs_.lse.data();
    call_.dq = gradients ? outputs_.dq.data() : nullptr;
    call_.dk = gradients ? outputs_.dk.data() : nullptr;
    call_.dv = gradients ? outputs_.dv.data() : nullptr;
  }

  Status run(flamia_audit_function function, void* user) {
    if (function(user, &call_) == 0) return {};
    call_.message[sizeof call_.message - 1] = '\0';
    const char* const said = call_.message[0] != '\0' ? call_.message : "no message";
    return Status(StatusCode::kInternal, std::string("audit: the function failed: ") + said);
  }

  AuditOutputs take() {
    const auto keep = [&](int32_t bit, std::vector<float>* values) {
      if ((call_.given & bit) == 0) values->clear();
    };
    keep(FLAMIA_AUDIT_O, &outputs_.o);
    keep(FLAMIA_AUDIT_LSE, &outputs_.lse);
    keep(FLAMIA_AUDIT_DQ, &outputs_.dq);
    keep(FLAMIA_AUDIT_DK, &outputs_.dk);
    keep(FLAMIA_AUDIT_DV, &outputs_.dv);
    return std::move(outputs_);
  }

 private:
  flamia_audit_call call_ = {};
  AuditOutputs outputs_;
};

flamia::AttentionFunction callback(flamia_audit_function function, void* user) {
  return [=](const AuditInputs& inputs, AuditOutputs* outputs) -> Status {
    Call call(inputs);
    if (Status status = call.run(function, user); !status.ok()) return status;
    *outputs = call.take();
    return {};
  };
}

std::vector<std::string> split(const char* text) {
  std::vector<std::string> parts;
  const std::string whole = text == nullptr ? "" : text;
  for (size_t begin = 0; begin < whole.size();) {
    const size_t end = std::min(whole.find(',', begin), whole.size());
    parts.push_back(whole.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// A dense copy of [T, H, D] BF16 with any strides of tokens and heads.
Status copy_activations(const char* name, const flamia_tensor* source, int64_t* tokens,
                        int32_t* heads, int32_t* head_dim, std::vector<uint16_t>* values) {
  flamia::TensorView view;
  if (Status status = to_view(kFunction, name, source, &view); !status.ok()) return status;
  if (view.data == nullptr) return {};
  if (view.rank != 3 || view.dtype != flamia::DType::kBF16 || view.stride[2] != 1) {
    return flamia::invalid_argument(kFunction, name, "be BF16 [T, H, D] with a unit last stride",
                                    flamia::concat("rank ", view.rank));
  }
  *tokens = view.shape[0];
  *heads = static_cast<int32_t>(view.shape[1]);
  *head_dim = static_cast<int32_t>(view.shape[2]);
  const auto* data = static_cast<const uint16_t*>(view.data);
  for (int64_t t = 0; t < view.shape[0]; ++t) {
    for (int64_t h = 0; h < view.shape[1]; ++h) {
      const uint16_t* row = data + t * view.stride[0] + h * view.stride[1];
      values->insert(values->end(), row, row + view.shape[2]);
    }
  }
  return {};
}

Status to_activations(const Fields<const flamia_audit_options>& fields, AuditInputs* inputs) {
  using Source = flamia_audit_options;
  if (fields.get(&Source::q) == nullptr) return {};
  int64_t tokens = 0;
  int32_t heads = 0;
  int32_t head_dim = 0;
  struct Member {
    const char* name;
    const flamia_tensor* Source::*source;
    std::vector<uint16_t> AuditInputs::*target;
  };
  const Member members[] = {{"v", &Source::v, &AuditInputs::v},
                            {"k", &Source::k, &AuditInputs::k},
                            {"d_o", &Source::d_o, &AuditInputs::d_o},
                            {"q", &Source::q, &AuditInputs::q}};
  for (const Member& member : members) {
    if (Status status = copy_activations(member.name, fields.get(member.source), &tokens, &heads,
                                         &head_dim, &(inputs->*member.target));
        !status.ok()) {
      return status;
    }
    if (member.target == &AuditInputs::k) inputs->kv_heads = heads;
  }
  inputs->tokens = tokens;
  inputs->heads = heads;
  inputs->head_dim = head_dim;
  inputs->softmax_scale =
      head_dim > 0 ? 1.0f / __builtin_sqrtf(static_cast<float>(head_dim)) : 1.0f;
  flamia::TensorView lengths;
  if (Status status = to_view(kFunction, "cu_seqlens", fields.get(&Source::cu_seqlens), &lengths);
      !status.ok()) {
    return status;
  }
  if (lengths.data == nullptr) {
    inputs->cu_seqlens = {0, static_cast<int32_t>(tokens)};
    return {};
  }
  if (lengths.rank != 1 || lengths.dtype != flamia::DType::kI32 || lengths.stride[0] != 1) {
    return flamia::invalid_argument(kFunction, "cu_seqlens", "be dense I32 of rank 1",
                                    flamia::concat("rank ", lengths.rank));
  }
  const auto* begin = static_cast<const int32_t*>(lengths.data);
  inputs->cu_seqlens.assign(begin, begin + lengths.shape[0]);
  return {};
}

template <typename Value>
void set_if_given(Value value, Value* target) {
  if (value != Value{}) *target = value;
}

Status to_audit_options(const flamia_audit_options* source, AuditOptions* options) {
  using Source = flamia_audit_options;
  if (source == nullptr) return {};
  const Fields<const Source> fields(source);
  if (Status status = fields.check(kFunction, "options"); !status.ok()) return status;
  const auto text = [&](const char* Source::*member) {
    const char* const value = fields.get(member);
    return std::string(value == nullptr ? "" : value);
  };
  if (!text(&Source::name).empty()) options->name = text(&Source::name);
  options->reproduce = text(&Source::reproduce);
  options->probes = split(fields.get(&Source::probes));
  set_if_given(fields.get(&Source::tokens), &options->tokens);
  set_if_given(fields.get(&Source::context), &options->context);
  set_if_given(fields.get(&Source::heads), &options->heads);
  set_if_given(fields.get(&Source::kv_heads), &options->kv_heads);
  set_if_given(fields.get(&Source::head_dim), &options->head_dim);
  set_if_given(fields.get(&Source::cast_range), &options->cast_range);
  options->causal = fields.get(&Source::full_mask) == 0;
  options->gradients = fields.get(&Source::forward_only) == 0;
  if (fields.get(&Source::has_at) != 0) options->at = fields.get(&Source::at);
  options->operand = text(&Source::operand);
  if (fields.get(&Source::has_factor) != 0) options->factor = fields.get(&Source::factor);
  options->seed = fields.get(&Source::seed);
  options->promise.shared_tokens = fields.get(&Source::shared_tokens);
  options->promise.shared_queries = fields.get(&Source::shared_tokens);
  options->promise.dq_rounding = fields.get(&Source::dq_rounding) != 0;
  options->promise.deterministic = fields.get(&Source::not_deterministic) == 0;
  options->promise.packing_invariant = fields.get(&Source::not_packing_invariant) == 0;
  return to_activations(fields, &options->activations);
}

Status audit(flamia_audit_function function, const flamia_options* own,
             const flamia_audit_options* options, flamia_audit_text report,
             flamia_audit_text progress, void* user, int32_t* passed) {
  if (passed == nullptr) return flamia::invalid_argument(kFunction, "passed", "be given", "null");
  if (report == nullptr) return flamia::invalid_argument(kFunction, "report", "be given", "null");
  *passed = 0;
  flamia::Options choices;
  AuditOptions audit_options;
  if (Status status = to_options(kFunction, own, &choices); !status.ok()) return status;
  if (Status status = to_audit_options(options, &audit_options); !status.ok()) return status;
  if (function != nullptr && own != nullptr) {
    return flamia::invalid_argument(kFunction, "own", "be null beside a function", "options");
  }
  if (progress != nullptr) {
    audit_options.progress = [=](const std::string& name) {
      progress(user, name.data(), name.size());
    };
  }
  flamia::AttentionFunction audited;
  if (function != nullptr) {
    audited = callback(function, user);
  } else {
    audited = flamia::audited_attention(choices);
    audit_options.promise = flamia::audit_promise(choices);
    audit_options.conventions = [=] { return flamia::audited_conventions(choices); };
  }
  flamia::AuditReport result;
  if (Status status = flamia::audit_attention(audited, audit_options, &result); !status.ok()) {
    return status;
  }
  const std::string json = flamia::audit_json(result);
  report(user, json.data(), json.size());
  *passed = result.passed ? 1 : 0;
  return {};
}

}  // namespace

extern "C" flamia_status flamia_audit(flamia_audit_function function, const flamia_options* own,
                                      const flamia_audit_options* options, flamia_audit_text report,
                                      flamia_audit_text progress, void* user, int32_t* passed) {
  return flamia::c_status::run(
      [&] { return audit(function, own, options, report, progress, user, passed); });
}
