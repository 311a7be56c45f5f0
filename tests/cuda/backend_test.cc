// The public API on a Hopper, against the CPU backend with the same numbers.
#include "cuda/backend.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>

#include "cuda/workspace.h"
#include "numerics/bf16.h"
#include "tests/cuda/device_call.h"

namespace flamia {
namespace {

using test::Case;
using test::DeviceBuffer;
using test::DeviceCall;
using test::DeviceOutputs;
using test::Shape;

Options hopper(MaskKind mask) {
  Options options;
  options.backend = BackendKind::kHopper;
  options.mask.kind = mask;
  return options;
}

Options exact(MaskKind mask) {
  Options options = hopper(mask);
  options.safety = Safety::kExact;
  return options;
}

/// The same call on the CPU, with the sums of the tensor cores.
test::Outputs on_cpu(Case* host, Options options) {
  options.backend = BackendKind::kCpu;
  options.accumulate = Accumulate::kHardware;
  options.threads = 2;
  return host->run(options, false);
}

bool is_nan(uint16_t bf16) { return (bf16 & 0x7fff) > 0x7f80; }

void expect_same_lse(const std::vector<float>& got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(wanted[i])) {
      ASSERT_EQ(got[i], wanted[i]) << i;
    } else {
      ASSERT_NEAR(got[i], wanted[i], 1e-3f) << i;
    }
  }
}

void expect_near_cpu(const DeviceOutputs& got, const test::Outputs& wanted) {
  ASSERT_EQ(got.o.size(), wanted.o.size());
  ASSERT_EQ(std::count_if(got.o.begin(), got.o.end(), is_nan), 0);
  const std::vector<double> expected = test::decoded(wanted.o);
  EXPECT_GE(test::cosine(got.o, expected), 0.9999);
  EXPECT_LE(test::relative_error(got.o, expected), 1e-2);
  for (size_t i = 0; i < got.o.size(); ++i) {
    // Rows without keys: a few wrong ones among many would not show in the cosine.
    if (expected[i] == 0) {
      ASSERT_EQ(got.o[i] & 0x7fff, 0) << i;
    }
  }
  expect_same_lse(got.lse, wanted.lse);
}

/// The residual is what rounding to BF16 took away: at most half a step, and rarely nothing.
void expect_residual(const DeviceOutputs& got) {
  ASSERT_EQ(std::count_if(got.o_residual.begin(), got.o_residual.end(), is_nan), 0);
  int64_t nonzero = 0;
  for (size_t i = 0; i < got.o.size(); ++i) {
    const float o = std::abs(bf16_to_float(got.o[i]));
    const float residual = std::abs(bf16_to_float(got.o_residual[i]));
    ASSERT_LE(residual, o * 0x1p-8f + 0x1p-130f) << i;
    if (residual != 0) ++nonzero;
  }
  EXPECT_GT(nonzero, static_cast<int64_t>(got.o.size()) / 4);
}

void compare(const Shape& shape, const Options& options) {
  Case host(shape);
  DeviceCall call(&host);
  const DeviceOutputs got = call.run(options);
  expect_near_cpu(got, on_cpu(&host, options));
  expect_residual(got);
}

TEST(HopperForward, PackedDocumentsOfEveryKindOfLengthCausal) {
  compare({{1, 31, 32, 33, 127, 128, 129, 200, 0}, {}, 4, 2, 128, 0}, hopper(MaskKind::kCausal));
}
TEST(HopperForward, PackedDocumentsFullHeadDim64) {
  compare({{33, 0, 129, 1, 200}, {}, 4, 4, 64, 0}, hopper(MaskKind::kFull));
}
TEST(HopperForward, PackedDocumentsCausalHeadDim64) {
  compare({{0, 31, 128, 32, 127, 0}, {}, 4, 1, 64, 0}, hopper(MaskKind::kCausal));
}
TEST(HopperForward, Windows) {
  Options options = hopper(MaskKind::kWindow);
  options.mask.window_left = 40;
  options.mask.window_right = 5;
  compare({{200, 129, 31}, {}, 1, 1, 128, 0}, options);
}
TEST(HopperForward, KeysOfTheirOwnLengthsAlignAtTheBottomRight) {
  const Shape shape{{5, 130, 0, 64, 40}, {129, 40, 7, 64, 0}, 2, 1, 64, 0};
  compare(shape, hopper(MaskKind::kCausal));
  compare(shape, hopper(MaskKind::kFull));
}
TEST(HopperForward, RowsOfNobodyAreZero) {
  const Shape shape{{33, 70}, {}, 2, 2, 64, 9};
  compare(shape, hopper(MaskKind::kCausal));
  Case host(shape);
  DeviceCall call(&host);
  const DeviceOutputs got = call.run(hopper(MaskKind::kCausal));
  for (size_t i = 103u * 2 * 64; i < got.o.size(); ++i) {
    ASSERT_EQ(got.o[i], 0);
    ASSERT_EQ(got.o_residual[i], 0);
  }
  for (size_t row = 103; row < 112; ++row) {
    ASSERT_EQ(got.lse[row], -std::numeric_limits<float>::infinity());
  }
}

