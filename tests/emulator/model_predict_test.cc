// The arithmetic of the model on counters made by hand.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "emulator/model/predict.h"
#include "emulator/model/print.h"

namespace flamia::emulator::model {
namespace {

LaunchCounters empty_launch(uint64_t ctas, uint32_t warps) {
  LaunchCounters launch;
  launch.ctas = ctas;
  launch.warps_per_cta = warps;
  launch.warps.resize(warps);
  return launch;
}

double clocks_of(const Prediction& prediction, std::string_view pipe) {
  for (const Bound& bound : prediction.bounds) {
    if (bound.pipe == pipe) return bound.clocks;
  }
  return 0;
}

TEST(ModelPredict, TheBusiestQuarterOfTheBusiestSmDecides) {
  const ChipRates& chip = chip_rates(Chip::kH200);
  LaunchCounters launch = empty_launch(132, 8);
  // Two warps of quarter 1 with 1000 multiply-adds in every CTA.
  launch.warps[1][Slot::kFma] = launch.warps[5][Slot::kFma] = 132 * 1000;
  launch.warps[1][Slot::kIssue] = launch.warps[5][Slot::kIssue] = 132 * 1000;
  Prediction p = predict(chip, launch);
  EXPECT_EQ(p.ctas_of_sm, 1u);
  EXPECT_DOUBLE_EQ(p.clocks, 2000);
  EXPECT_DOUBLE_EQ(p.microseconds, chip.launch_us.value + 2000 / chip.clock_ghz.value / 1000);
  p = predict(chip, launch, 2);
  EXPECT_EQ(p.ctas_of_sm, 2u);
  EXPECT_DOUBLE_EQ(p.clocks, 4000);
  launch.ctas = 133;  // one SM has two
  EXPECT_EQ(predict(chip, launch).ctas_of_sm, 2u);
}

TEST(ModelPredict, PipesHaveTheirRates) {
  LaunchCounters launch = empty_launch(1, 1);
  launch.warps[0][Slot::kXu] = 100;
  launch.warps[0][Slot::kAlu] = 100;
  launch.warps[0][Slot::kImad] = 100;
  launch.warps[0][Counter::kSharedWavefronts] = 122;
  const Prediction h200 = predict(chip_rates(Chip::kH200), launch);
  EXPECT_DOUBLE_EQ(clocks_of(h200, "mufu"), 800);
  EXPECT_DOUBLE_EQ(clocks_of(h200, "alu"), 200);
  EXPECT_DOUBLE_EQ(clocks_of(h200, "imad"), 200);
  EXPECT_DOUBLE_EQ(clocks_of(h200, "shared"), 128);
  EXPECT_EQ(h200.bounds[0].pipe, "mufu");
  EXPECT_EQ(h200.bounds[0].trust, Trust::kMeasured);
  EXPECT_DOUBLE_EQ(clocks_of(predict(chip_rates(Chip::kB200), launch), "mufu"), 800);
  EXPECT_DOUBLE_EQ(clocks_of(predict(chip_rates(Chip::kB300), launch), "mufu"), 400);
}

TEST(ModelPredict, WgmmaTakesIssueSlotsForItsAccumulators) {
  const ChipRates& chip = chip_rates(Chip::kH200);
  LaunchCounters launch = empty_launch(1, 4);
  TensorCount count;
  count.rate = TensorRate::kFp8;
  count.register_accumulator = true;
  count.warps = 4;
  count.issues = 1;
  count.flops = 8192 * 1000 / 4;  // of one warp: 1000 clocks of all four
  for (Counters& warp : launch.warps) {
    warp.tensor["wgmma"] = count;
    warp[Slot::kIssue] = 500;
  }
  Prediction p = predict(chip, launch);
  EXPECT_DOUBLE_EQ(clocks_of(p, "tensor"), 1000);
  EXPECT_DOUBLE_EQ(clocks_of(p, "issue beside wgmma"), 500 + 660);
  EXPECT_DOUBLE_EQ(p.clocks, 1160);
  EXPECT_EQ(p.clock_ghz, chip.tensor_clock_ghz.value);
  for (Counters& warp : launch.warps) warp.tensor["wgmma"].half_accumulator = true;
  p = predict(chip, launch);
  EXPECT_DOUBLE_EQ(clocks_of(p, "issue beside wgmma"), 500 + 340);
  EXPECT_DOUBLE_EQ(p.clocks, 1000);
}

TEST(ModelPredict, TensorMemoryProductsUseTheWholeSmWhoeverIssuesThem) {
  const ChipRates& chip = chip_rates(Chip::kB200);
  LaunchCounters launch = empty_launch(2, 4);
  launch.cluster_size = 2;
  TensorCount count;
  count.rate = TensorRate::kBf16;
  count.whole_sm = true;
  count.issues = 1;
  count.flops = 2 * 8192 * 100;  // a pair: 100 clocks of both SMs
  launch.warps[1].tensor["pair"] = count;
  EXPECT_DOUBLE_EQ(predict(chip, launch).clocks, 100);
  count.used = 0.5;
  launch.warps[1].tensor["pair"] = count;
  EXPECT_DOUBLE_EQ(predict(chip, launch).clocks, 200);
}

TEST(ModelPredict, ClustersStayWithinWholeMultiples) {
  LaunchCounters launch = empty_launch(132, 1);
  launch.cluster_size = 16;  // 8 clusters fit 132 SMs, 9 are wanted
  launch.ctas = 144;
  EXPECT_EQ(predict(chip_rates(Chip::kH200), launch).ctas_of_sm, 2u);
  launch.ctas = 128;
  EXPECT_EQ(predict(chip_rates(Chip::kH200), launch).ctas_of_sm, 1u);
}

TEST(ModelPredict, MemoriesOfTheChipScaleWithTheGrid) {
  const ChipRates& chip = chip_rates(Chip::kH200);
  LaunchCounters launch = empty_launch(4, 1);
  launch.warps[0][Counter::kHbmReadBytes] = 4285000;  // a microsecond
  launch.warps[0][Counter::kL2ReadBytes] = 4100;
  launch.warps[0][Counter::kL2WriteBytes] = 3270;
  Prediction p = predict(chip, launch);
  EXPECT_NEAR(p.microseconds, chip.launch_us.value + 1, 1e-9);
  EXPECT_DOUBLE_EQ(clocks_of(p, "L2"), 2);
  p = predict(chip, launch, 10);
  EXPECT_NEAR(p.microseconds, chip.launch_us.value + 10, 1e-9);
  EXPECT_DOUBLE_EQ(clocks_of(p, "L2"), 20);
  EXPECT_DOUBLE_EQ(clocks_of(p, "SM to L2"), 7370.0 / 4 / 64);
}

TEST(ModelPredict, EveryRateOfAChipSaysWhereItIsFrom) {
  for (const Chip chip : {Chip::kH200, Chip::kB200, Chip::kB300}) {
    const ChipRates& rates = chip_rates(chip);
    for (const Rate& rate : rates.slots) {
      EXPECT_GT(rate.value, 0) << rates.name;
      EXPECT_FALSE(rate.source.empty()) << rates.name;
    }
    for (const Rate& rate : {rates.clock_ghz, rates.shared_bytes, rates.l2_read_bytes,
                             rates.l2_write_bytes, rates.hbm_gb, rates.launch_us}) {
      EXPECT_GT(rate.value, 0) << rates.name;
      EXPECT_FALSE(rate.source.empty()) << rates.name;
    }
  }
}

TEST(ModelPredict, JsonHasCountersRolesAndBounds) {
  LaunchCounters launch = empty_launch(2, 2);
  launch.warps[0][Counter::kTmaReadBytes] = 64;
  launch.warps[0][Counter::kWarpInstructions] = launch.warps[0][Counter::kAsync] = 2;
  launch.warps[1][Counter::kWarpInstructions] = launch.warps[1][Counter::kFma] = 10;
  launch.warps[1][Slot::kFma] = 10;
  TensorCount count;
  count.rate = TensorRate::kSyncBf16;
  count.issues = 4;
  count.flops = 2560 * 4;
  launch.warps[1].tensor["mma.m16n8k16.f32.bf16.bf16"] = count;
  const auto json =
      nlohmann::json::parse("{" + launch_json(chip_rates(Chip::kH200), launch, 1, "  ") + "}");
  EXPECT_EQ(json["ctas"], 2);
  EXPECT_EQ(json["counters"]["warp_instructions"], 12);
  EXPECT_EQ(json["counters"]["tma_read_bytes"], 64);
  EXPECT_FALSE(json["counters"].contains("instructions_mufu"));  // zeros are left out
  ASSERT_EQ(json["roles"].size(), 2u);
  EXPECT_EQ(json["roles"][0]["name"], "tma load");
  EXPECT_EQ(json["roles"][1]["first_warp"], 1);
  EXPECT_EQ(json["roles"][1]["tensor"][0]["count"], 4);
  EXPECT_EQ(json["roles"][1]["tensor"][0]["tensor_clocks"], 4.0);
  EXPECT_EQ(json["prediction"]["bounds"][0]["pipe"], "tensor");
  EXPECT_EQ(json["prediction"]["bounds"][0]["rate"], "measured");
  EXPECT_GT(json["prediction"]["microseconds"], 0.0);
  const std::string table =
      launch_table({"k", "2x1x1", "64x1x1", "1x1x1"}, chip_rates(Chip::kH200), launch, 1);
  EXPECT_NE(table.find("k <<<2x1x1, 64x1x1>>> on h200"), std::string::npos) << table;
  EXPECT_NE(table.find("bound by tensor"), std::string::npos) << table;
  EXPECT_NE(table.find("warp 1       mma+fma"), std::string::npos) << table;
}

}  // namespace
}  // namespace flamia::emulator::model
