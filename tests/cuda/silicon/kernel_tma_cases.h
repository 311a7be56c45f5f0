// Cases of the copy engine: tile loads, stores and reductions of 1 to 5 dimensions in every element
// type and swizzle, out of bounds on both sides; multicast; plain bulk copies and reductions;
// tensor maps that a kernel changes. Depends on: kernel_case.h, kernel_atomic_cases.h (operands).
// Used by: kernel_cases.h. The first words of the input are the coordinates and byte counts; the
// tensor begins at word 64.
#pragma once

#include <algorithm>

#include "tests/cuda/silicon/kernel_atomic_cases.h"
#include "tests/cuda/silicon/kernel_case.h"

namespace flamia::silicon {

inline constexpr uint32_t kTmaHead = 64;     ///< words before the tensor
inline constexpr uint32_t kTmaBox = 4096;    ///< words of shared memory that are recorded, at most
inline constexpr uint32_t kTmaPlace = 1024;  ///< shared offset of the box

struct TmaType {
  const char* name;
  uint32_t code;
  uint32_t bytes;
  char kind;  ///< as AtomicForm
};
inline constexpr TmaType kTmaTypes[] = {
    {"u8", 0, 1, 'i'},       {"u16", 1, 2, 'i'},  {"u32", 2, 4, 'i'},     {"s32", 3, 4, 'i'},
    {"u64", 4, 8, 'i'},      {"s64", 5, 8, 'i'},  {"f16", 6, 2, 'f'},     {"f32", 7, 4, 'f'},
    {"f64", 8, 8, 'f'},      {"bf16", 9, 2, 'b'}, {"f32ftz", 10, 4, 'f'}, {"tf32", 11, 4, 'f'},
    {"tf32ftz", 12, 4, 'f'},
};

/// Bits for a type: random, with special numbers where it is a float.
inline std::vector<uint32_t> typed_words(const TmaType& type, uint64_t seed, size_t count) {
  if (type.kind == 'i') return random_words(seed, count);
  return float_words(seed, count, type.bytes * 8, type.kind == 'b');
}

class TmaDraw {
 public:
  TmaDraw(uint64_t seed, const TmaType& type, uint32_t rank, uint32_t swizzle, bool strided) {
    seed_ = seed;
    map.type = type.code;
    map.rank = rank;
    map.swizzle = swizzle;
    map.offset_bytes = 4 * kTmaHead;
    const uint32_t unit = 16 / type.bytes;
    const uint32_t span = swizzle == 0 ? 256 : 16u << swizzle;
    uint32_t widest = span / type.bytes;
    if (widest > 256) widest = 256;
    map.box[0] = unit * (1 + draw(widest / unit));
    map.dims[0] = unit + draw(2 * widest);
    uint64_t bytes = (map.dims[0] * type.bytes + 15) / 16 * 16 + 16 * draw(2);
    static constexpr uint32_t kLongest[5] = {0, 24, 6, 4, 3};
    rows = 1;
    for (uint32_t i = 1; i < rank; ++i) {
      const uint32_t most = rank == 2 ? 24 : (i == 1 ? 8 : kLongest[i]);
      map.dims[i] = 1 + draw(most);
      map.box[i] = 1 + draw(most);
      if (strided) map.element_strides[i] = 1 + draw(3);
      map.strides[i - 1] = bytes;
      bytes *= map.dims[i];
      rows *= (map.box[i] + map.element_strides[i] - 1) / map.element_strides[i];
    }
    tensor_bytes = bytes;
    box_bytes = rows * map.box[0] * type.bytes;
    const uint32_t pitch =
        swizzle == 0 ? map.box[0] * type.bytes : std::max(span, map.box[0] * type.bytes);
    shared_words = (rows * pitch + 127) / 128 * 32;
    coordinates[0] = static_cast<int32_t>(unit) * (static_cast<int32_t>(draw(3 * widest / unit)) -
                                                   static_cast<int32_t>(widest / unit));
    for (uint32_t i = 1; i < rank; ++i) {
      coordinates[i] = static_cast<int32_t>(draw(static_cast<uint32_t>(map.dims[i]) + map.box[i])) -
                       static_cast<int32_t>(map.box[i]) + 1;
    }
  }
  uint32_t draw(uint32_t limit) { return philox(51, seed_, drawn_++).word[0] % limit; }
  bool fits() const { return shared_words <= kTmaBox && tensor_bytes <= 32768; }

