// Cases of atom and red in global and shared memory: every type, scalar and vector, one address a
// lane, so that the order of lanes does not matter.
// Depends on: kernel_case.h. Used by: kernel_cases.h.
#pragma once

#include "tests/cuda/silicon/kernel_case.h"

namespace flamia::silicon {

/// Words that meet at subnormals, infinities and NaN now and then, for elements of 16, 32, 64 bits.
inline std::vector<uint32_t> float_words(uint64_t seed, size_t count, uint32_t bits, bool bf16) {
  std::vector<uint32_t> words = random_words(seed, count);
  const std::vector<uint32_t> choice = random_words(seed + 1, count);
  for (size_t i = 0; i < count; ++i) {
    uint32_t& w = words[i];
    const uint32_t c = choice[i] >> 8;
    if (bits == 16) {
      const uint32_t field = bf16 ? 0x7f80u : 0x7c00u;
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t pick = c >> (4 * half) & 15u, shift = 16 * half;
        if (pick < 4) w &= ~(field << shift);                           // subnormal
        if (pick == 4) w |= field << shift;                             // NaN
        if (pick == 5) w = (w & ~(0x7fffu << shift)) | field << shift;  // infinity
        if (pick > 10) w = (w & ~(field << shift)) | (bf16 ? 0x3f80u : 0x3c00u) << shift;
      }
    } else if (bits == 32) {
      const uint32_t pick = c & 15u;
      if (pick < 5) w &= 0x807fffffu;
      if (pick == 5) w |= 0x7f800000u;
      if (pick == 6) w = (w & 0x80000000u) | 0x7f800000u;
      if (pick == 7) w = (w & 0x807fffffu) | 0x00800000u;
      if (pick > 10) w = (w & 0x80ffffffu) | 0x3f000000u;
    } else if ((i & 1u) != 0) {
      const uint32_t pick = c & 15u;
      if (pick < 4) w &= 0x800fffffu;
      if (pick == 4) w |= 0x7ff00000u;
      if (pick > 7) w = (w & 0x800fffffu) | 0x3ff00000u;
    }
  }
  return words;
}

struct AtomicForm {
  const char* text;  ///< ".add.u32"
  uint32_t bits;     ///< of one element
  uint32_t count;    ///< elements of a vector
  char kind;         ///< i, f, b (bf16)
};

