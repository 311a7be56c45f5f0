// flamia audit table5: the leak table of known schemes, ours beside the reference.

#include "tools/audit_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "audit/leak_table.h"
#include "flamia/attention.h"
#include "problem/packed_layout.h"
#include "tools/atomic_file.h"
#include "tools/errors.h"
#include "tools/input_source.h"
#include "tools/option_parsing.h"
#include "tools/parallel.h"

namespace flamia::tools {

namespace {

using Json = nlohmann::ordered_json;
using audit::Agreement;
using audit::LeakColumn;
using audit::LeakRow;
using audit::Offender;

constexpr int32_t kMostSeeds = 64;
constexpr int32_t kMostThreads = 1024;

struct Measured {
  std::string text;  ///< where the inputs come from
  bool generated = true;
  std::vector<AuditInputs> inputs;
  std::vector<LeakRow> rows;  ///< one per scheme
};

Status chosen_schemes(const AuditTableArguments& arguments, std::vector<const Offender*>* chosen) {
  for (const std::string& name : arguments.schemes) {
    const Offender* offender = nullptr;
    if (!audit::find_offender(name, &offender).ok()) {
      std::string names;
      for (const Offender& one : audit::offenders()) {
        names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
      }
      return bad_input("--scheme must be one of {}; got {}", names, printable(name));
    }
    chosen->push_back(offender);
  }
  if (!arguments.schemes.empty()) return Status();
  for (const Offender& one : audit::offenders()) chosen->push_back(&one);
  return Status();
}

// Rows [begin, begin + kLeakTokens) of one head of a tensor [tokens, heads, head_dim].
void copy_head(const HostTensor& tensor, int64_t heads, int64_t from, int64_t to, int64_t begin,
               std::vector<uint16_t>* result) {
  const int64_t dim = tensor.shape().back();
  result->resize(static_cast<size_t>(audit::kLeakTokens * audit::kLeakHeads * dim));
  for (int64_t i = 0; i < audit::kLeakTokens; ++i) {
    std::memcpy(result->data() + (i * audit::kLeakHeads + to) * dim,
                tensor.as<uint16_t>() + ((begin + i) * heads + from) * dim,
                static_cast<size_t>(dim) * sizeof(uint16_t));
  }
}

// The first rows of the longest document, first two heads (one twice, if there is no other).
Status load_capture(const std::string& path, Measured* measured) {
  InputArguments arguments;
  arguments.input = path;
  InputSource source;
  if (Status status = source.open(arguments, Options()); !status.ok()) return status;
  const Problem& problem = source.problem();
  const PackedLayout layout(problem, source.cu_seqlens_q(), source.cu_seqlens_k());
  DocumentSpan longest;
  for (int32_t b = 0; b < layout.documents(); ++b) {
    const DocumentSpan span = layout.span(b);
    if (span.queries() == span.keys() && span.queries() > longest.queries()) longest = span;
  }
  if (longest.queries() < audit::kLeakTokens || problem.head_dim % 16 != 0) {
    return bad_input(
        "{}: must have a document of {} tokens or more, with as many keys, and head_dim a multiple "
        "of 16",
        printable(path), audit::kLeakTokens);
  }
  if (Status status = source.load(true); !status.ok()) return status;
  AuditInputs inputs;
  inputs.tokens = audit::kLeakTokens;
  inputs.heads = inputs.kv_heads = audit::kLeakHeads;
  inputs.head_dim = problem.head_dim;
  inputs.softmax_scale = 1 / std::sqrt(static_cast<float>(problem.head_dim));
  inputs.cu_seqlens = {0, static_cast<int32_t>(audit::kLeakTokens)};
  const int64_t group = problem.heads / problem.kv_heads;
  for (int32_t to = 0; to < audit::kLeakHeads; ++to) {
    const int64_t head = std::min(to, problem.heads - 1);
    const AttentionInputs& all = source.inputs();
    copy_head(all.q, problem.heads, head, to, longest.query_begin, &inputs.q);
    copy_head(all.k, problem.kv_heads, head / group, to, longest.key_begin, &inputs.k);
    copy_head(all.v, problem.kv_heads, head / group, to, longest.key_begin, &inputs.v);
    copy_head(all.d_o, problem.heads, head, to, longest.query_begin, &inputs.d_o);
  }
  measured->text =
      fmt::format("{}, {} rows from {}", printable(path), audit::kLeakTokens, longest.query_begin);
  measured->generated = false;
  measured->inputs.push_back(std::move(inputs));
  return Status();
}

Measured generate(const AuditTableArguments& arguments) {
  Measured measured;
  measured.text = fmt::format("heavy-tailed random inputs, seeds {} to {}", arguments.first_seed,
                              arguments.first_seed + static_cast<uint64_t>(arguments.seeds) - 1);
  for (int32_t n = 0; n < arguments.seeds; ++n) {
    measured.inputs.push_back(
        audit::heavy_tailed_inputs(arguments.first_seed + static_cast<uint64_t>(n)));
  }
  return measured;
}

// Every scheme on every input; each is a task of its own, so that threads change no figure.
Status measure(std::span<const Offender* const> schemes, int threads, Measured* measured) {
  const size_t inputs = measured->inputs.size();
  std::vector<LeakRow> rows(schemes.size() * inputs);
  std::vector<Status> results(rows.size());
  parallel_chunks(
      static_cast<int64_t>(rows.size()), 1, threads, [&](int64_t, int64_t begin, int64_t) {
        const auto task = static_cast<size_t>(begin);
        results[task] = audit::measure_leak(schemes[task / inputs]->scheme,
                                            measured->inputs[task % inputs], &rows[task]);
      });
  for (const Status& status : results) {
    if (!status.ok()) return status;
  }
  for (size_t n = 0; n < schemes.size(); ++n) {
    measured->rows.push_back(audit::combine(std::span(rows).subspan(n * inputs, inputs)));
  }
  return Status();
}

std::string number(double value) {
  return value == 0 || std::isnan(value) ? (value == 0 ? "0" : "-") : fmt::format("{:.1e}", value);
}

// A file's figures depend on its data: only a zero is a promise there.
bool counts(Agreement agreement, bool generated) {
  if (agreement == Agreement::kNoReference || agreement == Agreement::kAgrees ||
      agreement == Agreement::kOtherFactor) {
    return false;
  }
  return generated || agreement == Agreement::kLeaks;
}

struct Tally {
  int cells = 0;
  int missed = 0;     ///< what passed counts
  int different = 0;  ///< beyond the factor of ten, not counted

