// Decoding of operand tiles.
#include "cpu/operand.h"

#include <cstring>

#include "base/bits.h"
#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/scale_codes.h"
#include "numerics/token_block_scale.h"

namespace flamia::cpu {

uint16_t* tensor_row(const TensorView& tensor, int head, int64_t token) {
  auto* base = static_cast<uint16_t*>(tensor.data);
  if (tensor.rank == 4) {
    const int64_t length = tensor.shape[1];
    return base + token / length * tensor.stride[0] + token % length * tensor.stride[1] +
           head * tensor.stride[2];
  }
  return base + token * tensor.stride[0] + head * tensor.stride[1];
}

const uint16_t* Operand::source_row(int head, int64_t token) const {
  return tensor_row(source, head, token);
}

const int8_t* Operand::padded_exponents(int head, int64_t token, int count, int8_t* padded) const {
  if (exp == nullptr) return nullptr;
  std::memcpy(padded, exp + head * tokens + token, static_cast<size_t>(count));
  std::memset(padded + count, kNoScaleExponent, static_cast<size_t>(kPaddedExponents - count));
  return padded;
}

Operand make_operand(const QuantizeSpec& spec, const TensorView& source, int64_t tokens, int heads,
                     int dim, Arena& arena) {
  Operand operand;
  operand.spec = spec;
  operand.heads = heads;
  operand.dim = dim;
  operand.tokens = tokens;
  operand.source = source;
  if (spec.scheme == Scheme::kBf16) return operand;
  const auto rows = [&](void* data, int64_t columns) {
    TensorView view;
    view.data = data;
    view.stride[0] = columns;
    view.stride[1] = tokens * columns;
    return ByteRows{view};
  };
  operand.codes = arena.take<uint8_t>(heads * tokens * dim);
  operand.code_rows = rows(operand.codes, dim);
  if (operand.has_exp()) {
    operand.exp = arena.take<int8_t>(heads * tokens);
    operand.exp_rows = rows(operand.exp, 1);
  }
  if (operand.scale_columns() > 0) {
    operand.scales = arena.take<uint8_t>(heads * tokens * operand.scale_columns());
    operand.scale_rows = rows(operand.scales, operand.scale_columns());
  }
  return operand;
}

namespace {

void decode_row(const Operand& operand, const uint8_t* codes, const uint8_t* scales, int dim,
                float* out) {
  switch (operand.spec.scheme) {
    case Scheme::kE4m3:
      for (int c = 0; c < dim; ++c) out[c] = decode_e4m3(codes[c]);
      break;
    case Scheme::kE2m1Token:
      for (int c = 0; c < dim; ++c) out[c] = decode_e2m1(codes[c]);
      break;
    case Scheme::kNvfp4Channels:
      for (int g = 0; g < dim / 16; ++g) {
        const float scale = decode_ue4m3(scales[g]);
        for (int c = 16 * g; c < 16 * g + 16; ++c) out[c] = decode_e2m1(codes[c]) * scale;
      }
      break;
    case Scheme::kNvfp4Tokens:
      for (int c = 0; c < dim; ++c) out[c] = decode_e2m1(codes[c]) * decode_ue4m3(scales[c]);
      break;
    case Scheme::kMxfp4Channels:
      for (int g = 0; g < dim / 32; ++g) {
        const float scale = decode_ue8m0(scales[g]);
        for (int c = 32 * g; c < 32 * g + 32; ++c) out[c] = decode_e2m1(codes[c]) * scale;
      }
      break;
    case Scheme::kMxfp4Tokens:
      for (int c = 0; c < dim; ++c) out[c] = decode_e2m1(codes[c]) * decode_ue8m0(scales[c]);
      break;
    case Scheme::kBf16:
      break;
  }
}

}  // namespace

void load_tile(const Operand& operand, int head, int64_t first, int rows, Exponents exponents,
               float* out) {
  const int dim = operand.dim;
  for (int r = 0; r < rows; ++r) {
    const int64_t token = first + r;
    float* row = out + static_cast<int64_t>(r) * dim;
    if (operand.spec.scheme == Scheme::kBf16) {
      const uint16_t* source = operand.source_row(head, token);
      for (int c = 0; c < dim; ++c) row[c] = bf16_to_float(source[c]);
      continue;
    }
    const int64_t at = head * operand.tokens + token;
    decode_row(operand, operand.codes + at * dim, operand.scales + at * operand.scale_columns(),
               dim, row);
    if (exponents == Exponents::kApply && operand.exp != nullptr) {
      const float factor = pow2(operand.exp[at]);
      for (int c = 0; c < dim; ++c) row[c] *= factor;
    }
  }
}

}  // namespace flamia::cpu
