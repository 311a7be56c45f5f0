// The tables. "units": rates of single units measured on an H200 with our own kernels;
// "calibration": bench/vgpu_calibration on an H200, bench/results/vgpu_model_h200.json.
#include "emulator/model/chips.h"

namespace flamia::emulator::model {
namespace {

constexpr std::string_view kUnits = "units";
constexpr std::string_view kCalibration = "calibration";
constexpr std::string_view kGuide = "CUDA programming guide, throughput of native instructions";
constexpr std::string_view kWhitepaper = "H100 whitepaper";
constexpr std::string_view kCores = "OpenXLA's table of tensor cores";
constexpr std::string_view kSameAsHopper = "the H200's";

constexpr Rate measured(double value, std::string_view source = kUnits) {
  return {value, Trust::kMeasured, source};
}
constexpr Rate published(double value, std::string_view source) {
  return {value, Trust::kPublished, source};
}
constexpr Rate derived(double value, std::string_view source) {
  return {value, Trust::kDerived, source};
}
constexpr Rate assumed(double value, std::string_view source = kSameAsHopper) {
  return {value, Trust::kAssumed, source};
}
constexpr Rate kNone = {};

constexpr ChipRates kH200 = {
    .name = "h200",
    .sms = 132,
    .clock_ghz = measured(1.98, kCalibration),
    // 100 ms of FP8 at the power limit: 1.50 to 1.63 ("units").
    .tensor_clock_ghz = measured(1.795, kCalibration),
    .launch_us = measured(2.0, kCalibration),
    .slots = {measured(128), measured(128), measured(64), measured(128, kCalibration), measured(64),
              measured(16), published(64, kGuide), measured(32)},
    // Loads 117.6 to 122, stores and stmatrix 127.9.
    .shared_bytes = measured(122),
    .operand_port_bytes = measured(120),
    .tensor_flops = {measured(4096), published(2048, kWhitepaper), measured(8192), kNone,
                     measured(2560, kCalibration), derived(1280, "half of bf16"), kNone},
    .accumulator_issue = measured(0.66),
    .half_accumulator_issue = measured(0.34),
    .sm_l2_bytes = published(64, "L2 reads of one SM, as for the A100 and H100"),
    // Of lines that one SM reads; lines that neighbours read together come up to 2.3 times faster.
    .l2_read_bytes = measured(4100, kCalibration),
    .l2_write_bytes = measured(3270, kCalibration),
    .hbm_gb = measured(4285, "device copy of 2 GiB"),
    .tmem_read_bytes = kNone,
    .tmem_write_bytes = kNone,
};

// Facts on Blackwell: core counts by OpenXLA, the architecture brief, published microbenchmarks.
constexpr ChipRates kB200 = {
    .name = "b200",
    .sms = 148,
    .clock_ghz = derived(1.85, "2.25 PFLOP/s of bf16 over 148 SMs"),
    .tensor_clock_ghz = derived(1.85, "2.25 PFLOP/s of bf16 over 148 SMs"),
    .launch_us = assumed(2.0),
    .slots = {assumed(128), published(128, kGuide), assumed(64), assumed(128), assumed(64),
              published(16, "FlashAttention-4 and the architecture brief"), published(64, kGuide),
              assumed(32)},
    .shared_bytes = published(128, "published microbenchmarks"),
    .operand_port_bytes = published(128, "published microbenchmarks"),
    .tensor_flops = {published(8192, kCores), derived(4096, "half of bf16"),
                     published(16384, kCores), published(32768, kCores), assumed(2560),
                     assumed(1280), assumed(2560)},
    .accumulator_issue = kNone,
    .half_accumulator_issue = kNone,
    .sm_l2_bytes = assumed(64),
    .l2_read_bytes = assumed(4600, "as much for each SM as on the H200"),
    .l2_write_bytes = assumed(3670, "as much for each SM as on the H200"),
    .hbm_gb = derived(7140, "8 TB/s, of which a copy reaches the part that it does on the H200"),
    .tmem_read_bytes = assumed(512, "one column of 32 lanes in a clock of each quarter"),
    .tmem_write_bytes = assumed(512, "one column of 32 lanes in a clock of each quarter"),
};

constexpr ChipRates b300() {
  ChipRates chip = kB200;
  chip.name = "b300";
  chip.slots[static_cast<size_t>(Slot::kXu)] =
      published(32, "10.0 against 4.9 Tera-exponentials a second of GB300 and GB200");
  chip.tensor_flops[static_cast<size_t>(TensorRate::kFp4)] =
      derived(49152, "15 against 10 PFLOP/s");
  return chip;
}
constexpr ChipRates kB300 = b300();

}  // namespace

std::string_view trust_name(Trust trust) {
  constexpr std::string_view kNames[] = {"measured", "published", "derived", "assumed"};
  return kNames[static_cast<size_t>(trust)];
}

const ChipRates& chip_rates(Chip chip) {
  return chip == Chip::kH200 ? kH200 : chip == Chip::kB200 ? kB200 : kB300;
}

}  // namespace flamia::emulator::model