/// Paths other than MXFP8: their numbers are the business of tests/kernels/forward_paths_test.cc.
TEST(HopperForward, OtherPaths) {
  for (const Path path : {Path::kBf16, Path::kNvfp4}) {
    for (const MaskKind mask : {MaskKind::kCausal, MaskKind::kFull}) {
      Options options = hopper(mask);
      options.path = path;
      compare({{1, 31, 129, 200, 0}, {}, 4, 2, 128, 3}, options);
      compare({{33, 0, 140}, {129, 7, 60}, 2, 1, 64, 0}, options);
    }
  }
}

/// Every option that the kernels have.
TEST(HopperForward, OtherNumbers) {
  const Shape shape{{150, 60}, {}, 2, 1, 128, 0};
  const std::function<void(Options*)> changes[] = {
      [](Options* o) { o->hadamard = Hadamard::kOff; },
      [](Options* o) { o->kv_order = KvOrder::kForward; },
      [](Options* o) { o->row_sum = RowSum::kP; },
      [](Options* o) {
        o->p_scale = 16.0f;
        o->tau = 4.0f;
      },
      [](Options* o) { o->softmax_scale = 0.05f; },
      [](Options* o) { o->safety = Safety::kExact; },
      [](Options* o) { o->exponential = Exponential::kPolynomial; },
      [](Options* o) { o->exponential = Exponential::kSchraudolph; },
      [](Options* o) {
        o->safety = Safety::kExact;
        o->exponential = Exponential::kSchraudolph;
      },
  };
  for (const auto& change : changes) {
    Options options = hopper(MaskKind::kCausal);
    change(&options);
    compare(shape, options);
  }
}

TEST(HopperForward, RecordsWhatItDid) {
  Case host({{40}, {}, 1, 1, 64, 0});
  DeviceCall call(&host);
  Options options = hopper(MaskKind::kCausal);
  options.backend = BackendKind::kAuto;  // the device decides
  call.run(options);
  EXPECT_EQ(call.conventions.backend, BackendKind::kHopper);
  EXPECT_EQ(call.conventions.family, Family::kHopper);
  EXPECT_EQ(call.conventions.accumulate, Accumulate::kHardware);
  EXPECT_EQ(call.conventions.promote, Promote::kTile);
  EXPECT_EQ(call.conventions.p_scale, 256.0f);
}

/// Two sequences of equal lengths as tensors of rank 4.
void compare_batch(int queries, int keys, int dim, const Options& options) {
  Case host({{queries, queries}, {keys, keys}, 2, 1, dim, 0});
  const test::Outputs wanted = on_cpu(&host, options);
  DeviceCall call(&host);
  call.problem.batch = 2;
  for (TensorView* view : {&call.tensors.q, &call.tensors.k, &call.tensors.v, &call.tensors.o,
                           &call.tensors.o_residual}) {
    *view =
        test::dense_view(view->data, DType::kBF16, {2, view->shape[0] / 2, view->shape[1], dim});
  }
  call.tensors.lse = test::dense_view(call.tensors.lse.data, DType::kF32, {2, 2, queries});
  call.tensors.cu_seqlens_q = call.tensors.cu_seqlens_k = {};
  const DeviceOutputs got = call.run(options);
  test::Outputs batched = wanted;  // LSE of packed sequences is [heads, batch * length]
  const auto length = static_cast<size_t>(queries);
  for (size_t b = 0; b < 2; ++b) {
    for (size_t h = 0; h < 2; ++h) {
      for (size_t t = 0; t < length; ++t) {
        batched.lse[(b * 2 + h) * length + t] = wanted.lse[(h * 2 + b) * length + t];
      }
    }
  }
  expect_near_cpu(got, batched);
}

TEST(HopperForward, Batches) {
  for (const Path path : {Path::kMxfp8, Path::kNvfp4, Path::kBf16}) {
    Options options = hopper(MaskKind::kCausal);
    options.path = path;
    compare_batch(70, 70, 64, options);
  }
  compare_batch(40, 150, 128, hopper(MaskKind::kCausal));
  compare_batch(40, 33, 64, hopper(MaskKind::kFull));
  compare_batch(40, 150, 128, exact(MaskKind::kCausal));
}

