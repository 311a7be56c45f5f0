// A file that appears complete or not at all: written beside its target, synced, then renamed.

#include "tools/atomic_file.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "tools/errors.h"

namespace flamia::tools {

namespace {

// The temporary file of the write in progress, for the signal handler. One at a time.
char pending_temporary[PATH_MAX];
volatile sig_atomic_t has_pending_temporary = 0;

void set_pending(const std::string& path) {
  if (path.size() >= sizeof(pending_temporary)) return;
  memcpy(pending_temporary, path.c_str(), path.size() + 1);
  has_pending_temporary = 1;
}

void clear_pending() { has_pending_temporary = 0; }

void remove_pending_and_die(int signal_number) {
  if (has_pending_temporary != 0) unlink(pending_temporary);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

struct PathParts {
  std::string folder;  // with the final slash, or empty
  std::string name;
};

PathParts split_path(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash + 1), path.substr(slash + 1)};
}

// Follows links of an existing file, so that the link stays and its target is replaced.
std::string resolved(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), free);
  return real ? std::string(real.get()) : path;
}

// A folder entry is durable once the folder is synced. File systems that cannot sync a folder are
// not a reason to fail: the file itself is complete.
void sync_folder(const std::string& folder) {
  const int descriptor =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)fsync(descriptor);
  (void)close(descriptor);
}

}  // namespace

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() {
  if (descriptor_ >= 0) (void)close(descriptor_);
  descriptor_ = -1;
  if (!temporary_.empty()) (void)unlink(temporary_.c_str());
  temporary_.clear();
  clear_pending();
}

Status AtomicFile::failed(const char* action, int error) const {
  return failure("{}: {} failed: {}", printable(path_), action, errno_text(error));
}

Status AtomicFile::open(const std::string& path) {
  path_ = path;
  struct stat old = {};
  const bool exists = stat(path.c_str(), &old) == 0;
  if (exists && S_ISDIR(old.st_mode)) return failed("opening for writing", EISDIR);
  if (exists && !S_ISREG(old.st_mode)) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    return descriptor_ < 0 ? failed("opening for writing", errno) : Status();
  }
  target_ = exists ? resolved(path) : path;
  const PathParts parts = split_path(target_);
  constexpr size_t kLongestName = 200;  // leaves room below NAME_MAX for what is added
  const std::string stem =
      parts.folder + "." + parts.name.substr(0, kLongestName) + ".tmp." + std::to_string(getpid());
  constexpr int kAttempts = 100;  // leftovers of a killed run with the same process number
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::string name = attempt == 0 ? stem : stem + "." + std::to_string(attempt);
    set_pending(name);
    descriptor_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) {
      temporary_ = name;
      if (exists) (void)fchmod(descriptor_, old.st_mode & 0777);
      return Status();
    }
    clear_pending();
    if (errno != EEXIST) break;
  }
  return failed("creating a temporary file beside it", errno);
}

Status AtomicFile::write(const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  constexpr size_t kChunk = size_t{1} << 30;  // below the kernel's limit for one write
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, std::min(bytes, kChunk));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failed("writing", written < 0 ? errno : ENOSPC);
    next += written;
    bytes -= static_cast<size_t>(written);
  }
  return Status();
}

Status AtomicFile::commit() {
  const bool in_place = temporary_.empty();
  if (!in_place && fsync(descriptor_) != 0) return failed("syncing", errno);
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (close(descriptor) != 0) return failed("closing", errno);
  if (in_place) return Status();
  if (rename(temporary_.c_str(), target_.c_str()) != 0) return failed("renaming", errno);
  temporary_.clear();
  clear_pending();
  sync_folder(split_path(target_).folder);
  return Status();
}

Status write_file(const std::string& path, std::string_view content) {
  AtomicFile file;
  if (Status status = file.open(path); !status.ok()) return status;
  if (Status status = file.write(content.data(), content.size()); !status.ok()) return status;
  return file.commit();
}

Status check_output_path(std::string_view option, const std::string& path) {
  const std::string shown = printable(path);
  if (split_path(path).name.empty()) {
    return bad_input("{} must name a file; got '{}'", option, shown);
  }
  struct stat existing = {};
  if (stat(path.c_str(), &existing) == 0) {
    if (S_ISDIR(existing.st_mode)) {
      return bad_input("{} must name a file; {} is a folder", option, shown);
    }
    if (!S_ISREG(existing.st_mode)) return Status();
  } else if (lstat(path.c_str(), &existing) == 0) {
    return bad_input("{} must be writable; {} is a link to nothing", option, shown);
  }
  const std::string folder = split_path(resolved(path)).folder;
  const std::string parent = folder.empty() ? "." : folder;
  if (access(parent.c_str(), W_OK | X_OK) != 0) {
    return bad_input("{} must be writable; folder {} of {}: {}", option, printable(parent), shown,
                     errno_text(errno));
  }
  return Status();
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat first = {};
  struct stat second = {};
  if (stat(a.c_str(), &first) != 0 || stat(b.c_str(), &second) != 0) return false;
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

void install_signal_handlers() {
  struct sigaction action = {};
  action.sa_handler = remove_pending_and_die;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction previous = {};
    // A signal that the parent chose to ignore (nohup) stays ignored.
    if (sigaction(number, nullptr, &previous) == 0 && previous.sa_handler == SIG_IGN) continue;
    (void)sigaction(number, &action, nullptr);
  }
  (void)signal(SIGXFSZ, SIG_IGN);
}

}  // namespace flamia::tools
