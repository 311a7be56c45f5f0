// One audit: checks of the options, random inputs, and the probes in order.
#include "audit/audit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <new>

#include "audit/probe_data.h"
#include "base/message.h"
#include "base/philox.h"
#include "numerics/bf16.h"
#include "oracle/oracle.h"

namespace flamia::audit {
namespace {

struct NamedProbe {
  const char* name;
  Status (*run)(Audit*);
};
constexpr NamedProbe kProbes[] = {
    {"accuracy", probe_accuracy},       {"determinism", probe_determinism},
    {"causal_leak", probe_causal_leak}, {"document_leak", probe_document_leak},
    {"packing", probe_packing},         {"tails", probe_tails},
    {"saturation", probe_saturation},   {"underflow", probe_underflow},
    {"context", probe_context},         {"consistency", probe_consistency}};
constexpr size_t kProbeCount = std::size(kProbes);

constexpr auto kNames = [] {
  std::array<const char*, kProbeCount> names{};
  for (size_t n = 0; n < kProbeCount; ++n) names[n] = kProbes[n].name;
  return names;
}();

constexpr float kLeastFactorChange = 1.0f / 64;
constexpr float kLargestFactor = 0x1p40f;

Status invalid(const std::string& message) {
  return Status(StatusCode::kInvalidArgument, concat("audit: ", message));
}

Status check_range(const char* name, int64_t value, int64_t lowest, int64_t highest) {
  if (value >= lowest && value <= highest) return {};
  return invalid(concat(name, " must be from ", lowest, " to ", highest, "; got ", value));
}

Status check_probes(const AuditOptions& options) {
  for (const std::string& name : options.probes) {
    if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) continue;
    std::string known;
    for (const char* other : kNames) known += (known.empty() ? "" : ", ") + std::string(other);
    return invalid(concat("probe must be one of ", known, "; got ", name));
  }
  return {};
}

Status check_perturbation(const AuditOptions& options) {
  if (options.at >= options.tokens) {
    return invalid(
        concat("at must be less than tokens; got ", options.at, " and ", options.tokens));
  }
  if (options.factor && !(std::abs(*options.factor - 1) >= kLeastFactorChange &&
                          std::abs(*options.factor) <= kLargestFactor)) {
    return invalid(
        "factor must be finite, at most 2^40, and differ from 1 by 1/64 or more (less is "
        "lost in BF16)");
  }
  if (options.operand == "d_o" && !options.gradients) {
    return invalid("operand must not be d_o without gradients");
  }
  if (options.operand.empty()) return {};
  const auto is_it = [&](Operand operand) { return options.operand == operand_name(operand); };
  if (is_it(Operand::kAll) || std::any_of(std::begin(kOperands), std::end(kOperands), is_it)) {
    return {};
  }
  return invalid(concat("operand must be q, k, v, d_o or all; got ", options.operand));
}

Status check_activations(const AuditInputs& given) {
  if (given.tokens == 0) return {};
  const auto query = static_cast<size_t>(given.query_entries());
  const auto key = static_cast<size_t>(given.key_entries());
  const bool sizes = given.q.size() == query && given.k.size() == key && given.v.size() == key &&
                     (given.d_o.empty() || given.d_o.size() == query);
  if (!sizes || given.kv_heads < 1 || given.heads % given.kv_heads != 0) {
    return invalid(
        "activations must be q, d_o [tokens, heads, head_dim] and k, v [tokens, "
        "kv_heads, head_dim]; got other sizes");
  }
  const auto finite = [](const std::vector<uint16_t>& values) {
    return std::all_of(values.begin(), values.end(),
                       [](uint16_t x) { return std::isfinite(bf16_to_float(x)); });
  };
  if (!finite(given.q) || !finite(given.k) || !finite(given.v) || !finite(given.d_o)) {
    return invalid("activations must be finite; got NaN or Inf");
  }
  if (given.cu_seqlens.size() < 2 || given.cu_seqlens.front() != 0 ||
      !std::is_sorted(given.cu_seqlens.begin(), given.cu_seqlens.end()) ||
      given.cu_seqlens.back() > given.tokens) {
    return invalid(
        "cu_seqlens of the activations must start at 0, never decrease and end at or "
        "before tokens; got others");
  }
  return {};
}

Status check_options(const AuditOptions& options) {
  const Status checks[] = {
      check_range("tokens", options.tokens, 96, 65536),
      check_range("context", options.context, 512, 1 << 20),
      check_range("heads", options.heads, 1, 128),
      check_range("kv_heads", options.kv_heads, 1, options.heads),
      check_range("head_dim", options.head_dim, 16, 512),
      check_range("shared_tokens", options.promise.shared_tokens, 0, 65536),
      check_probes(options),
      check_perturbation(options),
      check_activations(options.activations),
  };
  for (const Status& status : checks) {
    if (!status.ok()) return status;
  }
  if (options.heads % options.kv_heads != 0) {
    return invalid(concat("heads must be a multiple of kv_heads; got ", options.heads, " and ",
                          options.kv_heads));
  }
  if (!(options.cast_range >= 1 && options.cast_range <= 64)) {
    return invalid("cast_range must be from 1 to 64 bits");
  }
  return {};
}

Status check_size(const char* name, size_t got, int64_t wanted, bool required) {
  if (got == static_cast<size_t>(wanted) || (got == 0 && !required)) return {};
  return invalid(concat("the function must return ", name, " of ", wanted, " entries; got ",
                        static_cast<int64_t>(got)));
}

bool has_nan(const AuditOutputs& outputs) {
  for (const OutputView& view : kOutputViews) {
    const std::vector<float>& values = outputs.*view.tensor;
    if (std::any_of(values.begin(), values.end(), [](float x) { return std::isnan(x); })) {
      return true;
    }
  }
  return false;
}

void judge(AuditReport* report) {
  bool failed = false;
  bool tested = false;
  for (const AuditFinding& finding : report->findings) {
    failed = failed || finding.outcome == AuditOutcome::kFailed;
    tested = tested || finding.outcome != AuditOutcome::kNotTested;
  }
  report->passed = tested && !failed;
}

/// An audit that tested nothing is an error, not a verdict.
Status check_tested(const AuditReport& report) {
  const auto tested = [](const AuditFinding& finding) {
    return finding.outcome != AuditOutcome::kNotTested;
  };
  if (std::any_of(report.findings.begin(), report.findings.end(), tested)) return {};
  const std::string why = report.findings.empty() ? "no probe ran" : report.findings[0].words;
  return invalid(concat("nothing could be tested: ", why));
}

bool wanted(const AuditOptions& options, const char* name) {
  return options.probes.empty() ||
         std::find(options.probes.begin(), options.probes.end(), name) != options.probes.end();
}

/// The first call, on ordinary inputs: its errors are errors of the audit. A NaN there would hide
/// what later probes look for, so nothing else is judged.
Status first_call(Audit* audit, bool* usable) {
  AuditInputs inputs = audit->inputs({audit->options().tokens}, 0, kAccuracyStream);
  AuditOutputs outputs;
  if (Status status = audit->call(inputs, &outputs); !status.ok()) return status;
  inputs.d_o.clear();
  Exact exact;
  if (Status status = exact_attention(inputs, 0, &exact); !status.ok()) return status;
  audit->set_o_error(relative_error(outputs.o, exact.o));
  *usable = !has_nan(outputs);
  if (!*usable) {
    audit->add("accuracy", "", AuditOutcome::kFailed,
               "NaN on ordinary inputs (N(0, 1), one document): nothing else can be judged");
  }
  return {};
}

}  // namespace

