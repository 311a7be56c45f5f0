// Runs the kernel cases of one group through the CUDA driver and records their outputs.
// Depends on: kernel_cases.h, kernel_recording.h, libcuda. tests/emulator/silicon/README.md says
// how it is built and run; the same program runs on the virtual GPU.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/cuda/silicon/kernel_cases.h"
#include "tests/cuda/silicon/kernel_recording.h"

namespace flamia::silicon {
namespace {

void must(CUresult status, const std::string& what) {
  if (status == CUDA_SUCCESS) return;
  const char* text = nullptr;
  cuGetErrorName(status, &text);
  std::fprintf(stderr, "silicon_kernels: %s failed: %s\n", what.c_str(), text ? text : "?");
  std::exit(1);
}

CUtensorMap encode(const MapSpec& spec, CUdeviceptr in, CUdeviceptr out, const std::string& name) {
  CUtensorMap map{};
  cuuint64_t dims[5], strides[4];
  cuuint32_t box[5], elements[5];
  for (uint32_t i = 0; i < 5; ++i) {
    dims[i] = spec.dims[i];
    box[i] = spec.box[i];
    elements[i] = spec.element_strides[i];
    if (i < 4) strides[i] = spec.strides[i];
  }
  const CUdeviceptr base = (spec.of_output ? out : in) + spec.offset_bytes;
  must(cuTensorMapEncodeTiled(&map, static_cast<CUtensorMapDataType>(spec.type), spec.rank,
                              reinterpret_cast<void*>(base), dims, strides, box, elements,
                              CU_TENSOR_MAP_INTERLEAVE_NONE,
                              static_cast<CUtensorMapSwizzle>(spec.swizzle),
                              CU_TENSOR_MAP_L2_PROMOTION_NONE,
                              static_cast<CUtensorMapFloatOOBfill>(spec.nan_fill ? 1 : 0)),
       name + ": cuTensorMapEncodeTiled");
  return map;
}

std::vector<uint32_t> run(CUfunction function, const KernelCase& c) {
  CUdeviceptr in = 0, out = 0;
  must(cuMemAlloc(&in, c.in.size() * 4), c.name);
  must(cuMemAlloc(&out, c.out.size() * 4), c.name);
  must(cuMemcpyHtoD(in, c.in.data(), c.in.size() * 4), c.name);
  must(cuMemcpyHtoD(out, c.out.data(), c.out.size() * 4), c.name);
  CUtensorMap maps[2] = {};
  for (size_t i = 0; i < c.maps.size(); ++i) maps[i] = encode(c.maps[i], in, out, c.name);
  void* arguments[] = {&in, &out, &maps[0], &maps[1]};
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = c.cluster;
  attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
  CUlaunchConfig config{};
  config.gridDimX = c.ctas;
  config.blockDimX = c.threads;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = c.shared_bytes;
  config.attrs = &attribute;
  config.numAttrs = c.cluster > 1 ? 1 : 0;
  if (c.shared_bytes > 49152) {
    must(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                            static_cast<int>(c.shared_bytes)),
         c.name);
  }
  must(cuLaunchKernelEx(&config, function, arguments, nullptr), c.name + ": launch");
  must(cuCtxSynchronize(), c.name);
  std::vector<uint32_t> result(c.out.size());
  must(cuMemcpyDtoH(result.data(), out, result.size() * 4), c.name);
  must(cuMemFree(in), c.name);
  must(cuMemFree(out), c.name);
  return result;
}

int record(const KernelGroup& group, const char* path, const char* whole) {
  std::vector<KernelCase> cases;
  group.add(&cases);
  std::map<std::string, CUfunction> functions;
  std::string bytes, all;
  uint32_t differing = 0;
  for (const KernelCase& c : cases) {
    CUfunction& function = functions[c.entry + c.text];
    if (function == nullptr) {
      CUmodule module = nullptr;
      must(cuModuleLoadData(&module, c.text.c_str()), c.name + ": cuModuleLoadData");
      must(cuModuleGetFunction(&function, module, c.entry.c_str()), c.name);
    }
    const std::vector<uint32_t> out = run(function, c);
    if (run(function, c) != out) {
      std::fprintf(stderr, "silicon_kernels: %s: two runs must agree\n", c.name.c_str());
      ++differing;
    }
    append_record(make_record(c.name, out), &bytes);
    all.append(reinterpret_cast<const char*>(out.data()), out.size() * 4);
  }
  const auto write = [](const char* name, const std::string& data) {
    std::FILE* const file = std::fopen(name, "wb");
    if (file == nullptr || std::fwrite(data.data(), 1, data.size(), file) != data.size()) {
      std::fprintf(stderr, "silicon_kernels: %s must be writable\n", name);
      std::exit(1);
    }
    std::fclose(file);
  };
  write(path, bytes);
  if (whole != nullptr) write(whole, all);
  std::printf("%s: %zu cases, %zu kernels, %u differ from run to run\n", group.name, cases.size(),
              functions.size(), differing);
  return differing == 0 ? 0 : 1;
}

}  // namespace
}  // namespace flamia::silicon

int main(int argc, char** argv) {
  using namespace flamia::silicon;
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: silicon_kernels GROUP OUTPUT [ALL_OUTPUTS]\n");
    return 2;
  }
  must(cuInit(0), "cuInit");
  CUdevice device = 0;
  CUcontext context = nullptr;
  must(cuDeviceGet(&device, 0), "cuDeviceGet");
  must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  for (const KernelGroup& group : kKernelGroups) {
    if (std::string(argv[1]) == group.name) {
      return record(group, argv[2], argc == 4 ? argv[3] : nullptr);
    }
  }
  std::fprintf(stderr, "silicon_kernels: the group must be one of kernel_cases.h; got %s\n",
               argv[1]);
  return 2;
}
