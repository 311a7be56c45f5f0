// Names of kernels as traps and statistics print them.
#include "emulator/kernel_name.h"

#include <gtest/gtest.h>

namespace flamia::emulator {
namespace {

TEST(KernelName, PlainNamesStay) {
  EXPECT_EQ(readable_kernel_name("scale_rows"), "scale_rows");
  EXPECT_EQ(short_kernel_name(""), "");
}

TEST(KernelName, MangledNamesAreRead) {
  EXPECT_EQ(readable_kernel_name("_Z7add_onePfi"), "add_one");
  EXPECT_EQ(readable_kernel_name("_ZN12_GLOBAL__N_15scaleIfEEvPT_i"), "scale<float>");
  // A parenthesis inside template arguments does not end the name.
  EXPECT_EQ(readable_kernel_name("_Z3runIXadL_Z1fvEEEvi"), "run<&(f())>");
}

TEST(KernelName, LongTemplatesAreShortened) {
  // kernel<pair<A<int, ..., int>, A<int, ..., int> > >
  const std::string list = "1AIJ" + std::string(40, 'i') + "EE";
  const std::string name = "_Z6kernelI4pairI" + list + list + "EEvv";
  EXPECT_GT(readable_kernel_name(name).size(), 160u);
  EXPECT_EQ(short_kernel_name(name), "kernel<pair<...> >");
}

}  // namespace
}  // namespace flamia::emulator
