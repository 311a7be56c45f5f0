// Bounds of a quarter of an SM, of an SM and of the chip.
#include "emulator/model/predict.h"

#include <algorithm>
#include <cmath>

namespace flamia::emulator::model {
namespace {

constexpr uint32_t kQuarters = 4;
constexpr double kLanes = 32;
constexpr double kWavefrontBytes = 128;
constexpr double kBusyTensor = 0.5;  ///< of the slowest pipe of the SM

constexpr std::string_view kSlotNames[] = {"issue", "fma",  "imad", "half",
                                           "alu",   "mufu", "fp64", "shuffle"};
static_assert(std::size(kSlotNames) == kSlotCount);

/// The work of one quarter in one average CTA.
struct Quarter {
  std::array<double, kSlotCount> slots{};
  double tensor = 0;             ///< clocks of its tensor core
  double accumulator_issue = 0;  ///< issue slots that wgmma takes
};

class Predictor {
 public:
  Predictor(const ChipRates& chip, const LaunchCounters& launch, double scale)
      : chip_(chip), launch_(launch), scale_(scale), sum_(launch.total()) {}

  Prediction run();

 private:
  void place();
  Quarter quarter_of(uint32_t first, uint32_t step) const;
  void quarters();
  void sm();
  void whole_chip();
  void add(std::string_view pipe, double clocks, Trust trust);
  /// A sum over all CTAs as the work of the busiest SM.
  double of_sm(double total) const {
    return total / ctas_run_ * static_cast<double>(out_.ctas_of_sm);
  }
  double value(Counter counter) const { return static_cast<double>(sum_[counter]); }

