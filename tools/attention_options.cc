// The options that attend and explain share: what is computed, and how.

#include "tools/attention_options.h"

#include <limits>

#include "tools/option_parsing.h"

namespace flamia::tools {

namespace {

constexpr float kLargestFloat = std::numeric_limits<float>::max();
constexpr int32_t kMostHeads = 65536;
constexpr int32_t kLargestHeadDim = 65536;
constexpr int32_t kMostThreads = 1024;
constexpr int64_t kWidestWindow = int64_t{1} << 40;

void add_input_options(CLI::App& app, InputArguments* input) {
  const std::string group = "Input";
  add_text(app, "--input", "Safetensors file: q, k, v, cu_seqlens, perhaps do and cu_seqlens_k",
           "FILE", &input->input)
      ->group(group);
  const auto generated = [&](CLI::Option* option) {
    const std::string option_name = option->get_name();
    option->group(group)->each(
        [input, option_name](const std::string&) { input->generated_option = option_name; });
  };
  generated(add_text(app, "--docs",
                     "Document lengths: 4x4096, 8192+32x256, 344,198 or @FILE (default 4x4096)",
                     "LENGTHS", &input->documents));
  generated(add_text(app, "--docs-k", "Lengths of their keys (default: as --docs)", "LENGTHS",
                     &input->key_documents));
  generated(add_number<int32_t>(app, "--heads", "Query heads (default 16)", 1, kMostHeads,
                                &input->heads));
  generated(add_number<int32_t>(app, "--kv-heads", "Key and value heads (default: as --heads)", 1,
                                kMostHeads, &input->kv_heads));
  generated(add_number<int32_t>(app, "--head-dim", "Head channels (default 128)", 1,
                                kLargestHeadDim, &input->head_dim));
  generated(add_text(app, "--dist",
                     "normal, sinks:DELTA, outliers:CHANNELS,GAIN, vmean:MU, heavy:DECADES; a+b",
                     "DIST", &input->distribution));
  add_number<uint64_t>(app, "--seed", "Seed of everything that is generated (default 0)", 0,
                       std::numeric_limits<uint64_t>::max(), &input->seed)
      ->group(group);
}

void add_call_options(CLI::App& app, AttentionArguments* arguments) {
  const std::string group = "Call";
  Options* options = &arguments->options;
  add_choice(app, "--path", "Precision (default mxfp8)", &options->path)->group(group);
  add_choice(app, "--backend", "Executor (default auto: by device alone)", &options->backend)
      ->group(group);
  add_choice(app, "--emulate", "Family whose numbers the CPU backend gives (default hopper)",
             &options->emulate)
      ->group(group);
  const auto set_mask = [options](const std::string& text) {
    if (!parse(text, &options->mask) || options->mask.window_left > kWidestWindow ||
        options->mask.window_right > kWidestWindow) {
      refuse_option(fmt::format(
          "--mask must be causal, full or window:LEFT,RIGHT with -1 for unlimited; got {}",
          printable(text)));
    }
  };
  app.add_option_function<std::string>("--mask", set_mask,
                                       "causal, full or window:LEFT,RIGHT (default causal)")
      ->type_name("MASK")
      ->group(group);
  add_number<float>(app, "--scale", "Softmax scale (default 1/sqrt(head_dim))", -kLargestFloat,
                    kLargestFloat, &options->softmax_scale)
      ->group(group);
  add_choice(app, "--safety", "Causal safety (default default)", &options->safety)->group(group);
  const auto deterministic = [options](std::int64_t) {
    options->determinism = Determinism::kDeterministic;
  };
  app.add_flag_function("--deterministic", deterministic, "Fixed order of every sum")->group(group);
  app.add_flag("--forward-only", arguments->forward_only, "No gradients")->group(group);
  add_choice(app, "--assignment", "Share of the work of a GPU (default dynamic; same bits)",
             &options->assignment)
      ->group(group);
  add_number<int32_t>(app, "--threads", "CPU threads, 0 for one per core (default 0)", 0,
                      kMostThreads, &options->threads)
      ->group(group);
}

void add_numeric_options(CLI::App& app, Options* options) {
  const std::string group = "Numbers";
  const auto choice = [&](const char* name, const char* description, auto* value) {
    add_choice(app, name, description, value)->group(group);
  };
  choice("--hadamard", "Rotation of Q and K (default auto)", &options->hadamard);
  choice("--kv-order", "Order of key tiles (default reverse)", &options->kv_order);
  add_number<float>(app, "--p-scale", "Linear factor S of P (default 256 hopper, 16 blackwell)",
                    -kLargestFloat, kLargestFloat, &options->p_scale)
      ->group(group);
  add_number<float>(app, "--tau", "Rescale threshold, log2 (default 0 hopper, 4 blackwell)",
                    -kLargestFloat, kLargestFloat, &options->tau)
      ->group(group);
  choice("--exp", "Exponential (default exact)", &options->exponential);
  choice("--row-sum", "Row sum from P-hat or P (default p_hat)", &options->row_sum);
  choice("--delta", "O in D = rowsum(dO O) (default o_residual)", &options->delta);
  choice("--accumulate", "Sums of products: exact or as tensor cores (default auto: by backend)",
         &options->accumulate);
  choice("--promote", "Promotion of FP8 accumulators (default tile)", &options->promote);
  choice("--score-accumulator", "Accumulator of scores (default f32)", &options->score_accumulator);
  choice("--ds-format", "Format of dS (default e4m3)", &options->ds_format);
  choice("--grad-products", "Precision of gradient products (default auto)",
         &options->grad_products);
  choice("--dq-accumulate", "Accumulator of dQ (default auto)", &options->dq_accumulate);
  choice("--dq-scale", "Prescale of dQ (default auto)", &options->dq_scale);
}

}  // namespace

void add_attention_options(CLI::App& app, AttentionArguments* arguments) {
  add_input_options(app, &arguments->input);
  add_choice_options(app, arguments);
}

void add_choice_options(CLI::App& app, AttentionArguments* arguments) {
  arguments->options.mask.kind = MaskKind::kCausal;
  add_call_options(app, arguments);
  add_numeric_options(app, &arguments->options);
}

}  // namespace flamia::tools
