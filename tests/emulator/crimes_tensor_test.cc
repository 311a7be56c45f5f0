// Crimes in the products of Blackwell: tcgen05 with its tensor memory.
#include "tests/emulator/crimes.h"

namespace flamia::emulator {
namespace {

/// Allocation of 64 columns, base in %r30, lanes of the warp in %r31, instruction descriptor of
/// 128 x 16 x 32 E4M3 in %r32.
#define TENSOR_BEGIN                                                             \
  FLAMIA_ZEROS                                                                   \
  "  or.b64 %d5, %d5, 0x400000000000;\n"                                         \
  "  or.b64 %d7, %d7, 0x400000000000;\n"                                         \
  "  @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [cell], 64;\n" \
  "  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;\n"                            \
  "  fence.proxy.async.shared::cta;\n"                                           \
  "  tcgen05.fence::before_thread_sync;\n"                                       \
  "  bar.sync 0;\n"                                                              \
  "  tcgen05.fence::after_thread_sync;\n"                                        \
  "  ld.shared.u32 %r30, [cell];\n"                                              \
  "  shl.b32 %r31, %r2, 21;\n"                                                   \
  "  add.u32 %r31, %r31, %r30;\n"                                                \
  "  mov.u32 %r32, 0x8040010;\n"                                                 \
  "  setp.ne.u32 %p8, %r30, %r30;\n"
#define MMA "  @%p1 tcgen05.mma.cta_group::1.kind::f8f6f4 [%r30], %d5, %d7, %r32, %p8;\n"
#define COMMIT \
  "  @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r11];\n"
#define LOAD "  tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r40,%r41,%r42,%r43}, [%r31];\n"
#define STORE "  tcgen05.st.sync.aligned.32x32b.x4.b32 [%r31], {%r1,%r1,%r1,%r1};\n"
#define COMMIT_1 \
  "  @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r11+8];\n"
/// Columns that are stored, and a second barrier on which every thread arrives.
#define STORED                                                  \
  "  @%p1 mbarrier.init.shared::cta.b64 [%r11+8], 128;\n" STORE \
  "  tcgen05.wait::st.sync.aligned;\n"                          \
  "  tcgen05.fence::before_thread_sync;\n"                      \
  "  bar.sync 0;\n"                                             \
  "  tcgen05.fence::after_thread_sync;\n"
#define ARRIVE_1                           \
  "  tcgen05.fence::before_thread_sync;\n" \
  "  mbarrier.arrive.shared::cta.b64 _, [%r11+8];\n"
#define USE "  add.u32 %r45, %r40, %r41;\n"
#define AFTER "  tcgen05.fence::after_thread_sync;\n"
#define TENSOR_END                         \
  "  tcgen05.fence::before_thread_sync;\n" \
  "  bar.sync 0;\n"                        \
  "  tcgen05.fence::after_thread_sync;\n"  \
  "  @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r30, 64;\n"

std::vector<Crime> tensor(bool strict) {
  std::vector<Crime> crimes = {
      {"result read before the commit was waited for",
       "hazard|uninitialized",
       {"tcgen05.ld"},
       TENSOR_BEGIN MMA COMMIT "{{WAIT0||}}" AFTER LOAD R"(
  tcgen05.wait::ld.sync.aligned;
  {{||WAIT0}}
)" TENSOR_END,
       128},
      {"commit missing",
       "deadlock|hazard",
       {"crime"},
       TENSOR_BEGIN MMA "{{" COMMIT "||}}"
                        "WAIT0" AFTER LOAD R"(
  tcgen05.wait::ld.sync.aligned;
)" TENSOR_END,
       128},
      {"operand overwritten while a product reads it",
       "hazard",
       {"tcgen05.mma", "st.shared"},
       TENSOR_BEGIN MMA COMMIT R"(
  {{WAIT0||}}
  @%p1 st.shared.u32 [%r10], 1;
  WAIT0
)" TENSOR_END,
       128},
      {"generic write, tcgen05.mma read",
       "hazard",
       {"st.shared", "tcgen05.mma", "fence.proxy.async"},
       TENSOR_BEGIN R"(
  @%p1 st.shared.u32 [%r10], 0;
  {{fence.proxy.async.shared::cta;||}}
)" MMA COMMIT "WAIT0" TENSOR_END,
       128},
      {"columns overwritten while they are loaded",
       "hazard",
       {"tcgen05.ld", "tcgen05.mma", "wait::ld"},
       TENSOR_BEGIN STORE R"(
  tcgen05.wait::st.sync.aligned;
)" LOAD R"(
  {{tcgen05.wait::ld.sync.aligned;||}}
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
)" MMA COMMIT "WAIT0" AFTER TENSOR_END,
       128},
      // A use of the registers that comes after the release says nothing.
      {"columns given back while they are loaded",
       "hazard",
       {"tcgen05.ld", "tcgen05.mma", "wait::ld"},
       TENSOR_BEGIN STORED LOAD R"(
  {{tcgen05.wait::ld.sync.aligned;||}}
)" ARRIVE_1 "WAIT1" AFTER MMA COMMIT USE "WAIT0" AFTER TENSOR_END,
       128},
      {"exit before the last commit arrives",
       "undrained|hazard",
       {"tcgen05."},
       TENSOR_BEGIN R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11+8], 1;
  bar.sync 0;
)" MMA COMMIT MMA COMMIT_1 "WAIT0 {{WAIT1||}}" AFTER TENSOR_END,
       128,
       1,
       1,
       Rules::kPublic,
       0,
       false},
      {"stored columns used before wait::st",
       "hazard",
       {"tcgen05.st", "tcgen05.mma", "wait::st"},
       TENSOR_BEGIN STORE R"(
  {{tcgen05.wait::st.sync.aligned;||}}
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
)" MMA COMMIT "WAIT0" AFTER TENSOR_END,
       128},
      {"stored columns read back before wait::st",
       "hazard",
       {"tcgen05.st", "tcgen05.ld", "wait::st"},
       TENSOR_BEGIN STORE R"(
  {{tcgen05.wait::st.sync.aligned;||}}
)" LOAD R"(
  tcgen05.wait::ld.sync.aligned;
)" TENSOR_END,
       128},
      {"dealloc while a load is under way",
       "hazard",
       {"tcgen05.ld", "tcgen05.dealloc", "wait::ld"},
       TENSOR_BEGIN STORE R"(
  tcgen05.wait::st.sync.aligned;
)" LOAD R"(
  {{tcgen05.wait::ld.sync.aligned;||}}
)" TENSOR_END,
       128},
      {"dealloc that other warps do not expect",
       "hazard|use after free",
       {"tcgen05.st"},
       TENSOR_BEGIN STORE R"(
  tcgen05.wait::st.sync.aligned;
  tcgen05.fence::before_thread_sync;
  {{bar.sync 0;||}}
  tcgen05.fence::after_thread_sync;
  @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r30, 64;
  bar.sync 0;
)",
       128},
      {"base address read without a barrier", "hazard|uninitialized", {"[cell]"}, R"(
  @%p2 st.shared.u32 [cell], 1;
  bar.sync 0;
  @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [cell], 64;
  {{bar.sync 0;||}}
  ld.shared.u32 %r30, [cell];
  bar.sync 0;
  ld.shared.u32 %r30, [cell];
  @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r30, 64;
)"},
      {"columns never given back", "leak", {"64 columns", "tcgen05.alloc"}, R"(
  @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [cell], 64;
  bar.sync 0;
  ld.shared.u32 %r30, [cell];
  {{@%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r30, 64;||}}
)"},
      {"allocations that grow", "bad operand", {"tcgen05.alloc"}, R"(
  @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [cell], {{128||32}};
  @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [cell+4], 64;
  bar.sync 0;
  ld.shared.u32 %r30, [cell];
  ld.shared.u32 %r31, [cell+4];
  @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r30, {{128||32}};
  @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r31, 64;
)"},
      {"allocation after relinquish", "bad operand", {"tcgen05.alloc"}, R"(
  {{||@%p2 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;}}
  @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [cell], 64;
  @%p2 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
  bar.sync 0;
  ld.shared.u32 %r30, [cell];
  @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r30, 64;
)"},
      {"dealloc of another size", "bad operand", {"tcgen05.dealloc"}, R"(
  @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [cell], 64;
  bar.sync 0;
  ld.shared.u32 %r30, [cell];
  @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r30, {{64||32}};
)"},
      {"lanes of another warp",
       "misaligned",
       {"tcgen05.st"},
       TENSOR_BEGIN R"(
  {{||xor.b32 %r31, %r31, 0x200000;}}
)" STORE R"(
  tcgen05.wait::st.sync.aligned;
)" TENSOR_END,
       128},
      {"columns of nobody",
       "out of bounds|bad operand|use after free",
       {"tcgen05.st"},
       TENSOR_BEGIN R"(
  {{||add.u32 %r31, %r31, 64;}}
)" STORE R"(
  tcgen05.wait::st.sync.aligned;
)" TENSOR_END,
       128},
      {"address that differs among lanes",
       "bad operand",
       {"tcgen05.st", "same in all lanes"},
       TENSOR_BEGIN R"(
  {{||and.b32 %r33, %r1, 1; add.u32 %r31, %r31, %r33;}}
)" STORE R"(
  tcgen05.wait::st.sync.aligned;
)" TENSOR_END,
       128},
      {"accumulator that nothing wrote",
       "uninitialized",
       {"tcgen05.mma"},
       TENSOR_BEGIN R"(
  {{||setp.eq.u32 %p8, %r30, %r30;}}
)" MMA COMMIT "WAIT0" AFTER TENSOR_END,
       128},
      {"reserved bit of the instruction descriptor",
       "bad operand",
       {"tcgen05.mma"},
       TENSOR_BEGIN R"(
  {{||or.b32 %r32, %r32, 0x800000;}}
)" MMA COMMIT "WAIT0" AFTER TENSOR_END,
       128},
      {"constant of the shared memory descriptor",
       "bad operand",
       {"tcgen05.mma"},
       TENSOR_BEGIN R"(
  {{||xor.b64 %d5, %d5, 0x400000000000;}}
)" MMA COMMIT "WAIT0" AFTER TENSOR_END,
       128},
      {"odd column of an accumulator",
       "misaligned",
       {"tcgen05.mma"},
       TENSOR_BEGIN R"(
  add.u32 %r33, %r30, {{2||1}};
  @%p1 tcgen05.mma.cta_group::1.kind::f8f6f4 [%r33], %d5, %d7, %r32, %p8;
)" COMMIT "WAIT0" AFTER TENSOR_END,
       128},
      {"two cta_groups in one kernel",
       "bad operand",
       {"one .cta_group", "tcgen05.alloc", "tcgen05.commit"},
       TENSOR_BEGIN MMA R"(
  @%p1 tcgen05.commit.cta_group::{{1||2}}.mbarrier::arrive::one.shared::cluster.b64 [%r11];
)"
                        "WAIT0" AFTER TENSOR_END,
       128},
      {"pair instruction after the peer has left",
       "bad operand",
       {"tcgen05.alloc", "both CTAs of the pair"},
       R"(
  {{||@!%p3 ret;
  mov.u32 %r20, 0;
spin:
  add.u32 %r20, %r20, 1;
  setp.lt.u32 %p4, %r20, 2000;
  @%p4 bra spin;}}
  {{barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;||}}
  tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [cell], 64;
  bar.sync 0;
  ld.shared.u32 %r30, [cell];
  {{barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;||}}
  tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r30, 64;
)",
       32,
       2,
       2},
      {"copies of scales that differ",
       "bad operand",
       {"tcgen05.mma", "copies of row"},
       TENSOR_BEGIN R"(
  add.u32 %r34, %r30, 32;
  add.u32 %r35, %r31, 32;
  mov.u32 %r36, 0x7f7f7f7f;
  {{||add.u32 %r36, %r36, %r2;}}
  tcgen05.st.sync.aligned.32x32b.x8.b32 [%r35], {%r36,%r36,%r36,%r36,%r36,%r36,%r36,%r36};
  tcgen05.wait::st.sync.aligned;
  tcgen05.fence::before_thread_sync;
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
  mov.u32 %r32, 0x8840000;
  add.u32 %r37, %r34, 4;
  @%p1 tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r30], %d5, %d7, %r32, [%r34], [%r37], %p8;
)" COMMIT "WAIT0" AFTER TENSOR_END,
       128},
  };
  if (strict) {
    crimes.push_back({"synchronization without fence::after",
                      "hazard|uninitialized",
                      {"tcgen05.ld"},
                      TENSOR_BEGIN MMA COMMIT "WAIT0"
                                              "{{" AFTER "||}}" LOAD R"(
  tcgen05.wait::ld.sync.aligned;
)" TENSOR_END,
                      128});
    crimes.push_back({"synchronization without fence::before",
                      "hazard",
                      {"tcgen05.st", "tcgen05.mma"},
                      TENSOR_BEGIN STORE R"(
  tcgen05.wait::st.sync.aligned;
)" LOAD R"(
  tcgen05.wait::ld.sync.aligned;
  {{tcgen05.fence::before_thread_sync;||}}
  bar.sync 0;
  tcgen05.fence::after_thread_sync;
)" MMA COMMIT "WAIT0" AFTER TENSOR_END,
                      128});
    crimes.push_back({"exit before a commit without work of its own arrives",
                      "undrained",
                      {"tcgen05.commit"},
                      TENSOR_BEGIN R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11+8], 1;
  bar.sync 0;
)" MMA COMMIT COMMIT_1 "WAIT0 {{WAIT1||}}" AFTER TENSOR_END,
                      128,
                      1,
                      1,
                      Rules::kStrict,
                      0,
                      false});
    crimes.push_back({"loaded registers used instead of wait::ld",
                      "hazard",
                      {"tcgen05.ld", "tcgen05.dealloc"},
                      TENSOR_BEGIN STORE R"(
  tcgen05.wait::st.sync.aligned;
)" LOAD R"(
  {{tcgen05.wait::ld.sync.aligned;||}}
  add.u32 %r45, %r40, %r41;
)" TENSOR_END,
                      128});
  }
  for (Crime& crime : crimes) {
    if (strict) crime.rules = Rules::kStrict;
  }
  return crimes;
}

