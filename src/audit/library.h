// The library's own attention as an audited function, and what it promises.
// Used by: flamia/audit.h.
#pragma once

#include "flamia/audit.h"

namespace flamia::audit {

AttentionFunction library_attention(const Options& options);
AuditPromise library_promise(const Options& options);
Status library_conventions(const Options& options);

}  // namespace flamia::audit
