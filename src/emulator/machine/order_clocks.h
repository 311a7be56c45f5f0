// Who is ordered after whom in one cluster: a vector clock per warp and per kind of asynchronous
// work, joined at barriers, fences and waits.
// Depends on: std only. Used by: the interpreter (which reports every synchronization here) and
// shadow.h (which asks whether one access is ordered after another).
// Warps, not threads, are the strands: what one lane observes orders its whole warp.
//
// Every strand counts its own steps. An access is the pair (strand, step); it is ordered before
// whatever has seen that step. A warp has four strands: its own instructions, its tensor pipe
// (wgmma or tcgen05.mma/cp/shift, in order), its tcgen05.ld and its tcgen05.st; a fifth place says
// which tcgen05.st others know to be issued. Bulk copies take
// slots of a pool in turn, so that the completion of one says nothing about another.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace flamia::emulator {

/// How an access reaches memory. Everything but kGeneric and kStrong is asynchronous.
enum class AccessKind : uint8_t {
  kGeneric,      ///< ordinary loads and stores
  kStrong,       ///< atomics and relaxed, acquire or release accesses: no race among themselves
  kBulk,         ///< TMA and bulk copies, async proxy
  kBulkReduce,   ///< reductions of them in global memory: no race among themselves and with atomics
  kWgmma,        ///< operand reads of wgmma, async proxy
  kTensorMma,    ///< tcgen05.mma
  kTensorCopy,   ///< tcgen05.cp
  kTensorShift,  ///< tcgen05.shift
  kTensorLoad,   ///< tcgen05.ld
  kTensorStore,  ///< tcgen05.st
  kTensorFree,   ///< tcgen05.dealloc, by a warp's own instruction
};

/// Which rules are applied where sources differ.
struct OrderRules {
  /// fence.proxy.async counts only for the writes of the warp that executes it; otherwise it also
  /// covers what that warp has observed before.
  bool writer_must_fence = true;
  /// tcgen05.fence::before/after_thread_sync are needed around synchronization; otherwise
  /// acquiring waits suffice, as public kernels assume.
  bool tensor_fences = false;
  /// Only the documented pairs of tcgen05.mma, cp and shift keep order in one pipe; otherwise all.
  bool documented_pipeline_only = false;
  /// An mbarrier needs fence.mbarrier_init (or fence.proxy.async) by the warp that initialized it
  /// before the async proxy uses it, and before a relaxed arrival at the cluster barrier carries
  /// it; otherwise the barrier alone suffices, as public kernels assume.
  bool init_fences = false;
  /// A tcgen05.ld has read its columns when it is issued; otherwise when it was waited for.
  bool loads_at_issue = false;
};

struct Epoch {
  uint32_t strand = 0;
  uint32_t step = 0;  ///< 0: nothing
};

using ClockVector = std::vector<uint32_t>;

inline constexpr uint32_t kWarpStrands = 5;  ///< places of one warp in a clock vector
/// From the strand of a warp's tcgen05.st to the place that says which of them others know of.
inline constexpr uint32_t kStoreIssued = 1;

/// What a barrier or a memory location carries from those who released into it.
struct SyncClock {
  ClockVector ordered;
  ClockVector fenced;
  ClockVector published;  ///< made visible to other CTAs by fences; often empty
  ClockVector inits;      ///< mbarrier.init that fence.mbarrier_init made visible; often empty
  void clear() {
    ordered.clear();
    fenced.clear();
    published.clear();
    inits.clear();
  }
};

/// Everything that shadow memory needs to know of one access. Vectors are copies for asynchronous
/// work (its state at issue), borrowed for a warp's own instructions.
struct Actor {
  AccessKind kind = AccessKind::kGeneric;
  uint16_t warp = 0;  ///< of the cluster: rank * warps_per_cta + warp
  Epoch epoch;
  uint32_t instruction = 0;  ///< the interpreter's index of the instruction, for reports
  const ClockVector* ordered = nullptr;
  const ClockVector* fenced = nullptr;
};

/// Asynchronous work between issue and completion; keep it until its accesses are done.
struct AsyncWork {
  Actor actor;  ///< filled by actor_of(): its pointers must follow this object
  ClockVector ordered;
  ClockVector fenced;
};

class OrderClocks {
 public:
  OrderClocks(uint32_t warps, uint32_t bulk_slots, OrderRules rules);

