// flamia pcast codes: codes of a 4-bit P by Mitchell-P and Direct-P against exact rounding.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "audit/offender_operand.h"
#include "base/philox.h"
#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/online_softmax.h"
#include "pcast/p_codes.h"
#include "problem/packed_layout.h"
#include "tools/errors.h"
#include "tools/input_source.h"
#include "tools/parallel.h"
#include "tools/pcast_commands.h"
#include "tools/pcast_runs.h"

namespace flamia::tools {

namespace {

using Json = nlohmann::ordered_json;
using pcast::CodeAgreement;
using pcast::CodeRule;

constexpr int32_t kHeads = 4;
constexpr int64_t kKeys = 4096;
constexpr int64_t kHeadDim = 128;
constexpr int64_t kRows = 128;       // measured of each head, evenly spread
constexpr int64_t kFewestKeys = 64;  // shorter documents of a file are left out
constexpr size_t kRules = std::size(pcast::kCodeRules);

// Published, percent or cosine; Mitchell-P's cosine as the range of the paper's shapes.
constexpr double kMitchellEqual = 98.7;
constexpr double kDirectEqual = 63.3;
constexpr double kEqualTolerance = 1.0;  // points

// How V is quantized for the product with P.
constexpr audit::OperandRule kExactV = {audit::Element::kFp32, {}, 1, 0, {}};
constexpr audit::OperandRule kMxfp4V = {audit::Element::kE2m1, audit::ScaleScope::kGroup, 32, 1,
                                        audit::ScaleRule::kPowerOfTwoUp};
constexpr audit::OperandRule kNvfp4V = {audit::Element::kE2m1, audit::ScaleScope::kGroup, 16, 1,
                                        audit::ScaleRule::kUe4m3};
constexpr audit::OperandRule kNvfp4Scores = {audit::Element::kE2m1, audit::ScaleScope::kGroup, 1,
                                             16, audit::ScaleRule::kUe4m3PerToken};
constexpr int kValueForms = 3;
constexpr const char* kValueNames[] = {"v_bf16", "v_mxfp4", "v_nvfp4"};

// One head of one document: [tokens, head_dim] BF16.
struct Head {
  int64_t tokens = 0;
  int64_t dim = 0;
  bool causal = false;
  std::vector<uint16_t> q, k, v;
};

struct Dot {
  double ab = 0, aa = 0, bb = 0;
  void add(double a, double b) {
    ab += a * b;
    aa += a * a;
    bb += b * b;
  }
  void merge(const Dot& other) {
    ab += other.ab;
    aa += other.aa;
    bb += other.bb;
  }
  double cosine() const { return aa == 0 || bb == 0 ? 0 : ab / std::sqrt(aa * bb); }
};

struct CodeFigures {
  CodeAgreement agreement[kRules];
  Dot output[kRules][kValueForms];

  void merge(const CodeFigures& other) {
    for (size_t r = 0; r < kRules; ++r) {
      agreement[r].merge(other.agreement[r]);
      for (int v = 0; v < kValueForms; ++v) output[r][v].merge(other.output[r][v]);
    }
  }
};

audit::DecodedOperand quantized(const audit::OperandRule& rule, const std::vector<uint16_t>& values,
                                const Head& head) {
  const int32_t bounds[] = {0, static_cast<int32_t>(head.tokens)};
  return audit::quantize_operand(rule,
                                 {&values, head.tokens, 1, static_cast<int32_t>(head.dim), bounds});
}

void scores(const audit::DecodedOperand& q, const audit::DecodedOperand& k, int64_t row,
            float multiplier, std::vector<float>* x) {
  for (size_t j = 0; j < x->size(); ++j) {
    const float* a = q.row(0, row);
    const float* b = k.row(0, static_cast<int64_t>(j));
    float sums[16] = {};
    for (int64_t c = 0; c < q.head_dim; c += 16) {
      for (int64_t n = 0; n < 16; ++n) sums[n] += a[c + n] * b[c + n];
    }
    float sum = 0;
    for (const float one : sums) sum += one;
    (*x)[j] = sum * multiplier;
  }
}

// Weights times V over their sum.
std::vector<float> output(const std::vector<float>& weights, const audit::DecodedOperand& v) {
  std::vector<float> o(static_cast<size_t>(v.head_dim));
  double sum = 0;
  for (size_t j = 0; j < weights.size(); ++j) {
    if (weights[j] == 0) continue;
    sum += static_cast<double>(weights[j]);
    const float* row = v.row(0, static_cast<int64_t>(j));
    for (size_t c = 0; c < o.size(); ++c) o[c] += weights[j] * row[c];
  }
  for (float& one : o) one /= static_cast<float>(sum);
  return o;
}

class HeadMeasurement {
 public:
  explicit HeadMeasurement(const Head& head)
      : head_(head),
        q_(quantized(kNvfp4Scores, head.q, head)),
        k_(quantized(kNvfp4Scores, head.k, head)),
        exact_q_(quantized(kExactV, head.q, head)),
        exact_k_(quantized(kExactV, head.k, head)),
        v_{quantized(kExactV, head.v, head), quantized(kMxfp4V, head.v, head),
           quantized(kNvfp4V, head.v, head)},
        multiplier_(score_multiplier(1 / std::sqrt(static_cast<float>(head.dim)))) {}

