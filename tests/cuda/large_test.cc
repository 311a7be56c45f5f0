// More than 2^31 elements, and more documents, sequences and heads than a grid's limits. Skipped on
// the virtual GPU. On a GPU: test_cuda --gtest_filter='HopperLarge.*'; each says what it ran.
// A row of equal documents must give each of them the bits that it gives alone.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cuda/device_call.h"

namespace flamia {
namespace {

using test::Case;
using test::dense_view;
using test::DeviceBuffer;
using test::DeviceCall;
using test::DeviceOutputs;

class HopperLarge : public testing::Test {
 protected:
  void SetUp() override {
    cudaDeviceProp properties;
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    if (std::string(properties.name).find("virtual") != std::string::npos) {
      GTEST_SKIP() << "too large for " << properties.name << "; run it on a GPU";
    }
  }
};

/// Fills a buffer with `count` copies of some values, one behind the other.
void repeat(const std::vector<uint16_t>& values, size_t count, DeviceBuffer<uint16_t>& buffer) {
  buffer.write(0, values.data(), values.size());
  for (size_t done = 1; done < count; done *= 2) {
    const size_t more = std::min(done, count - done);
    EXPECT_EQ(cudaMemcpy(buffer.data() + done * values.size(), buffer.data(),
                         more * values.size() * sizeof(uint16_t), cudaMemcpyDeviceToDevice),
              cudaSuccess);
  }
}

struct Repetition {
  int32_t length;
  size_t documents;
  int heads;
  int kv_heads;
  int dim;
  bool batch;
};

/// Which copies are read back: both ends, and those around each 2^31st element.
std::vector<size_t> read_copies(const Repetition& what) {
  std::vector<size_t> copies = {0, what.documents / 2, what.documents - 1};
  const auto elements = static_cast<size_t>(what.length) * static_cast<size_t>(what.heads) *
                        static_cast<size_t>(what.dim);
  for (size_t edge = size_t{1} << 31; edge < elements * what.documents; edge += size_t{1} << 31) {
    copies.push_back(edge / elements);
    copies.push_back(std::min(edge / elements + 1, what.documents - 1));
  }
  return copies;
}

void expect_copies_equal(const Repetition& what) {
  Options options;
  options.backend = BackendKind::kHopper;
  options.mask.kind = MaskKind::kCausal;
  Case one({{what.length}, {}, what.heads, what.kv_heads, what.dim, 0});
  const DeviceOutputs alone = DeviceCall(&one).run(options);

  DeviceBuffer<uint16_t> q(one.q_data.size() * what.documents);
  DeviceBuffer<uint16_t> k(one.k_data.size() * what.documents);
  DeviceBuffer<uint16_t> v(one.v_data.size() * what.documents);
  repeat(one.q_data, what.documents, q);
  repeat(one.k_data, what.documents, k);
  repeat(one.v_data, what.documents, v);
  const size_t elements = one.q_data.size();
  const auto length = static_cast<size_t>(what.length);
  const auto documents = static_cast<int64_t>(what.documents);
  const int64_t tokens = what.length * documents;
  DeviceBuffer<uint16_t> o(elements * what.documents);
  DeviceBuffer<uint16_t> residual(elements * what.documents);
  DeviceBuffer<float> lse(static_cast<size_t>(what.heads) * length * what.documents);
  ASSERT_EQ(cudaMemset(o.data(), 0xff, elements * what.documents * 2), cudaSuccess);
  std::vector<int32_t> lengths;
  for (int64_t i = 0; i <= documents; ++i) {
    lengths.push_back(static_cast<int32_t>(i * what.length));
  }
  const DeviceBuffer<int32_t> cu(lengths);

  Problem problem = one.problem();
  problem.query_tokens = problem.key_tokens = tokens;
  problem.documents = static_cast<int32_t>(documents);
  problem.batch = what.batch ? problem.documents : 0;
  const auto rows = [&](const DeviceBuffer<uint16_t>& buffer, int64_t heads) {
    if (!what.batch) return dense_view(buffer.data(), DType::kBF16, {tokens, heads, what.dim});
    return dense_view(buffer.data(), DType::kBF16, {documents, what.length, heads, what.dim});
  };
  ForwardTensors tensors;
  tensors.q = rows(q, what.heads);
  tensors.k = rows(k, what.kv_heads);
  tensors.v = rows(v, what.kv_heads);
  tensors.o = rows(o, what.heads);
  tensors.o_residual = rows(residual, what.heads);
  tensors.lse = dense_view(lse.data(), DType::kF32, {what.heads, tokens});
  if (what.batch) {
    tensors.lse = dense_view(lse.data(), DType::kF32, {documents, what.heads, what.length});
  } else {
    tensors.cu_seqlens_q = dense_view(cu.data(), DType::kI32, {documents + 1});
  }
  Workspace workspace;
  ASSERT_EQ(workspace_size(problem, options, Pass::kForward, &workspace.bytes).message(), "");
  const DeviceBuffer<unsigned char> memory(workspace.bytes);
  workspace.data = memory.data();
  Conventions conventions;
  ASSERT_EQ(
      attention_forward(problem, options, tensors, workspace, nullptr, &conventions).message(), "");
  for (const size_t copy : read_copies(what)) {
    EXPECT_TRUE(o.read(copy * elements, elements) == alone.o) << "copy " << copy;
    EXPECT_TRUE(residual.read(copy * elements, elements) == alone.o_residual) << "copy " << copy;
    for (size_t head = 0; head < static_cast<size_t>(what.heads); ++head) {
      const size_t at = what.batch ? (copy * static_cast<size_t>(what.heads) + head) * length
                                   : head * static_cast<size_t>(tokens) + copy * length;
      const std::vector<float> got = lse.read(at, length);
      EXPECT_EQ(std::memcmp(got.data(), &alone.lse[head * length], length * sizeof(float)), 0)
          << "copy " << copy << " head " << head;
    }
  }
  std::printf(
      "ran %lld tokens, %lld %s of %d, %d heads on %d, d %d: %.3g elements of q, workspace "
      "%.2f GB\n",
      static_cast<long long>(tokens), static_cast<long long>(documents),
      what.batch ? "sequences" : "documents", what.length, what.heads, what.kv_heads, what.dim,
      static_cast<double>(elements * what.documents), static_cast<double>(workspace.bytes) * 1e-9);
}

TEST_F(HopperLarge, MoreThan2To31Elements) {
  expect_copies_equal({8192, 17, 128, 128, 128, false});  // 139264 tokens: 2.28e9 of each tensor
}
TEST_F(HopperLarge, MoreThan2To31ElementsAsABatch) {
  expect_copies_equal({8192, 17, 128, 8, 128, true});
}
TEST_F(HopperLarge, MoreThan2To31ElementsAtHeadDim64) {
  expect_copies_equal({4096, 70, 128, 1, 64, false});
}
TEST_F(HopperLarge, MoreDocumentsThanAGridHasRows) {
  expect_copies_equal({1, 190485, 2, 1, 64, false});
  expect_copies_equal({3, 70000, 4, 2, 128, false});
}
TEST_F(HopperLarge, MoreSequencesThanAGridHasRows) {
  expect_copies_equal({1, 65536, 16, 16, 128, true});
  expect_copies_equal({5, 65537, 2, 1, 64, true});
}
TEST_F(HopperLarge, ManyHeads) { expect_copies_equal({70, 3, 8192, 1024, 64, false}); }

}  // namespace
}  // namespace flamia
