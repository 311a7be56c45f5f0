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
      strands_(4 * warps + bulk_slots),
      first_slot_(4 * warps),
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
  clocks.ordered[own(warp)] = ++steps_[own(warp)];
}

void OrderClocks::acquire(uint32_t warp, const SyncClock& from) {
  join(&warps_[warp].ordered, from.ordered);
  join(&warps_[warp].fenced, from.fenced);
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

AsyncWork OrderClocks::issue(uint32_t warp, AccessKind kind, uint32_t instruction) {
  uint32_t strand = pipe(warp);
  if (kind == AccessKind::kBulk) {
    strand = first_slot_ + next_slot_;
    next_slot_ = (next_slot_ + 1) % slots_;
  } else if (kind == AccessKind::kTensorLoad) {
    strand = load(warp);
  } else if (kind == AccessKind::kTensorStore) {
    strand = store(warp);
  }
  AsyncWork work;
  const WarpClocks& clocks = warps_[warp];
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
  return work;
}

Actor OrderClocks::actor_of(const AsyncWork& work) {
  Actor actor = work.actor;
  actor.ordered = &work.ordered;
  actor.fenced = &work.fenced;
  return actor;
}

Epoch OrderClocks::pipe_epoch(uint32_t warp) const { return {pipe(warp), steps_[pipe(warp)]}; }

}  // namespace flamia::emulator
