// Families of opcodes; matrix instructions are in matrix_cost.cc.
#include "emulator/model/instruction_cost.h"

#include "emulator/model/matrix_cost.h"

namespace flamia::emulator::model {
namespace {

using ptx::Instruction;
using ptx::Modifier;
using ptx::Opcode;
using ptx::ScalarType;

constexpr uint8_t byte(uint32_t value) { return static_cast<uint8_t>(value); }

bool is_half(ScalarType type) {
  return type == ScalarType::kF16 || type == ScalarType::kF16x2 || type == ScalarType::kBf16 ||
         type == ScalarType::kBf16x2;
}
bool is_single(ScalarType type) { return type == ScalarType::kF32 || type == ScalarType::kF32x2; }
bool is_floating(ScalarType type) {
  return is_half(type) || is_single(type) || type == ScalarType::kF64;
}
/// 32-bit instructions that an integer of this type takes.
uint32_t words_of(ScalarType type) { return ptx::type_bits(type) > 32 ? 2 : 1; }

void set(InstructionCost* cost, Counter category, Slot slot, uint32_t count = 1) {
  cost->category = category;
  (*cost)[Slot::kIssue] = byte((*cost)[Slot::kIssue] + count);
  if (slot != Slot::kIssue) (*cost)[slot] = byte((*cost)[slot] + count);
}
void also(InstructionCost* cost, Slot slot, uint32_t count) {
  set(cost, cost->category, slot, count);
}

/// add, sub, mul, fma, mad.
void arithmetic(const Instruction& in, InstructionCost* cost) {
  const ScalarType type = in.type();
  const bool multiplies = in.opcode == Opcode::kMul || in.opcode == Opcode::kMad ||
                          in.opcode == Opcode::kFma || in.opcode == Opcode::kMadc;
  if (type == ScalarType::kF64) return set(cost, Counter::kFp64, Slot::kFp64);
  if (is_half(type)) return set(cost, Counter::kHalf, Slot::kHalf);
  if (type == ScalarType::kF32x2) {
    // One instruction, twice the lanes.
    set(cost, Counter::kFma, Slot::kFma);
    (*cost)[Slot::kFma] = 2;
    return;
  }
  if (type == ScalarType::kF32) return set(cost, Counter::kFma, Slot::kFma);
  if (!multiplies) return set(cost, Counter::kInteger, Slot::kIssue, words_of(type));
  // 64-bit products: three of 32 bits.
  const bool wide = in.has(Modifier::kWide);
  set(cost, Counter::kInteger, Slot::kImad, !wide && words_of(type) == 2 ? 3 : 1);
}

void min_max(const Instruction& in, InstructionCost* cost) {
  const ScalarType type = in.type();
  if (type == ScalarType::kF64) return set(cost, Counter::kFp64, Slot::kFp64);
  const Counter category = is_single(type) ? Counter::kFma
                           : is_half(type) ? Counter::kHalf
                                           : Counter::kInteger;
  set(cost, category, Slot::kAlu, is_floating(type) ? 1 : words_of(type));
}

/// ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh.
void special(const Instruction& in, InstructionCost* cost) {
  const ScalarType type = in.type();
  const bool packed = type == ScalarType::kF16x2 || type == ScalarType::kBf16x2;
  set(cost, Counter::kMufu, Slot::kXu, packed ? 2 : 1);
  if (is_half(type) || in.opcode == Opcode::kTanh) return;
  if (in.opcode == Opcode::kSin || in.opcode == Opcode::kCos) return also(cost, Slot::kFma, 1);
  if (type == ScalarType::kF64) return also(cost, Slot::kFp64, 6);
  if (!in.has(Modifier::kApprox)) {  // correctly rounded: Newton steps and a test
    also(cost, Slot::kFma, in.opcode == Opcode::kRcp ? 2 : 5);
    also(cost, Slot::kAlu, 2);
  } else if (!in.has(Modifier::kFtz) && in.opcode != Opcode::kRcp) {
    // Subnormals: compare, scale, scale back.
    also(cost, Slot::kAlu, 1);
    also(cost, Slot::kFma, 2);
  }
}

void divide(const Instruction& in, InstructionCost* cost) {
  const ScalarType type = in.type();
  if (!is_floating(type)) {
    set(cost, Counter::kInteger, Slot::kXu, 2);
    also(cost, Slot::kImad, 4 * words_of(type));
    return also(cost, Slot::kAlu, 8 * words_of(type));
  }
  set(cost, Counter::kMufu, Slot::kXu);
  if (type == ScalarType::kF64) return also(cost, Slot::kFp64, 8);
  if (in.has(Modifier::kApprox)) return also(cost, Slot::kFma, 1);
  also(cost, Slot::kFma, in.has(Modifier::kFull) ? 3 : 7);
  also(cost, Slot::kAlu, 2);
}

void convert(const Instruction& in, InstructionCost* cost) {
  const ScalarType to = in.type(0), from = in.type(in.types.size() > 1 ? 1 : 0);
  if (to == ScalarType::kF64 || from == ScalarType::kF64) {
    return set(cost, Counter::kConversion, Slot::kXu);
  }
  const bool to_integer = ptx::type_bits(to) != 0 && !is_floating(to) && is_single(from);
  const bool narrow = ptx::type_bits(to) <= 16 && to_integer;
  const bool integers = to == ScalarType::kU32 || to == ScalarType::kS32 ||
                        to == ScalarType::kU64 || to == ScalarType::kS64;
  if (to_integer && (integers || (narrow && in.types.size() == 2 && to <= ScalarType::kS64))) {
    return set(cost, Counter::kConversion, Slot::kXu);
  }
  if (is_single(to) && is_single(from)) {  // rint and its relatives
    return set(cost, Counter::kConversion, Slot::kXu);
  }
  // f16 to f32 is an addition of the half pipe; bf16 a shift; packs and integers are of the ALU.
  const Slot slot = from == ScalarType::kF16 && to == ScalarType::kF32 ? Slot::kImad : Slot::kAlu;
  set(cost, Counter::kConversion, slot);
}

/// mov: nothing. Packing two halves mostly merges into the conversion that made them.
void move(const ptx::Function& function, const Instruction& in, InstructionCost* cost) {
  cost->category = Counter::kMove;
  for (const ptx::Operand& operand : function.operands_of(in)) {
    if (operand.kind == ptx::OperandKind::kSpecial) cost->category = Counter::kUniform;
  }
}

/// Loads, stores, atomics: wavefronts and sectors are counted when they happen.
void memory(const Instruction& in, InstructionCost* cost) {
  if (in.has(Modifier::kParam) || in.has(Modifier::kParamEntry) || in.has(Modifier::kParamFunc) ||
      in.has(Modifier::kConst)) {
    cost->category = Counter::kUniform;
    return;
  }
  const bool shared =
      in.has(Modifier::kShared) || in.has(Modifier::kSharedCta) || in.has(Modifier::kSharedCluster);
  set(cost,
      shared                     ? Counter::kShared
      : in.has(Modifier::kLocal) ? Counter::kLocal
                                 : Counter::kGlobal,
      Slot::kIssue);
}

bool scalar(const ptx::Function& function, const Instruction& in, InstructionCost* cost) {
  switch (in.opcode) {
    case Opcode::kAdd:
    case Opcode::kSub:
    case Opcode::kAddc:
    case Opcode::kSubc:
    case Opcode::kMul:
    case Opcode::kMad:
    case Opcode::kMadc:
    case Opcode::kFma:
      arithmetic(in, cost);
      return true;
    case Opcode::kMin:
    case Opcode::kMax:
      min_max(in, cost);
      return true;
    case Opcode::kAbs:
    case Opcode::kNeg:
      // A modifier of the operand for floats.
      if (is_floating(in.type())) {
        cost->category = Counter::kMove;
      } else {
        set(cost, Counter::kInteger, Slot::kIssue, words_of(in.type()));
      }
      return true;
    case Opcode::kEx2:
    case Opcode::kLg2:
    case Opcode::kRcp:
    case Opcode::kRsqrt:
    case Opcode::kSqrt:
    case Opcode::kSin:
    case Opcode::kCos:
    case Opcode::kTanh:
      special(in, cost);
      return true;
    case Opcode::kDiv:
    case Opcode::kRem:
      divide(in, cost);
      return true;
    case Opcode::kCvt:
    case Opcode::kCvtPack:
      convert(in, cost);
      return true;
    case Opcode::kMov:
      move(function, in, cost);
      return true;
    case Opcode::kCvta:
    case Opcode::kMapa:
    case Opcode::kIsspacep:
      cost->category = Counter::kUniform;
      return true;
    default:
      return false;
  }
}

bool integer(const Instruction& in, InstructionCost* cost) {
  switch (in.opcode) {
    case Opcode::kShl:
      // Alternates between the two integer pipes, as additions do.
      set(cost, Counter::kInteger, Slot::kIssue, words_of(in.type()));
      return true;
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor:
    case Opcode::kNot:
    case Opcode::kCnot:
    case Opcode::kShr:
    case Opcode::kSelp:
    case Opcode::kSlct:
    case Opcode::kSetp:
    case Opcode::kSet:
    case Opcode::kTestp:
      set(cost, Counter::kInteger, Slot::kAlu, is_floating(in.type()) ? 1 : words_of(in.type()));
      return true;
    case Opcode::kLop3:
    case Opcode::kShfL:
    case Opcode::kShfR:
    case Opcode::kPrmt:
    case Opcode::kBfe:
    case Opcode::kBfi:
    case Opcode::kBmsk:
    case Opcode::kSzext:
    case Opcode::kSad:
    case Opcode::kCopysign:
    case Opcode::kVote:
    case Opcode::kActivemask:
    case Opcode::kElect:
      set(cost, Counter::kInteger, Slot::kAlu);
      return true;
    case Opcode::kDp4a:
    case Opcode::kDp2a:
    case Opcode::kMul24:
    case Opcode::kMad24:
      set(cost, Counter::kInteger, Slot::kImad);
      return true;
    case Opcode::kPopc:
    case Opcode::kClz:
    case Opcode::kBrev:
    case Opcode::kBfind:
    case Opcode::kFns:
    case Opcode::kRedux:
      set(cost, Counter::kInteger, Slot::kXu);
      return true;
    case Opcode::kMatchAll:
    case Opcode::kMatchAny:
      set(cost, Counter::kShuffle, Slot::kPort, 2);
      return true;
    case Opcode::kShfl:
    case Opcode::kMovmatrix:
      set(cost, Counter::kShuffle, Slot::kPort);
      return true;
    default:
      return false;
  }
}

bool waiting(const Instruction& in, InstructionCost* cost) {
  switch (in.opcode) {
    case Opcode::kBra:
    case Opcode::kBrxIdx:
    case Opcode::kCall:
    case Opcode::kRet:
    case Opcode::kExit:
    case Opcode::kTrap:
    case Opcode::kBrkpt:
    case Opcode::kNanosleep:
    case Opcode::kSetmaxnreg:
    case Opcode::kGriddepcontrolWait:
    case Opcode::kGriddepcontrolLaunchDependents:
      set(cost, Counter::kControl, Slot::kIssue);
      return true;
    case Opcode::kBarArrive:
    case Opcode::kBarRed:
    case Opcode::kBarSync:
    case Opcode::kBarWarpSync:
    case Opcode::kBarrierArrive:
    case Opcode::kBarrierClusterArrive:
    case Opcode::kBarrierClusterWait:
    case Opcode::kBarrierCtaArrive:
    case Opcode::kBarrierCtaRed:
    case Opcode::kBarrierCtaSync:
    case Opcode::kBarrierRed:
    case Opcode::kBarrierSync:
    case Opcode::kFence:
    case Opcode::kFenceMbarrierInit:
    case Opcode::kFenceProxy:
    case Opcode::kMembar:
    case Opcode::kMbarrierArrive:
    case Opcode::kMbarrierArriveDrop:
    case Opcode::kMbarrierCompleteTx:
    case Opcode::kMbarrierExpectTx:
    case Opcode::kMbarrierInit:
    case Opcode::kMbarrierInval:
    case Opcode::kMbarrierPendingCount:
    case Opcode::kMbarrierTestWait:
    case Opcode::kMbarrierTryWait:
    case Opcode::kCpAsyncMbarrierArrive:
    case Opcode::kWgmmaCommitGroup:
    case Opcode::kWgmmaFence:
    case Opcode::kWgmmaWaitGroup:
    case Opcode::kCpAsyncWaitGroup:
    case Opcode::kCpAsyncWaitAll:
    case Opcode::kCpAsyncBulkWaitGroup:
    case Opcode::kTcgen05Commit:
    case Opcode::kTcgen05FenceAfterThreadSync:
    case Opcode::kTcgen05FenceBeforeThreadSync:
    case Opcode::kTcgen05WaitLd:
    case Opcode::kTcgen05WaitSt:
      set(cost, Counter::kBarrier, Slot::kIssue);
      return true;
    default:
      return false;
  }
}

bool memories(const Instruction& in, InstructionCost* cost) {
  switch (in.opcode) {
    case Opcode::kLd:
    case Opcode::kLdu:
    case Opcode::kSt:
    case Opcode::kAtom:
    case Opcode::kRed:
      memory(in, cost);
      return true;
    case Opcode::kLdmatrix:
    case Opcode::kStmatrix:
      set(cost, Counter::kShared, Slot::kIssue);
      return true;
    case Opcode::kCpAsync:
    case Opcode::kCpAsyncBulk:
    case Opcode::kCpAsyncBulkCommitGroup:
    case Opcode::kCpAsyncBulkPrefetch:
    case Opcode::kCpAsyncBulkPrefetchTensor:
    case Opcode::kCpAsyncBulkTensor:
    case Opcode::kCpAsyncCommitGroup:
    case Opcode::kCpReduceAsyncBulk:
    case Opcode::kCpReduceAsyncBulkTensor:
    case Opcode::kStAsync:
    case Opcode::kRedAsync:
    case Opcode::kStBulk:
    case Opcode::kTensormapReplace:
    case Opcode::kTensormapCpFenceproxy:
    case Opcode::kClusterlaunchcontrolTryCancel:
    case Opcode::kClusterlaunchcontrolQueryCancel:
    case Opcode::kPrefetch:
    case Opcode::kPrefetchu:
      set(cost, Counter::kAsync, Slot::kIssue);
      return true;
    default:
      return false;
  }
}

}  // namespace

InstructionCost cost_of(const ptx::Function& function, const Instruction& in) {
  InstructionCost cost;
  if (scalar(function, in, &cost) || integer(in, &cost) || waiting(in, &cost) ||
      memories(in, &cost) || matrix_cost(function, in, &cost)) {
    return cost;
  }
  set(&cost, Counter::kOther, Slot::kIssue);
  return cost;
}

}  // namespace flamia::emulator::model
