// Rounds over all warps in an order that the adversary picks; asynchronous work between them.
// A round without a step means that everybody waits: then work in flight completes, bounded waits
// expire, and if nothing helps the grid is deadlocked.
#include "emulator/execution/scheduler.h"

#include <algorithm>

#include "base/message.h"
#include "emulator/execution/debugger.h"
#include "emulator/execution/order.h"
#include "emulator/execution/trace.h"
#include "emulator/kernel_name.h"
#include "emulator/ptx/text.h"

namespace flamia::emulator::execution {
namespace {

constexpr uint32_t kLongestTurn = 96;   ///< instructions of one warp before the next runs
constexpr uint32_t kLatestRounds = 96;  ///< of asynchronous work, if others keep running
constexpr uint32_t kMostExpiries = 4;   ///< rounds of expired waits without effect: deadlock

class Scheduler {
 public:
  explicit Scheduler(Grid* grid) : grid_(*grid) {}
  void run();

 private:
  void admit();
  void collect();
  bool run_round();
  bool advance_jobs(bool stuck);
  void finish_job(size_t index);
  void resolve_stuck();
  void retire();
  void check_watchdog() const;
  void report_trap(const TrapError& error);
  std::string place_of(const TrapError& error) const;

  Grid& grid_;
  std::vector<Warp*> warps_;
  const Warp* running_ = nullptr;
  std::unique_ptr<Job> job_;  ///< that completes now
  uint64_t expiry_activity_ = ~uint64_t{0};
  uint32_t expiries_ = 0;
};

void Scheduler::admit() {
  const uint64_t most = grid_.most_resident();
  while (grid_.next_cluster < grid_.cluster_count && grid_.resident.size() < most) {
    grid_.resident.push_back(make_cluster(grid_, grid_.take_cluster()));
    ++grid_.activity;
  }
}

void Scheduler::collect() {
  warps_.clear();
  for (const auto& cluster : grid_.resident) {
    for (const auto& cta : cluster->ctas) {
      for (const auto& warp : cta->warps) {
        if (warp->live != 0) warps_.push_back(warp.get());
      }
    }
  }
  for (size_t i = warps_.size(); i > 1; --i) {
    std::swap(warps_[i - 1], warps_[grid_.random_below(static_cast<uint32_t>(i))]);
  }
}

bool Scheduler::run_round() {
  bool moved = false;
  for (Warp* const warp : warps_) {
    if (warp->live == 0) continue;
    running_ = warp;
    if (run_warp(*warp, 1 + grid_.random_below(kLongestTurn)) != 0) moved = true;
  }
  running_ = nullptr;
  return moved;
}

void Scheduler::finish_job(size_t index) {
  job_ = std::move(grid_.jobs[index]);
  grid_.jobs.erase(grid_.jobs.begin() + static_cast<std::ptrdiff_t>(index));
  if (grid_.tracer != nullptr) grid_.tracer->completes(grid_, *job_);
  job_->complete(grid_);
  const uint64_t queue = job_->queue;
  job_ = nullptr;
  ++grid_.activity;
  for (; queue != 0 && index < grid_.jobs.size(); ++index) {
    if (grid_.jobs[index]->queue != queue) continue;
    if (grid_.jobs[index]->joins) finish_job(index);
    return;
  }
}

/// Completes what is due; if everybody waits, one more. True if something completed.
bool Scheduler::advance_jobs(bool stuck) {
  bool completed = false;
  for (size_t i = 0; i < grid_.jobs.size();) {
    Job& job = *grid_.jobs[i];
    if (job.delay > 0) --job.delay;
    bool first = true;
    for (size_t j = 0; j < i && job.queue != 0; ++j) first &= grid_.jobs[j]->queue != job.queue;
    if (job.delay == 0 && first) {
      finish_job(i);
      completed = true;
    } else {
      ++i;
    }
  }
  if (completed || !stuck || grid_.jobs.empty()) return completed;
  // Any job that is the first of its queue.
  std::vector<size_t> ready;
  for (size_t i = 0; i < grid_.jobs.size(); ++i) {
    bool first = true;
    for (size_t j = 0; j < i && grid_.jobs[i]->queue != 0; ++j) {
      first &= grid_.jobs[j]->queue != grid_.jobs[i]->queue;
    }
    if (first) ready.push_back(i);
  }
  finish_job(ready[grid_.random_below(static_cast<uint32_t>(ready.size()))]);
  return true;
}

void Scheduler::resolve_stuck() {
  if (expiry_activity_ != grid_.activity) {
    expiry_activity_ = grid_.activity;
    expiries_ = 0;
  }
  bool bounded = false;
  for (const Warp* const warp : warps_) {
    for (const Group& group : warp->groups) bounded |= group.wait.kind == Wait::Kind::kMbarrier;
  }
  if (!bounded || expiries_ == kMostExpiries) {
    stop("deadlock", concat("no warp can go on:\n", describe_waits(grid_)));
  }
  ++expiries_;
  grid_.expire = true;
  run_round();
  grid_.expire = false;
}

void Scheduler::retire() {
  for (size_t i = 0; i < grid_.resident.size();) {
    Cluster* const cluster = grid_.resident[i].get();
    bool busy = cluster->live_ctas != 0;
    for (const auto& job : grid_.jobs) busy |= job->warp->cta->cluster == cluster;
    if (busy) {
      ++i;
      continue;
    }
    for (const auto& cta : cluster->ctas) grid_.sm_busy[cta->sm] = false;
    grid_.resident.erase(grid_.resident.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Scheduler::check_watchdog() const {
  const uint64_t limit = grid_.options->watchdog_steps;
  if (limit == 0 || grid_.steps <= limit) return;
  stop("watchdog", concat("the grid must end within ", limit, " warp instructions; it executed ",
                          grid_.steps, "\n", describe_waits(grid_)));
}

std::string Scheduler::place_of(const TrapError& error) const {
  std::string text = concat("kernel ", short_kernel_name(grid_.entry->name));
  const Warp* const warp = job_ != nullptr ? job_->warp : running_;
  if (warp == nullptr) return text;
  const ptx::Dim3& id = warp->cta->id;
  text += concat(", CTA (", id.x, ",", id.y, ",", id.z, "), warp ", warp->index);
  const uint32_t lane = job_ != nullptr ? job_->lane : error.lane;
  if (lane != kNoLane) text += concat(", lane ", lane);
  const Code* code = nullptr;
  uint32_t index = 0;
  if (job_ != nullptr) {
    code = job_->code;
    index = job_->step->instruction;
  } else if (warp->current < warp->groups.size()) {
    const Group& group = warp->groups[warp->current];
    code = group.frame->code;
    index = group.pc;
  }
  if (code != nullptr) {
    if (code->function != grid_.entry) text += concat(", function ", code->function->name);
    text += concat(", ", instruction_text(grid_, code->index << 20 | index));
    if (job_ != nullptr) text += " (when it completed)";
  }
  return text;
}

void Scheduler::report_trap(const TrapError& error) {
  grid_.report->traps.push_back({error.kind, concat(place_of(error), ": ", error.text)});
  const Trap& trap = grid_.report->traps.back();
  if (grid_.tracer != nullptr) grid_.tracer->trap(concat(trap.kind, ": ", trap.text));
  flamia_vgpu_trap(trap.kind.c_str(), trap.text.c_str());
}

void Scheduler::run() {
  try {
    for (;;) {
      admit();
      if (grid_.resident.empty()) break;
      collect();
      const bool moved = run_round();
      check_watchdog();
      const bool completed = advance_jobs(!moved);
      if (!moved && !completed && !warps_.empty()) resolve_stuck();
      retire();
    }
  } catch (const TrapError& error) {
    report_trap(error);
  }
}

const char* wait_name(Wait::Kind kind) {
  switch (kind) {
    case Wait::Kind::kNone:
      return "can run";
    case Wait::Kind::kAligned:
      return "waits for the other lanes of its warp (.aligned)";
    case Wait::Kind::kMembers:
      return "waits for lanes of its membermask";
    case Wait::Kind::kBarrier:
      return "waits at barrier ";
    case Wait::Kind::kMbarrier:
      return "waits for mbarrier ";
    case Wait::Kind::kCluster:
      return "waits at the cluster barrier";
    case Wait::Kind::kCopies:
      return "waits for asynchronous copies";
    case Wait::Kind::kMatrix:
      return "waits for wgmma of its warp group";
    case Wait::Kind::kRegisters:
      return "waits for registers (setmaxnreg)";
    case Wait::Kind::kTensor:
      return "waits for columns of tensor memory";
  }
  return "";
}

std::string wait_text(const Warp& warp, const Group& group) {
  const Wait& wait = group.wait;
  std::string text = wait_name(wait.kind);
  const Cta& cta = *warp.cta;
  if (wait.kind == Wait::Kind::kBarrier) {
    const NamedBarrier& barrier = cta.barriers[wait.a];
    text += concat(wait.a, ": ", barrier.arrived, " of ", barrier.expected, " threads arrived");
  } else if (wait.kind == Wait::Kind::kMbarrier) {
    const uint32_t address = static_cast<uint32_t>(wait.a);
    text += hex(address);
    const auto& ctas = cta.cluster->ctas;
    if (shared_rank(address) < ctas.size()) {
      text += concat(" (", ctas[shared_rank(address)]->mbarriers->describe(shared_offset(address)),
                     ")");
    }
  } else if (wait.kind == Wait::Kind::kCluster) {
    text +=
        concat(": ", cta.cluster->arrived, " of ", cta.cluster->live_threads, " threads arrived");
  } else if (wait.kind == Wait::Kind::kRegisters) {
    text += concat(": needs ", wait.a, ", free ", wait.b);
  }
  return text;
}

}  // namespace

void Grid::issue(std::unique_ptr<Job> job) {
  ++activity;
  if (job->joins && std::none_of(jobs.begin(), jobs.end(), [&](const std::unique_ptr<Job>& other) {
        return other->queue == job->queue;
      })) {
    if (tracer != nullptr) tracer->completes(*this, *job);
    return job->complete(*this);
  }
  switch (options->adversary) {
    case Adversary::kEarly:
      job->delay = 1;
      break;
    case Adversary::kLate:
      job->delay = kLatestRounds;
      break;
    case Adversary::kRandom:
      job->delay = 1 + random_below(random_below(8) == 0 ? kLatestRounds : 6);
      break;
  }
  jobs.push_back(std::move(job));
}

void run_grid(Grid& grid) {
  const DebuggedGrid debugged(&grid);
  Scheduler(&grid).run();
}

std::string describe_waits(const Grid& grid) {
  constexpr uint32_t kMostLines = 64;
  std::string text;
  uint32_t lines = 0, left = 0;
  for (const auto& cluster : grid.resident) {
    for (const auto& cta : cluster->ctas) {
      for (const auto& warp : cta->warps) {
        for (const Group& group : warp->groups) {
          if (lines == kMostLines) {
            ++left;
            continue;
          }
          ++lines;
          text +=
              concat("  CTA (", cta->id.x, ",", cta->id.y, ",", cta->id.z, ") warp ", warp->index,
                     " lanes ", hex(group.mask), " ", wait_text(*warp, group), ", ",
                     instruction_text(grid, group.frame->code->index << 20 | group.pc), "\n");
        }
      }
    }
  }
  if (left != 0) text += concat("  and ", left, " more\n");
  if (!grid.jobs.empty()) text += concat("  ", grid.jobs.size(), " asynchronous operations\n");
  return text;
}

}  // namespace flamia::emulator::execution