/// registers: 'r' 32-bit words, 'd' pairs of words.
inline KernelCase atomic_case(const AtomicForm& form, bool shared, bool red) {
  KernelCase c;
  c.name = std::string(red ? "red" : "atom") + (shared ? ".shared" : ".global") + form.text;
  const bool cas = std::strstr(form.text, "cas") != nullptr;
  const uint32_t words = form.bits * form.count / 32 == 0 ? 1 : form.bits * form.count / 32;
  const uint32_t stride = words;  ///< words a lane
  const uint32_t count = 32 * stride * 8;
  const uint64_t seed = seed_of(form.text) % 1000003u;
  const auto make = [&](uint64_t s) {
    return form.kind == 'i' ? random_words(s, count)
                            : float_words(s, count, form.bits, form.kind == 'b');
  };
  c.in = make(seed);
  c.threads = 256;
  if (cas) {
    // Half of the comparisons hold.
    const auto swap = make(seed + 5);
    c.in.insert(c.in.end(), swap.begin(), swap.end());
  }
  c.out = make(seed + 7);
  if (cas) {
    for (uint32_t i = 0; i < count; ++i) {
      if ((i / stride & 1u) != 0) c.out[i] = c.in[i];
    }
  }
  const std::string bytes = number(4 * stride);
  std::string text = "  mul.wide.u32 %d2, %r0, " + bytes +
                     ";\n  add.u64 %d3, %d2, %d1;\n  add.u64 %d2, %d2, %d0;\n  mul.lo.u32 %r20, "
                     "%r0, " +
                     bytes + ";\n  add.u32 %r20, %r20, %r399;\n";
  // Operands: of elements as the vector has them.
  const uint32_t elements = form.count;
  const std::string load = form.bits == 64 ? "u64" : (form.bits == 16 ? "u16" : "u32");
  const std::string letter = form.bits == 64 ? "d" : (form.bits == 16 ? "h" : "r");
  const uint32_t each = form.bits / 8;
  const auto list = [&](uint32_t first) {
    return elements == 1 ? "%" + letter + number(first) : vector_of("%" + letter, first, elements);
  };
  if (form.bits == 128) {
    text += "  ld.global.v2.u64 {%d10, %d11}, [%d2];\n  mov.b128 %q0, {%d10, %d11};\n";
    if (cas) {
      text += "  ld.global.v2.u64 {%d12, %d13}, [%d2+" + number(4 * count) +
              "];\n  mov.b128 %q1, {%d12, %d13};\n";
    }
  } else {
    for (uint32_t e = 0; e < elements; ++e) {
      text += "  ld.global." + load + " %" + letter + number(10 + e) + ", [%d2+" +
              number(e * each) + "];\n";
    }
    if (cas) {
      text += "  ld.global." + load + " %" + letter + "20, [%d2+" + number(4 * count) + "];\n";
      if (letter == "r") text += "  mov.u32 %r30, %r20;\n";
    }
  }
  if (letter == "r" && cas) {
    // %r20 was the shared address: make it again.
    text += "  mul.lo.u32 %r20, %r0, " + bytes + ";\n  add.u32 %r20, %r20, %r399;\n";
  }
  if (shared) {
    for (uint32_t w = 0; w < stride; ++w) {
      text += "  ld.global.u32 %r200, [%d3+" + number(4 * w) + "];\n  st.shared.u32 [%r20+" +
              number(4 * w) + "], %r200;\n";
    }
  }
  const std::string place = shared ? "[%r20]" : "[%d3]";
  const std::string space = shared ? ".shared" : ".global";
  const std::string swap = letter == "r" ? "%r30" : "%" + letter + "20";
  if (form.bits == 128) {
    text += "  atom" + space + form.text + " %q2, " + place + ", %q0" + (cas ? ", %q1" : "") +
            ";\n  mov.b128 {%d14, %d15}, %q2;\n";
  } else {
    text += std::string("  ") + (red ? "red" : "atom") + space + form.text + " " +
            (red ? "" : list(40 - (letter == "h" ? 10 : 0)) + ", ") + place + ", " + list(10) +
            (cas ? ", " + swap : "") + ";\n";
  }
  // The result, then (atom) what was returned.
  if (shared) {
    for (uint32_t w = 0; w < stride; ++w) {
      text += "  ld.shared.u32 %r200, [%r20+" + number(4 * w) + "];\n  st.global.u32 [%d3+" +
              number(4 * w) + "], %r200;\n";
    }
  }
  if (!red) {
    const std::string back = number(4 * count);
    if (form.bits == 128) {
      text += "  st.global.v2.u64 [%d3+" + back + "], {%d14, %d15};\n";
    } else {
      for (uint32_t e = 0; e < elements; ++e) {
        text += "  st.global." + load + " [%d3+" + number(4 * count + e * each) + "], %" + letter +
                number(40 - (letter == "h" ? 10 : 0) + e) + ";\n";
      }
    }
    c.out.resize(2 * count, 0);
  }
  c.shared_bytes = shared ? 4 * count : 0;
  c.text = entry(text);
  return c;
}

