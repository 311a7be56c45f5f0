// Windows of executed instructions: what is written, and how a window is named.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "emulator/cudart/trace_settings.h"
#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

constexpr const char* kKernel = R"(
.visible .entry count(.param .u64 out) {
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, 0;
loop:
  add.u32 %r2, %r2, 3;
  setp.lt.u32 %p1, %r2, 9;
  @%p1 bra loop;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r2;
  ret;
}
)";

/// Lines that a run of the kernel with two CTAs of two warps leaves.
std::vector<std::string> traced(const std::string& window) {
  MachineOptions options;
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      ("flamia_trace_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) +
       ::testing::UnitTest::GetInstance()->current_test_info()->name());
  options.trace.path = path.string();
  EXPECT_TRUE(cudart::read_trace_window(window, &options.trace).ok());
  {
    Machine machine(options);
    machine.load(kKernel);
    const Status status = machine.launch("count", {2, 1, 1}, {64, 1, 1}, machine.allocate(256));
    EXPECT_TRUE(status.ok()) << status.message();
  }
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::filesystem::remove(path);
  return lines;
}

TEST(Trace, LinesNameWhoDidWhatWithWhichValues) {
  const std::vector<std::string> lines = traced("cta=1,warp=1,lane=2,lines=13:15");
  ASSERT_EQ(lines.size(), 9u);  // the launch, three turns; the last branch has no lanes
  EXPECT_EQ(lines[0], "launch 0: kernel count");
  EXPECT_EQ(lines[1],
            "CTA (1,0,0) warp 1 lanes 0xffffffff line 13: add.u32 %r2, %r2, 3;  [lane 2] %r2=0x3 "
            "(0x0)");
  EXPECT_EQ(lines[2],
            "CTA (1,0,0) warp 1 lanes 0xffffffff line 14: setp.lt.u32 %p1, %r2, 9;  [lane 2] "
            "%p1=true (false), %r2=0x3");
  EXPECT_NE(lines[7].find("%r2=0x9 (0x6)"), std::string::npos) << lines[7];
  EXPECT_NE(lines[8].find("%p1=false (true)"), std::string::npos) << lines[8];
}

TEST(Trace, WindowsAreCounted) {
  const std::vector<std::string> all = traced("cta=0,warp=0");
  ASSERT_EQ(all.size(), 15u);
  const std::vector<std::string> part = traced("cta=0,warp=0,skip=4,count=2");
  ASSERT_EQ(part.size(), 3u);
  EXPECT_EQ(part[1], all[5]);
  EXPECT_EQ(part[2], all[6]);
}

TEST(Trace, OtherKernelsAndLaunchesAreLeftOut) {
  EXPECT_TRUE(traced("kernel=other").empty());
  EXPECT_TRUE(traced("launch=1").empty());
  EXPECT_EQ(traced("kernel=cou,launch=0,count=0").size(), 1u);
}

TEST(Trace, WrongWindowsAreRefused) {
  const auto message = [](const char* text) {
    TraceOptions trace;
    return cudart::read_trace_window(text, &trace).message();
  };
  EXPECT_EQ(message("warp=32"), "trace: warp must be a warp of a CTA, from 0 to 31; got 32");
  EXPECT_EQ(message("lines=7"), "trace: lines must be FIRST:LAST, lines of the PTX; got 7");
  EXPECT_EQ(message("lines=9:7"),
            "trace: lines must be FIRST:LAST with FIRST at most LAST; got 9:7");
  EXPECT_EQ(message("cta=1:2:3:4"), "trace: cta must be X, X:Y or X:Y:Z; got 1:2:3:4");
  EXPECT_EQ(message("lane"), "trace: lane must be from 0 to 31; got ");
  EXPECT_NE(message("grid=1").find("got grid=1"), std::string::npos);
}

TEST(Trace, APathThatCannotBeWrittenIsAnError) {
  MachineOptions options;
  options.trace.path = "/nonexistent/trace";
  Machine machine(options);
  machine.load(kKernel);
  const Status status = machine.launch("count", {1, 1, 1}, {32, 1, 1}, machine.allocate(256));
  EXPECT_NE(status.message().find("must name a file that can be written"), std::string::npos);
}

}  // namespace
}  // namespace flamia::emulator
