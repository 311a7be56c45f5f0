// What `flamia audit` does, behind its options.
// Paper: FLAMIA 3.2, 3.3, 4.5. Depends on: flamia/audit.h. Used by: audit_command.cc, tests.
#pragma once

#include <cstdint>
#include <string>

#include "flamia/audit.h"
#include "tools/attention_options.h"

namespace flamia::tools {

struct AuditArguments {
  AttentionArguments attention;
  AuditOptions audit;
  std::string offender;  ///< audit this reference offender instead of the library
  std::string input;     ///< safetensors file with activations for the causal probes
  std::string json;
};

/// Prints the findings, then writes the JSON file if one is asked for. passed: no probe failed.
Status audit(const AuditArguments& arguments, bool* passed);

}  // namespace flamia::tools
