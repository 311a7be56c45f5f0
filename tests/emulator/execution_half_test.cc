// 16-bit arithmetic, conversions and packed binary32 executed as PTX, against the definitions in
// isa/: that the decoder picks a path which stands for all modifiers. The paths themselves are
// compared more thoroughly in fast_half_test.cc.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "emulator/isa/approx.h"
#include "emulator/isa/scalar_float.h"
#include "emulator/isa/scalar_narrow.h"
#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

using isa::FloatFormat;
using isa::FloatMode;
using isa::Narrow;
using isa::Rounding;

constexpr uint32_t kCount = 4096;
using Model = std::function<uint64_t(uint64_t, uint64_t, uint64_t)>;

/// Random bits, among them the edges of both 16-bit formats and of binary32.
std::vector<uint32_t> operands(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> values(kCount);
  constexpr uint32_t kSpecial[] = {0,      0x8000, 0x3c00, 0x7c00, 0xfc00, 0x7e00, 0x0001, 0x83ff,
                                   0x0400, 0x8400, 0x7bff, 0x3f80, 0x7f80, 0xff80, 0x7fc0, 0x0080,
                                   0x7f7f, 0xff7f, 0x0041, 0xbc00, 0x7f81, 0x4b80, 0xcf00, 0xffff};
  for (uint32_t& value : values) {
    value = static_cast<uint32_t>(random());
    if (random() % 4 == 0) value = (value & 0x87ff87ffu) | 0x38003800u;  // near one
    if (random() % 4 == 0) value = (value & 0xffffu) | kSpecial[random() % 24] << 16;
    if (random() % 4 == 0) value = (value & 0xffff0000u) | kSpecial[random() % 24];
  }
  return values;
}

/// Operands stand in %r1 to %r3, %f1 to %f3, their low halves in %h1 to %h3, the pairs of them
/// in %d1 = {a, b}, %d2 = {b, c}, %d3 = {c, a}; the result in %r0.
void compare(const std::string& instruction, const Model& model) {
  Machine machine([] {
    MachineOptions options;
    options.chip = Chip::kB200;
    return options;
  }());
  machine.load(R"(
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out)
{
  .reg .b8 %c<4>; .reg .b16 %h<10>; .reg .b32 %r<10>; .reg .f32 %f<10>; .reg .b64 %d<20>;
  .reg .f64 %e<4>;
  ld.param.u64 %d11, [a]; ld.param.u64 %d12, [b]; ld.param.u64 %d13, [c]; ld.param.u64 %d14, [out];
  mov.u32 %r7, %tid.x; mov.u32 %r8, %ctaid.x; mov.u32 %r9, %ntid.x;
  mad.lo.u32 %r7, %r8, %r9, %r7;
  mul.wide.u32 %d15, %r7, 4;
  add.u64 %d11, %d11, %d15; add.u64 %d12, %d12, %d15; add.u64 %d13, %d13, %d15;
  add.u64 %d14, %d14, %d15;
  ld.global.b32 %r1, [%d11]; ld.global.b32 %r2, [%d12]; ld.global.b32 %r3, [%d13];
  mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3;
  mov.b32 {%h1, %h9}, %r1; mov.b32 {%h2, %h9}, %r2; mov.b32 {%h3, %h9}, %r3;
  mov.b64 %d1, {%r1, %r2}; mov.b64 %d2, {%r2, %r3}; mov.b64 %d3, {%r3, %r1};
  mov.b64 %e1, %d1;
  )" + instruction +
                   " st.global.b32 [%d14], %r0; ret; }",
               "sm_100a");
  const auto a = operands(1), b = operands(2), c = operands(3);
  const uint64_t out = machine.allocate(4 * kCount);
  const Status status = machine.launch("k", {kCount / 256, 1, 1}, {256, 1, 1}, machine.upload(a),
                                       machine.upload(b), machine.upload(c), out);
  ASSERT_TRUE(status.ok()) << instruction << status.message();
  const auto result = machine.download<uint32_t>(out, kCount);
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(result[i], static_cast<uint32_t>(model(a[i], b[i], c[i])))
        << instruction << std::hex << " " << a[i] << " " << b[i] << " " << c[i];
  }
}