  // A warp's own steps.
  void release(uint32_t warp, SyncClock* into);
  void acquire(uint32_t warp, const SyncClock& from);
  /// All listed warps see each other's earlier steps (bar.sync, cluster barrier, bar.warp).
  void synchronize(const uint32_t* warps, uint32_t count);
  void fence_proxy_async(uint32_t warp);
  /// fence.acq_rel, fence.sc, membar: later strong writes carry what was done before.
  void fence_threads(uint32_t warp);
  /// A strong write, or a releasing one, of a location. False if there is nothing to carry.
  bool write_location(uint32_t warp, uint64_t address, bool releases);
  /// A strong read acquires whatever the location carries; stricter than that only silicon is.
  void read_location(uint32_t warp, uint64_t address);
  /// Somebody outside the cluster may have passed on anything that happened so far.
  void acquire_everything(uint32_t warp);
  /// fence.mbarrier_init.
  void fence_inits(uint32_t warp);
  /// A relaxed arrival: carries what fences have made visible.
  void release_relaxed(uint32_t warp, SyncClock* into);
  /// A relaxed wait: counts from the next fence on, tcgen05.fence::after_thread_sync included.
  void acquire_relaxed(uint32_t warp, const SyncClock& from);
  /// Whether the warp may use a barrier that was initialized at that step.
  bool sees_init(uint32_t warp, Epoch epoch) const;
  /// Whether the warp may hand it to the async proxy.
  bool async_sees_init(uint32_t warp, Epoch epoch) const;
  void tensor_fence_before(uint32_t warp);
  void tensor_fence_after(uint32_t warp);
  /// tcgen05.wait::ld and wait::st.
  void wait_tensor_load(uint32_t warp);
  void wait_tensor_store(uint32_t warp);
  /// The warp has waited for asynchronous work by other means than a SyncClock: wgmma.wait_group,
  /// cp.async.bulk.wait_group, cp.async.wait_group.
  void observe(uint32_t warp, Epoch epoch);
  /// Asynchronous work arrives on a barrier: complete_tx, tcgen05.commit.
  void publish(Epoch epoch, SyncClock* into) const;
  /// into also carries all that `from` carries.
  static void merge(const SyncClock& from, SyncClock* into);

  /// The warp's next access by its own instruction.
  Actor own_access(uint32_t warp, AccessKind kind, uint32_t instruction) const;
  /// Issues asynchronous work: kBulk takes a slot; the tensor kinds take the warp's pipe.
  AsyncWork issue(uint32_t warp, AccessKind kind, uint32_t instruction) {
    return issue(warp, kind, instruction, warp);
  }
  /// The same in the tensor pipe of another warp: wgmma belongs to four of them.
  AsyncWork issue(uint32_t warp, AccessKind kind, uint32_t instruction, uint32_t pipe_warp);
  /// tcgen05.dealloc: by the warp, after what it has waited for.
  AsyncWork tensor_free(uint32_t warp, uint32_t instruction) const;
  static Actor actor_of(const AsyncWork& work);
  /// The work starts only after what `earlier` carries.
  static void come_after(const SyncClock& earlier, AsyncWork* work);
  /// Epoch of the latest work in the warp's tensor pipe: what a commit now would cover.
  Epoch pipe_epoch(uint32_t warp) const;
  /// The warp's current step of its own instructions.
  Epoch own_epoch(uint32_t warp) const { return {own(warp), steps_[own(warp)]}; }
  bool has_seen(uint32_t warp, Epoch epoch) const {
    return warps_[warp].ordered[epoch.strand] >= epoch.step;
  }

  const OrderRules& rules() const { return rules_; }

 private:
  struct WarpClocks {
    ClockVector ordered;
    ClockVector fenced;  ///< own-instruction writes that are visible to the async proxy
    ClockVector tensor;  ///< what tcgen05 accesses are ordered after, with tensor_fences
    ClockVector published;
    ClockVector inits;
    SyncClock relaxed;  ///< of relaxed waits since the last fence
  };
  static uint32_t own(uint32_t warp) { return kWarpStrands * warp; }
  static uint32_t pipe(uint32_t warp) { return kWarpStrands * warp + 1; }
  static uint32_t load(uint32_t warp) { return kWarpStrands * warp + 2; }
  static uint32_t store(uint32_t warp) { return kWarpStrands * warp + 3; }
  /// Not a strand of work: who has seen that a tcgen05.st was issued.
  static uint32_t store_issued(uint32_t warp) { return store(warp) + kStoreIssued; }
  void wait_tensor(uint32_t warp, uint32_t strand);
  void settle_relaxed(uint32_t warp);

  OrderRules rules_;
  uint32_t strands_;
  uint32_t first_slot_;
  uint32_t slots_;
  uint32_t next_slot_ = 0;
  std::vector<WarpClocks> warps_;
  ClockVector steps_;  ///< latest step of every strand
  std::unordered_map<uint64_t, SyncClock> locations_;
};

}  // namespace flamia::emulator
