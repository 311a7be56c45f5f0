// The CPU Backend: the reference for every path and option.
// Used by: api (through backend/backend.h).
#include "backend/backend.h"

#include <cstring>
#include <string>
#include <vector>

#include "cpu/backward.h"
#include "cpu/buffers.h"
#include "cpu/forward.h"
#include "cpu/path_operands.h"
#include "cpu/quantize.h"
#include "numerics/token_block_scale.h"

namespace flamia {
namespace {

using namespace cpu;

/// Bytes of one (token, head) in a [T, H, ...] or, if batched, [B, L, H, ...] tensor.
uint8_t* byte_row(const TensorView& view, bool batched, int64_t token, int head) {
  auto* base = static_cast<uint8_t*>(view.data);
  if (!batched) return base + token * view.stride[0] + head * view.stride[1];
  const int64_t length = view.shape[1];
  return base + token / length * view.stride[0] + token % length * view.stride[1] +
         head * view.stride[2];
}

/// Copies one representation to the caller's strided tensors.
void export_operand(const Operand& operand, const QuantizedTensors& output) {
  const bool batched = output.codes.rank == 4;
  const int columns = operand.scale_columns();
  for (int head = 0; head < operand.heads; ++head) {
    for (int64_t token = 0; token < operand.tokens; ++token) {
      const int64_t at = head * operand.tokens + token;
      std::memcpy(byte_row(output.codes, batched, token, head), operand.codes + at * operand.dim,
                  static_cast<size_t>(operand.dim));
      if (output.exp.data != nullptr && operand.exp != nullptr) {
        std::memcpy(byte_row(output.exp, batched, token, head), operand.exp + at, 1);
      }
      if (output.scales.data != nullptr && columns > 0) {
        std::memcpy(byte_row(output.scales, batched, token, head), operand.scales + at * columns,
                    static_cast<size_t>(columns));
      }
    }
  }
}

class CpuBackend final : public Backend {
 public:
  size_t workspace_bytes(const Plan& plan, Pass pass) const override {
    Arena arena(nullptr);
    if (pass == Pass::kForward) {
      (void)carve_forward(plan, ForwardTensors{}, arena);
    } else {
      (void)carve_backward(plan, BackwardTensors{}, arena);
    }
    return arena.used();
  }

  Status forward(const Plan& plan, const ForwardTensors& tensors, Workspace workspace, void*,
                 PassStatistics* statistics) const override {
    if (!cpu_backend_available()) return unavailable("attention_forward");
    cpu::forward(plan, tensors, workspace, statistics);
    return {};
  }

  Status backward(const Plan& plan, const BackwardTensors& tensors, Workspace workspace, void*,
                  PassStatistics* statistics) const override {
    if (!cpu_backend_available()) return unavailable("attention_backward");
    cpu::backward(plan, tensors, workspace, statistics);
    return {};
  }

  Status quantize(const Plan& plan, const TensorView& input, const TensorView& cu_seqlens,
                  Role role, ContractionAxis axis, const QuantizedTensors& output) const override {
    if (!cpu_backend_available()) return unavailable("quantize");
    const bool queries = role == Role::kQ || role == Role::kDo;
    const Problem& problem = plan.problem;
    const int64_t tokens = queries ? problem.query_tokens : problem.key_tokens;
    const int heads = queries ? problem.heads : problem.kv_heads;
    const QuantizeSpec spec = operand_spec(plan.conventions, use_of(role, axis));
    // A tool, not a training call: the copy in the backend's own layout is allocated here.
    Arena measure(nullptr);
    (void)make_operand(spec, input, tokens, heads, problem.head_dim, measure);
    std::vector<uint8_t> storage(measure.used() + 64, 0);
    Arena arena(storage.data());
    const Operand operand = make_operand(spec, input, tokens, heads, problem.head_dim, arena);
    if (operand.exp != nullptr) {
      for (int64_t x = 0; x < heads * tokens; ++x) operand.exp[x] = kNoScaleExponent;
    }
    const PackedLayout layout(problem, cu_seqlens, cu_seqlens);
    quantize_operand(operand, token_ranges(layout, queries ? Side::kQueries : Side::kKeys),
                     plan.threads);
    export_operand(operand, output);
    return {};
  }

 private:
  static Status unavailable(const char* function) {
    return {StatusCode::kUnsupported,
            std::string(function) +
                ": backend must be supported by this processor; got cpu (it needs AVX2 and "
                "FMA, x86-64-v3)"};
  }
};

}  // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

bool cpu_backend_available() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}

}  // namespace flamia
