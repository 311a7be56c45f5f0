// The one file that knows which backends the build has.
#include "api/executor.h"

#include "base/refusals.h"
#include "problem/names.h"

#if FLAMIA_HAS_CUDA
#include "cuda/backend.h"
#include "cuda/device.h"
#endif

namespace flamia {

Machine machine_for(BackendKind requested) {
  if (requested == BackendKind::kCpu) return {};
#if FLAMIA_HAS_CUDA
  return cuda::current_machine();
#else
  Machine machine;
  machine.no_hopper = "this build has no device code";
  return machine;
#endif
}

Status find_backend(const char* function, const Plan& plan, const Backend** backend) {
#if FLAMIA_HAS_CUDA
  if (plan.backend == BackendKind::kHopper) {
    *backend = &cuda::hopper_backend();
    return {};
  }
#endif
  if (plan.backend != BackendKind::kCpu) {
    return {StatusCode::kInternal, concat(function, ": no backend ", name(plan.backend))};
  }
  if (!cpu_backend_available()) {
    return unsupported(function, "backend", "run on this machine", name(plan.backend),
                       "the cpu backend needs AVX2 and FMA");
  }
  *backend = &cpu_backend();
  return {};
}

Residence residence_of(const Plan& plan) {
  return plan.backend == BackendKind::kCpu ? Residence::kHost : Residence::kDevice;
}

std::string gpu_words() {
#if FLAMIA_HAS_CUDA
  cuda::Device device;
  if (cuda::current_device("explain", &device).ok()) {
    return concat(device.name, ", ", device.multiprocessors, " multiprocessors");
  }
#endif
  return {};
}

}  // namespace flamia
