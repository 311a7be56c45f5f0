// Headers, choice and decompression of fat binaries; every size is checked before it is used.
#include "emulator/fatbin/fatbin.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/message.h"

namespace flamia::emulator {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243b1;
constexpr uint32_t kContainerMagic = 0xba55ed50;
constexpr uint64_t kContainerHeader = 16;
constexpr uint64_t kEntryHeader = 64;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of one decompressed entry
constexpr uint64_t kMostGrowth = 4096;              // and per compressed byte

constexpr uint16_t kPtxEntry = 1, kElfEntry = 2;
constexpr uint64_t kLz4Flag = 0x2000, kZstandardFlag = 0x8000;
constexpr uint64_t kChipFlag = 0x100000, kFamilyFlag = 0x200000;

struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const uint8_t* container;
  const void* prelinked;
};

Status refuse(std::string_view argument, std::string_view rule, std::string_view got,
              std::string_view hint = {}) {
  return {StatusCode::kInvalidArgument, "fatbin: " + refusal(argument, rule, got, hint)};
}

template <typename Number>
Number load(std::span<const uint8_t> bytes, uint64_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof(number));
  return number;
}

std::string hexadecimal(uint32_t value) {
  char buffer[16];
  const std::to_chars_result result = std::to_chars(buffer, buffer + sizeof(buffer), value, 16);
  return "0x" + std::string(buffer, result.ptr);
}

FatbinEntry read_entry(std::span<const uint8_t> header, std::span<const uint8_t> payload) {
  FatbinEntry entry;
  const auto kind = load<uint16_t>(header, 0);
  const auto compressed_bytes = load<uint32_t>(header, 16);
  const auto flags = load<uint64_t>(header, 40);
  if (kind == kPtxEntry) entry.kind = FatbinKind::kPtx;
  if (kind == kElfEntry) entry.kind = FatbinKind::kElf;
  entry.architecture = load<uint32_t>(header, 28);
  if ((flags & kChipFlag) != 0) entry.variant = 'a';
  if ((flags & kFamilyFlag) != 0) entry.variant = 'f';
  if ((flags & kLz4Flag) != 0) entry.compression = FatbinCompression::kLz4;
  if ((flags & kZstandardFlag) != 0) entry.compression = FatbinCompression::kZstandard;
  entry.payload = payload;
  entry.text_bytes = payload.size();
  if (entry.compression != FatbinCompression::kNone) {
    entry.text_bytes = load<uint64_t>(header, 56);
    if (compressed_bytes <= payload.size()) entry.payload = payload.first(compressed_bytes);
  }
  return entry;
}

struct Target {
  uint32_t architecture = 0;
  char variant = '\0';
};

bool parse_target(std::string_view text, Target* target) {
  constexpr std::string_view kPrefix = "sm_";
  if (!text.starts_with(kPrefix)) return false;
  const char* const last = text.data() + text.size();
  const auto [end, error] =
      std::from_chars(text.data() + kPrefix.size(), last, target->architecture);
  if (error != std::errc()) return false;
  if (end != last) target->variant = *end;
  return end == last || (end + 1 == last && (*end == 'a' || *end == 'f'));
}

/// How well an entry suits the target; 0 not at all, more is better.
uint64_t suitability(const FatbinEntry& entry, const Target& target) {
  if (entry.kind != FatbinKind::kPtx || entry.architecture > target.architecture) return 0;
  constexpr uint64_t kClass = uint64_t{1} << 32;
  switch (entry.variant) {
    case 'a':
      return target.variant == 'a' && entry.architecture == target.architecture ? 3 * kClass : 0;
    case 'f':
      return target.variant != '\0' && entry.architecture / 10 == target.architecture / 10
                 ? 2 * kClass + entry.architecture
                 : 0;
    default:
      return kClass + entry.architecture;
  }
}

}  // namespace

std::string describe(const FatbinEntry& entry) {
  const std::string_view variant(&entry.variant, entry.variant == '\0' ? 0 : 1);
  switch (entry.kind) {
    case FatbinKind::kPtx:
      return concat("ptx compute_", entry.architecture, variant);
    case FatbinKind::kElf:
      return concat("elf sm_", entry.architecture, variant);
    case FatbinKind::kOther:
      break;
  }
  return concat("unknown kind for ", entry.architecture, variant);
}

Status open_wrapper(const void* wrapper, std::span<const uint8_t>* container) {
  if (wrapper == nullptr) return refuse("wrapper", "not be null", "null");
  Wrapper fields;
  std::memcpy(&fields, wrapper, sizeof(fields));
  if (fields.magic != kWrapperMagic) {
    return refuse("magic of the wrapper", "be 0x466243b1", hexadecimal(fields.magic));
  }
  if (fields.container == nullptr) return refuse("container", "not be null", "null");
  const std::span<const uint8_t> header(fields.container, kContainerHeader);
  const auto magic = load<uint32_t>(header, 0);
  if (magic != kContainerMagic) {
    return refuse("magic of the container", "be 0xba55ed50", hexadecimal(magic));
  }
  const uint64_t bytes = load<uint64_t>(header, 8) + load<uint16_t>(header, 6);
  *container = {fields.container, bytes};
  return {};
}

