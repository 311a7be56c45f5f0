// The leak table: how much earlier rows change when a later token does, scheme by scheme.
// Paper: 3.2, 4.5 (Table 5), A.3, A.4. Used by: the program's audit table5, tests.
//
// Protocol, one for all schemes. One causal document of 256 tokens (two tiles), two heads of 128.
// One token's rows of one operand are multiplied by a factor in all heads, and rows before the
// token are compared with the unperturbed call: O (FP32) by the norm of the difference over the
// norm of the row and head, dQ by the largest difference over the largest |dQ|.
//   operands   k and v for O; q, k, v and d_o for dQ
//   factors    8, 2^10, 2^14, 2^20 and 0. A column's figure is that of one factor: 2^10 for O in
//              the token's block and tile; 2^20 for O and dQ in earlier tiles, where a scale of
//              everything has to reach the quietest rows and an FP16 sum its subnormals; 8 for dQ
//              in the block and the tile: just enough to move an exponent
//   tokens     127, 128, 192, 207, 223, 255; with 2^10 on k and v also the rest of block 192..223,
//              for which only O is computed
// Each input's figure is the largest over operands and tokens; over several inputs, the median.
// A column whose reference is 0 must be exactly 0 under every factor and input; the others agree
// within a factor of ten. Factors and inputs were chosen with the reference in sight, whose own are
// not recorded: the zeros are the test, other figures only have the right size.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "audit/offender.h"
#include "audit/perturbation.h"
#include "flamia/audit.h"
#include "flamia/status.h"

namespace flamia::audit {

inline constexpr int64_t kLeakTokens = 256;
inline constexpr int32_t kLeakHeads = 2;
inline constexpr int32_t kLeakHeadDim = 128;
inline constexpr float kLeakFactors[] = {8.0f, 1024.0f, 16384.0f, 1048576.0f, 0.0f};
inline constexpr int kLeakFactorCount = 5;

/// Columns of the table.
enum class LeakColumn : uint8_t { kOBlock, kOTile, kOEarlier, kDqBlock, kDqTile, kDqEarlier };
inline constexpr LeakColumn kLeakColumns[] = {LeakColumn::kOBlock,   LeakColumn::kOTile,
                                              LeakColumn::kOEarlier, LeakColumn::kDqBlock,
                                              LeakColumn::kDqTile,   LeakColumn::kDqEarlier};
inline constexpr int kLeakColumnCount = 6;
const char* column_name(LeakColumn column);
/// Index in kLeakFactors of the factor whose change is the column's figure.
int figure_factor(LeakColumn column);
/// The figure of one column; NaN: none.
double figure(const LeakFigures& figures, LeakColumn column);

/// The largest change of one column under one factor, and what caused it.
struct LeakCell {
  double change = 0;
  Operand operand = Operand::kV;
  int64_t token = -1;  ///< -1: nothing changed
};

struct LeakRow {
  LeakCell cells[kLeakColumnCount][kLeakFactorCount];
  double most[kLeakColumnCount] = {};  ///< under any factor

  const LeakCell& figure_cell(LeakColumn column) const {
    return cells[static_cast<int>(column)][figure_factor(column)];
  }
  double measured(LeakColumn column) const { return figure_cell(column).change; }
  double largest(LeakColumn column) const { return most[static_cast<int>(column)]; }
};

/// Of one scheme on several inputs: the (lower) median of each cell, the largest of `most`.
LeakRow combine(std::span<const LeakRow> rows);

/// Tokens at which an operand is perturbed by a factor (its index in kLeakFactors).
std::vector<int64_t> leak_tokens(Operand operand, int factor);

/// N(0,1) in BF16, where every 32 tokens have a magnitude of their own, 10^u, u uniform and drawn
/// for each head: over 1.6 decades in V and dO, over 0.6 in K; Q times 0.8. A shared scale costs
/// something only where magnitudes differ. A function of the seed alone.
AuditInputs heavy_tailed_inputs(uint64_t seed);

/// Runs the protocol on one scheme. Errors: kInvalidArgument unless the inputs are one causal
/// document of kLeakTokens with d_o.
Status measure_leak(const Scheme& scheme, const AuditInputs& inputs, LeakRow* row);

enum class Agreement : uint8_t {
  kNoReference,
  kAgrees,
  kLeaks,    ///< reference 0, ours not
  kSmaller,  ///< by more than a factor of ten
  kLarger,
  kOtherFactor,  ///< beyond it at the column's factor, within it at another one: the reference's
                 ///< own factors are not recorded
};
inline constexpr double kLeakTolerance = 10;
/// Compares one cell with the figure of the reference.
Agreement agreement(const LeakRow& row, const LeakFigures& reference, LeakColumn column);
const char* agreement_name(Agreement agreement);

/// The protocol as sentences, for a report.
std::vector<std::string> leak_protocol();

}  // namespace flamia::audit
