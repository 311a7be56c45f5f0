// Tensor maps changed by kernels, cluster launch control, st.bulk.
// Depends on: tma/tensor_map.h; jobs.h. The answer to a try_cancel is of our own encoding, which
// PTX calls opaque: {x, y, z of the first CTA, 1 if a cluster was cancelled}.
#include <algorithm>
#include <cstring>

#include "base/message.h"
#include "emulator/execution/jobs.h"
#include "emulator/execution/lanes.h"
#include "emulator/execution/spaces.h"
#include "emulator/tma/tensor_map.h"

namespace flamia::emulator::execution {
namespace {

struct MapDetail : Detail {
  Space space = Space::kGeneric;
  MapField field = MapField::kGlobalAddress;
  uint32_t ordinal = 0;
  Source base, value, second;
  int64_t offset = 0, second_offset = 0;
  bool multicast = false;
  std::vector<uint32_t> slots;
};

const MapDetail& detail_of(const Step& step) { return static_cast<const MapDetail&>(*step.detail); }

// ---- tensormap

Outcome replace_lanes(Warp& warp, const Step& step, uint32_t active) {
  const MapDetail& d = detail_of(step);
  uint64_t addresses[kLanes];
  effective_addresses(warp.read(d.base), d.offset, d.space == Space::kSharedCta, addresses);
  LaneAccess access;
  locate_lanes(warp, d.space, addresses, active, kMapBytes, kMapBytes, &access);
  before_read(warp, step, access, {});
  before_write(warp, step, access, {});
  const uint64_t* const value = warp.read(d.value);
  each_lane(active, [&](uint32_t i) {
    require(replace_field(access.at[i].data, d.field, d.ordinal, value[i]), i);
  });
  return Outcome::kNext;
}

void decode_replace(Decoder& d) {
  MapDetail* const detail = d.detail<MapDetail>();
  d.take(Modifier::kTile);
  const int field =
      d.take_one({Modifier::kGlobalAddress, Modifier::kRank, Modifier::kBoxDim,
                  Modifier::kGlobalDim, Modifier::kGlobalStride, Modifier::kElementStride,
                  Modifier::kElemtype, Modifier::kInterleaveLayout, Modifier::kSwizzleMode,
                  Modifier::kSwizzleAtomicity, Modifier::kFillMode});
  if (field < 0) d.refuse("a field is missing");
  detail->field = static_cast<MapField>(field);
  detail->space = take_space(d);
  detail->base = d.address(d.operand(0), &detail->offset);
  uint32_t place = 1;
  if (d.operand_count() == 3) detail->ordinal = static_cast<uint32_t>(d.operand(place++).value);
  detail->value = d.source(place++, ScalarType::kB64);
  if (place != d.operand_count()) d.refuse("the operands do not fit the form");
  d.step.run = replace_lanes;
}

/// A map from shared to global memory by one warp.
Outcome publish_lanes(Warp& warp, const Step& step, uint32_t active) {
  const MapDetail& d = detail_of(step);
  const uint32_t lane = first_lane(active);
  uint64_t to[kLanes], from[kLanes];
  effective_addresses(warp.read(d.base), d.offset, false, to);
  effective_addresses(warp.read(d.second), d.second_offset, true, from);
  LaneAccess source, target;
  locate_lanes(warp, Space::kSharedCta, from, 1u << lane, kMapBytes, kMapBytes, &source);
  locate_lanes(warp, Space::kGlobal, to, 1u << lane, kMapBytes, kMapBytes, &target);
  before_read(warp, step, source, {});
  before_write(warp, step, target, {});
  std::copy_n(source.at[lane].data, kMapBytes, target.at[lane].data);
  return Outcome::kNext;
}

void decode_publish(Decoder& d) {
  MapDetail* const detail = d.detail<MapDetail>();
  d.accept({Modifier::kGlobal, Modifier::kSharedCta, Modifier::kTensormapGeneric,
            Modifier::kRelease, Modifier::kGpu, Modifier::kSys, Modifier::kCta, Modifier::kCluster,
            Modifier::kSync, Modifier::kAligned});
  d.expect(3, 3);
  if (d.operand(2).value != kMapBytes) d.refuse("the size must be 128");
  detail->base = d.address(d.operand(0), &detail->offset);
  detail->second = d.address(d.operand(1), &detail->second_offset);
  d.step.aligned = d.step.blocking = true;
  d.step.run = publish_lanes;
}

// ---- clusterlaunchcontrol

struct Answer {
  uint32_t words[4] = {};
};

Answer cancel_next(Grid& grid) {
  Answer answer;
  if (grid.next_cluster == grid.cluster_count) return answer;
  const uint64_t number = grid.take_cluster();
  const ptx::Dim3 &all = grid.clusters, &dim = grid.cluster_dim;
  answer.words[0] = static_cast<uint32_t>(number % all.x) * dim.x;
  answer.words[1] = static_cast<uint32_t>(number / all.x % all.y) * dim.y;
  answer.words[2] = static_cast<uint32_t>(number / all.x / all.y) * dim.z;
  answer.words[3] = 1;
  return answer;
}

void issue_cancel(Warp& warp, const Step& step, uint32_t lane) {
  const MapDetail& d = detail_of(step);
  Cluster& cluster = *warp.cta->cluster;
  if (cluster.cancel_refused.step != 0 && clocks_of(warp) != nullptr &&
      clocks_of(warp)->has_seen(warp.global, cluster.cancel_refused)) {
    stop(fault_kind_name(FaultKind::kBadOperand),
         concat("try_cancel must not follow a request that was seen to fail (",
                instruction_text(warp.grid(), cluster.cancel_refused_key), ")"),
         lane);
  }
  const uint64_t to = warp.read(d.base)[lane] + static_cast<uint64_t>(d.offset);
  const uint64_t barrier = warp.read(d.second)[lane] + static_cast<uint64_t>(d.second_offset);
  Location at;
  require(locate(warp.views[lane], d.space, to, 16, 16, &at), lane);
  uint32_t offset = 0;
  Cta* const own = &barrier_owner(warp, lane, d.space, barrier, &offset);
  if (at.space != Space::kSharedCluster || at.rank != own->rank) {
    stop(fault_kind_name(FaultKind::kBadOperand),
         concat("try_cancel must answer into shared memory of the CTA of its mbarrier; got ",
                hex(to)),
         lane);
  }
  std::vector<Cta*> targets{own};
  if (d.multicast) {
    targets.clear();
    for (const auto& cta : cluster.ctas) targets.push_back(cta.get());
  }
  const uint32_t place = static_cast<uint32_t>(at.address);
  warp.grid().issue(make_job(warp, step, lane, AccessKind::kBulk, [=](ActionJob& job) {
    const Answer answer = cancel_next(job.warp->grid());
    for (Cta* const cta : targets) {
      job.require_running(*cta);
      std::memcpy(cta->shared->at(place), answer.words, sizeof answer.words);
      cta->shared->mark(place, sizeof answer.words, true);
      job.touch_shared(*cta->cluster, map_shared(place, cta->rank), 16, true);
      job.complete_transaction(*cta, offset, 16);
    }
  }));
}

void decode_cancel(Decoder& d) {
  MapDetail* const detail = d.detail<MapDetail>();
  d.accept({Modifier::kAsync, Modifier::kMbarrierCompleteTxBytes});
  detail->multicast = d.take(Modifier::kMulticastClusterAll);
  detail->space = take_space(d);
  d.expect(2, 2);
  detail->base = d.address(d.operand(0), &detail->offset);
  detail->second = d.address(d.operand(1), &detail->second_offset);
  d.step.run = [](Warp& warp, const Step& step, uint32_t active) {
    each_lane(active, [&](uint32_t i) { issue_cancel(warp, step, i); });
    return Outcome::kNext;
  };
}

/// choice: 0 to 2 one coordinate, 3 all, 4 is_canceled.
Outcome query_lanes(Warp& warp, const Step& step, uint32_t active) {
  const MapDetail& d = detail_of(step);
  Source high = d.value;
  ++high.slot;
  const uint64_t* const low_words = warp.read(d.value);
  const uint64_t* const high_words = warp.read(high);
  uint32_t canceled = 0;
  each_lane(active, [&](uint32_t i) {
    const uint64_t words[4] = {low_words[i] & 0xffffffffu, low_words[i] >> 32,
                               high_words[i] & 0xffffffffu, high_words[i] >> 32};
    if (words[3] != 0) canceled |= 1u << i;
    if (step.choice == 4) return;
    if (words[3] == 0) {
      stop(fault_kind_name(FaultKind::kBadOperand),
           "get_first_ctaid must not be asked of a request that failed", i);
    }
    for (size_t r = 0; r < d.slots.size(); ++r) {
      warp.row(d.slots[r])[i] = d.slots.size() == 1 ? words[step.choice] : (r < 3 ? words[r] : 0);
    }
  });
  if (step.choice == 4) write_predicate(warp, step.target, active, canceled);
  Cluster& cluster = *warp.cta->cluster;
  if (canceled != active && cluster.cancel_refused.step == 0 && clocks_of(warp) != nullptr) {
    cluster.cancel_refused = clocks_of(warp)->own_epoch(warp.global);
    cluster.cancel_refused_key = instruction_key(warp.code(), step);
  }
  return Outcome::kNext;
}

void decode_query(Decoder& d) {
  MapDetail* const detail = d.detail<MapDetail>();
  const int part =
      d.take_one({Modifier::kGetFirstCtaidX, Modifier::kGetFirstCtaidY, Modifier::kGetFirstCtaidZ,
                  Modifier::kGetFirstCtaid, Modifier::kIsCanceled});
  d.take(Modifier::kV4);
  d.expect(2, 2);
  detail->value = d.source(1, ScalarType::kB128);
  d.step.choice = static_cast<uint8_t>(part);
  const ptx::Operand& to = d.operand(0);
  if (part == 4) {
    d.step.target = d.target(to);
  } else if (to.kind == ptx::OperandKind::kVector) {
    for (const ptx::Operand& e : d.elements(to)) detail->slots.push_back(d.target(e));
  } else {
    detail->slots.push_back(d.target(to));
  }
  d.step.run = query_lanes;
}

// ---- st.bulk

Outcome zero_lanes(Warp& warp, const Step& step, uint32_t active) {
  const MapDetail& d = detail_of(step);
  uint64_t addresses[kLanes];
  effective_addresses(warp.read(d.base), d.offset, d.space != Space::kGeneric, addresses);
  const uint64_t* const size = warp.read(d.value);
  each_lane(active, [&](uint32_t i) {
    if (size[i] % 8 != 0 || size[i] > kSharedMax) {
      stop(fault_kind_name(FaultKind::kBadOperand),
           concat("st.bulk: the size must be a multiple of 8 within shared memory; got ", size[i]),
           i);
    }
    if (size[i] == 0) return;
    LaneAccess access;
    locate_lanes(warp, d.space, addresses, 1u << i, static_cast<uint32_t>(size[i]), 8, &access);
    before_write(warp, step, access, {});
    std::memset(access.at[i].data, 0, size[i]);
  });
  return Outcome::kNext;
}

void decode_zero(Decoder& d) {
  MapDetail* const detail = d.detail<MapDetail>();
  d.take(Modifier::kWeak);
  detail->space = take_space(d);
  d.expect(2, 3);
  if (d.operand_count() == 3 && d.operand(2).value != 0) d.refuse("the value must be 0");
  detail->base = d.address(d.operand(0), &detail->offset);
  detail->value = d.source(1, ScalarType::kB64);
  d.step.run = zero_lanes;
}

}  // namespace

DecodeFunction map_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kTensormapReplace:
      return decode_replace;
    case Opcode::kTensormapCpFenceproxy:
      return decode_publish;
    case Opcode::kClusterlaunchcontrolTryCancel:
      return decode_cancel;
    case Opcode::kClusterlaunchcontrolQueryCancel:
      return decode_query;
    case Opcode::kStBulk:
      return decode_zero;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
