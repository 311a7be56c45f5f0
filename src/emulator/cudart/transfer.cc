// Copies and fills over device, constant and host memory. Bytes that a program copies between
// device buffers keep the mark whether anything wrote them.
#include "emulator/cudart/transfer.h"

#include <algorithm>
#include <cstring>

#include "base/message.h"

namespace flamia::emulator::cudart {
namespace {

constexpr uint64_t kMarkBytes = 4096;

uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

bool in_constants(uint64_t address) { return (address & kWindowMask) == kConstWindow; }

/// Bytes from the first to the last of `height` rows; false if that is no size.
bool extent(size_t width, size_t height, size_t pitch, uint64_t* bytes) {
  uint64_t rows = 0;
  return !__builtin_mul_overflow(uint64_t{height - 1}, uint64_t{pitch}, &rows) &&
         !__builtin_add_overflow(rows, uint64_t{width}, bytes);
}

bool is_known(Place place) { return place != Place::kPageable && place != Place::kNowhere; }

/// Moves bytes and says of device memory which of them are written.
void move_bytes(Runtime& runtime, void* to, const void* from, uint64_t bytes) {
  GlobalMemory& memory = runtime.executor().memory();
  const uint64_t target = address_of(to);
  const uint64_t source = address_of(from);
  if (memory.contains(target)) {
    const bool may_be_unwritten = memory.contains(source);
    for (uint64_t i = 0; i < bytes; i += kMarkBytes) {
      const uint64_t part = std::min(kMarkBytes, bytes - i);
      if (!may_be_unwritten || memory.first_unwritten(source + i, part) == part) {
        memory.mark(target + i, part, true);
        continue;
      }
      for (uint64_t k = i; k < i + part; ++k) {
        memory.mark(target + k, 1, memory.first_unwritten(source + k, 1) == 1);
      }
    }
  }
  std::memmove(to, from, bytes);
}

/// The host's address of memory that a copy names; constants lie in the bank of their module.
Outcome host_address(Runtime& runtime, const void* pointer, uint64_t bytes, void** address) {
  if (!in_constants(address_of(pointer))) {
    *address = const_cast<void*>(pointer);
    return cudaSuccess;
  }
  const uint64_t offset = address_of(pointer) & ~kWindowMask;
  *address = runtime.registry.find_constant(offset, bytes);
  if (*address != nullptr) return cudaSuccess;
  return {cudaErrorNotSupported, concat("a constant address must belong to one module only; got ",
                                        hex(address_of(pointer)), " (copy by symbol)")};
}

}  // namespace

Place place_of(Runtime& runtime, const void* pointer, uint64_t bytes) {
  const uint64_t address = address_of(pointer);
  if (in_constants(address)) return Place::kConstant;
  GlobalMemory& memory = runtime.executor().memory();
  const GlobalMemory::Block* block = memory.block_of(address);
  if (memory.contains(address)) {
    return memory.check(address, bytes).ok() ? Place::kDevice : Place::kNowhere;
  }
  if (block == nullptr || !block->host) return Place::kPageable;
  return memory.check(address, bytes).ok() ? Place::kPinned : Place::kNowhere;
}

Outcome check_copy(Runtime& runtime, const CopyWork& work) {
  if (work.kind < cudaMemcpyHostToHost || work.kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  if (work.width == 0 || work.height == 0) return cudaSuccess;
  if (work.height > 1 || work.to_pitch != 0) {
    if (work.to_pitch < work.width || work.from_pitch < work.width) {
      return cudaErrorInvalidPitchValue;
    }
  }
  uint64_t to_bytes = 0, from_bytes = 0;
  if (!extent(work.width, work.height, work.to_pitch, &to_bytes) ||
      !extent(work.width, work.height, work.from_pitch, &from_bytes)) {
    return cudaErrorInvalidValue;
  }
  if (work.to == nullptr || work.from == nullptr) return cudaErrorInvalidValue;
  const Place to = place_of(runtime, work.to, to_bytes);
  const Place from = place_of(runtime, work.from, from_bytes);
  if (to == Place::kNowhere || from == Place::kNowhere) return cudaErrorInvalidValue;
  const bool to_device =
      work.kind == cudaMemcpyHostToDevice || work.kind == cudaMemcpyDeviceToDevice;
  const bool from_device =
      work.kind == cudaMemcpyDeviceToHost || work.kind == cudaMemcpyDeviceToDevice;
  if ((to_device && !is_known(to)) || (from_device && !is_known(from))) {
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

Outcome run_copy(Runtime& runtime, const CopyWork& work) {
  Outcome outcome = check_copy(runtime, work);
  if (!outcome.ok() || work.width == 0 || work.height == 0) return outcome;
  void* to = nullptr;
  void* from = nullptr;
  uint64_t to_bytes = 0, from_bytes = 0;
  extent(work.width, work.height, work.to_pitch, &to_bytes);
  extent(work.width, work.height, work.from_pitch, &from_bytes);
  outcome = host_address(runtime, work.to, to_bytes, &to);
  if (outcome.ok()) outcome = host_address(runtime, work.from, from_bytes, &from);
  if (!outcome.ok()) return outcome;
  for (size_t row = 0; row < work.height; ++row) {
    move_bytes(runtime, static_cast<uint8_t*>(to) + row * work.to_pitch,
               static_cast<uint8_t*>(from) + row * work.from_pitch, work.width);
  }
  return cudaSuccess;
}

Outcome check_fill(Runtime& runtime, const FillWork& work) {
  if (work.width == 0 || work.height == 0) return cudaSuccess;
  uint64_t row_bytes = 0, bytes = 0;
  if (__builtin_mul_overflow(uint64_t{work.width}, uint64_t{work.element_bytes}, &row_bytes) ||
      !extent(row_bytes, work.height, work.pitch, &bytes)) {
    return cudaErrorInvalidValue;
  }
  if (work.to == nullptr || (work.height > 1 && work.pitch < row_bytes)) {
    return cudaErrorInvalidValue;
  }
  if (address_of(work.to) % work.element_bytes != 0) return cudaErrorInvalidValue;
  const Place place = place_of(runtime, work.to, bytes);
  if (place != Place::kDevice && place != Place::kPinned) return cudaErrorInvalidValue;
  return cudaSuccess;
}

Outcome run_fill(Runtime& runtime, const FillWork& work) {
  const Outcome outcome = check_fill(runtime, work);
  if (!outcome.ok()) return outcome;
  GlobalMemory& memory = runtime.executor().memory();
  for (size_t row = 0; row < work.height; ++row) {
    uint8_t* to = static_cast<uint8_t*>(work.to) + row * work.pitch;
    const size_t bytes = work.width * work.element_bytes;
    if (bytes == 0) break;
    if (memory.contains(address_of(to))) memory.mark(address_of(to), bytes, true);
    if (work.element_bytes == 1) {
      std::memset(to, static_cast<int>(work.value & 0xffu), bytes);
      continue;
    }
    for (size_t i = 0; i < bytes; i += work.element_bytes) {
      std::memcpy(to + i, &work.value, work.element_bytes);  // little endian
    }
  }
  return cudaSuccess;
}

Outcome symbol_address(Runtime& runtime, const void* symbol, uint64_t* address, uint64_t* bytes) {
  const DeviceVariable* variable = runtime.registry.find_variable(symbol);
  if (variable == nullptr) return cudaErrorInvalidSymbol;
  const Outcome loaded = runtime.registry.load(runtime.executor(), variable->module);
  if (!loaded.ok()) return loaded;
  const LoadedModule& module = *variable->module->loaded;
  const uint32_t index = module.module.find_variable(variable->name);
  if (index == ptx::kNoIndex) {
    return {cudaErrorInvalidSymbol,
            concat("the PTX of the module must have the variable ", variable->name, "; got none")};
  }
  *address = module.variable_address[index];
  *bytes = variable->bytes != 0 ? variable->bytes : module.module.variables[index].bytes;
  if (*bytes > module.module.variables[index].bytes) return cudaErrorInvalidSymbol;
  return cudaSuccess;
}

Outcome locate_symbol(Runtime& runtime, const void* symbol, uint64_t offset, uint64_t bytes,
                      void** data) {
  uint64_t address = 0, size = 0;
  const Outcome outcome = symbol_address(runtime, symbol, &address, &size);
  if (!outcome.ok()) return outcome;
  if (offset > size || bytes > size - offset) return cudaErrorInvalidValue;
  if (!in_constants(address)) {
    *data = reinterpret_cast<void*>(address + offset);
    return cudaSuccess;
  }
  ByteBank& bank = runtime.registry.find_variable(symbol)->module->loaded->constants;
  const uint64_t start = (address & ~kWindowMask) + offset;
  if (start > bank.size() || bytes > bank.size() - start) return cudaErrorInvalidValue;
  bank.mark(start, bytes, true);
  *data = bank.data() + start;
  return cudaSuccess;
}

}  // namespace flamia::emulator::cudart
