// The inner loop: one warp, its groups, and how they meet again.
// Groups of the deepest frame run first, then those of the smallest pc, so that the one behind
// catches up. A group that has branched back many times while others stand still lets them go on.
#include <algorithm>

#include "base/message.h"
#include "emulator/execution/register_watch.h"
#include "emulator/execution/scheduler.h"
#include "emulator/execution/trace.h"
#include "emulator/model/recorder.h"

namespace flamia::emulator::execution {
namespace {

constexpr uint32_t kPatience = 64;  ///< backward branches of one group while others wait

bool may_merge(const Group& a, const Group& b) {
  return a.frame == b.frame && a.pc == b.pc && a.wait.kind <= Wait::Kind::kMembers &&
         b.wait.kind <= Wait::Kind::kMembers;
}

void merge(Warp& warp) {
  for (size_t i = 0; i < warp.groups.size(); ++i) {
    for (size_t j = i + 1; j < warp.groups.size();) {
      Group& a = warp.groups[i];
      const Group& b = warp.groups[j];
      if (!may_merge(a, b)) {
        ++j;
        continue;
      }
      a.mask |= b.mask;
      a.turn = std::min(a.turn, b.turn);
      a.blocked = false;
      a.backward = 0;
      if (a.wait.kind == Wait::Kind::kNone) a.wait = b.wait;
      warp.groups.erase(warp.groups.begin() + static_cast<std::ptrdiff_t>(j));
    }
  }
}

bool before(const Group& a, const Group& b) {
  if (a.turn != b.turn) return a.turn < b.turn;
  if (a.frame->depth != b.frame->depth) return a.frame->depth > b.frame->depth;
  return a.pc < b.pc;
}

/// Merges and picks the group to run; false if all are blocked. *until: where the group may meet
/// another one.
bool choose(Warp& warp, uint32_t* until) {
  for (Group& group : warp.groups) {
    if (group.backward < kPatience) continue;
    group.backward = 0;
    group.turn = ++warp.turns;
  }
  merge(warp);
  const Group* best = nullptr;
  for (const Group& group : warp.groups) {
    if (!group.blocked && (best == nullptr || before(group, *best))) best = &group;
  }
  if (best == nullptr) return false;
  *until = kNoIndex;
  for (const Group& group : warp.groups) {
    if (group.frame == best->frame && group.pc > best->pc) *until = std::min(*until, group.pc);
  }
  warp.select(static_cast<uint32_t>(best - warp.groups.data()));
  return true;
}

/// Lets lanes that need not wait go on. False if the group has to wait for lanes of its warp.
bool prepare(Warp& warp, const Step& step, uint32_t active) {
  if (active != warp.group().mask) warp.split(active, warp.group().pc + 1);
  if (!step.aligned) return true;
  Wait& wait = warp.group().wait;
  if (active != warp.live) {
    if (wait.kind == Wait::Kind::kNone) wait.seen = warp.live;
    wait.kind = Wait::Kind::kAligned;
    return false;
  }
  if (wait.kind == Wait::Kind::kAligned) {
    if (wait.seen != warp.live) {
      stop("divergence", concat("lanes ", hex(wait.seen & ~warp.live),
                                " exited while others waited at an .aligned instruction"));
    }
    wait = {};
  }
  return true;
}

/// Nobody outside the warp can help groups that wait for each other's lanes.
void check_convergence(Warp& warp) {
  for (const Group& group : warp.groups) {
    if (group.wait.kind != Wait::Kind::kAligned && group.wait.kind != Wait::Kind::kMembers) return;
  }
  std::string text = "lanes wait for each other at different places:";
  for (const Group& group : warp.groups) {
    const ptx::Function& function = *group.frame->code->function;
    text +=
        concat(" lanes ", hex(group.mask), " at line ", function.instructions[group.pc].line, ";");
  }
  text.pop_back();
  stop("divergence", text);
}

}  // namespace

uint32_t run_warp(Warp& warp, uint32_t budget) {
  GridReport& report = *warp.grid().report;
  Tracer* const tracer = warp.grid().tracer;
  uint32_t done = 0, until = 0;
  bool moved = true;
  for (Group& group : warp.groups) group.blocked = false;
  while (done < budget && !warp.groups.empty()) {
    if (moved && !choose(warp, &until)) break;
    Group& group = warp.group();
    const Step& step = group.frame->code->steps[group.pc];
    // Looked up before the handler, which may leave the frame.
    model::StepCount* const counts =
        group.frame->counts != nullptr ? group.frame->counts + group.pc : nullptr;
    moved = false;
    uint32_t active = group.mask;
    if (step.guard != kNoIndex) {
      const uint32_t bits = static_cast<uint32_t>(warp.row(step.guard)[0]);
      active &= step.guard_negated ? ~bits : bits;
    }
    Outcome outcome = Outcome::kNext;
    if (active != 0) {
      if (step.blocking && !prepare(warp, step, active)) {
        outcome = Outcome::kBlocked;
      } else {
        if (step.watched) check_registers(warp, step);
        if (tracer != nullptr) tracer->before(warp, step, active);
        outcome = step.run(warp, step, active);
      }
    }
    if (outcome == Outcome::kBlocked) {
      warp.group().blocked = moved = true;
      continue;
    }
    if (tracer != nullptr && active != 0) tracer->after(warp, step, active, outcome);
    ++done;
    if (counts != nullptr) {
      ++counts->warps;
      counts->lanes += static_cast<uint32_t>(std::popcount(active));
    }
    report.lane_instructions += static_cast<uint32_t>(std::popcount(active));
    if (outcome == Outcome::kJump) {
      moved = true;
      continue;
    }
    Group& after = warp.group();
    if (step.blocking) after.wait = {};
    moved = ++after.pc >= until || step.blocking;
    if (outcome == Outcome::kYield) break;
  }
  report.warp_instructions += done;
  warp.grid().steps += done;
  if (done == 0 && !warp.groups.empty()) check_convergence(warp);
  return done;
}

}  // namespace flamia::emulator::execution
