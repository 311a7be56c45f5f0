// Tensor memory of one SM: 128 lanes of 512 columns of 32 bits, its allocator, and the register
// side of tcgen05.ld, st, ld.red and shift.
// Depends on: fault.h. Used by: the interpreter, tensor/mma.h, tensor/tensor_copy.h.
// Nothing here is asynchronous and no order is checked: see shadow.h.
// An address is lane << 16 | column, as in PTX.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "emulator/machine/fault.h"

namespace flamia::emulator {

inline constexpr uint32_t kTensorLanes = 128;
inline constexpr uint32_t kTensorColumns = 512;
/// Smallest allocation, and the unit of ownership.
inline constexpr uint32_t kTensorBlock = 32;

constexpr uint32_t tensor_lane(uint32_t address) { return address >> 16; }
constexpr uint32_t tensor_column(uint32_t address) { return address & 0xffffu; }
constexpr uint32_t tensor_address(uint32_t lane, uint32_t column) { return lane << 16 | column; }

enum class TensorShape : uint8_t { k32x32b, k16x64b, k16x128b, k16x256b, k16x32bx2 };

/// One tcgen05.ld or st: shape.xN, with .pack::16b or .unpack::16b.
struct TensorAccess {
  TensorShape shape = TensorShape::k32x32b;
  uint32_t count = 1;                ///< N of xN
  bool packed = false;               ///< two 16-bit halves of adjacent columns per register
  uint32_t second_half_columns = 0;  ///< the immediate of 16x32bx2
};

/// Registers per thread of an access; 0 if the shape does not come in that count.
uint32_t tensor_register_count(const TensorAccess& access);
/// Columns from the address on that an access may touch.
uint32_t tensor_column_span(const TensorAccess& access);

struct TensorCell {
  uint32_t lane;    ///< relative to the lane of the address
  uint32_t column;  ///< relative to the column of the address; unpacked (first of a pair if packed)
};
/// The cell that register `reg` of thread `thread` holds.
TensorCell tensor_cell(const TensorAccess& access, uint32_t thread, uint32_t reg);

enum class TensorReduceType : uint8_t { kF32, kU32, kS32 };
struct TensorReduce {
  TensorReduceType type = TensorReduceType::kF32;
  bool maximum = true;
  bool absolute = false;       ///< f32: of |x|
  bool propagate_nan = false;  ///< f32: .NaN
};

struct TensorAllocation {
  Fault fault;
  bool blocked = false;  ///< not enough free columns now: try again after a dealloc
  uint32_t address = 0;
};

class TensorMemory {
 public:
  /// Bits of the first register of a lane mask etc. are the callers'; here only memory.
  /// lingering: columns that were given back stay usable until an allocation takes them.
  explicit TensorMemory(bool lingering = false);

  // The allocator. `owner` names a CTA resident on this SM; placement_seed 0 gives the lowest free
  // columns, another value any free place, so that no program relies on column 0.
  TensorAllocation allocate(uint32_t owner, uint32_t columns, uint64_t placement_seed);
  Fault deallocate(uint32_t owner, uint32_t address, uint32_t columns);
  Fault relinquish(uint32_t owner);
  /// Columns that a CTA still owns, released now; called when it exits. Not zero is a leak.
  uint32_t leave(uint32_t owner);
  uint32_t free_columns() const;

  /// kNone if columns [column, column + count) belong to the owner.
  Fault check_columns(uint32_t owner, uint32_t column, uint32_t count, const char* what) const;

  // Register side. `quarter` is the warp's index modulo 4: it reaches lanes 32 quarter to
  // 32 quarter + 31. registers[r][t], r below tensor_register_count().
  Fault load(uint32_t owner, uint32_t quarter, const TensorAccess& access, uint32_t address,
             uint32_t (*registers)[32]) const;
  Fault store(uint32_t owner, uint32_t quarter, const TensorAccess& access, uint32_t address,
              const uint32_t (*registers)[32]);
  /// ld.red: load, and per thread the reduction of its own registers.
  Fault load_reduce(uint32_t owner, uint32_t quarter, const TensorAccess& access, uint32_t address,
                    const TensorReduce& reduce, uint32_t (*registers)[32],
                    uint32_t reduced[32]) const;
  /// shift.down of 32-byte elements: in the 32 lanes of the address, lane l takes the 8 columns of
  /// lane l - 1; lane 0 of the block keeps its own.
  Fault shift_down(uint32_t owner, uint32_t address);

  // Cells, for the matrix engines. Lane and column must be in range.
  uint32_t* row(uint32_t lane) { return cells_.data() + lane * kTensorColumns; }
  const uint32_t* row(uint32_t lane) const { return cells_.data() + lane * kTensorColumns; }
  void mark(uint32_t lane, uint32_t column, uint32_t count, bool written);
  /// First unwritten column of [column, column + count) in the lane, or column + count.
  uint32_t first_unwritten(uint32_t lane, uint32_t column, uint32_t count) const;

 private:
  struct Tenant {
    uint32_t owner = 0;
    uint32_t last_columns = kTensorColumns;  ///< allocations must not grow
    bool relinquished = false;
  };
  Tenant* tenant(uint32_t owner);
  Fault check_access(uint32_t owner, uint32_t quarter, const TensorAccess& access, uint32_t address,
                     bool reduce) const;

  static constexpr uint32_t kBlocks = kTensorColumns / kTensorBlock;
  static constexpr uint32_t kNobody = ~0u;
  std::vector<uint32_t> cells_;
  std::vector<uint64_t> written_;
  bool lingering_;
  std::array<uint32_t, kBlocks> owners_;
  std::array<uint32_t, kBlocks> last_owners_;  ///< of free blocks that linger
  std::array<uint32_t, kBlocks> starts_;       ///< first block of the allocation
  std::vector<Tenant> tenants_;
};

}  // namespace flamia::emulator
