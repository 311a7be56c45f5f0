// What a running grid consists of: clusters of CTAs of warps, groups of lanes that run together,
// and the frames of their calls.
// Depends on: step.h, machine memories. Used by: handlers and the scheduler.
// Groups. The live lanes of a warp are divided among groups; a group has one pc and one frame.
// Groups of one frame that reach the same pc become one again.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/emulator.h"
#include "emulator/execution/step.h"
#include "emulator/execution/trap_error.h"
#include "emulator/machine/mbarrier.h"
#include "emulator/machine/memory.h"
#include "emulator/machine/order_clocks.h"
#include "emulator/machine/shadow.h"
#include "emulator/machine/tensor_memory.h"

namespace flamia::emulator::model {
class Recorder;
struct StepCount;
}  // namespace flamia::emulator::model

namespace flamia::emulator::execution {

inline constexpr uint32_t kLanes = 32;
inline constexpr uint32_t kAllLanes = ~uint32_t{0};
inline constexpr uint32_t kNamedBarriers = 16;

struct Cta;
struct Cluster;
struct Grid;
class Tracer;

/// Why a group does not go on; what `a` and `b` mean is up to the instruction.
struct Wait {
  enum class Kind : uint8_t {
    kNone,
    kAligned,    ///< other lanes of the warp are elsewhere
    kMembers,    ///< lanes of a membermask are elsewhere
    kBarrier,    ///< a: barrier, b: its generation
    kMbarrier,   ///< a: shared address, b: parity or token
    kCluster,    ///< b: generation
    kCopies,     ///< asynchronous copies of this thread
    kMatrix,     ///< the other warps of a warp group, or matrix instructions
    kRegisters,  ///< setmaxnreg
    kTensor,     ///< columns of tensor memory
  };
  Kind kind = Kind::kNone;
  uint32_t rounds = 0;  ///< how often it was tried
  uint32_t seen = 0;    ///< kAligned: lanes that lived when the wait began
  uint64_t a = 0;
  uint64_t b = 0;
};

/// What asynchronous instructions do with a register; see register_watch.h.
struct RegisterState {
  uint64_t matrix = 0;       ///< serial of the wgmma that uses it
  bool accumulator = false;  ///< of that wgmma; otherwise A
  uint32_t matrix_key = 0;   ///< that wgmma
  uint64_t written = 0;      ///< number of wgmma.fence before the last ordinary write, plus 1
  uint32_t written_key = 0;
  Epoch load;  ///< of the tcgen05.ld that fills it; step 0: none
};

/// Values of one call: registers of all lanes, and parameter memory per lane.
struct Frame : std::enable_shared_from_this<Frame> {
  const Code* code = nullptr;
  Frame* caller = nullptr;
  const Step* call = nullptr;  ///< the call instruction of the caller
  uint32_t return_pc = 0;
  uint32_t depth = 0;
  uint32_t lanes = 0;  ///< that have not returned
  uint32_t local_base = 0;
  uint64_t stack_bytes = 0;            ///< of one lane, with those of the callers
  model::StepCount* counts = nullptr;  ///< of this function and warp; null: not counted
  std::vector<uint64_t> registers;
  std::vector<uint8_t> parameters;   ///< [lane][Function::parameter_bytes]
  std::vector<uint8_t> returns;      ///< [lane][return_bytes]
  std::vector<uint8_t> arguments;    ///< [lane][call_parameter_bytes]
  std::vector<RegisterState> watch;  ///< [slot], if the code has watched registers
  uint64_t* row(uint32_t slot) { return registers.data() + size_t{slot} * kLanes; }
};

struct Group {
  uint32_t mask = 0;
  uint32_t pc = 0;
  Frame* frame = nullptr;
  bool blocked = false;
  uint32_t backward = 0;  ///< backward branches since the last turn
  uint64_t turn = 0;      ///< groups with a smaller number run first
  Wait wait;
};

/// One cp.async of one lane.
struct LaneCopy {
  uint32_t lane = 0;
  uint32_t group = 0;  ///< number of the commit group of the lane
  uint32_t bytes = 0;
  uint32_t source_bytes = 0;
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t serial = 0;
  const Step* step = nullptr;
  uint32_t key = 0;  ///< of the instruction; the warp may be elsewhere when the copy lands
};

struct Job;

/// One bulk store: where it reads, until its source has been read.
struct BulkStore {
  Job* job = nullptr;  ///< null: complete
  uint32_t from = 0;   ///< shared address
  uint32_t bytes = 0;
  Epoch epoch;                         ///< of the reads of its source
  AsyncWork write;                     ///< its writes to global memory, which end later
  std::shared_ptr<SharedMemory> read;  ///< the source as it was, once it has been read
};

/// Bulk operations of one commit group of one thread.
struct BulkGroup {
  std::vector<std::shared_ptr<BulkStore>> stores;
};

/// A wgmma that waits for the other warps of its warp group, or for the adversary.
struct PendingMatrix {
  const Step* step = nullptr;
  std::shared_ptr<Frame> frame;  ///< whose function may have returned since
  uint64_t serial = 0;
  std::shared_ptr<SyncClock> before;  ///< what this warp's part is ordered after; null: unchecked
};

struct Warp {
  Cta* cta = nullptr;
  uint32_t index = 0;   ///< in the CTA
  uint32_t global = 0;  ///< in the cluster, as the clocks count
  uint32_t started = 0;
  uint32_t live = 0;
  std::vector<Group> groups;
  uint32_t current = 0;
  uint64_t* registers = nullptr;  ///< of the current frame
  std::vector<std::shared_ptr<Frame>> frames;
  uint64_t turns = 0;
  std::array<ByteBank, kLanes> local;
  std::array<MemoryView, kLanes> views;
  uint32_t register_count = 0;  ///< as setmaxnreg counts, per thread
  bool registers_set = false;   ///< by setmaxnreg; until then the count is an estimate
  uint64_t carry[kLanes] = {};  ///< CC.CF
  // Asynchronous state.
  std::deque<LaneCopy> copies;
  std::array<uint32_t, kLanes> copy_group{};
  uint64_t copy_serial = 0;
  std::deque<PendingMatrix> matrices;  ///< wgmma in order of issue
  uint64_t matrix_serial = 0;
  std::vector<uint64_t> matrix_groups;                   ///< last serial of each committed group
  uint64_t matrix_done = 0;                              ///< serials below or equal are complete
  uint64_t matrix_waited = 0;                            ///< and these were waited for
  uint64_t matrix_fences = 0;                            ///< wgmma.fence executed
  std::deque<std::pair<uint64_t, Epoch>> matrix_epochs;  ///< by serial, not yet waited for
  std::array<std::shared_ptr<BulkGroup>, kLanes> bulk_open;  ///< not yet committed
  std::array<std::deque<std::shared_ptr<BulkGroup>>, kLanes> bulk_groups;
  std::array<uint32_t, kLanes> cluster_arrived{};  ///< generation + 1 of the lane's last arrive

