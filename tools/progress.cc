// Tells a waiting person what the program is doing.

#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace flamia::tools {

namespace {

constexpr std::chrono::seconds kSilence{2};
constexpr std::chrono::seconds kTick{1};
constexpr std::chrono::seconds kLogInterval{10};  // between lines when it is not a terminal

}  // namespace

Progress::Progress(std::string command, ProgressMode mode) : command_(std::move(command)) {
  terminal_ = isatty(STDERR_FILENO) != 0;
  enabled_ = mode == ProgressMode::kAlways || (mode == ProgressMode::kIfTerminal && terminal_);
  if (enabled_) thread_ = std::thread([this] { run(); });
}

Progress::~Progress() { finish(); }

void Progress::phase(std::string name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  phase_ = std::move(name);
  phase_begin_ = Clock::now();
  last_line_ = Clock::time_point();
}

void Progress::finish() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (line_shown_) fmt::print(stderr, "\r\x1b[K");
  line_shown_ = false;
}

void Progress::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!wake_.wait_for(lock, kTick, [this] { return done_; })) {
    const Clock::time_point now = Clock::now();
    if (phase_.empty() || now - begin_ < kSilence) continue;
    show(std::chrono::duration<double>(now - phase_begin_).count());
  }
}

void Progress::show(double seconds) {
  if (terminal_) {
    fmt::print(stderr, "\r\x1b[Kflamia {}: {}, {:.0f} s", command_, phase_, seconds);
    line_shown_ = true;
  } else if (Clock::now() - last_line_ >= kLogInterval) {
    fmt::print(stderr, "flamia {}: {}, {:.0f} s\n", command_, phase_, seconds);
    last_line_ = Clock::now();
  }
  (void)std::fflush(stderr);
}

}  // namespace flamia::tools
