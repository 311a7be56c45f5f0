// Bit fields, addresses and legal shapes of matrix and instruction descriptors.
// Used by: see descriptors.h.
#include "emulator/tensor/descriptors.h"

#include <cstring>

#include "base/bits.h"
#include "base/message.h"

namespace flamia::emulator {
namespace {

constexpr uint32_t kAddressMask = 0x3ffffu;  // 18 bits of byte address

uint32_t decode_field(uint64_t bits, int shift) {
  return static_cast<uint32_t>((bits >> shift) & 0x3fffu) << 4;
}

Fault bad_descriptor(const char* what, uint64_t bits, std::string rule) {
  return make_fault(FaultKind::kBadOperand,
                    concat(what, " descriptor ", hex(bits), ": ", std::move(rule)));
}

uint32_t bit(uint64_t bits, int at) { return static_cast<uint32_t>(bits >> at) & 1u; }
uint32_t field(uint64_t bits, int at, int width) {
  return static_cast<uint32_t>(bits >> at) & ((1u << width) - 1u);
}

}  // namespace

uint32_t swizzle_span(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::kNone:
      return 16;
    case Swizzle::k32B:
      return 32;
    case Swizzle::k64B:
      return 64;
    case Swizzle::k96B:
      return 96;
    case Swizzle::k128B:
    case Swizzle::k128BAtom32:
    case Swizzle::k128BAtom32Flip8:
    case Swizzle::k128BAtom64:
      return 128;
  }
  return 16;
}

uint32_t swizzle_period(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::kNone:
      return 16;
    case Swizzle::k32B:
    case Swizzle::k96B:
    case Swizzle::k128BAtom64:
      return 256;
    case Swizzle::k64B:
    case Swizzle::k128BAtom32:
    case Swizzle::k128BAtom32Flip8:
      return 512;
    case Swizzle::k128B:
      return 1024;
  }
  return 16;
}

uint32_t swizzled(Swizzle swizzle, uint32_t a) {
  switch (swizzle) {
    case Swizzle::kNone:
      return a;
    case Swizzle::k32B:
    case Swizzle::k96B:
      return a ^ ((a >> 7 & 1u) << 4);
    case Swizzle::k64B:
      return a ^ ((a >> 7 & 3u) << 4);
    case Swizzle::k128B:
      return a ^ ((a >> 7 & 7u) << 4);
    case Swizzle::k128BAtom32:
      return a ^ ((a >> 7 & 3u) << 5);
    case Swizzle::k128BAtom32Flip8:
      return a ^ ((a >> 7 & 3u) << 5) ^ ((a >> 7 & 1u) << 3);
    case Swizzle::k128BAtom64:
      return a ^ ((a >> 7 & 1u) << 6);
  }
  return a;
}

Fault decode_wgmma_descriptor(uint64_t bits, MatrixDescriptor* out) {
  constexpr uint64_t kReserved =
      uint64_t{3} << 14 | uint64_t{3} << 30 | uint64_t{7} << 46 | uint64_t{0x3ff} << 52;
  if ((bits & kReserved) != 0) return bad_descriptor("wgmma", bits, "reserved bits must be zero");
  static constexpr Swizzle kModes[] = {Swizzle::kNone, Swizzle::k128B, Swizzle::k64B,
                                       Swizzle::k32B};
  *out = {decode_field(bits, 0), decode_field(bits, 16), decode_field(bits, 32), kModes[bits >> 62],
          false};
  if (field(bits, 49, 3) != 0) {
    return make_fault(FaultKind::kUnsupported,
                      concat("wgmma descriptor ", hex(bits), ": base offset must be 0"));
  }
  return {};
}

