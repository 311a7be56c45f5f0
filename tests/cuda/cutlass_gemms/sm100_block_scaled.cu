// Block-scaled GEMMs of sm_100a: NVFP4 on pairs with TMA multicast, MXFP8 on one SM.
#include "gemm_case.h"

using namespace cutlass_gemms;
using Sm100 = cutlass::arch::Sm100;
using ScaledOp = cutlass::arch::OpClassBlockScaledTensorOp;
using Nvfp4 = cutlass::nv_float4_t<cutlass::float_e2m1_t>;
using Mxfp8 = cutlass::mx_float8_t<cutlass::float_e4m3_t>;

using Nvfp4Pairs =
    GemmCase<Sm100, ScaledOp, Nvfp4, Nvfp4, Shape<Int<256>, Int<128>, Int<256>>,
             Shape<Int<2>, Int<2>, Int<1>>, cutlass::gemm::KernelTmaWarpSpecialized2SmNvf4Sm100,
             cutlass::epilogue::TmaWarpSpecialized2Sm, 23, 64>;
using Nvfp4Single =
    GemmCase<Sm100, ScaledOp, Nvfp4, Nvfp4, Shape<Int<128>, Int<128>, Int<256>>,
             Shape<Int<1>, Int<1>, Int<1>>, cutlass::gemm::KernelTmaWarpSpecialized1SmNvf4Sm100,
             cutlass::epilogue::TmaWarpSpecialized1Sm, 23, 64>;
using Mxfp8Pairs =
    GemmCase<Sm100, ScaledOp, Mxfp8, Mxfp8, Shape<Int<256>, Int<128>, Int<128>>,
             Shape<Int<2>, Int<1>, Int<1>>, cutlass::gemm::KernelTmaWarpSpecialized2SmMxf8f6f4Sm100,
             cutlass::epilogue::TmaWarpSpecialized2Sm, 23, 32>;
using Mxfp8Single =
    GemmCase<Sm100, ScaledOp, Mxfp8, Mxfp8, Shape<Int<128>, Int<128>, Int<128>>,
             Shape<Int<1>, Int<2>, Int<1>>, cutlass::gemm::KernelTmaWarpSpecialized1SmMxf8f6f4Sm100,
             cutlass::epilogue::TmaWarpSpecialized1Sm, 23, 32>;

int main(int argc, char** argv) {
  run_case<Nvfp4Pairs>("sm_100a NVFP4, 2 SMs", 512, 256, 512, argc, argv);
  run_case<Nvfp4Pairs>("sm_100a NVFP4, 2 SMs", 280, 140, 416, argc, argv);
  run_case<Nvfp4Single>("sm_100a NVFP4, 1 SM", 200, 264, 352, argc, argv);
  run_case<Mxfp8Pairs>("sm_100a MXFP8, 2 SMs", 280, 140, 208, argc, argv);
  run_case<Mxfp8Single>("sm_100a MXFP8, 1 SM", 200, 264, 272, argc, argv);
  std::printf("passed\n");
  return 0;
}