bool same_outputs(const DeviceOutputs& a, const DeviceOutputs& b) {
  return a.o == b.o && a.o_residual == b.o_residual && a.lse == b.lse;
}

/// Each of these reaches the kernels: alone it changes some bit.
TEST(HopperForward, OptionsChangeTheNumbers) {
  const std::function<void(Options*)> changes[] = {
      [](Options* o) { o->hadamard = Hadamard::kOff; },
      [](Options* o) { o->kv_order = KvOrder::kForward; },
      [](Options* o) { o->row_sum = RowSum::kP; },
      [](Options* o) { o->p_scale = 128.0f; },
      [](Options* o) { o->p_scale = 200.0f; },
      [](Options* o) { o->softmax_scale = 0.1f; },
      [](Options* o) { o->mask.kind = MaskKind::kFull; },
      [](Options* o) {
        o->mask = {MaskKind::kWindow, 20, 0};
      },
      [](Options* o) { o->safety = Safety::kExact; },
      [](Options* o) { o->exponential = Exponential::kPolynomial; },
      [](Options* o) { o->exponential = Exponential::kSchraudolph; },
  };
  Case host({{300}, {}, 1, 1, 128, 0});
  Options plain = hopper(MaskKind::kCausal);
  const DeviceOutputs usual = DeviceCall(&host).run(plain);
  for (size_t i = 0; i < std::size(changes); ++i) {
    Options options = plain;
    changes[i](&options);
    EXPECT_FALSE(same_outputs(DeviceCall(&host).run(options), usual)) << i;
  }
  // tau delays rescales: it shows where maxima grow by less than it and S leaves it room.
  plain.p_scale = 16.0f;
  Options late = plain;
  late.tau = 4.0f;
  EXPECT_FALSE(same_outputs(DeviceCall(&host).run(plain), DeviceCall(&host).run(late)));
}

/// q, k and v as parts of one projection [T, heads + 2 kv_heads, D], outputs with gaps.
TEST(HopperForward, SlicesOfAFusedProjection) {
  const Shape shape{{100, 33, 1}, {}, 4, 2, 64, 0};
  Case host(shape);
  const Options options = hopper(MaskKind::kCausal);
  DeviceCall dense(&host);
  const DeviceOutputs wanted = dense.run(options);

  constexpr int kHeads = 4 + 2 + 2;
  const int64_t tokens = host.query_tokens();
  std::vector<uint16_t> fused(static_cast<size_t>(tokens * kHeads * 64));
  for (int64_t t = 0; t < tokens; ++t) {
    uint16_t* row = fused.data() + t * kHeads * 64;
    std::memcpy(row, &host.q(t, 0, 0), 4 * 64 * 2);
    std::memcpy(row + 4 * 64, &host.k(t, 0, 0), 2 * 64 * 2);
    std::memcpy(row + 6 * 64, &host.v(t, 0, 0), 2 * 64 * 2);
  }
  DeviceBuffer<uint16_t> device(fused);
  DeviceCall call(&host);
  call.tensors.q.data = device.data();
  call.tensors.k.data = device.data() + 4 * 64;
  call.tensors.v.data = device.data() + 6 * 64;
  for (TensorView* view : {&call.tensors.q, &call.tensors.k, &call.tensors.v}) {
    view->stride[0] = kHeads * 64;
  }
  EXPECT_TRUE(same_outputs(call.run(options), wanted));

  // Heads before tokens, as a transposed [H, T, D].
  DeviceBuffer<uint16_t> transposed(static_cast<size_t>(tokens * 4 * 64));
  call.tensors.o.data = transposed.data();
  call.tensors.o.stride[0] = 64;
  call.tensors.o.stride[1] = tokens * 64;
  call.run(options);
  const std::vector<uint16_t> got = transposed.read();
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < 4; ++h) {
      ASSERT_EQ(std::memcmp(&got[static_cast<size_t>((h * tokens + t) * 64)],
                            &wanted.o[static_cast<size_t>((t * 4 + h) * 64)], 128),
                0)
          << t << " " << h;
    }
  }
}

TEST(HopperForward, WithoutAResidualTheRestIsTheSame) {
  Case host({{100, 33}, {}, 2, 1, 128, 3});
  const Options options = hopper(MaskKind::kCausal);
  DeviceCall with(&host);
  const DeviceOutputs wanted = with.run(options);
  DeviceCall without(&host);
  without.tensors.o_residual = {};
  const DeviceOutputs got = without.run(options);
  EXPECT_EQ(got.o, wanted.o);
  EXPECT_EQ(got.lse, wanted.lse);
  EXPECT_TRUE(std::all_of(got.o_residual.begin(), got.o_residual.end(), is_nan));
}

