// Rows of single documents inside packed calls.
#include "audit/documents.h"

#include <algorithm>

namespace flamia::audit {

RowRange rows_of(const AuditInputs& inputs, size_t b) {
  const std::vector<int32_t>& cumulative = inputs.cu_seqlens;
  if (b + 1 < cumulative.size()) return {cumulative[b], cumulative[b + 1]};
  return {cumulative.back(), inputs.tokens};
}

void scale_rows(const RowRange& rows, float factor, AuditInputs* inputs) {
  for (int64_t token = rows.begin; token < rows.end; ++token) {
    apply({Operand::kAll, token, factor}, inputs);
  }
}

void copy_document(const AuditInputs& source, size_t from, const RowRange& rows,
                   AuditInputs* target) {
  AuditInputs copy = source;
  const RowRange here = rows_of(source, from);
  for (const Operand operand : kOperands) {
    const std::vector<uint16_t>& values = operand_of(&copy, operand);
    if (values.empty()) continue;
    const auto width = static_cast<std::ptrdiff_t>(values.size()) / source.tokens;
    std::copy(values.begin() + width * here.begin, values.begin() + width * here.end,
              operand_of(target, operand).begin() + width * rows.begin);
  }
}

std::vector<float> slice(const std::vector<float>& values, const RowLayout& layout,
                         const RowRange& rows) {
  std::vector<float> part;
  if (values.empty()) return part;
  if (layout.row_major) {
    const auto begin = values.begin() + rows.begin * layout.inner;
    part.assign(begin, begin + (rows.end - rows.begin) * layout.inner);
    return part;
  }
  const int64_t outer = static_cast<int64_t>(values.size()) / layout.rows;
  for (int64_t h = 0; h < outer; ++h) {
    const auto begin = values.begin() + h * layout.rows;
    part.insert(part.end(), begin + rows.begin, begin + rows.end);
  }
  return part;
}

}  // namespace flamia::audit
