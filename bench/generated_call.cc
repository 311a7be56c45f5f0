// A generated attention call with its exact results.
#include "bench/generated_call.h"

#include <cmath>

#include "tools/input_source.h"

namespace flamia::bench {

Status GeneratedCall::generate(const tools::WorkloadSpec& spec) {
  const Status status = tools::generate_inputs(spec, true, &inputs);
  if (!status.ok()) return status;
  return problem_from_tensors(tools::forward_inputs(inputs), &problem);
}

Status GeneratedCall::exact(const Mask& mask, bool backward, int threads,
                            oracle::Result* result) const {
  oracle::Settings settings;
  settings.backward = backward;
  settings.threads = threads;
  return oracle::attention(problem, mask, 1.0 / std::sqrt(static_cast<double>(problem.head_dim)),
                           tools::forward_inputs(inputs), inputs.d_o.view(), settings, result);
}

tools::WorkloadSpec documents_spec(int documents, int64_t length, int32_t heads, int threads) {
  tools::WorkloadSpec spec;
  spec.query_lengths.assign(static_cast<size_t>(documents), length);
  spec.heads = heads;
  spec.kv_heads = heads;
  spec.head_dim = 128;
  spec.threads = threads;
  return spec;
}

Options path_options(Path path, MaskKind mask, Family family, int threads) {
  Options options;
  options.path = path;
  options.backend = BackendKind::kCpu;
  options.emulate = family;
  options.mask.kind = mask;
  options.threads = threads;
  return options;
}

}  // namespace flamia::bench
