// The matrix instructions: mma.sync, wgmma and tcgen05.mma, from operands in registers, shared and
// tensor memory to results in registers and tensor memory.
// Depends on: descriptors.h, elements.h, fragments.h, product.h, machine memories.
// Used by: the interpreter, which decides when an asynchronous instruction happens.
// No order, no queues, no commit: see order_clocks.h.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/machine/memory.h"
#include "emulator/machine/tensor_memory.h"
#include "emulator/tensor/descriptors.h"
#include "emulator/tensor/product.h"

namespace flamia::emulator {

/// K of one wgmma or one tcgen05.mma of 8-, 16- or 32-bit types: 32 bytes.
uint32_t instruction_k(ElementFormat format);

/// mma.sync.m16n8kK with A row-major and B column-major. Registers of one warp, [r][t]:
/// a: k * bytes / 8, b: half of that, c and d: 4 of binary32 or 2 of packed binary16.
struct MmaSync {
  ElementFormat a = ElementFormat::kBF16;
  ElementFormat b = ElementFormat::kBF16;
  uint32_t k = 16;
  bool f16_accumulator = false;
  NumericMode mode = NumericMode::kHardware;
};
Fault mma_sync(const MmaSync& spec, const uint32_t (*a)[32], const uint32_t (*b)[32],
               const uint32_t (*c)[32], uint32_t (*d)[32]);

/// wgmma.mma_async m64nNkK.
struct Wgmma {
  ElementFormat a = ElementFormat::kBF16;
  ElementFormat b = ElementFormat::kBF16;
  uint32_t n = 8;
  bool f16_accumulator = false;
  bool accumulate = true;  ///< scale-d; false: D is not read
  bool negate_a = false, negate_b = false;
  bool mn_major_a = false, mn_major_b = false;  ///< 16-bit types only
  NumericMode mode = NumericMode::kHardware;
};
/// Operand A: a descriptor, or registers [warp][r][t], 4 of each of the four warps.
struct WgmmaA {
  uint64_t descriptor = 0;
  const uint32_t (*const* registers)[32] = nullptr;
};
/// d: [warp][r][t] in and out, N/2 registers (binary32) or N/4. chunks as read_operand.
Fault wgmma(const Wgmma& spec, const SharedMemory& shared, const WgmmaA& a, uint64_t b_descriptor,
            uint32_t (*const d[4])[32], std::vector<uint32_t>* chunks);

/// What one CTA of the pair brings to a tcgen05.mma; with cta_group::1 only the first is used.
struct TensorSide {
  const SharedMemory* shared = nullptr;
  TensorMemory* tensor = nullptr;
  uint32_t owner = 0;  ///< the CTA, as the allocator knows it
};

/// A rectangle of tensor memory that was read or written.
struct TensorTouch {
  uint32_t side = 0;
  uint32_t lane = 0, lanes = 0;
  uint32_t column = 0, columns = 0;
  bool write = false;
};

/// What the hazard check needs to know: shared offsets (16 bytes each) per side, TMEM rectangles.
struct MmaTouches {
  std::vector<uint32_t> shared[2];
  std::vector<TensorTouch> tensor;
};

struct TensorMma {
  InstructionForm form;
  uint32_t idesc = 0;
  uint32_t d_address = 0;
  uint64_t a_descriptor = 0;
  uint32_t a_address = 0;  ///< if form.a_in_tensor_memory
  uint64_t b_descriptor = 0;
  uint32_t sfa_address = 0, sfb_address = 0;  ///< bits 31:30 are ignored
  bool accumulate = true;
  uint32_t d_shift = 0;                      ///< scale-input-d: D * 2^-d_shift is added
  const uint32_t* disabled_lanes = nullptr;  ///< 4 words a side, bit 1: lane is not written
  NumericMode mode = NumericMode::kHardware;
};

/// Executes one tcgen05.mma. sides[0] is the even CTA. Uninitialized operands are reported after
/// the work is done; other faults leave D untouched. touches may be null.
Fault tensor_mma(const TensorMma& op, const TensorSide sides[2], MmaTouches* touches);

/// Where D element (row, column) lives: side, lane, column relative to the D column.
struct TensorPlace {
  uint32_t side;
  uint32_t lane;
  uint32_t column;
};
TensorPlace accumulator_place(uint32_t cta_group, uint32_t m, uint32_t n, uint32_t row,
                              uint32_t column, uint32_t lane_base);

}  // namespace flamia::emulator
