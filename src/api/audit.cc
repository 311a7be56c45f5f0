// The public audit: names over src/audit.
#include "flamia/audit.h"

#include "audit/audit.h"
#include "audit/library.h"
#include "audit/report_json.h"

namespace flamia {

AuditPromise audit_promise(const Options& options) { return audit::library_promise(options); }

AttentionFunction audited_attention(const Options& options) {
  return audit::library_attention(options);
}

Status audited_conventions(const Options& options) { return audit::library_conventions(options); }

std::span<const char* const> audit_probes() { return audit::probe_names(); }

Status audit_attention(const AttentionFunction& function, const AuditOptions& options,
                       AuditReport* report) {
  return audit::run_audit(function, options, report);
}

std::string audit_json(const AuditReport& report) { return audit::report_json(report); }

const char* outcome_name(AuditOutcome outcome) {
  switch (outcome) {
    case AuditOutcome::kPassed:
      return "passed";
    case AuditOutcome::kPromised:
      return "promised";
    case AuditOutcome::kFailed:
      return "failed";
    case AuditOutcome::kNotTested:
      break;
  }
  return "not tested";
}

}  // namespace flamia
