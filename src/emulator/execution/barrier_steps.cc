// barrier and bar (named barriers), barrier.cluster, fences.
// Depends on: state.h, order.h. Threads are counted by whole warps, as the hardware does for
// .aligned forms; warps that have exited no longer count at barriers without a thread count.
#include "base/message.h"
#include "emulator/execution/control.h"
#include "emulator/execution/lanes.h"
#include "emulator/execution/order.h"

namespace flamia::emulator::execution {
namespace {

enum class BarrierKind : uint8_t { kSync, kArrive, kReduce };
enum class Reduction : uint8_t { kAnd, kOr, kPopc };

struct BarrierDetail : Detail {
  BarrierKind kind = BarrierKind::kSync;
  Reduction reduction = Reduction::kAnd;
  bool whole = true;  ///< no thread count
  bool negated = false;
  bool to_predicate = false;
};

void complete(Cta& cta, NamedBarrier* barrier) {
  ++cta.cluster->grid->activity;
  if (OrderClocks* const clocks = cta.cluster->clocks.get(); clocks != nullptr) {
    clocks->synchronize(barrier->warps.data(), static_cast<uint32_t>(barrier->warps.size()));
  }
  ++barrier->generation;
  barrier->last_all = barrier->all;
  barrier->last_any = barrier->any;
  barrier->last_count = barrier->count;
  barrier->expected = barrier->arrived = 0;
  barrier->all = 1;
  barrier->any = barrier->count = 0;
  barrier->warps.clear();
}

uint32_t uniform(Warp& warp, const Source& source, uint32_t active, const char* what) {
  const uint64_t* const row = warp.read(source);
  const uint32_t first = first_lane(active);
  each_lane(active, [&](uint32_t i) {
    if (row[i] != row[first]) {
      stop(fault_kind_name(FaultKind::kBadOperand),
           concat(what, " must be the same in all lanes; got ", row[first], " and ", row[i]), i);
    }
  });
  return static_cast<uint32_t>(row[first]);
}

/// Counts the threads of a group in; the first arrival of a phase sets what is expected.
void arrive(Warp& warp, const Step& step, const BarrierDetail& d, uint32_t id, uint32_t active) {
  Cta& cta = *warp.cta;
  NamedBarrier& barrier = cta.barriers[id];
  uint32_t expected = cta.live_warps * kLanes;
  if (!d.whole) {
    expected = uniform(warp, step.source[1], active, "the thread count");
    if (expected == 0 || expected % kLanes != 0) {
      stop(fault_kind_name(FaultKind::kBadOperand),
           concat("the thread count of a barrier must be a multiple of 32; got ", expected));
    }
  }
  if (barrier.arrived == 0) {
    barrier.expected = expected;
    barrier.whole = d.whole;
  } else if (barrier.whole != d.whole || barrier.expected != expected) {
    stop(fault_kind_name(FaultKind::kBarrier),
         concat("barrier ", id, " must have one thread count; got ", expected, " after ",
                barrier.expected));
  }
  // A partial warp counts as a whole one; a diverged .sync without .aligned counts its lanes.
  const bool full = active == warp.live;
  barrier.arrived += full ? kLanes : static_cast<uint32_t>(std::popcount(active));
  barrier.warps.push_back(warp.global);
  if (d.kind == BarrierKind::kReduce) {
    uint32_t bits = read_predicate(warp, step.source[2]);
    if (d.negated) bits = ~bits;
    bits &= active;
    if (bits != active) barrier.all = 0;
    if (bits != 0) barrier.any = 1;
    barrier.count += static_cast<uint32_t>(std::popcount(bits));
  }
  ++warp.grid().activity;
  if (barrier.arrived > barrier.expected) {
    stop(fault_kind_name(FaultKind::kBarrier), concat("barrier ", id, " expects ", barrier.expected,
                                                      " threads; ", barrier.arrived, " arrived"));
  }
  if (barrier.arrived == barrier.expected) complete(cta, &barrier);
}

void deliver(Warp& warp, const Step& step, const BarrierDetail& d, const NamedBarrier& barrier,
             uint32_t active) {
  const uint32_t value = d.reduction == Reduction::kAnd  ? barrier.last_all
                         : d.reduction == Reduction::kOr ? barrier.last_any
                                                         : barrier.last_count;
  if (d.to_predicate) {
    write_predicate(warp, step.target, active, value != 0 ? kAllLanes : 0);
    return;
  }
  uint64_t* const out = warp.row(step.target);
  each_lane(active, [&](uint32_t i) { out[i] = value; });
}

Outcome barrier_lanes(Warp& warp, const Step& step, uint32_t active) {
  const auto& d = static_cast<const BarrierDetail&>(*step.detail);
  Wait& wait = warp.group().wait;
  if (wait.kind != Wait::Kind::kBarrier) {
    const uint32_t id = uniform(warp, step.source[0], active, "the barrier");
    if (id >= kNamedBarriers) {
      stop(fault_kind_name(FaultKind::kBadOperand),
           concat("the barrier must be below ", kNamedBarriers, "; got ", id));
    }
    const uint64_t generation = warp.cta->barriers[id].generation;
    arrive(warp, step, d, id, active);
    if (d.kind == BarrierKind::kArrive) return Outcome::kNext;
    wait.kind = Wait::Kind::kBarrier;
    wait.a = id;
    wait.b = generation;
  }
  const NamedBarrier& barrier = warp.cta->barriers[wait.a];
  if (barrier.generation == wait.b) return Outcome::kBlocked;
  if (d.kind == BarrierKind::kReduce) deliver(warp, step, d, barrier, active);
  wait = {};
  return Outcome::kNext;
}

BarrierKind kind_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::kBarArrive:
    case Opcode::kBarrierArrive:
    case Opcode::kBarrierCtaArrive:
      return BarrierKind::kArrive;
    case Opcode::kBarRed:
    case Opcode::kBarrierRed:
    case Opcode::kBarrierCtaRed:
      return BarrierKind::kReduce;
    default:
      return BarrierKind::kSync;
  }
}

