// The fat binaries that nvcc embeds in programs: what is inside, and the PTX for one target.
// Depends on: LZ4 and Zstandard. Used by: module registration of the runtime half.
// Layout, little endian: 16-byte container header (magic, version, header size, bytes that follow),
// then entries of a 64-byte (or longer) header and a payload each. With nvcc 13.0 --compress-mode
// default, size and balance are Zstandard, speed is an LZ4 block, none is raw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flamia/status.h"

namespace flamia::emulator {

enum class FatbinKind : uint8_t { kPtx, kElf, kOther };
enum class FatbinCompression : uint8_t { kNone, kLz4, kZstandard };

struct FatbinEntry {
  FatbinKind kind = FatbinKind::kOther;
  FatbinCompression compression = FatbinCompression::kNone;
  uint32_t architecture = 0;         // 90, 100, 103
  char variant = '\0';               // 'a' this chip only, 'f' its family, '\0' plain
  uint64_t text_bytes = 0;           // of the payload once it is decompressed
  std::span<const uint8_t> payload;  // a view of the container
};

/// "ptx compute_90a", "elf sm_90a".
std::string describe(const FatbinEntry& entry);

/// The container behind a wrapper (magic 0x466243b1) of this process, as __cudaRegisterFatBinary
/// gets it. The memory behind its pointer is taken as valid for the size the container states.
Status open_wrapper(const void* wrapper, std::span<const uint8_t>* container);

/// The entries of a container (magic 0xba55ed50), in order; views of `container`.
Status read_container(std::span<const uint8_t> container, std::vector<FatbinEntry>* entries);

/// The entry whose PTX `target` ("sm_90a") runs: that of exactly this chip, otherwise the newest of
/// its family, otherwise the newest plain one that is not newer than the target.
Status select_ptx(std::span<const FatbinEntry> entries, std::string_view target,
                  const FatbinEntry** entry);

/// The payload without its compression and, if it is PTX, without zero bytes at its end.
Status decompress(const FatbinEntry& entry, std::string* text);

}  // namespace flamia::emulator
