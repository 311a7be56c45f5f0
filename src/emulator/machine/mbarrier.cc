// Phase, arrival and transaction arithmetic of mbarriers.
// Used by: see mbarrier.h.
#include "emulator/machine/mbarrier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/message.h"

namespace flamia::emulator {
namespace {

constexpr uint64_t kMark = uint64_t{2} << 62;
constexpr uint64_t kMarkMask = uint64_t{3} << 62;
constexpr uint64_t kCountMask = (1u << 20) - 1;

Fault barrier_fault(uint32_t offset, std::string text) {
  return make_fault(FaultKind::kBarrier,
                    concat("mbarrier at shared offset ", hex(offset), ": ", std::move(text)),
                    offset);
}

}  // namespace

uint64_t encode_mbarrier(const MbarrierState& state) {
  const uint64_t tx = static_cast<uint64_t>(state.tx) & ((1u << 21) - 1);
  return kMark | (state.parity ? uint64_t{1} << 61 : 0) | tx << 40 |
         static_cast<uint64_t>(state.expected) << 20 | state.pending;
}

bool decode_mbarrier(uint64_t word, MbarrierState* state) {
  state->pending = static_cast<uint32_t>(word & kCountMask);
  state->expected = static_cast<uint32_t>((word >> 20) & kCountMask);
  const uint32_t tx = static_cast<uint32_t>((word >> 40) & ((1u << 21) - 1));
  state->tx = static_cast<int32_t>(tx << 11) >> 11;
  state->parity = (word >> 61 & 1u) != 0;
  return (word & kMarkMask) == kMark;
}

Fault MbarrierTable::find(uint32_t offset, Record** record) {
  if (offset % 8 != 0) {
    return make_fault(FaultKind::kMisaligned,
                      concat("mbarrier address must be a multiple of 8; got ", hex(offset)),
                      offset);
  }
  if (!shared_->contains(offset, 8)) {
    return make_fault(FaultKind::kOutOfBounds,
                      concat("mbarrier at shared offset ", hex(offset), " is outside the CTA"),
                      offset);
  }
  const auto it = records_.find(offset);
  if (it == records_.end()) return barrier_fault(offset, "used without mbarrier.init");
  uint64_t word = 0;
  std::memcpy(&word, shared_->at(offset), 8);
  if (word != it->second.word) {
    return barrier_fault(
        offset,
        concat("overwritten by an ordinary store since its last use; its bytes are ", hex(word)));
  }
  *record = &it->second;
  return {};
}

void MbarrierTable::store(uint32_t offset, Record* record) {
  record->word = encode_mbarrier(record->state);
  std::memcpy(shared_->at(offset), &record->word, 8);
}

Fault MbarrierTable::init(uint32_t offset, uint32_t count) {
  if (offset % 8 != 0) {
    return make_fault(FaultKind::kMisaligned,
                      concat("mbarrier address must be a multiple of 8; got ", hex(offset)),
                      offset);
  }
  if (!shared_->contains(offset, 8)) {
    return make_fault(FaultKind::kOutOfBounds,
                      concat("mbarrier at shared offset ", hex(offset), " is outside the CTA"),
                      offset);
  }
  if (count < 1 || count > kMbarrierMaxCount) {
    return barrier_fault(offset, concat("count must be 1 to ", kMbarrierMaxCount, "; got ", count));
  }
  if (records_.count(offset) != 0) {
    uint64_t word = 0;
    std::memcpy(&word, shared_->at(offset), 8);
    if (word == records_[offset].word) {
      return barrier_fault(offset, "initialized again without mbarrier.inval");
    }
  }
  Record record;
  record.state = {count, count, 0, false};
  store(offset, &record);
  shared_->mark(offset, 8, true);
  records_[offset] = std::move(record);
  return {};
}

Fault MbarrierTable::invalidate(uint32_t offset) {
  Record* record = nullptr;
  Fault fault = find(offset, &record);
  if (!fault.ok()) return fault;
  records_.erase(offset);
  shared_->mark(offset, 8, false);
  return {};
}

Fault MbarrierTable::settle(uint32_t offset, Record* record, bool* completed) {
  MbarrierState& state = record->state;
  if (state.pending != 0) return {};
  if (state.tx < 0 && !bytes_may_precede_) {
    return barrier_fault(offset, concat("phase ", record->phase, ": ", -state.tx,
                                        " bytes completed that nothing expected"));
  }
  if (state.tx != 0) return {};
  // The phase that ends must not be the second one that nobody waited for: parity cannot tell
  // it from its predecessor.
  if (record->phase > record->observed) {
    return barrier_fault(offset, concat("phase overrun: phase ", record->phase,
                                        " completes before any test observed that phase ",
                                        record->phase - 1, " did"));
  }
  ++record->phase;
  state.parity = !state.parity;
  state.pending = state.expected;
  record->completed = std::move(record->open);
  record->open.clear();
  *completed = true;
  return {};
}

MbarrierOutcome MbarrierTable::apply(uint32_t offset, int64_t tx, uint32_t arrivals, bool drop,
                                     bool no_complete) {
  MbarrierOutcome outcome;
  Record* record = nullptr;
  outcome.fault = find(offset, &record);
  if (!outcome.fault.ok()) return outcome;
  MbarrierState& state = record->state;
  outcome.token = record->word;
  const int64_t sum = state.tx + tx;
  if (sum > kMbarrierMaxTx || sum < -kMbarrierMaxTx) {
    outcome.fault = barrier_fault(
        offset, concat("transaction count must stay within +-", kMbarrierMaxTx, "; got ", sum));
    return outcome;
  }
  state.tx = static_cast<int32_t>(sum);
  if (arrivals > state.pending) {
    outcome.fault =
        barrier_fault(offset, concat("phase ", record->phase, ": arrivals must not exceed the ",
                                     state.pending, " that are pending; got ", arrivals));
    return outcome;
  }
  if (no_complete && arrivals == state.pending && state.tx == 0) {
    outcome.fault = barrier_fault(offset, "arrive.noComplete completes the phase");
    return outcome;
  }
  state.pending -= arrivals;
  if (drop) state.expected -= std::min(arrivals, state.expected);
  outcome.fault = settle(offset, record, &outcome.completed);
  store(offset, record);
  return outcome;
}

MbarrierOutcome MbarrierTable::arrive(uint32_t offset, uint32_t count, bool drop,
                                      bool no_complete) {
  if (count < 1 || count > kMbarrierMaxCount) {
    MbarrierOutcome outcome;
    outcome.fault = barrier_fault(
        offset, concat("arrive count must be 1 to ", kMbarrierMaxCount, "; got ", count));
    return outcome;
  }
  return apply(offset, 0, count, drop, no_complete);
}

MbarrierOutcome MbarrierTable::expect_tx(uint32_t offset, uint32_t bytes) {
  return apply(offset, bytes, 0, false, false);
}

MbarrierOutcome MbarrierTable::complete_tx(uint32_t offset, uint32_t bytes) {
  return apply(offset, -static_cast<int64_t>(bytes), 0, false, false);
}

MbarrierOutcome MbarrierTable::arrive_expect_tx(uint32_t offset, uint32_t bytes, uint32_t count,
                                                bool drop) {
  return apply(offset, bytes, count, drop, false);
}

MbarrierOutcome MbarrierTable::add_pending(uint32_t offset) {
  MbarrierOutcome outcome;
  Record* record = nullptr;
  outcome.fault = find(offset, &record);
  if (!outcome.fault.ok()) return outcome;
  outcome.token = record->word;
  if (record->state.pending >= kMbarrierMaxCount) {
    outcome.fault =
        barrier_fault(offset, concat("pending count must not exceed ", kMbarrierMaxCount));
    return outcome;
  }
  ++record->state.pending;
  store(offset, record);
  return outcome;
}

MbarrierOutcome MbarrierTable::test_token(uint32_t offset, uint64_t token) {
  MbarrierState state;
  if (!decode_mbarrier(token, &state)) {
    MbarrierOutcome outcome;
    outcome.fault =
        barrier_fault(offset, concat("state must come from an arrive; got ", hex(token)));
    return outcome;
  }
  return test_parity(offset, state.parity ? 1 : 0);
}

MbarrierOutcome MbarrierTable::test_parity(uint32_t offset, uint32_t parity) {
  MbarrierOutcome outcome;
  Record* record = nullptr;
  if (parity > 1) {
    outcome.fault = barrier_fault(offset, concat("phase parity must be 0 or 1; got ", parity));
    return outcome;
  }
  outcome.fault = find(offset, &record);
  if (!outcome.fault.ok()) return outcome;
  outcome.done = (parity != 0) != record->state.parity;
  // A test that succeeds has seen the phase before the current one; a test that fails has seen that
  // the current one is open, which shows as much.
  record->observed = record->phase;
  return outcome;
}

uint32_t MbarrierTable::pending_count(uint64_t token) {
  return static_cast<uint32_t>(token & kCountMask);
}

void MbarrierTable::set_origin(uint32_t offset, const Origin& origin) {
  const auto it = records_.find(offset);
  if (it != records_.end()) it->second.origin = origin;
}

MbarrierTable::Origin MbarrierTable::origin(uint32_t offset) const {
  const auto it = records_.find(offset);
  return it == records_.end() ? Origin{} : it->second.origin;
}

SyncClock* MbarrierTable::open_clock(uint32_t offset) {
  const auto it = records_.find(offset);
  return it == records_.end() ? nullptr : &it->second.open;
}

const SyncClock* MbarrierTable::completed_clock(uint32_t offset) const {
  const auto it = records_.find(offset);
  return it == records_.end() ? nullptr : &it->second.completed;
}

uint64_t MbarrierTable::phase(uint32_t offset) const {
  const auto it = records_.find(offset);
  return it == records_.end() ? 0 : it->second.phase;
}

bool MbarrierTable::overlaps(uint32_t offset, uint64_t bytes, uint32_t* barrier) const {
  const uint64_t end = offset + bytes;
  for (uint64_t at = offset & ~7u; at < end; at += 8) {
    if (records_.count(static_cast<uint32_t>(at)) != 0) {
      *barrier = static_cast<uint32_t>(at);
      return true;
    }
  }
  return false;
}

std::string MbarrierTable::describe(uint32_t offset) const {
  const auto it = records_.find(offset);
  if (it == records_.end()) return "no barrier";
  const MbarrierState& state = it->second.state;
  std::string text = concat("phase ", it->second.phase, ", ", state.pending, " of ", state.expected,
                            " arrivals pending, ");
  return text + (state.tx >= 0 ? concat(state.tx, " bytes expected")
                               : concat(-state.tx, " bytes too many"));
}

std::vector<uint32_t> MbarrierTable::unbalanced() const {
  std::vector<uint32_t> offsets;
  for (const auto& [offset, record] : records_) {
    if (record.state.tx != 0) offsets.push_back(offset);
  }
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

}  // namespace flamia::emulator
