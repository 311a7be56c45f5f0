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

/// Rows that belong to no document: codes and scales 0, no scale exponent.
void clear_rows(const Operand& operand, int64_t first, int64_t end) {
  for (int64_t token = first; token < end; ++token) {
    for (int head = 0; head < operand.heads; ++head) {
      std::memset(operand.code_rows.at(head, token), 0, static_cast<size_t>(operand.dim));
      if (operand.has_exp()) {
        *reinterpret_cast<int8_t*>(operand.exp_rows.at(head, token)) = kNoScaleExponent;
      }
      if (operand.scale_columns() > 0) {
        std::memset(operand.scale_rows.at(head, token), 0,
                    static_cast<size_t>(operand.scale_columns()));
      }
    }
  }
}

class CpuBackend final : public Backend {
 public:
  std::string kernels(const Plan&, Pass) const override { return "cpu: tiled reference"; }

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

  size_t quantize_workspace_bytes(const Plan&) const override { return 0; }

  Status quantize(const Plan& plan, const TensorView& input, const TensorView& cu_seqlens,
                  Role role, ContractionAxis axis, const QuantizedTensors& output, Workspace,
                  void*) const override {
    if (!cpu_backend_available()) return unavailable("quantize");
    const bool queries = role == Role::kQ || role == Role::kDo;
    const Problem& problem = plan.problem;
    const int64_t tokens = queries ? problem.query_tokens : problem.key_tokens;
    const int heads = queries ? problem.heads : problem.kv_heads;
    const QuantizeSpec spec = operand_spec(plan.conventions, use_of(role, axis));
    Operand operand;
    operand.spec = spec;
    operand.heads = heads;
    operand.dim = problem.head_dim;
    operand.tokens = tokens;
    operand.source = input;
    operand.code_rows = {output.codes, output.codes.rank == 4};
    operand.exp_rows = {output.exp, output.exp.rank == 3};
    operand.scale_rows = {output.scales, output.scales.rank == 4};
    const PackedLayout layout(problem, cu_seqlens, cu_seqlens);
    const std::vector<TokenRange> ranges =
        token_ranges(layout, queries ? Side::kQueries : Side::kKeys);
    quantize_operand(operand, ranges, plan.threads);
    const int64_t owned_begin = ranges.empty() ? tokens : ranges.front().first;
    const int64_t owned_end = ranges.empty() ? tokens : ranges.back().first + ranges.back().count;
    clear_rows(operand, 0, owned_begin);
    clear_rows(operand, owned_end, tokens);
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
