// Integer and bit instructions of PTX as pure functions, with their odd cases.
// Depends on: nothing but integers. Used by: the interpreter; equal to an H200 on the recorded
// cases (tests/emulator/silicon).
#pragma once

#include <cstdint>
#include <type_traits>

namespace flamia::emulator::isa {

namespace detail {

template <typename T>
inline constexpr int kBits = static_cast<int>(sizeof(T)) * 8;

template <typename T>
using Unsigned = std::make_unsigned_t<T>;

template <typename T>
constexpr T smaller_of(T a, T b) {
  return b < a ? b : a;
}

}  // namespace detail

/// shl.b16/b32/b64: amounts from the width on give 0.
template <typename T>
constexpr T shift_left(T a, uint32_t amount) {
  using U = detail::Unsigned<T>;
  if (amount >= static_cast<uint32_t>(detail::kBits<T>)) return 0;
  return static_cast<T>(static_cast<U>(static_cast<uint64_t>(static_cast<U>(a)) << amount));
}

/// shr: of a signed type fills with the sign; amounts are clamped at the width.
template <typename T>
constexpr T shift_right(T a, uint32_t amount) {
  if (amount >= static_cast<uint32_t>(detail::kBits<T>)) {
    return static_cast<T>(std::is_signed_v<T> && a < 0 ? -1 : 0);
  }
  return static_cast<T>(a >> amount);
}

enum class FunnelMode : uint8_t { kWrap, kClamp };

/// shf.l: the upper word of (b:a) << c.
constexpr uint32_t funnel_left(uint32_t a, uint32_t b, uint32_t c, FunnelMode mode) {
  const uint32_t n = mode == FunnelMode::kWrap ? c & 31u : detail::smaller_of(c, 32u);
  return static_cast<uint32_t>((((static_cast<uint64_t>(b) << 32) | a) << n) >> 32);
}

/// shf.r: the lower word of (b:a) >> c.
constexpr uint32_t funnel_right(uint32_t a, uint32_t b, uint32_t c, FunnelMode mode) {
  const uint32_t n = mode == FunnelMode::kWrap ? c & 31u : detail::smaller_of(c, 32u);
  return static_cast<uint32_t>(((static_cast<uint64_t>(b) << 32) | a) >> n);
}

namespace detail {

/// Position and length of a bit field: modulo 256 in 32 bits, as they are (clamped) in 64.
template <typename T>
constexpr int field_number(uint32_t value) {
  return static_cast<int>(sizeof(T) == 4 ? value & 0xffu : smaller_of(value, 256u));
}

/// `count` ones from place 0 on, in 64 bits.
constexpr uint64_t ones(int count) {
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

}  // namespace detail

/// bfe: the field of `length` bits at `position`; a signed field is extended with its highest bit,
/// or with that of a if it reaches beyond the width; length 0 gives 0.
template <typename T>
constexpr T bit_field_extract(T a, uint32_t position, uint32_t length) {
  constexpr int width = detail::kBits<T>;
  const int start = detail::field_number<T>(position);
  const int count = detail::field_number<T>(length);
  if (count == 0) return 0;
  const uint64_t bits = static_cast<uint64_t>(static_cast<detail::Unsigned<T>>(a));
  const int last = detail::smaller_of(start + count - 1, width - 1);
  const bool negative = std::is_signed_v<T> && ((bits >> last) & 1u) != 0;
  const int kept = start >= width ? 0 : detail::smaller_of(count, width - start);
  const uint64_t field = (kept == 0 ? 0 : bits >> start) & detail::ones(kept);
  return static_cast<T>(negative ? field | ~detail::ones(kept) : field);
}

/// bfi: the low `length` bits of a placed in b at `position`.
template <typename T>
constexpr T bit_field_insert(T a, T b, uint32_t position, uint32_t length) {
  static_assert(std::is_unsigned_v<T>);
  const int start = detail::field_number<T>(position);
  const int count = detail::field_number<T>(length);
  if (start >= detail::kBits<T>) return b;
  const uint64_t mask = detail::ones(count) << start;
  return static_cast<T>((b & ~mask) | ((static_cast<uint64_t>(a) << start) & mask));
}

enum class PermuteMode : uint8_t { kIndex, kF4e, kB4e, kRc8, kEcl, kEcr, kRc16 };

/// prmt.b32: four bytes picked from (b:a). In the index mode bit 3 of a selector replicates the
/// sign of the byte; the other modes read c modulo 4.
constexpr uint32_t permute(uint32_t a, uint32_t b, uint32_t c, PermuteMode mode) {
  const uint64_t source = (static_cast<uint64_t>(b) << 32) | a;
  const int s = static_cast<int>(c & 3u);
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    int selector = 0;
    bool sign = false;
    switch (mode) {
      case PermuteMode::kIndex:
        selector = static_cast<int>((c >> (4 * i)) & 7u);
        sign = ((c >> (4 * i)) & 8u) != 0;
        break;
      case PermuteMode::kF4e:
        selector = s + i;
        break;
      case PermuteMode::kB4e:
        selector = (s - i) & 7;
        break;
      case PermuteMode::kRc8:
        selector = s;
        break;
      case PermuteMode::kEcl:
        selector = i < s ? s : i;
        break;
      case PermuteMode::kEcr:
        selector = i < s ? i : s;
        break;
      case PermuteMode::kRc16:
        selector = (s & 1) * 2 + (i & 1);
        break;
    }
    const uint32_t byte = static_cast<uint32_t>(source >> (8 * selector)) & 0xffu;
    const uint32_t value = sign ? ((byte & 0x80u) != 0 ? 0xffu : 0u) : byte;
    result |= value << (8 * i);
  }
  return result;
}

/// lop3.b32: bit (a, b, c) of the truth table, a the highest index bit.
constexpr uint32_t logic3(uint32_t a, uint32_t b, uint32_t c, uint8_t table) {
  uint32_t result = 0;
  for (int i = 0; i < 8; ++i) {
    if (((table >> i) & 1) == 0) continue;
    result |= ((i & 4) != 0 ? a : ~a) & ((i & 2) != 0 ? b : ~b) & ((i & 1) != 0 ? c : ~c);
  }
  return result;
}

/// mul24/mad24: the low 24 bits of each operand, sign-extended if signed.
template <typename T>
constexpr int64_t multiply24(T a, T b) {
  static_assert(sizeof(T) == 4);
  if constexpr (std::is_signed_v<T>) {
    const int64_t x = static_cast<int32_t>(static_cast<uint32_t>(a) << 8) >> 8;
    const int64_t y = static_cast<int32_t>(static_cast<uint32_t>(b) << 8) >> 8;
    return x * y;
  } else {
    return static_cast<int64_t>(static_cast<uint64_t>(a & 0xffffffu) * (b & 0xffffffu));
  }
}
/// mul24.lo and mul24.hi: bits 31:0 and 47:16 of the product.
template <typename T>
constexpr T multiply24_lo(T a, T b) {
  return static_cast<T>(multiply24(a, b));
}
template <typename T>
constexpr T multiply24_hi(T a, T b) {
  return static_cast<T>(multiply24(a, b) >> 16);
}

/// mul.hi for 16, 32 and 64 bits.
template <typename T>
constexpr T multiply_hi(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    if constexpr (std::is_signed_v<T>) {
      __extension__ typedef __int128 SignedWide;
      return static_cast<T>((static_cast<SignedWide>(a) * b) >> 64);
    } else {
      __extension__ typedef unsigned __int128 UnsignedWide;
      return static_cast<T>((static_cast<UnsignedWide>(a) * b) >> 64);
    }
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>((static_cast<int64_t>(a) * b) >> detail::kBits<T>);
  } else {
    return static_cast<T>((static_cast<uint64_t>(a) * b) >> detail::kBits<T>);
  }
}

