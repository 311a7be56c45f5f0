// Cases of mbarriers, clusters and distributed shared memory, cp.async, st.async and red.async.
// Depends on: kernel_case.h. Used by: kernel_cases.h.
#pragma once

#include "tests/cuda/silicon/kernel_case.h"

namespace flamia::silicon {

/// Operations of one thread on one barrier, drawn so that all of them are allowed. What every test
/// and every token answers is stored.
class BarrierScript {
 public:
  BarrierScript(uint64_t seed, uint32_t operations) : seed_(seed) {
    count_ = pending_ = 2 + draw(30);
    text_ = "  mbarrier.init.shared::cta.b64 [%r399], " + number(count_) + ";\n";
    for (uint32_t i = 0; i < operations; ++i) step(draw(11));
    // No barrier is left with bytes open.
    if (transactions_ != 0) step(4);
    emit("mbarrier.inval.shared::cta.b64 [%r399]");
  }
  const std::string& text() const { return text_; }
  uint32_t outputs() const { return outputs_; }

 private:
  uint32_t draw(uint32_t limit) { return philox(41, seed_, drawn_++).word[0] % limit; }
  void emit(const std::string& line) { text_ += "  " + line + ";\n"; }
  void store(const std::string& value) {
    emit("st.global.u32 [%d1+" + number(4 * outputs_++) + "], " + value);
  }
  void settle() {
    if (pending_ != 0 || transactions_ != 0) return;
    ++phase_;
    pending_ = count_;
  }
  void token() {
    token_phase_ = phase_;
    has_token_ = true;
    emit("mbarrier.pending_count.b64 %r20, %d20");
    store("%r20");
  }
  void step(uint32_t choice) {
    const uint32_t bytes = 16 * (1 + draw(64));
    const bool arrives = choice < 3 || choice == 6 || choice == 7;
    if (arrives && pending_ == 0) return;
    switch (choice) {
      case 0: {
        emit("mbarrier.arrive.shared::cta.b64 %d20, [%r399]");
        token();
        --pending_;
        break;
      }
      case 1: {
        const uint32_t n = 1 + draw(pending_);
        emit("mbarrier.arrive.shared::cta.b64 %d20, [%r399], " + number(n));
        token();
        pending_ -= n;
        break;
      }
      case 2: {
        if (pending_ < 2) return;
        const uint32_t n = 1 + draw(pending_ - 1);
        emit("mbarrier.arrive.noComplete.shared::cta.b64 %d20, [%r399], " + number(n));
        token();
        pending_ -= n;
        break;
      }
      case 3:
        emit("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r399], " + number(bytes));
        transactions_ += bytes;
        break;
      case 4:
      case 5: {
        if (transactions_ == 0) return;
        const uint32_t n = choice == 4 ? transactions_ : 1 + draw(transactions_);
        emit("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r399], " + number(n));
        transactions_ -= n;
        break;
      }
      case 6:
        emit("mbarrier.arrive.expect_tx.shared::cta.b64 %d20, [%r399], " + number(bytes));
        token();
        --pending_;
        transactions_ += bytes;
        break;
      case 7: {
        if (count_ < 3) return;
        emit("mbarrier.arrive_drop.shared::cta.b64 %d20, [%r399]");
        token();
        --pending_;
        --count_;
        break;
      }
      case 8:
      case 9:
        emit("mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r399], " + number(choice - 8));
        emit("selp.u32 %r20, 1, 2, %p1");
        store("%r20");
        return;
      default:
        // A token is good for the phase it was taken in and the one behind it.
        if (!has_token_ || phase_ > token_phase_ + 1) return;
        emit("mbarrier.test_wait.shared::cta.b64 %p1, [%r399], %d20");
        emit("selp.u32 %r20, 1, 2, %p1");
        store("%r20");
        return;
    }
    settle();
    emit("mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r399], 0");
    emit("selp.u32 %r20, 1, 2, %p1");
    store("%r20");
  }

