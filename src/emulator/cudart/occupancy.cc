// Occupancy from threads, estimated registers and shared memory.
#include "emulator/cudart/occupancy.h"

#include <algorithm>

#include "emulator/cudart/chip.h"

namespace flamia::emulator::cudart {
namespace {

constexpr uint32_t kMostRegisters = 255;
constexpr uint32_t kRegisterUnit = 8;     // registers of a thread are allocated in eights
constexpr uint32_t kUnboundedLimit = 64;  // so that a block of 1024 fits without launch bounds
constexpr uint32_t kLeastRegisters = 16;
constexpr uint32_t kSharedUnit = 128;
constexpr uint32_t kWarp = 32;

uint32_t round_to(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

uint32_t threads_of(const ptx::Dim3& size) { return size.x * size.y * size.z; }

/// Threads of the largest block that the directives allow; 0: they do not say.
uint32_t bound_threads(const ptx::Function& function) {
  if (function.bounds.required_threads.x != 0) return threads_of(function.bounds.required_threads);
  return threads_of(function.bounds.max_threads);
}

}  // namespace

uint32_t estimated_registers(const ptx::Function& function) {
  uint32_t words = 0;
  for (const ptx::Register& reg : function.registers) {
    words += std::max(1u, ptx::type_bits(reg.type) / 32);
  }
  uint32_t limit = kUnboundedLimit;
  const uint32_t threads = round_to(bound_threads(function), kWarp);
  if (threads != 0) {
    const uint32_t blocks = std::max(1u, function.bounds.min_ctas_per_sm);
    limit = kRegistersOfSm / (threads * blocks) / kRegisterUnit * kRegisterUnit;
    limit = std::clamp(limit, kLeastRegisters, kMostRegisters);
  }
  if (function.bounds.max_registers != 0) {
    limit = std::min(function.bounds.max_registers, kMostRegisters);
  }
  const uint32_t estimate = std::max(kLeastRegisters, round_to(words / 4, kRegisterUnit));
  return std::min(estimate, limit);
}

uint32_t largest_block(const ptx::Function& function) {
  const uint32_t by_registers =
      kRegistersOfSm / round_to(estimated_registers(function), kRegisterUnit) / kWarp * kWarp;
  const uint32_t bound = bound_threads(function);
  return std::min({kMaxThreads, by_registers, bound == 0 ? kMaxThreads : bound});
}

uint32_t dynamic_shared_limit(const Kernel& kernel) {
  if (kernel.attributes.max_dynamic_shared >= 0) {
    return static_cast<uint32_t>(kernel.attributes.max_dynamic_shared);
  }
  const uint64_t used = kernel.code().shared_bytes;
  return used >= kSharedDefault ? 0 : kSharedDefault - static_cast<uint32_t>(used);
}

uint32_t blocks_of_sm(const Kernel& kernel, uint32_t threads, uint64_t dynamic_shared) {
  const ptx::Function& function = kernel.code();
  if (threads > largest_block(function)) return 0;
  if (dynamic_shared > kSharedMax || function.shared_bytes > kSharedMax) return 0;
  const auto shared = static_cast<uint32_t>(dynamic_shared + function.shared_bytes);
  if (shared > kSharedMax) return 0;
  const uint32_t rounded_threads = round_to(threads, kWarp);
  const uint32_t registers =
      round_to(estimated_registers(function), kRegisterUnit) * rounded_threads;
  const uint32_t taken = round_to(shared, kSharedUnit) + kSharedReservedOfBlock;
  return std::min({kMaxBlocksOfSm, kMaxThreadsOfSm / rounded_threads, kRegistersOfSm / registers,
                   kSharedOfSm / taken});
}

}  // namespace flamia::emulator::cudart
