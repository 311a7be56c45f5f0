// Where the tensors of an attention call come from.

#include "tools/input_source.h"

#include <limits>
#include <numeric>
#include <utility>

#include "problem/packed_layout.h"
#include "tools/document_list.h"
#include "tools/errors.h"

namespace flamia::tools {

namespace {

TensorView shape_view(const TensorInfo& tensor) {
  TensorView view;
  view.dtype = library_type(tensor.type).value_or(DType::kU8);
  view.rank = static_cast<int32_t>(tensor.shape.size());
  int64_t stride = 1;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    view.shape[i] = tensor.shape[i];
    view.stride[i] = stride;
    stride *= tensor.shape[i];
  }
  return view;
}

std::vector<int64_t> lengths_of(const Problem& problem, const TensorView& cu_q,
                                const TensorView& cu_k, bool keys) {
  const PackedLayout layout(problem, cu_q, cu_k);
  std::vector<int64_t> lengths;
  for (int32_t document = 0; document < problem.documents; ++document) {
    const DocumentSpan span = layout.span(document);
    lengths.push_back(keys ? span.keys() : span.queries());
  }
  return lengths;
}

}  // namespace

Status InputSource::open(const InputArguments& arguments, const Options& options) {
  arguments_ = arguments;
  threads_ = options.threads;
  if (!arguments.input.empty() && !arguments.generated_option.empty()) {
    return bad_input("{} must not be given with --input", arguments.generated_option);
  }
  return arguments.input.empty() ? open_workload(options) : open_file();
}

Status InputSource::find_tensor(const char* name, const TensorInfo** tensor) const {
  const std::string path = printable(file_.path());
  *tensor = file_.find(name);
  if (*tensor == nullptr) return bad_input("{}: tensor {} must be there", path, name);
  const ElementType type = (*tensor)->type;
  if (type != ElementType::kBF16) {
    return bad_input("{}: tensor {} must be BF16; it is {} (convert it before saving)", path, name,
                     element_name(type));
  }
  const size_t rank = (*tensor)->shape.size();
  if (rank != 3 && rank != 4) {
    return bad_input(
        "{}: tensor {} must be [tokens, heads, head_dim] or [batch, length, heads, "
        "head_dim]; it is {}",
        path, name, shape_text((*tensor)->shape));
  }
  return Status();
}

Status InputSource::read_lengths(const char* name, HostTensor* lengths) const {
  const TensorInfo* tensor = file_.find(name);
  if (tensor == nullptr) return Status();
  const bool integer = tensor->type == ElementType::kI32 || tensor->type == ElementType::kI64;
  if (!integer || tensor->shape.size() != 1) {
    return bad_input("{}: tensor {} must be I32 or I64 [documents + 1]; it is {} {}",
                     printable(file_.path()), name, element_name(tensor->type),
                     shape_text(tensor->shape));
  }
  return file_.read(*tensor, lengths);
}

Status InputSource::open_file() {
  if (Status status = file_.open(arguments_.input); !status.ok()) return status;
  const TensorInfo* q = nullptr;
  const TensorInfo* k = nullptr;
  const TensorInfo* v = nullptr;
  if (Status status = find_tensor("q", &q); !status.ok()) return status;
  if (Status status = find_tensor("k", &k); !status.ok()) return status;
  if (Status status = find_tensor("v", &v); !status.ok()) return status;
  const std::string path = printable(arguments_.input);
  const bool batched = q->shape.size() == 4;
  const bool has_lengths = file_.find("cu_seqlens") != nullptr;
  if (!batched && !has_lengths) {
    return bad_input("{}: tensor cu_seqlens must be there when q has rank 3 (a batch has rank 4)",
                     path);
  }
  if (batched && (has_lengths || file_.find("cu_seqlens_k") != nullptr)) {
    return bad_input("{}: a batch, q of rank 4, must not have cu_seqlens", path);
  }
  if (Status status = read_lengths("cu_seqlens", &inputs_.cu_seqlens_q); !status.ok()) {
    return status;
  }
  if (Status status = read_lengths("cu_seqlens_k", &inputs_.cu_seqlens_k); !status.ok()) {
    return status;
  }
  if (file_.find("do") != nullptr) {
    const TensorInfo* d_o = nullptr;
    if (Status status = find_tensor("do", &d_o); !status.ok()) return status;
    if (d_o->shape != q->shape) {
      return bad_input("{}: tensor do must have the shape of q, {}; it is {}", path,
                       shape_text(q->shape), shape_text(d_o->shape));
    }
  }
  ForwardTensors tensors = forward_inputs(inputs_);
  tensors.q = shape_view(*q);
  tensors.k = shape_view(*k);
  tensors.v = shape_view(*v);
  return problem_from_tensors(tensors, &problem_);
}

