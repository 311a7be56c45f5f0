// Measures the casts of known kernels on q, k, v of a file.

#include "tools/pcast_file.h"

#include <cmath>
#include <mutex>

#include "numerics/bf16.h"
#include "numerics/online_softmax.h"
#include "pcast/matrix_product.h"
#include "problem/mask.h"
#include "problem/packed_layout.h"
#include "tools/errors.h"
#include "tools/input_source.h"
#include "tools/parallel.h"

namespace flamia::tools {

namespace {

using pcast::CastRow;
using pcast::KeyOrder;
using pcast::KnownKernel;
using pcast::ScoreRows;

// Rows whose scores are formed at once.
constexpr int64_t kRowGroup = 32;

// A query row that is measured: its index in the document, and the keys that it sees.
struct MeasuredRow {
  int64_t row = 0;
  int64_t keys = 0;
};

// Rows of one document that see enough keys, at most `most` of them, evenly spread.
std::vector<MeasuredRow> choose_rows(const DocumentMask& mask, int64_t sinks, int64_t most) {
  std::vector<MeasuredRow> usable;
  for (int64_t i = 0; i < mask.queries; ++i) {
    const int64_t keys = mask.visible_keys(i).end;
    if (keys >= sinks + kFewestOthers) usable.push_back({i, keys});
  }
  const int64_t count = static_cast<int64_t>(usable.size());
  if (most == 0 || count <= most) return usable;
  std::vector<MeasuredRow> chosen;
  for (int64_t i = 0; i < most; ++i) {
    // The last row, which sees most, is always among them.
    chosen.push_back(usable[static_cast<size_t>((i + 1) * count / most - 1)]);
  }
  return chosen;
}

// Keys (transposed) and values of one document and KV head, in FP32.
struct KeyValues {
  int64_t keys = 0;
  int64_t stride = 0;
  int64_t channels = 0;
  std::vector<float> k;  ///< [channels][stride]
  std::vector<float> v;  ///< [keys][channels]
};

class FileMeasurement {
 public:
  explicit FileMeasurement(const RecommendArguments& arguments) : arguments_(arguments) {}

  Status open();
  Status run(FileFigures* figures);

 private:
  Status check_lengths(const HostTensor& lengths, const char* name, int64_t tokens) const;
  DocumentMask mask_of(const DocumentSpan& span) const;
  KeyValues load(const DocumentSpan& span, int64_t kv_head) const;
  bool measure(const DocumentSpan& span, int64_t head, HeadFigures* figures) const;
  bool measure_group(const KeyValues& tensors, const DocumentSpan& span, int64_t head,
                     std::span<const MeasuredRow> rows, HeadFigures* figures) const;