inline void add_atomics(std::vector<KernelCase>* cases) {
  constexpr AtomicForm kScalar[] = {
      {".add.u32", 32, 1, 'i'},          {".add.s32", 32, 1, 'i'},
      {".add.u64", 64, 1, 'i'},          {".min.u32", 32, 1, 'i'},
      {".min.s32", 32, 1, 'i'},          {".min.u64", 64, 1, 'i'},
      {".min.s64", 64, 1, 'i'},          {".max.u32", 32, 1, 'i'},
      {".max.s32", 32, 1, 'i'},          {".max.u64", 64, 1, 'i'},
      {".max.s64", 64, 1, 'i'},          {".inc.u32", 32, 1, 'i'},
      {".dec.u32", 32, 1, 'i'},          {".and.b32", 32, 1, 'i'},
      {".or.b32", 32, 1, 'i'},           {".xor.b32", 32, 1, 'i'},
      {".and.b64", 64, 1, 'i'},          {".or.b64", 64, 1, 'i'},
      {".xor.b64", 64, 1, 'i'},          {".add.f32", 32, 1, 'f'},
      {".add.f64", 64, 1, 'f'},          {".add.noftz.f16", 16, 1, 'f'},
      {".add.noftz.bf16", 16, 1, 'b'},   {".add.noftz.f16x2", 32, 1, 'h'},
      {".add.noftz.bf16x2", 32, 1, 'c'},
  };
  for (AtomicForm form : kScalar) {
    for (const bool shared : {false, true}) {
      for (const bool red : {false, true}) {
        KernelCase c = atomic_case(form, shared, red);
        if (form.kind == 'h' || form.kind == 'c') {
          // Packed operands: words of two halves.
          const auto in = float_words(61, c.in.size(), 16, form.kind == 'c');
          const auto out = float_words(63, c.in.size(), 16, form.kind == 'c');
          c.in = in;
          std::copy(out.begin(), out.end(), c.out.begin());
        }
        cases->push_back(c);
      }
    }
  }
  constexpr AtomicForm kExchanges[] = {
      {".exch.b32", 32, 1, 'i'},  {".exch.b64", 64, 1, 'i'}, {".cas.b32", 32, 1, 'i'},
      {".cas.b64", 64, 1, 'i'},   {".cas.b16", 16, 1, 'i'},  {".exch.b128", 128, 1, 'i'},
      {".cas.b128", 128, 1, 'i'},
  };
  for (const AtomicForm& form : kExchanges) {
    for (const bool shared : {false, true}) cases->push_back(atomic_case(form, shared, false));
  }
  constexpr AtomicForm kVectors[] = {
      {".v2.f32.add", 32, 2, 'f'},         {".v4.f32.add", 32, 4, 'f'},
      {".v2.f16.add.noftz", 16, 2, 'f'},   {".v4.f16.add.noftz", 16, 4, 'f'},
      {".v8.f16.add.noftz", 16, 8, 'f'},   {".v4.bf16.add.noftz", 16, 4, 'b'},
      {".v8.bf16.max.noftz", 16, 8, 'b'},  {".v4.f16.min.noftz", 16, 4, 'f'},
      {".v2.f16x2.add.noftz", 32, 2, 'h'}, {".v4.bf16x2.add.noftz", 32, 4, 'c'},
      {".v4.f16x2.max.noftz", 32, 4, 'h'}, {".v2.bf16x2.min.noftz", 32, 2, 'c'},
  };
  for (const AtomicForm& form : kVectors) {
    // PTX spells .vec before the operation's type: atom.global.v2.f32.add is written add.v2.f32.
    std::string text = form.text;
    const size_t op = text.find('.', text.find('.', 1) + 1);
    const std::string vector = text.substr(1, text.find('.', 1) - 1);
    const std::string type = text.substr(vector.size() + 2, op - vector.size() - 2);
    const std::string spelled = text.substr(op) + "." + vector + "." + type;
    for (const bool red : {false, true}) {
      AtomicForm written = form;
      written.text = spelled.c_str();
      KernelCase c = atomic_case(written, false, red);
      if (form.kind == 'h' || form.kind == 'c') {
        const auto in = float_words(71, c.in.size(), 16, form.kind == 'c');
        const auto out = float_words(73, c.in.size(), 16, form.kind == 'c');
        c.in = in;
        std::copy(out.begin(), out.end(), c.out.begin());
      }
      cases->push_back(c);
    }
  }
}

}  // namespace flamia::silicon
