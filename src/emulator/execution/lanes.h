// Loops over the 32 lanes of a warp around small pure functions; the full-warp loop is written so
// that compilers vectorize it.
// Depends on: state.h, step.h. Used by: the families of scalar instructions.
// A function gets the step (modes) and raw 64-bit values and returns the raw result, which must
// fit the width of the target.
// Such a lambda stands in a function or is the value of its own variable template (kShift), never
// an argument within another's initializer: clang 14 names those by their place in the file and
// makes them weak, so that the linker takes one file's lambda for another's. scripts/fuzz looks for
// them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "emulator/execution/decoder.h"
#include "emulator/execution/state.h"
#include "emulator/execution/step.h"

// Rows are equal or apart, so no lane reads what another wrote: GCC must be told, clang checks at
// run time.
#if defined(__GNUC__) && !defined(__clang__)
#define FLAMIA_INDEPENDENT_LANES _Pragma("GCC ivdep")
#else
#define FLAMIA_INDEPENDENT_LANES
#endif

namespace flamia::emulator::execution {

/// Zero-extended bits of a result.
template <typename T>
constexpr uint64_t raw_bits(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? 1 : 0;
  } else {
    return static_cast<uint64_t>(static_cast<std::make_unsigned_t<T>>(value));
  }
}

template <auto F>
Outcome lanes1(Warp& warp, const Step& step, uint32_t active) {
  uint64_t* const out = warp.row(step.target);
  const uint64_t* const a = warp.read(step.source[0]);
  if (active == kAllLanes) {
    FLAMIA_INDEPENDENT_LANES
    for (uint32_t i = 0; i < kLanes; ++i) out[i] = F(step, a[i]);
  } else {
    for (uint32_t i = 0; i < kLanes; ++i) {
      if ((active >> i & 1u) != 0) out[i] = F(step, a[i]);
    }
  }
  return Outcome::kNext;
}

template <auto F>
Outcome lanes2(Warp& warp, const Step& step, uint32_t active) {
  uint64_t* const out = warp.row(step.target);
  const uint64_t* const a = warp.read(step.source[0]);
  const uint64_t* const b = warp.read(step.source[1]);
  if (active == kAllLanes) {
    FLAMIA_INDEPENDENT_LANES
    for (uint32_t i = 0; i < kLanes; ++i) out[i] = F(step, a[i], b[i]);
  } else {
    for (uint32_t i = 0; i < kLanes; ++i) {
      if ((active >> i & 1u) != 0) out[i] = F(step, a[i], b[i]);
    }
  }
  return Outcome::kNext;
}

template <auto F>
Outcome lanes3(Warp& warp, const Step& step, uint32_t active) {
  uint64_t* const out = warp.row(step.target);
  const uint64_t* const a = warp.read(step.source[0]);
  const uint64_t* const b = warp.read(step.source[1]);
  const uint64_t* const c = warp.read(step.source[2]);
  if (active == kAllLanes) {
    FLAMIA_INDEPENDENT_LANES
    for (uint32_t i = 0; i < kLanes; ++i) out[i] = F(step, a[i], b[i], c[i]);
  } else {
    for (uint32_t i = 0; i < kLanes; ++i) {
      if ((active >> i & 1u) != 0) out[i] = F(step, a[i], b[i], c[i]);
    }
  }
  return Outcome::kNext;
}

template <auto F>
Outcome lanes4(Warp& warp, const Step& step, uint32_t active) {
  uint64_t* const out = warp.row(step.target);
  const uint64_t* const a = warp.read(step.source[0]);
  const uint64_t* const b = warp.read(step.source[1]);
  const uint64_t* const c = warp.read(step.source[2]);
  const uint64_t* const d = warp.read(step.source[3]);
  for (uint32_t i = 0; i < kLanes; ++i) {
    if ((active >> i & 1u) != 0) out[i] = F(step, a[i], b[i], c[i], d[i]);
  }
  return Outcome::kNext;
}

/// A predicate row keeps one bit a lane in its first value.
inline void write_predicate(Warp& warp, uint32_t slot, uint32_t active, uint32_t bits) {
  uint64_t* const row = warp.row(slot);
  row[0] = (row[0] & ~uint64_t{active}) | (bits & active);
}
inline uint32_t read_predicate(const Warp& warp, const Source& source) {
  return static_cast<uint32_t>(warp.read(source)[0]);
}

/// Bits of the lanes for which F holds.
template <auto F>
uint32_t lane_bits(const Step& step, const uint64_t* a, const uint64_t* b) {
  uint32_t bits = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    bits |= static_cast<uint32_t>(F(step, a[i], b[i])) << i;
  }
  return bits;
}

// Typed forms: F works on T and its result is extended with zeros.
template <typename T, auto F>
Outcome typed1(Warp& warp, const Step& step, uint32_t active) {
  return lanes1<[](const Step&, uint64_t a) { return raw_bits(F(static_cast<T>(a))); }>(warp, step,
                                                                                        active);
}
template <typename T, auto F>
Outcome typed2(Warp& warp, const Step& step, uint32_t active) {
  return lanes2<[](const Step&, uint64_t a, uint64_t b) {
    return raw_bits(F(static_cast<T>(a), static_cast<T>(b)));
  }>(warp, step, active);
}
template <typename T, auto F>
Outcome typed3(Warp& warp, const Step& step, uint32_t active) {
  return lanes3<[](const Step&, uint64_t a, uint64_t b, uint64_t c) {
    return raw_bits(F(static_cast<T>(a), static_cast<T>(b), static_cast<T>(c)));
  }>(warp, step, active);
}

/// The instance of a typed form for an integer type of 16 to 64 bits; null for other types.
template <auto F>
Handler integers1(ScalarType type) {
  switch (type) {
    case ScalarType::kU16:
    case ScalarType::kB16:
      return typed1<uint16_t, F>;
    case ScalarType::kS16:
      return typed1<int16_t, F>;
    case ScalarType::kU32:
    case ScalarType::kB32:
      return typed1<uint32_t, F>;
    case ScalarType::kS32:
      return typed1<int32_t, F>;
    case ScalarType::kU64:
    case ScalarType::kB64:
      return typed1<uint64_t, F>;
    case ScalarType::kS64:
      return typed1<int64_t, F>;
    default:
      return nullptr;
  }
}
template <auto F>
Handler integers2(ScalarType type) {
  switch (type) {
    case ScalarType::kU16:
    case ScalarType::kB16:
      return typed2<uint16_t, F>;
    case ScalarType::kS16:
      return typed2<int16_t, F>;
    case ScalarType::kU32:
    case ScalarType::kB32:
      return typed2<uint32_t, F>;
    case ScalarType::kS32:
      return typed2<int32_t, F>;
    case ScalarType::kU64:
    case ScalarType::kB64:
      return typed2<uint64_t, F>;
    case ScalarType::kS64:
      return typed2<int64_t, F>;
    default:
      return nullptr;
  }
}
template <auto F>
Handler integers3(ScalarType type) {
  switch (type) {
    case ScalarType::kU16:
    case ScalarType::kB16:
      return typed3<uint16_t, F>;
    case ScalarType::kS16:
      return typed3<int16_t, F>;
    case ScalarType::kU32:
    case ScalarType::kB32:
      return typed3<uint32_t, F>;
    case ScalarType::kS32:
      return typed3<int32_t, F>;
    case ScalarType::kU64:
    case ScalarType::kB64:
      return typed3<uint64_t, F>;
    case ScalarType::kS64:
      return typed3<int64_t, F>;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