/// Legal although it looks like a crime: public kernels live on it.
const std::vector<Crime>& look_alikes() {
  static const std::vector<Crime> crimes = {
      {"loaded registers used instead of wait::ld",
       "uninitialized",
       {"ld.shared"},
       TENSOR_BEGIN STORE R"(
  tcgen05.wait::st.sync.aligned;
)" LOAD R"(
  add.u32 %r45, %r40, %r41;
  {{||ld.shared.u32 %r46, [cell+128];}}
)" TENSOR_END,
       128},
      {"commits with nothing between them arrive together",
       "uninitialized",
       {"ld.shared"},
       TENSOR_BEGIN R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11+8], 1;
  bar.sync 0;
)" MMA COMMIT COMMIT_1 "WAIT0" AFTER R"(
  {{||ld.shared.u32 %r46, [cell+128];}}
)" TENSOR_END,
       128},
      {"relaxed wait with the tcgen05 fence",
       "uninitialized",
       {"ld.shared"},
       TENSOR_BEGIN MMA COMMIT R"(
again:
  mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p9, [%r11], 0;
  @!%p9 bra again;
)" AFTER LOAD R"(
  tcgen05.wait::ld.sync.aligned;
  {{||ld.shared.u32 %r46, [cell+128];}}
)" TENSOR_END,
       128},
  };
  return crimes;
}

