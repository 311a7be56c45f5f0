// Carves the caller's workspace into aligned arrays; the same code measures it with no memory.
// Used by: the buffer lists of the CPU backend, so that size and use cannot disagree.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flamia::cpu {

class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<unsigned char*>(base)) {}

  /// count elements aligned to 64 bytes; null while measuring.
  template <typename T>
  T* take(int64_t count) {
    const size_t at = used_;
    used_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  size_t used() const { return used_; }

 private:
  unsigned char* base_;
  size_t used_ = 0;
};

}  // namespace flamia::cpu
