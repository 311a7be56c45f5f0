// Files appear complete or not at all, and a failed write leaves nothing behind.
#include "tools/atomic_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/tools/temporary_folder.h"

namespace flamia::tools {
namespace {

using Names = std::vector<std::string>;

TEST(AtomicFile, AppearsOnCommit) {
  const TemporaryFolder folder;
  const std::string path = folder.path("out");
  AtomicFile file;
  ASSERT_TRUE(file.open(path).ok());
  ASSERT_TRUE(file.write("abc", 3).ok());
  EXPECT_EQ(folder.names(), Names{".out.tmp." + std::to_string(getpid())});
  ASSERT_TRUE(file.commit().ok());
  EXPECT_EQ(folder.names(), Names{"out"});
  EXPECT_EQ(folder.read("out"), "abc");
}

TEST(AtomicFile, LeavesTheOldFileUntilCommit) {
  const TemporaryFolder folder;
  const std::string path = folder.write("out", "old");
  {
    AtomicFile file;
    ASSERT_TRUE(file.open(path).ok());
    ASSERT_TRUE(file.write("new", 3).ok());
    EXPECT_EQ(folder.read("out"), "old");
  }
  EXPECT_EQ(folder.names(), Names{"out"});
  EXPECT_EQ(folder.read("out"), "old");
}

TEST(AtomicFile, KeepsModeAndLinks) {
  const TemporaryFolder folder;
  const std::string target = folder.write("target", "old");
  ASSERT_EQ(chmod(target.c_str(), 0640), 0);
  ASSERT_EQ(symlink("target", folder.path("link").c_str()), 0);
  ASSERT_TRUE(write_file(folder.path("link"), "new").ok());
  struct stat facts = {};
  ASSERT_EQ(lstat(folder.path("link").c_str(), &facts), 0);
  EXPECT_TRUE(S_ISLNK(facts.st_mode));
  ASSERT_EQ(stat(target.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0640u);
  EXPECT_EQ(folder.read("target"), "new");
}

TEST(AtomicFile, SkipsLeftoversOfOtherRuns) {
  const TemporaryFolder folder;
  const std::string leftover = ".out.tmp." + std::to_string(getpid());
  folder.write(leftover, "half");
  ASSERT_TRUE(write_file(folder.path("out"), "whole").ok());
  EXPECT_EQ(folder.read("out"), "whole");
  EXPECT_EQ(folder.read(leftover), "half");
}

TEST(AtomicFile, SaysThatADeviceIsFull) {
  const Status status = write_file("/dev/full", "abc");
  EXPECT_EQ(status.message(), "/dev/full: writing failed: No space left on device");
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  struct stat facts = {};
  ASSERT_EQ(stat("/dev/full", &facts), 0);
  EXPECT_TRUE(S_ISCHR(facts.st_mode)) << "the device must not be replaced by a file";
}

TEST(AtomicFile, SaysThatTheFolderIsMissing) {
  const TemporaryFolder folder;
  const std::string path = folder.path("no/out");
  EXPECT_EQ(write_file(path, "abc").message(),
            path + ": creating a temporary file beside it failed: No such file or directory");
}

TEST(AtomicFile, TakesTheLongestNames) {
  const TemporaryFolder folder;
  const std::string name(255, 'n');
  ASSERT_TRUE(write_file(folder.path(name), "abc").ok());
  EXPECT_EQ(folder.names(), Names{name});
}

// In a process of its own: limits and signals stay there.
void write_over_the_limit(const std::string& path) {
  install_signal_handlers();
  const rlimit limit = {100, 100};
  setrlimit(RLIMIT_FSIZE, &limit);
  const Status status = write_file(path, std::string(1000, 'x'));
  fprintf(stderr, "%s\n", status.message().c_str());
  exit(7);
}

TEST(AtomicFileDeathTest, SaysThatTheSizeLimitWasReached) {
  const TemporaryFolder folder;
  const std::string path = folder.write("out", "old");
  EXPECT_EXIT(write_over_the_limit(path), testing::ExitedWithCode(7),
              "out: writing failed: File too large");
  EXPECT_EQ(folder.names(), Names{"out"});
  EXPECT_EQ(folder.read("out"), "old");
}

void be_interrupted(const std::string& path, int signal_number) {
  install_signal_handlers();
  AtomicFile file;
  if (!file.open(path).ok() || !file.write("half", 4).ok()) exit(1);
  raise(signal_number);
  exit(0);
}

TEST(AtomicFileDeathTest, LeavesNothingWhenInterrupted) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const TemporaryFolder folder;
    const std::string path = folder.path("out");
    EXPECT_EXIT(be_interrupted(path, number), testing::KilledBySignal(number), "");
    EXPECT_TRUE(folder.names().empty()) << number;
  }
}

TEST(OutputPath, IsRefusedBeforeWorkStarts) {
  const TemporaryFolder folder;
  EXPECT_TRUE(check_output_path("--output", folder.path("new")).ok());
  EXPECT_TRUE(check_output_path("--output", folder.write("old", "")).ok());
  EXPECT_TRUE(check_output_path("--output", "name_in_this_folder").ok());
  EXPECT_TRUE(check_output_path("--output", "/dev/null").ok());
  EXPECT_EQ(check_output_path("--output", folder.path("")).message(),
            "--output must name a file; got '" + folder.path("") + "'");
  EXPECT_EQ(check_output_path("--output", folder.path(".")).message(),
            "--output must name a file; " + folder.path(".") + " is a folder");
  EXPECT_EQ(check_output_path("--output", folder.path("no/out")).message(),
            "--output must be writable; folder " + folder.path("no/") + " of " +
                folder.path("no/out") + ": No such file or directory");
  ASSERT_EQ(symlink("nowhere", folder.path("dangling").c_str()), 0);
  EXPECT_EQ(check_output_path("--output", folder.path("dangling")).message(),
            "--output must be writable; " + folder.path("dangling") + " is a link to nothing");
}

TEST(OutputPath, KnowsTheSameFileThroughLinks) {
  const TemporaryFolder folder;
  const std::string a = folder.write("a", "");
  const std::string b = folder.write("b", "");
  ASSERT_EQ(symlink("a", folder.path("link").c_str()), 0);
  ASSERT_EQ(link(a.c_str(), folder.path("hard").c_str()), 0);
  EXPECT_TRUE(same_file(a, folder.path("link")));
  EXPECT_TRUE(same_file(a, folder.path("hard")));
  EXPECT_FALSE(same_file(a, b));
  EXPECT_FALSE(same_file(a, folder.path("missing")));
}

}  // namespace
}  // namespace flamia::tools