Status Audit::call(const AuditInputs& inputs, AuditOutputs* outputs) {
  *outputs = AuditOutputs();
  ++report_.calls;
  try {
    if (Status status = function_(inputs, outputs); !status.ok()) return status;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, concat("audit: the function threw: ", error.what()));
  }
  const Status checks[] = {
      check_size("o", outputs->o.size(), inputs.query_entries(), true),
      check_size("lse", outputs->lse.size(), inputs.tokens * inputs.heads, false),
      check_size("dq", outputs->dq.size(), inputs.query_entries(), false),
      check_size("dk", outputs->dk.size(), inputs.key_entries(), false),
      check_size("dv", outputs->dv.size(), inputs.key_entries(), false),
  };
  for (const Status& status : checks) {
    if (!status.ok()) return status;
  }
  return {};
}

AuditFinding& Audit::add(const char* probe, const char* tensor, AuditOutcome outcome,
                         std::string words) {
  AuditFinding finding;
  finding.probe = probe;
  finding.tensor = tensor;
  finding.outcome = outcome;
  finding.words = std::move(words);
  const std::string command = options_.reproduce.empty() ? "" : options_.reproduce + " ";
  finding.reproduce = concat(command, "--probe ", probe, " --tokens ", options_.tokens, " --heads ",
                             options_.heads, " --kv-heads ", options_.kv_heads, " --head-dim ",
                             options_.head_dim, " --seed ", options_.seed);
  report_.findings.push_back(std::move(finding));
  return report_.findings.back();
}