/// mul.lo.
template <typename T>
constexpr T multiply_lo(T a, T b) {
  using U = detail::Unsigned<T>;
  return static_cast<T>(static_cast<uint64_t>(static_cast<U>(a)) * static_cast<U>(b));
}

/// mul.wide: the product in twice the width; WideType says which.
template <typename WideType, typename T>
constexpr WideType multiply_wide(T a, T b) {
  static_assert(sizeof(WideType) == 2 * sizeof(T));
  return static_cast<WideType>(static_cast<WideType>(a) * static_cast<WideType>(b));
}

/// add.sat.s32, sub.sat.s32, and the addition of mad.hi.sat.s32.
constexpr int32_t clamp_s32(int64_t value) {
  if (value > INT32_MAX) return INT32_MAX;
  return value < INT32_MIN ? INT32_MIN : static_cast<int32_t>(value);
}

/// A result with the carry flag CC.CF that the .cc form writes.
template <typename T>
struct WithCarry {
  T value;
  bool carry;
};

/// add.cc, addc(.cc): carry is 0 for add.cc.
template <typename T>
constexpr WithCarry<T> add_carry(T a, T b, bool carry) {
  static_assert(std::is_unsigned_v<T>);
  const T sum = static_cast<T>(a + b);
  const T total = static_cast<T>(sum + (carry ? 1 : 0));
  return {total, sum < a || total < sum};
}

