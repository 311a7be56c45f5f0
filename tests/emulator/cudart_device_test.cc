// Device queries, settings, errors, statistics and driver calls of the runtime half.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "emulator/cudart/chip.h"
#include "emulator/cudart/errors.h"
#include "emulator/cudart/statistics.h"
#include "emulator/model/counters.h"
#include "tests/emulator/cudart_support.h"

namespace flamia::emulator::cudart {
namespace {

using CudartDevice = CudartTest;
using CudartError = CudartTest;
using CudartDriver = CudartTest;

std::string settings_error(std::map<std::string, std::string> variables, Settings* settings) {
  return read_settings(
             [&](const char* name) {
               const auto it = variables.find(name);
               return it == variables.end() ? nullptr : it->second.c_str();
             },
             settings)
      .message();
}

TEST(CudartSettings, VariablesAreRead) {
  Settings settings;
  EXPECT_EQ(settings_error({{"FLAMIA_VGPU_CHIP", "b300"},
                            {"FLAMIA_VGPU_SEED", "18446744073709551615"},
                            {"FLAMIA_VGPU_ADVERSARY", "late"},
                            {"FLAMIA_VGPU_NUMERICS", "exact"},
                            {"FLAMIA_VGPU_SMS", "148"},
                            {"FLAMIA_VGPU_RULES", "strict"},
                            {"FLAMIA_VGPU_SCALE", "33"},
                            {"FLAMIA_VGPU_STATS", "a.json"}},
                           &settings),
            "");
  EXPECT_EQ(settings.machine.chip, Chip::kB300);
  EXPECT_EQ(settings.machine.seed, UINT64_MAX);
  EXPECT_EQ(settings.machine.adversary, Adversary::kLate);
  EXPECT_EQ(settings.machine.numerics, Numerics::kExact);
  EXPECT_EQ(settings.machine.sms, 148u);
  EXPECT_EQ(settings.machine.rules, Rules::kStrict);
  EXPECT_EQ(settings.stats_path, "a.json");
  EXPECT_EQ(settings.stats_scale, 33u);
  EXPECT_TRUE(settings.machine.count);
}

TEST(CudartSettings, WrongValuesAreRefused) {
  Settings settings;
  EXPECT_EQ(settings_error({{"FLAMIA_VGPU_SCALE", "0"}}, &settings),
            "settings: FLAMIA_VGPU_SCALE must be an integer from 1 to 1000000; got 0");
  EXPECT_FALSE(settings.machine.count);
  EXPECT_EQ(settings_error({{"FLAMIA_VGPU_CHIP", "h100"}}, &settings),
            "settings: FLAMIA_VGPU_CHIP must be h200, b200 or b300; got h100");
  EXPECT_EQ(settings_error({{"FLAMIA_VGPU_SEED", "-1"}}, &settings),
            "settings: FLAMIA_VGPU_SEED must be an integer from 0 to 18446744073709551615; got -1");
  EXPECT_EQ(settings_error({{"FLAMIA_VGPU_RULES", "lax"}}, &settings),
            "settings: FLAMIA_VGPU_RULES must be lenient, public or strict; got lax");
  EXPECT_EQ(settings_error({{"FLAMIA_VGPU_SMS", "133"}}, &settings),
            "settings: FLAMIA_VGPU_SMS must be an integer from 1 to 132; got 133");
  EXPECT_EQ(settings_error({{"FLAMIA_VGPU_SMS", ""}}, &settings),
            "settings: FLAMIA_VGPU_SMS must be an integer from 1 to 132; got ");
}

TEST_F(CudartDevice, WrongSettingsFailEveryCallThatNeedsTheDevice) {
  setenv("FLAMIA_VGPU_CHIP", "h100", 1);
  Runtime::get().restart();
  unsetenv("FLAMIA_VGPU_CHIP");
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInitializationError);
  EXPECT_EQ(cudaFree(nullptr), cudaErrorInitializationError);
}

TEST_F(CudartDevice, ThereIsOneDevice) {
  int count = 0, device = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cudaGetDevice(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetDeviceCount(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
}

TEST_F(CudartDevice, AttributesCheckTheirArguments) {
  int value = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
            cudaSuccess);
  EXPECT_EQ(value, 232448);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(9999), 0),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(-1), 0),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 7), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDeviceGetAttribute(nullptr, cudaDevAttrWarpSize, 0), cudaErrorInvalidValue);
}

TEST_F(CudartDevice, PropertiesAgreeWithAttributes) {
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_STREQ(properties.name, "flamia virtual H200");
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(properties.sharedMemPerBlockOptin, 232448u);
  EXPECT_EQ(properties.multiProcessorCount, 8);
  EXPECT_EQ(properties.maxThreadsDim[2], 64);
  EXPECT_EQ(properties.clusterLaunch, 1);
  EXPECT_EQ(properties.managedMemory, 0);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 5), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetDeviceProperties(nullptr, 0), cudaErrorInvalidValue);
}

