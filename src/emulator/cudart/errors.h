// Error codes: their names and texts, and the codes of what our own layers report.
// Depends on: driver_types.h. Used by: every call.
#pragma once

#include <string>
#include <utility>

#include "emulator/cudart/api.h"
#include "emulator/machine/fault.h"
#include "flamia/status.h"

namespace flamia::emulator::cudart {

/// How a call ended: the code that the program sees, and a sentence for the person who runs it,
/// which goes to stderr. Empty where the code says all.
struct [[nodiscard]] Outcome {
  cudaError_t error = cudaSuccess;
  std::string text;

  Outcome() = default;
  Outcome(cudaError_t code) : error(code) {}  // NOLINT: a code is an outcome
  Outcome(cudaError_t code, std::string sentence) : error(code), text(std::move(sentence)) {}
  bool ok() const { return error == cudaSuccess; }
};

/// "cudaErrorInvalidValue"; null for a number that is no code.
const char* error_name(int code);
/// "invalid argument"; null for a number that is no code.
const char* error_text(int code);

/// The code of a status of the machine at load or launch; success for ok.
Outcome to_outcome(const Status& status);

/// The sticky code of a trap by its kind: "out of bounds" is an illegal address, and so on.
cudaError_t trap_error(const std::string& kind);

}  // namespace flamia::emulator::cudart
