// One audit: the function, its options, and the report that grows while probes run.
// Used by: every probe. The public face is flamia/audit.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "audit/perturbation.h"
#include "flamia/audit.h"

namespace flamia::audit {

class Audit {
 public:
  Audit(const AttentionFunction& function, const AuditOptions& options, AuditReport* report)
      : function_(function), options_(options), report_(*report) {}

  const AuditOptions& options() const { return options_; }
  AuditReport& report() { return report_; }

  /// Relative error of O on ordinary inputs: what other tolerances scale with.
  double o_error() const { return o_error_; }
  void set_o_error(double error) { o_error_ = error; }

  /// Calls the function and checks the sizes of what it returned.
  /// Errors: those of the function; kInvalidArgument for wrong sizes.
  Status call(const AuditInputs& inputs, AuditOutputs* outputs);

  /// Adds a finding of one probe.
  AuditFinding& add(const char* probe, const char* tensor, AuditOutcome outcome, std::string words);
  /// Adds kFailed with what the function said of inputs that a probe gave it.
  void add_refusal(const char* probe, const std::string& inputs, const Status& status);
  void note(std::string protocol) { report_.protocol.push_back(std::move(protocol)); }

  /// Packed N(0, 1) inputs of these document lengths, `gap` rows beyond the last one. Two streams
  /// share no entry; the same stream starts every document with the same rows whatever is packed
  /// before it.
  AuditInputs inputs(const std::vector<int64_t>& lengths, int64_t gap, uint64_t stream) const;

 private:
  const AttentionFunction& function_;
  const AuditOptions& options_;
  AuditReport& report_;
  double o_error_ = 0;
};

/// Standard normal values as BF16, a function of (seed, stream).
void fill_normal(std::vector<uint16_t>* values, uint64_t seed, uint64_t stream, double scale,
                 double mean);

/// Exact attention of these inputs in FP64; gradients if d_o is there. rows: query rows to compute,
/// 0: all (others are NaN).
struct Exact {
  std::vector<double> o, lse, dq, dk, dv;
};
Status exact_attention(const AuditInputs& inputs, int64_t rows, Exact* exact);

/// |a - b| / |b| over entries where b is finite.
double relative_error(const std::vector<float>& a, const std::vector<double>& b);
double cosine(const std::vector<float>& a, const std::vector<double>& b);

/// <a, b> / <b, b> over the same.
double gain(const std::vector<float>& a, const std::vector<double>& b);

/// False if the accuracy probe failed on O: causes that presume attention are then no causes.
bool is_attention(const AuditReport& report);

bool all_finite(const std::vector<float>& values);

/// "4.3e-04".
std::string amount(double x);
/// "8.81".
std::string short_number(double x);
/// "1 token", "31 tokens".
std::string counted(int64_t n, const char* noun);

// The probes, in the order in which they run. Each adds findings; a status that is not ok ends the
// audit.
Status probe_accuracy(Audit* audit);
Status probe_determinism(Audit* audit);
Status probe_causal_leak(Audit* audit);
Status probe_document_leak(Audit* audit);
Status probe_packing(Audit* audit);
Status probe_tails(Audit* audit);
Status probe_saturation(Audit* audit);
Status probe_underflow(Audit* audit);
Status probe_context(Audit* audit);
Status probe_consistency(Audit* audit);

/// Runs everything; what flamia::audit_attention does.
Status run_audit(const AttentionFunction& function, const AuditOptions& options,
                 AuditReport* report);
std::span<const char* const> probe_names();

}  // namespace flamia::audit
