// Registration, launches and kernels of the runtime half, through its C symbols. The codes expected
// for wrong calls are those that the CUDA 13.0 runtime gave on an H200.
#include <gtest/gtest.h>

#include "tests/emulator/cudart_support.h"

namespace flamia::emulator::cudart {
namespace {

using CudartRegistration = CudartTest;
using CudartLaunch = CudartTest;
using CudartFunction = CudartTest;

TEST_F(CudartRegistration, ModuleIsLoadedOnceAtTheFirstLaunch) {
  EXPECT_EQ(fake_machine().loads, 0);
  EXPECT_EQ(__cudaInitModule(module_), 1);
  EXPECT_EQ(launch("plain", 1, 1), cudaSuccess);
  EXPECT_EQ(launch("bounded", 1, 1), cudaSuccess);
  EXPECT_EQ(fake_machine().loads, 1);
  ASSERT_EQ(fake_machine().launches.size(), 2u);
}

TEST_F(CudartRegistration, UnknownHandlesAreIgnoredLoudly) {
  void* bogus = nullptr;
  testing::internal::CaptureStderr();
  __cudaRegisterFatBinaryEnd(&bogus);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("__cudaRegisterFatBinaryEnd"),
            std::string::npos);
  EXPECT_EQ(__cudaInitModule(&bogus), 0);
}

TEST_F(CudartRegistration, UnregisteredKernelsAreGone) {
  __cudaUnregisterFatBinary(module_);
  EXPECT_EQ(launch("plain", 1, 1), cudaErrorInvalidResourceHandle);
}

TEST_F(CudartRegistration, KernelMissingFromThePtxIsNoDeviceFunction) {
  EXPECT_EQ(launch("absent", 1, 1), cudaErrorInvalidDeviceFunction);
}

TEST_F(CudartRegistration, OtherChipHasNoKernelImage) {
  setenv("FLAMIA_VGPU_CHIP", "b200", 1);
  Runtime::get().restart();
  unsetenv("FLAMIA_VGPU_CHIP");
  struct {
    uint32_t magic = 0x466243b1, version = 1;
    const void* container;
    const void* prelinked = nullptr;
  } wrapper;
  const std::string container = container_of(kPtx, 90);
  wrapper.container = container.data();
  void** module = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(module, static_cast<const char*>(host("plain")), nullptr, "plain", -1,
                         nullptr, nullptr, nullptr, nullptr, nullptr);
  EXPECT_EQ(launch("plain", 1, 1), cudaErrorNoKernelImageForDevice);
  EXPECT_EQ(launch("plain", 1, 1), cudaErrorNoKernelImageForDevice);
}

TEST_F(CudartLaunch, CopiesParametersAsTheKernelLaysThemOut) {
  uint32_t a = 0x01020304;
  uint64_t b = 0x1122334455667788;
  void* arguments[] = {&a, &b};
  EXPECT_EQ(cudaLaunchKernel(host("wide"), 3, dim3(4, 5, 6), arguments, 100, nullptr), cudaSuccess);
  const GridRequest& request = fake_machine().launches.at(0);
  EXPECT_EQ(request.grid.x, 3u);
  EXPECT_EQ(request.block.z, 6u);
  EXPECT_EQ(request.dynamic_shared_bytes, 100u);
  ASSERT_EQ(request.parameters.size(), 16u);
  EXPECT_EQ(std::memcmp(request.parameters.data(), &a, 4), 0);
  EXPECT_EQ(std::memcmp(request.parameters.data() + 8, &b, 8), 0);
}

TEST_F(CudartLaunch, ConfigurationIsPoppedAsItWasPushed) {
  EXPECT_EQ(__cudaPushCallConfiguration(2, 32, 16, cudaStreamPerThread), 0u);
  dim3 grid, block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
  EXPECT_EQ(grid.x, 2u);
  EXPECT_EQ(shared, 16u);
  EXPECT_EQ(stream, cudaStreamPerThread);
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream),
            cudaErrorMissingConfiguration);
}

