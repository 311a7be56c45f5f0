// mbarrier instructions on the barriers of the own and of other CTAs of the cluster.
// Depends on: machine/mbarrier.h, order.h. try_wait suspends until the phase completes; the wait is
// bounded: it ends when nothing else can run, and sometimes by the adversary's will.
#include "base/message.h"
#include "emulator/execution/lanes.h"
#include "emulator/execution/mbarriers.h"
#include "emulator/execution/spaces.h"

namespace flamia::emulator::execution {

namespace {

[[noreturn]] void raise_init(Warp& warp, Cta& owner, uint32_t offset, uint32_t lane,
                             const char* why) {
  const Cluster& cluster = *warp.cta->cluster;
  const MbarrierTable::Origin origin = owner.mbarriers->origin(offset);
  stop(fault_kind_name(FaultKind::kHazard),
       concat("mbarrier.init of ", warp_text(cluster, origin.warp), " (",
              instruction_text(warp.grid(), origin.instruction), ") and its use by ",
              warp_text(cluster, warp.global), " at shared address ",
              hex(map_shared(offset, owner.rank)), ": ", why),
       lane);
}

}  // namespace

Cta& barrier_owner(Warp& warp, uint32_t lane, Space space, uint64_t address, uint32_t* offset) {
  Location at;
  require(locate(warp.views[lane], space, address, 8, 8, &at), lane);
  if (at.space != Space::kSharedCluster) {
    stop(fault_kind_name(FaultKind::kWrongSpace),
         concat("an mbarrier must lie in shared memory; got ", hex(address)), lane);
  }
  *offset = static_cast<uint32_t>(at.address);
  Cta& owner = *warp.cta->cluster->ctas[at.rank];
  if (OrderClocks* const clocks = clocks_of(warp); clocks != nullptr) {
    const MbarrierTable::Origin origin = owner.mbarriers->origin(*offset);
    if (!clocks->sees_init(warp.global, origin.epoch)) {
      raise_init(warp, owner, *offset, lane,
                 "no barrier between them, or no fence.mbarrier_init before a relaxed one");
    }
  }
  return owner;
}

void require_async_init(Warp& warp, Cta& owner, uint32_t offset, uint32_t lane) {
  OrderClocks* const clocks = clocks_of(warp);
  if (clocks == nullptr) return;
  if (clocks->async_sees_init(warp.global, owner.mbarriers->origin(offset).epoch)) return;
  raise_init(warp, owner, offset, lane, "no fence.mbarrier_init or fence.proxy.async between them");
}

void release_into(Warp& warp, Cta& owner, uint32_t offset) {
  OrderClocks* const clocks = clocks_of(warp);
  if (clocks == nullptr) return;
  SyncClock* const clock = owner.mbarriers->open_clock(offset);
  if (clock != nullptr) clocks->release(warp.global, clock);
}

namespace {

enum class Form : uint8_t { kPlain, kExpectTx };

struct MbarrierDetail : Detail {
  Space space = Space::kGeneric;
  Form form = Form::kPlain;
  bool drop = false;
  bool no_complete = false;
  bool parity = false;
  bool relaxed = false;
  bool has_token = false;
  bool has_count = false;
};

const MbarrierDetail& detail_of(const Step& step) {
  return static_cast<const MbarrierDetail&>(*step.detail);
}

template <typename Body>
Outcome at_barriers(Warp& warp, const Step& step, uint32_t active, Body body) {
  const MbarrierDetail& d = detail_of(step);
  uint64_t addresses[kLanes];
  effective_addresses(warp.read(step.source[0]), step.number, d.space != Space::kGeneric,
                      addresses);
  each_lane(active, [&](uint32_t i) {
    uint32_t offset = 0;
    Cta& owner = barrier_owner(warp, i, d.space, addresses[i], &offset);
    body(i, owner, offset);
  });
  return Outcome::kNext;
}

Outcome init_lanes(Warp& warp, const Step& step, uint32_t active) {
  const uint64_t* const count = warp.read(step.source[1]);
  ++warp.grid().activity;
  return at_barriers(warp, step, active, [&](uint32_t i, Cta& owner, uint32_t offset) {
    require(owner.mbarriers->init(offset, static_cast<uint32_t>(count[i])), i);
    if (clocks_of(warp) == nullptr) return;
    owner.mbarriers->set_origin(offset, {clocks_of(warp)->own_epoch(warp.global), warp.global,
                                         instruction_key(warp.code(), step)});
    note_shared(*owner.cluster, own_actor(warp, step, AccessKind::kStrong),
                map_shared(offset, owner.rank), 8, true);
  });
}

Outcome inval_lanes(Warp& warp, const Step& step, uint32_t active) {
  return at_barriers(warp, step, active, [&](uint32_t i, Cta& owner, uint32_t offset) {
    require(owner.mbarriers->invalidate(offset), i);
  });
}

Outcome arrive_lanes(Warp& warp, const Step& step, uint32_t active) {
  const MbarrierDetail& d = detail_of(step);
  const uint64_t* const value = warp.read(step.source[1]);
  uint64_t* const token = warp.row(step.target);
  ++warp.grid().activity;
  return at_barriers(warp, step, active, [&](uint32_t i, Cta& owner, uint32_t offset) {
    if (!d.relaxed) {
      release_into(warp, owner, offset);
    } else if (clocks_of(warp) != nullptr) {
      SyncClock* const clock = owner.mbarriers->open_clock(offset);
      if (clock != nullptr) clocks_of(warp)->release_relaxed(warp.global, clock);
    }
    const uint32_t number = static_cast<uint32_t>(value[i]);
    MbarrierOutcome outcome;
    if (d.form == Form::kExpectTx) {
      outcome = owner.mbarriers->arrive_expect_tx(offset, number, 1, d.drop);
    } else {
      outcome = owner.mbarriers->arrive(offset, number, d.drop, d.no_complete);
    }
    require(outcome.fault, i);
    if (d.has_token) token[i] = outcome.token;
  });
}

Outcome transaction_lanes(Warp& warp, const Step& step, uint32_t active) {
  const uint64_t* const bytes = warp.read(step.source[1]);
  ++warp.grid().activity;
  return at_barriers(warp, step, active, [&](uint32_t i, Cta& owner, uint32_t offset) {
    const uint32_t number = static_cast<uint32_t>(bytes[i]);
    require(step.choice == 0 ? owner.mbarriers->expect_tx(offset, number).fault
                             : owner.mbarriers->complete_tx(offset, number).fault,
            i);
  });
}

/// Tests all lanes; bits of those whose phase is complete.
uint32_t test(Warp& warp, const Step& step, uint32_t active) {
  const MbarrierDetail& d = detail_of(step);
  const uint64_t* const value = warp.read(step.source[1]);
  uint32_t done = 0;
  at_barriers(warp, step, active, [&](uint32_t i, Cta& owner, uint32_t offset) {
    const MbarrierOutcome outcome =
        d.parity ? owner.mbarriers->test_parity(offset, static_cast<uint32_t>(value[i]))
                 : owner.mbarriers->test_token(offset, value[i]);
    require(outcome.fault, i);
    if (!outcome.done) return;
    done |= 1u << i;
    OrderClocks* const clocks = clocks_of(warp);
    if (clocks == nullptr) return;
    const SyncClock* const clock = owner.mbarriers->completed_clock(offset);
    if (clock == nullptr) return;
    if (d.relaxed) {
      clocks->acquire_relaxed(warp.global, *clock);
    } else {
      clocks->acquire(warp.global, *clock);
    }
  });
  return done;
}

Outcome test_lanes(Warp& warp, const Step& step, uint32_t active) {
  write_predicate(warp, step.target, active, test(warp, step, active));
  return Outcome::kYield;
}

Outcome try_lanes(Warp& warp, const Step& step, uint32_t active) {
  Grid& grid = warp.grid();
  Wait& wait = warp.group().wait;
  const uint32_t done = test(warp, step, active);
  const bool tired = grid.expire || (grid.options->adversary == Adversary::kRandom &&
                                     wait.rounds > 4 && grid.random_below(64) == 0);
  if (done == active || tired) {
    write_predicate(warp, step.target, active, done);
    wait = {};
    return done == active ? Outcome::kNext : Outcome::kYield;
  }
  const uint32_t lane = first_lane(active & ~done);
  wait.kind = Wait::Kind::kMbarrier;
  wait.a = (warp.read(step.source[0])[lane] + static_cast<uint64_t>(step.number)) & 0xffffffffu;
  wait.b = warp.read(step.source[1])[lane];
  ++wait.rounds;
  return Outcome::kBlocked;
}

MbarrierDetail* common(Decoder& d, uint32_t address) {
  MbarrierDetail* const detail = d.detail<MbarrierDetail>();
  detail->space = take_space(d);
  d.accept({Modifier::kCta, Modifier::kCluster, Modifier::kRelease, Modifier::kAcquire});
  detail->relaxed = d.take(Modifier::kRelaxed);
  detail->no_complete = d.take(Modifier::kNoComplete);
  if (d.take(Modifier::kExpectTx)) detail->form = Form::kExpectTx;
  detail->parity = d.take(Modifier::kParity);
  d.step.source[0] = d.address(d.operand(address), &d.step.number);
  return detail;
}

void decode_init(Decoder& d) {
  common(d, 0);
  const bool inval = d.in.opcode == Opcode::kMbarrierInval;
  d.expect(inval ? 1 : 2, inval ? 1 : 2);
  if (!inval) d.step.source[1] = d.source(1, ScalarType::kU32);
  d.step.run = inval ? inval_lanes : init_lanes;
}

void decode_arrive(Decoder& d) {
  // The token operand is missing in forms for remote barriers of older spelling.
  const uint32_t address = d.operand(0).kind == ptx::OperandKind::kAddress ? 0 : 1;
  MbarrierDetail* const detail = common(d, address);
  detail->drop = d.in.opcode == Opcode::kMbarrierArriveDrop;
  if (address == 1) {
    d.step.target = d.target(0u);
    detail->has_token = true;
  }
  detail->has_count = d.operand_count() == address + 2;
  if (!detail->has_count && detail->form == Form::kExpectTx) d.refuse("the byte count is missing");
  d.expect(address + 1, address + 2);
  d.step.source[1] = detail->has_count ? d.source(address + 1, ScalarType::kU32) : d.constant(1);
  d.step.run = arrive_lanes;
}

void decode_transaction(Decoder& d) {
  common(d, 0);
  d.expect(2, 2);
  d.step.source[1] = d.source(1, ScalarType::kU32);
  d.step.choice = d.in.opcode == Opcode::kMbarrierCompleteTx ? 1 : 0;
  d.step.run = transaction_lanes;
}

void decode_test(Decoder& d) {
  MbarrierDetail* const detail = common(d, 1);
  const bool suspends = d.in.opcode == Opcode::kMbarrierTryWait;
  d.expect(3, suspends ? 4 : 3);
  d.step.target = d.target(0u);
  d.step.source[1] = d.source(2, detail->parity ? ScalarType::kU32 : ScalarType::kB64);
  d.step.blocking = suspends;
  d.step.run = suspends ? try_lanes : test_lanes;
}

void decode_pending(Decoder& d) {
  d.expect(2, 2);
  d.step.target = d.target(0u);
  d.step.source[0] = d.source(1, ScalarType::kB64);
  d.step.run =
      lanes1<[](const Step&, uint64_t a) -> uint64_t { return MbarrierTable::pending_count(a); }>;
}

}  // namespace

DecodeFunction mbarrier_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kMbarrierInit:
    case Opcode::kMbarrierInval:
      return decode_init;
    case Opcode::kMbarrierArrive:
    case Opcode::kMbarrierArriveDrop:
      return decode_arrive;
    case Opcode::kMbarrierExpectTx:
    case Opcode::kMbarrierCompleteTx:
      return decode_transaction;
    case Opcode::kMbarrierTestWait:
    case Opcode::kMbarrierTryWait:
      return decode_test;
    case Opcode::kMbarrierPendingCount:
      return decode_pending;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