  CodeFigures run() {
    const int64_t rows = std::min(kRows, head_.tokens);
    for (int64_t n = 0; n < rows; ++n) measure((n + 1) * head_.tokens / rows - 1);
    return figures_;
  }

 private:
  void measure(int64_t row) {
    std::vector<float> x(static_cast<size_t>(head_.causal ? row + 1 : head_.tokens));
    scores(exact_q_, exact_k_, row, multiplier_, &x);
    const float m = *std::max_element(x.begin(), x.end());
    for (float& one : x) one = std::exp2(one - m);
    const std::vector<float> exact = output(x, v_[0]);

    scores(q_, k_, row, multiplier_, &x);
    const size_t groups = (x.size() + pcast::kCodeGroup - 1) / pcast::kCodeGroup;
    std::vector<uint8_t> reference(x.size()), codes(x.size());
    std::vector<int32_t> exponents(groups);
    std::vector<float> weights(x.size());
    for (size_t r = 0; r < kRules; ++r) {
      pcast::p_codes(pcast::kCodeRules[r], x, codes, exponents);
      if (r == 0) reference = codes;
      figures_.agreement[r].add(reference, codes);
      for (size_t j = 0; j < x.size(); ++j) {
        weights[j] = std::ldexp(decode_e2m1(codes[j]), exponents[j / pcast::kCodeGroup]);
      }
      for (int form = 0; form < kValueForms; ++form) {
        const std::vector<float> o = output(weights, v_[form]);
        for (size_t c = 0; c < o.size(); ++c) {
          figures_.output[r][form].add(static_cast<double>(o[c]), static_cast<double>(exact[c]));
        }
      }
    }
  }

  const Head& head_;
  audit::DecodedOperand q_, k_, exact_q_, exact_k_;
  audit::DecodedOperand v_[kValueForms];
  float multiplier_;
  CodeFigures figures_;
};

Head generate(uint64_t seed) {
  Head head;
  head.tokens = kKeys;
  head.dim = kHeadDim;
  std::vector<uint16_t>* tensors[] = {&head.q, &head.k, &head.v};
  for (uint64_t stream = 0; stream < std::size(tensors); ++stream) {
    std::vector<uint16_t>& values = *tensors[stream];
    values.resize(static_cast<size_t>(kKeys * kHeadDim));
    for (size_t n = 0; n < values.size(); n += 2) {
      const Philox4 words = philox(seed, stream, n);
      const NormalPair pair = normal_pair(words.word[0], words.word[1]);
      values[n] = float_to_bf16(static_cast<float>(pair.first));
      values[n + 1] = float_to_bf16(static_cast<float>(pair.second));
    }
  }
  return head;
}

std::vector<uint16_t> rows_of(const HostTensor& tensor, int64_t heads, int64_t head, int64_t begin,
                              int64_t count) {
  const int64_t dim = tensor.shape().back();
  std::vector<uint16_t> rows(static_cast<size_t>(count * dim));
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(rows.data() + i * dim, tensor.as<uint16_t>() + ((begin + i) * heads + head) * dim,
                static_cast<size_t>(dim) * sizeof(uint16_t));
  }
  return rows;
}

// Every head of every document of a file, causal.
Status load(const std::string& path, std::vector<Head>* heads) {
  InputArguments arguments;
  arguments.input = path;
  InputSource source;
  if (Status status = source.open(arguments, Options()); !status.ok()) return status;
  const Problem& problem = source.problem();
  if (problem.head_dim % 16 != 0) {
    return bad_input("{}: head_dim must be a multiple of 16; it is {}", printable(path),
                     problem.head_dim);
  }
  if (Status status = source.load(false); !status.ok()) return status;
  const PackedLayout layout(problem, source.cu_seqlens_q(), source.cu_seqlens_k());
  const AttentionInputs& all = source.inputs();
  for (int32_t b = 0; b < layout.documents(); ++b) {
    const DocumentSpan span = layout.span(b);
    if (span.queries() != span.keys() || span.keys() < kFewestKeys) continue;
    for (int32_t h = 0; h < problem.heads; ++h) {
      const int64_t kv = h / (problem.heads / problem.kv_heads);
      Head head = {span.keys(), problem.head_dim, true, {}, {}, {}};
      head.q = rows_of(all.q, problem.heads, h, span.query_begin, head.tokens);
      head.k = rows_of(all.k, problem.kv_heads, kv, span.key_begin, head.tokens);
      head.v = rows_of(all.v, problem.kv_heads, kv, span.key_begin, head.tokens);
      heads->push_back(std::move(head));
    }
  }
  const auto finite = [](const std::vector<uint16_t>& values) {
    return std::all_of(values.begin(), values.end(),
                       [](uint16_t x) { return std::isfinite(bf16_to_float(x)); });
  };
  for (const Head& head : *heads) {
    if (finite(head.q) && finite(head.k) && finite(head.v)) continue;
    return bad_input("{}: q, k and v must be finite; got NaN or Inf", printable(path));
  }
  if (heads->empty()) {
    return bad_input("{}: must have a document of {} keys or more, with as many queries",
                     printable(path), kFewestKeys);
  }
  return Status();
}

CodeFigures measure(const std::vector<Head>& heads, int threads) {
  std::vector<CodeFigures> each(heads.size());
  parallel_chunks(static_cast<int64_t>(heads.size()), 1, threads,
                  [&](int64_t, int64_t begin, int64_t) {
                    const auto n = static_cast<size_t>(begin);
                    each[n] = HeadMeasurement(heads[n]).run();
                  });
  CodeFigures all;
  for (const CodeFigures& one : each) all.merge(one);
  return all;
}

std::string table_text(const std::string& inputs, const CodeFigures& figures, Json* json) {
  constexpr double kPercent = 100;
  std::string text =
      fmt::format("\n{}\n\n{:<18} {:>10} {:>10}   {:>8} {:>8} {:>8}\n", inputs, "rule", "all keys",
                  "non-zero", kValueNames[0], kValueNames[1], kValueNames[2]);
  (*json)["inputs"] = inputs;
  for (size_t r = 0; r < kRules; ++r) {
    const CodeAgreement& agreement = figures.agreement[r];
    const char* name = pcast::code_rule_name(pcast::kCodeRules[r]);
    Json row = {{"rule", name},
                {"equal_percent", agreement.all_fraction() * kPercent},
                {"equal_percent_nonzero", agreement.nonzero_fraction() * kPercent}};
    text += fmt::format("{:<18} {:>9.2f}% {:>9.2f}%  ", name, agreement.all_fraction() * kPercent,
                        agreement.nonzero_fraction() * kPercent);
    for (int form = 0; form < kValueForms; ++form) {
      const double cosine = figures.output[r][form].cosine();
      row["cosine"][kValueNames[form]] = cosine;
      text += fmt::format(" {:>8.4f}", cosine);
    }
    text += "\n";
    (*json)["rows"].push_back(row);
  }
  return text;
}

}  // namespace

