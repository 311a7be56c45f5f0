// Phases, transactions and misuse of mbarriers.
#include <gtest/gtest.h>

#include <cstring>

#include "emulator/machine/mbarrier.h"

namespace flamia::emulator::test {
namespace {

constexpr uint32_t kAt = kSharedReserved + 64;

struct Barrier {
  SharedMemory shared{1024};
  MbarrierTable table;
  explicit Barrier(uint32_t count, bool bytes_may_precede = true)
      : table(&shared, bytes_may_precede) {
    EXPECT_TRUE(table.init(kAt, count).ok());
  }
};

TEST(Mbarrier, EncodingRoundTrips) {
  for (const MbarrierState state :
       {MbarrierState{1, 2, -5, true}, MbarrierState{0, kMbarrierMaxCount, 0, false},
        MbarrierState{7, 7, (1 << 20) - 1, true}, MbarrierState{7, 7, -(1 << 20) + 1, false}}) {
    MbarrierState back;
    ASSERT_TRUE(decode_mbarrier(encode_mbarrier(state), &back));
    EXPECT_EQ(back.pending, state.pending);
    EXPECT_EQ(back.expected, state.expected);
    EXPECT_EQ(back.tx, state.tx);
    EXPECT_EQ(back.parity, state.parity);
  }
  MbarrierState zero;
  EXPECT_FALSE(decode_mbarrier(0, &zero));
}

TEST(Mbarrier, AFreshBarrierPassesParityOneAndBlocksParityZero) {
  Barrier b(2);
  EXPECT_TRUE(b.table.test_parity(kAt, 1).done);
  EXPECT_FALSE(b.table.test_parity(kAt, 0).done);
}

TEST(Mbarrier, ThePhaseEndsWithTheLastArrival) {
  Barrier b(3);
  const MbarrierOutcome first = b.table.arrive(kAt, 2);
  EXPECT_FALSE(first.completed);
  EXPECT_EQ(MbarrierTable::pending_count(first.token), 3u);
  EXPECT_FALSE(b.table.test_token(kAt, first.token).done);
  EXPECT_TRUE(b.table.arrive(kAt, 1).completed);
  EXPECT_TRUE(b.table.test_token(kAt, first.token).done);
  EXPECT_TRUE(b.table.test_parity(kAt, 0).done);
  EXPECT_FALSE(b.table.test_parity(kAt, 1).done);
  EXPECT_EQ(b.table.phase(kAt), 1u);
}

TEST(Mbarrier, BytesKeepThePhaseOpenInEitherOrder) {
  Barrier b(1);
  EXPECT_FALSE(b.table.arrive_expect_tx(kAt, 512).completed);
  EXPECT_FALSE(b.table.complete_tx(kAt, 256).completed);
  EXPECT_TRUE(b.table.complete_tx(kAt, 256).completed);
  EXPECT_TRUE(b.table.test_parity(kAt, 0).done);
  // Data before its expectation: legal while an arrival is pending.
  EXPECT_TRUE(b.table.complete_tx(kAt, 128).fault.ok());
  EXPECT_TRUE(b.table.arrive_expect_tx(kAt, 128).completed);
}

TEST(Mbarrier, BytesThatPrecedeTheirExpectationKeepThePhaseOpen) {
  Barrier b(1);
  EXPECT_TRUE(b.table.complete_tx(kAt, 64).fault.ok());
  const MbarrierOutcome arrived = b.table.arrive(kAt, 1);
  EXPECT_TRUE(arrived.fault.ok()) << arrived.fault.text;
  EXPECT_FALSE(arrived.completed);
  EXPECT_FALSE(b.table.test_parity(kAt, 0).done);
  EXPECT_EQ(b.table.unbalanced().size(), 1u);
  EXPECT_EQ(b.table.describe(kAt), "phase 0, 0 of 1 arrivals pending, 64 bytes too many");
  EXPECT_FALSE(b.table.expect_tx(kAt, 32).completed);
  EXPECT_EQ(b.table.arrive(kAt, 1).fault.kind, FaultKind::kBarrier);
  EXPECT_TRUE(b.table.expect_tx(kAt, 32).completed);
  EXPECT_TRUE(b.table.test_parity(kAt, 0).done);
  EXPECT_TRUE(b.table.unbalanced().empty());
}

TEST(Mbarrier, BytesThatNothingExpectedAreReportedByStrictRules) {
  Barrier b(1, false);
  EXPECT_TRUE(b.table.complete_tx(kAt, 64).fault.ok());
  const MbarrierOutcome outcome = b.table.arrive(kAt, 1);
  EXPECT_EQ(outcome.fault.kind, FaultKind::kBarrier);
  EXPECT_NE(outcome.fault.text.find("64 bytes completed that nothing expected"), std::string::npos)
      << outcome.fault.text;
  EXPECT_EQ(b.table.unbalanced().size(), 1u);
}

TEST(Mbarrier, TransactionCountsHaveLimits) {
  Barrier b(1);
  EXPECT_TRUE(b.table.expect_tx(kAt, (1 << 20) - 1).fault.ok());
  EXPECT_EQ(b.table.expect_tx(kAt, 1).fault.kind, FaultKind::kBarrier);
}

TEST(Mbarrier, MoreArrivalsThanPendingAreReported) {
  Barrier b(2);
  EXPECT_EQ(b.table.arrive(kAt, 3).fault.kind, FaultKind::kBarrier);
  EXPECT_EQ(b.table.arrive(kAt, 0).fault.kind, FaultKind::kBarrier);
}

TEST(Mbarrier, DropLowersTheNextPhase) {
  Barrier b(2);
  EXPECT_TRUE(b.table.arrive(kAt, 1, true).fault.ok());
  EXPECT_TRUE(b.table.arrive(kAt, 1).completed);
  EXPECT_TRUE(b.table.test_parity(kAt, 0).done);
  EXPECT_TRUE(b.table.arrive(kAt, 1).completed);
}

TEST(Mbarrier, NoCompleteMustNotComplete) {
  Barrier b(2);
  EXPECT_TRUE(b.table.arrive(kAt, 1, false, true).fault.ok());
  EXPECT_EQ(b.table.arrive(kAt, 1, false, true).fault.kind, FaultKind::kBarrier);
}

TEST(Mbarrier, AsyncCopyArrivalsAddAPendingOne) {
  Barrier b(1);
  EXPECT_TRUE(b.table.add_pending(kAt).fault.ok());
  EXPECT_FALSE(b.table.arrive(kAt, 1).completed);
  EXPECT_TRUE(b.table.arrive(kAt, 1).completed);
}

TEST(Mbarrier, ASecondPhaseThatNobodyWaitedForIsAnOverrun) {
  Barrier b(1);
  EXPECT_TRUE(b.table.arrive(kAt, 1).fault.ok());
  const MbarrierOutcome second = b.table.arrive(kAt, 1);
  EXPECT_EQ(second.fault.kind, FaultKind::kBarrier);
  EXPECT_NE(second.fault.text.find("overrun"), std::string::npos) << second.fault.text;
}

TEST(Mbarrier, WaitingBetweenPhasesIsNoOverrun) {
  Barrier b(1);
  for (uint32_t phase = 0; phase < 10; ++phase) {
    EXPECT_TRUE(b.table.arrive(kAt, 1).fault.ok());
    EXPECT_TRUE(b.table.test_parity(kAt, phase & 1u).done);
  }
}

TEST(Mbarrier, UseWithoutInitAndAfterInvalIsReported) {
  SharedMemory shared(1024);
  MbarrierTable table(&shared, true);
  EXPECT_EQ(table.arrive(kAt, 1).fault.kind, FaultKind::kBarrier);
  EXPECT_TRUE(table.init(kAt, 1).ok());
  EXPECT_EQ(table.init(kAt, 1).kind, FaultKind::kBarrier);
  EXPECT_TRUE(table.invalidate(kAt).ok());
  EXPECT_EQ(table.test_parity(kAt, 0).fault.kind, FaultKind::kBarrier);
  EXPECT_EQ(table.init(kAt + 4, 1).kind, FaultKind::kMisaligned);
  EXPECT_EQ(table.init(kAt, 0).kind, FaultKind::kBarrier);
  EXPECT_EQ(table.init(kSharedReserved + 1024, 1).kind, FaultKind::kOutOfBounds);
}

TEST(Mbarrier, AnOrdinaryStoreOverItIsDetected) {
  Barrier b(1);
  uint32_t found = 0;
  EXPECT_TRUE(b.table.overlaps(kAt + 4, 4, &found));
  EXPECT_EQ(found, kAt);
  EXPECT_FALSE(b.table.overlaps(kAt + 8, 64, &found));
  std::memset(b.shared.at(kAt + 4), 0x11, 4);
  const MbarrierOutcome outcome = b.table.arrive(kAt, 1);
  EXPECT_NE(outcome.fault.text.find("overwritten"), std::string::npos) << outcome.fault.text;
}

TEST(Mbarrier, DescribesItsStateForDeadlockReports) {
  Barrier b(2);
  EXPECT_TRUE(b.table.arrive_expect_tx(kAt, 256).fault.ok());
  EXPECT_EQ(b.table.describe(kAt), "phase 0, 1 of 2 arrivals pending, 256 bytes expected");
}

}  // namespace
}  // namespace flamia::emulator::test