  uint64_t seed_;
  uint64_t drawn_ = 0;
  uint32_t count_ = 1, pending_ = 1, transactions_ = 0, phase_ = 0, token_phase_ = 0;
  bool has_token_ = false;
  std::string text_;
  uint32_t outputs_ = 0;
};

inline void add_barriers(std::vector<KernelCase>* cases) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    const BarrierScript script(seed, 40);
    KernelCase c;
    c.name = "mbarrier.script" + number(seed);
    c.threads = 1;
    c.shared_bytes = 64;
    c.in.assign(1, 0);
    c.out.assign(script.outputs() + 1, 0);
    c.text = entry(script.text());
    cases->push_back(c);
  }
}

/// CTA r of a cluster, all of whose CTAs begin: %r10 rank, %r11 rank of the next CTA.
inline std::string cluster_head(const std::string& first_thread, uint32_t size) {
  return "  mov.u32 %r10, %cluster_ctarank;\n  add.u32 %r11, %r10, 1;\n  and.b32 %r11, %r11, " +
         number(size - 1) + ";\n  setp.ne.u32 %p1, %r0, 0;\n  @%p1 bra MADE;\n" + first_thread +
         "MADE:\n  barrier.cluster.arrive.release.aligned;\n"
         "  barrier.cluster.wait.acquire.aligned;\n";
}
inline std::string cluster_tail() {
  return "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n";
}

inline KernelCase cluster_case(const std::string& name, uint32_t size, const std::string& body,
                               uint32_t out_words) {
  KernelCase c;
  c.name = name + ".cluster" + number(size);
  c.ctas = 2 * size;
  c.cluster = size;
  c.threads = 64;
  c.shared_bytes = 4096;
  c.in = random_words(seed_of(name), 4096);
  c.out.assign(2 * size * out_words, 0);
  c.text = entry(body);
  return c;
}