/// sub.cc, subc(.cc): the flag holds the borrow.
template <typename T>
constexpr WithCarry<T> subtract_borrow(T a, T b, bool borrow) {
  static_assert(std::is_unsigned_v<T>);
  const T difference = static_cast<T>(a - b);
  const T total = static_cast<T>(difference - (borrow ? 1 : 0));
  return {total, a < b || (borrow && difference == 0)};
}

/// abs and neg: the smallest negative value stays.
template <typename T>
constexpr T integer_abs(T a) {
  return a < 0 ? static_cast<T>(0 - static_cast<detail::Unsigned<T>>(a)) : a;
}
template <typename T>
constexpr T integer_negate(T a) {
  return static_cast<T>(0 - static_cast<detail::Unsigned<T>>(a));
}

/// sad: c + |a - b|, modulo the width.
template <typename T>
constexpr T sum_absolute_difference(T a, T b, T c) {
  using U = detail::Unsigned<T>;
  const U difference = static_cast<U>(a < b ? static_cast<U>(b) - static_cast<U>(a)
                                            : static_cast<U>(a) - static_cast<U>(b));
  return static_cast<T>(static_cast<U>(c) + difference);
}

/// div and rem of integers. Division by zero gives all ones for both; the smallest value divided by
/// -1 stays.
template <typename T>
constexpr T integer_div(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return integer_negate(a);
  return static_cast<T>(a / b);
}
template <typename T>
constexpr T integer_rem(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
  return static_cast<T>(a % b);
}

constexpr uint32_t count_leading_zeros(uint32_t a) {
  return a == 0 ? 32u : static_cast<uint32_t>(__builtin_clz(a));
}
constexpr uint32_t count_leading_zeros(uint64_t a) {
  return a == 0 ? 64u : static_cast<uint32_t>(__builtin_clzll(a));
}
constexpr uint32_t population_count(uint64_t a) {
  return static_cast<uint32_t>(__builtin_popcountll(a));
}

template <typename T>
constexpr T bit_reverse(T a) {
  T result = 0;
  for (int i = 0; i < detail::kBits<T>; ++i) {
    result = static_cast<T>((result << 1) | ((a >> i) & 1u));
  }
  return result;
}

/// bfind: place of the highest bit that differs from the sign (of a signed type) or is one; with
/// shift_amount the left shift that brings it to the top; none gives all ones in both forms.
template <typename T>
constexpr uint32_t bit_find(T a, bool shift_amount) {
  using U = detail::Unsigned<T>;
  const U bits = static_cast<U>(std::is_signed_v<T> && a < 0 ? ~a : a);
  if (bits == 0) return 0xffffffffu;
  const uint32_t zeros = sizeof(T) == 8 ? count_leading_zeros(static_cast<uint64_t>(bits))
                                        : count_leading_zeros(static_cast<uint32_t>(bits));
  return shift_amount ? zeros : static_cast<uint32_t>(detail::kBits<T>) - 1u - zeros;
}

