// Integer instructions at their edges, and against plain definitions bit by bit.
#include "emulator/isa/scalar_integer.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/philox.h"

namespace flamia::emulator::isa {
namespace {

TEST(ScalarInteger, FieldsBeyondTheWidthAreCut) {
  EXPECT_EQ(bit_field_extract<uint32_t>(0x80000000u, 31, 40), 1u);
  EXPECT_EQ(bit_field_extract<int32_t>(INT32_MIN, 40, 3), -1);
  EXPECT_EQ(bit_field_extract<uint32_t>(~0u, 0, 0x100), 0u) << "read modulo 256";
  EXPECT_EQ(bit_field_extract<uint64_t>(~uint64_t{0}, 0, 0x100), ~uint64_t{0})
      << "not so in 64 bits";
  EXPECT_EQ(bit_field_insert<uint32_t>(~0u, 0u, 28, 8), 0xf0000000u);
  EXPECT_EQ(bit_field_insert<uint64_t>(~uint64_t{0}, 5, 64, 8), 5u);
}

TEST(ScalarInteger, FieldsEqualTheBitwiseDefinition) {
  for (uint64_t i = 0; i < 20000; ++i) {
    const Philox4 r = philox(7, 0, i);
    const uint32_t a = r.word[0], b = r.word[1], start = r.word[2] % 40u, count = r.word[3] % 40u;
    uint32_t extracted = 0, inserted = b;
    for (uint32_t bit = 0; bit < count && start + bit < 32; ++bit) {
      extracted |= ((a >> (start + bit)) & 1u) << bit;
      inserted = (inserted & ~(1u << (start + bit))) | (((a >> bit) & 1u) << (start + bit));
    }
    ASSERT_EQ(bit_field_extract(a, start, count), extracted) << start << " " << count;
    ASSERT_EQ(bit_field_insert(a, b, start, count), inserted) << start << " " << count;
  }
}

TEST(ScalarInteger, CarriesChain) {
  const auto low = add_carry<uint32_t>(~0u, 1u, false);
  EXPECT_EQ(low.value, 0u);
  EXPECT_TRUE(low.carry);
  EXPECT_TRUE(add_carry<uint32_t>(~0u, 0u, true).carry);
  EXPECT_TRUE(subtract_borrow<uint32_t>(0u, 0u, true).carry);
  EXPECT_FALSE(subtract_borrow<uint32_t>(1u, 0u, true).carry);
}

TEST(ScalarInteger, DivisionByZeroGivesAllOnes) {
  EXPECT_EQ(integer_div<uint32_t>(7u, 0u), ~0u);
  EXPECT_EQ(integer_rem<int32_t>(7, 0), -1);
  EXPECT_EQ(integer_div<int32_t>(INT32_MIN, -1), INT32_MIN);
  EXPECT_EQ(integer_rem<int32_t>(INT32_MIN, -1), 0);
}

TEST(ScalarInteger, SignReplicationOfPermute) {
  EXPECT_EQ(permute(0x000080u, 0u, 0x8888u, PermuteMode::kIndex), 0xffffffffu);
  EXPECT_EQ(permute(0x44332211u, 0x88776655u, 1u, PermuteMode::kF4e), 0x55443322u);
  EXPECT_EQ(permute(0x44332211u, 0x88776655u, 1u, PermuteMode::kB4e), 0x77881122u);
}

TEST(ScalarInteger, MasksClampOrWrap) {
  EXPECT_EQ(bit_mask(4, 8, MaskMode::kClamp), 0xff0u);
  EXPECT_EQ(bit_mask(32, 8, MaskMode::kClamp), 0u);
  EXPECT_EQ(bit_mask(32, 8, MaskMode::kWrap), 0xffu);
  EXPECT_EQ(sign_zero_extend(0x80u, 8, true, MaskMode::kClamp), 0xffffff80u);
  EXPECT_EQ(sign_zero_extend(0x80u, 40, true, MaskMode::kWrap), 0xffffff80u);
}

}  // namespace
}  // namespace flamia::emulator::isa
