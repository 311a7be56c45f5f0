// Time of the quantizer launch for Q, K and V together, against the rate of a copy. Sampled blocks
// are compared with the CPU's quantizer before anything is timed.
// Buffers take turns so that nothing stays in the L2: every set is larger than it, and there are
// at least two. A sample is several launches between two events; the median is reported.
#include "cuda/quantize.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/device_arrays.h"
#include "bench/gpu/kernel_speed.h"
#include "cuda/schedule.h"
#include "flamia/attention.h"
#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/nvfp4_scale.h"
#include "plan/kernel_info.h"
#include "problem/token_blocks.h"
#include "tools/document_list.h"
#include "tools/errors.h"

namespace flamia::bench {
namespace {

constexpr int kUsualSamples = 21;
constexpr int kWarmSamples = 1;
constexpr int kLaunchesPerSample = 8;
constexpr int kMostSets = 64;
constexpr double kLargestOverFloor = 1.25;

constexpr QuantizeForm kE4m3 = QuantizeForm::kE4m3;
constexpr QuantizeForm kNvfp4 = QuantizeForm::kNvfp4;
constexpr QuantizeForm kBf16 = QuantizeForm::kBf16;

/// What is written of q, k and v.
struct Wanted {
  const char* name;
  QuantizeForm form[3];
  bool row[3], transposed[3], hadamard[3];

  double bytes_per_channel() const {
    double bytes = 0;
    for (int i = 0; i < 3; ++i) {
      bytes += form[i] == kE4m3 ? 2 + row[i] + transposed[i] : 4;
    }
    return bytes;
  }
};

constexpr Wanted kWanted[] = {
    {"forward",
     {kE4m3, kE4m3, kE4m3},
     {true, true, false},
     {false, false, true},
     {true, true, false}},
    {"forward, not rotated",
     {kE4m3, kE4m3, kE4m3},
     {true, true, false},
     {false, false, true},
     {false, false, false}},
    {"training",
     {kE4m3, kE4m3, kE4m3},
     {true, true, true},
     {true, true, true},
     {true, true, false}},
    {"mixed forward",
     {kNvfp4, kNvfp4, kE4m3},
     {false, false, false},
     {false, false, true},
     {true, true, false}},
    {"bf16 blocks",
     {kBf16, kBf16, kBf16},
     {false, false, false},
     {false, false, false},
     {false, false, false}},
};

struct Shape {
  std::string name;
  std::vector<int64_t> lengths;
  int heads;
  int dim;

  int64_t tokens() const {
    int64_t sum = 0;
    for (const int64_t length : lengths) sum += length;
    return sum;
  }
  int64_t blocks() const {
    return token_block_capacity(tokens(), static_cast<int64_t>(lengths.size()));
  }
  int64_t channels() const { return tokens() * heads * dim; }
};

/// Bytes of BF16 that look like normal values.
std::vector<uint16_t> pattern_values() {
  std::vector<uint16_t> pattern(1 << 20);
  uint32_t state = 1;
  for (uint16_t& value : pattern) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<uint16_t>((state >> 31) << 15 | (0x3e00 + (state >> 16) % 0x240));
  }
  return pattern;
}

/// Buffers of q, k, v with all payloads.
class BufferSet {
 public:
  explicit BufferSet(const Shape& shape) {
    std::vector<int32_t> cumulative{0};
    for (const int64_t length : shape.lengths) {
      cumulative.push_back(cumulative.back() + static_cast<int32_t>(length));
    }
    const auto documents = static_cast<int32_t>(shape.lengths.size());
    const int32_t tokens = cumulative.back();
    ScheduleArgs schedule{};
    schedule.queries = {arrays_.copy_of(cumulative), 1, 0, 0, tokens, documents};
    schedule.keys = schedule.queries;
    schedule.window_left = schedule.window_right = -1;
    schedule.schedule.counts = arrays_.take<ScheduleCounts>(1);
    schedule.schedule.query_blocks = arrays_.take<TokenBlockRange>(shape.blocks());
    schedule.schedule.key_blocks = schedule.schedule.query_blocks;
    schedule.schedule.items = arrays_.take<ForwardItem>(forward_item_capacity(tokens, documents));
    schedule.scratch = arrays_.take<unsigned char>(
        static_cast<int64_t>(cuda::schedule_scratch_bytes(tokens, tokens, documents)));
    args_.count = 3;
    for (QuantizeTensor& tensor : args_.tensors) {
      auto* const input = arrays_.take<uint16_t>(shape.channels());
      tensor.input = {input,     0, static_cast<int64_t>(shape.heads) * shape.dim,
                      shape.dim, 0, shape.heads};
      const int64_t payload = shape.heads * shape.blocks() * token_block_bytes(shape.dim);
      tensor.output.row_codes = arrays_.take<uint8_t>(payload);
      tensor.output.transposed_codes = arrays_.take<uint8_t>(payload);
      tensor.output.exponents = arrays_.take<int8_t>(shape.heads * shape.blocks() * kTokenBlock);
      tensor.row_bf16 = arrays_.take<uint16_t>(payload);
      tensor.output.blocks = shape.blocks();
      tensor.blocks = schedule.schedule.query_blocks;
    }
    status_ = arrays_.status();
    if (status_.ok()) status_ = cuda::build_schedule(schedule, nullptr);
    const std::vector<uint16_t> pattern = pattern_values();
    for (const QuantizeTensor& tensor : args_.tensors) fill(tensor.input, shape, pattern);
  }

