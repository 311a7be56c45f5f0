// Hazards: each rule with a crime that is caught and its correct twin that is not.
#include <gtest/gtest.h>

#include "emulator/machine/shadow.h"

namespace flamia::emulator::test {
namespace {

constexpr OrderRules kRules;

struct World {
  OrderClocks clocks;
  Shadow shared;
  Shadow tensor;
  explicit World(OrderRules rules = kRules)
      : clocks(4, 8, rules),
        shared(Shadow::Memory::kShared, rules),
        tensor(Shadow::Memory::kTensor, rules) {}
  std::optional<Hazard> store(uint32_t warp, uint64_t at, uint64_t bytes = 4) {
    return shared.write(clocks.own_access(warp, AccessKind::kGeneric, 10 + warp), at, bytes);
  }
  std::optional<Hazard> load(uint32_t warp, uint64_t at, uint64_t bytes = 4) {
    return shared.read(clocks.own_access(warp, AccessKind::kGeneric, 20 + warp), at, bytes);
  }
  void barrier() {
    const uint32_t all[] = {0, 1, 2, 3};
    clocks.synchronize(all, 4);
  }
};

TEST(Shadow, AReadOfAnotherWarpsWriteNeedsABarrier) {
  World w;
  EXPECT_FALSE(w.store(0, 64));
  const std::optional<Hazard> hazard = w.load(1, 64);
  ASSERT_TRUE(hazard);
  EXPECT_EQ(hazard->kind, HazardKind::kRace);
  EXPECT_EQ(hazard->first.warp, 0);
  EXPECT_EQ(hazard->first.instruction, 10u);
  EXPECT_TRUE(hazard->first.write);
  EXPECT_EQ(hazard->second.warp, 1);
  EXPECT_FALSE(w.load(0, 64));
}

TEST(Shadow, ABarrierOrdersWritesAndReads) {
  World w;
  EXPECT_FALSE(w.store(0, 64));
  w.barrier();
  EXPECT_FALSE(w.load(1, 64));
  EXPECT_FALSE(w.load(2, 64));
  w.barrier();
  EXPECT_FALSE(w.store(3, 64));
}

TEST(Shadow, AnOverwriteNeedsEveryReaderToBeDone) {
  World w;
  EXPECT_FALSE(w.store(0, 64));
  w.barrier();
  EXPECT_FALSE(w.load(1, 64));
  EXPECT_FALSE(w.load(2, 64));
  SyncClock only_two;
  w.clocks.release(2, &only_two);
  w.clocks.acquire(0, only_two);
  const std::optional<Hazard> hazard = w.store(0, 64);
  ASSERT_TRUE(hazard);
  EXPECT_EQ(hazard->first.warp, 1);
  EXPECT_FALSE(hazard->first.write);
}

TEST(Shadow, BytesOfOneWordAreDifferentPlaces) {
  World w;
  EXPECT_FALSE(w.store(0, 64, 1));
  EXPECT_FALSE(w.store(1, 65, 1));
  EXPECT_TRUE(w.store(2, 65, 1));
}

TEST(Shadow, AtomicsDoNotRaceAmongThemselvesButWithPlainStores) {
  World w;
  const auto strong = [&](uint32_t warp) {
    return w.shared.write(w.clocks.own_access(warp, AccessKind::kStrong, 1), 128, 4);
  };
  EXPECT_FALSE(strong(0));
  EXPECT_FALSE(strong(1));
  EXPECT_TRUE(w.load(2, 128));
}

TEST(Shadow, TheAsyncProxyNeedsAFenceByTheWriter) {
  for (const bool fence : {false, true}) {
    World w;
    EXPECT_FALSE(w.store(0, 256, 16));
    if (fence) w.clocks.fence_proxy_async(0);
    w.barrier();
    if (!fence) w.clocks.fence_proxy_async(1);  // of the issuer: not enough by default
    const AsyncWork copy = w.clocks.issue(1, AccessKind::kBulk, 77);
    const std::optional<Hazard> hazard = w.shared.read(OrderClocks::actor_of(copy), 256, 16);
    EXPECT_EQ(hazard.has_value(), !fence);
    if (hazard) {
      EXPECT_EQ(hazard->kind, HazardKind::kMissingProxyFence);
    }
  }
}

TEST(Shadow, TheFenceOfTheIssuerCountsWhenTheRulesSaySo) {
  OrderRules rules;
  rules.writer_must_fence = false;
  World w(rules);
  EXPECT_FALSE(w.store(0, 256, 16));
  w.barrier();
  w.clocks.fence_proxy_async(1);
  const AsyncWork copy = w.clocks.issue(1, AccessKind::kWgmma, 77);
  EXPECT_FALSE(w.shared.read(OrderClocks::actor_of(copy), 256, 16));
}

TEST(Shadow, AFenceBeforeTheWriteDoesNotHelp) {
  World w;
  w.clocks.fence_proxy_async(0);
  EXPECT_FALSE(w.store(0, 256, 16));
  const AsyncWork copy = w.clocks.issue(0, AccessKind::kBulk, 77);
  EXPECT_TRUE(w.shared.read(OrderClocks::actor_of(copy), 256, 16));
}

TEST(Shadow, AsyncDataMustNotBeReadBeforeTheBarrier) {
  World w;
  const AsyncWork load = w.clocks.issue(0, AccessKind::kBulk, 5);
  SyncClock barrier;
  EXPECT_FALSE(w.shared.write(OrderClocks::actor_of(load), 512, 64));
  const std::optional<Hazard> hazard = w.load(1, 512);
  ASSERT_TRUE(hazard);
  EXPECT_EQ(hazard->kind, HazardKind::kNotComplete);
  w.clocks.publish(load.actor.epoch, &barrier);
  w.clocks.acquire(1, barrier);
  EXPECT_FALSE(w.load(1, 512 + 4));
}

TEST(Shadow, CompletionOfOneCopySaysNothingOfAnother) {
  World w;
  const AsyncWork first = w.clocks.issue(0, AccessKind::kBulk, 5);
  const AsyncWork second = w.clocks.issue(0, AccessKind::kBulk, 6);
  EXPECT_FALSE(w.shared.write(OrderClocks::actor_of(first), 512, 64));
  EXPECT_FALSE(w.shared.write(OrderClocks::actor_of(second), 1024, 64));
  SyncClock barrier;
  w.clocks.publish(second.actor.epoch, &barrier);
  w.clocks.acquire(1, barrier);
  EXPECT_FALSE(w.load(1, 1024));
  EXPECT_TRUE(w.load(1, 512));
}

TEST(Shadow, AStageIsRefilledOnlyAfterItsReaders) {
  for (const bool wait : {false, true}) {
    World w;
    EXPECT_FALSE(w.load(1, 512));
    SyncClock empty;
    w.clocks.release(1, &empty);
    if (wait) w.clocks.acquire(0, empty);
    const AsyncWork refill = w.clocks.issue(0, AccessKind::kBulk, 5);
    EXPECT_EQ(w.shared.write(OrderClocks::actor_of(refill), 512, 64).has_value(), !wait);
  }
}

TEST(Shadow, AStoreOfStagingMustWaitForItsReads) {
  for (const bool wait : {false, true}) {
    World w;
    EXPECT_FALSE(w.store(0, 512, 16));
    w.clocks.fence_proxy_async(0);
    const AsyncWork out = w.clocks.issue(0, AccessKind::kBulk, 5);
    EXPECT_FALSE(w.shared.read(OrderClocks::actor_of(out), 512, 16));
    if (wait) w.clocks.observe(0, out.actor.epoch);
    EXPECT_EQ(w.store(0, 512, 16).has_value(), !wait);
  }
}

TEST(Shadow, TensorLoadsAndStoresNeedTheirWaits) {
  World w;
  const AsyncWork store = w.clocks.issue(0, AccessKind::kTensorStore, 1);
  EXPECT_FALSE(w.tensor.write(OrderClocks::actor_of(store), tensor_cell_address(3, 4), 4));
  const AsyncWork early = w.clocks.issue(0, AccessKind::kTensorLoad, 2);
  const std::optional<Hazard> hazard =
      w.tensor.read(OrderClocks::actor_of(early), tensor_cell_address(3, 4), 4);
  ASSERT_TRUE(hazard);
  EXPECT_EQ(hazard->kind, HazardKind::kMissingWaitStore);
  w.clocks.wait_tensor_store(0);
  const AsyncWork late = w.clocks.issue(0, AccessKind::kTensorLoad, 3);
  EXPECT_FALSE(w.tensor.read(OrderClocks::actor_of(late), tensor_cell_address(3, 4), 4));
  // The columns are overwritten without wait::ld.
  const AsyncWork mma = w.clocks.issue(0, AccessKind::kTensorMma, 4);
  const std::optional<Hazard> overwrite =
      w.tensor.write(OrderClocks::actor_of(mma), tensor_cell_address(3, 4), 4);
  ASSERT_TRUE(overwrite);
  EXPECT_EQ(overwrite->kind, HazardKind::kMissingWaitLoad);
}

// One quarter of an SM stores and loads in order; between its warps a barrier is enough in public.
TEST(Shadow, TensorStoresPassFromWarpToWarp) {
  for (const bool strict : {false, true}) {
    for (const bool barrier : {false, true}) {
      OrderRules rules;
      rules.tensor_fences = strict;
      World w(rules);
      const AsyncWork store = w.clocks.issue(0, AccessKind::kTensorStore, 1);
      EXPECT_FALSE(w.tensor.write(OrderClocks::actor_of(store), 0, 16));
      SyncClock clock;
      w.clocks.release(0, &clock);
      if (barrier) w.clocks.acquire(1, clock);
      const AsyncWork load = w.clocks.issue(1, AccessKind::kTensorLoad, 2);
      EXPECT_EQ(w.tensor.read(OrderClocks::actor_of(load), 0, 16).has_value(), strict || !barrier);
    }
  }
}

TEST(Shadow, MmaResultsNeedACommitAndAWait) {
  for (const bool wait : {false, true}) {
    World w;
    const AsyncWork mma = w.clocks.issue(0, AccessKind::kTensorMma, 1);
    EXPECT_FALSE(w.tensor.write(OrderClocks::actor_of(mma), 0, 16));
    SyncClock barrier;
    w.clocks.publish(w.clocks.pipe_epoch(0), &barrier);
    if (wait) w.clocks.acquire(1, barrier);
    const AsyncWork load = w.clocks.issue(1, AccessKind::kTensorLoad, 2);
    EXPECT_EQ(w.tensor.read(OrderClocks::actor_of(load), 0, 16).has_value(), !wait);
  }
}

TEST(Shadow, OnePipeIsInOrderUnlessOnlyDocumentedPairsCount) {
  for (const bool strict : {false, true}) {
    OrderRules rules;
    rules.documented_pipeline_only = strict;
    World w(rules);
    const AsyncWork copy = w.clocks.issue(0, AccessKind::kTensorCopy, 1);
    EXPECT_FALSE(w.tensor.write(OrderClocks::actor_of(copy), 0, 16));
    const AsyncWork mma = w.clocks.issue(0, AccessKind::kTensorMma, 2);
    EXPECT_FALSE(w.tensor.read(OrderClocks::actor_of(mma), 0, 16));
    const AsyncWork again = w.clocks.issue(0, AccessKind::kTensorCopy, 3);
    EXPECT_EQ(w.tensor.write(OrderClocks::actor_of(again), 0, 16).has_value(), strict);
  }
}

TEST(Shadow, TensorFencesAreNeededWhenTheRulesSaySo) {
  OrderRules rules;
  rules.tensor_fences = true;
  for (int fences = 0; fences < 4; ++fences) {
    World w(rules);
    const AsyncWork store = w.clocks.issue(0, AccessKind::kTensorStore, 1);
    EXPECT_FALSE(w.tensor.write(OrderClocks::actor_of(store), 0, 4));
    w.clocks.wait_tensor_store(0);
    if ((fences & 1) != 0) w.clocks.tensor_fence_before(0);
    w.barrier();
    if ((fences & 2) != 0) w.clocks.tensor_fence_after(1);
    const AsyncWork mma = w.clocks.issue(1, AccessKind::kTensorMma, 2);
    EXPECT_EQ(w.tensor.read(OrderClocks::actor_of(mma), 0, 4).has_value(), fences != 3) << fences;
  }
}

TEST(Shadow, ForgottenRangesStartAfresh) {
  World w;
  EXPECT_FALSE(w.store(0, 64, 64));
  w.shared.forget(64, 64);
  EXPECT_FALSE(w.load(1, 64, 64));
  w.shared.forget(1 << 20, 1 << 20);
  w.shared.clear();
  EXPECT_FALSE(w.store(2, 64));
}

TEST(Shadow, ClustersAreNotComparedWithEachOther) {
  World w;
  Shadow global(Shadow::Memory::kGlobal, kRules);
  EXPECT_FALSE(global.write(w.clocks.own_access(0, AccessKind::kGeneric, 1), 4096, 4, 1));
  EXPECT_FALSE(global.read(w.clocks.own_access(1, AccessKind::kGeneric, 2), 4096, 4, 2));
}

TEST(Shadow, GlobalMemoryIsFollowedFromTheFirstWriteOfItsPage) {
  World w;
  Shadow global(Shadow::Memory::kGlobal, kRules);
  const auto access = [&](uint32_t warp) {
    return w.clocks.own_access(warp, AccessKind::kGeneric, warp);
  };
  EXPECT_FALSE(global.read(access(0), 4096, 4));   // not remembered
  EXPECT_FALSE(global.write(access(1), 4096, 4));  // so that this is no hazard
  EXPECT_FALSE(global.read(access(0), 8192, 4));   // another page
  EXPECT_FALSE(global.read(access(0), 4100, 4));   // remembered from here on
  EXPECT_TRUE(global.write(access(2), 4100, 4));
  EXPECT_TRUE(global.read(access(0), 4092, 8));  // across the start of the page
}

TEST(Shadow, GlobalHistoryStartsAfreshRatherThanGrow) {
  World w;
  Shadow global(Shadow::Memory::kGlobal, kRules);
  const Actor first = w.clocks.own_access(0, AccessKind::kGeneric, 1);
  for (uint64_t page = 0; page < 1025; ++page) EXPECT_FALSE(global.write(first, page * 4096, 4));
  const Actor second = w.clocks.own_access(1, AccessKind::kGeneric, 2);
  EXPECT_FALSE(global.write(second, 0, 4));           // forgotten
  EXPECT_TRUE(global.write(second, 1024 * 4096, 4));  // the newest page is not
}

TEST(Shadow, BulkReductionsMeetEachOtherAndAtomicsInGlobalMemoryOnly) {
  World w;
  Shadow global(Shadow::Memory::kGlobal, kRules);
  const AsyncWork one = w.clocks.issue(0, AccessKind::kBulkReduce, 1);
  const AsyncWork two = w.clocks.issue(1, AccessKind::kBulkReduce, 2);
  const Actor atomic = w.clocks.own_access(2, AccessKind::kStrong, 3);
  EXPECT_FALSE(global.write(OrderClocks::actor_of(one), 64, 4));
  EXPECT_FALSE(global.write(OrderClocks::actor_of(two), 64, 4));
  EXPECT_FALSE(global.write(atomic, 64, 4));
  EXPECT_TRUE(global.write(w.clocks.own_access(3, AccessKind::kGeneric, 4), 64, 4));
  EXPECT_FALSE(w.shared.write(atomic, 64, 4));
  EXPECT_TRUE(w.shared.read(OrderClocks::actor_of(one), 64, 4));
}

TEST(Shadow, WhatAWarpDoesAfterIssuingWorkIsNotBeforeIt) {
  World w;
  const AsyncWork store = w.clocks.issue(0, AccessKind::kBulk, 5);
  EXPECT_FALSE(w.store(0, 64));  // overwrites the source
  EXPECT_TRUE(w.shared.read(OrderClocks::actor_of(store), 64, 4));
}

TEST(OrderClocks, FencesPublishAndLocationsCarry) {
  for (const bool fenced : {false, true}) {
    World w;
    EXPECT_FALSE(w.store(0, 64));
    if (fenced) w.clocks.fence_threads(0);
    EXPECT_EQ(w.clocks.write_location(0, 4096, false), fenced);
    w.clocks.read_location(1, 4096);
    EXPECT_EQ(w.load(1, 64).has_value(), !fenced);
  }
}

TEST(OrderClocks, AFenceBeforeABarrierServesTheThreadThatSignals) {
  World w;
  EXPECT_FALSE(w.store(0, 64));
  w.clocks.fence_threads(0);
  const uint32_t pair[] = {0, 1};
  w.clocks.synchronize(pair, 2);
  EXPECT_TRUE(w.clocks.write_location(1, 4096, false));
  w.clocks.read_location(2, 4096);
  EXPECT_FALSE(w.load(2, 64));
}

TEST(OrderClocks, RelaxedWaitsCountFromTheNextFenceOn) {
  World w;
  SyncClock barrier;
  EXPECT_FALSE(w.store(0, 64));
  w.clocks.release(0, &barrier);
  w.clocks.acquire_relaxed(1, barrier);
  w.clocks.acquire_relaxed(2, barrier);
  EXPECT_TRUE(w.load(1, 64));
  w.clocks.fence_threads(2);
  EXPECT_FALSE(w.load(2, 64));
}

TEST(OrderClocks, InitsNeedTheirFenceBeforeRelaxedArrivalsWhenTheRulesSaySo) {
  for (const bool strict : {false, true}) {
    for (const bool fenced : {false, true}) {
      OrderRules rules;
      rules.init_fences = strict;
      World w(rules);
      const Epoch init = w.clocks.own_epoch(0);
      if (fenced) w.clocks.fence_inits(0);
      SyncClock barrier;
      w.clocks.release_relaxed(0, &barrier);
      EXPECT_FALSE(w.clocks.sees_init(1, init));
      w.clocks.acquire(1, barrier);
      EXPECT_EQ(w.clocks.sees_init(1, init), fenced || !strict);
      EXPECT_EQ(w.clocks.async_sees_init(1, init), fenced || !strict);
    }
  }
}

TEST(Shadow, DescribesBothParties) {
  World w;
  EXPECT_FALSE(w.store(0, 64));
  const std::optional<Hazard> hazard = w.load(1, 64);
  ASSERT_TRUE(hazard);
  EXPECT_EQ(describe(*hazard),
            "generic write of warp 0 (instruction 10) and generic read of warp 1 (instruction 21) "
            "at 64: no barrier between them");
}

}  // namespace
}  // namespace flamia::emulator::test
