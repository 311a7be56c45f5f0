// Streams, events, capture and graphs of the runtime half, through its C symbols. The codes
// expected for wrong calls are those that the CUDA 13.0 runtime gave on an H200.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "tests/emulator/cudart_support.h"

namespace flamia::emulator::cudart {
namespace {

class CudartStream : public CudartTest {
 protected:
  void SetUp() override {
    CudartTest::SetUp();
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamCreate(&other_), cudaSuccess);
    ASSERT_EQ(cudaEventCreate(&event_), cudaSuccess);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device_), 256), cudaSuccess);
  }
  cudaStream_t stream_ = nullptr;
  cudaStream_t other_ = nullptr;
  cudaEvent_t event_ = nullptr;
  uint8_t* device_ = nullptr;
};

class CudartCapture : public CudartStream {
 protected:
  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
  }
  cudaError_t end() { return cudaStreamEndCapture(stream_, &graph_); }
  /// A call in the middle of a capture has `error`; it ends the capture unless that is success.
  void expect_in_capture(const std::function<cudaError_t()>& call, cudaError_t error,
                         bool survives) {
    begin();
    EXPECT_EQ(call(), error);
    cudaStreamCaptureStatus status;
    EXPECT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
    EXPECT_EQ(status,
              survives ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusInvalidated);
    EXPECT_EQ(end(), survives ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
  }
  void replay(int times) {
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph_, 0), cudaSuccess);
    for (int i = 0; i < times; ++i) EXPECT_EQ(cudaGraphLaunch(executable, other_), cudaSuccess);
    EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  }
  cudaGraph_t graph_ = nullptr;
};

using CudartGraph = CudartCapture;

TEST_F(CudartStream, WrongHandlesAndFlagsHaveTheCodesOfHardware) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreate(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, 9), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(cudaStreamLegacy), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(launch("plain", 1, 1, 0, stream_), cudaErrorInvalidResourceHandle);
}

TEST_F(CudartStream, PrioritiesAreClamped) {
  cudaStream_t stream = nullptr;
  int priority = 1, least = 1, greatest = 1;
  EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -99), cudaSuccess);
  EXPECT_EQ(cudaStreamGetPriority(stream, &priority), cudaSuccess);
  EXPECT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
  EXPECT_EQ(priority, greatest);
  EXPECT_EQ(least, 0);
  EXPECT_EQ(greatest, -5);
  unsigned int flags = 0;
  EXPECT_EQ(cudaStreamGetFlags(stream, &flags), cudaSuccess);
  EXPECT_EQ(flags, unsigned{cudaStreamNonBlocking});
}

TEST_F(CudartStream, IdentitiesDiffer) {
  unsigned long long first = 0, second = 0;
  EXPECT_EQ(cudaStreamGetId(stream_, &first), cudaSuccess);
  EXPECT_EQ(cudaStreamGetId(cudaStreamPerThread, &second), cudaSuccess);
  EXPECT_NE(first, second);
}

TEST_F(CudartStream, HostFunctionsRunInOrderAndMayNotCallTheRuntime) {
  static cudaError_t inner;
  inner = cudaSuccess;
  EXPECT_EQ(
      cudaLaunchHostFunc(
          stream_, [](void* data) { inner = cudaMalloc(static_cast<void**>(data), 4); }, &device_),
      cudaSuccess);
  EXPECT_EQ(inner, cudaErrorNotPermitted);
  EXPECT_EQ(cudaLaunchHostFunc(stream_, nullptr, nullptr), cudaErrorInvalidValue);
}

TEST_F(CudartStream, CallbacksSeeTheirStream) {
  static cudaStream_t seen;
  EXPECT_EQ(
      cudaStreamAddCallback(
          stream_, [](cudaStream_t stream, cudaError_t, void*) { seen = stream; }, nullptr, 0),
      cudaSuccess);
  EXPECT_EQ(seen, stream_);
  EXPECT_EQ(cudaStreamAddCallback(stream_, nullptr, nullptr, 0), cudaErrorInvalidValue);
}

