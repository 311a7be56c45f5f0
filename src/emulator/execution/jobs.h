// Asynchronous work as a closure, with its place in the order of accesses.
// Depends on: state.h, order.h. Used by: copies, bulk and tensor instructions.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "emulator/execution/mbarriers.h"
#include "emulator/execution/order.h"

namespace flamia::emulator::execution {

struct ActionJob : Job {
  std::function<void(ActionJob&)> action;
  AsyncWork work;
  bool ordered = false;  ///< hazards are checked

  void complete(Grid&) override { action(*this); }
  /// Records accesses of the work.
  void touch_shared(Cluster& cluster, uint32_t address, uint64_t bytes, bool write) {
    if (ordered) note_shared(cluster, OrderClocks::actor_of(work), address, bytes, write);
  }
  /// complete_tx on a barrier, which then carries the work.
  void complete_transaction(Cta& owner, uint32_t offset, uint32_t bytes) {
    if (ordered) {
      SyncClock* const clock = owner.mbarriers->open_clock(offset);
      if (clock != nullptr) owner.cluster->clocks->publish(work.actor.epoch, clock);
    }
    require(owner.mbarriers->complete_tx(offset, bytes).fault, lane);
  }
};

inline std::unique_ptr<ActionJob> make_job(Warp& warp, const Step& step, uint32_t lane,
                                           AccessKind kind,
                                           std::function<void(ActionJob&)> action) {
  auto job = std::make_unique<ActionJob>();
  job->warp = &warp;
  job->lane = lane;
  job->step = &step;
  job->code = &warp.code();
  job->action = std::move(action);
  if (OrderClocks* const clocks = clocks_of(warp); clocks != nullptr) {
    job->work = clocks->issue(warp.global, kind, instruction_key(warp.code(), step));
    job->ordered = true;
  }
  return job;
}

}  // namespace flamia::emulator::execution