inline void add_clusters(std::vector<KernelCase>* cases) {
  for (const uint32_t size : {2u, 4u, 8u}) {
    const std::string all = number(64 * size);
    // Every thread arrives at the barriers of all CTAs; each waits for its own.
    std::string arrivals;
    for (uint32_t r = 0; r < size; ++r) {
      arrivals += "  mapa.shared::cluster.u32 %r20, %r399, " + number(r) +
                  ";\n  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r20];\n";
    }
    cases->push_back(cluster_case(
        "remote_arrive", size,
        cluster_head("  mbarrier.init.shared::cta.b64 [%r399], " + all +
                         ";\n  fence.mbarrier_init.release.cluster;\n",
                     size) +
            arrivals + wait_phase(0, "%r399", "0") +
            "  selp.u32 %r30, 1, 2, %p38;\n  getctarank.shared::cluster.u32 %r31, %r20;\n"
            "  mul.lo.u32 %r31, %r31, 256;\n  add.u32 %r30, %r30, %r31;\n  mov.u32 %r32, "
            "%ctaid.x;\n"
            "  mov.u32 %r33, %ntid.x;\n  mad.lo.u32 %r34, %r32, %r33, %r0;\n  mul.wide.u32 %d2, "
            "%r34, 4;\n  add.u64 %d2, %d2, %d1;\n  st.global.u32 [%d2], %r30;\n" +
            cluster_tail(),
        64));
    // Plain and vector accesses and atomics in the shared memory of the next CTA.
    cases->push_back(cluster_case(
        "dsmem", size,
        fill(0, 0, 512) + cluster_head("", size) +
            "  mapa.shared::cluster.u32 %r20, %r399, %r11;\n  shl.b32 %r21, %r0, 3;\n"
            "  add.u32 %r22, %r20, %r21;\n  ld.shared::cluster.v2.u32 {%r1, %r2}, [%r22];\n"
            "  add.u32 %r1, %r1, %r10;\n  xor.b32 %r2, %r2, %r1;\n"
            "  st.shared::cluster.v2.u32 [%r22+512], {%r1, %r2};\n"
            "  shl.b32 %r23, %r0, 2;\n  add.u32 %r24, %r20, %r23;\n"
            "  atom.shared::cluster.add.u32 %r3, [%r24+1024], %r10;\n"
            "  st.shared::cluster.u32 [%r24+1280], %r3;\n"
            "  red.shared::cluster.add.u32 [%r20+1536], 3;\n"
            "  cvt.u64.u32 %d9, %r399;\n  cvta.shared.u64 %d9, %d9;\n"
            "  mapa.u64 %d10, %d9, %r11;\n  getctarank.u64 %r5, %d10;\n  isspacep.shared::cluster "
            "%p5, %d10;\n  isspacep.shared::cta %p6, %d10;\n  selp.u32 %r6, 16, 32, %p5;\n  "
            "selp.u32 "
            "%r7, 64, 128, %p6;\n  or.b32 %r6, %r6, %r7;\n  or.b32 %r6, %r6, %r5;\n"
            "  cvt.u64.u32 %d11, %r23;\n  add.u64 %d10, %d10, %d11;\n  st.u32 [%d10+1792], %r6;\n" +
            cluster_tail() + copy_out(1, 0, 0, 512),
        512));
    // st.async and red.async to the next CTA, counted on its barrier.
    cases->push_back(cluster_case(
        "st_async", size,
        fill(0, 0, 576) +
            cluster_head("  mbarrier.init.shared::cta.b64 [%r399+2320], 1;\n"
                         "  fence.mbarrier_init.release.cluster;\n"
                         "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r399+2320], 2304;\n",
                         size) +
            "  mapa.shared::cluster.u32 %r20, %r399, %r11;\n  shl.b32 %r21, %r0, 4;\n"
            "  add.u32 %r22, %r20, %r21;\n  add.u32 %r23, %r20, 2320;\n  mad.lo.u32 %r1, %r0, 77, "
            "%r10;\n  mov.b64 %d4, {%r1, %r0};\n"
            "  st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r22], {%r1, "
            "%r0, "
            "%r10, %r11}, [%r23];\n  shl.b32 %r24, %r0, 3;\n  add.u32 %r25, %r20, %r24;\n"
            "  st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%r25+1024], %d4, "
            "[%r23];\n  shl.b32 %r26, %r0, 2;\n  add.u32 %r27, %r20, %r26;\n"
            "  st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r27+1536], %r1, "
            "[%r23];\n"
            "  red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 "
            "[%r27+1792], %r1, [%r23];\n"
            "  red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.max.s32 "
            "[%r27+2048], %r1, [%r23];\n" +
            wait_phase(1, "%r399+2320", "0") + cluster_tail() + copy_out(2, 0, 0, 576),
        576));
  }
}