TEST_F(CudartStream, EventsMeasureTimeBetweenThem) {
  cudaEvent_t end = nullptr;
  float milliseconds = -1;
  EXPECT_EQ(cudaEventCreate(&end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event_, end), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  EXPECT_EQ(launch("plain", 1, 1, 0, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(end, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event_, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(nullptr, event_, end), cudaErrorInvalidValue);
}

TEST_F(CudartStream, WrongEventsHaveTheCodesOfHardware) {
  cudaEvent_t untimed = nullptr;
  float milliseconds = 0;
  EXPECT_EQ(cudaEventCreate(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventCreateWithFlags(&untimed, 0xff), cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(untimed, nullptr), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, untimed, untimed), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(nullptr, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventQuery(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, nullptr, 0), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event_, 7), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event_, 0), cudaSuccess);
}

TEST_F(CudartCapture, WorkIsRecordedAndNotRun) {
  begin();
  EXPECT_EQ(launch("plain", 1, 1, 0, stream_), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(device_, 5, 16, stream_), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(device_ + 64, device_, 16, cudaMemcpyDeviceToDevice, stream_),
            cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
  EXPECT_TRUE(fake_machine().launches.empty());
  replay(2);
  EXPECT_EQ(fake_machine().launches.size(), 2u);
  EXPECT_EQ(device_[64], 5);
}

TEST_F(CudartCapture, ParametersAreThoseOfTheCapture) {
  begin();
  argument_ = 11;
  EXPECT_EQ(launch("plain", 1, 1, 0, stream_), cudaSuccess);
  argument_ = 12;
  EXPECT_EQ(end(), cudaSuccess);
  replay(1);
  EXPECT_EQ(fake_machine().launches.at(0).parameters.at(0), 11);
}

TEST_F(CudartCapture, CallsThatCannotBeCapturedEndIt) {
  void* pointer = nullptr;
  cudaEvent_t recorded = event_;
  uint32_t value = 0;
  expect_in_capture([&] { return cudaStreamSynchronize(stream_); },
                    cudaErrorStreamCaptureUnsupported, false);
  expect_in_capture([&] { return cudaStreamQuery(stream_); }, cudaErrorStreamCaptureUnsupported,
                    false);
  expect_in_capture([&] { return cudaDeviceSynchronize(); }, cudaErrorStreamCaptureUnsupported,
                    false);
  expect_in_capture([&] { return cudaMalloc(&pointer, 16); }, cudaErrorStreamCaptureUnsupported,
                    false);
  expect_in_capture([&] { return cudaFree(nullptr); }, cudaErrorStreamCaptureUnsupported, false);
  expect_in_capture([&] { return cudaMallocHost(&pointer, 16); }, cudaErrorStreamCaptureUnsupported,
                    false);
  expect_in_capture([&] { return cudaEventQuery(recorded); }, cudaErrorStreamCaptureUnsupported,
                    false);
  expect_in_capture([&] { return cudaMemcpy(device_, &value, 4, cudaMemcpyHostToDevice); },
                    cudaErrorStreamCaptureImplicit, false);
  expect_in_capture([&] { return cudaMemset(device_, 0, 4); }, cudaErrorStreamCaptureImplicit,
                    false);
  expect_in_capture([&] { return launch("plain", 1, 1); }, cudaErrorStreamCaptureImplicit, false);
  expect_in_capture([&] { return cudaStreamSynchronize(nullptr); }, cudaErrorStreamCaptureImplicit,
                    false);
  expect_in_capture([&] { return cudaEventRecord(event_, nullptr); },
                    cudaErrorStreamCaptureImplicit, false);
  expect_in_capture(
      [&] {
        return cudaStreamAddCallback(
            stream_, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0);
      },
      cudaErrorStreamCaptureUnsupported, false);
}

TEST_F(CudartCapture, CallsThatTouchNoStreamAreAllowed) {
  cudaEvent_t event = nullptr;
  cudaStream_t stream = nullptr;
  size_t bytes = 0;
  expect_in_capture([&] { return cudaEventCreate(&event); }, cudaSuccess, true);
  expect_in_capture([&] { return cudaStreamCreate(&stream); }, cudaSuccess, true);
  expect_in_capture([&] { return cudaMemGetInfo(&bytes, &bytes); }, cudaSuccess, true);
  expect_in_capture([&] { return cudaStreamDestroy(other_); }, cudaSuccess, true);
  expect_in_capture([&] { return cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal); },
                    cudaErrorIllegalState, true);
  expect_in_capture([&] { return cudaEventRecord(event_, stream_); }, cudaSuccess, true);
}

TEST_F(CudartCapture, NonBlockingStreamsLeaveTheLegacyStreamFree) {
  cudaStream_t origin = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&origin, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(cudaMemset(device_, 0, 4), cudaSuccess);
  EXPECT_EQ(launch("plain", 1, 1), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(device_, 0, 4, other_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(other_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(origin, &graph_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(origin, &graph_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(CudartCapture, BeginAndEndCheckTheirArguments) {
  EXPECT_EQ(end(), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamBeginCapture(stream_, static_cast<cudaStreamCaptureMode>(7)),
            cudaErrorInvalidValue);
}

TEST_F(CudartCapture, OtherThreadsMayAllocateInThreadLocalMode) {
  begin(cudaStreamCaptureModeThreadLocal);
  cudaError_t allocated = cudaErrorUnknown, ended = cudaErrorUnknown;
  std::thread([&] {
    void* pointer = nullptr;
    allocated = cudaMalloc(&pointer, 16);
    ended = end();
  }).join();
  EXPECT_EQ(allocated, cudaSuccess);
  EXPECT_EQ(ended, cudaErrorStreamCaptureWrongThread);
  EXPECT_EQ(end(), cudaErrorIllegalState);
}

TEST_F(CudartCapture, RelaxedModeAllowsAllocations) {
  void* pointer = nullptr;
  begin(cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaMalloc(&pointer, 16), cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  begin();
  EXPECT_EQ(cudaMalloc(&pointer, 16), cudaSuccess);
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(end(), cudaSuccess);
}

TEST_F(CudartCapture, ForkedStreamsMustJoin) {
  begin();
  EXPECT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaSuccess);
  EXPECT_EQ(launch("plain", 1, 1, 0, other_), cudaSuccess);
  EXPECT_EQ(end(), cudaErrorStreamCaptureUnjoined);
  cudaStreamCaptureStatus status;
  EXPECT_EQ(cudaStreamIsCapturing(other_, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
}

TEST_F(CudartCapture, ForkAndJoinMakeTheEdges) {
  cudaEvent_t joined = nullptr;
  ASSERT_EQ(cudaEventCreate(&joined), cudaSuccess);
  begin();
  EXPECT_EQ(launch("plain", 1, 1, 0, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaSuccess);
  EXPECT_EQ(launch("plain", 2, 1, 0, other_), cudaSuccess);
  EXPECT_EQ(launch("plain", 3, 1, 0, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(joined, other_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, joined, 0), cudaSuccess);
  EXPECT_EQ(launch("plain", 4, 1, 0, stream_), cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
  size_t nodes = 0, edges = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph_, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(cudaGraphGetEdges(graph_, nullptr, nullptr, nullptr, &edges), cudaSuccess);
  EXPECT_EQ(nodes, 4u);
  EXPECT_EQ(edges, 4u);
  replay(1);
  EXPECT_EQ(fake_machine().launches.back().grid.x, 4u);
}

TEST_F(CudartCapture, EventsOfACaptureCannotBeWaitedFor) {
  begin();
  EXPECT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorCapturedEvent);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamWaitEvent(nullptr, event_, 0), cudaErrorInvalidValue);
}

TEST_F(CudartCapture, EndOnAJoinedStreamIsUnmatched) {
  begin();
  EXPECT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other_, event_, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(other_, &graph_), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
}

TEST_F(CudartCapture, DestroyedStreamsLeaveNoTrace) {
  begin();
  EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  void* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, 16), cudaSuccess);
}

TEST_F(CudartGraph, NodesRunInTheOrderOfTheirEdges) {
  static std::string order;
  order.clear();
  const auto host_node = [&](const char* letter) {
    cudaHostNodeParams parameters = {};
    parameters.fn = [](void* data) { order += static_cast<const char*>(data); };
    parameters.userData = const_cast<char*>(letter);
    cudaGraphNode_t node = nullptr;
    EXPECT_EQ(cudaGraphAddHostNode(&node, graph_, nullptr, 0, &parameters), cudaSuccess);
    return node;
  };
  ASSERT_EQ(cudaGraphCreate(&graph_, 0), cudaSuccess);
  const cudaGraphNode_t a = host_node("a"), b = host_node("b"), c = host_node("c");
  EXPECT_EQ(cudaGraphAddDependencies(graph_, &c, &b, nullptr, 1), cudaSuccess);
  EXPECT_EQ(cudaGraphAddDependencies(graph_, &b, &a, nullptr, 1), cudaSuccess);
  EXPECT_EQ(cudaGraphAddDependencies(graph_, &b, &a, nullptr, 1), cudaErrorInvalidValue);
  replay(1);
  EXPECT_EQ(order, "cba");
  EXPECT_EQ(cudaGraphAddDependencies(graph_, &a, &c, nullptr, 1), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&executable, graph_, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphDestroy(graph_), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph_), cudaErrorInvalidValue);
}

TEST_F(CudartGraph, StepsOfAnExecutableCanBeChanged) {
  ASSERT_EQ(cudaGraphCreate(&graph_, 0), cudaSuccess);
  cudaKernelNodeParams parameters = {};
  void* arguments[] = {&argument_};
  argument_ = 1;
  parameters.func = const_cast<void*>(host("plain"));
  parameters.gridDim = parameters.blockDim = 1;
  parameters.kernelParams = arguments;
  cudaGraphNode_t node = nullptr, copy = nullptr;
  EXPECT_EQ(cudaGraphAddKernelNode(&node, graph_, nullptr, 0, &parameters), cudaSuccess);
  EXPECT_EQ(cudaGraphAddMemcpyNode1D(&copy, graph_, &node, 1, device_, device_ + 64, 16,
                                     cudaMemcpyDeviceToDevice),
            cudaSuccess);
  cudaGraphNodeType type;
  EXPECT_EQ(cudaGraphNodeGetType(copy, &type), cudaSuccess);
  EXPECT_EQ(type, cudaGraphNodeTypeMemcpy);
  cudaGraphExec_t executable = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&executable, graph_, 0), cudaSuccess);
  argument_ = 2;
  EXPECT_EQ(cudaGraphExecKernelNodeSetParams(executable, node, &parameters), cudaSuccess);
  EXPECT_EQ(cudaGraphExecKernelNodeSetParams(executable, copy, &parameters), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
  EXPECT_EQ(fake_machine().launches.at(0).parameters.at(0), 2);
  cudaGraphExecUpdateResultInfo info;
  EXPECT_EQ(cudaGraphExecUpdate(executable, graph_, &info), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
  EXPECT_EQ(fake_machine().launches.at(1).parameters.at(0), 1);
}

TEST_F(CudartGraph, WrongHandlesAreInvalidValues) {
  cudaGraphExec_t executable = nullptr;
  cudaGraph_t clone = nullptr;
  EXPECT_EQ(cudaGraphLaunch(nullptr, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphInstantiate(&executable, nullptr, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphDestroy(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphExecDestroy(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphClone(&clone, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphCreate(nullptr, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphDestroyNode(nullptr), cudaErrorInvalidValue);
}

TEST_F(CudartGraph, GraphsCanBeCapturedIntoGraphs) {
  begin();
  EXPECT_EQ(launch("plain", 1, 1, 0, stream_), cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
  cudaGraphExec_t inner = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&inner, graph_, 0), cudaSuccess);
  begin();
  EXPECT_EQ(cudaGraphLaunch(inner, stream_), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(inner, stream_), cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(inner), cudaSuccess);
  replay(1);
  EXPECT_EQ(fake_machine().launches.size(), 2u);
}

}  // namespace
}  // namespace flamia::emulator::cudart