  Group& group() { return groups[current]; }
  const Code& code() { return *groups[current].frame->code; }
  uint64_t* row(uint32_t slot) const { return registers + size_t{slot} * kLanes; }
  const uint64_t* read(const Source& source) const {
    return source.constant != nullptr ? source.constant : row(source.slot);
  }
  void select(uint32_t index_of_group) {
    current = index_of_group;
    registers = groups[current].frame->registers.data();
  }
  /// The current group keeps `mask`; its other lanes become a group at `pc`.
  void split(uint32_t mask, uint32_t pc);
  Grid& grid() const;
  /// A frame for the lanes of a call, its hidden rows filled.
  Frame* enter(const Code& code, Frame* caller, uint32_t lanes);
  void leave(Frame* frame);
};

struct NamedBarrier {
  uint32_t expected = 0;  ///< threads; 0: nobody has come yet
  bool whole = false;     ///< all threads of the CTA, less those that exited
  uint32_t arrived = 0;
  uint64_t generation = 0;
  uint32_t all = 1, any = 0, count = 0;  ///< reductions of the open phase
  uint32_t last_all = 0, last_any = 0, last_count = 0;
  std::vector<uint32_t> warps;  ///< that arrived in the open phase
};

struct Cta {
  Cluster* cluster = nullptr;
  uint32_t rank = 0;
  ptx::Dim3 id;
  uint32_t serial = 0;  ///< linear index in the grid
  uint32_t sm = 0;
  std::unique_ptr<SharedMemory> shared;
  std::unique_ptr<MbarrierTable> mbarriers;
  bool committed = false;  ///< nothing entered its tensor pipe after the last commit
  std::unique_ptr<TensorMemory> tensor;
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<NamedBarrier, kNamedBarriers> barriers;
  uint32_t live_warps = 0;
  uint32_t pool_registers = 0;    ///< free for setmaxnreg.inc, of the whole CTA
  uint32_t tensor_jobs = 0;       ///< issued, not complete
  uint32_t tensor_alloc_key = 0;  ///< the latest tcgen05.alloc
  bool tensor_relinquished = false;
};

/// A store that may race with another one of the same value.
struct PendingStore {
  const uint8_t* word = nullptr;
  uint8_t before[4] = {};
  std::string text;  ///< of the hazard
};

inline constexpr uint32_t kManyWriters = ~uint32_t{0};

struct Cluster {
  Grid* grid = nullptr;
  uint32_t number = 0;  ///< linear index in the grid
  ptx::Dim3 id;
  std::vector<std::unique_ptr<Cta>> ctas;
  std::vector<SharedMemory*> shared;
  uint32_t live_ctas = 0;
  // barrier.cluster
  uint64_t generation = 0;
  uint32_t arrived = 0;
  uint32_t live_threads = 0;
  SyncClock barrier_open, barrier_last;
  std::unique_ptr<OrderClocks> clocks;  ///< null: hazards are not checked
  std::unique_ptr<Shadow> shadow;
  std::unique_ptr<Shadow> tensor_shadow;
  std::unique_ptr<Shadow> global_shadow;
  PendingStore pending_store;
  Epoch cancel_refused;  ///< when somebody first saw a launch request fail
  uint32_t cancel_refused_key = 0;
};

/// Asynchronous work in flight. Runs once, when the adversary says so.
struct Job {
  Warp* warp = nullptr;  ///< that issued it
  uint32_t lane = 0;
  const Step* step = nullptr;
  const Code* code = nullptr;
  uint64_t queue = 0;    ///< jobs of one queue complete in order; 0: any order
  uint32_t delay = 0;    ///< rounds
  bool drained = false;  ///< needs nothing of its CTA any more
  bool stores = false;   ///< only reads shared memory of its CTA
  bool joins = false;    ///< completes together with the one before it in its queue
  virtual ~Job() = default;
  virtual void complete(Grid& grid) = 0;
};

struct Grid {
  const MachineOptions* options = nullptr;
  Program* program = nullptr;
  const GridRequest* request = nullptr;
  const ptx::Function* entry = nullptr;
  GlobalMemory* memory = nullptr;
  ByteBank parameters;
  GridReport* report = nullptr;
  Tracer* tracer = nullptr;             ///< null: no trace
  model::Recorder* recorder = nullptr;  ///< null: nothing is counted
  uint64_t random_state = 0;
  ptx::Dim3 clusters;  ///< of the grid
  ptx::Dim3 cluster_dim;
  uint64_t next_cluster = 0;  ///< how many have started
  uint64_t cluster_count = 0;
  std::vector<uint32_t> wave;  ///< order of the clusters that would fit at a time; empty: by number
  std::vector<std::unique_ptr<Cluster>> resident;
  std::vector<bool> sm_busy;  ///< places for CTAs; more than SMs for a cooperative grid
  uint64_t sms = 1;
  std::deque<std::unique_ptr<Job>> jobs;
  uint64_t activity = 0;  ///< changes whenever somebody's wait may have ended
  uint64_t steps = 0;     ///< warp instructions
  bool expire = false;    ///< bounded waits end now
  uint64_t register_budget = 65536;
  /// Location to cluster + 1 that released into it, or kManyWriters.
  std::unordered_map<uint64_t, uint32_t> location_writers;
  uint32_t tensor_group = 0;      ///< .cta_group of the kernel's tcgen05 instructions, once known
  uint32_t tensor_group_key = 0;  ///< the first of them

