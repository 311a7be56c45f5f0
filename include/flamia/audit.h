// Audit of an attention function, ours or anybody's: does a later token change earlier rows, does a
// document see its neighbour, do sums saturate, vanish or drift, do both passes agree?
// Paper: FLAMIA 3.2, 3.3, 4.5; P-Cast 3. How to read the verdicts: docs/audit.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flamia/options.h"
#include "flamia/problem.h"
#include "flamia/status.h"

namespace flamia {

/// One call of an audited function: packed self-attention, host memory, dense BF16.
struct AuditInputs {
  int64_t tokens = 0;  ///< rows of q, k, v; those past the last document belong to nobody
  int32_t heads = 0;
  int32_t kv_heads = 0;  ///< divides heads; query head h reads key head h / (heads / kv_heads)
  int32_t head_dim = 0;
  bool causal = true;
  float softmax_scale = 0;
  std::vector<int32_t> cu_seqlens;  ///< [documents + 1], starts at 0; documents may be empty
  std::vector<uint16_t> q;          ///< [tokens, heads, head_dim]
  std::vector<uint16_t> k, v;       ///< [tokens, kv_heads, head_dim]
  std::vector<uint16_t> d_o;        ///< as q; empty: no gradients are asked for

  int64_t query_entries() const { return tokens * heads * head_dim; }
  int64_t key_entries() const { return tokens * kv_heads * head_dim; }
};

/// What it returned, in FP32 (BF16 widens exactly). Only o is required: what is empty is not
/// audited.
struct AuditOutputs {
  std::vector<float> o;    ///< [tokens, heads, head_dim]
  std::vector<float> lse;  ///< [heads, tokens], natural log
  std::vector<float> dq;   ///< [tokens, heads, head_dim]
  std::vector<float> dk;   ///< [tokens, kv_heads, head_dim]
  std::vector<float> dv;   ///< [tokens, kv_heads, head_dim]
};

/// The function under audit. It must not keep references to its inputs. A status that is not ok is
/// an error on ordinary inputs and a finding on odd ones.
using AttentionFunction = std::function<Status(const AuditInputs&, AuditOutputs*)>;

/// What the function is allowed to do. The default, nothing, is what exact attention does.
struct AuditPromise {
  int64_t shared_tokens = 0;      ///< earlier rows may change inside aligned blocks of this size
  bool dq_rounding = false;       ///< earlier rows of dQ may change by the rounding of FP16 sums
  bool deterministic = true;      ///< two runs are bitwise equal
  bool packing_invariant = true;  ///< a document's bits do not depend on what it is packed with
  bool zero_gaps = false;         ///< rows of no document: O and gradients 0, LSE -inf
  int64_t shared_queries =
      0;                     ///< later rows of dK, dV may change inside aligned blocks of this size
  double p_step = 1.0 / 16;  ///< largest relative rounding of a probability: 1/16 E4M3, 1/3 E2M1
  double flush_bits = 0;  ///< P below 2^-flush_bits of its row's maximum may become zero; 0: none
  double delta_mismatch = 0.01;  ///< part of dQ that may remain where D and dP must cancel
};

/// What the library promises for these options (docs/numerics.md, "causal safety").
AuditPromise audit_promise(const Options& options);

/// The library's own attention. The mask and the softmax scale come from the inputs, all else from
/// options.
AttentionFunction audited_attention(const Options& options);

/// Hands the library's backward pass records of another call, version and out-of-range choices: ok
/// if it refuses them all. Used as AuditOptions::conventions.
Status audited_conventions(const Options& options);

struct AuditOptions {
  std::string name = "function";  ///< of the function, for the report
  std::string reproduce;          ///< command that repeats the audit; probes add their own options
  std::vector<std::string> probes;  ///< names to run, see audit_probes(); empty: all
  int64_t tokens = 512;             ///< of the packed calls, 96 to 65536
  int64_t context = 4096;           ///< keys of the longest context, 512 to 1048576
  int32_t heads = 2;
  int32_t kv_heads = 1;
  int32_t head_dim = 128;
  bool causal = true;
  bool gradients = true;        ///< ask for dQ, dK, dV
  int64_t at = -1;              ///< causal probes: perturb this token only; -1: every offset
  std::string operand;          ///< and this operand only: "q", "k", "v", "d_o", "all"; empty: each
  std::optional<float> factor;  ///< and by this factor only; not given: 2^14, 2^17, 2^20, 0
  uint64_t seed = 0;            ///< of the random inputs; every figure is a function of it
  double cast_range = 8.807354922057604;  ///< log2 of the largest value P may take, bits: lags of
                                          ///< the saturation probe lie around it
  AuditPromise promise;
  AuditInputs activations;  ///< causal probes: the longest document of these instead of random
                            ///< inputs, with as many heads as they have
  std::function<Status()> conventions;  ///< whether backward refuses records that are not its
                                        ///< forward's; audited_conventions() for the library
  std::function<void(const std::string&)> progress;  ///< told the name of each probe; may be empty
};

enum class AuditOutcome : uint8_t {
  kPassed,     ///< nothing found
  kPromised,   ///< something found that the promise allows
  kFailed,     ///< more than the promise
  kNotTested,  ///< the function does not return what the probe needs
};

struct AuditFigure {
  std::string name;
  double value = 0;
};

struct AuditFinding {
  std::string probe;   ///< "causal_leak", ...
  std::string tensor;  ///< "o", "lse", "dq", "dk", "dv", or empty
  AuditOutcome outcome = AuditOutcome::kNotTested;
  double change = 0;      ///< size of the largest change or error, see the probe's protocol
  int64_t reach = 0;      ///< largest distance, in tokens, between cause and change; 0: none
  std::string words;      ///< what was found
  std::string cause;      ///< likely cause, where something was found
  std::string reproduce;  ///< options that repeat the worst case alone
  std::vector<AuditFigure> figures;
};

/// Largest change of every row for every perturbed token: rows [token][row].
struct LeakMap {
  std::string tensor;
  std::vector<int64_t> tokens;
  int64_t rows = 0;
  std::vector<float> change;  ///< [tokens.size(), rows]
};

/// One length of the long-context probe.
struct ContextPoint {
  int64_t keys = 0;
  double gain = 0;  ///< <O, exact O> / <exact O, exact O>
  double rel_l2 = 0;
};

struct AuditReport {
  std::string name;
  AuditOptions options;
  std::vector<std::string> protocol;  ///< what was done: magnitudes, positions, seeds, norms
  std::vector<AuditFinding> findings;
  std::vector<LeakMap> leak_maps;
  std::vector<ContextPoint> context;
  int64_t calls = 0;    ///< of the function
  bool passed = false;  ///< no finding failed, and at least one was tested
};

/// Names of all probes, in the order in which they run.
std::span<const char* const> audit_probes();

/// Runs the probes. Errors: kInvalidArgument for options out of range, unknown probe names, or a
/// function that returns wrong sizes; whatever the function itself returns on ordinary inputs.
Status audit_attention(const AttentionFunction& function, const AuditOptions& options,
                       AuditReport* report);

/// The report as one JSON object; docs/audit.md has its fields.
std::string audit_json(const AuditReport& report);

/// "passed", "promised", "failed", "not tested".
const char* outcome_name(AuditOutcome outcome);

}  // namespace flamia
