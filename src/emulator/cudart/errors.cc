// Names and texts of error codes; which code a status or trap becomes.
#include "emulator/cudart/errors.h"

#include <string_view>

namespace flamia::emulator::cudart {
namespace {

struct Row {
  int code;
  const char* name;
  const char* text;
};

constexpr Row kRows[] = {
#define FLAMIA_CUDA_ERROR(name, text) {name, #name, text},
#include "emulator/cudart/errors.def"
#undef FLAMIA_CUDA_ERROR
};

const Row* find(int code) {
  for (const Row& row : kRows) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

struct TrapRow {
  std::string_view kind;
  cudaError_t error;
};

constexpr TrapRow kTraps[] = {
    {fault_kind_name(FaultKind::kOutOfBounds), cudaErrorIllegalAddress},
    {fault_kind_name(FaultKind::kUseAfterFree), cudaErrorIllegalAddress},
    {fault_kind_name(FaultKind::kReadOnly), cudaErrorIllegalAddress},
    {fault_kind_name(FaultKind::kWrongSpace), cudaErrorInvalidAddressSpace},
    {fault_kind_name(FaultKind::kMisaligned), cudaErrorMisalignedAddress},
    {fault_kind_name(FaultKind::kBadOperand), cudaErrorIllegalInstruction},
    {"assert", cudaErrorAssert},
    {"watchdog", cudaErrorLaunchTimeout},
    {"deadlock", cudaErrorLaunchTimeout},
};

}  // namespace

const char* error_name(int code) {
  const Row* row = find(code);
  return row == nullptr ? nullptr : row->name;
}

const char* error_text(int code) {
  const Row* row = find(code);
  return row == nullptr ? nullptr : row->text;
}

Outcome to_outcome(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return cudaSuccess;
    case StatusCode::kInvalidArgument:
      return {cudaErrorInvalidValue, status.message()};
    case StatusCode::kUnsupported:
      return {cudaErrorNotSupported, status.message()};
    case StatusCode::kOutOfMemory:
      return {cudaErrorMemoryAllocation, status.message()};
    case StatusCode::kDeviceError:
      return {cudaErrorLaunchFailure, status.message()};
    case StatusCode::kInternal:
      return {cudaErrorUnknown, status.message()};
  }
  return {cudaErrorUnknown, status.message()};
}

cudaError_t trap_error(const std::string& kind) {
  for (const TrapRow& row : kTraps) {
    if (row.kind == kind) return row.error;
  }
  return cudaErrorLaunchFailure;
}

}  // namespace flamia::emulator::cudart