  MapSpec map;
  int32_t coordinates[5] = {};
  uint32_t rows = 1, shared_words = 0;
  uint64_t tensor_bytes = 0, box_bytes = 0;

 private:
  uint64_t seed_ = 0, drawn_ = 0;
};

/// %r1 to %r5: coordinates; %r6: bytes; %r7: of the box behind kTmaPlace; %d9: the first map.
inline std::string tma_head(uint32_t rank) {
  std::string text;
  for (uint32_t i = 0; i < rank; ++i) {
    text += "  ld.global.u32 %r" + number(1 + i) + ", [%d0+" + number(4 * i) + "];\n";
  }
  return text +
         "  ld.global.u32 %r6, [%d0+20];\n  ld.global.u32 %r7, [%d0+24];\n  mov.b64 %d9, map0;\n  "
         "cvta.param.u64 %d9, %d9;\n";
}

inline std::string barrier_made(const std::string& count) {
  return "  setp.ne.u32 %p1, %r0, 0;\n  @%p1 bra MADE;\n  mbarrier.init.shared::cta.b64 [%r399], " +
         count +
         ";\n  fence.mbarrier_init.release.cluster;\nMADE:\n"
         "  fence.proxy.async.shared::cta;\n  bar.sync 0;\n";
}

/// Stores whether the wait succeeded behind `words` words, then shared memory.
inline std::string flag_and_box(uint32_t words) {
  return "  selp.u32 %r30, 1, 2, %p38;\n  @!%p1 st.global.u32 [%d1+" + number(4 * words) +
         "], %r30;\n" + copy_out(9, kTmaPlace, 0, words);
}

inline std::string tile_load_text(uint32_t rank) {
  return entry(fill(0, kTmaPlace, kTmaBox) + tma_head(rank) + barrier_made("1") +
               "  add.u32 %r20, %r399, %r7;\n  add.u32 %r20, %r20, " + number(kTmaPlace) +
               ";\n  @%p1 bra WAIT;\n  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r399], %r6;\n"
               "  cp.async.bulk.tensor." +
               number(rank) +
               "d.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%d9, " +
               vector_of("%r", 1, rank) + "], [%r399];\nWAIT:\n" + wait_phase(1, "%r399", "0") +
               flag_and_box(kTmaBox));
}

/// A store or reduction of the box; op: empty, or ".add".
inline std::string tile_store_text(uint32_t rank, const std::string& op) {
  return entry(copy_in(0, kTmaPlace, kTmaHead, kTmaBox) + tma_head(rank) + barrier_made("1") +
               "  add.u32 %r20, %r399, %r7;\n  add.u32 %r20, %r20, " + number(kTmaPlace) +
               ";\n  @%p1 bra DONE;\n  " +
               (op.empty() ? "cp.async.bulk.tensor." : "cp.reduce.async.bulk.tensor.") +
               number(rank) + "d.global.shared::cta" + op + ".tile.bulk_group [%d9, " +
               vector_of("%r", 1, rank) +
               "], [%r20];\n  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\nDONE:\n");
}

inline KernelCase tile_case(const std::string& name, const TmaDraw& draw) {
  KernelCase c;
  c.name = name;
  c.threads = 64;
  c.shared_bytes = kTmaPlace + 4 * kTmaBox;
  c.maps.push_back(draw.map);
  c.in.assign(kTmaHead, 0);
  for (uint32_t i = 0; i < 5; ++i) c.in[i] = static_cast<uint32_t>(draw.coordinates[i]);
  c.in[5] = static_cast<uint32_t>(draw.box_bytes);
  // Where there is room, the box begins in the middle of a swizzle pattern.
  c.in[6] =
      draw.shared_words + 256 > kTmaBox ? 0 : 128 * static_cast<uint32_t>(draw.box_bytes / 16 % 8);
  return c;
}

inline TmaDraw draw_tile(uint64_t seed, const TmaType& type, uint32_t rank, uint32_t swizzle,
                         bool strided) {
  for (uint64_t again = 0;; ++again) {
    TmaDraw draw(seed * 1000 + again, type, rank, swizzle, strided);
    if (draw.fits()) return draw;
  }
}

inline void add_tile_loads(std::vector<KernelCase>* cases) {
  uint64_t seed = 1;
  for (const TmaType& type : kTmaTypes) {
    for (uint32_t rank = 1; rank <= 5; ++rank) {
      for (uint32_t turn = 0; turn < 2; ++turn, ++seed) {
        const uint32_t swizzle = (seed + turn) % 4;
        TmaDraw draw = draw_tile(seed, type, rank, swizzle, turn == 1);
        draw.map.nan_fill = type.kind != 'i' && turn == 1;
        KernelCase c = tile_case("tma_load." + number(rank) + "d." + type.name + ".swizzle" +
                                     number(swizzle) + (turn == 1 ? ".strided" : ""),
                                 draw);
        const auto tensor = typed_words(type, seed, draw.tensor_bytes / 4);
        c.in.insert(c.in.end(), tensor.begin(), tensor.end());
        c.text = tile_load_text(rank);
        c.out.assign(kTmaBox + 1, 0);
        cases->push_back(c);
      }
    }
  }
}

inline void add_tile_stores(std::vector<KernelCase>* cases) {
  uint64_t seed = 500;
  const auto add = [&](const std::string& name, const TmaType& type, uint32_t rank,
                       const std::string& op, bool strided) {
    const uint32_t swizzle = ++seed % 4;
    TmaDraw draw = draw_tile(seed, type, rank, swizzle, strided);
    draw.map.of_output = true;
    // A store that begins at a negative coordinate is an illegal instruction.
    for (int32_t& coordinate : draw.coordinates) coordinate = std::max(coordinate, 0);
    KernelCase c = tile_case(name + "." + number(rank) + "d." + type.name + ".swizzle" +
                                 number(swizzle) + (strided ? ".strided" : ""),
                             draw);
    const auto box = typed_words(type, seed, kTmaBox);
    c.in.insert(c.in.end(), box.begin(), box.end());
    c.out = typed_words(type, seed + 1, kTmaHead + draw.tensor_bytes / 4 + 64);
    c.text = tile_store_text(rank, op);
    cases->push_back(c);
  };
  for (uint32_t rank = 1; rank <= 5; ++rank) {
    for (const TmaType& type : kTmaTypes) {
      if ((type.code + rank) % 2 == 0 || rank == 2) {
        add("tma_store", type, rank, "", (type.code + rank) % 4 == 0);
      }
    }
  }
  const struct {
    const char* op;
    std::vector<uint32_t> types;
  } reductions[] = {
      {".add", {2, 3, 4, 6, 7, 8, 9, 10, 11, 12}},
      {".min", {2, 3, 4, 5, 6, 9}},
      {".max", {2, 3, 4, 5, 6, 9}},
      {".inc", {2}},
      {".dec", {2}},
      {".and", {2, 3, 4}},
      {".or", {2, 4}},
      {".xor", {2, 4}},
  };
  for (const auto& reduction : reductions) {
    for (const uint32_t type : reduction.types) {
      for (const uint32_t rank : {2u, 3u}) {
        add(std::string("tma_reduce") + reduction.op, kTmaTypes[type], rank, reduction.op, false);
      }
    }
  }
}

/// Plain copies: sizes and places in units of 16 bytes.
inline void add_bulk(std::vector<KernelCase>* cases) {
  for (const uint32_t bytes : {16u, 48u, 1024u, 8192u}) {
    KernelCase c;
    c.name = "bulk.round_trip." + number(bytes);
    c.threads = 64;
    c.shared_bytes = kTmaPlace + 4 * kTmaBox;
    c.in = random_words(bytes, kTmaHead + bytes / 4);
    c.in[5] = bytes;
    c.out.assign(bytes / 4 + 8, 0);
    const std::string b = number(bytes);
    c.text = entry(
        fill(0, kTmaPlace, kTmaBox) + tma_head(1) + barrier_made("1") + "  add.u32 %r20, %r399, " +
        number(kTmaPlace + 16) +
        ";\n  @%p1 bra WAIT;\n"
        "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r399], " +
        b +
        ";\n  add.u64 %d3, %d0, 256;\n"
        "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%d3], " +
        b + ", [%r399];\nWAIT:\n" + wait_phase(1, "%r399", "0") +
        "  @%p1 bra DONE;\n  ld.shared.u32 %r21, [%r20+4];\n  add.u32 %r21, %r21, 1;\n"
        "  st.shared.u32 [%r20+4], %r21;\n  fence.proxy.async.shared::cta;\n  add.u64 %d4, %d1, "
        "16;\n"
        "  cp.async.bulk.global.shared::cta.bulk_group [%d4], [%r20], " +
        b + ";\n  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;\nDONE:\n");
    cases->push_back(c);
  }
  constexpr AtomicForm kReductions[] = {
      {".add.u32", 32, 1, 'i'},  {".add.s32", 32, 1, 'i'},  {".add.u64", 64, 1, 'i'},
      {".inc.u32", 32, 1, 'i'},  {".dec.u32", 32, 1, 'i'},  {".min.u32", 32, 1, 'i'},
      {".min.s32", 32, 1, 'i'},  {".min.u64", 64, 1, 'i'},  {".min.s64", 64, 1, 'i'},
      {".max.u32", 32, 1, 'i'},  {".max.s32", 32, 1, 'i'},  {".max.u64", 64, 1, 'i'},
      {".max.s64", 64, 1, 'i'},  {".and.b32", 32, 1, 'i'},  {".or.b64", 64, 1, 'i'},
      {".xor.b32", 32, 1, 'i'},  {".add.f32", 32, 1, 'f'},  {".add.f64", 64, 1, 'f'},
      {".min.f16", 16, 1, 'f'},  {".max.f16", 16, 1, 'f'},  {".add.noftz.f16", 16, 1, 'f'},
      {".min.bf16", 16, 1, 'b'}, {".max.bf16", 16, 1, 'b'}, {".add.noftz.bf16", 16, 1, 'b'},
  };
  for (const AtomicForm& form : kReductions) {
    KernelCase c;
    c.name = std::string("bulk.reduce") + form.text;
    c.threads = 64;
    c.shared_bytes = kTmaPlace + 4096;
    const auto make = [&](uint64_t seed) {
      return form.kind == 'i' ? random_words(seed, 1024)
                              : float_words(seed, 1024, form.bits, form.kind == 'b');
    };
    c.in = make(seed_of(c.name) % 1000003u);
    c.out = make(seed_of(c.name) % 1000003u + 9);
    c.text = entry(copy_in(0, kTmaPlace, 0, 1024) + barrier_made("1") + "  add.u32 %r20, %r399, " +
                   number(kTmaPlace) +
                   ";\n  @%p1 bra DONE;\n  cp.reduce.async.bulk.global.shared::cta.bulk_group" +
                   form.text +
                   " [%d1], [%r20], 4096;\n  cp.async.bulk.commit_group;\n"
                   "  cp.async.bulk.wait_group 0;\nDONE:\n");
    cases->push_back(c);
  }
}

/// Loads that one CTA issues for several, and copies between the CTAs of a cluster.
inline void add_multicast(std::vector<KernelCase>* cases) {
  for (const uint32_t size : {2u, 4u}) {
    // CTA r loads rows 8r to 8r+7 for all CTAs of the cluster.
    KernelCase c;
    c.name = "tma_multicast.cluster" + number(size);
    c.ctas = 2 * size;
    c.cluster = size;
    c.threads = 64;
    c.shared_bytes = kTmaPlace + 4096;
    MapSpec map;
    map.type = 7;
    map.rank = 2;
    map.offset_bytes = 256;
    map.dims[0] = 32;
    map.dims[1] = 8 * size - 3;  // the last rows are out of bounds
    map.strides[0] = 128;
    map.box[0] = 32;
    map.box[1] = 8;
    map.swizzle = 3;
    c.maps.push_back(map);
    c.in = float_words(size, kTmaHead + 256 * size, 32, false);
    c.out.assign(2 * size * 1024, 0);
    const std::string all = number((1u << size) - 1), bytes = number(1024 * size);
    c.text = entry(
        fill(0, kTmaPlace, 1024) +
        "  setp.ne.u32 %p1, %r0, 0;\n  @%p1 bra MADE;\n  mbarrier.init.shared::cta.b64 [%r399], "
        "1;\n"
        "  fence.mbarrier_init.release.cluster;\n  mbarrier.arrive.expect_tx.shared::cta.b64 _, "
        "[%r399], " +
        bytes +
        ";\nMADE:\n  fence.proxy.async.shared::cta;\n"
        "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n"
        "  @%p1 bra WAIT;\n  mov.u32 %r10, %cluster_ctarank;\n  shl.b32 %r11, %r10, 3;\n"
        "  shl.b32 %r12, %r10, 10;\n  add.u32 %r13, %r399, %r12;\n  add.u32 %r13, %r13, " +
        number(kTmaPlace) + ";\n  mov.u32 %r14, 0;\n  mov.u16 %h1, " + all +
        ";\n  mov.b64 %d9, map0;\n  cvta.param.u64 %d9, %d9;\n"
        "  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%r13], [%d9, {%r14, %r11}], [%r399], %h1;\nWAIT:\n" +
        wait_phase(1, "%r399", "0") + copy_out(2, kTmaPlace, 0, 1024) +
        "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n");
    cases->push_back(c);
    // The same with plain copies: CTA r sends 1024 bytes to the CTAs of an even distance.
    KernelCase plain = c;
    plain.name = "bulk_multicast.cluster" + number(size);
    plain.maps.clear();
    const std::string some = number(size == 2 ? 1 : 5), come = number(512 * size);
    const size_t load = c.text.find("  mov.b64 %d9"), end = c.text.find("WAIT:");
    plain.text = c.text.substr(0, load) + "  and.b32 %r15, %r10, 1;\n  mov.u32 %r16, " + some +
                 ";\n  shl.b32 %r16, %r16, %r15;\n  cvt.u16.u32 %h1, %r16;\n"
                 "  cvt.u64.u32 %d3, %r12;\n  add.u64 %d3, %d3, %d0;\n"
                 "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%r13], [%d3], 1024, [%r399], %h1;\n" +
                 c.text.substr(end);
    plain.text.replace(plain.text.find(bytes + ";\nMADE"), bytes.size(), come);
    cases->push_back(plain);
    // Shared memory to that of the next CTA, and a reduction into it.
    for (const bool reduce : {false, true}) {
      KernelCase s;
      s.name = std::string("bulk.shared") + (reduce ? ".reduce" : "") + ".cluster" + number(size);
      s.ctas = s.cluster = size;
      s.threads = 64;
      s.shared_bytes = kTmaPlace + 4096;
      s.in = random_words(size, 512);
      s.out.assign(size * 1024, 0);
      s.text = entry(
          fill(0, kTmaPlace, 1024) + copy_in(1, kTmaPlace, 0, 512) +
          "  setp.ne.u32 %p1, %r0, 0;\n  @%p1 bra MADE;\n  mbarrier.init.shared::cta.b64 [%r399], "
          "1;"
          "\n  fence.mbarrier_init.release.cluster;\n  mbarrier.arrive.expect_tx.shared::cta.b64 "
          "_, "
          "[%r399], 2048;\n  mov.u32 %r10, %cluster_ctarank;\n  st.shared.u32 [%r399+1024], %r10;\n"
          "MADE:\n  fence.proxy.async.shared::cta;\n  barrier.cluster.arrive.release.aligned;\n"
          "  barrier.cluster.wait.acquire.aligned;\n  @%p1 bra WAIT;\n  add.u32 %r11, %r10, 1;\n"
          "  and.b32 %r11, %r11, " +
          number(size - 1) +
          ";\n  mapa.shared::cluster.u32 %r12, %r399, %r11;\n  add.u32 %r13, %r12, " +
          number(kTmaPlace + 2048) + ";\n  add.u32 %r14, %r399, " + number(kTmaPlace) + ";\n  " +
          (reduce ? "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes."
                    "xor.b32"
                  : "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes") +
          " [%r13], [%r14], 2048, [%r12];\nWAIT:\n" + wait_phase(1, "%r399", "0") +
          copy_out(2, kTmaPlace, 0, 1024) +
          "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n");
      cases->push_back(s);
    }
  }
}

/// A map that the kernel copies to shared memory, changes, publishes and loads with.
inline void add_replaced_maps(std::vector<KernelCase>* cases) {
  KernelCase c;
  c.name = "tensormap.replace";
  c.threads = 32;
  c.shared_bytes = kTmaPlace + 4 * kTmaBox;
  TmaDraw draw = draw_tile(77, kTmaTypes[1], 2, 0, false);
  MapSpec& map = draw.map;
  map.dims[0] = 64;
  map.dims[1] = 16;
  map.strides[0] = 128;
  map.box[0] = 64;
  map.box[1] = 8;
  c = tile_case(c.name, draw);
  c.threads = 32;
  c.in[0] = 0;
  c.in[1] = 5;
  c.in[5] = 64 * 2 * 6;
  const auto tensor = random_words(78, 2048);
  c.in.insert(c.in.end(), tensor.begin(), tensor.end());
  c.out.assign(kTmaBox + 64, 0);
  // The map in global memory: behind the recorded words, at a multiple of 128 bytes.
  const std::string global_map = number(4 * kTmaBox + 128);
  const auto replace = [](const std::string& field, const std::string& type,
                          const std::string& value) {
    return "  tensormap.replace.tile." + field + ".shared::cta.b1024." + type + " [%r21], " +
           value + ";\n";
  };
  c.text = entry(
      fill(0, kTmaPlace, kTmaBox) + tma_head(2) +
      "  shl.b32 %r22, %r0, 2;\n  cvt.u64.u32 %d10, %r22;\n  add.u64 %d10, %d10, %d9;\n"
      "  ld.u32 %r23, [%d10];\n  add.u32 %r21, %r399, 128;\n  add.u32 %r24, %r21, %r22;\n"
      "  st.shared.u32 [%r24], %r23;\n" +
      barrier_made("1") +
      "  add.u64 %d11, %d0, 512;\n  cvta.global.u64 %d11, %d11;\n  @%p1 bra "
      "REPLACED;\n" +
      replace("global_address", "b64", "%d11") + replace("box_dim", "b32", "1, 6") +
      replace("global_dim", "b32", "0, 61") + replace("global_dim", "b32", "1, 9") +
      replace("global_stride", "b64", "0, 144") + replace("swizzle_mode", "b32", "3") +
      replace("elemtype", "b32", "6") + replace("fill_mode", "b32", "1") +
      "REPLACED:\n  bar.warp.sync -1;\n  add.u64 %d12, %d1, " + global_map +
      ";\n  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
      "[%d12], [%r21], 128;\n  cvta.global.u64 %d13, %d12;\n"
      "  fence.proxy.tensormap::generic.acquire.gpu [%d13], 128;\n  add.u32 %r20, %r399, " +
      number(kTmaPlace) +
      ";\n  @%p1 bra WAIT;\n  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r399], %r6;\n"
      "  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], "
      "[%d13, {%r1, %r2}], [%r399];\nWAIT:\n" +
      wait_phase(1, "%r399", "0") + flag_and_box(kTmaBox) +
      // The map itself is opaque: erase it.
      "  bar.sync 0;\n  mov.u32 %r25, 0;\n  cvt.u64.u32 %d14, %r22;\n  add.u64 %d14, %d14, %d12;\n"
      "  st.global.u32 [%d14], %r25;\n");
  cases->push_back(c);
}

inline void add_tma(std::vector<KernelCase>* cases) {
  add_tile_loads(cases);
  add_tile_stores(cases);
  add_bulk(cases);
  add_multicast(cases);
  add_replaced_maps(cases);
}

}  // namespace flamia::silicon
