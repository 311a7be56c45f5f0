// Sums, and the decision which warps play one role.
#include "emulator/model/counters.h"

#include <cmath>
#include <utility>

namespace flamia::emulator::model {
namespace {

constexpr std::string_view kNames[] = {
#define FLAMIA_COUNTER(enumerator, name) name,
#include "emulator/model/counters.def"
#undef FLAMIA_COUNTER
};
static_assert(std::size(kNames) == kCounterCount);

constexpr double kAlike = 0.15;

/// Spinning makes these differ between equal warps.
bool is_waiting(size_t i) {
  return i == static_cast<size_t>(Counter::kControl) || i == static_cast<size_t>(Counter::kBarrier);
}

double working(const Counters& counters) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kClassCount; ++i) sum += is_waiting(i) ? 0 : counters.values[i];
  return static_cast<double>(sum);
}

/// One bit per special unit in use.
uint32_t units(const Counters& c) {
  uint32_t bits = 0, bit = 1;
  for (const Counter counter :
       {Counter::kTmaReadBytes, Counter::kTmaWriteBytes, Counter::kTensorFlops,
        Counter::kTmemReadBytes, Counter::kTmemWriteBytes, Counter::kTmemCopyBytes}) {
    if (c[counter] != 0) bits |= bit;
    bit <<= 1;
  }
  return bits;
}

/// The name of what a role does most: its special units, then the scalar pipe that is busiest.
std::string name_of(const Counters& c) {
  std::string name;
  const auto append = [&name](std::string_view part) {
    if (!name.empty()) name += '+';
    name += part;
  };
  if (c[Counter::kTmaReadBytes] != 0) append("tma load");
  if (c[Counter::kTmaWriteBytes] + c[Counter::kTmaReduceBytes] != 0) append("tma store");
  if (!c.tensor.empty()) {
    const std::string& first = c.tensor.begin()->first;
    append(first.starts_with("tcgen05") ? "tcgen05.mma"
                                        : first.substr(0, first.starts_with("wgmma") ? 5 : 3));
  }
  if (c[Counter::kTmemReadBytes] + c[Counter::kTmemWriteBytes] != 0) append("tmem");
  struct Scalar {
    Counter counter;
    double weight;  ///< clocks of a sub-partition
    std::string_view name;
  };
  constexpr Scalar kScalars[] = {
      {Counter::kFma, 1, "fma"},           {Counter::kHalf, 1, "half"},
      {Counter::kInteger, 1.5, "integer"}, {Counter::kConversion, 2, "conversion"},
      {Counter::kMufu, 8, "mufu"},         {Counter::kShared, 8, "shared"},
      {Counter::kGlobal, 8, "global"},     {Counter::kShuffle, 4, "shuffle"}};
  const Scalar* busiest = nullptr;
  double most = 0, all = 0;
  for (const Scalar& scalar : kScalars) {
    const double cost = scalar.weight * static_cast<double>(c[scalar.counter]);
    all += cost;
    if (cost <= most) continue;
    most = cost;
    busiest = &scalar;
  }
  // Beside a special unit only what is more than its own bookkeeping.
  if (busiest != nullptr && (name.empty() || (busiest->name != "integer" && most > 0.25 * all))) {
    append(busiest->name);
  }
  return name.empty() ? "idle" : name;
}

}  // namespace

std::string_view counter_name(Counter counter) { return kNames[static_cast<size_t>(counter)]; }

void Counters::add(const Counters& other) {
  for (size_t i = 0; i < kCounterCount; ++i) values[i] += other.values[i];
  for (size_t i = 0; i < kSlotCount; ++i) slots[i] += other.slots[i];
  for (const auto& [name, count] : other.tensor) {
    TensorCount& mine = tensor[name];
    const uint64_t issues = mine.issues, flops = mine.flops;
    mine = count;
    mine.issues += issues;
    mine.flops += flops;
  }
}

Counters LaunchCounters::total() const {
  Counters sum;
  for (const Counters& warp : warps) sum.add(warp);
  return sum;
}

double mix_distance(const Counters& a, const Counters& b) {
  const double all_a = working(a), all_b = working(b);
  if (all_a == 0 || all_b == 0) return all_a == all_b ? 0 : 1;
  double distance = 0;
  for (size_t i = 0; i < kClassCount; ++i) {
    if (is_waiting(i)) continue;
    distance += std::fabs(static_cast<double>(a.values[i]) / all_a -
                          static_cast<double>(b.values[i]) / all_b);
  }
  return distance / 2;
}

std::vector<Role> find_roles(const LaunchCounters& launch) {
  std::vector<Role> roles;
  for (uint32_t w = 0; w < launch.warps.size(); ++w) {
    const Counters& warp = launch.warps[w];
    if (!roles.empty() && units(roles.back().counters) == units(warp) &&
        mix_distance(roles.back().counters, warp) <= kAlike) {
      roles.back().last_warp = w;
      roles.back().counters.add(warp);
      continue;
    }
    roles.push_back({"", w, w, warp});
  }
  for (Role& role : roles) role.name = name_of(role.counters);
  return roles;
}

}  // namespace flamia::emulator::model
