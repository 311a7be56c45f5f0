// Shapes and types to FLOPs and operand bytes.
#include "emulator/model/matrix_cost.h"

#include "base/message.h"
#include "emulator/ptx/text.h"

namespace flamia::emulator::model {
namespace {

using ptx::Instruction;
using ptx::Modifier;
using ptx::Opcode;
using ptx::ScalarType;

constexpr uint32_t kGroupWarps = 4;
constexpr uint32_t kWgmmaRows = 64;

bool is_byte(ScalarType type) { return ptx::type_bits(type) == 8; }

TensorRate rate_of(ScalarType type, bool sync) {
  if (is_byte(type)) return sync ? TensorRate::kSyncFp8 : TensorRate::kFp8;
  if (type == ScalarType::kTf32) return sync ? TensorRate::kSyncTf32 : TensorRate::kTf32;
  return sync ? TensorRate::kSyncBf16 : TensorRate::kBf16;
}

std::string spelling(std::string_view name, const Instruction& in) {
  return concat(name, ".m", in.shape.m, "n", in.shape.n, "k", in.shape.k, ".",
                ptx::type_text(in.type(0)), ".", ptx::type_text(in.type(1)), ".",
                ptx::type_text(in.type(2)));
}

void product(const Instruction& in, bool sync, InstructionCost* cost) {
  cost->category = Counter::kTensor;
  (*cost)[Slot::kIssue] = 1;
  const uint64_t flops = uint64_t{2} * in.shape.m * in.shape.n * in.shape.k;
  cost->flops = sync ? flops : flops / kGroupWarps;
  cost->tensor_count.rate = rate_of(in.type(1), sync);
  cost->tensor_count.half_accumulator = in.type(0) == ScalarType::kF16;
  cost->tensor_count.register_accumulator = !sync;
}

void wgmma(const Instruction& in, bool registers, InstructionCost* cost) {
  product(in, false, cost);
  cost->tensor = spelling("wgmma", in) + (registers ? ".rs" : ".ss");
  cost->tensor_count.warps = kGroupWarps;
  const uint32_t rows = in.shape.n + (registers ? 0 : kWgmmaRows);
  cost->operand_bytes = rows * in.shape.k * ptx::type_bits(in.type(1)) / 8 / kGroupWarps;
}

/// Lanes x bytes of the shape, for every repetition.
uint32_t tensor_memory_bytes(const Instruction& in) {
  uint32_t bytes = 32 * 4;
  if (in.has(Modifier::k16x64b)) bytes = 16 * 8;
  if (in.has(Modifier::k16x128b)) bytes = 16 * 16;
  if (in.has(Modifier::k16x256b)) bytes = 16 * 32;
  constexpr Modifier kCounts[] = {Modifier::kX1,  Modifier::kX2,  Modifier::kX4,  Modifier::kX8,
                                  Modifier::kX16, Modifier::kX32, Modifier::kX64, Modifier::kX128};
  for (uint32_t i = 0; i < std::size(kCounts); ++i) {
    if (in.has(kCounts[i])) bytes <<= i;
  }
  return in.has(Modifier::kPack16b) || in.has(Modifier::kUnpack16b) ? bytes * 2 : bytes;
}

/// Bytes that tcgen05.cp reads from shared memory of one CTA.
uint32_t tensor_copy_bytes(const Instruction& in) {
  uint32_t bytes = 128 * 32;
  if (in.has(Modifier::k4x256b)) bytes = 4 * 32;
  if (in.has(Modifier::k128x128b)) bytes = 128 * 16;
  if (in.has(Modifier::k64x128b)) bytes = 64 * 16;
  if (in.has(Modifier::k32x128b)) bytes = 32 * 16;
  return in.has(Modifier::kCtaGroup2) ? bytes * 2 : bytes;
}

std::string_view kind_name(TensorKind kind) {
  constexpr std::string_view kNames[] = {"f16",  "tf32",     "f8f6f4", "mxf8f6f4",
                                         "mxf4", "mxf4nvf4", "i8"};
  return kNames[static_cast<size_t>(kind)];
}

/// In shared memory; the f8f6f4 kinds keep narrow elements in bytes.
uint32_t element_bits(TensorKind kind) {
  switch (kind) {
    case TensorKind::kF16:
      return 16;
    case TensorKind::kTf32:
      return 32;
    case TensorKind::kMxf4:
    case TensorKind::kMxf4nvf4:
      return 4;
    default:
      return 8;
  }
}

}  // namespace

TensorMmaCost tensor_mma_cost(const InstructionForm& form, const InstructionDescriptor& d) {
  TensorMmaCost out;
  out.name = concat("tcgen05.mma.", kind_name(form.kind), ".", form.cta_group, "cta.m", d.m, "n",
                    d.n, "k", d.k, form.a_in_tensor_memory ? ".ts" : ".ss");
  const uint64_t flops = uint64_t{2} * d.m * d.n * d.k;
  out.count.issues = 1;
  out.count.whole_sm = true;
  out.count.flops = flops;
  out.count.rate = form.kind == TensorKind::kF16    ? TensorRate::kBf16
                   : form.kind == TensorKind::kTf32 ? TensorRate::kTf32
                   : form.kind == TensorKind::kMxf4 || form.kind == TensorKind::kMxf4nvf4
                       ? TensorRate::kFp4
                       : TensorRate::kFp8;
  // 64 rows of an SM leave half of its tensor core idle.
  if (d.m / form.cta_group <= 64) out.count.used = 0.5;
  const uint64_t rows = d.n + (form.a_in_tensor_memory ? 0 : d.m);
  out.operand_bytes = rows * d.k * element_bits(form.kind) / 8;
  return out;
}

bool matrix_cost(const ptx::Function& function, const Instruction& in, InstructionCost* cost) {
  switch (in.opcode) {
    case Opcode::kWgmmaMmaAsync:
      wgmma(in, function.operands_of(in)[1].kind == ptx::OperandKind::kVector, cost);
      return true;
    case Opcode::kMma:
      product(in, true, cost);
      cost->tensor = spelling("mma", in);
      return true;
    case Opcode::kTcgen05Mma:
      cost->category = Counter::kTensor;
      (*cost)[Slot::kIssue] = 1;
      return true;
    case Opcode::kTcgen05Cp:
      cost->tmem_copy_bytes = tensor_copy_bytes(in);
      break;
    case Opcode::kTcgen05Ld:
    case Opcode::kTcgen05LdRed:
      cost->tmem_read_bytes = tensor_memory_bytes(in);
      break;
    case Opcode::kTcgen05St:
      cost->tmem_write_bytes = tensor_memory_bytes(in);
      break;
    case Opcode::kTcgen05Alloc:
    case Opcode::kTcgen05Dealloc:
    case Opcode::kTcgen05RelinquishAllocPermit:
    case Opcode::kTcgen05Shift:
      break;
    default:
      return false;
  }
  cost->category = Counter::kTensorMemory;
  (*cost)[Slot::kIssue] = 1;
  return true;
}

}  // namespace flamia::emulator::model
