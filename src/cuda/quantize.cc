// The quantizer's grid from capacities alone: nothing about lengths is read on the host.
#include "cuda/quantize.h"

#include <cstdint>

#include "base/bits.h"
#include "base/refusals.h"
#include "cuda/launch.h"

namespace flamia::cuda {

namespace {

constexpr const char* kFunction = "launch_quantize";
constexpr int64_t kMaxGridY = 65535;

/// A CTA does several heads one after the other, loading the next while it encodes one, as far as
/// that leaves enough CTAs to keep the end of the launch short.
constexpr int64_t kMostHeadsOfCta = 4;
constexpr int64_t kWantedCtas = 12000;

/// x: shares of the heads, y: blocks of a head, z: tensors times runs of y blocks
/// (kernels/shared/quantize.cuh).
dim3 quantize_grid(const QuantizeArgs& args) {
  int32_t heads = 1;
  int64_t blocks = 1;
  for (int32_t i = 0; i < args.count; ++i) {
    heads = larger(heads, args.tensors[i].input.heads);
    blocks = larger(blocks, args.tensors[i].output.blocks);
  }
  const int64_t y = smaller(blocks, kMaxGridY);
  const int64_t heads_of_cta =
      larger<int64_t>(1, smaller(kMostHeadsOfCta, blocks * heads * args.count / kWantedCtas));
  return {static_cast<unsigned>(ceil_div<int64_t>(heads, heads_of_cta)), static_cast<unsigned>(y),
          static_cast<unsigned>(ceil_div(blocks, y) * args.count)};
}

Status check(const QuantizeArgs& args, int head_dim) {
  if (head_dim != 64 && head_dim != 128) {
    return invalid_argument(kFunction, "head_dim", "be 64 or 128", concat(head_dim));
  }
  if (args.count < 1 || args.count > 3) {
    return invalid_argument(kFunction, "count", "be 1 to 3", concat(args.count));
  }
  for (int32_t i = 0; i < args.count; ++i) {
    const QuantizeTensor& tensor = args.tensors[i];
    if (tensor.form == QuantizeForm::kBf16 && tensor.hadamard != 0) {
      return invalid_argument(kFunction, "hadamard", "be 0 in form bf16", concat(tensor.hadamard));
    }
  }
  return {};
}

}  // namespace

const KernelInfo& quantize_kernel(const QuantizeArgs& args, int head_dim) {
  bool forms = false;
  for (int32_t i = 0; i < args.count; ++i) {
    forms = forms || args.tensors[i].form != QuantizeForm::kE4m3;
  }
  if (forms) return head_dim == 128 ? kQuantizeFormsD128 : kQuantizeFormsD64;
  return head_dim == 128 ? kQuantizeD128 : kQuantizeD64;
}

Status launch_quantize(const QuantizeArgs& args, int head_dim, void* stream) {
  if (Status status = check(args, head_dim); !status.ok()) return status;
  const KernelInfo& kernel = quantize_kernel(args, head_dim);
  return launch(kFunction, kernel, {quantize_grid(args), kernel.shared_bytes, false}, &args,
                stream);
}

}  // namespace flamia::cuda