Model both(const Model& half) {
  return [half](uint64_t a, uint64_t b, uint64_t c) {
    return half(a & 0xffffu, b & 0xffffu, c & 0xffffu) |
           half(a >> 16 & 0xffffu, b >> 16 & 0xffffu, c >> 16 & 0xffffu) << 16;
  };
}

/// The packed and the single form of an instruction with `sources` operands.
void compare_halves(const std::string& name, const std::string& type, int sources,
                    const Model& half) {
  std::string packed = name + "." + type + "x2 %r0, %r1", single = name + "." + type + " %h0, %h1";
  for (int i = 2; i <= sources; ++i) {
    packed += ", %r" + std::to_string(i);
    single += ", %h" + std::to_string(i);
  }
  compare(packed + ";", both(half));
  compare(single + "; cvt.u32.u16 %r0, %h0;", [&](uint64_t a, uint64_t b, uint64_t c) {
    return half(a & 0xffffu, b & 0xffffu, c & 0xffffu);
  });
}

TEST(ExecutionHalf, ArithmeticEqualsTheDefinitions) {
  struct Row {
    const char* type;
    const FloatFormat* format;
    const char* suffix;
    bool ftz, sat, relu;
  };
  constexpr Row kRows[] = {{"f16", &isa::kF16Format, "", false, false, false},
                           {"f16", &isa::kF16Format, ".ftz", true, false, false},
                           {"f16", &isa::kF16Format, ".sat", false, true, false},
                           {"f16", &isa::kF16Format, ".ftz.sat", true, true, false},
                           {"f16", &isa::kF16Format, ".relu", false, false, true},
                           {"bf16", &isa::kBf16Format, "", false, false, false},
                           {"bf16", &isa::kBf16Format, ".relu", false, false, true}};
  for (const Row& row : kRows) {
    const FloatMode mode{Rounding::kNearestEven, row.ftz, row.sat, row.relu};
    const std::string suffix = std::string(".rn") + row.suffix;
    compare_halves("fma" + suffix, row.type, 3, [&](uint64_t a, uint64_t b, uint64_t c) {
      return isa::float_fma(*row.format, a, b, c, mode);
    });
    if (row.relu) continue;
    compare_halves("add" + suffix, row.type, 2, [&](uint64_t a, uint64_t b, uint64_t) {
      return isa::float_add(*row.format, a, b, mode);
    });
    compare_halves("sub" + suffix, row.type, 2, [&](uint64_t a, uint64_t b, uint64_t) {
      return isa::float_sub(*row.format, a, b, mode);
    });
    compare_halves("mul" + suffix, row.type, 2, [&](uint64_t a, uint64_t b, uint64_t) {
      return isa::float_mul(*row.format, a, b, mode);
    });
  }
}

TEST(ExecutionHalf, MinimaAndMaximaEqualTheDefinitions) {
  for (const bool maximum : {false, true}) {
    const std::string name = maximum ? "max" : "min";
    for (const bool nan : {false, true}) {
      const std::string suffix = nan ? ".NaN" : "";
      for (const bool xorsign : {false, true}) {
        const isa::MinMaxMode mode{false, nan, false, xorsign};
        const std::string all = name + suffix + (xorsign ? ".xorsign.abs" : "");
        compare_halves(all, "f16", 2, [&](uint64_t a, uint64_t b, uint64_t) {
          return isa::float_min_max(isa::kF16Format, maximum, a, b, mode);
        });
        compare_halves(all, "bf16", 2, [&](uint64_t a, uint64_t b, uint64_t) {
          return isa::float_min_max(isa::kBf16Format, maximum, a, b, mode);
        });
      }
      for (const bool ftz : {false, true}) {
        const isa::MinMaxMode mode{ftz, nan, false, false};
        const std::string all = name + (ftz ? ".ftz" : "") + suffix + ".f32 %f0, %f1, %f2";
        compare(all + "; mov.b32 %r0, %f0;", [&](uint64_t a, uint64_t b, uint64_t) {
          return isa::float_min_max(isa::kF32Format, maximum, a, b, mode);
        });
        compare(all + ", %f3; mov.b32 %r0, %f0;", [&](uint64_t a, uint64_t b, uint64_t c) {
          return isa::float_min_max3(isa::kF32Format, maximum, a, b, c, mode);
        });
      }
    }
  }
}