/// fns.b32: place of the offset-th set bit from `base` on, upwards for a positive offset, downwards
/// for a negative one, `base` itself for 0 if set; none gives all ones. base is below 32.
constexpr uint32_t find_nth_set(uint32_t mask, uint32_t base, int32_t offset) {
  constexpr uint32_t none = 0xffffffffu;
  if (base > 31u) return none;
  if (offset == 0) return ((mask >> base) & 1u) != 0 ? base : none;
  const int step = offset > 0 ? 1 : -1;
  int64_t left = offset > 0 ? offset : -static_cast<int64_t>(offset);
  for (int place = static_cast<int>(base); place >= 0 && place < 32; place += step) {
    if (((mask >> place) & 1u) != 0 && --left == 0) return static_cast<uint32_t>(place);
  }
  return none;
}

enum class MaskMode : uint8_t { kClamp, kWrap };

/// szext: the low n bits of a, sign-extended if signed. n above 32 keeps all (clamp) or is read
/// modulo 32 (wrap).
constexpr uint32_t sign_zero_extend(uint32_t a, uint32_t n, bool is_signed, MaskMode mode) {
  const uint32_t count = mode == MaskMode::kWrap ? n & 31u : n;
  if (count >= 32u) return a;
  if (count == 0) return 0;
  const uint32_t low = a & ((1u << count) - 1u);
  const bool negative = is_signed && ((low >> (count - 1u)) & 1u) != 0;
  return negative ? low | ~((1u << count) - 1u) : low;
}

/// bmsk: `width` ones from `position` on; both above 31 are clamped at 32 or wrapped.
constexpr uint32_t bit_mask(uint32_t position, uint32_t width, MaskMode mode) {
  const uint32_t start = mode == MaskMode::kWrap ? position & 31u : position;
  const uint32_t count = mode == MaskMode::kWrap ? width & 31u : width;
  if (start > 31u) return 0;
  const uint32_t ones = count > 31u ? 0xffffffffu : (1u << count) - 1u;
  return ones << start;
}

/// One signed or unsigned byte or half of a word.
constexpr int64_t word_part(uint32_t word, int bits, int index, bool is_signed) {
  const uint32_t part = (word >> (bits * index)) & ((1u << bits) - 1u);
  const bool negative = is_signed && (part >> (bits - 1)) != 0;
  return static_cast<int64_t>(part) - (negative ? int64_t{1} << bits : 0);
}

/// dp4a: c plus the products of four bytes.
constexpr uint32_t dot4(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed) {
  int64_t sum = c;
  for (int i = 0; i < 4; ++i) {
    sum += word_part(a, 8, i, a_signed) * word_part(b, 8, i, b_signed);
  }
  return static_cast<uint32_t>(sum);
}

/// dp2a: c plus the products of two halves of a and two bytes of b, the lower or the upper ones.
constexpr uint32_t dot2(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed,
                        bool upper) {
  int64_t sum = c;
  for (int i = 0; i < 2; ++i) {
    sum += word_part(a, 16, i, a_signed) * word_part(b, 8, i + (upper ? 2 : 0), b_signed);
  }
  return static_cast<uint32_t>(sum);
}

/// add, min, max on the two 16-bit halves of a word.
template <typename T, typename Operation>
constexpr uint32_t packed16(uint32_t a, uint32_t b, Operation operation) {
  static_assert(sizeof(T) == 2);
  const T low = operation(static_cast<T>(a), static_cast<T>(b));
  const T high = operation(static_cast<T>(a >> 16), static_cast<T>(b >> 16));
  return static_cast<uint32_t>(static_cast<uint16_t>(low)) |
         static_cast<uint32_t>(static_cast<uint16_t>(high)) << 16;
}

static_assert(bit_field_extract<int32_t>(0x80, 7, 1) == -1);
static_assert(bit_field_extract<uint32_t>(0x12345678u, 8, 8) == 0x56u);
static_assert(permute(0x03020100u, 0x07060504u, 0x7531u, PermuteMode::kIndex) == 0x07050301u);
static_assert(logic3(0xf0u, 0xccu, 0xaau, 0xe8) == 0xe8u);
static_assert(bit_find<int32_t>(-1, false) == 0xffffffffu && bit_find<uint32_t>(1, true) == 31u);
static_assert(find_nth_set(0x15u, 0, 2) == 2u && find_nth_set(0x15u, 4, -2) == 2u);

}  // namespace flamia::emulator::isa
