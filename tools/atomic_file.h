// A file that appears complete or not at all: written beside its target, synced, then renamed.
// Used by: tensor files, reports. Devices and pipes (/dev/stdout) are written in place.
// A file that another run is reading keeps its old content until the rename.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "flamia/status.h"

namespace flamia::tools {

class AtomicFile {
 public:
  AtomicFile() = default;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  /// Removes the temporary file if commit() was not reached.
  ~AtomicFile();

  /// Creates .NAME.tmp.PID in the folder of path (of its target, if path is a link).
  Status open(const std::string& path);
  /// Appends; every short or failed write is an error that names the file and the reason.
  Status write(const void* data, size_t bytes);
  /// Syncs and renames. Nothing may be written after it.
  Status commit();

 private:
  Status failed(const char* action, int error) const;
  void discard();

  std::string path_;       ///< as the user named it, for messages
  std::string target_;     ///< what is replaced
  std::string temporary_;  ///< empty for devices and pipes
  int descriptor_ = -1;
};

/// Whole content at once.
Status write_file(const std::string& path, std::string_view content);

/// Refuses, before any work, an output path that could not be written: a folder, a missing or
/// read-only parent, a link to nothing. A later failure is still possible.
Status check_output_path(std::string_view option, const std::string& path);

/// Whether both paths name one existing file (through links, too).
bool same_file(const std::string& a, const std::string& b);

/// Makes SIGINT, SIGTERM and SIGHUP remove the temporary file of the write that they interrupt,
/// and turns the signal of an exceeded file size limit into a write error.
void install_signal_handlers();

}  // namespace flamia::tools