  void add(Agreement agreement, bool generated) {
    if (agreement == Agreement::kNoReference) return;
    ++cells;
    if (counts(agreement, generated)) ++missed;
    if (agreement != Agreement::kAgrees && !counts(agreement, generated)) ++different;
  }
};

Json cell_json(const LeakRow& row, const Offender& offender, LeakColumn column) {
  const double reference = audit::figure(offender.reference, column);
  const Agreement agreement = audit::agreement(row, offender.reference, column);
  Json json = {{"ours", row.measured(column)}, {"largest_under_any_factor", row.largest(column)}};
  json["reference"] = std::isnan(reference) ? Json(nullptr) : Json(reference);
  json["agreement"] = audit::agreement_name(agreement);
  for (int factor = 0; factor < audit::kLeakFactorCount; ++factor) {
    const double change = row.cells[static_cast<int>(column)][factor].change;
    json["by_factor"].push_back({{"factor", audit::kLeakFactors[factor]}, {"change", change}});
  }
  const audit::LeakCell& cell = row.figure_cell(column);
  if (cell.token >= 0) {
    json["operand"] = audit::operand_name(cell.operand);
    json["token"] = cell.token;
  }
  return json;
}

std::string table_text(const Measured& measured, std::span<const Offender* const> schemes,
                       Json* json, Tally* tally) {
  std::string text = fmt::format("\n{}; ours | reference\n\n{:<25}", measured.text, "scheme");
  for (const LeakColumn column : audit::kLeakColumns) {
    text += fmt::format(" {:>18}", audit::column_name(column));
  }
  text += "\n";
  for (size_t n = 0; n < schemes.size(); ++n) {
    const LeakRow& row = measured.rows[n];
    Json row_json = {{"scheme", schemes[n]->name}};
    text += fmt::format("{:<25}", schemes[n]->name);
    for (const LeakColumn column : audit::kLeakColumns) {
      const Agreement agreement = audit::agreement(row, schemes[n]->reference, column);
      tally->add(agreement, measured.generated);
      const bool differs = agreement != Agreement::kNoReference && agreement != Agreement::kAgrees;
      const char* mark = !differs ? " " : (counts(agreement, measured.generated) ? "!" : "~");
      text += fmt::format(" {:>8}|{:>8}{}", number(row.measured(column)),
                          number(audit::figure(schemes[n]->reference, column)), mark);
      row_json[audit::column_name(column)] = cell_json(row, *schemes[n], column);
    }
    text += "\n";
    (*json)["rows"].push_back(row_json);
  }
  (*json)["inputs"] = measured.text;
  return text;
}

Status check_arguments(const AuditTableArguments& arguments) {
  return arguments.json.empty() ? Status() : check_output_path("--json", arguments.json);
}

}  // namespace

Status audit_table(const AuditTableArguments& arguments, bool* passed) {
  if (Status status = check_arguments(arguments); !status.ok()) return status;
  std::vector<const Offender*> schemes;
  if (Status status = chosen_schemes(arguments, &schemes); !status.ok()) return status;
  std::vector<Measured> tables = {generate(arguments)};
  if (!arguments.input.empty()) {
    tables.emplace_back();
    if (Status status = load_capture(arguments.input, &tables.back()); !status.ok()) return status;
  }
  Json json = {{"flamia", version()}, {"command", "audit table5"}};
  std::string text = "Largest change of rows before a changed token\n";
  for (const std::string& sentence : audit::leak_protocol()) {
    text += "  " + sentence + "\n";
    json["protocol"].push_back(sentence);
  }
  Tally tally;
  for (Measured& measured : tables) {
    if (Status status = measure(schemes, arguments.threads, &measured); !status.ok()) {
      return status;
    }
    Json table;
    text += table_text(measured, schemes, &table, &tally);
    json["tables"].push_back(table);
  }
  text +=
      "\n! differs: not zero where the reference is, or beyond a factor of ten under every factor; "
      "~ "
      "within\nit under another factor than the column's (those of the reference are not "
      "recorded), "
      "or a figure\nof the file, on which the reference was not measured\n";
  for (const Offender* offender : schemes) {
    if (*offender->note == '\0') continue;
    text += fmt::format("{}: {}\n", offender->name, offender->note);
    json["notes"][offender->name] = offender->note;
  }
  *passed = tally.missed == 0;
  json["cells"] = tally.cells;
  json["missed"] = tally.missed;
  json["different_but_not_counted"] = tally.different;
  json["passed"] = *passed;
  std::fputs(text.c_str(), stdout);
  if (tally.missed > 0) {
    std::fprintf(stderr, "flamia audit table5: %d of %d figures differ from the reference\n",
                 tally.missed, tally.cells);
  }
  return arguments.json.empty() ? Status() : write_file(arguments.json, json.dump(2) + "\n");
}

void add_audit_table_command(CLI::App& parent, int* exit_code) {
  CLI::App* command =
      parent.add_subcommand("table5", "How much known schemes leak into earlier rows (Table 5)");
  const auto arguments = std::make_shared<AuditTableArguments>();
  add_text(*command, "--input", "Measure the q, k, v, do of this safetensors file as well", "FILE",
           &arguments->input);
  const auto add_scheme = [arguments](const std::vector<std::string>& names) {
    arguments->schemes = names;
  };
  command
      ->add_option_function<std::vector<std::string>>("--scheme", add_scheme,
                                                      "Only this scheme; may be repeated")
      ->type_name("NAME");
  add_number<int32_t>(*command, "--seeds",
                      "Generated inputs, of which the median is taken (default 3)", 1, kMostSeeds,
                      &arguments->seeds);
  add_number<uint64_t>(*command, "--first-seed", "Seed of the first of them (default 0)", 0,
                       UINT64_MAX, &arguments->first_seed);
  add_number<int32_t>(*command, "--threads", "Worker threads (default: one per core)", 0,
                      kMostThreads, &arguments->threads);
  add_text(*command, "--json", "JSON file for all figures", "FILE", &arguments->json);
  command->callback([arguments, exit_code] {
    bool passed = true;
    const Status status = audit_table(*arguments, &passed);
    *exit_code = status.ok() ? (passed ? kExitDone : kExitCheckFailed)
                             : report_failure("audit table5", status);
  });
}

}  // namespace flamia::tools
