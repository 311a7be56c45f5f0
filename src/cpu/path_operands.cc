// The table of representations, as one function of the conventions.
#include "cpu/path_operands.h"

#include "numerics/online_softmax.h"
#include "numerics/tensor_core.h"

namespace flamia::cpu {
namespace {

Scheme all_4bit_scheme(Use use) {
  switch (use) {
    case Use::kQueryScore:
    case Use::kKeyScore:
      return Scheme::kNvfp4Channels;
    case Use::kValue:
      return Scheme::kNvfp4Tokens;
    case Use::kValueDiagonal:
    case Use::kKeyGrad:
      return Scheme::kE2m1Token;
    case Use::kValueGrad:
    case Use::kOutputGrad:
      return Scheme::kMxfp4Channels;
    case Use::kOutputGradKeys:
    case Use::kQueryGrad:
      return Scheme::kMxfp4Tokens;
  }
  return Scheme::kBf16;
}

}  // namespace

QuantizeSpec operand_spec(const Conventions& conventions, Use use) {
  QuantizeSpec spec;
  spec.per_token = conventions.safety == Safety::kExact;
  const bool score = use == Use::kQueryScore || use == Use::kKeyScore;
  const bool gradient = use == Use::kQueryGrad || use == Use::kKeyGrad;
  const bool product_of_gradients = gradient || use == Use::kOutputGradKeys;
  const bool rotate = conventions.hadamard == Hadamard::kOn;
  switch (conventions.path) {
    case Path::kBf16:
      spec.scheme = Scheme::kBf16;
      break;
    case Path::kMxfp8:
      spec.scheme = Scheme::kE4m3;
      spec.hadamard = rotate && (score || gradient);  // gradients reuse the rotated codes
      if (score && conventions.score_accumulator == ScoreAccumulator::kF16) {
        spec.headroom_exponent = kHalfAccumulatorHeadroom;
      }
      break;
    case Path::kNvfp4:
      spec.scheme = score ? Scheme::kNvfp4Channels : Scheme::kE4m3;
      spec.hadamard = rotate && score;  // gradients use unrotated E4M3 copies
      break;
    case Path::kAll4Bit:
      spec.scheme = all_4bit_scheme(use);
      if (use == Use::kValue && spec.per_token) spec.scheme = Scheme::kE2m1Token;
      spec.hadamard = rotate && score;
      spec.per_token = false;  // its schemes say per scheme what they share
      break;
  }
  if (product_of_gradients && conventions.grad_products == GradProducts::kBf16) {
    spec = QuantizeSpec{};
    spec.scheme = Scheme::kBf16;
  }
  return spec;
}

Use use_of(Role role, ContractionAxis axis) {
  const bool channels = axis == ContractionAxis::kHeadDim;
  switch (role) {
    case Role::kQ:
      return channels ? Use::kQueryScore : Use::kQueryGrad;
    case Role::kK:
      return channels ? Use::kKeyScore : Use::kKeyGrad;
    case Role::kV:
      return channels ? Use::kValueGrad : Use::kValue;
    case Role::kDo:
      return channels ? Use::kOutputGrad : Use::kOutputGradKeys;
  }
  return Use::kQueryScore;
}

PForm p_form(const Conventions& conventions) {
  switch (conventions.path) {
    case Path::kBf16:
      return PForm::kBf16;
    case Path::kMxfp8:
      return PForm::kE4m3;
    case Path::kNvfp4:
      return conventions.family == Family::kHopper ? PForm::kE4m3 : PForm::kE4m3Group;
    case Path::kAll4Bit:
      return PForm::kE2m1Group;
  }
  return PForm::kBf16;
}

bool folds_exponents(const Conventions& conventions) {
  return conventions.path == Path::kAll4Bit || conventions.family == Family::kHopper;
}

Narrow score_width(const Conventions& conventions) {
  return conventions.path == Path::kMxfp8 ? Narrow::kFp8 : Narrow::kWide;
}

Narrow value_width(const Conventions& conventions) {
  return conventions.path == Path::kMxfp8 || conventions.path == Path::kNvfp4 ? Narrow::kFp8
                                                                              : Narrow::kWide;
}

ProductModel product_model(const Conventions& conventions, Narrow narrow) {
  constexpr int kE4m3Min = -6;
  constexpr int kE5m2Min = -14;
  constexpr int kFloatMin = -126;
  ProductModel model;
  model.exact = conventions.accumulate == Accumulate::kExact;
  const bool hopper = conventions.family == Family::kHopper;
  const bool fp8 = narrow != Narrow::kWide;
  const AccumulatorModel row = fp8 ? (hopper ? kHopperFp8Accumulator : kBlackwellF8f6f4Accumulator)
                                   : (hopper ? kHopperF16Accumulator : kBlackwellMxf4Accumulator);
  model.chunk = row.chunk;
  model.fraction_bits = row.product_fraction_bits;
  model.result_bits = row.result_fraction_bits;
  // Blackwell's operands carry their block scales here, so subnormal codes count as normalized.
  const bool codes = fp8 && hopper;
  const bool wide_gradient =
      narrow == Narrow::kFp8Gradient && conventions.ds_format == DsFormat::kE5M2;
  model.min_exponent_a = codes ? (wide_gradient ? kE5m2Min : kE4m3Min) : kFloatMin;
  model.min_exponent_b = codes ? kE4m3Min : kFloatMin;
  return model;
}

ProductModel score_product_model(const Conventions& conventions) {
  ProductModel model = product_model(conventions, score_width(conventions));
  model.half = conventions.score_accumulator == ScoreAccumulator::kF16;
  return model;
}

bool has_half_arguments(const Conventions& conventions) {
  return conventions.score_accumulator == ScoreAccumulator::kF16 &&
         conventions.accumulate == Accumulate::kHardware && conventions.family == Family::kHopper;
}

}  // namespace flamia::cpu
