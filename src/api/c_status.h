// Runs the body of a C call and keeps the sentence of its failure for flamia_last_error().
// Used by: c_api.cc, c_audit.cc.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "flamia/c_api.h"
#include "flamia/status.h"

#pragma GCC visibility push(hidden)  // internal, though this folder exports
namespace flamia::c_status {

/// Of this thread; an empty text after a success.
void set_last_error(const char* text) noexcept;
const char* last_error() noexcept;

/// Runs work, which returns a Status, and leaves its sentence for flamia_last_error().
template <typename Work>
flamia_status run(Work&& work) noexcept {
  try {
    const Status status = std::forward<Work>(work)();
    set_last_error(status.message().c_str());
    return static_cast<flamia_status>(status.code());
  } catch (const std::bad_alloc&) {
    set_last_error("out of memory");
    return FLAMIA_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    set_last_error(error.what());
    return FLAMIA_INTERNAL;
  } catch (...) {
    set_last_error("unknown error");
    return FLAMIA_INTERNAL;
  }
}

}  // namespace flamia::c_status
#pragma GCC visibility pop