TEST(ExecutionHalf, ApproximationsEqualTheDefinitions) {
  const auto of = [](uint16_t (*function)(const isa::MufuTables&, uint16_t)) -> Model {
    return [function](uint64_t a, uint64_t, uint64_t) -> uint64_t {
      return function(isa::kMufuTables, static_cast<uint16_t>(a));
    };
  };
  compare_halves("ex2.approx", "f16", 1, of(isa::approx::ex2_f16));
  compare_halves("ex2.approx.ftz", "bf16", 1, of(isa::approx::ex2_bf16));
  compare_halves("tanh.approx", "f16", 1, of(isa::approx::tanh_f16));
  compare_halves("tanh.approx", "bf16", 1, of(isa::approx::tanh_bf16));
}

TEST(ExecutionHalf, PackedBinary32EqualsTheDefinitions) {
  struct Row {
    const char* suffix;
    FloatMode mode;
  };
  const Row rows[] = {{".rn", {}},
                      {".rn.ftz", {Rounding::kNearestEven, true, false, false}},
                      {".rm", {Rounding::kDown, false, false, false}},
                      {".rm.ftz", {Rounding::kDown, true, false, false}},
                      {".rp.ftz", {Rounding::kUp, true, false, false}},
                      {".rz", {Rounding::kZero, false, false, false}}};
  for (const Row& row : rows) {
    const std::string tail = std::string(row.suffix) + ".f32x2 %d0, %d1, %d2";
    for (const bool upper : {false, true}) {
      const std::string take = upper ? "; mov.b64 {%r5, %r0}, %d0;" : "; mov.b64 {%r0, %r5}, %d0;";
      compare("add" + tail + take, [&](uint64_t a, uint64_t b, uint64_t c) {
        return isa::float_add(isa::kF32Format, upper ? b : a, upper ? c : b, row.mode);
      });
      compare("mul" + tail + take, [&](uint64_t a, uint64_t b, uint64_t c) {
        return isa::float_mul(isa::kF32Format, upper ? b : a, upper ? c : b, row.mode);
      });
      compare("fma" + tail + ", %d3" + take, [&](uint64_t a, uint64_t b, uint64_t c) {
        return upper ? isa::float_fma(isa::kF32Format, b, c, a, row.mode)
                     : isa::float_fma(isa::kF32Format, a, b, c, row.mode);
      });
    }
  }
}

TEST(ExecutionHalf, MixedSumsWidenFirst) {
  for (const bool f16 : {false, true}) {
    const FloatFormat& format = f16 ? isa::kF16Format : isa::kBf16Format;
    const auto wide = [&](uint64_t x) {
      return isa::convert_float(isa::kF32Format, format, x & 0xffffu, {});
    };
    const std::string type = f16 ? ".f32.f16" : ".f32.bf16";
    compare("add" + type + " %f0, %h1, %f2; mov.b32 %r0, %f0;",
            [&](uint64_t a, uint64_t b, uint64_t) {
              return isa::float_add(isa::kF32Format, wide(a), b, {});
            });
    compare("fma.rn" + type + " %f0, %h1, %h2, %f3; mov.b32 %r0, %f0;",
            [&](uint64_t a, uint64_t b, uint64_t c) {
              return isa::float_fma(isa::kF32Format, wide(a), wide(b), c, {});
            });
  }
}

