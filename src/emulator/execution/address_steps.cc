// Addresses without access: cvta, isspacep, mapa, getctarank, prefetch, discard.
// Depends on: machine/memory.h for the windows.
#include "emulator/execution/lanes.h"
#include "emulator/execution/spaces.h"

namespace flamia::emulator::execution {
namespace {

Space space_of(const Step& step) { return static_cast<Space>(step.choice); }

void decode_cvta(Decoder& d) {
  const bool to = d.take(Modifier::kTo);
  const Space space = take_space(d);
  if (space == Space::kGeneric) d.refuse("a state space is missing");
  d.step.choice = static_cast<uint8_t>(space);
  d.operands(d.in.type(), 1);
  if (to) {
    d.step.run = [](Warp& warp, const Step& step, uint32_t active) {
      uint64_t* const out = warp.row(step.target);
      const uint64_t* const a = warp.read(step.source[0]);
      each_lane(active, [&](uint32_t i) {
        uint64_t address = 0;
        // The conversion of a wrong address is a fault only where it is used, as on hardware.
        const uint64_t generic = a[i];
        if (!from_generic(space_of(step), generic, &address).ok()) address = generic;
        out[i] = address & step.width_mask;
      });
      return Outcome::kNext;
    };
    return;
  }
  d.step.run =
      lanes1<[](const Step& s, uint64_t a) { return to_generic(space_of(s), a) & s.width_mask; }>;
}

void decode_isspacep(Decoder& d) {
  const Space space = take_space(d);
  d.step.choice = static_cast<uint8_t>(space);
  d.operands(d.in.type() == ScalarType::kNone ? ScalarType::kU64 : d.in.type(), 1);
  d.step.run = [](Warp& warp, const Step& step, uint32_t active) {
    const uint64_t* const a = warp.read(step.source[0]);
    uint32_t bits = 0;
    each_lane(active, [&](uint32_t i) {
      if (is_space(warp.views[i], space_of(step), a[i])) bits |= 1u << i;
    });
    write_predicate(warp, step.target, active, bits);
    return Outcome::kNext;
  };
}

void decode_mapa(Decoder& d) {
  const Space space = take_space(d);
  d.operands(d.in.type(), 2);
  d.step.source[1] = d.source(2, ScalarType::kU32);
  d.step.choice = static_cast<uint8_t>(space);
  d.step.run = [](Warp& warp, const Step& step, uint32_t active) {
    uint64_t* const out = warp.row(step.target);
    const uint64_t* const a = warp.read(step.source[0]);
    const uint64_t* const rank = warp.read(step.source[1]);
    const bool generic = space_of(step) == Space::kGeneric;
    each_lane(active, [&](uint32_t i) {
      uint64_t address = a[i];
      if (generic) require(from_generic(Space::kSharedCluster, a[i], &address), i);
      if (rank[i] >= warp.cta->cluster->ctas.size()) {
        stop(fault_kind_name(FaultKind::kBadOperand), "mapa: the CTA rank must be in the cluster",
             i);
      }
      const uint64_t mapped =
          map_shared(static_cast<uint32_t>(address), static_cast<uint32_t>(rank[i]));
      out[i] = generic ? to_generic(Space::kSharedCluster, mapped) : mapped;
    });
    return Outcome::kNext;
  };
}

void decode_getctarank(Decoder& d) {
  const Space space = take_space(d);
  d.step.target = d.target(0u);
  d.step.source[0] = d.source(1, d.in.type());
  d.expect(2, 2);
  d.step.choice = static_cast<uint8_t>(space);
  d.step.run = [](Warp& warp, const Step& step, uint32_t active) {
    uint64_t* const out = warp.row(step.target);
    const uint64_t* const a = warp.read(step.source[0]);
    each_lane(active, [&](uint32_t i) {
      uint64_t address = a[i];
      if (space_of(step) == Space::kGeneric) {
        require(from_generic(Space::kSharedCluster, a[i], &address), i);
      }
      out[i] = shared_rank(static_cast<uint32_t>(address));
    });
    return Outcome::kNext;
  };
}

/// Prefetches and priorities change no result; their addresses are not dereferenced.
void decode_prefetch(Decoder& d) {
  d.accept({Modifier::kGlobal, Modifier::kLocal, Modifier::kParam, Modifier::kConst, Modifier::kL1,
            Modifier::kL2, Modifier::kL2EvictLast, Modifier::kL2EvictNormal, Modifier::kTensormap,
            Modifier::kLevelEvictionPriority, Modifier::kL2128B});
  d.step.run = [](Warp&, const Step&, uint32_t) { return Outcome::kNext; };
}

/// What discard drops reads as never written.
void decode_discard(Decoder& d) {
  d.accept({Modifier::kGlobal, Modifier::kL2});
  d.expect(2, 2);
  d.step.source[0] = d.address(d.operand(0), &d.step.number);
  d.step.run = [](Warp& warp, const Step& step, uint32_t active) {
    uint64_t addresses[kLanes];
    effective_addresses(warp.read(step.source[0]), step.number, false, addresses);
    LaneAccess access;
    locate_lanes(warp, Space::kGlobal, addresses, active, 128, 128, &access);
    each_lane(active,
              [&](uint32_t i) { warp.grid().memory->mark(access.at[i].address, 128, false); });
    return Outcome::kNext;
  };
}

}  // namespace

DecodeFunction address_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kCvta:
      return decode_cvta;
    case Opcode::kIsspacep:
      return decode_isspacep;
    case Opcode::kMapa:
      return decode_mapa;
    case Opcode::kGetctarank:
      return decode_getctarank;
    case Opcode::kPrefetch:
    case Opcode::kPrefetchu:
    case Opcode::kApplypriority:
      return decode_prefetch;
    case Opcode::kDiscard:
      return decode_discard;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
