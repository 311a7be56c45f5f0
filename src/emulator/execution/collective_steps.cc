// Exchange between the lanes of a warp: shfl, vote, match, redux, elect, activemask, bar.warp.sync.
// Depends on: state.h. Lanes wait until all live lanes of their membermask have come; forms without
// .sync take the lanes that are there.
#include <bit>

#include "base/message.h"
#include "emulator/execution/decoder.h"
#include "emulator/execution/lanes.h"
#include "emulator/execution/order.h"

namespace flamia::emulator::execution {
namespace {

struct CollectiveDetail : Detail {
  Source members;
  bool synchronizing = true;
  int kind = 0;
  bool negated = false;
  bool has_predicate = false;
  bool absolute = false;
};

const CollectiveDetail& detail_of(const Step& step) {
  return static_cast<const CollectiveDetail&>(*step.detail);
}

/// Whether every lane's live members are here. Throws if a lane is not in its own mask.
bool members_are_here(Warp& warp, const CollectiveDetail& d, uint32_t active) {
  if (!d.synchronizing) return true;
  const uint64_t* const masks = warp.read(d.members);
  bool here = true;
  each_lane(active, [&](uint32_t i) {
    const uint32_t mask = static_cast<uint32_t>(masks[i]);
    if ((mask >> i & 1u) == 0) {
      stop(fault_kind_name(FaultKind::kBadOperand),
           concat("the membermask must contain the executing lane; got ", hex(mask)), i);
    }
    here &= (mask & warp.live & ~active) == 0;
  });
  Wait& wait = warp.group().wait;
  if (here) {
    wait = {};
  } else {
    wait.kind = Wait::Kind::kMembers;
  }
  return here;
}

uint32_t members_of(const Warp& warp, const CollectiveDetail& d, uint32_t lane, uint32_t active) {
  if (!d.synchronizing) return active;
  return static_cast<uint32_t>(warp.read(d.members)[lane]) & active;
}

// ---- shfl

enum ShuffleKind { kUp, kDown, kButterfly, kIndex };

/// The source lane, and whether it is in range (PTX ISA, shfl).
int source_lane(int kind, int lane, uint32_t b, uint32_t c, bool* in_range) {
  const int bound = static_cast<int>(c & 0x1fu), segment = static_cast<int>(c >> 8 & 0x1fu);
  const int value = static_cast<int>(b & 0x1fu);
  const int highest = (lane & segment) | (bound & ~segment);
  const int lowest = lane & segment;
  int source = 0;
  switch (kind) {
    case kUp:
      source = lane - value;
      *in_range = source >= highest;
      break;
    case kDown:
      source = lane + value;
      *in_range = source <= highest;
      break;
    case kButterfly:
      source = lane ^ value;
      *in_range = source <= highest;
      break;
    default:
      source = lowest | (value & ~segment);
      *in_range = source <= highest;
      break;
  }
  return *in_range ? source : lane;
}

Outcome shuffle_lanes(Warp& warp, const Step& step, uint32_t active) {
  const CollectiveDetail& d = detail_of(step);
  if (!members_are_here(warp, d, active)) return Outcome::kBlocked;
  const uint64_t* const a = warp.read(step.source[0]);
  const uint64_t* const b = warp.read(step.source[1]);
  const uint64_t* const c = warp.read(step.source[2]);
  uint64_t result[kLanes];
  uint32_t valid = 0;
  each_lane(active, [&](uint32_t i) {
    bool in_range = false;
    const int from = source_lane(d.kind, static_cast<int>(i), static_cast<uint32_t>(b[i]),
                                 static_cast<uint32_t>(c[i]), &in_range);
    if (from < 0 || (members_of(warp, d, i, active) >> from & 1u) == 0) {
      stop(fault_kind_name(FaultKind::kHazard),
           concat("shfl reads lane ", from, ", which does not take part"), i);
    }
    result[i] = a[from];
    if (in_range) valid |= 1u << i;
  });
  uint64_t* const out = warp.row(step.target);
  each_lane(active, [&](uint32_t i) { out[i] = result[i]; });
  if (d.has_predicate) write_predicate(warp, step.target2, active, valid);
  return Outcome::kNext;
}

CollectiveDetail* collective(Decoder& d, uint32_t members) {
  CollectiveDetail* const detail = d.detail<CollectiveDetail>();
  detail->synchronizing = d.take(Modifier::kSync);
  if (detail->synchronizing) {
    detail->members = d.source(members, ScalarType::kB32);
    d.step.blocking = true;
  }
  return detail;
}

/// A destination register and, in the form r|p, a predicate.
void targets(Decoder& d, CollectiveDetail* detail) {
  const ptx::Operand& to = d.operand(0);
  if (to.kind != ptx::OperandKind::kPair) {
    d.step.target = d.target(to);
    return;
  }
  d.step.target = d.target(d.elements(to)[0]);
  d.step.target2 = d.target(d.elements(to)[1]);
  detail->has_predicate = true;
}

void decode_shuffle(Decoder& d) {
  CollectiveDetail* const detail = collective(d, 4);
  d.expect(detail->synchronizing ? 5 : 4, detail->synchronizing ? 5 : 4);
  detail->kind = d.take_one({Modifier::kUp, Modifier::kDown, Modifier::kBfly, Modifier::kIdx});
  targets(d, detail);
  for (uint32_t i = 0; i < 3; ++i) d.step.source[i] = d.source(i + 1, ScalarType::kB32);
  d.step.run = shuffle_lanes;
}

// ---- vote

enum VoteKind { kAll, kAny, kUni, kBallot };

Outcome vote_lanes(Warp& warp, const Step& step, uint32_t active) {
  const CollectiveDetail& d = detail_of(step);
  if (!members_are_here(warp, d, active)) return Outcome::kBlocked;
  uint32_t bits = read_predicate(warp, step.source[0]);
  if (d.negated) bits = ~bits;
  uint32_t holds = 0;
  uint64_t ballot[kLanes];
  each_lane(active, [&](uint32_t i) {
    const uint32_t members = members_of(warp, d, i, active);
    const uint32_t ayes = bits & members;
    ballot[i] = ayes;
    const bool all = ayes == members;
    const bool value = d.kind == kAll ? all : d.kind == kAny ? ayes != 0 : all || ayes == 0;
    if (value) holds |= 1u << i;
  });
  if (d.kind == kBallot) {
    uint64_t* const out = warp.row(step.target);
    each_lane(active, [&](uint32_t i) { out[i] = ballot[i]; });
  } else {
    write_predicate(warp, step.target, active, holds);
  }
  return Outcome::kNext;
}

void decode_vote(Decoder& d) {
  CollectiveDetail* const detail = collective(d, 2);
  detail->kind = d.take_one({Modifier::kAll, Modifier::kAny, Modifier::kUni, Modifier::kBallot});
  d.step.target = d.target(0u);
  ptx::Operand predicate = d.operand(1);
  detail->negated = predicate.negated;
  predicate.negated = false;
  d.step.source[0] = d.source(predicate, ScalarType::kPred);
  d.step.run = vote_lanes;
}

// ---- match

Outcome match_lanes(Warp& warp, const Step& step, uint32_t active) {
  const CollectiveDetail& d = detail_of(step);
  if (!members_are_here(warp, d, active)) return Outcome::kBlocked;
  const uint64_t* const a = warp.read(step.source[0]);
  uint64_t result[kLanes];
  uint32_t all_equal = 0;
  each_lane(active, [&](uint32_t i) {
    const uint32_t members = members_of(warp, d, i, active);
    uint32_t same = 0;
    each_lane(members, [&](uint32_t j) { same |= a[j] == a[i] ? 1u << j : 0; });
    if (same == members) all_equal |= 1u << i;
    result[i] = d.kind == kAny || same == members ? same : 0;
  });
  uint64_t* const out = warp.row(step.target);
  each_lane(active, [&](uint32_t i) { out[i] = result[i]; });
  if (d.has_predicate) write_predicate(warp, step.target2, active, all_equal);
  return Outcome::kNext;
}

void decode_match(Decoder& d) {
  CollectiveDetail* const detail = collective(d, 2);
  d.expect(3, 3);
  detail->kind = d.in.opcode == Opcode::kMatchAny ? kAny : kAll;
  targets(d, detail);
  d.step.source[0] = d.source(1, d.in.type());
  d.step.run = match_lanes;
}

// ---- redux

enum ReduxKind { kAdd, kMin, kMax, kAnd, kOr, kXor };

uint32_t combine_integer(int kind, bool is_signed, uint32_t x, uint32_t y) {
  const bool less = is_signed ? static_cast<int32_t>(x) < static_cast<int32_t>(y) : x < y;
  switch (kind) {
    case kAdd:
      return x + y;
    case kMin:
      return less ? x : y;
    case kMax:
      return less ? y : x;
    case kAnd:
      return x & y;
    case kOr:
      return x | y;
    default:
      return x ^ y;
  }
}

Outcome redux_lanes(Warp& warp, const Step& step, uint32_t active) {
  const CollectiveDetail& d = detail_of(step);
  if (!members_are_here(warp, d, active)) return Outcome::kBlocked;
  const uint64_t* const a = warp.read(step.source[0]);
  uint64_t result[kLanes];
  const bool is_float_type = step.choice == 2;
  each_lane(active, [&](uint32_t i) {
    const uint32_t members = members_of(warp, d, i, active);
    uint64_t value = a[first_lane(members)];
    if (d.absolute) value &= 0x7fffffffu;
    each_lane(members & (members - 1), [&](uint32_t j) {
      value = is_float_type
                  ? isa::float_min_max(isa::kF32Format, d.kind == kMax, value, a[j], step.min_max)
                  : combine_integer(d.kind, step.choice == 1, static_cast<uint32_t>(value),
                                    static_cast<uint32_t>(a[j]));
    });
    result[i] = value;
  });
  uint64_t* const out = warp.row(step.target);
  each_lane(active, [&](uint32_t i) { out[i] = result[i]; });
  return Outcome::kNext;
}

void decode_redux(Decoder& d) {
  CollectiveDetail* const detail = collective(d, 2);
  d.expect(3, 3);
  detail->kind = d.take_one({Modifier::kAdd, Modifier::kMin, Modifier::kMax, Modifier::kAnd,
                             Modifier::kOr, Modifier::kXor});
  d.step.min_max.nan = d.take(Modifier::kNaN);
  detail->absolute = d.step.min_max.abs = d.take(Modifier::kAbs);
  const ScalarType type = d.in.type();
  d.step.choice = type == ScalarType::kF32 ? 2 : (is_signed_integer(type) ? 1 : 0);
  d.step.target = d.target(0u);
  d.step.source[0] = d.source(1, type);
  d.step.run = redux_lanes;
}

// ---- elect, activemask, bar.warp.sync

/// PTX says only that one membermask always elects the same lane. An H200 takes the lowest, and
/// CUTLASS' pipelines rely on it: thread 0 expects the bytes of the copies that the elected issues.
uint32_t elected_lane(const Grid& grid, uint32_t members) {
  const MachineOptions& options = *grid.options;
  if (options.adversary != Adversary::kRandom || options.rules != Rules::kStrict)
    return first_lane(members);
  const uint64_t mixed = (options.seed + 1) * 0x9e3779b97f4a7c15u ^ members;
  const uint64_t place = mixed * 0xbf58476d1ce4e5b9u >> 32;
  uint32_t skip = static_cast<uint32_t>(place) % static_cast<uint32_t>(std::popcount(members));
  for (; skip != 0; --skip) members &= members - 1;
  return first_lane(members);
}

Outcome elect_lanes(Warp& warp, const Step& step, uint32_t active) {
  const CollectiveDetail& d = detail_of(step);
  if (!members_are_here(warp, d, active)) return Outcome::kBlocked;
  uint64_t* const out = warp.row(step.target);
  uint32_t leaders = 0;
  each_lane(active, [&](uint32_t i) {
    const uint32_t leader = elected_lane(warp.grid(), members_of(warp, d, i, active));
    out[i] = leader;
    if (leader == i) leaders |= 1u << i;
  });
  write_predicate(warp, step.target2, active, leaders);
  return Outcome::kNext;
}

void decode_elect(Decoder& d) {
  CollectiveDetail* const detail = collective(d, 1);
  d.expect(2, 2);
  targets(d, detail);
  d.step.run = elect_lanes;
}

void decode_activemask(Decoder& d) {
  d.expect(1, 1);
  d.step.target = d.target(0u);
  d.step.run = [](Warp& warp, const Step& step, uint32_t active) {
    uint64_t* const out = warp.row(step.target);
    each_lane(active, [&](uint32_t i) { out[i] = active; });
    return Outcome::kNext;
  };
}

/// Lanes may come from different places: what counts is the mask.
Outcome warp_sync_lanes(Warp& warp, const Step& step, uint32_t active) {
  const CollectiveDetail& d = detail_of(step);
  const uint32_t mask = static_cast<uint32_t>(warp.read(d.members)[first_lane(active)]) & warp.live;
  Wait& wait = warp.group().wait;
  if (wait.kind == Wait::Kind::kMembers && wait.seen == 1) {  // released by another group
    wait = {};
    return Outcome::kNext;
  }
  if (members_are_here(warp, d, active)) return Outcome::kNext;
  wait.a = mask;
  uint32_t arrived = active;
  for (const Group& group : warp.groups) {
    if (&group != &warp.group() && group.wait.kind == Wait::Kind::kMembers &&
        group.wait.a == mask) {
      arrived |= group.mask;
    }
  }
  if ((mask & ~arrived) != 0) return Outcome::kBlocked;
  for (Group& group : warp.groups) {
    if (group.wait.kind != Wait::Kind::kMembers || group.wait.a != mask) continue;
    group.wait.seen = 1;
    group.blocked = false;
  }
  wait = {};
  return Outcome::kNext;
}

void decode_warp_sync(Decoder& d) {
  CollectiveDetail* const detail = d.detail<CollectiveDetail>();
  detail->members = d.source(0u, ScalarType::kB32);
  d.expect(1, 1);
  d.step.blocking = true;
  d.step.run = warp_sync_lanes;
}

}  // namespace

DecodeFunction collective_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kShfl:
      return decode_shuffle;
    case Opcode::kVote:
      return decode_vote;
    case Opcode::kMatchAll:
    case Opcode::kMatchAny:
      return decode_match;
    case Opcode::kRedux:
      return decode_redux;
    case Opcode::kElect:
      return decode_elect;
    case Opcode::kActivemask:
      return decode_activemask;
    case Opcode::kBarWarpSync:
      return decode_warp_sync;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
