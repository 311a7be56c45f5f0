// What planning makes of a device, and of the one that is there.
#include "cuda/device.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace flamia::cuda {
namespace {

TEST(MachineOf, KnowsTheFamiliesByComputeCapability) {
  EXPECT_EQ(machine_of({"NVIDIA H200", 9, 0, 132}).gpu, BackendKind::kHopper);
  EXPECT_EQ(machine_of({"NVIDIA H200", 9, 0, 132}).no_hopper, "");
  const Machine blackwell = machine_of({"NVIDIA B200", 10, 0, 148});
  EXPECT_EQ(blackwell.gpu, BackendKind::kBlackwell);
  EXPECT_EQ(blackwell.no_hopper,
            "the current GPU is NVIDIA B200 of compute capability 10.0, not 9.0");
  const Machine ampere = machine_of({"NVIDIA A100", 8, 0, 108});
  EXPECT_EQ(ampere.gpu, BackendKind::kCpu);
  EXPECT_EQ(ampere.no_hopper, "the current GPU is NVIDIA A100 of compute capability 8.0, not 9.0");
}

TEST(CurrentDevice, IsTheOneThatTheRuntimeNames) {
  Device device;
  ASSERT_EQ(current_device("f", &device).message(), "");
  int multiprocessors = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
            cudaSuccess);
  EXPECT_EQ(device.multiprocessors, multiprocessors);
  EXPECT_EQ(device.major, 9);
  EXPECT_EQ(current_machine().gpu, BackendKind::kHopper);
  EXPECT_EQ(current_machine().no_hopper, "");
}

}  // namespace
}  // namespace flamia::cuda
