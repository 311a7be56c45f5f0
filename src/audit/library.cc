// The library's own attention as an audited function, through the public API, as users call it.
#include "audit/library.h"

#include <cmath>
#include <cstring>

#include "audit/library_call.h"
#include "base/message.h"
#include "flamia/attention.h"

namespace flamia::audit {
namespace {

/// Tokens that share a scale by default.
constexpr int64_t kBlock = 32;

/// A small call for the records.
AuditInputs small_inputs() {
  AuditInputs inputs;
  inputs.tokens = 40;
  inputs.heads = 2;
  inputs.kv_heads = 1;
  inputs.head_dim = 64;
  inputs.softmax_scale = 0.125f;
  inputs.cu_seqlens = {0, 17, 40};
  inputs.q.assign(static_cast<size_t>(inputs.query_entries()), 0x3f80);
  inputs.k.assign(static_cast<size_t>(inputs.key_entries()), 0x3f80);
  inputs.v = inputs.k;
  inputs.d_o = inputs.q;
  return inputs;
}

}  // namespace

AttentionFunction library_attention(const Options& options, const HostForward& forward) {
  return [options, forward](const AuditInputs& inputs, AuditOutputs* outputs) -> Status {
    Options choices = options;
    choices.mask = {};
    choices.mask.kind = inputs.causal ? MaskKind::kCausal : MaskKind::kFull;
    choices.softmax_scale = inputs.softmax_scale;
    LibraryCall call(inputs, choices, forward);
    if (Status status = call.forward(); !status.ok()) return status;
    if (!inputs.d_o.empty()) {
      if (Status status = call.backward(); !status.ok()) return status;
    }
    call.store(outputs);
    return {};
  };
}

AuditPromise library_promise(const Options& options) {
  AuditPromise promise;
  promise.zero_gaps = true;
  if (options.path == Path::kBf16) return promise;
  const bool exact = options.safety == Safety::kExact;
  const bool four_bits = options.path == Path::kAll4Bit;
  promise.shared_tokens = exact ? 0 : kBlock;
  // 4-bit operands of dK and dV have scales along queries, which exact safety leaves as they are:
  // they carry nothing from later tokens to earlier ones.
  promise.shared_queries = exact && !four_bits ? 0 : kBlock;
  promise.dq_rounding = !exact && options.dq_scale != DqScale::kCausal &&
                        options.dq_accumulate != DqAccumulate::kFp32;
  promise.p_step = four_bits ? 1.0 / 3 : 1.0 / 16;
  // V is rounded along keys for P V and along channels for dP.
  if (four_bits && !exact) promise.delta_mismatch = 0.15;
  Conventions conventions;
  const Problem problem = {1, 1, 0, 1, 1, 1, 128};
  if (resolve_conventions(problem, options, &conventions).ok()) {
    // E4M3 rounds 2^-10 and less to zero.
    const bool scaled = options.path == Path::kMxfp8 || conventions.p_scale > 1;
    if (scaled) promise.flush_bits = 10 + std::log2(static_cast<double>(conventions.p_scale));
  }
  return promise;
}

Status library_conventions(const Options& options) {
  const AuditInputs inputs = small_inputs();
  LibraryCall call(inputs, options);
  if (Status status = call.forward(); !status.ok()) return status;
  if (Status status = call.backward(); !status.ok()) return status;
  // Every byte of the record, by one bit and by all: no change may reach a number.
  const Conventions good = call.conventions();
  for (size_t byte = 0; byte < sizeof(Conventions); ++byte) {
    for (const unsigned flip : {0x01u, 0x80u, 0xffu}) {
      unsigned char bytes[sizeof(Conventions)];
      std::memcpy(bytes, &good, sizeof bytes);
      bytes[byte] = static_cast<unsigned char>(bytes[byte] ^ flip);
      std::memcpy(&call.conventions(), bytes, sizeof bytes);
      if (!call.backward().ok()) continue;
      return Status(StatusCode::kInternal,
                    concat("backward accepts a record whose byte ", byte, " was changed"));
    }
  }
  return {};
}

}  // namespace flamia::audit
