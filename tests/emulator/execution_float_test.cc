// The fast paths of float arithmetic against the definitions in isa/, on random and special bits.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "emulator/isa/approx.h"
#include "emulator/isa/scalar_float.h"
#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

using isa::FloatMode;
using isa::Rounding;

constexpr uint32_t kCount = 8192;

std::vector<uint32_t> operands(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> values(kCount);
  constexpr uint32_t kSpecial[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000,
                                   0xff800000, 0x7fc00000, 0x00000001, 0x807fffff, 0x00800000,
                                   0x80800000, 0x7f7fffff, 0xff7fffff, 0x00ffffff, 0x7f800001};
  for (uint32_t& value : values) {
    value = random();
    if (random() % 4 == 0) value = kSpecial[random() % std::size(kSpecial)];
    if (random() % 4 == 0) value = (value & 0x80ffffffu) | 0x3f000000u;  // near one
  }
  return values;
}

std::string arithmetic(const std::string& instruction, int sources) {
  std::string text = R"(
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out)
{
  .reg .b32 %r<10>; .reg .f32 %f<10>; .reg .b64 %d<10>;
  ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c]; ld.param.u64 %d4, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
  mad.lo.u32 %r1, %r2, %r3, %r1;
  mul.wide.u32 %d5, %r1, 4;
  add.u64 %d1, %d1, %d5; add.u64 %d2, %d2, %d5; add.u64 %d3, %d3, %d5; add.u64 %d4, %d4, %d5;
  ld.global.f32 %f1, [%d1]; ld.global.f32 %f2, [%d2]; ld.global.f32 %f3, [%d3];
  )" + instruction + " %f0, %f1";
  if (sources > 1) text += ", %f2";
  if (sources > 2) text += ", %f3";
  return text + "; st.global.f32 [%d4], %f0; ret; }";
}

template <typename Model>
void compare(const std::string& instruction, int sources, Model model) {
  Machine machine;
  machine.load(arithmetic(instruction, sources));
  const auto a = operands(1), b = operands(2), c = operands(3);
  const uint64_t out = machine.allocate(4 * kCount);
  const Status status = machine.launch("k", {kCount / 256, 1, 1}, {256, 1, 1}, machine.upload(a),
                                       machine.upload(b), machine.upload(c), out);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto result = machine.download<uint32_t>(out, kCount);
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(result[i], static_cast<uint32_t>(model(a[i], b[i], c[i])))
        << instruction << std::hex << " " << a[i] << " " << b[i] << " " << c[i];
  }
}

TEST(ExecutionFloat, FastPathsEqualTheDefinitions) {
  struct Mode {
    const char* text;
    Rounding rounding;
    bool ftz, sat;
  };
  constexpr Mode kModes[] = {{".rn", Rounding::kNearestEven, false, false},
                             {".rn.ftz", Rounding::kNearestEven, true, false},
                             {".rn.sat", Rounding::kNearestEven, false, true},
                             {".rn.ftz.sat", Rounding::kNearestEven, true, true},
                             {".rz", Rounding::kZero, false, false},
                             {".rm", Rounding::kDown, false, false},
                             {".rp", Rounding::kUp, false, false},
                             {".rm.ftz", Rounding::kDown, true, false}};
  for (const Mode& m : kModes) {
    const FloatMode mode{m.rounding, m.ftz, m.sat, false};
    const std::string suffix = std::string(m.text) + ".f32";
    compare("add" + suffix, 2, [&](uint64_t a, uint64_t b, uint64_t) {
      return isa::float_add(isa::kF32Format, a, b, mode);
    });
    compare("sub" + suffix, 2, [&](uint64_t a, uint64_t b, uint64_t) {
      return isa::float_sub(isa::kF32Format, a, b, mode);
    });
    compare("mul" + suffix, 2, [&](uint64_t a, uint64_t b, uint64_t) {
      return isa::float_mul(isa::kF32Format, a, b, mode);
    });
    compare("fma" + suffix, 3, [&](uint64_t a, uint64_t b, uint64_t c) {
      return isa::float_fma(isa::kF32Format, a, b, c, mode);
    });
    if (m.sat) continue;
    compare("div" + suffix, 2, [&](uint64_t a, uint64_t b, uint64_t) {
      return isa::float_div(isa::kF32Format, a, b, mode);
    });
    compare("rcp" + suffix, 1, [&](uint64_t a, uint64_t, uint64_t) {
      return isa::float_rcp(isa::kF32Format, a, mode);
    });
    compare("sqrt" + suffix, 1, [&](uint64_t a, uint64_t, uint64_t) {
      return isa::float_sqrt(isa::kF32Format, a, mode);
    });
  }
  compare("max.f32", 2, [](uint64_t a, uint64_t b, uint64_t) {
    return isa::float_min_max(isa::kF32Format, true, a, b, {});
  });
  compare("min.f32", 2, [](uint64_t a, uint64_t b, uint64_t) {
    return isa::float_min_max(isa::kF32Format, false, a, b, {});
  });
  compare("ex2.approx.ftz.f32", 1, [](uint64_t a, uint64_t, uint64_t) {
    return isa::approx::ex2_f32(isa::kMufuTables, static_cast<uint32_t>(a), true);
  });
}

}  // namespace
}  // namespace flamia::emulator