TEST(HopperForward, WideLengths) {
  Case host({{100, 33}, {100, 33}, 2, 1, 64, 0});
  const Options options = hopper(MaskKind::kCausal);
  DeviceCall call(&host);
  const DeviceOutputs wanted = call.run(options);
  DeviceBuffer<int64_t> wide(std::vector<int64_t>{0, 100, 133});
  for (TensorView* view : {&call.tensors.cu_seqlens_q, &call.tensors.cu_seqlens_k}) {
    view->data = wide.data();
    view->dtype = DType::kI64;
  }
  call.poison_outputs();
  EXPECT_TRUE(same_outputs(call.run(options), wanted));
}

/// A document's rows do not depend on what lies beside it, before it, or on the run.
void expect_same_alone(const Options& options) {
  for (const int dim : {64, 128}) {
    Case alone({{150}, {}, 2, 1, dim, 0}, 7);
    DeviceCall single(&alone);
    const DeviceOutputs wanted = single.run(options);
    EXPECT_TRUE(same_outputs(single.run(options), wanted)) << "again";
    for (const int before : {1, 31, 128}) {
      Case row({{before, 150, 20}, {}, 2, 1, dim, 2}, 8);
      const auto start = static_cast<size_t>(before);
      std::copy(alone.q_data.begin(), alone.q_data.end(),
                row.q_data.begin() + static_cast<int64_t>(start) * 2 * dim);
      std::copy(alone.k_data.begin(), alone.k_data.end(),
                row.k_data.begin() + static_cast<int64_t>(start) * dim);
      std::copy(alone.v_data.begin(), alone.v_data.end(),
                row.v_data.begin() + static_cast<int64_t>(start) * dim);
      // A neighbour that would show in a shared scale.
      for (int64_t t = 0; t < before; ++t) row.scale_key_token(t, 0x1p20f);
      DeviceCall packed(&row);
      const DeviceOutputs got = packed.run(options);
      const size_t row_elements = 2 * static_cast<size_t>(dim);
      EXPECT_EQ(std::memcmp(&got.o[start * row_elements], wanted.o.data(), wanted.o.size() * 2), 0)
          << before;
      for (size_t h = 0; h < 2; ++h) {
        const size_t tokens = got.lse.size() / 2;
        EXPECT_EQ(std::memcmp(&got.lse[h * tokens + start], &wanted.lse[h * 150], 150 * 4), 0)
            << before;
      }
    }
  }
}

TEST(HopperForward, ADocumentAloneIsTheSameInsideARow) {
  expect_same_alone(hopper(MaskKind::kCausal));
  expect_same_alone(exact(MaskKind::kCausal));
}

/// With exact safety no row changes with the tokens after it.
TEST(HopperForward, LaterTokensLeaveExactRowsAsTheyWere) {
  const Options options = exact(MaskKind::kCausal);
  Case host({{150}, {}, 1, 1, 64, 0});
  const DeviceOutputs wanted = DeviceCall(&host).run(options);
  for (const int64_t last : {0, 30, 77, 127, 148}) {
    Case changed({{150}, {}, 1, 1, 64, 0});
    for (int64_t token = last + 1; token < 150; ++token) {
      changed.scale_key_token(token, 1e4f);
      for (int c = 0; c < 64; ++c) changed.q(token, 0, c) = float_to_bf16(1e4f);
    }
    const DeviceOutputs got = DeviceCall(&changed).run(options);
    const auto rows = static_cast<size_t>(last) + 1;
    EXPECT_EQ(std::memcmp(got.o.data(), wanted.o.data(), rows * 64 * 2), 0) << last;
    EXPECT_EQ(std::memcmp(got.o_residual.data(), wanted.o_residual.data(), rows * 64 * 2), 0);
    EXPECT_EQ(std::memcmp(got.lse.data(), wanted.lse.data(), rows * 4), 0) << last;
    EXPECT_NE(std::memcmp(got.o.data(), wanted.o.data(), wanted.o.size() * 2), 0) << last;
  }
}

