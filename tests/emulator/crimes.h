// Crimes and their correct twins as one text: kernels of PTX in which {{right||wrong}} stands for
// either, and the trap that the wrong one must cause.
// Depends on: execution_harness.h. Used by: crimes_*_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "tests/emulator/execution_harness.h"

/// Shared memory full of zeros that the async proxy may read; %p7 true.
#define FLAMIA_ZEROS                                       \
  "  shl.b32 %r20, %r1, 6;\n"                              \
  "  add.u32 %r21, %r10, %r20;\n"                          \
  "  mov.u32 %r22, 0;\n"                                   \
  "  st.shared.v4.u32 [%r21], {%r22,%r22,%r22,%r22};\n"    \
  "  st.shared.v4.u32 [%r21+16], {%r22,%r22,%r22,%r22};\n" \
  "  st.shared.v4.u32 [%r21+32], {%r22,%r22,%r22,%r22};\n" \
  "  st.shared.v4.u32 [%r21+48], {%r22,%r22,%r22,%r22};\n" \
  "  setp.eq.u32 %p7, %r22, 0;\n"

namespace flamia::emulator {

struct Crime {
  const char* name;
  /// Kinds of trap, separated by `|`: the schedule may decide which of two comes first.
  const char* kind;
  /// Parts of the message; instructions of both parties where there are two.
  std::vector<const char*> says;
  const char* body;
  uint32_t threads = 64;
  uint32_t ctas = 1;
  uint32_t cluster = 1;
  Rules rules = Rules::kPublic;
  uint64_t watchdog = 0;
  bool always = true;  ///< false: early completion may hide it
};

namespace crimes {

inline constexpr char kHead[] = R"(
.shared .align 1024 .b8 data[8192];
.shared .align 8 .b64 bars[8];
.shared .align 16 .b32 cell[64];
.visible .entry crime(.param .u64 in, .param .u64 out)
{
  .reg .pred %p<16>; .reg .b16 %h<8>; .reg .b32 %r<64>; .reg .f32 %f<32>; .reg .b64 %d<32>;
  .reg .b128 %q<4>;
  ld.param.u64 %d1, [in];
  ld.param.u64 %d2, [out];
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 5;
  mov.u32 %r3, %cluster_ctarank;
  setp.eq.u32 %p1, %r1, 0;
  setp.lt.u32 %p2, %r1, 32;
  setp.eq.u32 %p3, %r3, 0;
  mov.u32 %r10, data;
  mov.u32 %r11, bars;
  cvt.u64.u32 %d5, %r10;
  shr.u64 %d5, %d5, 4;
  or.b64 %d5, %d5, 0x1000080000;
  add.u64 %d7, %d5, 256;
)";

/// Code that waits for phase 0 of bars[index]; `@@` becomes a label of its own.
inline std::string wait_for(uint32_t index) {
  return "@@:\n  mbarrier.try_wait.parity.shared::cta.b64 %p15, [%r11+" +
         std::to_string(8 * index) + "], 0;\n  @!%p15 bra @@;\n";
}

/// The text with the first or the second of every {{right||wrong}}.
inline std::string choose(std::string text, bool wrong) {
  for (size_t from = text.find("{{"); from != std::string::npos; from = text.find("{{", from)) {
    const size_t middle = text.find("||", from), end = text.find("}}", from);
    const std::string taken = wrong ? text.substr(middle + 2, end - middle - 2)
                                    : text.substr(from + 2, middle - from - 2);
    text.replace(from, end + 2 - from, taken);
  }
  return text;
}

inline std::string frame(const Crime& crime, bool wrong) {
  std::string body = crime.body;
  for (size_t at = body.find("WAIT"); at != std::string::npos; at = body.find("WAIT")) {
    body.replace(at, 5, wait_for(static_cast<uint32_t>(body[at + 4] - '0')));
  }
  // Labels of waits are told apart by their place.
  std::string text = kHead + choose(body, wrong) + "  ret;\n}\n";
  uint32_t number = 0;
  for (size_t at = text.find("@@"); at != std::string::npos; at = text.find("@@")) {
    const std::string label = "again" + std::to_string(number++ / 2);
    text.replace(at, 2, label);
  }
  return text;
}

inline Trap run(const Crime& crime, bool wrong, const MachineOptions& options, const char* target) {
  Machine machine(options);
  machine.load(frame(crime, wrong), target);
  std::vector<uint32_t> numbers(64);
  for (uint32_t i = 0; i < 64; ++i) numbers[i] = 100 + i;
  const uint64_t in = machine.upload(numbers);
  // One page of the access history of global memory.
  const uint64_t out = (machine.upload(std::vector<uint32_t>(3 * 1024, 0)) + 4095) / 4096 * 4096;
  machine.request.cluster = {crime.cluster, 1, 1};
  const Status status = machine.launch("crime", {crime.ctas, 1, 1}, {crime.threads, 1, 1}, in, out);
  if (!status.ok() && machine.report.traps.empty()) return {"refused", status.message()};
  return machine.report.traps.empty() ? Trap{} : machine.report.traps[0];
}

inline bool is_kind(const Crime& crime, const std::string& kind) {
  const std::string kinds = std::string("|") + crime.kind + "|";
  return kinds.find("|" + kind + "|") != std::string::npos;
}

inline void expect_message(const Crime& crime, const Trap& trap) {
  EXPECT_TRUE(is_kind(crime, trap.kind)) << trap.kind << ": " << trap.text;
  EXPECT_EQ(trap.text.find("kernel crime"), 0u) << trap.text;
  for (const char* const word : crime.says) {
    EXPECT_NE(trap.text.find(word), std::string::npos) << "no \"" << word << "\" in: " << trap.text;
  }
  if (trap.kind == "watchdog" || trap.kind == "deadlock") return;  // says where every warp is
  EXPECT_TRUE(std::regex_search(
      trap.text, std::regex("^kernel crime, CTA \\(\\d+,0,0\\), warp \\d+.*line \\d+: ")))
      << trap.text;
  if (trap.kind != "hazard") return;
  static const std::regex party(
      "(CTA \\(\\d+,\\d+,\\d+\\) warp \\d+ \\(line \\d+: )|(there was none)");
  const auto parties =
      std::distance(std::sregex_iterator(trap.text.begin(), trap.text.end(), party), {});
  EXPECT_GE(parties, 1) << trap.text;
}

}  // namespace crimes

/// Every case under the three adversaries and three seeds each: the wrong kernel is stopped by the
/// kind and the words given, with kernel, CTA, warp and line; the right one ends.
///
/// The body finds: %d1 `in`, 64 numbers; %d2 `out`, 4 KiB of zeros; %r1 thread, %r2 warp, %r3 rank
/// in the cluster; %p1 thread 0, %p2 warp 0, %p3 rank 0; %r10 `data`, 8 KiB of shared memory;
/// %r11 `bars`, eight mbarriers, `cell`, 64 words; %d5 and %d7 descriptors of A at `data` and of B
/// 4 KiB behind it, unswizzled rows of 32 bytes.
inline void judge(const std::vector<Crime>& cases, Chip chip, const char* target) {
  for (const Crime& crime : cases) {
    for (const Adversary adversary : {Adversary::kLate, Adversary::kEarly, Adversary::kRandom}) {
      for (uint64_t seed = 0; seed < 3; ++seed) {
        SCOPED_TRACE(std::string(crime.name) + " adversary " +
                     std::to_string(static_cast<int>(adversary)) + " seed " + std::to_string(seed));
        MachineOptions options;
        options.chip = chip;
        options.adversary = adversary;
        options.seed = seed;
        options.rules = crime.rules;
        options.watchdog_steps = crime.watchdog;
        const Trap right = crimes::run(crime, false, options, target);
        EXPECT_EQ(right.kind, "") << right.text;
        const Trap wrong = crimes::run(crime, true, options, target);
        if (!crime.always && adversary != Adversary::kLate && wrong.kind.empty()) continue;
        crimes::expect_message(crime, wrong);
      }
    }
  }
}

}  // namespace flamia::emulator