Fault decode_tcgen05_descriptor(uint64_t bits, bool allow_absolute, MatrixDescriptor* out) {
  constexpr uint64_t kReserved = uint64_t{3} << 14 | uint64_t{3} << 30 | uint64_t{0xff} << 53;
  if ((bits & kReserved) != 0) return bad_descriptor("tcgen05", bits, "reserved bits must be zero");
  if (field(bits, 46, 3) != 1) {
    return bad_descriptor("tcgen05", bits, "bits 46 to 48 must be 0b001");
  }
  Swizzle swizzle = Swizzle::kNone;
  switch (bits >> 61) {
    case 0:
      break;
    case 1:
      swizzle = Swizzle::k128BAtom32;
      break;
    case 2:
      swizzle = Swizzle::k128B;
      break;
    case 4:
      swizzle = Swizzle::k64B;
      break;
    case 6:
      swizzle = Swizzle::k32B;
      break;
    default:
      return bad_descriptor("tcgen05", bits,
                            concat("swizzle mode must be 0, 1, 2, 4 or 6; got ", bits >> 61));
  }
  *out = {decode_field(bits, 0), decode_field(bits, 16), decode_field(bits, 32), swizzle,
          bit(bits, 52) != 0};
  if (field(bits, 49, 3) != 0) {
    return make_fault(FaultKind::kUnsupported,
                      concat("tcgen05 descriptor ", hex(bits), ": base offset must be 0"));
  }
  if (out->absolute_leading && (!allow_absolute || swizzle != Swizzle::k128B)) {
    return bad_descriptor("tcgen05", bits,
                          "the absolute leading address needs K = 96 on sm_103a and 128B swizzle");
  }
  return {};
}

uint32_t element_offset(const SharedOperand& operand, uint32_t row, uint32_t k) {
  const MatrixDescriptor& d = operand.descriptor;
  const bool plain = d.swizzle == Swizzle::kNone;
  const uint32_t span = swizzle_span(d.swizzle);
  uint32_t linear = d.start;
  if (!operand.mn_major) {
    const uint32_t bytes = k * operand.element_bits / 8;
    linear += row / 8 * d.stride + row % 8 * span;
    if (plain) {
      linear += bytes / 16 * d.leading + bytes % 16;
    } else if (d.absolute_leading && d.start % 128 + bytes >= 128) {
      linear += d.leading - d.start + (d.start % 128 + bytes - 128);
    } else {
      linear += bytes;
    }
  } else {
    const uint32_t element = operand.element_bits / 8;
    const uint32_t per_span = span / element;
    // 4-byte elements come with the 32-byte atom only, whose groups are 4 deep.
    const uint32_t group = element == 4 ? 4 : 8;
    linear += row % per_span * element;
    const uint32_t deep = k / group, wide = row / per_span;
    linear += k % group * span;
    linear += plain ? wide * d.stride + deep * d.leading : wide * d.leading + deep * d.stride;
  }
  return swizzled(d.swizzle, linear & kAddressMask);
}

Fault read_operand(const SharedMemory& shared, const SharedOperand& operand, uint32_t rows,
                   uint32_t k, uint8_t* out, std::vector<uint32_t>* chunks) {
  const uint32_t row_bytes = k * operand.element_bits / 8;
  const uint32_t element = operand.element_bits / 8;
  Fault fault;
  const auto read_chunk = [&](uint32_t offset, uint8_t* to) {
    if (!shared.contains(offset, 16)) {
      if (fault.ok() || fault.kind == FaultKind::kUninitialized) {
        fault = make_fault(FaultKind::kOutOfBounds,
                           concat("matrix operand: offset ", hex(offset),
                                  " + 16 bytes is outside the shared memory of the CTA (",
                                  hex(shared.begin()), " to ", hex(shared.end()), ")"),
                           offset);
      }
      std::memset(to, 0, 16);
      return;
    }
    std::memcpy(to, shared.at(offset), 16);
    if (chunks != nullptr) chunks->push_back(offset);
    const uint64_t hole = shared.first_unwritten(offset, operand.payload_bytes);
    if (hole != operand.payload_bytes && fault.ok()) {
      fault = make_fault(
          FaultKind::kUninitialized,
          concat("matrix operand: the byte at offset ", hex(offset + hole), " was never written"),
          offset);
    }
  };
  if (!operand.mn_major) {
    for (uint32_t row = 0; row < rows; ++row) {
      for (uint32_t at = 0; at < row_bytes; at += 16) {
        const uint32_t first = at * 8 / operand.element_bits;
        read_chunk(element_offset(operand, row, first), out + row * row_bytes + at);
      }
    }
  } else {
    const uint32_t per_chunk = 16 / element;
    for (uint32_t depth = 0; depth < k; ++depth) {
      for (uint32_t row = 0; row < rows; row += per_chunk) {
        uint8_t chunk[16];
        read_chunk(element_offset(operand, row, depth), chunk);
        const uint32_t wanted = smaller(per_chunk, rows - row);
        for (uint32_t i = 0; i < wanted; ++i) {
          std::memcpy(out + (row + i) * row_bytes + depth * element, chunk + i * element, element);
        }
      }
    }
  }
  return fault;
}