  const Status& status() const { return status_; }

  QuantizeArgs select(const Wanted& wanted) const {
    QuantizeArgs args = args_;
    for (int i = 0; i < 3; ++i) {
      QuantizeTensor& tensor = args.tensors[i];
      tensor.form = wanted.form[i];
      tensor.hadamard = wanted.hadamard[i] ? 1 : 0;
      if (!wanted.row[i]) tensor.output.row_codes = nullptr;
      if (!wanted.transposed[i]) tensor.output.transposed_codes = nullptr;
    }
    return args;
  }

 private:
  void fill(const Bf16Tensor& input, const Shape& shape, const std::vector<uint16_t>& pattern) {
    auto* const to = const_cast<uint16_t*>(input.data);
    const auto size = static_cast<int64_t>(pattern.size());
    for (int64_t done = 0; done < shape.channels() && status_.ok(); done += size) {
      const int64_t part = std::min(shape.channels() - done, size);
      status_ = cuda_status("cudaMemcpy",
                            cudaMemcpy(to + done, pattern.data(), static_cast<size_t>(part) * 2,
                                       cudaMemcpyHostToDevice));
    }
  }

  DeviceArrays arrays_;
  QuantizeArgs args_{};
  Status status_;
};

/// What the CPU makes of the tokens of one block, all heads.
struct BlockModel {
  std::vector<uint8_t> codes;
  std::vector<int8_t> exponents;
  std::vector<uint8_t> scales;
  int tokens = 0;
  int heads = 0;
  int dim = 0;