void decode_barrier(Decoder& d) {
  BarrierDetail* const detail = d.detail<BarrierDetail>();
  detail->kind = kind_of(d.in.opcode);
  const bool old = d.in.opcode == Opcode::kBarSync || d.in.opcode == Opcode::kBarArrive ||
                   d.in.opcode == Opcode::kBarRed;
  d.step.aligned = d.take(Modifier::kAligned) || old;
  d.step.blocking = true;
  uint32_t place = 0, end = d.operand_count();
  if (detail->kind == BarrierKind::kReduce) {
    detail->reduction =
        static_cast<Reduction>(d.take_one({Modifier::kAnd, Modifier::kOr, Modifier::kPopc}, 0));
    detail->to_predicate = detail->reduction != Reduction::kPopc;
    d.step.target = d.target(place++);
    ptx::Operand predicate = d.operand(--end);
    detail->negated = predicate.negated;
    predicate.negated = false;
    d.step.source[2] = d.source(predicate, ScalarType::kPred);
  }
  d.step.source[0] = d.source(place++, ScalarType::kU32);
  detail->whole = place >= end;
  if (!detail->whole) d.step.source[1] = d.source(place++, ScalarType::kU32);
  if (place != end) d.refuse("too many operands");
  d.step.run = barrier_lanes;
}

// ---- Clusters

void complete_cluster(Cluster& cluster) {
  ++cluster.generation;
  cluster.arrived = 0;
  cluster.barrier_last = cluster.barrier_open;
  cluster.barrier_open.clear();
  ++cluster.grid->activity;
}

Outcome cluster_arrive(Warp& warp, const Step& step, uint32_t active) {
  Cluster& cluster = *warp.cta->cluster;
  const uint32_t mark = static_cast<uint32_t>(cluster.generation) + 1;
  each_lane(active, [&](uint32_t i) {
    if (warp.cluster_arrived[i] == mark) {
      stop(fault_kind_name(FaultKind::kBarrier),
           "barrier.cluster.arrive must be followed by a wait before the next arrive", i);
    }
    warp.cluster_arrived[i] = mark;
  });
  cluster.arrived += static_cast<uint32_t>(std::popcount(active));
  OrderClocks* const clocks = cluster.clocks.get();
  if (clocks != nullptr && step.choice == 0) clocks->release(warp.global, &cluster.barrier_open);
  if (clocks != nullptr && step.choice == 1) {
    clocks->release_relaxed(warp.global, &cluster.barrier_open);
  }
  ++warp.grid().activity;
  settle_cluster_barrier(cluster);
  return Outcome::kNext;
}

