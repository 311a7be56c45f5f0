// Captures two streams that fork and join, and replays the graph.
#include "check.h"

static int host_calls = 0;

__global__ void append(int* list, int value) {
  list[0] += 1;
  list[list[0]] = value;
}

int main() {
  int* list = nullptr;
  int* pinned = nullptr;
  EXPECT_OK(cudaMalloc(&list, 64 * sizeof(int)));
  EXPECT_OK(cudaMallocHost(&pinned, 64 * sizeof(int)));
  cudaStream_t first, second;
  EXPECT_OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  EXPECT_OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  cudaEvent_t fork, join;
  EXPECT_OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  EXPECT_OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));

  EXPECT_OK(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  EXPECT_OK(cudaMemsetAsync(list, 0, 64 * sizeof(int), first));
  append<<<1, 1, 0, first>>>(list, 5);
  EXPECT_OK(cudaEventRecord(fork, first));
  EXPECT_OK(cudaStreamWaitEvent(second, fork, 0));
  append<<<1, 1, 0, second>>>(list, 6);
  EXPECT_OK(cudaEventRecord(join, second));
  EXPECT_OK(cudaStreamWaitEvent(first, join, 0));
  append<<<1, 1, 0, first>>>(list, 7);
  EXPECT_OK(cudaMemcpyAsync(pinned, list, 64 * sizeof(int), cudaMemcpyDeviceToHost, first));
  EXPECT_OK(cudaLaunchHostFunc(
      first, [](void*) { ++host_calls; }, nullptr));
  cudaGraph_t graph;
  EXPECT_OK(cudaStreamEndCapture(first, &graph));
  EXPECT(host_calls == 0);

  cudaGraphExec_t executable;
  EXPECT_OK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 1; i <= 3; ++i) {
    EXPECT_OK(cudaGraphLaunch(executable, first));
    EXPECT_OK(cudaStreamSynchronize(first));
    EXPECT(host_calls == i);
    EXPECT(pinned[0] == 3 && pinned[1] == 5 && pinned[2] == 6 && pinned[3] == 7);
  }
  EXPECT_OK(cudaGraphExecDestroy(executable));
  EXPECT_OK(cudaGraphDestroy(graph));
  std::printf("passed\n");
}
