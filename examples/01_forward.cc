// Forward and backward of two packed documents through the C++ API.
// Build: see examples/CMakeLists.txt, or link against flamia::flamia.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "flamia/attention.h"

namespace {

flamia::TensorView packed(void* data, int64_t tokens, int64_t heads, int64_t dim) {
  return {data, flamia::DType::kBF16, 3, {tokens, heads, dim}, {heads * dim, dim, 1}};
}

void check(const flamia::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

/// Memory at a multiple of 64 bytes, as a workspace must be.
flamia::Workspace allocate(size_t bytes) {
  return {std::aligned_alloc(64, (bytes + 63) / 64 * 64), bytes};
}

}  // namespace

int main() {
  constexpr int64_t kTokens = 300, kHeads = 4, kKvHeads = 2, kDim = 128;
  // BF16 tensors; 0x3f80 is 1.0, so O must be 1.0 as well.
  std::vector<uint16_t> q(kTokens * kHeads * kDim, 0x3c00), k(kTokens * kKvHeads * kDim, 0x3c00);
  std::vector<uint16_t> v(k.size(), 0x3f80), o(q.size()), residual(q.size()), d_o(q.size(), 0x3f80);
  std::vector<uint16_t> dq(q.size()), dk(k.size()), dv(v.size());
  std::vector<float> lse(kHeads * kTokens);
  std::vector<int32_t> cu_seqlens = {0, 120, 300};

  flamia::Options options;                      // MXFP8
  options.backend = flamia::BackendKind::kCpu;  // takes tensors in host memory
  options.mask.kind = flamia::MaskKind::kCausal;
  flamia::ForwardTensors t;
  t.q = packed(q.data(), kTokens, kHeads, kDim);
  t.k = packed(k.data(), kTokens, kKvHeads, kDim);
  t.v = packed(v.data(), kTokens, kKvHeads, kDim);
  t.o = packed(o.data(), kTokens, kHeads, kDim);
  t.o_residual = packed(residual.data(), kTokens, kHeads, kDim);
  t.lse = {lse.data(), flamia::DType::kF32, 2, {kHeads, kTokens}, {kTokens, 1}};
  t.cu_seqlens_q = {cu_seqlens.data(), flamia::DType::kI32, 1, {3}, {1}};

  flamia::Problem problem;
  flamia::Conventions conventions;  // what the backward must repeat
  size_t bytes = 0;
  check(flamia::problem_from_tensors(t, &problem));
  check(flamia::workspace_size(problem, options, flamia::Pass::kForward, &bytes));
  flamia::Workspace workspace = allocate(bytes);
  check(flamia::attention_forward(problem, options, t, workspace, nullptr, &conventions));
  std::free(workspace.data);

  flamia::BackwardTensors b;
  b.q = t.q, b.k = t.k, b.v = t.v, b.o = t.o, b.o_residual = t.o_residual, b.lse = t.lse;
  b.cu_seqlens_q = t.cu_seqlens_q;
  b.d_o = packed(d_o.data(), kTokens, kHeads, kDim);
  b.dq = packed(dq.data(), kTokens, kHeads, kDim);
  b.dk = packed(dk.data(), kTokens, kKvHeads, kDim);
  b.dv = packed(dv.data(), kTokens, kKvHeads, kDim);
  check(flamia::workspace_size(problem, options, flamia::Pass::kBackward, &bytes));
  workspace = allocate(bytes);
  check(flamia::attention_backward(problem, conventions, b, workspace, nullptr));
  std::free(workspace.data);
  std::printf("O[0] = 0x%04x (1.0 is 0x3f80), LSE[0] = %f\n", static_cast<unsigned>(o[0]),
              static_cast<double>(lse[0]));
  return o[0] == 0x3f80 ? 0 : 1;
}
