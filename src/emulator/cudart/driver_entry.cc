// Looking driver calls up by name and version, for the runtime and for the driver itself.
#include <cstring>

#include "base/message.h"
#include "emulator/cudart/driver.h"

namespace flamia::emulator::cudart {
namespace {

struct DriverEntry {
  std::string_view name;
  int since;
  void* function;
};

const DriverEntry kEntries[] = {
#define FLAMIA_DRIVER_CALL(name, symbol, since) {#name, since, reinterpret_cast<void*>(&symbol)},
#include "emulator/cudart/driver_functions.def"
#undef FLAMIA_DRIVER_CALL
};

constexpr int kVersion = 13000;
constexpr unsigned long long kEntryFlags =
    cudaEnableLegacyStream | cudaEnablePerThreadDefaultStream;

cudaError_t find_for_runtime(const char* call, const char* name, void** function,
                             unsigned int version, unsigned long long flags,
                             cudaDriverEntryPointQueryResult* status) {
  return api_call(call, Needs::kNothing, [&](Runtime&) -> Outcome {
    if (name == nullptr || function == nullptr || (flags & ~kEntryFlags) != 0) {
      return cudaErrorInvalidValue;
    }
    *function = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;
    std::string text;
    switch (find_driver_entry(name, static_cast<int>(version), function)) {
      case EntryAnswer::kFound:
        break;
      case EntryAnswer::kTooNew:
        result = cudaDriverEntryPointVersionNotSufficent;
        break;
      case EntryAnswer::kUnknown:
        result = cudaDriverEntryPointSymbolNotFound;
        text = concat("the driver call must be one of the virtual GPU; got ", name);
        break;
    }
    if (status != nullptr) *status = result;
    // Without a status the code tells; with one, as on hardware, it is success.
    const bool tells = status == nullptr && result != cudaDriverEntryPointSuccess;
    return {tells ? cudaErrorSymbolNotFound : cudaSuccess, text};
  });
}

}  // namespace

EntryAnswer find_driver_entry(std::string_view name, int version, void** function) {
  for (const DriverEntry& entry : kEntries) {
    if (entry.name != name) continue;
    if (version < entry.since) return EntryAnswer::kTooNew;
    *function = entry.function;
    return EntryAnswer::kFound;
  }
  return EntryAnswer::kUnknown;
}

}  // namespace flamia::emulator::cudart

using namespace flamia::emulator::cudart;  // NOLINT: this file is the C boundary

FLAMIA_VGPU_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(
    const char* name, void** function, unsigned int version, unsigned long long flags,
    cudaDriverEntryPointQueryResult* status) {
  return find_for_runtime("cudaGetDriverEntryPointByVersion", name, function, version, flags,
                          status);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGetDriverEntryPointByVersion_ptsz(
    const char* name, void** function, unsigned int version, unsigned long long flags,
    cudaDriverEntryPointQueryResult* status) {
  return find_for_runtime("cudaGetDriverEntryPointByVersion", name, function, version, flags,
                          status);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGetDriverEntryPoint(const char* name, void** function,
                                                       unsigned long long flags,
                                                       cudaDriverEntryPointQueryResult* status) {
  return find_for_runtime("cudaGetDriverEntryPoint", name, function, kVersion, flags, status);
}

FLAMIA_VGPU_EXPORT cudaError_t
cudaGetDriverEntryPoint_ptsz(const char* name, void** function, unsigned long long flags,
                             cudaDriverEntryPointQueryResult* status) {
  return find_for_runtime("cudaGetDriverEntryPoint", name, function, kVersion, flags, status);
}

FLAMIA_VGPU_EXPORT CUresult cuGetProcAddress(const char* name, void** function, int version,
                                             cuuint64_t flags,
                                             CUdriverProcAddressQueryResult* status) {
  return driver_call("cuGetProcAddress", Needs::kNothing, [&](Runtime&) -> Outcome {
    if (name == nullptr || function == nullptr || flags > 2) return cudaErrorInvalidValue;
    *function = nullptr;
    const EntryAnswer answer = find_driver_entry(name, version, function);
    if (status != nullptr) {
      *status = answer == EntryAnswer::kFound    ? CU_GET_PROC_ADDRESS_SUCCESS
                : answer == EntryAnswer::kTooNew ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                                 : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    if (answer == EntryAnswer::kFound) return cudaSuccess;
    return {cudaErrorSymbolNotFound,
            flamia::concat("the driver call must be one of the virtual GPU; got ", name)};
  });
}
