// Kernels of every instruction family of sm_90a, run by the machine under each adversary, against
// what an H200 made of the same PTX.
// Depends on: tests/cuda/silicon/kernel_cases.h, tests/emulator/silicon/kernels_*_h200.bin.zst.
#include <gtest/gtest.h>
#include <zstd.h>

#include <fstream>
#include <iterator>
#include <map>

#include "tests/cuda/silicon/kernel_cases.h"
#include "tests/cuda/silicon/kernel_recording.h"
#include "tests/emulator/execution_harness.h"
#include "tests/emulator/kernel_map.h"

namespace flamia::emulator {
namespace {

using silicon::KernelCase;
using silicon::KernelRecord;

std::map<std::string, KernelRecord> recorded(const std::string& group) {
  std::ifstream file(
      std::string(FLAMIA_SOURCE_DIR) + "/tests/emulator/silicon/kernels_" + group + "_h200.bin.zst",
      std::ios::binary);
  const std::string packed((std::istreambuf_iterator<char>(file)), {});
  const auto size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  std::map<std::string, KernelRecord> records;
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN) return records;
  std::string bytes(size, '\0');
  if (ZSTD_decompress(bytes.data(), bytes.size(), packed.data(), packed.size()) != size) {
    return records;
  }
  for (KernelRecord& record : silicon::parse_records(bytes)) records[record.name] = record;
  return records;
}

/// The output of a case on the virtual GPU; empty if it trapped.
std::vector<uint32_t> run(const KernelCase& c, Adversary adversary) {
  MachineOptions options;
  options.adversary = adversary;
  options.seed = 1;
  Machine machine(options);
  machine.load(c.text);
  const uint64_t in = machine.upload(c.in), out = machine.upload(c.out);
  KernelMap maps[2]{};
  for (size_t i = 0; i < c.maps.size(); ++i) maps[i] = encode(c.maps[i], in, out, false);
  machine.request.cluster = {c.cluster, 1, 1};
  machine.request.dynamic_shared_bytes = c.shared_bytes;
  const Status status =
      machine.launch(c.entry, {c.ctas, 1, 1}, {c.threads, 1, 1}, in, out, maps[0], maps[1]);
  EXPECT_TRUE(status.ok()) << c.name << ": " << status.message();
  if (!status.ok()) return {};
  return machine.download<uint32_t>(out, c.out.size());
}

void compare(const KernelCase& c, const std::vector<uint32_t>& out, const KernelRecord& record) {
  ASSERT_EQ(out.size(), record.words) << c.name;
  const KernelRecord made = silicon::make_record(c.name, out);
  uint32_t wrong = 0;
  std::string where;
  for (size_t i = 0; i < made.verbatim.size(); ++i) {
    if (made.verbatim[i] == record.verbatim[i] || ++wrong > 4) continue;
    char text[64];
    std::snprintf(text, sizeof text, "\n  word %zu: %08x, H200 %08x", i, made.verbatim[i],
                  record.verbatim[i]);
    where += text;
  }
  EXPECT_EQ(wrong, 0u) << c.name << where;
  for (size_t i = 0; i < made.hashes.size(); ++i) {
    ASSERT_EQ(made.hashes[i], record.hashes[i])
        << c.name << ": words from " << silicon::kKernelVerbatim + i * silicon::kKernelBlock;
  }
}

class KernelsSilicon : public testing::TestWithParam<std::tuple<const char*, Adversary>> {};

TEST_P(KernelsSilicon, EveryCaseOfTheGroupHasTheBitsOfAnH200) {
  const auto& [name, adversary] = GetParam();
  const auto records = recorded(name);
  std::vector<KernelCase> cases;
  for (const silicon::KernelGroup& group : silicon::kKernelGroups) {
    if (std::string(group.name) == name) group.add(&cases);
  }
  ASSERT_FALSE(cases.empty());
  EXPECT_EQ(records.size(), cases.size());
  for (const KernelCase& c : cases) {
    const std::vector<uint32_t> out = run(c, adversary);
    if (out.empty()) continue;
    if (!records.contains(c.name)) {
      ADD_FAILURE() << c.name << " must be recorded";
      continue;
    }
    compare(c, out, records.at(c.name));
  }
}

constexpr const char* kNames[] = {"warp", "wgmma", "synchronization", "atomic", "tma", "hopper"};
INSTANTIATE_TEST_SUITE_P(Groups, KernelsSilicon,
                         testing::Combine(testing::ValuesIn(kNames),
                                          testing::Values(Adversary::kLate, Adversary::kEarly,
                                                          Adversary::kRandom)));

}  // namespace
}  // namespace flamia::emulator
