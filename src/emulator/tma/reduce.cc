// Element arithmetic of cp.reduce.async.bulk.
// Used by: see reduce.h. 16-bit sums go through binary32, whose second rounding is innocuous.
#include "emulator/tma/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bits.h"
#include "numerics/bf16.h"
#include "numerics/f16.h"

namespace flamia::emulator {
namespace {

bool is_16bit_float(MapType type) { return type == MapType::kF16 || type == MapType::kBF16; }

float flushed(float x) {
  return magnitude(x) < pow2(-126) ? bits_float(float_bits(x) & kFloatSignBit) : x;
}

float pick(ReduceOp op, float a, float b) {
  if (op == ReduceOp::kAdd) return a + b;
  if (is_nan(a)) return b;
  if (is_nan(b)) return a;
  if (a == b) {  // -0 is below +0
    const bool a_negative = (float_bits(a) & kFloatSignBit) != 0;
    return a_negative == (op == ReduceOp::kMin) ? a : b;
  }
  return (a < b) == (op == ReduceOp::kMin) ? a : b;
}

template <typename Integer>
Integer integer_result(ReduceOp op, Integer target, Integer source) {
  using Unsigned = std::make_unsigned_t<Integer>;
  switch (op) {
    case ReduceOp::kAdd:
      return static_cast<Integer>(static_cast<Unsigned>(target) + static_cast<Unsigned>(source));
    case ReduceOp::kMin:
      return std::min(target, source);
    case ReduceOp::kMax:
      return std::max(target, source);
    case ReduceOp::kInc:
      return target >= source ? Integer{0} : static_cast<Integer>(target + 1);
    case ReduceOp::kDec:
      return target == 0 || target > source ? source : static_cast<Integer>(target - 1);
    case ReduceOp::kAnd:
      return target & source;
    case ReduceOp::kOr:
      return target | source;
    case ReduceOp::kXor:
      return target ^ source;
  }
  return target;
}

template <typename Integer>
void integer_element(ReduceOp op, const uint8_t* source, uint8_t* target) {
  Integer a = 0, b = 0;
  std::memcpy(&a, target, sizeof(a));
  std::memcpy(&b, source, sizeof(b));
  a = integer_result(op, a, b);
  std::memcpy(target, &a, sizeof(a));
}

}  // namespace

bool reduce_exists(ReduceOp op, MapType type) {
  const bool integer = type == MapType::kU32 || type == MapType::kS32 || type == MapType::kU64 ||
                       type == MapType::kS64;
  switch (op) {
    case ReduceOp::kAdd:
      return (integer && type != MapType::kS64) || is_16bit_float(type) || type == MapType::kF32 ||
             type == MapType::kF32Ftz || type == MapType::kTF32 || type == MapType::kTF32Ftz ||
             type == MapType::kF64;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return integer || is_16bit_float(type);
    case ReduceOp::kInc:
    case ReduceOp::kDec:
      return type == MapType::kU32;
    case ReduceOp::kAnd:
    case ReduceOp::kOr:
    case ReduceOp::kXor:
      return integer && type != MapType::kS64;
  }
  return false;
}

void reduce_element(ReduceOp op, MapType type, bool flush, const uint8_t* source, uint8_t* target) {
  switch (type) {
    case MapType::kF16:
    case MapType::kBF16: {
      uint16_t a = 0, b = 0;
      std::memcpy(&a, target, 2);
      std::memcpy(&b, source, 2);
      const bool half = type == MapType::kF16;
      const float x = half ? f16_to_float(a) : bf16_to_float(a);
      const float y = half ? f16_to_float(b) : bf16_to_float(b);
      const float value = pick(op, x, y);
      a = half ? float_to_f16(value) : float_to_bf16(value);
      std::memcpy(target, &a, 2);
      return;
    }
    case MapType::kF32:
    case MapType::kF32Ftz:
    case MapType::kTF32:
    case MapType::kTF32Ftz: {
      float a = 0, b = 0;
      std::memcpy(&a, target, 4);
      std::memcpy(&b, source, 4);
      float value = flush ? flushed(flushed(a) + flushed(b)) : a + b;
      if (is_nan(value)) value = bits_float(kCanonicalNanBits);
      std::memcpy(target, &value, 4);
      return;
    }
    case MapType::kF64: {
      double a = 0, b = 0;
      std::memcpy(&a, target, 8);
      std::memcpy(&b, source, 8);
      // An H200 keeps a NaN as it is, that of the source first.
      if (std::isnan(a) && !std::isnan(b)) return;
      const double value = std::isnan(b) ? b : a + b;
      std::memcpy(target, &value, 8);
      return;
    }
    case MapType::kS32:
      return integer_element<int32_t>(op, source, target);
    case MapType::kS64:
      return integer_element<int64_t>(op, source, target);
    case MapType::kU64:
      return integer_element<uint64_t>(op, source, target);
    default:
      return integer_element<uint32_t>(op, source, target);
  }
}

}  // namespace flamia::emulator