  const RecommendArguments& arguments_;
  InputSource source_;
  float multiplier_ = 0;
};

Status FileMeasurement::check_lengths(const HostTensor& lengths, const char* name,
                                      int64_t tokens) const {
  if (lengths.empty()) return Status();
  const auto at = [&](int64_t i) {
    return lengths.type() == ElementType::kI64 ? lengths.as<int64_t>()[i]
                                               : int64_t{lengths.as<int32_t>()[i]};
  };
  const std::string path = printable(arguments_.file);
  for (int64_t i = 0; i < lengths.elements(); ++i) {
    if (i == 0 && at(0) != 0) return bad_input("{}: {}[0] must be 0; got {}", path, name, at(0));
    if (i > 0 && at(i) < at(i - 1)) {
      return bad_input("{}: {}[{}] must be >= {}[{}]; got {} < {}", path, name, i, name, i - 1,
                       at(i), at(i - 1));
    }
    if (at(i) > tokens) {
      return bad_input("{}: {}[{}] must be at most {}, the tokens; got {}", path, name, i, tokens,
                       at(i));
    }
  }
  return Status();
}

Status FileMeasurement::open() {
  InputArguments input;
  input.input = arguments_.file;
  Options options;
  options.threads = arguments_.common.threads;
  if (Status status = source_.open(input, options); !status.ok()) return status;
  if (Status status = source_.load(false); !status.ok()) return status;
  const AttentionInputs& inputs = source_.inputs();
  const std::string path = printable(arguments_.file);
  if (inputs.v.shape() != inputs.k.shape()) {
    return bad_input("{}: tensor v must have the shape of k, {}; it is {}", path,
                     shape_text(inputs.k.shape()), shape_text(inputs.v.shape()));
  }
  const Problem& problem = source_.problem();
  const bool own_keys = !inputs.cu_seqlens_k.empty();
  if (own_keys && inputs.cu_seqlens_k.elements() != inputs.cu_seqlens_q.elements()) {
    return bad_input("{}: tensor cu_seqlens_k must have {} entries, as cu_seqlens; it has {}", path,
                     inputs.cu_seqlens_q.elements(), inputs.cu_seqlens_k.elements());
  }
  const int64_t query_limit =
      own_keys ? problem.query_tokens : smaller(problem.query_tokens, problem.key_tokens);
  Status status = check_lengths(inputs.cu_seqlens_q, "cu_seqlens", query_limit);
  if (!status.ok()) return status;
  status = check_lengths(inputs.cu_seqlens_k, "cu_seqlens_k", problem.key_tokens);
  if (!status.ok()) return status;
  const float scale =
      arguments_.softmax_scale.value_or(1.0f / std::sqrt(static_cast<float>(problem.head_dim)));
  multiplier_ = score_multiplier(scale);
  return Status();
}

DocumentMask FileMeasurement::mask_of(const DocumentSpan& span) const {
  const int64_t right = arguments_.mask == MaskKind::kCausal ? 0 : -1;
  return {span.queries(), span.keys(), -1, right};
}

KeyValues FileMeasurement::load(const DocumentSpan& span, int64_t kv_head) const {
  const Problem& problem = source_.problem();
  KeyValues result;
  result.keys = span.keys();
  result.channels = problem.head_dim;
  result.stride = round_up(result.keys, pcast::kProductColumns);
  result.k.resize(static_cast<size_t>(result.channels * result.stride));
  result.v.resize(static_cast<size_t>(result.keys * result.channels));
  const uint16_t* k = source_.inputs().k.as<uint16_t>();
  const uint16_t* v = source_.inputs().v.as<uint16_t>();
  for (int64_t j = 0; j < result.keys; ++j) {
    const int64_t from = ((span.key_begin + j) * problem.kv_heads + kv_head) * result.channels;
    for (int64_t c = 0; c < result.channels; ++c) {
      result.k[static_cast<size_t>(c * result.stride + j)] = bf16_to_float(k[from + c]);
      result.v[static_cast<size_t>(j * result.channels + c)] = bf16_to_float(v[from + c]);
    }
  }
  return result;
}

void add_closed_forms(const pcast::RowStatistics& row, HeadFigures* figures) {
  const std::span<const KnownKernel> kernels = pcast::known_kernels();
  for (size_t k = 0; k < kernels.size(); ++k) {
    // In reverse order the others meet a maximum of their own, at most this one.
    const bool forward = kernels[k].kernel.order == KeyOrder::kForward;
    const double gap = forward ? row.sink_gap : row.other_top_gap;
    figures->kernels[k].closed_form += pcast::zeroed_fraction_of_row(
        gap, row.deviation, static_cast<double>(kernels[k].kernel.scale));
  }
}

// False if a score or an output is not finite.
bool FileMeasurement::measure_group(const KeyValues& tensors, const DocumentSpan& span,
                                    int64_t head, std::span<const MeasuredRow> rows,
                                    HeadFigures* figures) const {
  const int64_t channels = tensors.channels;
  const int64_t heads = source_.problem().heads;
  const size_t count = rows.size();
  std::vector<float> q(count * static_cast<size_t>(channels));
  std::vector<int64_t> visible;
  ScoreRows scores;
  for (size_t r = 0; r < count; ++r) {
    const uint16_t* from = source_.inputs().q.as<uint16_t>() +
                           ((span.query_begin + rows[r].row) * heads + head) * channels;
    for (int64_t c = 0; c < channels; ++c) {
      q[r * static_cast<size_t>(channels) + static_cast<size_t>(c)] =
          bf16_to_float(from[c]) * multiplier_;
    }
    visible.push_back(rows[r].keys);
    scores.keys = larger(scores.keys, rows[r].keys);
  }
  std::vector<float> values(count * static_cast<size_t>(tensors.stride));
  const int64_t columns = round_up(scores.keys, pcast::kProductColumns);
  pcast::multiply(q.data(), channels, tensors.k.data(), tensors.stride, values.data(),
                  tensors.stride, static_cast<int64_t>(count), channels, columns);
  scores.scores = values.data();
  scores.stride = tensors.stride;
  scores.rows = static_cast<int64_t>(count);
  scores.visible = visible.data();
  scores.sinks = arguments_.sinks;
  for (size_t r = 0; r < count; ++r) {
    for (int64_t j = 0; j < visible[r]; ++j) {
      if (!std::isfinite(
              values[r * static_cast<size_t>(tensors.stride) + static_cast<size_t>(j)])) {
        return false;
      }
    }
  }

  std::vector<double> exact(count * static_cast<size_t>(channels));
  std::vector<double> other_mass(count);
  pcast::run_exact(scores, tensors.v.data(), channels, exact.data(), other_mass.data());
  for (const double value : exact) {
    if (!std::isfinite(value)) return false;
    figures->output += value * value;
  }
  for (size_t r = 0; r < count; ++r) {
    const pcast::RowStatistics row = pcast::describe_row(scores, static_cast<int64_t>(r));
    figures->rows += 1;
    figures->sink_is_largest += row.sink_gap >= row.other_top_gap ? 1 : 0;
    figures->sink_mass += 1 - other_mass[r];
    figures->sink_gap.push_back(row.sink_gap);
    figures->other_top_gap.push_back(row.other_top_gap);
    figures->deviation.push_back(row.deviation);
    figures->scores.add(scores, static_cast<int64_t>(r));
    add_closed_forms(row, figures);
  }

  const std::span<const KnownKernel> kernels = pcast::known_kernels();
  std::vector<float> o(exact.size());
  std::vector<CastRow> cast(count);
  for (size_t k = 0; k < kernels.size(); ++k) {
    pcast::run_cast_kernel(kernels[k].kernel, scores, tensors.v.data(), channels, o.data(),
                           cast.data());
    HeadKernel& result = figures->kernels[k];
    for (size_t i = 0; i < o.size(); ++i) {
      const double error = static_cast<double>(o[i]) - exact[i];
      result.error += error * error;
    }
    for (const CastRow& row : cast) {
      result.others += row.others;
      result.zeroed += row.zeroed;
      result.saturated += row.saturated;
      result.lost_mass += row.lost_mass;
      result.worst_lost_mass = larger(result.worst_lost_mass, row.lost_mass);
    }
  }
  return true;
}

bool FileMeasurement::measure(const DocumentSpan& span, int64_t head, HeadFigures* figures) const {
  figures->kernels.resize(pcast::known_kernels().size());
  const std::vector<MeasuredRow> rows =
      choose_rows(mask_of(span), arguments_.sinks, arguments_.rows);
  if (rows.empty()) return true;
  const Problem& problem = source_.problem();
  const KeyValues tensors = load(span, head / (problem.heads / problem.kv_heads));
  const std::span<const MeasuredRow> all = rows;
  for (size_t begin = 0; begin < rows.size(); begin += kRowGroup) {
    const size_t group = smaller(static_cast<size_t>(kRowGroup), rows.size() - begin);
    if (!measure_group(tensors, span, head, all.subspan(begin, group), figures)) return false;
  }
  return true;
}

Status FileMeasurement::run(FileFigures* figures) {
  const Problem& problem = source_.problem();
  const PackedLayout layout(problem, source_.cu_seqlens_q(), source_.cu_seqlens_k());
  const int64_t documents = layout.documents();
  const int64_t tasks = problem.heads * documents;
  std::vector<HeadFigures> parts(static_cast<size_t>(tasks));
  std::vector<char> finite(static_cast<size_t>(tasks), 1);
  parallel_chunks(tasks, 1, arguments_.common.threads, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const DocumentSpan span = layout.span(static_cast<int32_t>(task % documents));
      const size_t t = static_cast<size_t>(task);
      finite[t] = measure(span, task / documents, &parts[t]) ? 1 : 0;
    }
  });
  figures->text = source_.text();
  figures->heads.resize(static_cast<size_t>(problem.heads));
  for (int64_t task = 0; task < tasks; ++task) {
    const size_t t = static_cast<size_t>(task);
    if (finite[t] == 0) {
      return bad_input(
          "{}: q, k and v must be finite; head {} of document {} gives scores or "
          "outputs that are not",
          printable(arguments_.file), task / documents, task % documents);
    }
    figures->heads[static_cast<size_t>(task / documents)].merge(parts[t]);
    if (task < documents && parts[t].rows == 0) ++figures->skipped_documents;
  }
  if (figures->heads.empty() || figures->heads[0].rows == 0) {
    return bad_input("{}: a document must have rows that see {} keys or more; none has",
                     printable(arguments_.file), arguments_.sinks + kFewestOthers);
  }
  return Status();
}

}  // namespace

