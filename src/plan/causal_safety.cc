// The table of scale choices and residues.
#include "plan/causal_safety.h"

#include "base/check.h"

namespace flamia {

namespace {

constexpr const char* kNone = "none";
constexpr const char* kInsideBlock = "rows of the same 32-token block";

struct OperandRow {
  Path path;
  Safety safety;
  const char* exponents;
  const char* residue;
};

// Residues of O, and of dQ through its operands.
constexpr OperandRow kOperandRows[] = {
    {Path::kBf16, Safety::kDefault, "no scales", kNone},
    {Path::kBf16, Safety::kExact, "no scales", kNone},
    {Path::kMxfp8, Safety::kDefault, "one per 32 tokens", kInsideBlock},
    {Path::kMxfp8, Safety::kExact, "one per token", kNone},
    {Path::kNvfp4, Safety::kDefault, "one per 32 tokens; q, k one per token", kInsideBlock},
    {Path::kNvfp4, Safety::kExact, "one per token", kNone},
    {Path::kAll4Bit, Safety::kDefault, "per token; v in groups of keys that a row sees whole",
     kNone},
    {Path::kAll4Bit, Safety::kExact, "per token", kNone},
};

struct SumRow {
  DqAccumulate accumulate;
  DqScale scale;
  const char* sums;
  const char* residue;
};

constexpr SumRow kSumRows[] = {
    {DqAccumulate::kFp32, DqScale::kDocument, "fp32, no scale", kNone},
    {DqAccumulate::kFp32, DqScale::kCausal, "fp32, no scale", kNone},
    {DqAccumulate::kFp16, DqScale::kDocument, "fp16, one scale per document and head",
     "all earlier rows of the document, about 1e-3 of the largest entry"},
    {DqAccumulate::kFp16, DqScale::kCausal, "fp16, scales from the keys that a row sees", kNone},
};

const OperandRow& operand_row(const Conventions& conventions) {
  for (const OperandRow& row : kOperandRows) {
    if (row.path == conventions.path && row.safety == conventions.safety) return row;
  }
  FLAMIA_UNREACHABLE("path ", static_cast<int>(conventions.path));
}

const SumRow& sum_row(const Conventions& conventions) {
  for (const SumRow& row : kSumRows) {
    if (row.accumulate == conventions.dq_accumulate && row.scale == conventions.dq_scale) {
      return row;
    }
  }
  FLAMIA_UNREACHABLE("dq_accumulate ", static_cast<int>(conventions.dq_accumulate));
}

const char* ds_exponents(const Conventions& conventions) {
  if (conventions.grad_products == GradProducts::kBf16) return "no scales";
  if (conventions.path == Path::kAll4Bit) return "one per query row and 32 keys";
  const bool rows = conventions.family == Family::kHopper || conventions.safety == Safety::kExact;
  return rows ? "one per query row and key tile" : "one per 32 x 32 block";
}

}  // namespace

CausalSafety causal_safety(const Conventions& conventions) {
  const OperandRow& operands = operand_row(conventions);
  const SumRow& sums = sum_row(conventions);
  CausalSafety result{operands.exponents, ds_exponents(conventions), sums.sums,
                      operands.residue,   operands.residue,          sums.residue};
  if (conventions.window_right != 0) {
    result.o_residue = result.dq_residue = result.dq_sum_residue =
        "not promised: rows see later tokens";
  }
  return result;
}

}  // namespace flamia