Outcome cluster_wait(Warp& warp, const Step&, uint32_t active) {
  Cluster& cluster = *warp.cta->cluster;
  Wait& wait = warp.group().wait;
  bool ready = true;
  each_lane(active, [&](uint32_t i) {
    if (warp.cluster_arrived[i] == 0) {
      stop(fault_kind_name(FaultKind::kBarrier),
           "barrier.cluster.wait must follow an arrive of the same thread", i);
    }
    ready &= warp.cluster_arrived[i] <= cluster.generation;
  });
  if (!ready) {
    wait.kind = Wait::Kind::kCluster;
    return Outcome::kBlocked;
  }
  each_lane(active, [&](uint32_t i) { warp.cluster_arrived[i] = 0; });
  if (cluster.clocks != nullptr) cluster.clocks->acquire(warp.global, cluster.barrier_last);
  wait = {};
  return Outcome::kNext;
}

void decode_cluster(Decoder& d) {
  d.step.aligned = d.take(Modifier::kAligned);
  d.step.choice = d.take_one({Modifier::kRelease, Modifier::kRelaxed, Modifier::kAcquire}) == 1;
  d.expect(0, 0);
  d.step.blocking = true;
  d.step.run = d.in.opcode == Opcode::kBarrierClusterArrive ? cluster_arrive : cluster_wait;
}

// ---- Fences

enum class FenceKind : uint8_t { kNone, kThreads, kProxyAsync, kInits };

/// Accesses happen in order here; only the proxies matter to the hazard check.
Outcome fence_lanes(Warp& warp, const Step& step, uint32_t) {
  OrderClocks* const clocks = clocks_of(warp);
  if (clocks == nullptr) return Outcome::kNext;
  switch (static_cast<FenceKind>(step.choice)) {
    case FenceKind::kNone:
      break;
    case FenceKind::kThreads:
      clocks->fence_threads(warp.global);
      break;
    case FenceKind::kProxyAsync:
      clocks->fence_proxy_async(warp.global);
      break;
    case FenceKind::kInits:
      clocks->fence_inits(warp.global);
      break;
  }
  return Outcome::kNext;
}

void decode_fence(Decoder& d) {
  d.accept({Modifier::kCta, Modifier::kCluster, Modifier::kGpu, Modifier::kSys, Modifier::kGl,
            Modifier::kSc, Modifier::kAcqRel, Modifier::kAcquire, Modifier::kRelease,
            Modifier::kSyncRestrictSharedCta, Modifier::kSyncRestrictSharedCluster,
            Modifier::kGlobal, Modifier::kSharedCta, Modifier::kSharedCluster, Modifier::kAlias,
            Modifier::kTensormapGeneric, Modifier::kAsyncGeneric, Modifier::kTensormap});
  FenceKind kind = FenceKind::kNone;
  if (d.in.opcode == Opcode::kFence || d.in.opcode == Opcode::kMembar) kind = FenceKind::kThreads;
  if (d.in.opcode == Opcode::kFenceMbarrierInit) kind = FenceKind::kInits;
  if (d.take(Modifier::kAsync)) kind = FenceKind::kProxyAsync;
  d.step.choice = static_cast<uint8_t>(kind);
  d.step.run = fence_lanes;
}

}  // namespace

void settle_barriers(Cta& cta) {
  for (NamedBarrier& barrier : cta.barriers) {
    if (barrier.arrived == 0 || !barrier.whole) continue;
    barrier.expected = cta.live_warps * kLanes;
    if (barrier.arrived >= barrier.expected) complete(cta, &barrier);
  }
}

void settle_cluster_barrier(Cluster& cluster) {
  if (cluster.live_threads != 0 && cluster.arrived == cluster.live_threads) {
    complete_cluster(cluster);
  }
}

DecodeFunction barrier_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kBarSync:
    case Opcode::kBarArrive:
    case Opcode::kBarRed:
    case Opcode::kBarrierSync:
    case Opcode::kBarrierArrive:
    case Opcode::kBarrierRed:
    case Opcode::kBarrierCtaSync:
    case Opcode::kBarrierCtaArrive:
    case Opcode::kBarrierCtaRed:
      return decode_barrier;
    case Opcode::kBarrierClusterArrive:
    case Opcode::kBarrierClusterWait:
      return decode_cluster;
    case Opcode::kMembar:
    case Opcode::kFence:
    case Opcode::kFenceProxy:
    case Opcode::kFenceMbarrierInit:
      return decode_fence;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