/// cp.async of one size with a source size per lane, two groups in flight.
inline void add_copies(std::vector<KernelCase>* cases) {
  for (const uint32_t bytes : {4u, 8u, 16u}) {
    for (const bool sized : {false, true}) {
      KernelCase c;
      c.name = "cp_async." + number(bytes) + (sized ? ".sized" : "");
      c.shared_bytes = 4096;
      c.in = random_words(bytes, 1024);
      c.out.assign(256, 0);
      const std::string cache = bytes == 16 ? "cg" : "ca", b = number(bytes);
      const std::string size = sized ? ", %r5" : "";
      c.text = entry(
          fill(0, 0, 256) + "  bar.sync 0;\n  mul.lo.u32 %r5, %r0, 7;\n  rem.u32 %r5, %r5, " +
          number(bytes + 1) + ";\n  mul.lo.u32 %r1, %r0, " + b +
          ";\n  add.u32 %r2, %r1, %r399;\n  cvt.u64.u32 %d2, %r1;\n  add.u64 %d2, %d2, %d0;\n"
          "  cp.async." +
          cache + ".shared.global [%r2], [%d2], " + b + size +
          ";\n  cp.async.commit_group;\n  cp.async." + cache +
          ".shared.global [%r2+512], [%d2+1024], " + b + size +
          ";\n  cp.async.commit_group;\n  cp.async.wait_group 1;\n  ld.shared.u32 %r6, [%r2];\n"
          "  cp.async.wait_all;\n  add.u32 %r6, %r6, 1;\n  st.shared.u32 [%r2], %r6;\n  bar.sync "
          "0;\n" +
          copy_out(1, 0, 0, 256));
      cases->push_back(c);
    }
  }
  KernelCase c;
  c.name = "cp_async.ignore_src.mbarrier";
  c.shared_bytes = 4096;
  c.in = random_words(99, 1024);
  c.out.assign(129, 0);
  c.text = entry(
      fill(0, 0, 128) +
      "  setp.ne.u32 %p1, %r0, 0;\n  @%p1 bra MADE;\n  mbarrier.init.shared::cta.b64 [%r399+2048], "
      "32;\nMADE:\n  bar.sync 0;\n  and.b32 %r3, %r0, 2;\n  setp.ne.u32 %p2, %r3, 0;\n"
      "  shl.b32 %r1, %r0, 4;\n  add.u32 %r2, %r1, %r399;\n  cvt.u64.u32 %d2, %r1;\n"
      "  add.u64 %d2, %d2, %d0;\n  cp.async.cg.shared.global [%r2], [%d2], 16, %p2;\n"
      "  cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r399+2048];\n" +
      wait_phase(1, "%r399+2048", "0") + copy_out(2, 0, 0, 128));
  cases->push_back(c);
}

/// What a kernel is made of besides memory: named barriers with reductions, register counts.
inline void add_control(std::vector<KernelCase>* cases) {
  KernelCase c;
  c.name = "setmaxnreg.named_barriers";
  c.threads = 384;
  c.shared_bytes = 4096;
  c.in = random_words(5, 384);
  c.out.assign(384, 0);
  c.text = entry(
      "  mul.wide.u32 %d2, %r0, 4;\n  add.u64 %d3, %d2, %d1;\n  add.u64 %d2, %d2, %d0;\n"
      "  ld.global.u32 %r1, [%d2];\n  shl.b32 %r2, %r0, 2;\n  add.u32 %r2, %r2, %r399;\n"
      "  setp.ge.u32 %p1, %r0, 128;\n  @%p1 bra CONSUMER;\n  setmaxnreg.dec.sync.aligned.u32 24;\n"
      "  st.shared.u32 [%r2], %r1;\n  bar.arrive 3, 384;\n  mov.u32 %r4, 5;\n  bra JOIN;\n"
      "CONSUMER:\n  setmaxnreg.inc.sync.aligned.u32 192;\n  bar.sync 3, 384;\n"
      "  and.b32 %r3, %r2, 508;\n  sub.u32 %r3, %r2, 512;\n  setp.ge.u32 %p2, %r0, 256;\n"
      "  @%p2 sub.u32 %r3, %r3, 512;\n  ld.shared.u32 %r4, [%r3];\n"
      "JOIN:\n  and.b32 %r5, %r1, 1;\n  setp.ne.u32 %p3, %r5, 0;\n  bar.red.popc.u32 %r6, 0, %p3;\n"
      "  bar.red.and.pred %p4, 0, %p3;\n  bar.red.or.pred %p5, 0, %p3;\n  selp.u32 %r7, 1, 2, "
      "%p4;\n"
      "  selp.u32 %r8, 4, 8, %p5;\n  add.u32 %r4, %r4, %r6;\n  add.u32 %r4, %r4, %r7;\n"
      "  add.u32 %r4, %r4, %r8;\n  griddepcontrol.launch_dependents;\n  griddepcontrol.wait;\n"
      "  st.global.u32 [%d3], %r4;\n",
      ".maxntid 384, 1, 1\n.minnctapersm 1\n");
  cases->push_back(c);
}

}  // namespace flamia::silicon
