// Vector clocks of the warps of one cluster and of their asynchronous work.
// Used by: see order_clocks.h.
#include "emulator/machine/order_clocks.h"

#include <algorithm>

#include "base/check.h"

namespace flamia::emulator {
namespace {

void join(ClockVector* into, const ClockVector& from) {
  if (into->size() < from.size()) into->resize(from.size(), 0);
  uint32_t* a = into->data();
  const uint32_t* b = from.data();
  for (size_t i = 0; i < from.size(); ++i) a[i] = std::max(a[i], b[i]);
}

}  // namespace

OrderClocks::OrderClocks(uint32_t warps, uint32_t bulk_slots, OrderRules rules)
    : rules_(rules),
      strands_(kWarpStrands * warps + bulk_slots),
      first_slot_(kWarpStrands * warps),
      slots_(bulk_slots),
      warps_(warps),
      steps_(strands_, 0) {
  FLAMIA_CHECK(warps > 0 && bulk_slots > 0 && strands_ < 65536, warps, " ", bulk_slots);
  for (uint32_t w = 0; w < warps; ++w) {
    warps_[w].ordered.assign(strands_, 0);
    warps_[w].fenced.assign(strands_, 0);
    if (rules_.tensor_fences) warps_[w].tensor.assign(strands_, 0);
    steps_[own(w)] = 1;
    warps_[w].ordered[own(w)] = 1;
  }
}

void OrderClocks::release(uint32_t warp, SyncClock* into) {
  WarpClocks& clocks = warps_[warp];
  join(&into->ordered, clocks.ordered);
  join(&into->fenced, clocks.fenced);
  join(&into->published, clocks.published);
  join(&into->inits, clocks.inits);
  clocks.ordered[own(warp)] = ++steps_[own(warp)];
}

void OrderClocks::acquire(uint32_t warp, const SyncClock& from) {
  WarpClocks& clocks = warps_[warp];
  join(&clocks.ordered, from.ordered);
  join(&clocks.fenced, from.fenced);
  join(&clocks.published, from.published);
  join(&clocks.inits, from.inits);
}

void OrderClocks::merge(const SyncClock& from, SyncClock* into) {
  join(&into->ordered, from.ordered);
  join(&into->fenced, from.fenced);
  join(&into->published, from.published);
  join(&into->inits, from.inits);
}

void OrderClocks::settle_relaxed(uint32_t warp) {
  SyncClock& relaxed = warps_[warp].relaxed;
  if (relaxed.ordered.empty()) return;
  acquire(warp, relaxed);
  relaxed.clear();
}

void OrderClocks::fence_threads(uint32_t warp) {
  settle_relaxed(warp);
  WarpClocks& clocks = warps_[warp];
  join(&clocks.published, clocks.ordered);
  clocks.ordered[own(warp)] = ++steps_[own(warp)];
}

bool OrderClocks::write_location(uint32_t warp, uint64_t address, bool releases) {
  const WarpClocks& clocks = warps_[warp];
  if (releases) {
    release(warp, &locations_[address]);
    return true;
  }
  if (clocks.published.empty()) return false;
  SyncClock& location = locations_[address];
  join(&location.ordered, clocks.published);
  join(&location.fenced, clocks.fenced);
  join(&location.published, clocks.published);
  return true;
}

void OrderClocks::read_location(uint32_t warp, uint64_t address) {
  const auto it = locations_.find(address);
  if (it != locations_.end()) acquire(warp, it->second);
}

void OrderClocks::acquire_everything(uint32_t warp) {
  join(&warps_[warp].ordered, steps_);
  join(&warps_[warp].fenced, steps_);
}

void OrderClocks::fence_inits(uint32_t warp) {
  WarpClocks& clocks = warps_[warp];
  clocks.inits.resize(strands_, 0);
  clocks.inits[own(warp)] = clocks.ordered[own(warp)];
  clocks.ordered[own(warp)] = ++steps_[own(warp)];
}

void OrderClocks::release_relaxed(uint32_t warp, SyncClock* into) {
  WarpClocks& clocks = warps_[warp];
  join(&into->inits, clocks.inits);
  if (!rules_.init_fences) {
    join(&into->inits, clocks.ordered);
    clocks.ordered[own(warp)] = ++steps_[own(warp)];
  }
  if (clocks.published.empty()) return;
  join(&into->ordered, clocks.published);
  join(&into->published, clocks.published);
  join(&into->fenced, clocks.fenced);
}

void OrderClocks::acquire_relaxed(uint32_t warp, const SyncClock& from) {
  merge(from, &warps_[warp].relaxed);
}

bool OrderClocks::sees_init(uint32_t warp, Epoch epoch) const {
  const ClockVector& inits = warps_[warp].inits;
  return has_seen(warp, epoch) ||
         (epoch.strand < inits.size() && inits[epoch.strand] >= epoch.step);
}

void OrderClocks::synchronize(const uint32_t* warps, uint32_t count) {
  SyncClock all;
  for (uint32_t i = 0; i < count; ++i) release(warps[i], &all);
  for (uint32_t i = 0; i < count; ++i) acquire(warps[i], all);
}

void OrderClocks::fence_proxy_async(uint32_t warp) {
  WarpClocks& clocks = warps_[warp];
  if (rules_.writer_must_fence) {
    clocks.fenced[own(warp)] = clocks.ordered[own(warp)];
  } else {
    for (uint32_t w = 0; w < warps_.size(); ++w) {
      clocks.fenced[own(w)] = std::max(clocks.fenced[own(w)], clocks.ordered[own(w)]);
    }
  }
  clocks.ordered[own(warp)] = ++steps_[own(warp)];
}

void OrderClocks::wait_tensor(uint32_t warp, uint32_t strand) {
  WarpClocks& clocks = warps_[warp];
  if (rules_.tensor_fences) {
    clocks.tensor[strand] = steps_[strand];
  } else {
    clocks.ordered[strand] = steps_[strand];
  }
}

void OrderClocks::wait_tensor_load(uint32_t warp) { wait_tensor(warp, load(warp)); }
void OrderClocks::wait_tensor_store(uint32_t warp) { wait_tensor(warp, store(warp)); }

void OrderClocks::tensor_fence_before(uint32_t warp) {
  if (!rules_.tensor_fences) return;
  WarpClocks& clocks = warps_[warp];
  for (const uint32_t strand : {pipe(warp), load(warp), store(warp)}) {
    clocks.ordered[strand] = std::max(clocks.ordered[strand], clocks.tensor[strand]);
  }
}

void OrderClocks::tensor_fence_after(uint32_t warp) {
  settle_relaxed(warp);
  if (rules_.tensor_fences) join(&warps_[warp].tensor, warps_[warp].ordered);
}

void OrderClocks::observe(uint32_t warp, Epoch epoch) {
  uint32_t& seen = warps_[warp].ordered[epoch.strand];
  seen = std::max(seen, epoch.step);
}

void OrderClocks::publish(Epoch epoch, SyncClock* into) const {
  if (into->ordered.size() < strands_) into->ordered.resize(strands_, 0);
  into->ordered[epoch.strand] = std::max(into->ordered[epoch.strand], epoch.step);
}

Actor OrderClocks::own_access(uint32_t warp, AccessKind kind, uint32_t instruction) const {
  const WarpClocks& clocks = warps_[warp];
  return {kind,
          static_cast<uint16_t>(warp),
          {own(warp), steps_[own(warp)]},
          instruction,
          &clocks.ordered,
          &clocks.fenced};
}

bool OrderClocks::async_sees_init(uint32_t warp, Epoch epoch) const {
  const WarpClocks& clocks = warps_[warp];
  return !rules_.init_fences || clocks.fenced[epoch.strand] >= epoch.step ||
         (epoch.strand < clocks.inits.size() && clocks.inits[epoch.strand] >= epoch.step);
}

AsyncWork OrderClocks::issue(uint32_t warp, AccessKind kind, uint32_t instruction,
                             uint32_t pipe_warp) {
  uint32_t strand = pipe(pipe_warp);
  if (kind == AccessKind::kBulk || kind == AccessKind::kBulkReduce) {
    strand = first_slot_ + next_slot_;
    next_slot_ = (next_slot_ + 1) % slots_;
  } else if (kind == AccessKind::kTensorLoad) {
    strand = load(warp);
  } else if (kind == AccessKind::kTensorStore) {
    strand = store(warp);
  }
  AsyncWork work;
  WarpClocks& clocks = warps_[warp];
  const bool tensor = kind >= AccessKind::kTensorMma;
  work.ordered = tensor && rules_.tensor_fences ? clocks.tensor : clocks.ordered;
  if (tensor && rules_.tensor_fences) {
    // The warp's own program order and what other kinds of access need stay as they are.
    for (uint32_t w = 0; w < warps_.size(); ++w) work.ordered[own(w)] = clocks.ordered[own(w)];
    for (uint32_t s = first_slot_; s < strands_; ++s) work.ordered[s] = clocks.ordered[s];
  }
  work.fenced = clocks.fenced;
  work.actor = {
      kind, static_cast<uint16_t>(warp), {strand, ++steps_[strand]}, instruction, nullptr, nullptr};
  if (kind == AccessKind::kTensorStore) clocks.ordered[store_issued(warp)] = steps_[strand];
  if (kind == AccessKind::kTensorLoad && rules_.loads_at_issue) {
    clocks.ordered[strand] = steps_[strand];
  }
  clocks.ordered[own(warp)] =
      ++steps_[own(warp)];  // what the warp does next is not before the work
  return work;
}

AsyncWork OrderClocks::tensor_free(uint32_t warp, uint32_t instruction) const {
  AsyncWork work;
  work.actor = own_access(warp, AccessKind::kTensorFree, instruction);
  work.ordered = warps_[warp].ordered;
  join(&work.ordered, warps_[warp].tensor);
  return work;
}

void OrderClocks::come_after(const SyncClock& earlier, AsyncWork* work) {
  join(&work->ordered, earlier.ordered);
  join(&work->fenced, earlier.fenced);
}

Actor OrderClocks::actor_of(const AsyncWork& work) {
  Actor actor = work.actor;
  actor.ordered = &work.ordered;
  actor.fenced = &work.fenced;
  return actor;
}

Epoch OrderClocks::pipe_epoch(uint32_t warp) const { return {pipe(warp), steps_[pipe(warp)]}; }

}  // namespace flamia::emulator