TEST(CudartChip, BlackwellChipsHaveTheirCapability) {
  MachineOptions options;
  options.chip = Chip::kB300;
  EXPECT_EQ(device_attribute(options, cudaDevAttrComputeCapabilityMajor), 10);
  EXPECT_EQ(device_attribute(options, cudaDevAttrComputeCapabilityMinor), 3);
  EXPECT_EQ(device_attribute(options, cudaDevAttrMaxSharedMemoryPerBlockOptin), 232448);
  EXPECT_EQ(chip_facts(Chip::kB200).target, "sm_100a");
}

TEST_F(CudartDevice, LimitsAndPreferencesAreKept) {
  size_t value = 0;
  cudaFuncCache preference;
  EXPECT_EQ(cudaDeviceGetLimit(&value, cudaLimitStackSize), cudaSuccess);
  EXPECT_EQ(value, 1024u);
  EXPECT_EQ(cudaDeviceSetLimit(cudaLimitStackSize, 4096), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetLimit(&value, cudaLimitStackSize), cudaSuccess);
  EXPECT_EQ(value, 4096u);
  EXPECT_EQ(cudaDeviceSetLimit(cudaLimitStackSize, size_t{1} << 40), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceSetLimit(static_cast<cudaLimit>(77), 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceGetLimit(&value, static_cast<cudaLimit>(-1)), cudaErrorInvalidValue);
  EXPECT_EQ(cudaDeviceGetLimit(&value, cudaLimitDevRuntimeSyncDepth), cudaErrorUnsupportedLimit);
  EXPECT_EQ(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetCacheConfig(&preference), cudaSuccess);
  EXPECT_EQ(preference, cudaFuncCachePreferL1);
  EXPECT_EQ(cudaDeviceSetCacheConfig(static_cast<cudaFuncCache>(9)), cudaErrorInvalidValue);
  EXPECT_EQ(cudaSetDeviceFlags(0xff00), cudaErrorInvalidValue);
  EXPECT_EQ(cudaSetDeviceFlags(cudaDeviceScheduleSpin), cudaSuccess);
}

TEST_F(CudartDevice, ResetTakesEverythingBack) {
  cudaStream_t stream = nullptr;
  void* pointer = nullptr;
  EXPECT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&pointer, 16), cudaSuccess);
  EXPECT_EQ(launch("plain", 1, 1), cudaSuccess);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaFree(pointer), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(launch("plain", 1, 1), cudaSuccess);
  EXPECT_EQ(fake_machine().loads, 2);
}

