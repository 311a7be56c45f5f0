// Table 3 of P-Cast, and the kernels of this library.

#include "pcast/known_kernels.h"

#include "numerics/p_hat.h"

namespace flamia::pcast {

namespace {

constexpr KnownKernel kKernels[] = {
    {"FlashAttention-3/4", {KeyOrder::kReverse, 256.0f}, "optimal"},
    {"hpc-ops", {KeyOrder::kForward, 256.0f}, "optimal"},
    {"hpc-ops, prior", {KeyOrder::kForward, 1.0f}, "baseline"},
    {"FlashInfer", {KeyOrder::kReverse, kE4m3Max}, "near-optimal"},
    {"TensorRT-LLM XQA", {KeyOrder::kForward, kE4m3Max}, "suboptimal scale"},
    {"SageAttention2", {KeyOrder::kForward, kE4m3Max}, "suboptimal scale"},
    {"flamia, Hopper",
     {KeyOrder::kReverse, kHopperPHat.multiplier, 128, kHopperPHat.tau, true},
     "row sum from the cast P"},
    {"flamia, Blackwell MXFP8",
     {KeyOrder::kReverse, kBlackwellPHat.multiplier, 128, kBlackwellPHat.tau, true},
     "row sum from the cast P, maximum renewed beyond tau"},
};

}  // namespace

std::span<const KnownKernel> known_kernels() { return kKernels; }

const char* order_name(KeyOrder order) {
  return order == KeyOrder::kForward ? "forward" : "reverse";
}

}  // namespace flamia::pcast
