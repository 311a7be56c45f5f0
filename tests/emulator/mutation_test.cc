// Deletes single synchronizations from two correct pipelines and asks whether that is noticed.
// The table in docs/virtual-gpu.md is what this prints.
#include "tests/emulator/mutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "emulator/tma/tensor_map.h"
#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

constexpr int kBlocks = 3, kTiles = 3;
constexpr uint32_t kDepth = kBlocks * 64, kColumns = 32;

struct MapBytes {
  alignas(64) uint8_t bytes[kMapBytes];
};

int a_value(uint32_t row, uint32_t k) { return static_cast<int>((row * 7 + k * 3) % 5) - 2; }
int b_value(uint32_t row, uint32_t k) { return static_cast<int>((row * 5 + k * 11) % 7) - 3; }

uint16_t bf16(int value) {
  const float number = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &number, 4);
  return static_cast<uint16_t>(bits >> 16);
}

MapBytes make_map(uint64_t address, uint32_t rows, uint32_t box_rows) {
  constexpr uint32_t kBf16 = 9, kSwizzle128 = 3;
  MapBytes map;
  const uint64_t dims[2] = {kDepth, rows}, strides[1] = {kDepth * 2};
  const uint32_t box[2] = {64, box_rows}, steps[2] = {1, 1};
  EncodeTiledArguments arguments;
  arguments.map = map.bytes;
  arguments.type = kBf16;
  arguments.rank = 2;
  arguments.address = address;
  arguments.dims = dims;
  arguments.strides = strides;
  arguments.box = box;
  arguments.element_strides = steps;
  arguments.swizzle = kSwizzle128;
  const Status status = encode_tiled(arguments, true);
  EXPECT_TRUE(status.ok()) << status.message();
  return map;
}

/// One run: the trap, "wrong result", or nothing.
Trap run_once(const Pipeline& pipeline, const std::string& text, const MachineOptions& options) {
  Machine machine(options);
  machine.load(text);
  const uint32_t rows = kTiles * 128 * pipeline.cluster;
  std::vector<uint16_t> a(size_t{rows} * kDepth), b(size_t{kColumns} * kDepth);
  for (uint32_t i = 0; i < rows; ++i) {
    for (uint32_t k = 0; k < kDepth; ++k) a[i * kDepth + k] = bf16(a_value(i, k));
  }
  for (uint32_t j = 0; j < kColumns; ++j) {
    for (uint32_t k = 0; k < kDepth; ++k) b[j * kDepth + k] = bf16(b_value(j, k));
  }
  const MapBytes a_map = make_map(machine.upload(a), rows, 128);
  const MapBytes b_map = make_map(machine.upload(b), kColumns, pipeline.b_box_rows);
  const uint64_t c = machine.upload(std::vector<float>(size_t{rows} * kColumns, -1.0f));
  machine.request.cluster = {pipeline.cluster, 1, 1};
  machine.request.dynamic_shared_bytes = 60 * 1024;
  const Status status = machine.launch("pipeline", {pipeline.cluster, 1, 1},
                                       {pipeline.threads, 1, 1}, a_map, b_map, c, kBlocks, kTiles);
  if (!machine.report.traps.empty()) return machine.report.traps[0];
  if (!status.ok()) return {"refused", status.message()};
  const auto result = machine.download<float>(c, size_t{rows} * kColumns);
  // Rows of a repeat after 5, rows of b after 7: few different sums.
  int sums[5][7];
  for (uint32_t i = 0; i < 5; ++i) {
    for (uint32_t j = 0; j < 7; ++j) {
      sums[i][j] = 0;
      for (uint32_t k = 0; k < kDepth; ++k) sums[i][j] += a_value(i, k) * b_value(j, k);
    }
  }
  for (uint32_t i = 0; i < rows; ++i) {
    for (uint32_t j = 0; j < kColumns; ++j) {
      if (result[i * kColumns + j] != static_cast<float>(sums[i % 5][j % 7])) {
        return {"wrong result", "row " + std::to_string(i) + " column " + std::to_string(j)};
      }
    }
  }
  return {};
}

struct Rule {
  const char* part;         ///< of the line
  const char* change;       ///< what the mutant does
  const char* replacement;  ///< for the whole line, or for the part if `keeps`
  bool keeps = false;
  bool shortens = false;  ///< the last operand goes
};

