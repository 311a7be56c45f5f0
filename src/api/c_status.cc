// The last error of each thread.
#include "api/c_status.h"

#include <string>

namespace flamia::c_status {
namespace {

thread_local std::string last;

}  // namespace

void set_last_error(const char* text) noexcept {
  try {
    last = text;
  } catch (...) {
    last.clear();  // no memory for the sentence; the code still tells
  }
}

const char* last_error() noexcept { return last.c_str(); }

}  // namespace flamia::c_status
