// FP8 and BF16 GEMMs of sm_90a: TMA multicast in a cluster, cooperative and ping-pong consumers.
#include "gemm_case.h"

using namespace cutlass_gemms;
using Sm90 = cutlass::arch::Sm90;
using TensorOp = cutlass::arch::OpClassTensorOp;

using Fp8Cooperative = GemmCase<Sm90, TensorOp, cutlass::float_e4m3_t, cutlass::float_e5m2_t,
                                Shape<Int<128>, Int<128>, Int<128>>, Shape<Int<2>, Int<1>, Int<1>>,
                                cutlass::gemm::KernelTmaWarpSpecializedCooperativeFP8FastAccum,
                                cutlass::epilogue::TmaWarpSpecializedCooperative, 13, 32>;
using Bf16PingPong = GemmCase<Sm90, TensorOp, cutlass::bfloat16_t, cutlass::bfloat16_t,
                              Shape<Int<64>, Int<128>, Int<64>>, Shape<Int<1>, Int<2>, Int<1>>,
                              cutlass::gemm::KernelTmaWarpSpecializedPingpong,
                              cutlass::epilogue::TmaWarpSpecialized, 24, 16>;

int main(int argc, char** argv) {
  run_case<Fp8Cooperative>("sm_90a FP8 cooperative", 256, 256, 512, argc, argv);
  run_case<Fp8Cooperative>("sm_90a FP8 cooperative", 200, 136, 208, argc, argv);
  run_case<Bf16PingPong>("sm_90a BF16 ping-pong", 192, 264, 136, argc, argv);
  std::printf("passed\n");
  return 0;
}
