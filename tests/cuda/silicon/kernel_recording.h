// The recording of one group of kernel cases: the first words of every output as they are, hashes
// of the blocks behind them.
// Depends on: case_inputs.h (hash). Used by: silicon_kernels.cc, which writes it;
// kernels_silicon_test.cc, which reads it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cuda/silicon/case_inputs.h"

namespace flamia::silicon {

inline constexpr size_t kKernelVerbatim = 1024;  ///< words of each output kept as they are
inline constexpr size_t kKernelBlock = 256;      ///< words under one hash

struct KernelRecord {
  std::string name;
  uint32_t words = 0;
  std::vector<uint32_t> verbatim;
  std::vector<uint64_t> hashes;
};

inline KernelRecord make_record(const std::string& name, const std::vector<uint32_t>& out) {
  KernelRecord record{name, static_cast<uint32_t>(out.size()), {}, {}};
  const size_t kept = std::min(out.size(), kKernelVerbatim);
  record.verbatim.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(kept));
  for (size_t at = kept; at < out.size(); at += kKernelBlock) {
    uint64_t hash = kHashStart;
    for (size_t i = at; i < std::min(out.size(), at + kKernelBlock); ++i) {
      hash = hash_step(hash, out[i]);
    }
    record.hashes.push_back(hash);
  }
  return record;
}

/// u8 length, name, u32 words, the verbatim words, the hashes.
inline void append_record(const KernelRecord& record, std::string* bytes) {
  const auto put = [bytes](const void* data, size_t size) {
    bytes->append(static_cast<const char*>(data), size);
  };
  bytes->push_back(static_cast<char>(record.name.size()));
  put(record.name.data(), record.name.size());
  put(&record.words, sizeof record.words);
  put(record.verbatim.data(), record.verbatim.size() * sizeof(uint32_t));
  put(record.hashes.data(), record.hashes.size() * sizeof(uint64_t));
}

/// All records of a file; empty if it is cut off.
inline std::vector<KernelRecord> parse_records(const std::string& bytes) {
  std::vector<KernelRecord> records;
  size_t at = 0;
  const auto take = [&](void* data, size_t size) {
    if (size > bytes.size() - at) return false;
    std::copy_n(bytes.data() + at, size, static_cast<char*>(data));  // data may be null for none
    at += size;
    return true;
  };
  while (at < bytes.size()) {
    KernelRecord record;
    record.name.resize(static_cast<uint8_t>(bytes[at++]));
    if (!take(record.name.data(), record.name.size())) return {};
    if (!take(&record.words, sizeof record.words)) return {};
    const size_t kept = std::min<size_t>(record.words, kKernelVerbatim);
    record.verbatim.resize(kept);
    if (!take(record.verbatim.data(), kept * sizeof(uint32_t))) return {};
    record.hashes.resize((record.words - kept + kKernelBlock - 1) / kKernelBlock);
    if (!take(record.hashes.data(), record.hashes.size() * sizeof(uint64_t))) return {};
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace flamia::silicon
