// The copies of the async proxy: cp.async.bulk, cp.async.bulk.tensor, cp.reduce.async.bulk, their
// prefetches and bulk groups.
// Depends on: tma/copy.h, which moves the bytes; jobs.h for the time when it happens.
// Over 500 lines because the forms share one detail and one grammar of modifiers.
#include <algorithm>

#include "base/message.h"
#include "emulator/execution/counting.h"
#include "emulator/execution/jobs.h"
#include "emulator/execution/lanes.h"
#include "emulator/execution/spaces.h"
#include "emulator/tma/copy.h"
#include "emulator/tma/tensor_map.h"

namespace flamia::emulator::execution {
namespace {

using ptx::Operand;

enum class Direction : uint8_t { kLoad, kStore, kShared, kPrefetch };
enum class TileMode : uint8_t { kTile, kGather, kScatter };

struct Address {
  Source base;
  int64_t offset = 0;
};

struct BulkDetail : Detail {
  Direction direction = Direction::kLoad;
  bool tensor = false;
  bool reduce = false;
  bool pair = false;  ///< .cta_group::2
  bool multicast = false;
  bool own_cta = false;  ///< destination .shared::cta
  bool masked = false;   ///< .cp_mask
  TileMode mode = TileMode::kTile;
  ReduceOp op = ReduceOp::kAdd;
  MapType type = MapType::kU8;
  Address global;  ///< or the tensor map
  Address shared;  ///< destination of loads, source of stores
  Address source;  ///< of shared to shared
  Address barrier;
  Source size;
  Source mask;  ///< multicast or byte mask
  std::vector<Source> coordinates;
};

const BulkDetail& detail_of(const Step& step) {
  return static_cast<const BulkDetail&>(*step.detail);
}

uint64_t value_of(const Warp& warp, const Address& address, uint32_t lane) {
  return warp.read(address.base)[lane] + static_cast<uint64_t>(address.offset);
}
uint32_t shared_value(const Warp& warp, const Address& address, uint32_t lane) {
  return static_cast<uint32_t>(value_of(warp, address, lane));
}

/// The CTA of a shared::cluster address.
Cta* cta_at(Warp& warp, uint32_t lane, uint32_t address) {
  const auto& cluster = *warp.cta->cluster;
  const uint32_t rank = shared_rank(address);
  if (rank >= cluster.ctas.size() || cluster.shared[rank] == nullptr) {
    stop(fault_kind_name(FaultKind::kWrongSpace),
         concat("shared address ", hex(address), " must name a running CTA of the cluster"), lane);
  }
  return cluster.ctas[rank].get();
}

SharedSide side_of(Cta* cta, uint32_t address) {
  return {cta->shared.get(), shared_offset(address)};
}

struct TensorArguments {
  TensorMap map;
  std::array<int32_t, 5> coordinates{};
};

TensorArguments tensor_arguments(Warp& warp, const BulkDetail& d, uint32_t lane) {
  TensorArguments out;
  Location at;
  require(
      locate(warp.views[lane], Space::kGeneric, value_of(warp, d.global, lane), kMapBytes, 64, &at),
      lane);
  require(decode_map(at.data, &out.map), lane);
  require(check_map(out.map), lane);  // sizes are computed from it before the copy runs
  const size_t wanted = d.mode == TileMode::kTile ? out.map.rank : 5;
  if (d.coordinates.size() != wanted) {
    stop(fault_kind_name(FaultKind::kBadOperand),
         concat("the tensor map has rank ", out.map.rank, "; got ", d.coordinates.size(),
                " coordinates"),
         lane);
  }
  for (size_t i = 0; i < wanted; ++i) {
    out.coordinates[i] = static_cast<int32_t>(warp.read(d.coordinates[i])[lane]);
  }
  return out;
}

void touch(ActionJob& job, Cta& cta, const CopyResult& result, bool write) {
  for (const ByteRange& range : result.shared) {
    job.touch_shared(*cta.cluster, map_shared(static_cast<uint32_t>(range.address), cta.rank),
                     range.bytes, write);
  }
}

// ---- Loads: one job for every destination.

void issue_load(Warp& warp, const Step& step, uint32_t lane) {
  const BulkDetail& d = detail_of(step);
  Cluster& cluster = *warp.cta->cluster;
  const uint32_t to = shared_value(warp, d.shared, lane);
  const uint32_t barrier = shared_value(warp, d.barrier, lane);
  cta_at(warp, lane, to);
  const uint32_t mask = d.multicast ? static_cast<uint32_t>(warp.read(d.mask)[lane]) & 0xffffu : 0;
  if (d.multicast && mask == 0) {
    stop(fault_kind_name(FaultKind::kBadOperand), "the multicast mask must not be empty", lane);
  }
  std::vector<MulticastTarget> targets;
  require(multicast_targets(mask, static_cast<uint32_t>(cluster.ctas.size()), shared_rank(to),
                            shared_rank(barrier), d.pair, &targets),
          lane);
  TensorArguments tensor;
  if (d.tensor) tensor = tensor_arguments(warp, d, lane);
  const uint64_t from = d.tensor ? 0 : value_of(warp, d.global, lane);
  const uint32_t bytes = d.tensor ? 0 : static_cast<uint32_t>(warp.read(d.size)[lane]);
  const BulkDetail* const detail = &d;
  for (const MulticastTarget& target : targets) {
    const uint32_t there = map_shared(to, target.rank);
    Cta* const cta = cta_at(warp, lane, there);
    uint32_t offset = 0;
    Cta* const owner = &barrier_owner(warp, lane, Space::kSharedCluster,
                                      map_shared(barrier, target.barrier_rank), &offset);
    require_async_init(warp, *owner, offset, lane);
    const bool first = &target == targets.data();
    warp.grid().issue(make_job(warp, step, lane, AccessKind::kBulk, [=](ActionJob& job) {
      const GlobalMemory& memory = *job.warp->grid().memory;
      job.require_running(*cta);
      CopyResult result;
      Fault fault;
      if (!detail->tensor) {
        fault = bulk_load(memory, from, side_of(cta, there), bytes, &result);
      } else if (detail->mode == TileMode::kGather) {
        fault = tile_gather4(tensor.map, tensor.coordinates.data(), memory, side_of(cta, there),
                             &result);
      } else {
        fault =
            tile_load(tensor.map, tensor.coordinates.data(), memory, side_of(cta, there), &result);
      }
      require(fault, job.lane);
      touch(job, *cta, result, true);
      for (const ByteRange& range : result.global) {
        job.touch_global(range.address, range.bytes, false);
      }
      if (first) {
        count_ranges(*job.warp, result.global, model::AccessKind::kRead);
      } else if (recorder_of(*job.warp) != nullptr) {
        recorder_of(*job.warp)->multicast(job.warp->index, result.completed_bytes);
      }
      job.complete_transaction(*owner, offset, result.completed_bytes);
    }));
  }
}

// ---- Stores and reductions: members of the thread's bulk group.

Fault store_now(Warp& warp, const BulkDetail& d, const TensorArguments& tensor, uint64_t to,
                uint32_t bytes, uint32_t byte_mask, const SharedSide& from, CopyResult* result) {
  GlobalMemory* const memory = warp.grid().memory;
  if (!d.tensor) {
    if (d.reduce) return bulk_reduce(d.op, d.type, from, memory, to, bytes, result);
    return bulk_store(from, memory, to, bytes, byte_mask, result);
  }
  const int32_t* const coordinates = tensor.coordinates.data();
  if (d.reduce) return tile_reduce(tensor.map, coordinates, d.op, memory, from, result);
  if (d.mode == TileMode::kScatter) {
    return tile_scatter4(tensor.map, coordinates, memory, from, result);
  }
  return tile_store(tensor.map, coordinates, memory, from, result);
}

void issue_store(Warp& warp, const Step& step, uint32_t lane) {
  const BulkDetail& d = detail_of(step);
  const uint32_t from = shared_value(warp, d.shared, lane);
  if (shared_rank(from) != warp.cta->rank) {
    stop(fault_kind_name(FaultKind::kWrongSpace), "the source must lie in the executing CTA", lane);
  }
  TensorArguments tensor;
  if (d.tensor) tensor = tensor_arguments(warp, d, lane);
  const uint64_t to = d.tensor ? 0 : value_of(warp, d.global, lane);
  const uint32_t bytes = d.tensor ? 0 : static_cast<uint32_t>(warp.read(d.size)[lane]);
  const uint32_t mask =
      d.masked ? static_cast<uint32_t>(warp.read(d.mask)[lane]) & 0xffffu : 0xffffu;
  if (warp.bulk_open[lane] == nullptr) warp.bulk_open[lane] = std::make_shared<BulkGroup>();
  const auto store = std::make_shared<BulkStore>();
  warp.bulk_open[lane]->stores.push_back(store);
  store->from = from;
  store->bytes =
      d.tensor ? map_box_bytes(tensor.map) * (d.mode == TileMode::kScatter ? 4 : 1) : bytes;
  const BulkDetail* const detail = &d;
  Cta* const cta = warp.cta;
  const AccessKind kind = d.reduce ? AccessKind::kBulkReduce : AccessKind::kBulk;
  auto job = make_job(warp, step, lane, kind, [=](ActionJob& self) {
    CopyResult result;
    SharedSide side = side_of(cta, from);
    if (store->read != nullptr) side.memory = store->read.get();
    require(store_now(*self.warp, *detail, tensor, to, bytes, mask, side, &result), self.lane);
    if (result.unwritten && self.warp->grid().options->check_uninitialized) {
      stop(fault_kind_name(FaultKind::kUninitialized),
           concat("bulk read of shared address ", hex(from), ": bytes that were never written"),
           self.lane);
    }
    if (store->read == nullptr) touch(self, *cta, result, false);
    if (self.ordered) {
      for (const ByteRange& range : result.global) {
        note_global(*cta->cluster, OrderClocks::actor_of(store->write), range.address, range.bytes,
                    true);
      }
    }
    count_ranges(*self.warp, result.global,
                 detail->reduce ? model::AccessKind::kAtomic : model::AccessKind::kWrite);
    store->job = nullptr;
  });
  store->job = job.get();
  job->stores = true;
  store->epoch = job->work.actor.epoch;
  if (job->ordered) {
    store->write = clocks_of(warp)->issue(warp.global, kind, instruction_key(warp.code(), step));
  }
  warp.grid().issue(std::move(job));
}

/// Shared memory of this CTA to that of another.
void issue_shared(Warp& warp, const Step& step, uint32_t lane) {
  const BulkDetail& d = detail_of(step);
  const uint32_t to = shared_value(warp, d.shared, lane);
  const uint32_t from = shared_value(warp, d.source, lane);
  const uint32_t bytes = static_cast<uint32_t>(warp.read(d.size)[lane]);
  Cta* const target = cta_at(warp, lane, to);
  Cta* const origin = cta_at(warp, lane, from);
  uint32_t offset = 0;
  Cta* const owner = &barrier_owner(warp, lane, Space::kSharedCluster,
                                    shared_value(warp, d.barrier, lane), &offset);
  require_async_init(warp, *owner, offset, lane);
  const BulkDetail* const detail = &d;
  warp.grid().issue(make_job(warp, step, lane, AccessKind::kBulk, [=](ActionJob& job) {
    job.require_running(*origin);
    job.require_running(*target);
    CopyResult result;
    const SharedSide source = side_of(origin, from), destination = side_of(target, to);
    require(detail->reduce
                ? bulk_reduce_shared(detail->op, detail->type, source, destination, bytes, &result)
                : bulk_shared(source, destination, bytes, &result),
            job.lane);
    job.touch_shared(*origin->cluster, from, bytes, false);
    job.touch_shared(*target->cluster, to, bytes, true);
    if (recorder_of(*job.warp) != nullptr) {
      recorder_of(*job.warp)->bulk_shared(job.warp->index, bytes);
    }
    job.complete_transaction(*owner, offset, bytes);
  }));
}

void prefetch(Warp& warp, const Step& step, uint32_t lane) {
  const BulkDetail& d = detail_of(step);
  if (d.tensor) {
    const TensorArguments tensor = tensor_arguments(warp, d, lane);
    if (d.mode == TileMode::kTile) {
      require(tile_prefetch(tensor.map, tensor.coordinates.data()), lane);
    }
    return;
  }
  require(bulk_prefetch(*warp.grid().memory, value_of(warp, d.global, lane),
                        static_cast<uint32_t>(warp.read(d.size)[lane])),
          lane);
}

template <void (*kIssue)(Warp&, const Step&, uint32_t)>
Outcome bulk_lanes(Warp& warp, const Step& step, uint32_t active) {
  each_lane(active, [&](uint32_t i) { kIssue(warp, step, i); });
  return Outcome::kNext;
}

// ---- Decoding

Address address_of(Decoder& d, const Operand& operand) {
  Address out;
  out.base = d.address(operand, &out.offset);
  return out;
}

/// [map, {coordinates}].
void decode_coordinates(Decoder& d, BulkDetail* detail, const Operand& operand) {
  detail->global = address_of(d, operand);
  const auto rest = d.elements(operand);
  if (rest.empty()) d.refuse("coordinates are missing");
  const bool vector = rest[0].kind == ptx::OperandKind::kVector;
  for (const Operand& e : vector ? d.elements(rest[0]) : rest) {
    detail->coordinates.push_back(d.source(e, ScalarType::kS32));
  }
}

/// Direction from the order of the two state spaces.
void decode_direction(Decoder& d, BulkDetail* detail) {
  std::vector<Modifier> spaces;
  for (const Modifier modifier : d.in.modifiers) {
    if (modifier == Modifier::kGlobal || modifier == Modifier::kSharedCluster ||
        modifier == Modifier::kSharedCta) {
      spaces.push_back(modifier);
    }
  }
  d.accept({Modifier::kGlobal, Modifier::kSharedCluster, Modifier::kSharedCta});
  if (spaces.size() != 2) d.refuse("two state spaces are expected");
  detail->own_cta = spaces[0] == Modifier::kSharedCta;
  if (spaces[0] == Modifier::kGlobal) {
    detail->direction = Direction::kStore;
  } else {
    detail->direction = spaces[1] == Modifier::kGlobal ? Direction::kLoad : Direction::kShared;
  }
}

MapType reduce_type(const Decoder& d, bool flush) {
  switch (d.in.type()) {
    case ScalarType::kU32:
    case ScalarType::kB32:
      return MapType::kU32;
    case ScalarType::kS32:
      return MapType::kS32;
    case ScalarType::kU64:
    case ScalarType::kB64:
      return MapType::kU64;
    case ScalarType::kS64:
      return MapType::kS64;
    case ScalarType::kF16:
      return MapType::kF16;
    case ScalarType::kBf16:
      return MapType::kBF16;
    case ScalarType::kF32:
      return flush ? MapType::kF32Ftz : MapType::kF32;
    case ScalarType::kF64:
      return MapType::kF64;
    default:
      d.refuse("the type is not handled");
  }
}

void decode_reduce(Decoder& d, BulkDetail* detail) {
  const int op = d.take_one({Modifier::kAdd, Modifier::kMin, Modifier::kMax, Modifier::kInc,
                             Modifier::kDec, Modifier::kAnd, Modifier::kOr, Modifier::kXor});
  if (op < 0) d.refuse("an operation is missing");
  detail->reduce = true;
  detail->op = static_cast<ReduceOp>(op);
  d.take(Modifier::kNoftz);
  if (!detail->tensor) detail->type = reduce_type(d, false);
}

void decode_modes(Decoder& d, BulkDetail* detail) {
  detail->tensor =
      d.take_one({Modifier::k1d, Modifier::k2d, Modifier::k3d, Modifier::k4d, Modifier::k5d}) >= 0;
  d.accept({Modifier::kTile, Modifier::kBulkGroup, Modifier::kMbarrierCompleteTxBytes,
            Modifier::kCtaGroup1});
  if (d.take(Modifier::kTileGather4)) detail->mode = TileMode::kGather;
  if (d.take(Modifier::kTileScatter4)) detail->mode = TileMode::kScatter;
  detail->pair = d.take(Modifier::kCtaGroup2);
  detail->multicast = d.take(Modifier::kMulticastCluster);
  detail->masked = d.take(Modifier::kCpMask);
}

void decode_bulk(Decoder& d) {
  BulkDetail* const detail = d.detail<BulkDetail>();
  decode_modes(d, detail);
  decode_direction(d, detail);
  const bool cached = d.take(Modifier::kL2CacheHint);
  if (d.in.opcode == Opcode::kCpReduceAsyncBulk ||
      d.in.opcode == Opcode::kCpReduceAsyncBulkTensor) {
    decode_reduce(d, detail);
  }
  uint32_t place = 0;
  if (detail->direction == Direction::kStore) {
    if (detail->tensor) {
      decode_coordinates(d, detail, d.operand(place++));
    } else {
      detail->global = address_of(d, d.operand(place++));
    }
    detail->shared = address_of(d, d.operand(place++));
  } else {
    detail->shared = address_of(d, d.operand(place++));
    if (detail->tensor) {
      decode_coordinates(d, detail, d.operand(place++));
    } else if (detail->direction == Direction::kShared) {
      detail->source = address_of(d, d.operand(place++));
    } else {
      detail->global = address_of(d, d.operand(place++));
    }
  }
  if (!detail->tensor) detail->size = d.source(place++, ScalarType::kU32);
  if (detail->direction != Direction::kStore) detail->barrier = address_of(d, d.operand(place++));
  if (detail->multicast) detail->mask = d.source(place++, ScalarType::kB16);
  if (cached) ++place;
  if (detail->masked) detail->mask = d.source(place++, ScalarType::kB16);
  if (place != d.operand_count()) d.refuse("the operands do not fit the form");
  d.step.run = detail->direction == Direction::kStore  ? bulk_lanes<issue_store>
               : detail->direction == Direction::kLoad ? bulk_lanes<issue_load>
                                                       : bulk_lanes<issue_shared>;
}

void decode_prefetch(Decoder& d) {
  BulkDetail* const detail = d.detail<BulkDetail>();
  detail->direction = Direction::kPrefetch;
  decode_modes(d, detail);
  d.accept({Modifier::kL2, Modifier::kGlobal, Modifier::kL2CacheHint});
  if (detail->tensor) {
    decode_coordinates(d, detail, d.operand(0));
  } else {
    detail->global = address_of(d, d.operand(0));
    detail->size = d.source(1, ScalarType::kU32);
  }
  d.step.run = bulk_lanes<prefetch>;
}

// ---- Groups

Outcome commit_lanes(Warp& warp, const Step&, uint32_t active) {
  each_lane(active, [&](uint32_t i) {
    std::shared_ptr<BulkGroup> group = std::move(warp.bulk_open[i]);
    warp.bulk_open[i] = nullptr;
    if (group == nullptr) group = std::make_shared<BulkGroup>();
    warp.bulk_groups[i].push_back(std::move(group));
  });
  return Outcome::kNext;
}

/// The source is read now; the write to global memory may come much later.
void read_source(Warp& warp, BulkStore* store) {
  auto& job = static_cast<ActionJob&>(*store->job);
  job.touch_shared(*warp.cta->cluster, store->from, store->bytes, false);
  store->read = std::make_shared<SharedMemory>(*warp.cta->shared);
  job.drained = true;
}

/// Whether a store allows the wait to end.
bool is_done(Warp& warp, const Step& step, BulkStore* store) {
  if (store->job == nullptr) return true;
  if (step.choice == 0) return false;
  Grid& grid = warp.grid();
  const bool split = grid.options->adversary == Adversary::kLate ||
                     (grid.options->adversary == Adversary::kRandom && grid.random_below(4) == 0);
  // A source that does not exist is for the copy itself to report.
  const bool exists = warp.cta->shared->contains(shared_offset(store->from), store->bytes);
  if (store->read == nullptr && split && exists) read_source(warp, store);
  return store->read != nullptr;
}

/// choice 1: .read.
Outcome wait_lanes(Warp& warp, const Step& step, uint32_t active) {
  const size_t newest = static_cast<size_t>(step.number);
  bool ready = true;
  each_lane(active, [&](uint32_t i) {
    auto& groups = warp.bulk_groups[i];
    for (size_t g = 0; g + newest < groups.size(); ++g) {
      for (const auto& store : groups[g]->stores) ready &= is_done(warp, step, store.get());
    }
  });
  Wait& wait = warp.group().wait;
  if (!ready) {
    wait.kind = Wait::Kind::kCopies;
    return Outcome::kBlocked;
  }
  OrderClocks* const clocks = clocks_of(warp);
  each_lane(active, [&](uint32_t i) {
    auto& groups = warp.bulk_groups[i];
    for (size_t g = 0; g + newest < groups.size(); ++g) {
      for (const auto& store : groups[g]->stores) {
        if (clocks == nullptr) continue;
        clocks->observe(warp.global, store->epoch);
        if (step.choice == 0) clocks->observe(warp.global, store->write.actor.epoch);
      }
    }
    // Groups whose writes are still to come stay for a wait without .read.
    while (groups.size() > newest &&
           std::all_of(groups.front()->stores.begin(), groups.front()->stores.end(),
                       [](const auto& store) { return store->job == nullptr; })) {
      groups.pop_front();
    }
  });
  wait = {};
  return Outcome::kNext;
}

void decode_groups(Decoder& d) {
  if (d.in.opcode == Opcode::kCpAsyncBulkCommitGroup) {
    d.expect(0, 0);
    d.step.run = commit_lanes;
    return;
  }
  d.step.choice = d.take(Modifier::kRead) ? 1 : 0;
  d.expect(1, 1);
  d.step.number = d.operand(0).value;
  d.step.blocking = true;
  d.step.run = wait_lanes;
}

}  // namespace

DecodeFunction bulk_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kCpAsyncBulk:
    case Opcode::kCpAsyncBulkTensor:
    case Opcode::kCpReduceAsyncBulk:
    case Opcode::kCpReduceAsyncBulkTensor:
      return decode_bulk;
    case Opcode::kCpAsyncBulkPrefetch:
    case Opcode::kCpAsyncBulkPrefetchTensor:
      return decode_prefetch;
    case Opcode::kCpAsyncBulkCommitGroup:
    case Opcode::kCpAsyncBulkWaitGroup:
      return decode_groups;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
