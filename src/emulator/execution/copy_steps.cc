// Asynchronous copies of single threads: cp.async with its groups, st.async, red.async.
// Depends on: jobs.h, mbarriers.h. What cp.async copies lands between its issue and its wait, as
// the adversary likes; the source is read at that time.
#include <cstring>

#include "base/message.h"
#include "emulator/execution/atomics.h"
#include "emulator/execution/counting.h"
#include "emulator/execution/jobs.h"
#include "emulator/execution/lanes.h"
#include "emulator/execution/spaces.h"

namespace flamia::emulator::execution {
namespace {

struct CopyDetail : Detail {
  uint32_t bytes = 0;
  bool has_source_bytes = false;
  bool has_ignore = false;
  Source ignore;
  int64_t from_offset = 0;
  // st.async, red.async
  ScalarType type{};
  AtomicOp op = AtomicOp::kExchange;
  uint32_t count = 1;
  Source values[4];
  int64_t barrier_offset = 0;
  Space space = Space::kSharedCta;
  bool noinc = false;
};

const CopyDetail& detail_of(const Step& step) {
  return static_cast<const CopyDetail&>(*step.detail);
}

void land(Warp& warp, const LaneCopy& copy) {
  uint8_t data[16] = {};
  const MemoryView& view = warp.views[copy.lane];
  if (copy.source_bytes != 0) {
    Fault fault = read_bytes(view, Space::kGlobal, copy.from, copy.source_bytes, 1, data);
    const bool ignored =
        fault.kind == FaultKind::kUninitialized && !warp.grid().options->check_uninitialized;
    if (!ignored) require(fault, copy.lane);
  }
  require(write_bytes(view, Space::kSharedCta, copy.to, copy.bytes, copy.bytes, data), copy.lane);
  if (clocks_of(warp) != nullptr) {
    const Actor actor = clocks_of(warp)->own_access(warp.global, AccessKind::kGeneric, copy.key);
    note_shared(*warp.cta->cluster, actor, copy.to, copy.bytes, true);
  }
}

/// Lands the copies for which `chosen` holds, in order.
template <typename Chosen>
void land_if(Warp& warp, Chosen chosen) {
  ++warp.grid().activity;
  for (size_t i = 0; i < warp.copies.size();) {
    if (!chosen(warp.copies[i])) {
      ++i;
      continue;
    }
    const LaneCopy copy = warp.copies[i];
    warp.copies.erase(warp.copies.begin() + static_cast<std::ptrdiff_t>(i));
    land(warp, copy);
  }
}

bool lands_at_once(Grid& grid) {
  return grid.options->adversary == Adversary::kEarly ||
         (grid.options->adversary == Adversary::kRandom && grid.random_below(2) == 0);
}

Outcome copy_lanes(Warp& warp, const Step& step, uint32_t active) {
  const CopyDetail& d = detail_of(step);
  uint64_t to[kLanes], from[kLanes];
  effective_addresses(warp.read(step.source[0]), step.number, true, to);
  effective_addresses(warp.read(step.source[1]), d.from_offset, false, from);
  const uint32_t ignored = d.has_ignore ? read_predicate(warp, d.ignore) : 0;
  const bool now = lands_at_once(warp.grid());
  if (model::Recorder* const recorder = recorder_of(warp); recorder != nullptr) {
    uint32_t reading = active & ~ignored;
    if (d.has_source_bytes) {
      each_lane(reading, [&](uint32_t i) {
        if (static_cast<uint32_t>(warp.read(step.source[2])[i]) == 0) reading &= ~(1u << i);
      });
    }
    if (reading != 0) {
      recorder->global(warp.index, from, reading, d.bytes, model::AccessKind::kRead);
    }
    recorder->shared(warp.index, to, active, d.bytes, model::AccessKind::kWrite, false);
  }
  each_lane(active, [&](uint32_t i) {
    LaneCopy copy;
    copy.lane = i;
    copy.group = warp.copy_group[i];
    copy.bytes = copy.source_bytes = d.bytes;
    if (d.has_source_bytes) copy.source_bytes = static_cast<uint32_t>(warp.read(step.source[2])[i]);
    if ((ignored >> i & 1u) != 0) copy.source_bytes = 0;
    copy.from = from[i];
    copy.to = to[i];
    copy.serial = warp.copy_serial++;
    copy.step = &step;
    copy.key = instruction_key(warp.code(), step);
    if (copy.source_bytes > copy.bytes) {
      stop(fault_kind_name(FaultKind::kBadOperand),
           concat("cp.async: src-size must be at most ", copy.bytes, "; got ", copy.source_bytes),
           i);
    }
    Location at;
    require(locate(warp.views[i], Space::kSharedCta, copy.to, copy.bytes, copy.bytes, &at), i);
    if (copy.source_bytes != 0 && copy.from % copy.bytes != 0) {
      stop(fault_kind_name(FaultKind::kMisaligned),
           concat("cp.async: source must be a multiple of ", copy.bytes, "; got ", hex(copy.from)),
           i);
    }
    if (now) {
      land(warp, copy);
    } else {
      warp.copies.push_back(copy);
    }
  });
  return Outcome::kNext;
}

void decode_copy(Decoder& d) {
  CopyDetail* const detail = d.detail<CopyDetail>();
  d.accept({Modifier::kCa, Modifier::kCg, Modifier::kShared, Modifier::kSharedCta,
            Modifier::kGlobal, Modifier::kL264B, Modifier::kL2128B, Modifier::kL2256B});
  const bool cached = d.take(Modifier::kL2CacheHint);
  const uint32_t end = d.operand_count() - (cached ? 1 : 0);
  d.expect(3, 5);
  d.step.source[0] = d.address(d.operand(0), &d.step.number);
  d.step.source[1] = d.address(d.operand(1), &detail->from_offset);
  detail->bytes = static_cast<uint32_t>(d.operand(2).value);
  if (detail->bytes != 4 && detail->bytes != 8 && detail->bytes != 16) {
    d.refuse("cp-size must be 4, 8 or 16");
  }
  if (end == 4) {
    const ptx::Operand& last = d.operand(3);
    if (last.kind == ptx::OperandKind::kRegister && d.register_bits(last) == 1) {
      detail->has_ignore = true;
      detail->ignore = d.source(last, ScalarType::kPred);
    } else {
      detail->has_source_bytes = true;
      d.step.source[2] = d.source(last, ScalarType::kU32);
    }
  }
  d.step.run = copy_lanes;
}

Outcome commit_lanes(Warp& warp, const Step&, uint32_t active) {
  each_lane(active, [&](uint32_t i) { ++warp.copy_group[i]; });
  return Outcome::kNext;
}

Outcome wait_lanes(Warp& warp, const Step& step, uint32_t active) {
  const bool all = step.choice == 1;
  const uint32_t newest = static_cast<uint32_t>(step.number);
  land_if(warp, [&](const LaneCopy& copy) {
    if ((active >> copy.lane & 1u) == 0) return false;
    return all || copy.group + newest < warp.copy_group[copy.lane];
  });
  return Outcome::kNext;
}

void decode_groups(Decoder& d) {
  if (d.in.opcode == Opcode::kCpAsyncCommitGroup) {
    d.expect(0, 0);
    d.step.run = commit_lanes;
    return;
  }
  d.step.choice = d.in.opcode == Opcode::kCpAsyncWaitAll ? 1 : 0;
  if (d.step.choice == 0) d.step.number = d.operand(0).value;
  d.step.run = wait_lanes;
}

/// The arrival follows the thread's earlier copies.
Outcome arrive_lanes(Warp& warp, const Step& step, uint32_t active) {
  const CopyDetail& d = detail_of(step);
  uint64_t addresses[kLanes];
  effective_addresses(warp.read(step.source[0]), step.number, d.space != Space::kGeneric,
                      addresses);
  each_lane(active, [&](uint32_t i) {
    uint32_t offset = 0;
    Cta* const owner = &barrier_owner(warp, i, d.space, addresses[i], &offset);
    if (!d.noinc) require(owner->mbarriers->add_pending(offset).fault, i);
    const uint64_t serial = warp.copy_serial;
    warp.grid().issue(make_job(warp, step, i, AccessKind::kBulk, [=](ActionJob& job) {
      land_if(*job.warp,
              [&](const LaneCopy& copy) { return copy.lane == job.lane && copy.serial < serial; });
      release_into(*job.warp, *owner, offset);
      require(owner->mbarriers->arrive(offset, 1).fault, job.lane);
    }));
  });
  return Outcome::kNext;
}

void decode_arrive(Decoder& d) {
  CopyDetail* const detail = d.detail<CopyDetail>();
  detail->noinc = d.take(Modifier::kNoinc);
  detail->space = take_space(d);
  d.expect(1, 1);
  d.step.source[0] = d.address(d.operand(0), &d.step.number);
  d.step.run = arrive_lanes;
}

/// st.async and red.async: values of now, written later, then counted on the barrier.
Outcome remote_lanes(Warp& warp, const Step& step, uint32_t active) {
  const CopyDetail& d = detail_of(step);
  uint64_t to[kLanes], barrier[kLanes];
  effective_addresses(warp.read(step.source[0]), step.number, true, to);
  effective_addresses(warp.read(step.source[1]), d.barrier_offset, true, barrier);
  const uint32_t bytes = ptx::type_bits(d.type) / 8;
  each_lane(active, [&](uint32_t i) {
    Location at;
    require(
        locate(warp.views[i], Space::kSharedCluster, to[i], bytes * d.count, bytes * d.count, &at),
        i);
    uint32_t offset = 0;
    Cta* const owner = &barrier_owner(warp, i, Space::kSharedCluster, barrier[i], &offset);
    if (owner->rank != at.rank) {
      stop(fault_kind_name(FaultKind::kBadOperand),
           "the mbarrier must lie in the CTA of the destination", i);
    }
    std::array<uint64_t, 4> values{};
    for (uint32_t r = 0; r < d.count; ++r) values[r] = warp.read(d.values[r])[i];
    const uint32_t address = static_cast<uint32_t>(to[i]);
    const CopyDetail* const detail = &d;
    warp.grid().issue(make_job(warp, step, i, AccessKind::kBulk, [=](ActionJob& job) {
      job.require_running(*owner);
      uint8_t* const data = owner->shared->at(shared_offset(address));
      for (uint32_t r = 0; r < detail->count; ++r) {
        uint64_t value = 0;
        std::memcpy(&value, data + r * bytes, bytes);
        value = atomic_result(detail->op, detail->type, value, values[r], false);
        std::memcpy(data + r * bytes, &value, bytes);
      }
      owner->shared->mark(shared_offset(address), uint64_t{bytes} * detail->count, true);
      job.touch_shared(*owner->cluster, address, uint64_t{bytes} * detail->count, true);
      job.complete_transaction(*owner, offset, bytes * detail->count);
    }));
  });
  return Outcome::kNext;
}

void decode_remote(Decoder& d) {
  CopyDetail* const detail = d.detail<CopyDetail>();
  if (!d.take(Modifier::kMbarrierCompleteTxBytes)) d.refuse("a completion mechanism is missing");
  d.accept({Modifier::kWeak, Modifier::kSharedCluster, Modifier::kRelaxed, Modifier::kCluster});
  detail->type = d.in.type();
  const uint32_t bits = ptx::type_bits(detail->type);
  if (bits != 32 && bits != 64) d.refuse("the type must have 32 or 64 bits");
  if (d.in.opcode == Opcode::kRedAsync) detail->op = take_atomic_op(d);
  const int vector = d.take_one({Modifier::kV2, Modifier::kV4});
  d.expect(3, 3);
  d.step.source[0] = d.address(d.operand(0), &d.step.number);
  d.step.source[1] = d.address(d.operand(2), &detail->barrier_offset);
  if (vector < 0) {
    detail->values[0] = d.source(1, detail->type);
  } else {
    const auto values = d.elements(d.operand(1));
    detail->count = static_cast<uint32_t>(values.size());
    if (values.size() != (2u << vector)) d.refuse("the vector has a wrong length");
    for (uint32_t r = 0; r < detail->count; ++r) {
      detail->values[r] = d.source(values[r], detail->type);
    }
  }
  d.step.run = remote_lanes;
}

}  // namespace

DecodeFunction copy_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kCpAsync:
      return decode_copy;
    case Opcode::kCpAsyncCommitGroup:
    case Opcode::kCpAsyncWaitGroup:
    case Opcode::kCpAsyncWaitAll:
      return decode_groups;
    case Opcode::kCpAsyncMbarrierArrive:
      return decode_arrive;
    case Opcode::kStAsync:
    case Opcode::kRedAsync:
      return decode_remote;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