TEST_F(CudartLaunch, KernelHandleLaunchesToo) {
  cudaKernel_t kernel = nullptr;
  EXPECT_EQ(__cudaGetKernel(&kernel, host("plain")), cudaSuccess);
  void* arguments[] = {&argument_};
  EXPECT_EQ(__cudaLaunchKernel(kernel, 1, 1, arguments, 0, nullptr), cudaSuccess);
  EXPECT_EQ(__cudaGetKernel(&kernel, &argument_), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(kernel, nullptr);
}

TEST_F(CudartLaunch, WrongFunctionsHaveTheCodesOfHardware) {
  void* arguments[] = {&argument_};
  EXPECT_EQ(cudaLaunchKernel(nullptr, 1, 1, arguments, 0, nullptr), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaLaunchKernel(&argument_, 1, 1, arguments, 0, nullptr),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaLaunchKernel(host("plain"), 1, 1, nullptr, 0, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaLaunchKernelExC(nullptr, host("plain"), arguments), cudaErrorInvalidValue);
}

TEST_F(CudartLaunch, WrongSizesAreInvalidValues) {
  for (const dim3 grid : {dim3(0), dim3(1, 65536), dim3(1, 1, 65536), dim3(0x80000000u)}) {
    EXPECT_EQ(launch("plain", grid, 1), cudaErrorInvalidValue);
  }
  for (const dim3 block : {dim3(0), dim3(1025), dim3(1, 1, 65), dim3(32, 64),
                           dim3(0xffffffffu, 0xffffffffu, 0xffffffffu)}) {
    EXPECT_EQ(launch("plain", 1, block), cudaErrorInvalidValue);
  }
  EXPECT_EQ(launch("bounded", 1, 129), cudaErrorInvalidValue);
  EXPECT_TRUE(fake_machine().launches.empty());
}

TEST_F(CudartLaunch, DynamicSharedMemoryEndsWhereTheStaticPartLeavesIt) {
  EXPECT_EQ(launch("plain", 1, 1, 49152), cudaSuccess);
  EXPECT_EQ(launch("plain", 1, 1, 49153), cudaErrorInvalidValue);
  EXPECT_EQ(launch("fixed", 1, 1, 49152 - 4096), cudaSuccess);
  EXPECT_EQ(launch("fixed", 1, 1, 49152 - 4095), cudaErrorInvalidValue);
  EXPECT_EQ(launch("plain", 1, 1, size_t{1} << 40), cudaErrorInvalidValue);
}

TEST_F(CudartLaunch, ClustersMustFitGridKernelAndChip) {
  EXPECT_EQ(launch_cluster("plain", 4, 32, 2), cudaSuccess);
  EXPECT_EQ(fake_machine().launches.at(0).cluster.x, 2u);
  EXPECT_EQ(launch_cluster("plain", 3, 32, 2), cudaErrorInvalidClusterSize);
  EXPECT_EQ(launch_cluster("plain", 16, 32, 16), cudaErrorInvalidClusterSize);
  EXPECT_EQ(launch_cluster("plain", 32, 32, dim3(0, 1, 1)), cudaErrorInvalidClusterSize);
  EXPECT_EQ(launch_cluster("clustered", 8, 32, 4), cudaErrorInvalidClusterSize);
  EXPECT_EQ(launch_cluster("clustered", 8, 32, 2), cudaSuccess);
  EXPECT_EQ(launch("clustered", 3, 32), cudaErrorInvalidClusterSize);
  EXPECT_EQ(launch("clustered", 2, 32), cudaSuccess);
  EXPECT_EQ(fake_machine().launches.back().cluster.x, 2u);
  EXPECT_EQ(cudaFuncSetAttribute(host("plain"), cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
            cudaSuccess);
  EXPECT_EQ(launch_cluster("plain", 16, 32, 16), cudaSuccess);
  EXPECT_EQ(launch_cluster("plain", 32, 32, 32), cudaErrorInvalidClusterSize);
  EXPECT_EQ(launch_cluster("plain", 65536, 32, dim3(65536, 65535, 65535)),
            cudaErrorInvalidClusterSize);
}

TEST_F(CudartLaunch, AttributesWithoutMeaningAreRefusedByName) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeMemSyncDomain;
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  void* arguments[] = {&argument_};
  testing::internal::CaptureStderr();
  EXPECT_EQ(cudaLaunchKernelExC(&config, host("plain"), arguments), cudaErrorNotSupported);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "flamia vgpu: cudaLaunchKernelExC: launch attributes must be those of the virtual GPU; "
            "got cudaLaunchAttributeMemSyncDomain (10)\n");
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  EXPECT_EQ(cudaLaunchKernelExC(&config, host("plain"), arguments), cudaSuccess);
  config.attrs = nullptr;
  EXPECT_EQ(cudaLaunchKernelExC(&config, host("plain"), arguments), cudaErrorInvalidValue);
}

TEST_F(CudartLaunch, CooperativeGridMustBeResident) {
  void* arguments[] = {&argument_};
  EXPECT_EQ(cudaLaunchCooperativeKernel(host("plain"), 8, 1024, arguments, 0, nullptr),
            cudaSuccess);
  EXPECT_EQ(cudaLaunchCooperativeKernel(host("plain"), 100000, 1024, arguments, 0, nullptr),
            cudaErrorCooperativeLaunchTooLarge);
}

TEST_F(CudartLaunch, RefusalOfTheMachineIsTheLaunchsError) {
  fake_machine().check = Status(StatusCode::kUnsupported, "check: no such thing");
  EXPECT_EQ(launch("plain", 1, 1), cudaErrorNotSupported);
  EXPECT_TRUE(fake_machine().launches.empty());
}

TEST_F(CudartFunction, AttributesAreThoseOfThePtx) {
  cudaFuncAttributes attributes;
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, host("fixed")), cudaSuccess);
  EXPECT_EQ(attributes.sharedSizeBytes, 4096u);
  EXPECT_EQ(attributes.constSizeBytes, 16u);
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, 45056);
  EXPECT_EQ(attributes.ptxVersion, 90);
  EXPECT_EQ(attributes.preferredShmemCarveout, -1);
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, host("bounded")), cudaSuccess);
  EXPECT_EQ(attributes.maxThreadsPerBlock, 128);
  ASSERT_EQ(cudaFuncGetAttributes(&attributes, host("clustered")), cudaSuccess);
  EXPECT_EQ(attributes.clusterDimMustBeSet, 1);
  EXPECT_EQ(attributes.requiredClusterWidth, 2);
  EXPECT_EQ(cudaFuncGetAttributes(nullptr, host("plain")), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, &argument_), cudaErrorInvalidResourceHandle);
}