namespace {

/// Storage and code tables of the operand types.
bool f8f6f4_format(uint32_t code, ElementFormat* out) {
  switch (code) {
    case 0:
      *out = ElementFormat::kE4M3;
      return true;
    case 1:
      *out = ElementFormat::kE5M2;
      return true;
    case 3:
      *out = ElementFormat::kE2M3;
      return true;
    case 4:
      *out = ElementFormat::kE3M2;
      return true;
    case 5:
      *out = ElementFormat::kE2M1;
      return true;
    default:
      return false;
  }
}

Fault bad_idesc(uint32_t bits, std::string rule) {
  return make_fault(FaultKind::kBadOperand,
                    concat("tcgen05.mma idesc ", hex(bits), ": ", std::move(rule)));
}

Fault decode_types(uint32_t bits, InstructionDescriptor* out) {
  const uint32_t a = field(bits, 7, 3), b = field(bits, 10, 3);
  bool ok = true;
  switch (out->kind) {
    case TensorKind::kF16:
      ok = a <= 1 && b <= 1;
      out->a = a == 0 ? ElementFormat::kF16 : ElementFormat::kBF16;
      out->b = b == 0 ? ElementFormat::kF16 : ElementFormat::kBF16;
      break;
    case TensorKind::kTf32:
      ok = a == 2 && b == 2;
      out->a = out->b = ElementFormat::kTF32;
      break;
    case TensorKind::kF8f6f4:
    case TensorKind::kMxf8f6f4:
      ok = f8f6f4_format(a, &out->a) && f8f6f4_format(b, &out->b);
      break;
    case TensorKind::kMxf4:
    case TensorKind::kMxf4nvf4:
      ok = a == 1 && b == 1;
      out->a = out->b = ElementFormat::kE2M1;
      break;
    case TensorKind::kI8:
      ok = false;
      break;
  }
  if (!ok) return bad_idesc(bits, concat("types ", a, " and ", b, " are none of this kind"));
  return {};
}

Fault check_shape(uint32_t bits, const InstructionForm& form, const InstructionDescriptor& d) {
  const bool scaled = d.scale_format != ScaleFormat::kNone;
  const bool m_ok =
      form.cta_group == 1 ? d.m == 128 || (!scaled && d.m == 64) : d.m == 128 || d.m == 256;
  const uint32_t step = form.cta_group == 1 ? 8 : 16;
  if (!m_ok || d.n < step || d.n > 256 || d.n % step != 0) {
    return bad_idesc(
        bits, concat("shape m", d.m, " n", d.n, " is not legal with cta_group::", form.cta_group));
  }
  const bool wide_b = d.mn_major_b && d.kind != TensorKind::kF16 && d.kind != TensorKind::kTf32;
  if (wide_b && d.n % (2 * step) != 0) {
    return bad_idesc(bits, concat("n must be a multiple of ", 2 * step,
                                  " with a transposed 8-bit B; got ", d.n));
  }
  if (form.a_in_tensor_memory && d.mn_major_a) {
    return bad_idesc(bits, "A in tensor memory cannot be transposed");
  }
  const auto sub_byte = [](ElementFormat f) { return f >= ElementFormat::kE2M3; };
  if ((d.mn_major_a && sub_byte(d.a)) || (d.mn_major_b && sub_byte(d.b))) {
    return make_fault(FaultKind::kUnsupported,
                      concat("tcgen05.mma idesc ", hex(bits),
                             ": transposed 4- and 6-bit operands are not modelled"));
  }
  return {};
}

}  // namespace