  size_t at(int token, int head, int channel) const {
    return static_cast<size_t>((token * heads + head) * dim + channel);
  }
  int8_t exponent(int token, int head) const {
    return exponents[static_cast<size_t>(token * heads + head)];
  }
  /// The BF16 value that a block in that form holds.
  uint16_t product(int token, int head, int channel) const {
    const size_t place = at(token, head, channel);
    const float scale = nvfp4_bf16_scale(scales[place / kNvfp4Block], exponent(token, head));
    return float_to_bf16(decode_e2m1(codes[place]) * scale);
  }
};

Status model_block(std::vector<uint16_t>* rows, const QuantizeTensor& tensor, BlockModel* model) {
  const auto elements = rows->size();
  model->codes.resize(elements);
  model->exponents.resize(elements / static_cast<size_t>(model->dim));
  const bool nvfp4 = tensor.form == kNvfp4;
  if (nvfp4) model->scales.resize(elements / kNvfp4Block);
  const int64_t heads = model->heads;
  const int64_t dim = model->dim;
  const auto dense = [&](void* data, DType type, int64_t columns) -> TensorView {
    if (data == nullptr) return {};
    if (columns == 0) return {data, type, 2, {model->tokens, heads}, {heads, 1}};
    return {data, type, 3, {model->tokens, heads, columns}, {heads * columns, columns, 1}};
  };
  int32_t lengths[2] = {0, model->tokens};
  Options options;
  options.backend = BackendKind::kCpu;
  options.path = nvfp4 ? Path::kNvfp4 : Path::kMxfp8;
  options.hadamard = tensor.hadamard != 0 ? Hadamard::kOn : Hadamard::kOff;
  const QuantizedTensors outputs{
      dense(model->codes.data(), DType::kU8, dim), dense(model->exponents.data(), DType::kI8, 0),
      dense(nvfp4 ? model->scales.data() : nullptr, DType::kU8, dim / kNvfp4Block)};
  return quantize(dense(rows->data(), DType::kBF16, dim), {lengths, DType::kI32, 1, {2}, {1}},
                  Role::kQ, ContractionAxis::kHeadDim, options, outputs);
}

/// Compares one block of one tensor, all heads.
Status check_block(const QuantizeTensor& tensor, int64_t block, int heads, int dim) {
  std::vector<TokenBlockRange> range;
  std::vector<uint16_t> rows;
  Status status = read_array(tensor.blocks + block, 1, &range);
  if (!status.ok() || range[0].tokens == 0) return status;
  status = read_array(tensor.input.data + range[0].token * tensor.input.token_stride,
                      range[0].tokens * tensor.input.token_stride, &rows);
  BlockModel model;
  model.tokens = range[0].tokens;
  model.heads = heads;
  model.dim = dim;
  if (status.ok()) status = model_block(&rows, tensor, &model);
  const auto order = static_cast<TokenOrder>(tensor.order);
  for (int head = 0; head < heads && status.ok(); ++head) {
    const int64_t index = head * tensor.output.blocks + block;
    const int64_t first = index * token_block_bytes(dim);
    std::vector<uint8_t> row;
    std::vector<uint8_t> transposed;
    std::vector<uint16_t> bf16;
    std::vector<int8_t> exponents;
    const bool codes = tensor.form == kE4m3;
    const bool products = tensor.form == kNvfp4;
    if (codes && tensor.output.row_codes != nullptr) {
      status = read_array(tensor.output.row_codes + first, token_block_bytes(dim), &row);
    }
    if (status.ok() && codes && tensor.output.transposed_codes != nullptr) {
      status =
          read_array(tensor.output.transposed_codes + first, token_block_bytes(dim), &transposed);
    }
    if (status.ok() && !codes) {
      status = read_array(tensor.row_bf16 + first, token_block_bytes(dim), &bf16);
    }
    if (status.ok() && codes) {
      status = read_array(tensor.output.exponents + index, 1, &exponents);
    }
    if (!status.ok()) return status;
    bool same = true;
    for (int token = 0; token < model.tokens; ++token) {
      if (!exponents.empty()) same = same && exponents[0] == model.exponent(token, head);
      for (int channel = 0; channel < dim; ++channel) {
        const uint8_t code = model.codes[model.at(token, head, channel)];
        if (!row.empty()) {
          same = same && row[static_cast<size_t>(row_payload_byte(token, channel, dim))] == code;
        }
        if (!transposed.empty()) {
          const int position = transposed_position(token, order);
          same =
              same &&
              transposed[static_cast<size_t>(transposed_payload_byte(channel, position))] == code;
        }
        if (!bf16.empty()) {
          const uint16_t wanted =
              products ? model.product(token, head, channel) : rows[model.at(token, head, channel)];
          same = same && bf16[static_cast<size_t>(bf16_payload_byte(token, channel)) / 2] == wanted;
        }
      }
    }
    if (!same) {
      return tools::failure("block {} of head {} must hold the CPU's codes", block, head);
    }
  }
  return status;
}

Status check_launch(const QuantizeArgs& args, const Shape& shape) {
  Status status = cuda::launch_quantize(args, shape.dim, nullptr);
  const int64_t blocks = shape.blocks() - kSlackBlocks;
  for (const QuantizeTensor& tensor : args.tensors) {
    for (const int64_t block : {int64_t{0}, blocks / 2, blocks - 1}) {
      if (status.ok()) status = check_block(tensor, block, shape.heads, shape.dim);
    }
  }
  return status;
}

/// GB/s of a copy in device memory, bytes read plus bytes written.
Status measure_copy(int64_t bytes, int samples, double* gb_per_s) {
  DeviceArrays arrays;
  const auto* from = arrays.take<uint8_t>(bytes);
  auto* to = arrays.take<uint8_t>(bytes);
  if (!arrays.status().ok()) return arrays.status();
  EventPair events(nullptr);
  std::vector<double> times;
  for (int i = -kWarmSamples; i < samples; ++i) {
    double us = 0;
    Status status = events.microseconds(
        [&] {
          return cuda_status("cudaMemcpyAsync",
                             cudaMemcpyAsync(to, from, static_cast<size_t>(bytes),
                                             cudaMemcpyDeviceToDevice, nullptr));
        },
        &us);
    if (!status.ok()) return status;
    if (i >= 0) times.push_back(us);
  }
  *gb_per_s = 2 * static_cast<double>(bytes) / median_of(std::move(times)) * 1e-3;
  return {};
}

Status median_us(const std::vector<QuantizeArgs>& sets, int dim, int samples, double* us) {
  EventPair events(nullptr);
  std::vector<double> times;
  size_t next = 0;
  for (int i = -kWarmSamples; i < samples; ++i) {
    double one = 0;
    Status status = events.microseconds(
        [&] {
          Status launched;
          for (int n = 0; n < kLaunchesPerSample && launched.ok(); ++n) {
            launched = cuda::launch_quantize(sets[next++ % sets.size()], dim, nullptr);
          }
          return launched;
        },
        &one);
    if (!status.ok()) return status;
    if (i >= 0) times.push_back(one / kLaunchesPerSample);
  }
  *us = median_of(std::move(times));
  return {};
}

Status measure_shape(const Shape& shape, double copy_gbs, int64_t l2_bytes, int samples,
                     const SpeedOutput& output) {
  const int64_t input_bytes = std::max<int64_t>(3 * 2 * shape.channels(), 1);
  const int64_t count = std::min<int64_t>(2 + 4 * l2_bytes / input_bytes, kMostSets);
  std::vector<std::unique_ptr<BufferSet>> sets;
  for (int64_t i = 0; i < count; ++i) {
    sets.push_back(std::make_unique<BufferSet>(shape));
    if (!sets.back()->status().ok()) return sets.back()->status();
  }
  const std::string group = "quantize q, k and v together, time over a copy of the bytes";
  for (const Wanted& wanted : kWanted) {
    output.progress->phase(fmt::format("{} {}", shape.name, wanted.name));
    std::vector<QuantizeArgs> selected;
    for (const auto& set : sets) selected.push_back(set->select(wanted));
    Status status = check_launch(selected.front(), shape);
    double us = 0;
    if (status.ok()) status = median_us(selected, shape.dim, samples, &us);
    if (!status.ok()) return status;
    const double bytes = wanted.bytes_per_channel() * static_cast<double>(shape.channels());
    const double floor_us = bytes / copy_gbs * 1e-3;
    // Codes and exponents of 4-bit operands are rounded in software.
    const bool judged = wanted.form[0] == kE4m3;
    output.table->add({group, fmt::format("{}, {}", shape.name, wanted.name), us / floor_us,
                       judged ? Rule::kAtMost : Rule::kNoted, judged ? kLargestOverFloor : 0, 0});
    output.table->note(group, fmt::format("  {:.2f} us, {:.0f} GB/s; a copy {:.0f} GB/s", us,
                                          bytes / us * 1e-3, copy_gbs));
    output.rows->push_back({{"kind", "quantize"},
                            {"workload", shape.name},
                            {"outputs", wanted.name},
                            {"tokens", shape.tokens()},
                            {"heads", shape.heads},
                            {"head_dim", shape.dim},
                            {"us", us},
                            {"gb_per_s", bytes / us * 1e-3},
                            {"copy_gb_per_s", copy_gbs},
                            {"floor_us", floor_us},
                            {"over_floor", us / floor_us}});
  }
  return {};
}

}  // namespace

