// Frames with their hidden rows, and splitting of groups.
#include "emulator/execution/state.h"

#include <algorithm>
#include <cstring>

#include "base/message.h"
#include "emulator/execution/trap_error.h"
#include "emulator/model/recorder.h"

namespace flamia::emulator::execution {
namespace {

using ptx::Dim3;
using ptx::SpecialRegister;

uint32_t component(const Dim3& dim, uint8_t index) {
  return index == 0 ? dim.x : (index == 1 ? dim.y : (index == 2 ? dim.z : 0));
}

Dim3 position(uint64_t linear, const Dim3& dim) {
  return {static_cast<uint32_t>(linear % dim.x), static_cast<uint32_t>(linear / dim.x % dim.y),
          static_cast<uint32_t>(linear / dim.x / dim.y)};
}

uint64_t volume(const Dim3& dim) { return uint64_t{dim.x} * dim.y * dim.z; }

uint64_t lane_mask(SpecialRegister special, uint32_t lane) {
  const uint32_t equal = 1u << lane, below = equal - 1u;
  switch (special) {
    case SpecialRegister::kLanemaskEq:
      return equal;
    case SpecialRegister::kLanemaskLt:
      return below;
    case SpecialRegister::kLanemaskLe:
      return below | equal;
    case SpecialRegister::kLanemaskGt:
      return ~(below | equal);
    default:
      return static_cast<uint32_t>(~below);
  }
}

uint64_t shared_size(const Grid& grid, SpecialRegister special) {
  const uint64_t dynamic = grid.request->dynamic_shared_bytes;
  return special == SpecialRegister::kDynamicSmemSize ? dynamic
                                                      : grid.entry->shared_bytes + dynamic;
}

uint64_t special_value(const Warp& warp, const HiddenRow& row, uint32_t lane) {
  const Grid& grid = warp.grid();
  const Cta& cta = *warp.cta;
  const Cluster& cluster = *cta.cluster;
  const uint8_t c = row.component;
  switch (row.special) {
    case SpecialRegister::kTid:
      return component(position(warp.index * kLanes + lane, grid.request->block), c);
    case SpecialRegister::kNtid:
      return component(grid.request->block, c);
    case SpecialRegister::kCtaid:
      return component(cta.id, c);
    case SpecialRegister::kNctaid:
      return component(grid.request->grid, c);
    case SpecialRegister::kLaneid:
      return lane;
    case SpecialRegister::kWarpid:
      return warp.index;
    case SpecialRegister::kNwarpid:
      return 64;
    case SpecialRegister::kSmid:
      return cta.sm % grid.sms;
    case SpecialRegister::kNsmid:
      return grid.sms;
    case SpecialRegister::kGridid:
      return 1;
    case SpecialRegister::kClusterid:
      return component(cluster.id, c);
    case SpecialRegister::kNclusterid:
      return component(grid.clusters, c);
    case SpecialRegister::kClusterCtaid:
      return component(position(cta.rank, grid.cluster_dim), c);
    case SpecialRegister::kClusterNctaid:
      return component(grid.cluster_dim, c);
    case SpecialRegister::kClusterCtarank:
      return cta.rank;
    case SpecialRegister::kClusterNctarank:
      return volume(grid.cluster_dim);
    case SpecialRegister::kIsExplicitCluster:
      return volume(grid.cluster_dim) > 1 ? ~uint64_t{0} : 0;
    case SpecialRegister::kLanemaskEq:
    case SpecialRegister::kLanemaskLe:
    case SpecialRegister::kLanemaskLt:
    case SpecialRegister::kLanemaskGe:
    case SpecialRegister::kLanemaskGt:
      return lane_mask(row.special, lane);
    case SpecialRegister::kTotalSmemSize:
    case SpecialRegister::kAggrSmemSize:
    case SpecialRegister::kDynamicSmemSize:
      return shared_size(grid, row.special);
    case SpecialRegister::kReservedSmemOffsetBegin:
      return 0;
    case SpecialRegister::kReservedSmemOffsetEnd:
    case SpecialRegister::kReservedSmemOffsetCap:
      return kSharedReserved;
    default:
      stop(fault_kind_name(FaultKind::kUnsupported),
           concat("special register %", ptx::special_text(row.special),
                  " is readable by mov only, or not modelled"));
  }
}

void fill_row(const Warp& warp, const HiddenRow& row, Frame* frame) {
  uint64_t* const out = frame->row(row.slot);
  const uint64_t shared =
      row.value + kSharedReserved + (uint64_t{warp.cta->rank} << kSharedRankShift);
  for (uint32_t i = 0; i < kLanes; ++i) {
    switch (row.kind) {
      case HiddenRow::Kind::kSpecial:
        out[i] = special_value(warp, row, i);
        break;
      case HiddenRow::Kind::kShared:
        out[i] = shared;
        break;
      case HiddenRow::Kind::kDynamicShared:
        out[i] = shared + warp.grid().entry->dynamic_shared_offset;
        break;
      case HiddenRow::Kind::kLocal:
        out[i] = frame->local_base + row.value;
        break;
    }
  }
}

constexpr uint64_t kMostLocal = 512 * 1024;

/// What a call keeps for each lane: registers and parameters, which hardware keeps on its stack
/// too.
uint64_t frame_bytes(const Code& code) {
  const ptx::Function& function = *code.function;
  return uint64_t{code.slot_count} * 8 + function.call_parameter_bytes + function.parameter_bytes +
         function.return_bytes;
}

/// Local memory of the lanes has room for `bytes`.
void reserve_local(Warp* warp, uint32_t lanes, uint64_t bytes) {
  if (bytes > kMostLocal)
    stop("stack overflow", concat("local memory beyond ", kMostLocal, " bytes"));
  each_lane(lanes, [&](uint32_t i) {
    ByteBank& bank = warp->local[i];
    if (bank.size() >= bytes) return;
    const uint64_t grown = std::max<uint64_t>(bytes, uint64_t{bank.size()} * 2);
    ByteBank larger(static_cast<uint32_t>(grown), true);
    if (bank.size() != 0) std::memcpy(larger.data(), bank.data(), bank.size());
    bank = std::move(larger);
  });
}

}  // namespace

void Warp::split(uint32_t mask, uint32_t pc) {
  Group others = groups[current];
  others.mask &= ~mask;
  others.pc = pc;
  others.wait = {};
  groups[current].mask &= mask;
  groups.push_back(others);
}

Frame* Warp::enter(const Code& code, Frame* caller, uint32_t lanes) {
  const auto frame = std::make_shared<Frame>();
  const ptx::Function& function = *code.function;
  frame->stack_bytes = caller == nullptr ? 0 : caller->stack_bytes + frame_bytes(code);
  if (frame->stack_bytes > kMostLocal || function.call_parameter_bytes > kMostLocal) {
    stop("stack overflow", concat("frames of calls beyond ", kMostLocal, " bytes a thread"));
  }
  frame->code = &code;
  frame->caller = caller;
  frame->lanes = lanes;
  if (grid().recorder != nullptr) frame->counts = grid().recorder->steps(index, code.index);
  frame->registers.resize(size_t{code.slot_count} * kLanes);
  frame->arguments.resize(function.call_parameter_bytes * kLanes);
  frame->returns.resize(size_t{function.return_bytes} * kLanes);
  uint64_t top = 0;
  if (caller != nullptr) {
    frame->depth = caller->depth + 1;
    frame->parameters.resize(size_t{function.parameter_bytes} * kLanes);
    top = caller->local_base + caller->code->function->local_bytes;
  }
  top = (top + 15) / 16 * 16;
  if (function.local_alignment > 16) {
    top =
        (top + function.local_alignment - 1) / function.local_alignment * function.local_alignment;
  }
  frame->local_base = static_cast<uint32_t>(top);
  if (function.local_bytes != 0) reserve_local(this, lanes, top + function.local_bytes);
  for (const HiddenRow& row : code.hidden) fill_row(*this, row, frame.get());
  frames.push_back(frame);
  return frames.back().get();
}

void Warp::leave(Frame* frame) {
  for (size_t i = 0; i < frames.size(); ++i) {
    if (frames[i].get() != frame) continue;
    std::swap(frames[i], frames.back());
    frames.pop_back();
    return;
  }
}

uint64_t Grid::take_cluster() {
  const uint64_t place = next_cluster++;
  if (options->adversary != Adversary::kRandom) return place;
  const uint64_t size = most_resident(), first = place / size * size;
  if (place == first) {
    wave.resize(std::min(size, cluster_count - first));
    for (uint32_t i = 0; i < wave.size(); ++i) wave[i] = i;
    for (size_t i = wave.size(); i > 1; --i) {
      std::swap(wave[i - 1], wave[random_below(static_cast<uint32_t>(i))]);
    }
  }
  return first + wave[place - first];
}

uint32_t Grid::take_sm() {
  const auto free = static_cast<uint32_t>(std::count(sm_busy.begin(), sm_busy.end(), false));
  if (free == 0) return 0;
  uint32_t skip = options->adversary == Adversary::kRandom ? random_below(free) : 0;
  uint32_t sm = 0;
  while (sm_busy[sm] || skip-- != 0) ++sm;
  sm_busy[sm] = true;
  return sm;
}

uint64_t Grid::random() {
  // SplitMix64.
  random_state += 0x9e3779b97f4a7c15u;
  uint64_t z = random_state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace flamia::emulator::execution