TEST_F(CudartFunction, SettingAnAttributeChecksItsRange) {
  constexpr auto kShared = cudaFuncAttributeMaxDynamicSharedMemorySize;
  EXPECT_EQ(cudaFuncSetAttribute(host("plain"), kShared, 232448), cudaSuccess);
  EXPECT_EQ(launch("plain", 1, 1, 232448), cudaSuccess);
  EXPECT_EQ(cudaFuncSetAttribute(host("plain"), kShared, 232449), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(host("fixed"), kShared, 232448), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(host("plain"), kShared, -1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(host("plain"), static_cast<cudaFuncAttribute>(99), 1),
            cudaErrorInvalidValue);
  constexpr auto kCarveout = cudaFuncAttributePreferredSharedMemoryCarveout;
  EXPECT_EQ(cudaFuncSetAttribute(host("plain"), kCarveout, 101), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(host("plain"), kCarveout, -1), cudaSuccess);
}

TEST_F(CudartFunction, NameIsThatOfTheEntry) {
  const char* name = nullptr;
  EXPECT_EQ(cudaFuncGetName(&name, host("wide")), cudaSuccess);
  EXPECT_STREQ(name, "wide");
}

TEST_F(CudartFunction, OccupancyFollowsThreadsAndSharedMemory) {
  const auto blocks = [](int threads, size_t shared) {
    int count = -1;
    EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, host("plain"), threads, shared),
              cudaSuccess);
    return count;
  };
  // As on an H200.
  EXPECT_EQ(blocks(32, 0), 32);
  EXPECT_EQ(blocks(128, 0), 16);
  EXPECT_EQ(blocks(1024, 100000), 2);
  EXPECT_EQ(blocks(32, 232448), 1);
  EXPECT_EQ(blocks(32, 300000), 0);
  EXPECT_EQ(blocks(2048, 0), 0);
  int count = -1;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, host("plain"), 0, 0),
            cudaErrorInvalidValue);
  size_t bytes = 0;
  EXPECT_EQ(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, host("plain"), 2, 128), cudaSuccess);
  EXPECT_EQ(bytes, 116736u);
}

TEST_F(CudartFunction, ClustersThatFitAreCounted) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 2;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = 64;
  config.blockDim = 1024;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int count = -1;
  EXPECT_EQ(cudaOccupancyMaxActiveClusters(&count, host("plain"), &config), cudaSuccess);
  EXPECT_EQ(count, 8 * 2 / 2);  // 8 SMs of two blocks each
  EXPECT_EQ(cudaOccupancyMaxPotentialClusterSize(&count, host("plain"), &config), cudaSuccess);
  EXPECT_EQ(count, 8);
  attribute.val.clusterDim.x = 16;
  EXPECT_EQ(cudaOccupancyMaxActiveClusters(&count, host("plain"), &config),
            cudaErrorInvalidClusterSize);
  EXPECT_EQ(cudaOccupancyMaxActiveClusters(&count, host("plain"), nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace flamia::emulator::cudart
