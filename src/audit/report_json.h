// The report of an audit as one JSON object, and its promise in words.
// Used by: flamia/audit.h, the audit command.
#pragma once

#include <string>

#include "flamia/audit.h"

namespace flamia::audit {

std::string report_json(const AuditReport& report);
std::string promise_words(const AuditPromise& promise);

}  // namespace flamia::audit
