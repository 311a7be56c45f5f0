// The buffer lists of the CPU passes.
#include "cpu/buffers.h"

#include "base/bits.h"
#include "cpu/path_operands.h"
#include "problem/mask.h"

namespace flamia::cpu {
namespace {

TileScratch* carve_workers(const Plan& plan, Pass pass, Arena& arena) {
  auto* workers = arena.take<TileScratch>(plan.threads);
  for (int32_t w = 0; w < plan.threads; ++w) {
    TileScratch scratch;
    const auto tile = [&] { return arena.take<float>(kTileFloats); };
    scratch.q = tile();
    scratch.k = tile();
    scratch.v = tile();
    scratch.s = tile();
    scratch.p = tile();
    scratch.product = tile();
    scratch.first = tile();
    if (pass == Pass::kBackward) {
      scratch.q_grad = tile();
      scratch.k_grad = tile();
      scratch.v_grad = tile();
      scratch.d_o = tile();
      scratch.d_o_keys = tile();
      scratch.ds = tile();
      scratch.operand = tile();
      scratch.second = tile();
    }
    if (plan.conventions.accumulate == Accumulate::kHardware) {
      scratch.hardware.a = tile();
      scratch.hardware.b = tile();
      scratch.hardware.exponent_b = arena.take<int>(kTileFloats);
    }
    if (workers != nullptr) workers[w] = scratch;
  }
  return workers;
}

}  // namespace

int backward_query_tile(const Conventions& conventions) {
  return conventions.family == Family::kHopper ? kHopperBackwardQueryTile
                                               : kBlackwellBackwardQueryTile;
}

int64_t backward_query_tiles(const Plan& plan) {
  const Problem& problem = plan.problem;
  // Every document may end in a partial tile; empty documents have none.
  return problem.query_tokens / backward_query_tile(plan.conventions) +
         smaller<int64_t>(problem.documents, problem.query_tokens) + 1;
}

ForwardBuffers carve_forward(const Plan& plan, const ForwardTensors& tensors, Arena& arena) {
  const Problem& p = plan.problem;
  const Conventions& c = plan.conventions;
  ForwardBuffers b;
  b.q = make_operand(operand_spec(c, Use::kQueryScore), tensors.q, p.query_tokens, p.heads,
                     p.head_dim, arena);
  b.k = make_operand(operand_spec(c, Use::kKeyScore), tensors.k, p.key_tokens, p.kv_heads,
                     p.head_dim, arena);
  const QuantizeSpec value = operand_spec(c, Use::kValue);
  const QuantizeSpec diagonal = operand_spec(c, Use::kValueDiagonal);
  b.v = make_operand(value, tensors.v, p.key_tokens, p.kv_heads, p.head_dim, arena);
  b.v_diagonal = value == diagonal ? b.v
                                   : make_operand(diagonal, tensors.v, p.key_tokens, p.kv_heads,
                                                  p.head_dim, arena);
  b.workers = carve_workers(plan, Pass::kForward, arena);
  return b;
}

BackwardBuffers carve_backward(const Plan& plan, const BackwardTensors& tensors, Arena& arena) {
  const Problem& p = plan.problem;
  const Conventions& c = plan.conventions;
  BackwardBuffers b;
  const auto queries = [&](Use use, const TensorView& source) {
    return make_operand(operand_spec(c, use), source, p.query_tokens, p.heads, p.head_dim, arena);
  };
  const auto keys = [&](Use use, const TensorView& source) {
    return make_operand(operand_spec(c, use), source, p.key_tokens, p.kv_heads, p.head_dim, arena);
  };
  const auto same = [&](Use one, Use other) {
    return operand_spec(c, one) == operand_spec(c, other);
  };
  b.q = queries(Use::kQueryScore, tensors.q);
  b.k = keys(Use::kKeyScore, tensors.k);
  b.v_grad = keys(Use::kValueGrad, tensors.v);
  b.d_o = queries(Use::kOutputGrad, tensors.d_o);
  b.d_o_keys = same(Use::kOutputGradKeys, Use::kOutputGrad)
                   ? b.d_o
                   : queries(Use::kOutputGradKeys, tensors.d_o);
  b.q_grad = same(Use::kQueryGrad, Use::kQueryScore) ? b.q : queries(Use::kQueryGrad, tensors.q);
  b.k_grad = same(Use::kKeyGrad, Use::kKeyScore) ? b.k : keys(Use::kKeyGrad, tensors.k);
  if (c.path == Path::kAll4Bit) {
    b.v = keys(Use::kValue, tensors.v);
    b.v_diagonal =
        same(Use::kValue, Use::kValueDiagonal) ? b.v : keys(Use::kValueDiagonal, tensors.v);
  }
  const int64_t query_rows = p.heads * p.query_tokens;
  const int64_t key_rows = p.kv_heads * p.key_tokens;
  b.delta = arena.take<float>(query_rows);
  b.do_norm = arena.take<float>(query_rows);
  b.v_norm = arena.take<float>(key_rows);
  b.k_magnitude = arena.take<float>(key_rows);
  b.dq_exponent = arena.take<int16_t>(query_rows);
  if (c.dq_accumulate == DqAccumulate::kFp16) {
    b.dq16 = arena.take<uint16_t>(query_rows * p.head_dim);
  } else {
    b.dq32 = arena.take<float>(query_rows * p.head_dim);
  }
  b.ds_sum = arena.take<float>(query_rows);
  b.ds_magnitude = arena.take<float>(query_rows);
  b.turn = arena.take<int32_t>(p.heads * backward_query_tiles(plan));
  b.workers = carve_workers(plan, Pass::kBackward, arena);
  return b;
}

}  // namespace flamia::cpu
