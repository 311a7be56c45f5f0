// Fat binaries built by hand: entries, choice of PTX, decompression, damage.
#include "emulator/fatbin/fatbin.h"

#include <gtest/gtest.h>
#include <lz4.h>
#include <zstd.h>

#include <cstring>

namespace flamia::emulator {
namespace {

constexpr uint64_t kChip = 0x100000, kFamily = 0x200000, kLz4 = 0x2000, kZstandard = 0x8000;

template <typename Number>
void put(std::string* bytes, size_t at, Number number) {
  if (bytes->size() < at + sizeof(number)) bytes->resize(at + sizeof(number));
  std::memcpy(bytes->data() + at, &number, sizeof(number));
}

std::string entry(uint16_t kind, uint32_t architecture, uint64_t flags, const std::string& payload,
                  uint64_t text_bytes = 0) {
  std::string bytes(64, '\0');
  const uint64_t padded = (payload.size() + 7) / 8 * 8;
  put<uint16_t>(&bytes, 0, kind);
  put<uint32_t>(&bytes, 4, 64);
  put<uint64_t>(&bytes, 8, padded);
  put<uint32_t>(&bytes, 16, text_bytes != 0 ? static_cast<uint32_t>(payload.size()) : 0);
  put<uint32_t>(&bytes, 28, architecture);
  put<uint64_t>(&bytes, 40, flags);
  put<uint64_t>(&bytes, 56, text_bytes);
  bytes += payload;
  bytes.resize(64 + padded);
  return bytes;
}

std::string container(const std::string& entries) {
  std::string bytes(16, '\0');
  put<uint32_t>(&bytes, 0, 0xba55ed50u);
  put<uint16_t>(&bytes, 4, 1);
  put<uint16_t>(&bytes, 6, 16);
  put<uint64_t>(&bytes, 8, entries.size());
  return bytes + entries;
}

std::span<const uint8_t> view(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

std::string chosen(const std::string& bytes, std::string_view target) {
  std::vector<FatbinEntry> entries;
  EXPECT_TRUE(read_container(view(bytes), &entries).ok());
  const FatbinEntry* entry = nullptr;
  const Status status = select_ptx(entries, target, &entry);
  return status.ok() ? describe(*entry) : status.message();
}

std::string text_of(const std::string& bytes) {
  std::vector<FatbinEntry> entries;
  EXPECT_TRUE(read_container(view(bytes), &entries).ok());
  std::string text;
  const Status status = decompress(entries.at(0), &text);
  return status.ok() ? text : status.message();
}

TEST(Fatbin, ChoosesTheChipThenItsFamilyThenTheNewestOlder) {
  const std::string all =
      container(entry(1, 80, 0, "a") + entry(1, 90, 0, "b") + entry(1, 90, kChip, "c") +
                entry(2, 90, kChip, "d") + entry(1, 100, kFamily, "e") + entry(1, 103, kChip, "f"));
  EXPECT_EQ(chosen(all, "sm_90a"), "ptx compute_90a");
  EXPECT_EQ(chosen(all, "sm_90"), "ptx compute_90");
  EXPECT_EQ(chosen(all, "sm_86"), "ptx compute_80");
  EXPECT_EQ(chosen(all, "sm_100a"), "ptx compute_100f");
  EXPECT_EQ(chosen(all, "sm_103a"), "ptx compute_103a");
  EXPECT_EQ(chosen(all, "sm_120a"), "ptx compute_90");
}

TEST(Fatbin, SaysWhatIsInsideWhenNothingFits) {
  const std::string bytes = container(entry(2, 90, kChip, "d") + entry(1, 103, kChip, "f"));
  EXPECT_EQ(chosen(bytes, "sm_90a"),
            "fatbin: program must contain PTX that sm_90a can run; got elf sm_90a, "
            "ptx compute_103a (build with -gencode=arch=compute_90a,code=compute_90a)");
  EXPECT_EQ(chosen(container(""), "sm_100a"),
            "fatbin: program must contain PTX that sm_100a can run; got nothing "
            "(build with -gencode=arch=compute_100a,code=compute_100a)");
  EXPECT_EQ(chosen(bytes, "h100"), "fatbin: target must be like sm_90a; got h100");
}

TEST(Fatbin, DecompressesWhatNvccWrites) {
  std::string text = ".version 9.0\n";
  for (int i = 0; i < 200; ++i) text += "add.s32 %r1, %r2, " + std::to_string(i) + ";\n";
  EXPECT_EQ(text_of(container(entry(1, 90, kChip, text + '\0'))), text);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  EXPECT_EQ(text_of(container(entry(1, 90, kChip | kZstandard, packed, text.size()))), text);
  EXPECT_EQ(text_of(container(entry(1, 90, kChip | kZstandard, packed, text.size() + 1))),
            "fatbin: ptx compute_90a must decompress to " + std::to_string(text.size() + 1) +
                " bytes; got damaged data");
  packed.resize(static_cast<size_t>(LZ4_compressBound(static_cast<int>(text.size()))));
  packed.resize(static_cast<size_t>(LZ4_compress_default(
      text.data(), packed.data(), static_cast<int>(text.size()), static_cast<int>(packed.size()))));
  EXPECT_EQ(text_of(container(entry(1, 90, kChip | kLz4, packed, text.size()))), text);
}

TEST(Fatbin, RefusesEveryTruncation) {
  const std::string whole = container(entry(1, 90, kChip, "text") + entry(2, 90, 0, "elf"));
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    std::vector<FatbinEntry> entries;
    EXPECT_FALSE(read_container(view(cut), &entries).ok()) << size;
  }
}

TEST(Fatbin, RefusesSizesBeyondItsMemory) {
  std::string bytes = container(entry(1, 90, 0, "text"));
  put<uint64_t>(&bytes, 16 + 8, UINT64_MAX);
  std::vector<FatbinEntry> entries;
  EXPECT_EQ(read_container(view(bytes), &entries).message(),
            "fatbin: entry 0 must lie in its container; got 18446744073709551615 bytes after a "
            "header of 64 in 72");
  EXPECT_EQ(text_of(container(entry(1, 90, kZstandard, "text", uint64_t{1} << 50))),
            "fatbin: ptx compute_90 must have at most 1073741824 bytes, and 4096 per compressed "
            "byte; got 1125899906842624 from 4");
}

TEST(Fatbin, OpensWrappersByTheirMagic) {
  const std::string bytes = container(entry(1, 90, kChip, "text"));
  struct {
    uint32_t magic = 0x466243b1;
    uint32_t version = 1;
    const char* container = nullptr;
    const void* none = nullptr;
  } wrapper;
  wrapper.container = bytes.data();
  std::span<const uint8_t> found;
  ASSERT_TRUE(open_wrapper(&wrapper, &found).ok());
  EXPECT_EQ(found.size(), bytes.size());
  wrapper.magic = 1;
  EXPECT_EQ(open_wrapper(&wrapper, &found).message(),
            "fatbin: magic of the wrapper must be 0x466243b1; got 0x1");
  EXPECT_EQ(open_wrapper(nullptr, &found).message(), "fatbin: wrapper must not be null; got null");
}

}  // namespace
}  // namespace flamia::emulator