double HeadKernel::zeroed_fraction() const {
  return others > 0 ? static_cast<double>(zeroed) / static_cast<double>(others) : 0.0;
}

double HeadFigures::relative_error(size_t kernel) const {
  return output > 0 ? std::sqrt(kernels[kernel].error / output) : 0.0;
}

void HeadFigures::merge(const HeadFigures& other) {
  rows += other.rows;
  sink_is_largest += other.sink_is_largest;
  sink_mass += other.sink_mass;
  output += other.output;
  sink_gap.insert(sink_gap.end(), other.sink_gap.begin(), other.sink_gap.end());
  other_top_gap.insert(other_top_gap.end(), other.other_top_gap.begin(), other.other_top_gap.end());
  deviation.insert(deviation.end(), other.deviation.begin(), other.deviation.end());
  scores.merge(other.scores);
  kernels.resize(larger(kernels.size(), other.kernels.size()));
  for (size_t k = 0; k < other.kernels.size(); ++k) {
    kernels[k].closed_form += other.kernels[k].closed_form;
    kernels[k].others += other.kernels[k].others;
    kernels[k].zeroed += other.kernels[k].zeroed;
    kernels[k].saturated += other.kernels[k].saturated;
    kernels[k].lost_mass += other.kernels[k].lost_mass;
    kernels[k].worst_lost_mass =
        larger(kernels[k].worst_lost_mass, other.kernels[k].worst_lost_mass);
    kernels[k].error += other.kernels[k].error;
  }
}

HeadFigures FileFigures::all() const {
  HeadFigures result;
  for (const HeadFigures& head : heads) result.merge(head);
  return result;
}

Status measure_file(const RecommendArguments& arguments, FileFigures* figures) {
  FileMeasurement measurement(arguments);
  if (Status status = measurement.open(); !status.ok()) return status;
  return measurement.run(figures);
}

}  // namespace flamia::tools