Status InputSource::open_workload(const Options& options) {
  workload_.heads = arguments_.heads;
  workload_.kv_heads = arguments_.kv_heads.value_or(arguments_.heads);
  workload_.head_dim = arguments_.head_dim;
  workload_.seed = arguments_.seed;
  workload_.softmax_scale =
      options.softmax_scale ? static_cast<double>(*options.softmax_scale) : 0.0;
  workload_.threads = options.threads;
  Status status = parse_distribution("--dist", arguments_.distribution, &workload_.distribution);
  if (!status.ok()) return status;
  status = parse_documents("--docs", arguments_.documents, &workload_.query_lengths);
  if (!status.ok()) return status;
  if (!arguments_.key_documents.empty()) {
    status = parse_documents("--docs-k", arguments_.key_documents, &workload_.key_lengths);
    if (!status.ok()) return status;
    if (workload_.key_lengths.size() != workload_.query_lengths.size()) {
      return bad_input("--docs-k must have as many documents as --docs; got {} and {}",
                       workload_.key_lengths.size(), workload_.query_lengths.size());
    }
  }
  status = generate_lengths(workload_, &inputs_);
  if (!status.ok()) return status;
  const auto sum = [](const std::vector<int64_t>& lengths) {
    return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  };
  problem_.query_tokens = sum(workload_.query_lengths);
  problem_.key_tokens =
      workload_.key_lengths.empty() ? problem_.query_tokens : sum(workload_.key_lengths);
  problem_.documents = static_cast<int32_t>(workload_.query_lengths.size());
  problem_.heads = workload_.heads;
  problem_.kv_heads = workload_.kv_heads;
  problem_.head_dim = workload_.head_dim;
  return Status();
}

std::string InputSource::text() const {
  const std::vector<int64_t> queries = lengths_of(problem_, cu_seqlens_q(), cu_seqlens_k(), false);
  const std::vector<int64_t> keys = lengths_of(problem_, cu_seqlens_q(), cu_seqlens_k(), true);
  std::string result =
      arguments_.input.empty()
          ? fmt::format("generated, {}, seed {}", arguments_.distribution, arguments_.seed)
          : printable(arguments_.input);
  result += ": " + documents_text(queries);
  if (queries != keys) result += ", keys " + documents_text(keys);
  return result;
}

Status InputSource::load(bool with_output_gradient) {
  if (!arguments_.input.empty()) return load_file(with_output_gradient);
  return generate_inputs(workload_, with_output_gradient, &inputs_);
}

Status InputSource::load_file(bool with_output_gradient) {
  const std::pair<const char*, HostTensor*> wanted[] = {
      {"q", &inputs_.q}, {"k", &inputs_.k}, {"v", &inputs_.v}};
  for (const auto& [name, tensor] : wanted) {
    if (Status status = file_.read(*file_.find(name), tensor); !status.ok()) return status;
  }
  if (!with_output_gradient) return Status();
  if (const TensorInfo* d_o = file_.find("do")) return file_.read(*d_o, &inputs_.d_o);
  output_gradient_generated_ = true;
  return generate_output_gradient(inputs_.q, arguments_.seed, threads_, &inputs_.d_o);
}

ForwardTensors forward_inputs(const AttentionInputs& inputs) {
  ForwardTensors tensors;
  tensors.q = inputs.q.view();
  tensors.k = inputs.k.view();
  tensors.v = inputs.v.view();
  tensors.cu_seqlens_q = inputs.cu_seqlens_q.view();
  tensors.cu_seqlens_k = inputs.cu_seqlens_k.view();
  return tensors;
}

}  // namespace flamia::tools