/// What lenient rules let pass, and what they do not.
const std::vector<Crime>& lenient_rules() {
  static const std::vector<Crime> crimes = {
      {"columns given back while they are loaded, without a barrier",
       "hazard",
       {"tcgen05.ld", "tcgen05.mma"},
       TENSOR_BEGIN STORED LOAD "{{" ARRIVE_1 "WAIT1||}}" AFTER MMA COMMIT USE
                                "WAIT0" AFTER TENSOR_END,
       128,
       1,
       1,
       Rules::kLenient},
      {"columns used after they were given back",
       "uninitialized",
       {"ld.shared"},
       TENSOR_BEGIN STORED R"(
  @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r30, 64;
  bar.sync 0;
)" LOAD USE R"(
  {{||ld.shared.u32 %r46, [cell+128];}}
)",
       128,
       1,
       1,
       Rules::kLenient},
  };
  return crimes;
}

TEST(CrimesTensor, LenientRules) { judge(lenient_rules(), Chip::kB200, "sm_100a"); }
TEST(CrimesTensor, Tcgen05) { judge(tensor(false), Chip::kB200, "sm_100a"); }
TEST(CrimesTensor, Tcgen05ByStrictRules) { judge(tensor(true), Chip::kB200, "sm_100a"); }
TEST(CrimesTensor, LookAlikesAreLegal) { judge(look_alikes(), Chip::kB200, "sm_100a"); }

}  // namespace
}  // namespace flamia::emulator