Fault decode_instruction(uint32_t bits, const InstructionForm& form, InstructionDescriptor* out) {
  InstructionDescriptor d;
  d.kind = form.kind;
  if (form.kind == TensorKind::kI8) {
    return make_fault(FaultKind::kUnsupported, "tcgen05.mma kind::i8 is not modelled");
  }
  if (bit(bits, 2) != 0) {
    return make_fault(FaultKind::kUnsupported, "sparse tcgen05.mma is not modelled");
  }
  const bool scaled = form.kind >= TensorKind::kMxf8f6f4;
  const bool fp4 = form.kind == TensorKind::kMxf4 || form.kind == TensorKind::kMxf4nvf4;
  const uint32_t reserved = !scaled ? 0x2080004bu : (fp4 ? 0x0700004bu : 0x8700004bu);
  const uint32_t fp4_reserved = fp4 ? 1u << 12 : 0u;
  if ((bits & (reserved | fp4_reserved)) != 0) {
    return bad_idesc(bits, concat("reserved or unsupported bits must be zero; got ",
                                  hex(bits & (reserved | fp4_reserved))));
  }
  d.negate_a = bit(bits, 13) != 0;
  d.negate_b = bit(bits, 14) != 0;
  d.mn_major_a = bit(bits, 15) != 0;
  d.mn_major_b = bit(bits, 16) != 0;
  d.n = field(bits, 17, 6) * 8;
  Fault fault = decode_types(bits, &d);
  if (!fault.ok()) return fault;
  if (!scaled) {
    d.m = field(bits, 24, 5) * 16;
    const uint32_t type = field(bits, 4, 2);
    d.f16_result = type == 0;
    const bool f16_allowed =
        form.kind == TensorKind::kF8f6f4 ||
        (form.kind == TensorKind::kF16 && d.a == ElementFormat::kF16 && d.b == ElementFormat::kF16);
    if (type > 1 || (type == 0 && !f16_allowed)) {
      return bad_idesc(bits, concat("D type ", type, " is not legal with these operands"));
    }
    if (field(bits, 30, 2) != 0) {
      return make_fault(FaultKind::kUnsupported, "tcgen05.mma.ws is not modelled");
    }
    d.k = form.kind == TensorKind::kF16 ? 16 : (form.kind == TensorKind::kTf32 ? 8 : 32);
  } else {
    d.m = field(bits, 27, 2) * 128;
    d.sfb_id = field(bits, 4, 2);
    d.sfa_id = field(bits, 29, 2);
    d.scale_format = bit(bits, 23) != 0 ? ScaleFormat::kUE8M0 : ScaleFormat::kUE4M3;
    d.k = fp4 ? (bit(bits, 31) != 0 ? 96 : 64) : 32;
    d.scale_block = form.scale_block != 0 ? form.scale_block : 32;
    if (d.k == 96 && !form.sm103) return bad_idesc(bits, "K = 96 needs sm_103a");
    const bool ue8m0_only = form.kind != TensorKind::kMxf4nvf4 || d.scale_block == 32;
    if (ue8m0_only && d.scale_format != ScaleFormat::kUE8M0) {
      return bad_idesc(bits, "scale type must be UE8M0 (bit 23) for this kind");
    }
    if (d.scale_block == 16 && form.kind != TensorKind::kMxf4nvf4) {
      return bad_idesc(bits, "only kind::mxf4nvf4 has a scale per 16 elements");
    }
    if (fp4 && (d.mn_major_a || d.mn_major_b)) {
      return bad_idesc(bits, "4-bit kinds have no transposed operands");
    }
    // K = 96 lets the ids run on into the next word of scales.
    const uint32_t step =
        !fp4 ? 1 : (d.k == 96 ? (d.scale_block == 16 ? 2 : 1) : (d.scale_block == 16 ? 4 : 2));
    if (d.sfa_id % step != 0 || d.sfb_id % step != 0) {
      return bad_idesc(bits, concat("scale ids must be multiples of ", step, "; got ", d.sfa_id,
                                    " and ", d.sfb_id));
    }
  }
  fault = check_shape(bits, form, d);
  if (!fault.ok()) return fault;
  *out = d;
  return {};
}

}  // namespace flamia::emulator
