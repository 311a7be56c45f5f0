// What the quantizer kernel must write, byte for byte, from the definitions of numerics/, and the
// launch that it is compared with. Bytes that no launch may touch keep a fill pattern in both.
// Used by: quantize_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "cuda/quantize.h"
#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/hadamard.h"
#include "numerics/nvfp4_scale.h"
#include "numerics/scale_codes.h"
#include "numerics/token_block_scale.h"
#include "plan/kernel_info.h"
#include "problem/token_blocks.h"
#include "tests/kernels/device_buffer.h"

namespace flamia::test {

/// A BF16 tensor in host memory, how its documents lie in it, and what is wanted of it.
struct QuantizeCase {
  std::vector<int> lengths = {32};  ///< of documents; if batched, entries of one length
  bool batched = false;
  int heads = 1;
  int dim = 128;
  int token_stride = 0;  ///< elements; 0: heads x dim
  int head_stride = 0;   ///< 0: dim
  int batch_gap = 0;     ///< elements between entries of a batch
  int offset = 0;        ///< of the first element
  bool hadamard = false;
  bool per_token = false;
  int headroom = 0;
  TokenOrder order = TokenOrder::kAccumulator;
  QuantizeForm form = QuantizeForm::kE4m3;
  bool row = true;
  bool transposed = true;
  int spare_blocks = 0;           ///< capacity beyond the documents' blocks and slack
  std::vector<uint16_t> storage;  ///< all elements, strides included

  int tokens() const { return std::accumulate(lengths.begin(), lengths.end(), 0); }
  int64_t token_pitch() const { return token_stride != 0 ? token_stride : heads * dim; }
  int64_t head_pitch() const { return head_stride != 0 ? head_stride : dim; }
  int64_t batch_pitch() const { return lengths[0] * token_pitch() + batch_gap; }
  int64_t element(int token, int head, int channel) const {
    const int64_t in_entry = batched ? token % lengths[0] : token;
    const int64_t entry = batched ? token / lengths[0] : 0;
    return offset + entry * batch_pitch() + in_entry * token_pitch() + head * head_pitch() +
           channel;
  }
  /// Elements that storage must hold.
  size_t extent() const {
    return tokens() == 0 ? 0 : static_cast<size_t>(element(tokens() - 1, heads - 1, dim - 1) + 1);
  }

