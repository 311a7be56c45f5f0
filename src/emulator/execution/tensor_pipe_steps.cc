// The tensor pipe: tcgen05.mma, cp, shift and commit.
// Depends on: tensor/mma.h and tensor/tensor_copy.h, which define the results; jobs.h.
// What one CTA issues completes in order; when, is up to the adversary.
#include <algorithm>

#include "base/message.h"
#include "emulator/execution/counting.h"
#include "emulator/execution/tensor_operands.h"

namespace flamia::emulator::execution {
namespace {

using ptx::Operand;
using ptx::OperandKind;

/// The CTAs of an instruction: the own one, or the pair with the even one first.
std::vector<Cta*> sides_of(Warp& warp, uint32_t cta_group) {
  Cluster& cluster = *warp.cta->cluster;
  if (cta_group == 1) return {warp.cta};
  const uint32_t even = warp.cta->rank & ~1u;
  if (even + 1 >= cluster.ctas.size() || cluster.shared[even] == nullptr ||
      cluster.shared[even + 1] == nullptr) {
    stop(fault_kind_name(FaultKind::kBadOperand), "cta_group::2 needs both CTAs of the pair");
  }
  return {cluster.ctas[even].get(), cluster.ctas[even + 1].get()};
}

/// A commit that follows a commit waits for nothing more: what made the first arrive makes it
/// arrive. By strict rules each may be late.
void issue_to_pipe(Warp& warp, std::unique_ptr<ActionJob> job, bool commits = false) {
  job->queue = reinterpret_cast<uint64_t>(warp.cta);
  job->joins = commits && warp.cta->committed && warp.grid().options->rules != Rules::kStrict;
  warp.cta->committed = commits;
  warp.grid().issue(std::move(job));
}

void touch(ActionJob& job, const std::vector<Cta*>& sides, const MmaTouches& touches) {
  if (!job.ordered) return;
  const Actor actor = OrderClocks::actor_of(job.work);
  for (size_t s = 0; s < sides.size(); ++s) {
    for (const uint32_t offset : touches.shared[s]) {
      note_shared(*sides[s]->cluster, actor, map_shared(offset, sides[s]->rank), 16, false);
    }
  }
  for (const TensorTouch& t : touches.tensor) {
    for (uint32_t lane = t.lane; lane < t.lane + t.lanes; ++lane) {
      note_tensor(*sides[t.side], actor, lane, t.column, t.columns, t.write);
    }
  }
}

void fill_sides(const ActionJob& job, const std::vector<Cta*>& ctas, TensorSide sides[2]) {
  for (size_t s = 0; s < ctas.size(); ++s) {
    job.require_running(*ctas[s]);
    sides[s] = {ctas[s]->shared.get(), &memory_of(*ctas[s]), ctas[s]->serial};
  }
}

void count_mma(Warp& warp, const TensorMma& op) {
  if (recorder_of(warp) == nullptr) return;
  InstructionDescriptor descriptor;
  require(decode_instruction(op.idesc, op.form, &descriptor));
  recorder_of(warp)->tensor_mma(warp.index, op.form, descriptor);
}

void issue_mma(Warp& warp, const Step& step, uint32_t lane) {
  const TensorDetail& d = tensor_detail(step);
  TensorMma op;
  op.form = d.form;
  op.idesc = static_cast<uint32_t>(warp.read(d.idesc)[lane]);
  op.d_address = tensor_value(warp, d.address, lane);
  if (d.form.a_in_tensor_memory) {
    op.a_address = tensor_value(warp, d.a_address, lane);
  } else {
    op.a_descriptor = warp.read(d.a)[lane];
  }
  op.b_descriptor = warp.read(d.b)[lane];
  if (d.scaled) {
    op.sfa_address = tensor_value(warp, d.sfa, lane);
    op.sfb_address = tensor_value(warp, d.sfb, lane);
  }
  uint32_t accumulate = read_predicate(warp, d.accumulate);
  if (d.negated) accumulate = ~accumulate;
  op.accumulate = (accumulate >> lane & 1u) != 0;
  op.d_shift = d.d_shift;
  op.mode = warp.grid().options->numerics == Numerics::kExact ? NumericMode::kExact
                                                              : NumericMode::kHardware;
  std::array<uint32_t, 8> disabled{};
  for (size_t i = 0; i < d.disabled.size(); ++i) {
    disabled[i] = static_cast<uint32_t>(warp.read(d.disabled[i])[lane]);
  }
  const bool masked = !d.disabled.empty();
  const std::vector<Cta*> ctas = sides_of(warp, d.cta_group);
  issue_to_pipe(warp, make_job(warp, step, lane, AccessKind::kTensorMma, [=](ActionJob& job) {
                  TensorMma now = op;
                  if (masked) now.disabled_lanes = disabled.data();
                  TensorSide sides[2];
                  fill_sides(job, ctas, sides);
                  MmaTouches touches;
                  require_initialized(job.warp->grid(), tensor_mma(now, sides, &touches), job.lane);
                  touch(job, ctas, touches);
                  count_mma(*job.warp, now);
                }));
}

void issue_copy(Warp& warp, const Step& step, uint32_t lane) {
  const TensorDetail& d = tensor_detail(step);
  const uint32_t address = tensor_value(warp, d.address, lane);
  const uint64_t descriptor = warp.read(d.a)[lane];
  const std::vector<Cta*> ctas = sides_of(warp, d.cta_group);
  const TensorDetail* const detail = &d;
  issue_to_pipe(warp, make_job(warp, step, lane, AccessKind::kTensorCopy, [=](ActionJob& job) {
                  TensorSide sides[2];
                  fill_sides(job, ctas, sides);
                  MmaTouches touches;
                  for (uint32_t s = 0; s < ctas.size(); ++s) {
                    require_initialized(job.warp->grid(),
                                        tensor_copy(detail->copy_shape, detail->copy_format,
                                                    descriptor, address, sides[s], s, &touches),
                                        job.lane);
                  }
                  touch(job, ctas, touches);
                }));
}

void issue_shift(Warp& warp, const Step& step, uint32_t lane) {
  const TensorDetail& d = tensor_detail(step);
  const uint32_t address = tensor_value(warp, d.address, lane);
  const std::vector<Cta*> ctas = sides_of(warp, d.cta_group);
  issue_to_pipe(warp, make_job(warp, step, lane, AccessKind::kTensorShift, [=](ActionJob& job) {
                  for (Cta* const cta : ctas) {
                    require_initialized(job.warp->grid(),
                                        memory_of(*cta).shift_down(cta->serial, address), job.lane);
                  }
                }));
}

void issue_commit(Warp& warp, const Step& step, uint32_t lane) {
  const TensorDetail& d = tensor_detail(step);
  Cluster& cluster = *warp.cta->cluster;
  const uint64_t address =
      warp.read(d.address.base)[lane] + static_cast<uint64_t>(d.address.offset);
  uint32_t offset = 0;
  Cta* const own = &barrier_owner(warp, lane, d.space, address, &offset);
  std::vector<Cta*> owners;
  if (d.has_multicast) {
    const uint32_t mask = static_cast<uint32_t>(warp.read(d.multicast)[lane]) & 0xffffu;
    each_lane(mask, [&](uint32_t rank) {
      if (rank >= cluster.ctas.size()) {
        stop(fault_kind_name(FaultKind::kBadOperand), "the mask names a CTA beyond the cluster",
             lane);
      }
      owners.push_back(cluster.ctas[rank].get());
    });
  } else {
    owners.push_back(own);
  }
  // What the arrival will carry is decided now, not when it happens.
  Epoch epoch;
  SyncClock carried;
  if (OrderClocks* const clocks = clocks_of(warp); clocks != nullptr) {
    epoch = clocks->pipe_epoch(warp.global);
    clocks->release(warp.global, &carried);
  }
  auto job = std::make_unique<ActionJob>();
  job->warp = &warp;
  job->lane = lane;
  job->step = &step;
  job->code = &warp.code();
  job->action = [=](ActionJob& self) {
    for (Cta* const owner : owners) {
      self.require_running(*owner);
      OrderClocks* const clocks = owner->cluster->clocks.get();
      SyncClock* const clock = owner->mbarriers->open_clock(offset);
      if (clocks != nullptr && clock != nullptr) {
        clocks->publish(epoch, clock);
        OrderClocks::merge(carried, clock);
      }
      require(owner->mbarriers->arrive(offset, 1).fault, self.lane);
    }
  };
  issue_to_pipe(warp, std::move(job), true);
}

template <void (*kIssue)(Warp&, const Step&, uint32_t)>
Outcome pipe_lanes(Warp& warp, const Step& step, uint32_t active) {
  memory_of(*warp.cta);
  check_group(warp, step);
  each_lane(active, [&](uint32_t i) { kIssue(warp, step, i); });
  return Outcome::kNext;
}

void take_kind(Decoder& d, TensorDetail* detail) {
  const int kind =
      d.take_one({Modifier::kKindF16, Modifier::kKindTf32, Modifier::kKindF8f6f4,
                  Modifier::kKindMxf8f6f4, Modifier::kKindMxf4, Modifier::kKindMxf4nvf4});
  if (kind < 0) d.refuse("the kind is not handled");
  detail->form.kind = static_cast<TensorKind>(kind);
  detail->form.cta_group = detail->cta_group;
  detail->form.sm103 = d.module.module.target.find("103") != std::string::npos;
  detail->scaled = d.take(Modifier::kBlockScale);
  const int block = d.take_one({Modifier::kBlock16, Modifier::kBlock32, Modifier::kScaleVec1X,
                                Modifier::kScaleVec2X, Modifier::kScaleVec4X});
  if (block >= 0) detail->form.scale_block = block == 0 || block == 4 ? 16 : 32;
  d.accept({Modifier::kCollectorAFill, Modifier::kCollectorAUse, Modifier::kCollectorALastuse,
            Modifier::kCollectorADiscard});
}

void decode_mma(Decoder& d) {
  TensorDetail* const detail = make_tensor_detail(d);
  take_kind(d, detail);
  uint32_t place = 0;
  detail->address = tensor_operand(d, d.operand(place++));
  const Operand& a = d.operand(place++);
  detail->form.a_in_tensor_memory = a.kind == OperandKind::kAddress;
  if (detail->form.a_in_tensor_memory) {
    detail->a_address = tensor_operand(d, a);
  } else {
    detail->a = d.source(a, ScalarType::kB64);
  }
  detail->b = d.source(place++, ScalarType::kB64);
  detail->idesc = d.source(place++, ScalarType::kB32);
  if (detail->scaled) {
    detail->sfa = tensor_operand(d, d.operand(place++));
    detail->sfb = tensor_operand(d, d.operand(place++));
  } else if (d.operand(place).kind == OperandKind::kVector) {
    for (const Operand& e : d.elements(d.operand(place++))) {
      detail->disabled.push_back(d.source(e, ScalarType::kB32));
    }
    if (detail->disabled.size() != 4 * detail->cta_group) d.refuse("the lane mask is too short");
  }
  Operand accumulate = d.operand(place++);
  detail->negated = accumulate.negated;
  accumulate.negated = false;
  detail->accumulate = d.source(accumulate, ScalarType::kPred);
  if (place < d.operand_count()) {
    const int64_t shift = d.operand(place++).value;
    if (shift < 0 || shift > 15) d.refuse("scale-input-d must be 0 to 15");
    detail->d_shift = static_cast<uint32_t>(shift);
  }
  if (place != d.operand_count()) d.refuse("the operands do not fit the form");
  d.step.run = pipe_lanes<issue_mma>;
}

void decode_copy(Decoder& d) {
  TensorDetail* const detail = make_tensor_detail(d);
  const int shape = d.take_one({Modifier::k128x256b, Modifier::k4x256b, Modifier::k128x128b,
                                Modifier::k64x128b, Modifier::k32x128b});
  const bool pairs_02 = d.take(Modifier::kWarpx20213), pairs_01 = d.take(Modifier::kWarpx20123);
  const bool all = d.take(Modifier::kWarpx4);
  if (shape < 0 || (shape == 3 && !pairs_02 && !pairs_01) || (shape == 4 && !all)) {
    d.refuse("the shape is not handled");
  }
  detail->copy_shape = shape == 4   ? TensorCopyShape::k32x128bWarpx4
                       : shape == 3 ? (pairs_02 ? TensorCopyShape::k64x128bWarpx2_02_13
                                                : TensorCopyShape::k64x128bWarpx2_01_23)
                                    : static_cast<TensorCopyShape>(shape);
  if (d.in.type(1) == ScalarType::kB4x16P64) detail->copy_format = TensorCopyFormat::kB4x16P64;
  if (d.in.type(1) == ScalarType::kB6x16P32) detail->copy_format = TensorCopyFormat::kB6x16P32;
  d.expect(2, 2);
  detail->address = tensor_operand(d, d.operand(0));
  detail->a = d.source(1, ScalarType::kB64);
  d.step.run = pipe_lanes<issue_copy>;
}

void decode_commit(Decoder& d) {
  TensorDetail* const detail = make_tensor_detail(d);
  d.take(Modifier::kMbarrierArriveOne);
  detail->space = take_space(d);
  detail->has_multicast = d.take(Modifier::kMulticastCluster);
  d.expect(detail->has_multicast ? 2 : 1, detail->has_multicast ? 2 : 1);
  detail->address = tensor_operand(d, d.operand(0));
  if (detail->space != Space::kGeneric) detail->space = Space::kSharedCluster;
  if (detail->has_multicast) detail->multicast = d.source(1, ScalarType::kB16);
  d.step.run = pipe_lanes<issue_commit>;
}

void decode_shift(Decoder& d) {
  TensorDetail* const detail = make_tensor_detail(d);
  d.take(Modifier::kDown);
  d.expect(1, 1);
  detail->address = tensor_operand(d, d.operand(0));
  d.step.run = pipe_lanes<issue_shift>;
}

}  // namespace

DecodeFunction tensor_pipe_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kTcgen05Mma:
      return decode_mma;
    case Opcode::kTcgen05Cp:
      return decode_copy;
    case Opcode::kTcgen05Commit:
      return decode_commit;
    case Opcode::kTcgen05Shift:
      return decode_shift;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