Status pcast_codes(const CodesArguments& arguments, bool* passed) {
  if (Status status = check_pcast_json(arguments.common); !status.ok()) return status;
  const int32_t seeds = arguments.common.seeds.value_or(kHeads);
  std::vector<Head> captured;
  if (!arguments.input.empty()) {
    if (Status status = load(arguments.input, &captured); !status.ok()) return status;
  }
  std::vector<Head> generated;
  for (int32_t n = 0; n < seeds; ++n) {
    generated.push_back(generate(arguments.common.first_seed + static_cast<uint64_t>(n)));
  }
  Json json = pcast_json("codes", arguments.common, seeds);
  std::string text =
      "Codes of a 4-bit P (MXFP4, 32 keys) equal to those of exact rounding, and cosine of O\n"
      "Q and K in NVFP4; non-zero: keys whose code is not zero by at least one of the two\n"
      "direct-*: readings of an affine classifier that the paper does not specify\n";
  for (const CodeRule rule :
       {CodeRule::kDirectEnds, CodeRule::kDirectLeast, CodeRule::kDirectMostEqual}) {
    const pcast::AffineClassifier line = pcast::affine_classifier(rule);
    text += fmt::format("  {}: code = round({:.4f} t {:+.4f})\n", pcast::code_rule_name(rule),
                        line.slope, line.offset);
    json["classifiers"].push_back(
        {{"rule", pcast::code_rule_name(rule)}, {"slope", line.slope}, {"offset", line.offset}});
  }
  const CodeFigures figures = measure(generated, arguments.common.threads);
  Json table;
  text += table_text(fmt::format("N(0,1), {} heads of {} keys from seed {}, full mask", seeds,
                                 kKeys, arguments.common.first_seed),
                     figures, &table);
  json["tables"].push_back(table);
  if (!captured.empty()) {
    Json of_file;
    text += table_text(fmt::format("{}, causal", printable(arguments.input)),
                       measure(captured, arguments.common.threads), &of_file);
    json["tables"].push_back(of_file);
  }
  const double mitchell = figures.agreement[1].all_fraction() * 100;
  *passed = std::fabs(mitchell - kMitchellEqual) <= kEqualTolerance;
  text += fmt::format(
      "\npaper: Mitchell-P {} % (within {:g} points here: {}), cosine .980 to .982; Direct-P {} "
      "%,\n"
      "cosine .9435 (brackets only)\n",
      kMitchellEqual, kEqualTolerance, *passed ? "yes" : "no", kDirectEqual);
  json["paper"] = {{"mitchell_percent", kMitchellEqual}, {"direct_percent", kDirectEqual}};
  json["passed"] = *passed;
  report_misses("codes", *passed ? 0 : 1, 1,
                fmt::format("within {:g} points of the paper's", kEqualTolerance));
  return publish(arguments.common, text, json);
}

}  // namespace flamia::tools