  std::vector<TokenBlockRange> blocks() const {
    std::vector<TokenBlockRange> ranges;
    int token = 0;
    for (const int length : lengths) {
      for (int begin = 0; begin < length; begin += kTokenBlock) {
        ranges.push_back({token + begin, std::min(kTokenBlock, length - begin)});
      }
      token += length;
    }
    ranges.resize(ranges.size() + kSlackBlocks + static_cast<size_t>(spare_blocks));
    return ranges;
  }
};

/// The payloads and exponents of one tensor.
struct QuantizeOutput {
  std::vector<uint8_t> row, transposed;
  std::vector<int8_t> exponents;
  std::vector<uint16_t> bf16;
};

constexpr uint8_t kUntouched = 0xa5;

/// Arrays of the right sizes that hold kUntouched.
inline QuantizeOutput untouched_output(const QuantizeCase& one) {
  const size_t blocks = one.blocks().size() * static_cast<size_t>(one.heads);
  const size_t bytes = blocks * static_cast<size_t>(token_block_bytes(one.dim));
  const bool codes = one.form == QuantizeForm::kE4m3;
  QuantizeOutput output;
  output.row.assign(codes && one.row ? bytes : 0, kUntouched);
  output.transposed.assign(codes && one.transposed ? bytes : 0, kUntouched);
  output.exponents.assign(codes ? blocks * (one.per_token ? kTokenBlock : 1) : 0,
                          static_cast<int8_t>(kUntouched));
  output.bf16.assign(codes ? 0 : bytes, static_cast<uint16_t>(kUntouched * 0x101));
  return output;
}

/// Values of a block's token, rotated if asked; zeros past the block's tokens.
inline std::vector<float> token_values(const QuantizeCase& one, const TokenBlockRange& range,
                                       int head, int token) {
  std::vector<float> x(static_cast<size_t>(one.dim));
  if (token >= range.tokens) return x;
  for (int c = 0; c < one.dim; ++c) {
    const int64_t element = one.element(range.token + token, head, c);
    x[static_cast<size_t>(c)] = bf16_to_float(one.storage[static_cast<size_t>(element)]);
  }
  if (one.hadamard && one.dim == 128) hadamard<128>(x.data());
  if (one.hadamard && one.dim == 64) hadamard<64>(x.data());
  return x;
}

inline void expect_block(const QuantizeCase& one, const TokenBlockRange& range, int head,
                         size_t block, QuantizeOutput& output) {
  std::vector<std::vector<float>> x;
  std::vector<float> amax(kTokenBlock, 0.0f);
  for (int token = 0; token < kTokenBlock; ++token) {
    x.push_back(token_values(one, range, head, token));
    float& largest = amax[static_cast<size_t>(token)];
    for (const float value : x.back()) largest = max_number(largest, magnitude(value));
  }
  if (!one.per_token) {
    amax.assign(kTokenBlock, *std::max_element(amax.begin(), amax.end()));
  }
  uint8_t* row = output.row.data() + block * static_cast<size_t>(token_block_bytes(one.dim));
  uint8_t* transposed =
      output.transposed.data() + block * static_cast<size_t>(token_block_bytes(one.dim));
  for (int token = 0; token < kTokenBlock; ++token) {
    const float largest = amax[static_cast<size_t>(token)];
    int e = round_up_exponent_e4m3(largest);
    if (largest != 0.0f) e = std::min(e + one.headroom, kMaxScaleExponent);
    const size_t place = one.per_token ? block * kTokenBlock + static_cast<size_t>(token) : block;
    output.exponents[place] = static_cast<int8_t>(e);
    for (int c = 0; c < one.dim; ++c) {
      const float value = x[static_cast<size_t>(token)][static_cast<size_t>(c)];
      const uint8_t code = encode_e4m3(value * inverse_scale(e));
      if (one.row) row[row_payload_byte(token, c, one.dim)] = code;
      if (one.transposed) {
        transposed[transposed_payload_byte(c, transposed_position(token, one.order))] = code;
      }
    }
  }
}

/// kNvfp4: codes times scales, exact in BF16 where they are not tiny. kBf16: the values.
inline void expect_bf16_block(const QuantizeCase& one, const TokenBlockRange& range, int head,
                              size_t block, QuantizeOutput& output) {
  uint16_t* payload = output.bf16.data() + block * static_cast<size_t>(kTokenBlock * one.dim);
  const auto largest = [](const float* x, int count) {
    float amax = 0.0f;
    for (int c = 0; c < count; ++c) amax = max_number(amax, magnitude(x[c]));
    return amax;
  };
  for (int token = 0; token < kTokenBlock; ++token) {
    std::vector<float> x = token_values(one, range, head, token);
    if (one.form == QuantizeForm::kNvfp4) {
      const int te = nvfp4_token_exponent(largest(x.data(), one.dim));
      for (int c = 0; c < one.dim; c += kNvfp4Block) {
        float* group = x.data() + c;
        const uint8_t scale = nvfp4_block_scale(largest(group, kNvfp4Block), te);
        for (int i = 0; i < kNvfp4Block; ++i) {
          const uint8_t code = encode_nvfp4(group[i], nvfp4_scale_value(scale, te));
          const float value = decode_e2m1(code) * nvfp4_bf16_scale(scale, te);
          group[i] = round_bf16(value);
          if (te >= -100) {
            EXPECT_EQ(group[i], value);
          }
        }
      }
    }
    for (int c = 0; c < one.dim; ++c) {
      payload[bf16_payload_byte(token, c) / 2] =
          static_cast<uint16_t>(float_bits(x[static_cast<size_t>(c)]) >> 16);
    }
  }
}

inline QuantizeOutput expected_output(const QuantizeCase& one) {
  QuantizeOutput output = untouched_output(one);
  const std::vector<TokenBlockRange> blocks = one.blocks();
  const size_t written = blocks.size() - static_cast<size_t>(one.spare_blocks);
  for (int head = 0; head < one.heads; ++head) {
    for (size_t b = 0; b < written; ++b) {
      const size_t block = static_cast<size_t>(head) * blocks.size() + b;
      if (one.form == QuantizeForm::kE4m3) {
        expect_block(one, blocks[b], head, block, output);
      } else {
        expect_bf16_block(one, blocks[b], head, block, output);
      }
    }
  }
  return output;
}

/// A case and its arrays on the device.
class DeviceCase {
 public:
  explicit DeviceCase(const QuantizeCase& one) : DeviceCase(one, untouched_output(one)) {}

