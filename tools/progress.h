// Tells a waiting person what the program is doing.
// Used by: attend, bench. Silent for the first two seconds, and silent when standard error is not a
// terminal unless asked for. Never writes to standard output.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace flamia::tools {

enum class ProgressMode : unsigned char { kIfTerminal, kAlways, kNever };

class Progress {
 public:
  Progress(std::string command, ProgressMode mode);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Removes the line from the terminal.
  ~Progress();

  /// Names what happens from now on, e.g. "oracle check".
  void phase(std::string name);
  /// Stops and removes the line; nothing more is shown.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  void show(double seconds);

  std::string command_;
  bool enabled_ = false;
  bool terminal_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  bool line_shown_ = false;
  std::string phase_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point phase_begin_ = Clock::now();
  Clock::time_point last_line_ = Clock::now();
  std::thread thread_;
};

}  // namespace flamia::tools
