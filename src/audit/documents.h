// Rows of single documents inside packed calls.
// Used by: the probes of documents, packing and tails.
#pragma once

#include <cstdint>
#include <vector>

#include "audit/perturbation.h"

namespace flamia::audit {

struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// Rows of document b; b = documents: the rows that belong to nobody.
RowRange rows_of(const AuditInputs& inputs, size_t b);

/// Sets every entry of every operand in these rows to x * factor, as apply() does.
void scale_rows(const RowRange& rows, float factor, AuditInputs* inputs);

/// Copies document `from` of source over the equally long rows of target.
void copy_document(const AuditInputs& source, size_t from, const RowRange& rows,
                   AuditInputs* target);

/// Entries of these rows, in the order of the tensor.
std::vector<float> slice(const std::vector<float>& values, const RowLayout& layout,
                         const RowRange& rows);

}  // namespace flamia::audit