TEST(ExecutionConvert, FloatsEqualTheDefinitions) {
  const auto convert = [](const FloatFormat& to, const FloatFormat& from,
                          isa::ConvertMode mode = {}, bool whole = false) -> Model {
    return [&to, &from, mode, whole](uint64_t a, uint64_t b, uint64_t) {
      if (from.mantissa_bits == 52) a |= b << 32;
      if (from.mantissa_bits < 23) a &= 0xffffu;
      return isa::convert_float(to, from, a, mode, whole);
    };
  };
  using isa::kBf16Format, isa::kF16Format, isa::kF32Format, isa::kF64Format;
  const isa::ConvertMode relu{Rounding::kNearestEven, false, false, true, false};
  const isa::ConvertMode ftz{Rounding::kNearestEven, true, false, false, false};
  const isa::ConvertMode sat{Rounding::kNearestEven, false, true, false, false};
  const isa::ConvertMode zero{Rounding::kZero, false, false, false, false};
  const std::string half = " %h0, %f1; cvt.u32.u16 %r0, %h0;", bits = " mov.b32 %r0, %f0;";
  compare("cvt.rn.f16.f32" + half, convert(kF16Format, kF32Format));
  compare("cvt.rn.ftz.f16.f32" + half, convert(kF16Format, kF32Format, ftz));
  compare("cvt.rz.f16.f32" + half, convert(kF16Format, kF32Format, zero));
  compare("cvt.rn.sat.f16.f32" + half, convert(kF16Format, kF32Format, sat));
  compare("cvt.rn.relu.f16.f32" + half, convert(kF16Format, kF32Format, relu));
  compare("cvt.rn.bf16.f32" + half, convert(kBf16Format, kF32Format));
  compare("cvt.rn.relu.bf16.f32" + half, convert(kBf16Format, kF32Format, relu));
  compare("cvt.rz.bf16.f32" + half, convert(kBf16Format, kF32Format, zero));
  compare("cvt.f32.f16 %f0, %h1;" + bits, convert(kF32Format, kF16Format));
  compare("cvt.ftz.f32.f16 %f0, %h1;" + bits, convert(kF32Format, kF16Format, ftz));
  compare("cvt.sat.f32.f16 %f0, %h1;" + bits, convert(kF32Format, kF16Format, sat));
  compare("cvt.f32.bf16 %f0, %h1;" + bits, convert(kF32Format, kBf16Format));
  compare("cvt.rn.f32.f64 %f0, %e1;" + bits, convert(kF32Format, kF64Format));
  compare("cvt.rn.ftz.f32.f64 %f0, %e1;" + bits, convert(kF32Format, kF64Format, ftz));
  compare("cvt.rz.f32.f64 %f0, %e1;" + bits, convert(kF32Format, kF64Format, zero));
  compare("cvt.f64.f32 %e0, %f1; mov.b64 {%r0, %r5}, %e0;", convert(kF64Format, kF32Format));
  compare("cvt.f64.f32 %e0, %f1; mov.b64 {%r5, %r0}, %e0;", [](uint64_t a, uint64_t, uint64_t) {
    return isa::convert_float(kF64Format, kF32Format, a, {}) >> 32;
  });
  for (const auto& [name, rounding] :
       {std::pair("rni", Rounding::kNearestEven), std::pair("rzi", Rounding::kZero),
        std::pair("rmi", Rounding::kDown), std::pair("rpi", Rounding::kUp)}) {
    isa::ConvertMode mode{rounding, false, false, false, false};
    const std::string start = std::string("cvt.") + name;
    compare(start + ".f32.f32 %f0, %f1;" + bits, convert(kF32Format, kF32Format, mode, true));
    compare(start + ".s32.f32 %r0, %f1;", [&](uint64_t a, uint64_t, uint64_t) {
      return isa::convert_to_integer(isa::kS32, kF32Format, a, mode);
    });
    compare(start + ".s64.f32 %d0, %f1; mov.b64 {%r5, %r0}, %d0;",
            [&](uint64_t a, uint64_t, uint64_t) {
              return isa::convert_to_integer(isa::kS64, kF32Format, a, mode) >> 32;
            });
    mode.ftz = true;
    compare(start + ".ftz.u32.f32 %r0, %f1;", [&](uint64_t a, uint64_t, uint64_t) {
      return isa::convert_to_integer(isa::kU32, kF32Format, a, mode);
    });
    mode.sat = true;
    compare(start + ".ftz.sat.f32.f32 %f0, %f1;" + bits,
            convert(kF32Format, kF32Format, mode, true));
  }
  for (const isa::IntegerType& type : {isa::kS32, isa::kU32}) {
    const std::string name = type.is_signed ? "s32" : "u32";
    compare("cvt.rn.f32." + name + " %f0, %r1;" + bits, [&](uint64_t a, uint64_t, uint64_t) {
      return isa::convert_from_integer(kF32Format, type, a, {});
    });
    compare("cvt.rz.f32." + name + " %f0, %r1;" + bits, [&](uint64_t a, uint64_t, uint64_t) {
      return isa::convert_from_integer(kF32Format, type, a, zero);
    });
  }
  compare("cvt.rn.f32.s16 %f0, %h1;" + bits, [](uint64_t a, uint64_t, uint64_t) {
    return isa::convert_from_integer(kF32Format, isa::kS16, a, {});
  });
}