/// What one capture recorded serves every split of the same capacity.
TEST(HopperForward, AGraphIsReplayedWithOtherLengths) {
  const std::vector<std::vector<int32_t>> splits = {
      {60, 60, 20}, {140, 0, 0}, {0, 1, 139}, {0, 0, 0}, {33, 64, 30}};
  const Options options = hopper(MaskKind::kCausal);
  Case host({splits[0], {}, 2, 1, 64, 0});
  DeviceCall call(&host);
  call.prepare(options);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(call.enqueue(options, stream).message(), "");
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  for (const std::vector<int32_t>& lengths : splits) {
    const int32_t used = lengths[0] + lengths[1] + lengths[2];
    Case now({lengths, {}, 2, 1, 64, 140 - used});
    now.q_data = host.q_data;
    now.k_data = host.k_data;
    now.v_data = host.v_data;
    call.set_lengths(now.cu_q);
    call.poison_outputs();
    ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    const DeviceOutputs replayed = call.read();
    DeviceCall direct(&now);
    EXPECT_TRUE(same_outputs(replayed, direct.run(options))) << lengths[0];
  }
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

/// The counter that free CTAs take work from stays where it was.
TEST(HopperForward, AlternatingAssignmentGivesTheSameBits) {
  Case host({{300, 20, 0, 140}, {}, 2, 1, 64, 3});
  const size_t counter = cuda::forward_workspace(host.problem(), {}).next_work.offset;
  const auto taken = [&](const DeviceCall& call) {
    uint32_t value = 0;
    EXPECT_EQ(cudaMemcpy(&value, static_cast<char*>(call.workspace.data) + counter, sizeof(value),
                         cudaMemcpyDeviceToHost),
              cudaSuccess);
    return value;
  };
  for (const Path path : {Path::kMxfp8, Path::kNvfp4, Path::kBf16}) {
    Options options = hopper(MaskKind::kCausal);
    options.path = path;
    DeviceCall dynamic(&host);
    const DeviceOutputs wanted = dynamic.run(options);
    EXPECT_GT(taken(dynamic), 0u);
    options.assignment = Assignment::kAlternating;
    DeviceCall alternating(&host);
    EXPECT_TRUE(same_outputs(alternating.run(options), wanted));
    EXPECT_EQ(taken(alternating), 0u);
  }
}

/// One work list for several layers, and what each part leaves alone.
TEST(HopperForward, PartsMakeAWhole) {
  const Options options = hopper(MaskKind::kCausal);
  Case host({{100, 33}, {}, 2, 1, 64, 3});
  DeviceCall call(&host);
  const DeviceOutputs wanted = call.run(options);
  const auto run = [&](DeviceCall* one, uint32_t parts) {
    return attention_forward_parts(one->problem, options, one->tensors, one->workspace, nullptr,
                                   parts, &one->conventions)
        .message();
  };
  call.poison_outputs();
  EXPECT_EQ(run(&call, kWorkListPart), "");
  EXPECT_EQ(run(&call, kQuantizePart), "");
  const DeviceOutputs nothing = call.read();
  EXPECT_TRUE(std::all_of(nothing.o.begin(), nothing.o.end(), is_nan));
  EXPECT_EQ(run(&call, kAttendPart), "");
  EXPECT_TRUE(same_outputs(call.read(), wanted));

  Case next({{100, 33}, {}, 2, 1, 64, 3}, 9);  // another layer
  DeviceCall layer(&next);
  const DeviceOutputs direct = layer.run(options);
  layer.workspace = call.workspace;
  layer.poison_outputs();
  EXPECT_EQ(run(&layer, kQuantizePart | kAttendPart), "");
  EXPECT_TRUE(same_outputs(layer.read(), direct));
  EXPECT_EQ(run(&call, 0), "attention_forward_parts: parts must be between 1 and 7; got 0");
  EXPECT_EQ(run(&call, 8), "attention_forward_parts: parts must be between 1 and 7; got 8");
}

TEST(HopperForward, TakesCallsWithNothingToDo) {
  const Options options = hopper(MaskKind::kCausal);
  Case none({{}, {}, 2, 1, 64, 5});  // rows, but no document
  DeviceCall call(&none);
  const DeviceOutputs got = call.run(options);
  EXPECT_EQ(std::count(got.o.begin(), got.o.end(), 0), static_cast<int64_t>(got.o.size()));
  Case no_rows({{0, 0}, {}, 2, 1, 64, 0});
  DeviceCall empty(&no_rows);
  empty.run(options);
  Case no_keys({{3, 40}, {0, 0}, 2, 1, 64, 0});
  DeviceCall lonely(&no_keys);
  const DeviceOutputs zeros = lonely.run(options);
  EXPECT_EQ(std::count(zeros.o.begin(), zeros.o.end(), 0), static_cast<int64_t>(zeros.o.size()));
  EXPECT_EQ(zeros.lse[0], -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace flamia