TEST_F(CudartError, LastErrorIsOfTheThreadAndIsReadOnce) {
  EXPECT_EQ(cudaMalloc(nullptr, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

/// Ends as a program does that does not look at the errors of its kernel.
void end_after_a_trap(const char* trap_exit, int code) {
  if (trap_exit != nullptr) setenv("FLAMIA_VGPU_TRAP_EXIT", trap_exit, 1);
  Runtime::get().restart();
  static_cast<void>(Runtime::get().break_device(cudaErrorLaunchFailure, ""));
  cudaDeviceReset();
  std::exit(code);
}

TEST_F(CudartError, IgnoredTrapIsInTheExitCode) {
  EXPECT_EXIT(end_after_a_trap("86", 0), testing::ExitedWithCode(86), "exit code 86");
  EXPECT_EXIT(end_after_a_trap("86", 3), testing::ExitedWithCode(3), "");
  EXPECT_EXIT(end_after_a_trap("0", 0), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(end_after_a_trap(nullptr, 0), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        setenv("FLAMIA_VGPU_TRAP_EXIT", "86", 1);
        Runtime::get().restart();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(CudartError, TrapStaysUntilTheProcessEnds) {
  make_trap("plain", "out of bounds");
  testing::internal::CaptureStderr();
  EXPECT_EQ(launch("plain", 1, 1), cudaErrorIllegalAddress);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "flamia vgpu: cudaLaunchKernel: kernel trapped\n");
  void* pointer = nullptr;
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMalloc(&pointer, 16), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  int value = 0;
  EXPECT_EQ(cudaGetDeviceCount(&value), cudaSuccess);
  EXPECT_EQ(cudaDriverGetVersion(&value), cudaSuccess);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&pointer, 16), cudaErrorDevicesUnavailable);
}

TEST_F(CudartError, TrapsHaveTheirCodes) {
  EXPECT_EQ(trap_error("misaligned"), cudaErrorMisalignedAddress);
  EXPECT_EQ(trap_error("use after free"), cudaErrorIllegalAddress);
  EXPECT_EQ(trap_error("assert"), cudaErrorAssert);
  EXPECT_EQ(trap_error("deadlock"), cudaErrorLaunchTimeout);
  EXPECT_EQ(trap_error("hazard"), cudaErrorLaunchFailure);
  EXPECT_EQ(trap_error("trap"), cudaErrorLaunchFailure);
}

TEST_F(CudartError, NamesAndTextsAreThoseOfTheCode) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
  EXPECT_STREQ(cudaGetErrorString(cudaSuccess), "no error");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

TEST_F(CudartError, PrintedTextGoesToStandardOutput) {
  fake_machine().kernels["plain"] = [](const GridRequest&, GridReport* report) {
    report->printed = "hello\n";
    return true;
  };
  testing::internal::CaptureStdout();
  EXPECT_EQ(launch("plain", 1, 1), cudaSuccess);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "hello\n");
}

TEST_F(CudartDevice, StatisticsSumTheLaunchesOfAKernel) {
  EXPECT_EQ(launch("plain", 1, 1), cudaSuccess);
  EXPECT_EQ(launch("plain", 1, 1), cudaSuccess);
  const std::string json = statistics_json(Runtime::get());
  EXPECT_NE(json.find("\"name\": \"plain\", \"launches\": 2, \"warp_instructions\": 4"),
            std::string::npos)
      << json;
}

TEST_F(CudartDevice, StatisticsHaveALaunchWithItsCounters) {
  fake_machine().kernels["plain"] = [](const GridRequest&, GridReport* report) {
    auto counters = std::make_shared<model::LaunchCounters>();
    counters->ctas = 6;
    counters->warps_per_cta = 1;
    counters->warps.resize(1);
    counters->warps[0][model::Counter::kWarpInstructions] = 7;
    report->counters = counters;
    return true;
  };
  EXPECT_EQ(launch("plain", dim3(3, 2, 1), 32), cudaSuccess);
  EXPECT_EQ(launch("bounded", 1, 32), cudaSuccess);  // reports none
  const auto json = nlohmann::json::parse(statistics_json(Runtime::get()));
  ASSERT_EQ(json["launches"].size(), 1u);
  const auto& one = json["launches"][0];
  EXPECT_EQ(one["kernel"], "plain");
  EXPECT_EQ(one["grid"], nlohmann::json({3, 2, 1}));
  EXPECT_EQ(one["block"], nlohmann::json({32, 1, 1}));
  EXPECT_EQ(one["ctas"], 6);
  EXPECT_EQ(one["counters"]["warp_instructions"], 7);
  EXPECT_EQ(json["scale"], 1);
  EXPECT_EQ(json["launches_left_out"], 0);
  EXPECT_NE(statistics_table(Runtime::get()).find("plain <<<3x2x1, 32x1x1>>>"), std::string::npos);
}

TEST_F(CudartDriver, EntryPointsFollowNameAndVersion) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result;
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                             cudaEnableDefault, &result),
            cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointSuccess);
  EXPECT_NE(function, nullptr);
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 11000,
                                             cudaEnableDefault, &result),
            cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointVersionNotSufficent);
  EXPECT_EQ(function, nullptr);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, 12000, cudaEnableDefault,
                                             &result),
            cudaSuccess);
  EXPECT_EQ(result, cudaDriverEntryPointSymbolNotFound);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("cuNoSuchThing"), std::string::npos);
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuInit", &function, 12000, 99, &result),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetDriverEntryPointByVersion(nullptr, &function, 12000, 0, &result),
            cudaErrorInvalidValue);
}

TEST_F(CudartDriver, TensorMapsAreEncodedOrRefused) {
  CUtensorMap map;
  CUdeviceptr address = 0;
  ASSERT_EQ(cuMemAlloc(&address, 4096), CUDA_SUCCESS);
  const cuuint64_t dims[] = {32, 16}, strides[] = {64};
  const cuuint32_t box[] = {32, 8}, steps[] = {1, 1};
  const auto encode = [&](cuuint32_t rank) {
    return cuTensorMapEncodeTiled(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, reinterpret_cast<void*>(address), dims,
        strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_64B,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  EXPECT_EQ(encode(2), CUDA_SUCCESS);
  EXPECT_EQ(cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(address + 1024)), CUDA_SUCCESS);
  EXPECT_EQ(encode(9), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CudartDriver, MemoryIsFilledByWords) {
  CUdeviceptr address = 0;
  ASSERT_EQ(cuMemAlloc(&address, 64), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32Async(address, 0x01020304, 16, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32Async(address, 1, 17, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32Async(address + 1, 1, 4, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD32Async(address, 1, SIZE_MAX, nullptr), CUDA_ERROR_INVALID_VALUE);
  uint32_t words[16] = {};
  EXPECT_EQ(cuMemcpyDtoH(words, address, 64), CUDA_SUCCESS);
  EXPECT_EQ(words[15], 0x01020304u);
  EXPECT_EQ(cuMemFree(address), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudartDriver, ModulesAreLoadedFromText) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr address = 0;
  size_t bytes = 0;
  ASSERT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleGetFunction(&function, module, "nothing"), CUDA_ERROR_NOT_FOUND);
  ASSERT_EQ(cuModuleGetFunction(&function, module, "wide"), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleGetGlobal(&address, &bytes, module, "counter"), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 4u);
  uint64_t block[2] = {5, 6};
  size_t size = sizeof(block);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra), CUDA_SUCCESS);
  EXPECT_EQ(fake_machine().launches.at(0).parameters.at(8), 6);
  size = 3;
  EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuModuleLoadData(&module, "not PTX"), CUDA_ERROR_INVALID_PTX);
}

}  // namespace
}  // namespace flamia::emulator::cudart