void Audit::add_refusal(const char* probe, const std::string& inputs, const Status& status) {
  add(probe, "", AuditOutcome::kFailed,
      concat("the function failed on ", inputs, ": ", status.message()));
}

AuditInputs Audit::inputs(const std::vector<int64_t>& lengths, int64_t gap, uint64_t stream) const {
  AuditInputs inputs;
  inputs.heads = options_.heads;
  inputs.kv_heads = options_.kv_heads;
  inputs.head_dim = options_.head_dim;
  inputs.causal = options_.causal;
  inputs.softmax_scale = 1.0f / std::sqrt(static_cast<float>(options_.head_dim));
  inputs.cu_seqlens = {0};
  for (const int64_t length : lengths) {
    inputs.tokens += length;
    inputs.cu_seqlens.push_back(static_cast<int32_t>(inputs.tokens));
  }
  inputs.tokens += gap;
  inputs.q.resize(static_cast<size_t>(inputs.query_entries()));
  inputs.k.resize(static_cast<size_t>(inputs.key_entries()));
  inputs.v.resize(static_cast<size_t>(inputs.key_entries()));
  for (const Operand operand : kOperands) {
    if (operand == Operand::kDo && !options_.gradients) continue;
    if (operand == Operand::kDo) inputs.d_o.resize(inputs.q.size());
    fill_normal(&operand_of(&inputs, operand), options_.seed,
                stream * std::size(kOperands) + static_cast<uint64_t>(operand), 1.0, 0.0);
  }
  return inputs;
}

void fill_normal(std::vector<uint16_t>* values, uint64_t seed, uint64_t stream, double scale,
                 double mean) {
  for (size_t n = 0; n < values->size(); n += 4) {
    const Philox4 bits = philox(seed, stream, n / 4);
    const NormalPair pairs[] = {normal_pair(bits.word[0], bits.word[1]),
                                normal_pair(bits.word[2], bits.word[3])};
    const double four[] = {pairs[0].first, pairs[0].second, pairs[1].first, pairs[1].second};
    for (size_t i = 0; i < 4 && n + i < values->size(); ++i) {
      (*values)[n + i] = float_to_bf16(static_cast<float>(four[i] * scale + mean));
    }
  }
}