Status read_container(std::span<const uint8_t> container, std::vector<FatbinEntry>* entries) {
  entries->clear();
  if (container.size() < kContainerHeader) {
    return refuse("container", "have a 16-byte header", concat(container.size(), " bytes"));
  }
  const auto magic = load<uint32_t>(container, 0);
  if (magic != kContainerMagic) {
    return refuse("magic of the container", "be 0xba55ed50", hexadecimal(magic));
  }
  const auto header_bytes = load<uint16_t>(container, 6);
  const auto body_bytes = load<uint64_t>(container, 8);
  if (header_bytes < kContainerHeader || header_bytes > container.size() ||
      body_bytes > container.size() - header_bytes) {
    return refuse(
        "container", "hold what its header states",
        concat(body_bytes, " bytes after a header of ", header_bytes, " in ", container.size()));
  }
  std::span<const uint8_t> rest = container.subspan(header_bytes, body_bytes);
  while (!rest.empty()) {
    const size_t number = entries->size();
    if (rest.size() < kEntryHeader) {
      return refuse(concat("entry ", number), "have a 64-byte header",
                    concat(rest.size(), " bytes"));
    }
    const auto entry_header_bytes = load<uint32_t>(rest, 4);
    const auto payload_bytes = load<uint64_t>(rest, 8);
    if (entry_header_bytes < kEntryHeader || entry_header_bytes > rest.size() ||
        payload_bytes > rest.size() - entry_header_bytes) {
      return refuse(concat("entry ", number), "lie in its container",
                    concat(payload_bytes, " bytes after a header of ", entry_header_bytes, " in ",
                           rest.size()));
    }
    entries->push_back(
        read_entry(rest.first(kEntryHeader), rest.subspan(entry_header_bytes, payload_bytes)));
    rest = rest.subspan(entry_header_bytes + payload_bytes);
  }
  return {};
}

Status select_ptx(std::span<const FatbinEntry> entries, std::string_view target,
                  const FatbinEntry** entry) {
  *entry = nullptr;
  Target wanted;
  if (!parse_target(target, &wanted)) return refuse("target", "be like sm_90a", target);
  uint64_t best = 0;
  for (const FatbinEntry& candidate : entries) {
    const uint64_t score = suitability(candidate, wanted);
    if (score <= best) continue;
    best = score;
    *entry = &candidate;
  }
  if (*entry != nullptr) return {};
  constexpr size_t kMostNamed = 16;
  std::string inside;
  for (const FatbinEntry& candidate : entries.first(std::min(entries.size(), kMostNamed))) {
    inside += concat(inside.empty() ? "" : ", ", describe(candidate));
  }
  if (entries.size() > kMostNamed) inside += ", ...";
  const std::string number(target.substr(3));
  return refuse("program", concat("contain PTX that ", target, " can run"),
                inside.empty() ? "nothing" : inside,
                concat("build with -gencode=arch=compute_", number, ",code=compute_", number));
}

Status decompress(const FatbinEntry& entry, std::string* text) {
  text->clear();
  const std::span<const uint8_t> payload = entry.payload;
  if (payload.size() > kMostBytes || entry.text_bytes > kMostBytes ||
      entry.text_bytes / kMostGrowth > payload.size()) {
    return refuse(
        describe(entry),
        concat("have at most ", kMostBytes, " bytes, and ", kMostGrowth, " per compressed byte"),
        concat(entry.text_bytes, " from ", payload.size()));
  }
  if (entry.compression == FatbinCompression::kNone) {
    text->assign(payload.begin(), payload.end());
  } else {
    text->resize(entry.text_bytes);
    bool right = false;
    if (entry.compression == FatbinCompression::kLz4) {
      const int bytes =
          LZ4_decompress_safe(reinterpret_cast<const char*>(payload.data()), text->data(),
                              static_cast<int>(payload.size()), static_cast<int>(text->size()));
      right = bytes >= 0 && static_cast<uint64_t>(bytes) == entry.text_bytes;
    } else {
      const size_t bytes =
          ZSTD_decompress(text->data(), text->size(), payload.data(), payload.size());
      right = ZSTD_isError(bytes) == 0 && bytes == entry.text_bytes;
    }
    if (!right) {
      text->clear();
      return refuse(describe(entry), concat("decompress to ", entry.text_bytes, " bytes"),
                    "damaged data");
    }
  }
  if (entry.kind == FatbinKind::kPtx) {
    while (!text->empty() && text->back() == '\0') text->pop_back();
  }
  return {};
}

}  // namespace flamia::emulator