Status measure_gpu_quantizer(const SpeedSettings& settings, const SpeedOutput& output) {
  const tools::InputArguments& input = settings.arguments.input;
  std::vector<Shape> shapes;
  if (settings.workload.empty()) {
    for (const int dim : {128, 64}) {
      for (const int64_t tokens : {16384, 65536, 131072}) {
        shapes.push_back({fmt::format("1x{} h16 d{}", tokens, dim), {tokens}, 16, dim});
      }
    }
  } else {
    Shape shape{settings.workload, {}, input.heads, input.head_dim};
    if (Status status = tools::parse_documents("--docs", input.documents, &shape.lengths);
        !status.ok()) {
      return status;
    }
    shapes.push_back(std::move(shape));
  }
  int device = 0;
  int l2_bytes = 0;
  Status status = cuda_status("cudaGetDevice", cudaGetDevice(&device));
  if (status.ok()) {
    status = cuda_status("cudaDeviceGetAttribute",
                         cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device));
  }
  const int samples = settings.repetitions(kUsualSamples);
  double copy_gbs = 0;
  output.progress->phase("copy baseline");
  if (status.ok()) status = measure_copy(int64_t{4} * l2_bytes, samples, &copy_gbs);
  for (const Shape& shape : shapes) {
    if (status.ok()) status = measure_shape(shape, copy_gbs, l2_bytes, samples, output);
  }
  return status;
}

}  // namespace flamia::bench
