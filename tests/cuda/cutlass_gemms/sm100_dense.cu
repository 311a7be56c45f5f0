// FP8 and BF16 GEMMs of sm_100a, on one SM and on pairs, with TMA multicast and the scheduler that
// asks for more work by cluster launch control.
#include "gemm_case.h"

using namespace cutlass_gemms;
using Sm100 = cutlass::arch::Sm100;
using TensorOp = cutlass::arch::OpClassTensorOp;

using Fp8Pairs = GemmCase<Sm100, TensorOp, cutlass::float_e4m3_t, cutlass::float_e4m3_t,
                          Shape<Int<256>, Int<128>, Int<128>>, Shape<Int<2>, Int<2>, Int<1>>,
                          cutlass::gemm::KernelTmaWarpSpecialized2SmSm100,
                          cutlass::epilogue::TmaWarpSpecialized2Sm, 23, 32>;
using Bf16Single = GemmCase<Sm100, TensorOp, cutlass::bfloat16_t, cutlass::bfloat16_t,
                            Shape<Int<128>, Int<128>, Int<64>>, Shape<Int<1>, Int<1>, Int<1>>,
                            cutlass::gemm::KernelTmaWarpSpecialized1SmSm100,
                            cutlass::epilogue::TmaWarpSpecialized1Sm, 23, 16>;

int main(int argc, char** argv) {
  run_case<Fp8Pairs>("sm_100a FP8, 2 SMs", 512, 256, 256, argc, argv);
  run_case<Fp8Pairs>("sm_100a FP8, 2 SMs", 280, 140, 208, argc, argv);
  run_case<Bf16Single>("sm_100a BF16, 1 SM", 200, 264, 136, argc, argv);
  std::printf("passed\n");
  return 0;
}
