// tcgen05 that touches registers or the allocator: alloc, dealloc, ld, ld.red, st, waits, fences.
// Depends on: machine/tensor_memory.h for all effects. Loads and stores take effect at once;
// whether somebody relied on that without a wait is for the hazard check.
#include <algorithm>

#include "base/message.h"
#include "emulator/execution/register_watch.h"
#include "emulator/execution/tensor_operands.h"

namespace flamia::emulator::execution {
namespace {

using ptx::Operand;
using ptx::OperandKind;

// ---- Allocation

Outcome alloc_lanes(Warp& warp, const Step& step, uint32_t active) {
  const TensorDetail& d = tensor_detail(step);
  Cta& cta = *warp.cta;
  const Grid& grid = warp.grid();
  const uint32_t lane = first_lane(active);
  check_group(warp, step);
  if (d.cta_group == 2 && !has_peer(cta)) {
    stop(fault_kind_name(FaultKind::kBadOperand), "cta_group::2 needs both CTAs of the pair");
  }
  const uint32_t columns = static_cast<uint32_t>(warp.read(d.a)[lane]);
  // Both CTAs of a pair must get the same columns.
  const uint64_t seed = grid.options->seed * 1000003u + cta.cluster->number + 1;
  const TensorAllocation allocation = memory_of(cta).allocate(cta.serial, columns, seed);
  require(allocation.fault);
  if (allocation.blocked) {
    warp.group().wait.kind = Wait::Kind::kTensor;
    return Outcome::kBlocked;
  }
  cta.tensor_alloc_key = instruction_key(warp.code(), step);
  uint64_t addresses[kLanes];
  effective_addresses(warp.read(d.address.base), d.address.offset, d.space != Space::kGeneric,
                      addresses);
  LaneAccess access;
  locate_lanes(warp, d.space, addresses, 1u << lane, 4, 4, &access);
  before_write(warp, step, access, {});
  std::copy_n(reinterpret_cast<const uint8_t*>(&allocation.address), 4, access.at[lane].data);
  return Outcome::kNext;
}

Outcome dealloc_lanes(Warp& warp, const Step& step, uint32_t active) {
  const TensorDetail& d = tensor_detail(step);
  const uint32_t lane = first_lane(active);
  Cta& cta = *warp.cta;
  check_group(warp, step);
  const uint32_t address = static_cast<uint32_t>(warp.read(d.a)[lane]);
  const uint32_t columns = static_cast<uint32_t>(warp.read(d.b)[lane]);
  require(memory_of(cta).deallocate(cta.serial, address, columns));
  OrderClocks* const clocks = clocks_of(warp);
  if (clocks != nullptr && warp.grid().options->rules != Rules::kLenient) {
    // Nobody may be using the columns any more, and their history ends here.
    const AsyncWork work = clocks->tensor_free(warp.global, instruction_key(warp.code(), step));
    const Actor actor = OrderClocks::actor_of(work);
    for (uint32_t l = 0; l < kTensorLanes; ++l) {
      note_tensor(cta, actor, l, tensor_column(address), columns, true);
      forget_tensor(cta, l, tensor_column(address), columns);
    }
  }
  ++warp.grid().activity;
  return Outcome::kNext;
}

void decode_allocation(Decoder& d) {
  TensorDetail* const detail = make_tensor_detail(d);
  d.step.aligned = d.step.blocking = true;
  if (d.in.opcode == Opcode::kTcgen05Alloc) {
    detail->space = take_space(d);
    d.expect(2, 2);
    detail->address = tensor_operand(d, d.operand(0));
    detail->a = d.source(1, ScalarType::kU32);
    d.step.run = alloc_lanes;
  } else if (d.in.opcode == Opcode::kTcgen05Dealloc) {
    d.expect(2, 2);
    detail->a = d.source(0u, ScalarType::kB32);
    detail->b = d.source(1, ScalarType::kU32);
    d.step.run = dealloc_lanes;
  } else {
    d.step.run = [](Warp& warp, const Step& step, uint32_t) {
      check_group(warp, step);
      require(memory_of(*warp.cta).relinquish(warp.cta->serial));
      return Outcome::kNext;
    };
  }
}

// ---- ld, st

/// Records the access; its epoch.
Epoch note_cells(Warp& warp, const Step& step, const TensorAccess& access, uint32_t address,
                 bool write) {
  OrderClocks* const clocks = clocks_of(warp);
  if (clocks == nullptr) return {};
  const AsyncWork work =
      clocks->issue(warp.global, write ? AccessKind::kTensorStore : AccessKind::kTensorLoad,
                    instruction_key(warp.code(), step));
  const Actor actor = OrderClocks::actor_of(work);
  const uint32_t lane = tensor_lane(address), column = tensor_column(address);
  const uint32_t width = access.packed ? 2 : 1;
  if (access.shape == TensorShape::k32x32b) {
    for (uint32_t t = 0; t < kLanes; ++t) {
      note_tensor(*warp.cta, actor, lane + t, column, tensor_column_span(access), write);
    }
    return actor.epoch;
  }
  for (uint32_t r = 0; r < tensor_register_count(access); ++r) {
    for (uint32_t t = 0; t < kLanes; ++t) {
      const TensorCell cell = tensor_cell(access, t, r);
      note_tensor(*warp.cta, actor, lane + cell.lane, column + cell.column, width, write);
    }
  }
  return actor.epoch;
}

uint32_t uniform_address(Warp& warp, const TensorOperandAddress& address, uint32_t active) {
  const uint32_t value = tensor_value(warp, address, first_lane(active));
  each_lane(active, [&](uint32_t i) {
    if (tensor_value(warp, address, i) != value) {
      stop(fault_kind_name(FaultKind::kBadOperand),
           "the tensor memory address must be the same in all lanes", i);
    }
  });
  return value;
}

Outcome load_lanes(Warp& warp, const Step& step, uint32_t active) {
  const TensorDetail& d = tensor_detail(step);
  const uint32_t address = uniform_address(warp, d.address, active);
  std::vector<std::array<uint32_t, kLanes>> registers(d.slots.size());
  auto* const rows = reinterpret_cast<uint32_t(*)[32]>(registers.data());
  TensorMemory& memory = memory_of(*warp.cta);
  uint32_t reduced[kLanes] = {};
  const uint32_t quarter = warp.index % 4;
  const uint32_t owner = warp.cta->serial;
  require_initialized(
      warp.grid(),
      d.reducing ? memory.load_reduce(owner, quarter, d.access, address, d.reduce, rows, reduced)
                 : memory.load(owner, quarter, d.access, address, rows));
  const Epoch epoch = note_cells(warp, step, d.access, address, false);
  for (size_t r = 0; r < d.slots.size(); ++r) {
    std::copy_n(registers[r].data(), kLanes, warp.row(d.slots[r]));
  }
  if (d.reducing) std::copy_n(reduced, kLanes, warp.row(d.reduced_slot));
  if (epoch.step != 0) begin_tensor_load(warp, d.slots, epoch);
  return Outcome::kNext;
}

Outcome store_lanes(Warp& warp, const Step& step, uint32_t active) {
  const TensorDetail& d = tensor_detail(step);
  const uint32_t address = uniform_address(warp, d.address, active);
  std::vector<std::array<uint32_t, kLanes>> registers(d.values.size());
  for (size_t r = 0; r < d.values.size(); ++r) {
    const uint64_t* const row = warp.read(d.values[r]);
    for (uint32_t t = 0; t < kLanes; ++t) registers[r][t] = static_cast<uint32_t>(row[t]);
  }
  require(memory_of(*warp.cta).store(warp.cta->serial, warp.index % 4, d.access, address,
                                     reinterpret_cast<const uint32_t(*)[32]>(registers.data())));
  note_cells(warp, step, d.access, address, true);
  return Outcome::kNext;
}

void take_access(Decoder& d, TensorDetail* detail) {
  const int shape = d.take_one({Modifier::k32x32b, Modifier::k16x64b, Modifier::k16x128b,
                                Modifier::k16x256b, Modifier::k16x32bx2});
  const int count = d.take_one({Modifier::kX1, Modifier::kX2, Modifier::kX4, Modifier::kX8,
                                Modifier::kX16, Modifier::kX32, Modifier::kX64, Modifier::kX128});
  if (shape < 0 || count < 0) d.refuse("the shape is missing");
  detail->access.shape = static_cast<TensorShape>(shape);
  detail->access.count = 1u << count;
  const bool pack = d.take(Modifier::kPack16b), unpack = d.take(Modifier::kUnpack16b);
  detail->access.packed = pack || unpack;
}

void decode_move(Decoder& d) {
  TensorDetail* const detail = make_tensor_detail(d);
  const bool store = d.in.opcode == Opcode::kTcgen05St;
  detail->reducing = d.in.opcode == Opcode::kTcgen05LdRed;
  take_access(d, detail);
  if (detail->reducing) {
    detail->reduce.maximum = d.take_one({Modifier::kMin, Modifier::kMax}) == 1;
    detail->reduce.absolute = d.take(Modifier::kAbs);
    detail->reduce.propagate_nan = d.take(Modifier::kNaN);
    detail->reduce.type = d.in.type() == ScalarType::kF32   ? TensorReduceType::kF32
                          : d.in.type() == ScalarType::kS32 ? TensorReduceType::kS32
                                                            : TensorReduceType::kU32;
  }
  const bool halves = detail->access.shape == TensorShape::k16x32bx2;
  uint32_t place = 0;
  const Operand* vector = nullptr;
  if (store) {
    detail->address = tensor_operand(d, d.operand(place++));
    if (halves) {
      detail->access.second_half_columns = static_cast<uint32_t>(d.operand(place++).value);
    }
    vector = &d.operand(place++);
  } else {
    vector = &d.operand(place++);
    if (detail->reducing) detail->reduced_slot = d.target(place++);
    detail->address = tensor_operand(d, d.operand(place++));
    if (halves) {
      detail->access.second_half_columns = static_cast<uint32_t>(d.operand(place++).value);
    }
  }
  if (place != d.operand_count()) d.refuse("the operands do not fit the form");
  for (const Operand& e : d.elements(*vector)) {
    if (store) {
      detail->values.push_back(d.source(e, ScalarType::kB32));
    } else {
      detail->slots.push_back(d.target(e));
    }
  }
  if (vector->kind == OperandKind::kRegister) {
    if (store) {
      detail->values.push_back(d.source(*vector, ScalarType::kB32));
    } else {
      detail->slots.push_back(d.target(*vector));
    }
  }
  if (tensor_register_count(detail->access) !=
      std::max(detail->slots.size(), detail->values.size())) {
    d.refuse("the number of registers does not fit the shape");
  }
  d.step.aligned = d.step.blocking = true;
  d.step.run = store ? store_lanes : load_lanes;
}

// ---- Waits and fences: registers and memory are up to date here; only the order is recorded.

Outcome order_lanes(Warp& warp, const Step& step, uint32_t) {
  OrderClocks* const clocks = clocks_of(warp);
  if (clocks == nullptr) return Outcome::kNext;
  switch (static_cast<Opcode>(step.number)) {
    case Opcode::kTcgen05WaitLd:
      clocks->wait_tensor_load(warp.global);
      break;
    case Opcode::kTcgen05WaitSt:
      clocks->wait_tensor_store(warp.global);
      break;
    case Opcode::kTcgen05FenceBeforeThreadSync:
      clocks->tensor_fence_before(warp.global);
      break;
    default:
      clocks->tensor_fence_after(warp.global);
      break;
  }
  return Outcome::kNext;
}

void decode_order(Decoder& d) {
  const bool wait = d.in.opcode == Opcode::kTcgen05WaitLd || d.in.opcode == Opcode::kTcgen05WaitSt;
  d.accept({Modifier::kSync, Modifier::kAligned});
  d.expect(0, 0);
  d.step.aligned = d.step.blocking = wait;
  d.step.number = static_cast<int64_t>(d.in.opcode);
  d.step.run = order_lanes;
}

}  // namespace

DecodeFunction tensor_memory_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kTcgen05Alloc:
    case Opcode::kTcgen05Dealloc:
    case Opcode::kTcgen05RelinquishAllocPermit:
      return decode_allocation;
    case Opcode::kTcgen05Ld:
    case Opcode::kTcgen05LdRed:
    case Opcode::kTcgen05St:
      return decode_move;
    case Opcode::kTcgen05WaitLd:
    case Opcode::kTcgen05WaitSt:
    case Opcode::kTcgen05FenceBeforeThreadSync:
    case Opcode::kTcgen05FenceAfterThreadSync:
      return decode_order;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
