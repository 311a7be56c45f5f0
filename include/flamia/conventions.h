// The record of every numeric choice of a forward call: plain data, versioned, at most 64 bytes.
// Paper: 3.3 (forward-backward consistency). The backward pass takes this record and no options,
// so a mismatch of the two passes cannot be written down.
#pragma once

#include <cstdint>

#include "flamia/options.h"

namespace flamia {

constexpr uint32_t kConventionsVersion = 0x464c4103u;  // "FLA", layout 3

struct Conventions {
  uint32_t version = kConventionsVersion;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int16_t head_dim = 0;
  Path path = Path::kMxfp8;
  Family family = Family::kHopper;
  int64_t window_left = -1;  ///< resolved: causal is (-1, 0), full is (-1, -1)
  int64_t window_right = -1;
  float softmax_scale = 0.0f;
  float p_scale = 0.0f;
  float tau = 0.0f;
  Safety safety = Safety::kDefault;
  Determinism determinism = Determinism::kAny;
  Hadamard hadamard = Hadamard::kOff;  ///< resolved: kOn or kOff
  KvOrder kv_order = KvOrder::kReverse;
  Exponential exponential = Exponential::kExact;
  RowSum row_sum = RowSum::kPHat;
  Delta delta = Delta::kOResidual;
  Accumulate accumulate = Accumulate::kExact;
  Promote promote = Promote::kTile;
  ScoreAccumulator score_accumulator = ScoreAccumulator::kF32;
  DsFormat ds_format = DsFormat::kE4M3;
  GradProducts grad_products = GradProducts::kFp8;   ///< resolved
  DqAccumulate dq_accumulate = DqAccumulate::kFp16;  ///< resolved
  DqScale dq_scale = DqScale::kDocument;             ///< resolved
  BackendKind backend = BackendKind::kCpu;           ///< that ran the forward pass and will run
                                                     ///< the backward pass
  uint8_t reserved = 0;
  uint32_t checksum = 0;  ///< of all bytes before it, written by the forward pass: the backward
                          ///< pass refuses a record that was changed
};

static_assert(sizeof(Conventions) == 64);

}  // namespace flamia