  const ChipRates& chip_;
  const LaunchCounters& launch_;
  double scale_;
  Counters sum_;
  double ctas_run_ = 1;
  double tensor_ = 0;  ///< clocks of the busiest quarter's own tensor core
  Prediction out_;
};

void Predictor::add(std::string_view pipe, double clocks, Trust trust) {
  if (clocks > 0) out_.bounds.push_back({std::string(pipe), clocks, trust});
}

/// Clusters stay within whole multiples of their size.
void Predictor::place() {
  ctas_run_ = static_cast<double>(std::max<uint64_t>(launch_.ctas, 1));
  out_.ctas = static_cast<uint64_t>(std::llround(ctas_run_ * scale_));
  const uint64_t size = std::max(launch_.cluster_size, 1u);
  const uint64_t places = std::max<uint64_t>(chip_.sms / size, 1);
  const uint64_t clusters = std::max<uint64_t>((out_.ctas + size - 1) / size, 1);
  out_.ctas_of_sm = (clusters + places - 1) / places;
}

/// Warps first, first + step, ... of a CTA.
Quarter Predictor::quarter_of(uint32_t first, uint32_t step) const {
  Quarter quarter;
  for (uint32_t w = first; w < launch_.warps.size(); w += step) {
    const Counters& warp = launch_.warps[w];
    for (size_t s = 0; s < kSlotCount; ++s) {
      quarter.slots[s] += static_cast<double>(warp.slots[s]) / ctas_run_;
    }
    for (const auto& [name, count] : warp.tensor) {
      // Of one SM; a warp's share of a wgmma runs in its own quarter, mma.sync too.
      if (count.whole_sm) continue;
      const double clocks = kQuarters * tensor_clocks(chip_, count) / ctas_run_;
      quarter.tensor += clocks;
      if (!count.register_accumulator) continue;
      const Rate& lost =
          count.half_accumulator ? chip_.half_accumulator_issue : chip_.accumulator_issue;
      quarter.accumulator_issue += lost.value * clocks;
    }
  }
  return quarter;
}

void Predictor::quarters() {
  // CTAs of a few warps spread over the quarters if an SM has several of them.
  const bool even = launch_.warps.size() % kQuarters != 0 && out_.ctas_of_sm > 1;
  Quarter busiest;
  double issue = 0;
  for (uint32_t q = 0; q < kQuarters; ++q) {
    Quarter quarter = even ? quarter_of(0, 1) : quarter_of(q, kQuarters);
    const double share = even ? 1.0 / kQuarters : 1.0;
    for (size_t s = 0; s < kSlotCount; ++s) {
      busiest.slots[s] = std::max(busiest.slots[s], quarter.slots[s] * share);
    }
    busiest.tensor = std::max(busiest.tensor, quarter.tensor * share);
    const double own = quarter.slots[static_cast<size_t>(Slot::kIssue)];
    if (quarter.accumulator_issue > 0) {
      issue = std::max(issue, (own + quarter.accumulator_issue) * share);
    }
  }
  const double n = static_cast<double>(out_.ctas_of_sm);
  for (size_t s = 0; s < kSlotCount; ++s) {
    if (s == static_cast<size_t>(Slot::kPort)) continue;
    const Rate& rate = chip_.slots[s];
    double slots = busiest.slots[s];
    // Multiplications of integers and packed halves go through the same pipe as FP32.
    if (s == static_cast<size_t>(Slot::kFma)) {
      slots += busiest.slots[static_cast<size_t>(Slot::kImad)];
      if (chip_.slots[static_cast<size_t>(Slot::kHalf)].value == rate.value) {
        slots += busiest.slots[static_cast<size_t>(Slot::kHalf)];
      }
    }
    add(kSlotNames[s], n * slots * kLanes * kQuarters / rate.value, rate.trust);
  }
  add("issue beside wgmma", n * issue, chip_.accumulator_issue.trust);
  tensor_ = n * busiest.tensor;
}

void Predictor::sm() {
  Trust trust = Trust::kMeasured;
  double tensor = 0;
  for (const auto& [name, count] : sum_.tensor) {
    if (count.whole_sm) tensor += tensor_clocks(chip_, count);
    trust = chip_.tensor_flops[static_cast<size_t>(count.rate)].trust;
  }
  add("tensor", tensor_ + of_sm(tensor), trust);
  const double wavefronts =
      value(Counter::kSharedWavefronts) + static_cast<double>(sum_[Slot::kPort]);
  const double bytes = of_sm(wavefronts * kWavefrontBytes);
  add("shared", bytes / chip_.shared_bytes.value, chip_.shared_bytes.trust);
  const double operands = of_sm(value(Counter::kOperandBytes) + value(Counter::kTmemCopyBytes));
  if (operands > 0) {
    const Rate& port = wavefronts > 0 ? chip_.operand_port_bytes : chip_.shared_bytes;
    add("shared and operands", (bytes + operands) / port.value, port.trust);
  }
  const double l2 = value(Counter::kL2ReadBytes) + value(Counter::kL2WriteBytes);
  add("SM to L2", of_sm(l2) / chip_.sm_l2_bytes.value, chip_.sm_l2_bytes.trust);
  if (chip_.tmem_read_bytes.value > 0) {
    add("tmem read", of_sm(value(Counter::kTmemReadBytes)) / chip_.tmem_read_bytes.value,
        chip_.tmem_read_bytes.trust);
    add("tmem write", of_sm(value(Counter::kTmemWriteBytes)) / chip_.tmem_write_bytes.value,
        chip_.tmem_write_bytes.trust);
  }
}

void Predictor::whole_chip() {
  add("L2",
      scale_ * (value(Counter::kL2ReadBytes) / chip_.l2_read_bytes.value +
                value(Counter::kL2WriteBytes) / chip_.l2_write_bytes.value),
      chip_.l2_read_bytes.trust);
  const double hbm = value(Counter::kHbmReadBytes) + value(Counter::kHbmWriteBytes);
  add("HBM", scale_ * hbm / chip_.hbm_gb.value * out_.clock_ghz, chip_.hbm_gb.trust);
}

Prediction Predictor::run() {
  place();
  quarters();
  sm();
  // Busy tensor cores slow the clock.
  double most = 0, tensor = 0;
  for (const Bound& bound : out_.bounds) {
    most = std::max(most, bound.clocks);
    if (bound.pipe == "tensor") tensor = bound.clocks;
  }
  const bool busy = tensor > kBusyTensor * most;
  out_.clock_ghz = (busy ? chip_.tensor_clock_ghz : chip_.clock_ghz).value;
  whole_chip();
  std::stable_sort(out_.bounds.begin(), out_.bounds.end(),
                   [](const Bound& a, const Bound& b) { return a.clocks > b.clocks; });
  if (!out_.bounds.empty()) out_.clocks = out_.bounds.front().clocks;
  out_.microseconds = chip_.launch_us.value + out_.clocks / out_.clock_ghz / 1000;
  return std::move(out_);
}

}  // namespace

double tensor_clocks(const ChipRates& chip, const TensorCount& count) {
  const Rate& rate = chip.tensor_flops[static_cast<size_t>(count.rate)];
  return rate.value == 0 ? 0 : static_cast<double>(count.flops) / (rate.value * count.used);
}

Prediction predict(const ChipRates& chip, const LaunchCounters& launch, double scale) {
  return Predictor(chip, launch, scale).run();
}

Prediction predict_role(const ChipRates& chip, const LaunchCounters& launch, const Role& role,
                        double scale) {
  LaunchCounters alone = launch;
  for (uint32_t w = 0; w < alone.warps.size(); ++w) {
    if (w < role.first_warp || w > role.last_warp) alone.warps[w] = {};
  }
  return predict(chip, alone, scale);
}

}  // namespace flamia::emulator::model
