// Crimes in the products of Hopper: wgmma with its registers and groups.
#include "tests/emulator/crimes.h"

namespace flamia::emulator {
namespace {

#define WGMMA                                                                                   \
  "  wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1,%f2,%f3,%f4}, %d5, %d7, %p7, 1, " \
  "1;\n"
#define WGMMA_REGISTERS                                                       \
  "  wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1,%f2,%f3,%f4}, " \
  "{%r40,%r41,%r42,%r43}, %d7, %p7, 1, 1;\n"

const std::vector<Crime>& products() {
  static const std::vector<Crime> crimes = {
      {"generic write, wgmma read",
       "hazard",
       {"st.shared", "wgmma", "fence.proxy.async"},
       FLAMIA_ZEROS R"(
  {{fence.proxy.async.shared::cta;||}}
  bar.sync 0;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
  wgmma.fence.sync.aligned;
)" WGMMA R"(
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
)",
       128},
      {"no wgmma.fence at all",
       "hazard",
       {"wgmma.mma_async", "wgmma.fence"},
       FLAMIA_ZEROS R"(
  fence.proxy.async.shared::cta;
  bar.sync 0;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
  {{wgmma.fence.sync.aligned;||}}
)" WGMMA R"(
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
)",
       128},
      {"accumulator written after the fence",
       "hazard",
       {"write of CTA", "add.f32", "wgmma.mma_async", "no wgmma.fence"},
       FLAMIA_ZEROS R"(
  fence.proxy.async.shared::cta;
  bar.sync 0;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
  wgmma.fence.sync.aligned;
)" WGMMA R"(
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  add.f32 %f2, %f2, %f2;
  {{wgmma.fence.sync.aligned;||}}
)" WGMMA R"(
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
)",
       128},
      {"accumulator read in flight",
       "hazard",
       {"accumulator of CTA", "wgmma.mma_async", "add.f32", "no wgmma.wait_group"},
       FLAMIA_ZEROS R"(
  fence.proxy.async.shared::cta;
  bar.sync 0;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
  wgmma.fence.sync.aligned;
)" WGMMA R"(
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned {{0||1}};
  add.f32 %f9, %f2, %f2;
  wgmma.wait_group.sync.aligned 0;
)",
       128},
      {"group that was never committed",
       "hazard",
       {"accumulator of CTA", "no wgmma.wait_group"},
       FLAMIA_ZEROS R"(
  fence.proxy.async.shared::cta;
  bar.sync 0;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
  wgmma.fence.sync.aligned;
)" WGMMA R"(
  {{wgmma.commit_group.sync.aligned;||}}
  wgmma.wait_group.sync.aligned 0;
  add.f32 %f9, %f2, %f2;
)",
       128},
      {"A registers overwritten in flight",
       "hazard",
       {"A registers of CTA", "add.u32", "no wgmma.wait_group"},
       FLAMIA_ZEROS R"(
  fence.proxy.async.shared::cta;
  bar.sync 0;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
  mov.u32 %r40, 0; mov.u32 %r41, 0; mov.u32 %r42, 0; mov.u32 %r43, 0;
  wgmma.fence.sync.aligned;
)" WGMMA_REGISTERS R"(
  wgmma.commit_group.sync.aligned;
  add.u32 %r45, %r40, 1;
  {{wgmma.wait_group.sync.aligned 0;||}}
  add.u32 %r41, %r41, 1;
  wgmma.wait_group.sync.aligned 0;
)",
       128},
      {"operand overwritten in flight",
       "hazard",
       {"wgmma", "st.shared"},
       FLAMIA_ZEROS R"(
  fence.proxy.async.shared::cta;
  bar.sync 0;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
  wgmma.fence.sync.aligned;
)" WGMMA R"(
  wgmma.commit_group.sync.aligned;
  {{wgmma.wait_group.sync.aligned 0;
  bar.sync 0;||}}
  st.shared.u32 [%r10], 1;
  wgmma.wait_group.sync.aligned 0;
)",
       128},
      {"exit with a product in flight",
       "undrained",
       {"wgmma.mma_async"},
       FLAMIA_ZEROS R"(
  fence.proxy.async.shared::cta;
  bar.sync 0;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
  wgmma.fence.sync.aligned;
)" WGMMA R"(
  wgmma.commit_group.sync.aligned;
  {{wgmma.wait_group.sync.aligned 0;||}}
)",
       128,
       1,
       1,
       Rules::kPublic,
       0,
       false},
      {"different products in one warp group",
       "divergence",
       {"same wgmma"},
       FLAMIA_ZEROS R"(
  fence.proxy.async.shared::cta;
  bar.sync 0;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
  wgmma.fence.sync.aligned;
  {{||@!%p2 bra second;}}
)" WGMMA R"(
  bra done;
second:
)" WGMMA R"(
done:
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
)",
       128},
  };
  return crimes;
}

TEST(CrimesWgmma, OnHopper) { judge(products(), Chip::kH200, "sm_90a"); }

}  // namespace
}  // namespace flamia::emulator
