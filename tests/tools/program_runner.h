// Runs the built program as a user does: arguments in, exit code, both streams out.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/tools/temporary_folder.h"

#if !defined(FLAMIA_PROGRAM) && defined(FLAMIA_BINARY_DIR)
#define FLAMIA_PROGRAM FLAMIA_BINARY_DIR "/flamia"
#endif

namespace flamia::tools {

struct ProgramResult {
  int exit_code = -1;  ///< 128 + signal if it was killed
  std::string out;
  std::string err;
};

struct ProgramLimits {
  std::string output_file;  ///< standard output goes here; empty: captured
  rlim_t file_bytes = 0;    ///< largest file, 0: no limit
};

inline std::string program_path() {
#if defined(FLAMIA_PROGRAM)
  return FLAMIA_PROGRAM;
#else
  return "";
#endif
}

inline bool program_is_built() {
  return !program_path().empty() && access(program_path().c_str(), X_OK) == 0;
}

[[noreturn]] inline void become_program(const std::vector<std::string>& arguments,
                                        const std::string& out, const std::string& err,
                                        const ProgramLimits& limits) {
  const int out_file = open(out.c_str(), O_WRONLY | O_CREAT, 0600);
  const int err_file = open(err.c_str(), O_WRONLY | O_CREAT, 0600);
  if (out_file < 0 || err_file < 0) _exit(126);
  dup2(out_file, STDOUT_FILENO);
  dup2(err_file, STDERR_FILENO);
  if (limits.file_bytes > 0) {
    const rlimit limit = {limits.file_bytes, limits.file_bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  std::string program = program_path();
  std::vector<char*> argv = {program.data()};
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  _exit(127);
}

inline ProgramResult run_program(const std::vector<std::string>& arguments,
                                 const ProgramLimits& limits = {}) {
  const TemporaryFolder folder;
  const std::string out = limits.output_file.empty() ? folder.path("out") : limits.output_file;
  const pid_t child = fork();
  if (child == 0) become_program(arguments, out, folder.path("err"), limits);
  int status = 0;
  waitpid(child, &status, 0);
  ProgramResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (limits.output_file.empty()) result.out = folder.read("out");
  result.err = folder.read("err");
  return result;
}

}  // namespace flamia::tools