  uint64_t random();
  uint32_t random_below(uint32_t limit) { return static_cast<uint32_t>(random() % limit); }
  /// Number of the cluster that starts next; there must be one. Only clusters of one wave change
  /// places: a program may count on those far before its own having started.
  uint64_t take_cluster();
  /// A free place for a CTA.
  uint32_t take_sm();
  /// CTAs of a cluster.
  uint64_t cluster_size() const { return uint64_t{cluster_dim.x} * cluster_dim.y * cluster_dim.z; }
  /// Clusters that run at a time.
  uint64_t most_resident() const { return std::max<uint64_t>(1, sm_busy.size() / cluster_size()); }
  /// Queues work; with the early adversary it completes at once.
  void issue(std::unique_ptr<Job> job);
  ptx::Dim3 block() const { return request->block; }
  uint32_t threads() const { return request->block.x * request->block.y * request->block.z; }
};

inline Grid& Warp::grid() const { return *cta->cluster->grid; }

/// Lane number of the lowest bit; mask is not zero.
inline uint32_t first_lane(uint32_t mask) { return static_cast<uint32_t>(std::countr_zero(mask)); }

/// Calls body(lane) for every lane of the mask.
template <typename Body>
void each_lane(uint32_t mask, Body body) {
  for (; mask != 0; mask &= mask - 1) body(first_lane(mask));
}

}  // namespace flamia::emulator::execution
