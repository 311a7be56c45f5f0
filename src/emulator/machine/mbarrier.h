// mbarrier objects of one CTA: phases, arrivals and transaction bytes, with the misuses of PTX
// detected. Depends on: memory.h (the eight bytes), order_clocks.h (what a phase carries).
// Used by: the interpreter and the asynchronous engines, which call these functions in program or
// completion order; the functions never block.
//
// The object in shared memory holds the whole countable state, in an encoding of our own; the side
// table holds the phase number, what was observed, and the clocks. A word in memory that differs
// from the table was overwritten by something else.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/machine/fault.h"
#include "emulator/machine/memory.h"
#include "emulator/machine/order_clocks.h"

namespace flamia::emulator {

inline constexpr uint32_t kMbarrierMaxCount = (1u << 20) - 1;
inline constexpr int64_t kMbarrierMaxTx = (int64_t{1} << 20) - 1;

struct MbarrierState {
  uint32_t pending = 0;   ///< arrivals that the current phase still needs
  uint32_t expected = 0;  ///< arrivals of the next phase
  int32_t tx = 0;         ///< bytes expected less bytes completed
  bool parity = false;    ///< of the current phase
};
/// The eight bytes: count fields, parity, and a mark that plain data hardly ever have.
uint64_t encode_mbarrier(const MbarrierState& state);
/// False if the bytes are no barrier.
bool decode_mbarrier(uint64_t word, MbarrierState* state);

struct MbarrierOutcome {
  Fault fault;
  uint64_t token = 0;      ///< of arrive: the state before it
  bool done = false;       ///< of a test: the phase asked for is complete
  bool completed = false;  ///< this operation completed a phase
};

class MbarrierTable {
 public:
  /// bytes_may_precede: a phase that has all arrivals and more bytes than were expected stays open,
  /// as on silicon, for an expect_tx that comes later; otherwise it is a fault.
  MbarrierTable(SharedMemory* shared, bool bytes_may_precede)
      : shared_(shared), bytes_may_precede_(bytes_may_precede) {}

  Fault init(uint32_t offset, uint32_t count);
  /// Who initialized a barrier, for those who use it.
  struct Origin {
    Epoch epoch;  ///< step 0: unknown
    uint32_t warp = 0;
    uint32_t instruction = 0;
  };
  void set_origin(uint32_t offset, const Origin& origin);
  Origin origin(uint32_t offset) const;
  Fault invalidate(uint32_t offset);
  /// arrive (drop: arrive_drop; no_complete: it must not complete the phase).
  MbarrierOutcome arrive(uint32_t offset, uint32_t count, bool drop = false,
                         bool no_complete = false);
  MbarrierOutcome expect_tx(uint32_t offset, uint32_t bytes);
  MbarrierOutcome complete_tx(uint32_t offset, uint32_t bytes);
  MbarrierOutcome arrive_expect_tx(uint32_t offset, uint32_t bytes, uint32_t count = 1,
                                   bool drop = false);
  /// One more arrival in the current phase (cp.async.mbarrier.arrive without .noinc).
  MbarrierOutcome add_pending(uint32_t offset);
  /// test_wait and try_wait by the token of an arrive, and by parity.
  MbarrierOutcome test_token(uint32_t offset, uint64_t token);
  MbarrierOutcome test_parity(uint32_t offset, uint32_t parity);
  /// mbarrier.pending_count.
  static uint32_t pending_count(uint64_t token);

  /// Clock that arrivals and completions of the current phase release into.
  SyncClock* open_clock(uint32_t offset);
  /// Clock of the last completed phase, for those whose test succeeded.
  const SyncClock* completed_clock(uint32_t offset) const;
  /// Number of the current phase, from 0; 0 for no barrier.
  uint64_t phase(uint32_t offset) const;

  /// First live barrier that overlaps a range: an ordinary store there is misuse.
  bool overlaps(uint32_t offset, uint64_t bytes, uint32_t* barrier) const;
  /// "phase 3, 1 of 2 arrivals pending, 512 bytes expected" for deadlock reports.
  std::string describe(uint32_t offset) const;
  /// Barriers whose transaction bytes are not balanced, for the report at exit.
  std::vector<uint32_t> unbalanced() const;

 private:
  struct Record {
    uint64_t word = 0;
    uint64_t phase = 0;
    uint64_t observed = 0;  ///< phases below this number have been seen complete
    MbarrierState state;
    Origin origin;
    SyncClock open;
    SyncClock completed;
  };
  Fault find(uint32_t offset, Record** record);
  void store(uint32_t offset, Record* record);
  /// Completes the phase if nothing is missing.
  Fault settle(uint32_t offset, Record* record, bool* completed);
  MbarrierOutcome apply(uint32_t offset, int64_t tx, uint32_t arrivals, bool drop,
                        bool no_complete);

  SharedMemory* shared_;
  bool bytes_may_precede_;
  std::unordered_map<uint32_t, Record> records_;
};

}  // namespace flamia::emulator
