// The scalar functions against the outputs of an H200: every case of the tables, bit for bit.
// Depends on: tests/cuda/silicon/*.def, tests/emulator/silicon/scalar_h200.bin (README.md beside
// it). No GPU is needed.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

#include "emulator/isa/approx.h"
#include "emulator/isa/scalar_convert.h"
#include "emulator/isa/scalar_float.h"
#include "emulator/isa/scalar_integer.h"
#include "emulator/isa/scalar_narrow.h"
#include "tests/cuda/silicon/case_inputs.h"
#include "tests/cuda/silicon/case_syntax.h"

namespace flamia::emulator::isa {
namespace {

using silicon::Kind;

constexpr Rounding kRn = Rounding::kNearestEven;

// Short forms used by the tables.
constexpr FloatMode e32(Rounding rounding, bool ftz = false, bool sat = false, bool relu = false) {
  return {rounding, ftz, sat, relu};
}
constexpr ConvertMode cv(Rounding rounding, bool ftz = false, bool sat = false, bool relu = false,
                         bool satfinite = false) {
  return {rounding, ftz, sat, relu, satfinite};
}
constexpr uint64_t add32(uint64_t a, uint64_t b, const FloatMode& mode) {
  return float_add(kF32Format, a, b, mode);
}
constexpr uint64_t min_max(const FloatFormat& format, bool maximum, uint64_t a, uint64_t b,
                           bool ftz = false, bool nan = false, bool xorsign = false) {
  return float_min_max(format, maximum, a, b, {ftz, nan, false, xorsign});
}
constexpr uint64_t min_max32(bool maximum, uint64_t a, uint64_t b, bool ftz = false,
                             bool nan = false, bool xorsign = false) {
  return min_max(kF32Format, maximum, a, b, ftz, nan, xorsign);
}
constexpr uint64_t half(uint64_t pair, int index) { return (pair >> (16 * index)) & 0xffffu; }
template <typename Operation>
constexpr uint64_t halves(Operation operation) {
  return packed(16, operation);
}
constexpr uint32_t bits32(uint64_t bits) { return static_cast<uint32_t>(bits); }
constexpr float f32(uint64_t bits) { return bits_float(static_cast<uint32_t>(bits)); }

/// Two words added with a carry between them; the carry out is mixed into the low word.
constexpr uint64_t carry_chain(uint64_t a, uint64_t b) {
  const auto low = add_carry(bits32(a), bits32(b), false);
  const auto high = add_carry(bits32(a >> 32), bits32(b >> 32), low.carry);
  const uint32_t mixed = low.value ^ (high.carry ? 1u : 0u);
  return static_cast<uint64_t>(high.value) << 32 | mixed;
}
constexpr uint64_t borrow_chain(uint64_t a, uint64_t b) {
  const auto low = subtract_borrow(bits32(a), bits32(b), false);
  const auto high = subtract_borrow(bits32(a >> 32), bits32(b >> 32), low.carry);
  const uint32_t mixed = low.value ^ (high.carry ? 0xffffffffu : 0u);
  return static_cast<uint64_t>(high.value) << 32 | mixed;
}

struct Case {
  const char* name;
  uint32_t count;
  uint32_t width_bytes;
  Kind kinds[3];
  uint64_t (*model)(uint64_t a, uint64_t b, uint64_t c);
};

#define FLAMIA_MODEL(expression)                                                              \
  [](uint64_t a [[maybe_unused]], uint64_t b [[maybe_unused]], uint64_t c [[maybe_unused]]) { \
    return static_cast<uint64_t>(expression);                                                 \
  }
#define UNARY(name, count, out, ka, text, expression) \
  {#name, count, sizeof(TYPE_##out), {KIND_##ka, KIND_none, KIND_none}, FLAMIA_MODEL(expression)},
#define BINARY(name, count, out, ka, kb, text, expression) \
  {#name, count, sizeof(TYPE_##out), {KIND_##ka, KIND_##kb, KIND_none}, FLAMIA_MODEL(expression)},
#define TERNARY(name, count, out, ka, kb, kc, text, expression) \
  {#name, count, sizeof(TYPE_##out), {KIND_##ka, KIND_##kb, KIND_##kc}, FLAMIA_MODEL(expression)},
const Case kCases[] = {
#include "tests/cuda/silicon/all_cases.def"
};

/// One record of the file, as silicon_cases.cu writes it.
struct Record {
  std::string name;
  uint8_t width_bytes = 0;
  uint32_t count = 0;
  uint64_t hash = 0;
  std::vector<uint64_t> outputs;
};

std::vector<Record> read_records(const std::string& path) {
  std::vector<Record> records;
  std::ifstream file(path, std::ios::binary);
  for (;;) {
    const int length = file.get();
    if (length < 0) break;
    Record record;
    record.name.resize(static_cast<size_t>(length));
    file.read(record.name.data(), length);
    file.read(reinterpret_cast<char*>(&record.width_bytes), 1);
    file.read(reinterpret_cast<char*>(&record.count), sizeof record.count);
    file.read(reinterpret_cast<char*>(&record.hash), sizeof record.hash);
    record.outputs.resize(silicon::kVerbatim);
    for (uint64_t& value : record.outputs) {
      file.read(reinterpret_cast<char*>(&value), record.width_bytes);
    }
    if (!file) break;
    records.push_back(record);
  }
  return records;
}

/// The operands of one kind and place, made once.
const std::vector<uint64_t>& operands(Kind kind, int place) {
  static std::vector<uint64_t> made[16][3];
  std::vector<uint64_t>& values = made[static_cast<int>(kind)][place];
  if (values.empty()) {
    values.resize(silicon::kFullCount);
    for (uint32_t i = 0; i < silicon::kFullCount; ++i) {
      values[i] = silicon::case_operand(kind, static_cast<uint64_t>(place), i);
    }
  }
  return values;
}

class SiliconScalar : public testing::Test {
 protected:
  /// Differences of one case in words; empty if there are none. `all`: every output, or null.
  static std::string differences(const Case& c, const Record& record,
                                 const std::vector<uint64_t>* all) {
    const uint64_t mask =
        c.width_bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * c.width_bytes)) - 1;
    const auto& as = operands(c.kinds[0], 0);
    const auto& bs = operands(c.kinds[1], 1);
    const auto& cs = operands(c.kinds[2], 2);
    std::ostringstream text;
    uint64_t hash = silicon::kHashStart;
    int shown = 0, wrong = 0;
    const std::vector<uint64_t>& known = all != nullptr ? *all : record.outputs;
    for (uint32_t i = 0; i < c.count; ++i) {
      const uint64_t value = c.model(as[i], bs[i], cs[i]) & mask;
      hash = silicon::hash_step(hash, value);
      if (i >= known.size() || value == known[i]) continue;
      ++wrong;
      if (++shown > 4) continue;
      text << std::hex << "  a=" << as[i] << " b=" << bs[i] << " c=" << cs[i]
           << " silicon=" << known[i] << " model=" << value << std::dec << "\n";
    }
    if (wrong == 0 && hash == record.hash) return "";
    text << "  " << wrong << " of " << known.size() << " known outputs differ; hash "
         << (hash == record.hash ? "equal" : "differs") << "\n";
    return text.str();
  }
};

TEST_F(SiliconScalar, EveryRecordedCaseIsReproduced) {
  const auto records =
      read_records(std::string(FLAMIA_SOURCE_DIR) + "/tests/emulator/silicon/scalar_h200.bin");
  ASSERT_EQ(records.size(), sizeof kCases / sizeof kCases[0]);
  for (size_t i = 0; i < records.size(); ++i) {
    ASSERT_EQ(records[i].name, kCases[i].name);
    ASSERT_EQ(records[i].count, kCases[i].count) << records[i].name;
    ASSERT_EQ(records[i].width_bytes, kCases[i].width_bytes) << records[i].name;
    const std::string found = differences(kCases[i], records[i], nullptr);
    EXPECT_TRUE(found.empty()) << records[i].name << "\n" << found;
  }
}

}  // namespace
}  // namespace flamia::emulator::isa
