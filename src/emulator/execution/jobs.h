// Asynchronous work as a closure, with its place in the order of accesses.
// Depends on: state.h, order.h. Used by: copies, bulk and tensor instructions.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/message.h"
#include "emulator/execution/mbarriers.h"
#include "emulator/execution/order.h"

namespace flamia::emulator::execution {

struct ActionJob : Job {
  std::function<void(ActionJob&)> action;
  AsyncWork work;
  bool ordered = false;  ///< hazards are checked

  void complete(Grid&) override { action(*this); }
  /// The CTA must still be there when the work reaches it.
  void require_running(const Cta& cta) const {
    if (cta.cluster->shared[cta.rank] != nullptr) return;
    stop("undrained", concat("CTA (", cta.id.x, ",", cta.id.y, ",", cta.id.z,
                             ") exited before asynchronous work of another CTA reached it"));
  }
  /// Records accesses of the work.
  void touch_shared(Cluster& cluster, uint32_t address, uint64_t bytes, bool write) {
    if (ordered) note_shared(cluster, OrderClocks::actor_of(work), address, bytes, write);
  }
  void touch_global(uint64_t address, uint64_t bytes, bool write) {
    if (!ordered) return;
    note_global(*warp->cta->cluster, OrderClocks::actor_of(work), address, bytes, write);
  }
  /// complete_tx on a barrier, which then carries the work.
  void complete_transaction(Cta& owner, uint32_t offset, uint32_t bytes) {
    require_running(owner);
    if (ordered) {
      SyncClock* const clock = owner.mbarriers->open_clock(offset);
      if (clock != nullptr) owner.cluster->clocks->publish(work.actor.epoch, clock);
    }
    require(owner.mbarriers->complete_tx(offset, bytes).fault, lane);
  }
};

/// pipe: the warp in whose tensor pipe the work is, if not the issuing one.
inline std::unique_ptr<ActionJob> make_job(Warp& warp, const Step& step, uint32_t lane,
                                           AccessKind kind, std::function<void(ActionJob&)> action,
                                           const Warp* pipe = nullptr) {
  auto job = std::make_unique<ActionJob>();
  job->warp = &warp;
  job->lane = lane;
  job->step = &step;
  job->code = &warp.code();
  job->action = std::move(action);
  if (OrderClocks* const clocks = clocks_of(warp); clocks != nullptr) {
    job->work = clocks->issue(warp.global, kind, instruction_key(warp.code(), step),
                              pipe == nullptr ? warp.global : pipe->global);
    job->ordered = true;
  }
  return job;
}

}  // namespace flamia::emulator::execution
