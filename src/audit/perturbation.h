// Changing one token of a call, and measuring what changed in the outputs.
// Used by: the leak probes, the leak table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flamia/audit.h"

namespace flamia::audit {

enum class Operand : uint8_t { kQ, kK, kV, kDo, kAll };
inline constexpr Operand kOperands[] = {Operand::kQ, Operand::kK, Operand::kV, Operand::kDo};
/// "q", "k", "v", "d_o", "all".
const char* operand_name(Operand operand);

/// Not for kAll.
std::vector<uint16_t>& operand_of(AuditInputs* inputs, Operand operand);

/// One token's rows of one operand, or of all that are there, in all heads, times a factor. 0
/// shrinks them to zero, an infinity or NaN replaces them. Products beyond BF16 become its largest
/// finite value.
struct Perturbation {
  Operand operand = Operand::kV;
  int64_t token = 0;
  float factor = 1;
};
void apply(const Perturbation& perturbation, AuditInputs* inputs);

/// Change of each row of a tensor between two calls: 0 where the bits are equal, and the smallest
/// positive float where bits differ but values do not (0 and -0). A NaN on one side counts as
/// infinity.
struct RowLayout {
  int64_t rows = 0;       ///< tokens
  int64_t inner = 0;      ///< entries of a row that lie together (heads * head_dim)
  bool row_major = true;  ///< false: [heads, rows], as LSE
};
enum class RowNorm : uint8_t {
  kRow,     ///< norm of the difference over the norm of the row before
  kTensor,  ///< largest difference over the largest |entry| of the tensor before
};
std::vector<float> row_changes(const std::vector<float>& before, const std::vector<float>& after,
                               const RowLayout& layout, RowNorm norm);

/// An audit's output tensor with the way its rows lie and the norm by which it is judged: O by
/// rows, all others by the largest entry.
struct OutputView {
  const char* name;
  std::vector<float> AuditOutputs::*tensor;
  RowNorm norm;
};
inline constexpr OutputView kOutputViews[] = {{"o", &AuditOutputs::o, RowNorm::kRow},
                                              {"lse", &AuditOutputs::lse, RowNorm::kTensor},
                                              {"dq", &AuditOutputs::dq, RowNorm::kTensor},
                                              {"dk", &AuditOutputs::dk, RowNorm::kTensor},
                                              {"dv", &AuditOutputs::dv, RowNorm::kTensor}};
RowLayout layout_of(const OutputView& view, const AuditInputs& inputs);

}  // namespace flamia::audit
