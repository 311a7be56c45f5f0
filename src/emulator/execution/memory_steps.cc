// ld, ldu, st of every space, type and vector length.
// Depends on: memory_access.h. Parameters of calls live in frames, those of an entry in the
// parameter bank of the grid.
#include <cstring>

#include "base/message.h"
#include "emulator/execution/counting.h"
#include "emulator/execution/decoder.h"
#include "emulator/execution/lanes.h"
#include "emulator/execution/memory_access.h"
#include "emulator/execution/order.h"
#include "emulator/execution/spaces.h"

namespace flamia::emulator::execution {
namespace {

using ptx::Operand;
using ptx::OperandKind;

enum class FrameMemory : uint8_t { kNone, kArguments, kParameters, kReturns };

constexpr uint32_t kMostElements = 8;

struct MemoryDetail : Detail {
  Space space = Space::kGeneric;
  bool narrow = false;  ///< addresses have 32 bits
  FrameMemory frame = FrameMemory::kNone;
  uint32_t element_bytes = 4;
  uint32_t count = 1;  ///< elements; a b128 counts as two of 64 bits
  uint32_t alignment = 4;
  bool sign = false;
  AccessOrder order;
  uint32_t slots[kMostElements] = {};
  uint64_t masks[kMostElements] = {};
  Source values[kMostElements];
};

const MemoryDetail& detail_of(const Step& step) {
  return static_cast<const MemoryDetail&>(*step.detail);
}

template <typename T>
void load_elements(Warp& warp, const MemoryDetail& d, uint32_t active, uint8_t* const* data) {
  using S = std::make_signed_t<T>;
  for (uint32_t r = 0; r < d.count; ++r) {
    uint64_t* const out = warp.row(d.slots[r]);
    each_lane(active, [&](uint32_t i) {
      T value;
      std::memcpy(&value, data[i] + r * sizeof(T), sizeof(T));
      out[i] = d.sign ? static_cast<uint64_t>(int64_t{static_cast<S>(value)}) & d.masks[r]
                      : uint64_t{value};
    });
  }
}

template <typename T>
void store_elements(Warp& warp, const MemoryDetail& d, uint32_t active, uint8_t* const* data) {
  // Lanes in order, so that the highest lane wins where addresses are equal.
  each_lane(active, [&](uint32_t i) {
    for (uint32_t r = 0; r < d.count; ++r) {
      const T value = static_cast<T>(warp.read(d.values[r])[i]);
      std::memcpy(data[i] + r * sizeof(T), &value, sizeof(T));
    }
  });
}

template <bool kLoad>
void move_elements(Warp& warp, const MemoryDetail& d, uint32_t active, uint8_t* const* data) {
  switch (d.element_bytes) {
    case 1:
      return kLoad ? load_elements<uint8_t>(warp, d, active, data)
                   : store_elements<uint8_t>(warp, d, active, data);
    case 2:
      return kLoad ? load_elements<uint16_t>(warp, d, active, data)
                   : store_elements<uint16_t>(warp, d, active, data);
    case 4:
      return kLoad ? load_elements<uint32_t>(warp, d, active, data)
                   : store_elements<uint32_t>(warp, d, active, data);
    default:
      return kLoad ? load_elements<uint64_t>(warp, d, active, data)
                   : store_elements<uint64_t>(warp, d, active, data);
  }
}

/// Which lane's value stays where several lanes store to one place is not defined.
void check_stored_values(Warp& warp, const Step& step, const MemoryDetail& d,
                         const LaneAccess& access) {
  uint8_t values[kLanes][kMostElements * 8];
  const uint8_t* bytes_of[kLanes];
  each_lane(access.active, [&](uint32_t i) {
    for (uint32_t r = 0; r < d.count; ++r) {
      const uint64_t value = warp.read(d.values[r])[i];
      std::memcpy(values[i] + r * d.element_bytes, &value, d.element_bytes);
    }
    bytes_of[i] = values[i];
  });
  check_lanes_agree(warp, step, access, bytes_of);
}

template <bool kLoad>
Outcome memory_lanes(Warp& warp, const Step& step, uint32_t active) {
  const MemoryDetail& d = detail_of(step);
  uint64_t addresses[kLanes];
  effective_addresses(warp.read(step.source[0]), step.number, d.narrow, addresses);
  LaneAccess access;
  locate_lanes(warp, d.space, addresses, active, d.element_bytes * d.count, d.alignment, &access);
  if (kLoad) {
    before_read(warp, step, access, d.order);
  } else {
    before_write(warp, step, access, d.order);
    const MachineOptions& options = *warp.grid().options;
    if (options.rules == Rules::kStrict && options.check_hazards && !d.order.strong) {
      check_stored_values(warp, step, d, access);
    }
  }
  count_access(warp, access, kLoad ? model::AccessKind::kRead : model::AccessKind::kWrite);
  uint8_t* data[kLanes];
  each_lane(active, [&](uint32_t i) { data[i] = access.at[i].data; });
  move_elements<kLoad>(warp, d, active, data);
  if (!kLoad && warp.cta->cluster->pending_store.word != nullptr) after_store(*warp.cta->cluster);
  return Outcome::kNext;
}

/// Parameters and return values in the frame of a call.
template <bool kLoad>
Outcome frame_lanes(Warp& warp, const Step& step, uint32_t active) {
  const MemoryDetail& d = detail_of(step);
  Frame& frame = *warp.group().frame;
  std::vector<uint8_t>& memory = d.frame == FrameMemory::kArguments    ? frame.arguments
                                 : d.frame == FrameMemory::kParameters ? frame.parameters
                                                                       : frame.returns;
  const size_t stride = memory.size() / kLanes;
  const size_t offset = static_cast<size_t>(step.number);
  const size_t bytes = d.element_bytes * d.count;
  if (offset > stride || bytes > stride - offset) {
    stop(fault_kind_name(FaultKind::kOutOfBounds),
         concat("parameter access of ", bytes, " bytes at offset ", step.number,
                " must lie within ", stride, " bytes"));
  }
  uint8_t* data[kLanes];
  each_lane(active, [&](uint32_t i) { data[i] = memory.data() + i * stride + offset; });
  move_elements<kLoad>(warp, d, active, data);
  return Outcome::kNext;
}

/// A sum that may wrap: what is too far is found when it is used.
int64_t plus(uint64_t offset, int64_t value) {
  return static_cast<int64_t>(offset + static_cast<uint64_t>(value));
}

/// The frame memory that an address operand names, and the offset in it.
FrameMemory frame_memory(Decoder& d, const Operand& address, int64_t* offset) {
  if (address.base != ptx::AddressBase::kSymbol) return FrameMemory::kNone;
  const size_t index = address.index;
  switch (address.scope) {
    case ptx::Scope::kFunction:
      if (d.function.variables[index].space != ptx::StateSpace::kParam) break;
      *offset = plus(d.function.variables[index].offset, address.value);
      return FrameMemory::kArguments;
    case ptx::Scope::kParameter:
      if (d.function.is_entry) break;
      *offset = plus(d.function.parameters[index].offset, address.value);
      return FrameMemory::kParameters;
    case ptx::Scope::kReturn:
      *offset = plus(d.function.returns[index].offset, address.value);
      return FrameMemory::kReturns;
    case ptx::Scope::kModule:
      break;
  }
  return FrameMemory::kNone;
}

void add_value(Decoder& d, MemoryDetail* detail, const Operand& operand, ScalarType type,
               bool load) {
  if (detail->count == kMostElements) d.refuse("too many elements");
  uint32_t& count = detail->count;
  if (load) {
    detail->slots[count] = d.target(operand);
    detail->masks[count] = width_mask(d.register_bits(operand));
  } else {
    detail->values[count] = d.source(operand, type);
  }
  ++count;
  if (type != ScalarType::kB128) return;
  if (load) {
    detail->slots[count] =
        detail->slots[count - 1] + (operand.kind == OperandKind::kRegister ? 1u : 0u);
    detail->masks[count] = detail->masks[count - 1] = ~uint64_t{0};
  } else {
    detail->values[count] = detail->values[count - 1];
    ++detail->values[count].slot;
  }
  ++count;
}

void accept_cache_hints(Decoder& d) {
  d.accept({Modifier::kCa,
            Modifier::kCg,
            Modifier::kCs,
            Modifier::kCv,
            Modifier::kLu,
            Modifier::kWb,
            Modifier::kWt,
            Modifier::kNc,
            Modifier::kL1EvictNormal,
            Modifier::kL1EvictUnchanged,
            Modifier::kL1EvictFirst,
            Modifier::kL1EvictLast,
            Modifier::kL1NoAllocate,
            Modifier::kL2EvictNormal,
            Modifier::kL2EvictFirst,
            Modifier::kL2EvictLast,
            Modifier::kL2CacheHint,
            Modifier::kL264B,
            Modifier::kL2128B,
            Modifier::kL2256B,
            Modifier::kLevelEvictionPriority,
            Modifier::kUnified});
}

template <bool kLoad>
void decode_access(Decoder& d) {
  MemoryDetail* const detail = d.detail<MemoryDetail>();
  const ScalarType type = d.in.type();
  const bool cached = d.in.has(Modifier::kL2CacheHint);
  detail->space = take_space(d);
  detail->order = take_order(d);
  accept_cache_hints(d);
  const int vector = d.take_one({Modifier::kV2, Modifier::kV4, Modifier::kV8});
  d.expect(2, cached ? 3 : 2);
  const Operand& address = d.operand(kLoad ? 1 : 0);
  const Operand& value = d.operand(kLoad ? 0 : 1);
  const uint32_t bits = ptx::type_bits(type);
  if (bits < 8) d.refuse("the type is not handled");
  detail->element_bytes = bits == 128 ? 8 : bits / 8;
  detail->sign = is_signed_integer(type);
  detail->count = 0;
  if (vector >= 0) {
    const auto elements = d.elements(value);
    if (elements.size() != (2u << vector)) d.refuse("the vector has a wrong length");
    for (const Operand& e : elements) add_value(d, detail, e, type, kLoad);
  } else {
    add_value(d, detail, value, type, kLoad);
  }
  detail->alignment = detail->element_bytes * detail->count;
  detail->frame = frame_memory(d, address, &d.step.number);
  if (detail->frame != FrameMemory::kNone) {
    d.step.run = frame_lanes<kLoad>;
    return;
  }
  d.step.source[0] = d.address(address, &d.step.number);
  detail->narrow = detail->space != Space::kGeneric && detail->space != Space::kGlobal;
  d.step.run = memory_lanes<kLoad>;
}

}  // namespace

Space take_space(Decoder& d) {
  switch (d.take_one({Modifier::kGlobal, Modifier::kShared, Modifier::kSharedCta,
                      Modifier::kSharedCluster, Modifier::kLocal, Modifier::kParam,
                      Modifier::kParamEntry, Modifier::kParamFunc, Modifier::kConst})) {
    case 0:
      return Space::kGlobal;
    case 1:
    case 2:
      return Space::kSharedCta;
    case 3:
      return Space::kSharedCluster;
    case 4:
      return Space::kLocal;
    case 5:
    case 6:
    case 7:
      return Space::kParam;
    case 8:
      return Space::kConst;
    default:
      return Space::kGeneric;
  }
}

AccessOrder take_order(Decoder& d) {
  AccessOrder order;
  d.take(Modifier::kWeak);
  switch (d.take_one({Modifier::kRelaxed, Modifier::kVolatile, Modifier::kMmio, Modifier::kAcquire,
                      Modifier::kRelease, Modifier::kAcqRel, Modifier::kSc})) {
    case 0:
    case 1:
    case 2:
      order.strong = true;
      break;
    case 3:
      order = {true, true, false};
      break;
    case 4:
      order = {true, false, true};
      break;
    case 5:
    case 6:
      order = {true, true, true};
      break;
    default:
      break;
  }
  d.accept({Modifier::kCta, Modifier::kCluster, Modifier::kGpu, Modifier::kSys});
  return order;
}

DecodeFunction memory_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kLd:
    case Opcode::kLdu:
      return decode_access<true>;
    case Opcode::kSt:
      return decode_access<false>;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