  QuantizeTensor tensor() const {
    QuantizeTensor tensor = {};
    tensor.input = {storage_.data() + one_.offset,
                    one_.batch_pitch(),
                    one_.token_pitch(),
                    one_.head_pitch(),
                    one_.batched ? one_.lengths[0] : 0,
                    one_.heads};
    tensor.output = {one_.row ? row_.data() : nullptr,
                     one_.transposed ? transposed_.data() : nullptr, exponents_.data(),
                     static_cast<int64_t>(one_.blocks().size())};
    tensor.blocks = blocks_.data();
    tensor.hadamard = one_.hadamard ? 1 : 0;
    tensor.per_token = one_.per_token ? 1 : 0;
    tensor.headroom_exponent = one_.headroom;
    tensor.order = static_cast<int32_t>(one_.order);
    tensor.form = one_.form;
    tensor.row_bf16 = bf16_.data();
    return tensor;
  }
  QuantizeOutput read() const {
    return {row_.read(), transposed_.read(), exponents_.read(), bf16_.read()};
  }

 private:
  DeviceCase(const QuantizeCase& one, const QuantizeOutput& start)
      : one_(one),
        storage_(one.storage),
        blocks_(one.blocks()),
        row_(start.row),
        transposed_(start.transposed),
        exponents_(start.exponents),
        bf16_(start.bf16) {}

  QuantizeCase one_;
  DeviceBuffer<uint16_t> storage_;
  DeviceBuffer<TokenBlockRange> blocks_;
  DeviceBuffer<uint8_t> row_, transposed_;
  DeviceBuffer<int8_t> exponents_;
  DeviceBuffer<uint16_t> bf16_;
};

/// The kernel with a grid of the test's choice.
inline void launch_grid(QuantizeArgs args, int dim, dim3 grid) {
  const bool forms = args.tensors[0].form != QuantizeForm::kE4m3;
  const KernelInfo& codes = dim == 128 ? kQuantizeD128 : kQuantizeD64;
  const KernelInfo& kernel = forms ? (dim == 128 ? kQuantizeFormsD128 : kQuantizeFormsD64) : codes;
  void* parameters[] = {&args};
  EXPECT_EQ(cudaLaunchKernel(kernel.entry, grid, dim3(static_cast<unsigned>(kernel.threads)),
                             parameters, static_cast<size_t>(kernel.shared_bytes), nullptr),
            cudaSuccess);
}

/// One launch over up to three tensors; without a grid the library's own.
inline std::vector<QuantizeOutput> launch(const std::vector<QuantizeCase>& cases,
                                          dim3 grid = dim3(0)) {
  std::vector<std::unique_ptr<DeviceCase>> devices;
  QuantizeArgs args = {};
  for (const QuantizeCase& one : cases) {
    EXPECT_EQ(one.storage.size(), one.extent());
    devices.push_back(std::make_unique<DeviceCase>(one));
    args.tensors[args.count++] = devices.back()->tensor();
  }
  if (grid.x > 0) {
    launch_grid(args, cases[0].dim, grid);
  } else {
    const Status status = cuda::launch_quantize(args, cases[0].dim, nullptr);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  std::vector<QuantizeOutput> outputs;
  for (const auto& device : devices) outputs.push_back(device->read());
  return outputs;
}

/// Where two arrays first differ, so that a failure prints one line.
template <typename T>
void expect_same(const std::vector<T>& actual, const std::vector<T>& expected, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const auto at = std::mismatch(actual.begin(), actual.end(), expected.begin());
  if (at.first == actual.end()) return;
  ADD_FAILURE() << what << "[" << at.first - actual.begin() << "] is " << +*at.first << ", must be "
                << +*at.second;
}

inline void expect_same(const QuantizeOutput& actual, const QuantizeOutput& expected) {
  expect_same(actual.exponents, expected.exponents, "exponents");
  expect_same(actual.row, expected.row, "row_codes");
  expect_same(actual.transposed, expected.transposed, "transposed_codes");
  expect_same(actual.bf16, expected.bf16, "row_bf16");
}

/// Launches and compares every byte.
inline void expect_exact(const std::vector<QuantizeCase>& cases, dim3 grid = dim3(0)) {
  const std::vector<QuantizeOutput> outputs = launch(cases, grid);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("tensor " + std::to_string(i));
    expect_same(outputs[i], expected_output(cases[i]));
  }
}

}  // namespace flamia::test