Status exact_attention(const AuditInputs& inputs, int64_t rows, Exact* exact) {
  // The oracle only reads its inputs; views have one type for both.
  const auto view = [&](const std::vector<uint16_t>& values, int64_t heads) {
    TensorView tensor;
    if (values.empty()) return tensor;
    tensor.data = const_cast<uint16_t*>(values.data());  // NOLINT
    tensor.rank = 3;
    const int64_t shape[] = {inputs.tokens, heads, inputs.head_dim};
    std::copy_n(shape, 3, tensor.shape);
    tensor.stride[0] = heads * inputs.head_dim;
    tensor.stride[1] = inputs.head_dim;
    tensor.stride[2] = 1;
    return tensor;
  };
  const Problem problem = {inputs.tokens,
                           inputs.tokens,
                           0,
                           static_cast<int32_t>(inputs.cu_seqlens.size()) - 1,
                           inputs.heads,
                           inputs.kv_heads,
                           inputs.head_dim};
  ForwardTensors tensors;
  tensors.q = view(inputs.q, inputs.heads);
  tensors.k = view(inputs.k, inputs.kv_heads);
  tensors.v = view(inputs.v, inputs.kv_heads);
  tensors.cu_seqlens_q = {const_cast<int32_t*>(inputs.cu_seqlens.data()),  // NOLINT
                          DType::kI32,
                          1,
                          {static_cast<int64_t>(inputs.cu_seqlens.size())},
                          {1}};
  Mask mask;
  mask.kind = inputs.causal ? MaskKind::kCausal : MaskKind::kFull;
  oracle::Settings settings;
  settings.backward = !inputs.d_o.empty();
  settings.rows_per_document = rows;
  oracle::Result result;
  Status status = oracle::attention(problem, mask, static_cast<double>(inputs.softmax_scale),
                                    tensors, view(inputs.d_o, inputs.heads), settings, &result);
  if (!status.ok()) return status;
  exact->o = std::move(result.o);
  exact->lse = std::move(result.lse);
  exact->dq = std::move(result.dq);
  exact->dk = std::move(result.dk);
  exact->dv = std::move(result.dv);
  return {};
}

double relative_error(const std::vector<float>& a, const std::vector<double>& b) {
  double error = 0;
  double size = 0;
  for (size_t n = 0; n < a.size(); ++n) {
    if (!std::isfinite(b[n])) continue;
    const double delta = static_cast<double>(a[n]) - b[n];
    error += delta * delta;
    size += b[n] * b[n];
  }
  return std::sqrt(error / size);
}

double cosine(const std::vector<float>& a, const std::vector<double>& b) {
  double product = 0;
  double size_a = 0;
  double size_b = 0;
  for (size_t n = 0; n < a.size(); ++n) {
    if (!std::isfinite(b[n])) continue;
    const auto x = static_cast<double>(a[n]);
    product += x * b[n];
    size_a += x * x;
    size_b += b[n] * b[n];
  }
  return product / std::sqrt(size_a * size_b);
}

bool all_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

bool is_attention(const AuditReport& report) {
  return std::none_of(report.findings.begin(), report.findings.end(),
                      [](const AuditFinding& finding) {
                        return finding.probe == "accuracy" && finding.tensor == "o" &&
                               finding.outcome == AuditOutcome::kFailed;
                      });
}

double gain(const std::vector<float>& a, const std::vector<double>& b) {
  double product = 0;
  double size = 0;
  for (size_t n = 0; n < a.size(); ++n) {
    if (!std::isfinite(b[n])) continue;
    product += static_cast<double>(a[n]) * b[n];
    size += b[n] * b[n];
  }
  return product / size;
}

std::string amount(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", x);
  return text;
}

std::string short_number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", x);
  return text;
}

std::string counted(int64_t n, const char* noun) { return concat(n, " ", noun, n == 1 ? "" : "s"); }

std::span<const char* const> probe_names() { return kNames; }

Status run_audit(const AttentionFunction& function, const AuditOptions& options,
                 AuditReport* report) {
  *report = AuditReport();
  if (!function) return invalid("function must be callable; got an empty one");
  if (Status status = check_options(options); !status.ok()) return status;
  report->name = options.name;
  report->options = options;
  try {
    Audit audit(function, options, report);
    audit.note(concat("seed ", options.seed,
                      ": inputs are N(0, 1) in BF16, Philox4x32-10 of (seed, "
                      "probe and operand, position), unless a probe says otherwise"));
    bool usable = true;
    if (Status status = first_call(&audit, &usable); !status.ok()) return status;
    for (const NamedProbe& probe : kProbes) {
      if (!usable || !wanted(options, probe.name)) continue;
      if (options.progress) options.progress(probe.name);
      if (Status status = probe.run(&audit); !status.ok()) return status;
    }
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory,
                  "audit: must allocate inputs and outputs of the "
                  "function; got no memory (fewer tokens or context)");
  }
  judge(report);
  return check_tested(*report);
}

}  // namespace flamia::audit
