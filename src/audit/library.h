// The library's own attention as an audited function, and what it promises.
// Used by: flamia/audit.h.
#pragma once

#include "audit/library_call.h"
#include "flamia/audit.h"

namespace flamia::audit {

/// forward: runs calls of a GPU backend, whose memory the library does not handle; without it those
/// are refused.
AttentionFunction library_attention(const Options& options, const HostForward& forward = {});
AuditPromise library_promise(const Options& options);
Status library_conventions(const Options& options);

}  // namespace flamia::audit