// The first rules that fit a line make its mutants; `$` in a replacement is the first operand.
constexpr Rule kRules[] = {
    {"mbarrier.try_wait", "without the wait", "setp.eq.u32 $, 0, 0;"},
    {"mbarrier.arrive.expect_tx", "without arrive.expect_tx", ""},
    {"mbarrier.arrive.expect_tx.shared::cta.b64 _,", "without its arrive",
     "mbarrier.expect_tx.relaxed.cta.shared::cta.b64", true},
    {"mbarrier.arrive.expect_tx.shared::cta.b64", "without its expect_tx",
     "mbarrier.arrive.shared::cta.b64", true, true},
    {"mbarrier.arrive.release", "without the remote arrive", ""},
    {"mbarrier.arrive.shared", "without the arrive", ""},
    {"fence.mbarrier_init", "without fence.mbarrier_init", ""},
    {"fence.proxy.async", "without fence.proxy.async", ""},
    {"wgmma.fence", "without wgmma.fence", ""},
    {"wgmma.commit_group", "without wgmma.commit_group", ""},
    {"wgmma.wait_group.sync.aligned 0", "without wgmma.wait_group 0", ""},
    {"wgmma.wait_group.sync.aligned 0", "wait_group 1 for 0", "wgmma.wait_group.sync.aligned 1",
     true},
    {"wgmma.wait_group.sync.aligned 1", "without wgmma.wait_group 1", ""},
    {"wgmma.wait_group.sync.aligned 1", "wait_group 2 for 1", "wgmma.wait_group.sync.aligned 2",
     true},
    {"cp.async.bulk.commit_group", "without bulk commit_group", ""},
    {"cp.async.bulk.wait_group.read", "without bulk wait_group.read", ""},
    {"cp.async.bulk.wait_group.read 0", "wait_group.read 1 for 0",
     "cp.async.bulk.wait_group.read 1", true},
    {"cp.async.bulk.wait_group 0", "without bulk wait_group", ""},
    {"bar.sync", "without bar.sync", ""},
    {"barrier.cluster.arrive", "without the cluster arrive", ""},
    {"barrier.cluster.wait", "without the cluster wait", ""},
    {"tcgen05.fence::before", "without fence::before_thread_sync", ""},
    {"tcgen05.fence::after", "without fence::after_thread_sync", ""},
    {"tcgen05.wait::ld", "without wait::ld", ""},
    {"tcgen05.commit", "without the commit", ""},
    {"tcgen05.dealloc", "without dealloc", ""},
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string first_operand(const std::string& line) {
  const size_t space = line.find(' ', line.find_first_not_of(" \t"));
  const size_t comma = line.find(',', space);
  return line.substr(space + 1, comma - space - 1);
}

std::string changed(const std::string& line, const Rule& rule) {
  std::string out = rule.replacement;
  if (rule.keeps) {
    out = line;
    if (rule.shortens) out = out.substr(0, out.rfind(',')) + ";";
    return out.replace(out.find(rule.part), std::strlen(rule.part), rule.replacement);
  }
  const size_t place = out.find('$');
  if (place != std::string::npos) out.replace(place, 1, first_operand(line));
  return out;
}

}  // namespace

std::string read_pipeline(const Pipeline& pipeline) {
  std::ifstream file(std::string(FLAMIA_SOURCE_DIR) + "/tests/emulator/data/" + pipeline.file);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<Mutant> mutants_of(const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  std::vector<Mutant> mutants;
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const Rule& rule : kRules) {
      if (lines[i].find(rule.part) == std::string::npos) continue;
      std::vector<std::string> other = lines;
      other[i] = changed(lines[i], rule);
      mutants.push_back({static_cast<uint32_t>(i + 1), rule.change, joined(other)});
    }
  }
  return mutants;
}

Verdict judge_mutant(const Pipeline& pipeline, const std::string& text, uint32_t seeds,
                     bool strict) {
  Verdict verdict;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    for (const Adversary adversary : {Adversary::kLate, Adversary::kEarly, Adversary::kRandom}) {
      MachineOptions options;
      options.chip = pipeline.chip;
      options.adversary = adversary;
      options.seed = seed;
      if (strict) options.rules = Rules::kStrict;
      options.watchdog_steps = 2'000'000;
      const Trap trap = run_once(pipeline, text, options);
      ++verdict.runs;
      if (trap.kind.empty()) continue;
      verdict.by = trap.kind;
      verdict.text = trap.text;
      return verdict;
    }
  }
  return verdict;
}

namespace {

struct Count {
  uint32_t caught = 0;
  uint32_t all = 0;
  std::vector<std::string> escaped;
};

/// Judges every mutant and prints one line for each.
Count judge_all(const Pipeline& pipeline, bool strict) {
  Count count;
  const std::vector<Mutant> mutants = mutants_of(read_pipeline(pipeline));
  for (size_t i = 0; i < mutants.size(); ++i) {
    const Verdict verdict = judge_mutant(pipeline, mutants[i].text, 10, strict);
    ++count.all;
    if (verdict.by.empty()) {
      count.escaped.push_back(mutants[i].change);
    } else {
      ++count.caught;
    }
    std::cout << "| " << mutants[i].line << " | " << mutants[i].change << " | "
              << (verdict.by.empty() ? "escapes" : verdict.by) << " | " << verdict.runs << " |\n";
  }
  std::cout << pipeline.file << (strict ? ", strict" : "") << ": " << count.caught << " of "
            << count.all << "\n";
  return count;
}

TEST(Mutation, TheCorrectPipelinesRunUnderEveryAdversary) {
  for (const Pipeline& pipeline : {kHopperPipeline, kBlackwellPipeline}) {
    for (const bool strict : {false, true}) {
      const Verdict verdict = judge_mutant(pipeline, read_pipeline(pipeline), 10, strict);
      EXPECT_EQ(verdict.by, "") << pipeline.file << ": " << verdict.text;
      EXPECT_EQ(verdict.runs, 30u);
    }
  }
}

TEST(Mutation, NinetyPercentAreCaughtWithinTenSeedsByStrictRules) {
  for (const Pipeline& pipeline : {kHopperPipeline, kBlackwellPipeline}) {
    const Count count = judge_all(pipeline, true);
    EXPECT_GE(count.all, 20u);
    EXPECT_GE(10 * count.caught, 9 * count.all) << pipeline.file;
  }
}

// What public kernels do without is not a crime then, and nothing else escapes.
TEST(Mutation, TheRulesOfPublicKernelsLetOnlyTheirOwnHabitsPass) {
  static const std::vector<std::string> habits = {
      "without fence.mbarrier_init", "without fence::before_thread_sync",
      "without fence::after_thread_sync", "without bulk wait_group"};
  for (const Pipeline& pipeline : {kHopperPipeline, kBlackwellPipeline}) {
    for (const std::string& change : judge_all(pipeline, false).escaped) {
      EXPECT_NE(std::find(habits.begin(), habits.end(), change), habits.end())
          << pipeline.file << ": " << change;
    }
  }
}

}  // namespace
}  // namespace flamia::emulator