TEST(ExecutionConvert, PairsEqualTheDefinitions) {
  const auto pair = [](const FloatFormat& to, isa::ConvertMode mode) -> Model {
    return [&to, mode](uint64_t a, uint64_t b, uint64_t) {
      return isa::convert_float(to, isa::kF32Format, a, mode) << 16 |
             isa::convert_float(to, isa::kF32Format, b, mode);
    };
  };
  for (const bool relu : {false, true}) {
    const std::string suffix = relu ? ".relu" : "";
    isa::ConvertMode mode;
    mode.relu = relu;
    compare("cvt.rn" + suffix + ".f16x2.f32 %r0, %f1, %f2;", pair(isa::kF16Format, mode));
    compare("cvt.rn" + suffix + ".bf16x2.f32 %r0, %f1, %f2;", pair(isa::kBf16Format, mode));
    mode.rounding = Rounding::kZero;
    compare("cvt.rz" + suffix + ".f16x2.f32 %r0, %f1, %f2;", pair(isa::kF16Format, mode));
    compare("cvt.rz" + suffix + ".bf16x2.f32 %r0, %f1, %f2;", pair(isa::kBf16Format, mode));
    for (const auto& [name, format] :
         {std::pair("e4m3x2", Narrow::kE4m3), std::pair("e5m2x2", Narrow::kE5m2),
          std::pair("e2m3x2", Narrow::kE2m3), std::pair("e3m2x2", Narrow::kE3m2),
          std::pair("e2m1x2", Narrow::kE2m1)}) {
      const bool nibbles = format == Narrow::kE2m1;
      const std::string type = name, code = nibbles ? "%c0" : "%h0";
      const std::string take = nibbles ? "; cvt.u32.u8 %r0, %c0;" : "; cvt.u32.u16 %r0, %h0;";
      compare("cvt.rn.satfinite" + suffix + "." + type + ".f32 " + code + ", %f1, %f2" + take,
              [&, form = format](uint64_t a, uint64_t b, uint64_t) {
                return isa::encode_narrow_pair(form, bits_float(static_cast<uint32_t>(a)),
                                               bits_float(static_cast<uint32_t>(b)), relu);
              });
      const std::string from = nibbles ? "cvt.u8.u32 %c1, %r1; cvt.rn" : "cvt.rn";
      compare(from + suffix + ".f16x2." + type + " %r0, " + (nibbles ? "%c1;" : "%h1;"),
              [&, form = format](uint64_t a, uint64_t, uint64_t) {
                return isa::decode_narrow_pair(form, static_cast<uint16_t>(a), relu);
              });
      if (format != Narrow::kE4m3 && format != Narrow::kE5m2) continue;
      compare("cvt.rn.satfinite" + suffix + "." + type + ".f16x2 %h0, %r1" + take,
              [&, form = format](uint64_t a, uint64_t, uint64_t) {
                return isa::encode_narrow_f16x2(form, static_cast<uint32_t>(a), relu);
              });
    }
  }
}

}  // namespace
}  // namespace flamia::emulator
