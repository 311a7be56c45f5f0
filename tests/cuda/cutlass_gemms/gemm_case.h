// One GEMM of CUTLASS, D = A B^T + C with D and C in binary32, compared with a sum on the host:
// what every program of this folder shares. The kernels are instantiated from the headers of the
// nvidia-cutlass package and are known to run on real chips, so a trap or a difference on the
// virtual GPU is the virtual GPU's fault.
// Depends on: CUTLASS 4.2 headers. Used by: the programs of this folder.
//
// "Small integers": every partial sum is exact, on the tensor cores of the model too, so that D
// must be equal bit for bit, whatever the order of the sum. "Any code": all finite values; D must
// be within what the sums lose, in units of the sum of magnitudes.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/detail/sm100_blockscaled_layout.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/epilogue/dispatch_policy.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/dispatch_policy.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

namespace cutlass_gemms {

using cute::Int;
using cute::Shape;

/// An operand element as CUTLASS' builders name it: its data, its scales (void: none).
template <class Element>
struct Operand {
  using Data = Element;
  using Scale = void;
};
template <class Element>
struct Operand<cutlass::nv_float4_t<Element>> {
  using Data = Element;
  using Scale = cutlass::float_ue4m3_t;
};
template <class Element>
struct Operand<cutlass::mx_float8_t<Element>> {
  using Data = Element;
  using Scale = cutlass::float_ue8m0_t;
};

inline void require_ok(const char* what, bool ok) {
  if (ok) return;
  std::printf("failed: %s; last CUDA error: %s\n", what, cudaGetErrorName(cudaGetLastError()));
  std::exit(1);
}

/// The same numbers everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint32_t below(uint32_t limit) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>((state_ >> 33) % limit);
  }

 private:
  uint64_t state_;
};

template <class Element>
Element from_code(uint32_t code) {
  using Storage = std::conditional_t<cutlass::sizeof_bits<Element>::value == 16, uint16_t, uint8_t>;
  return Element::bitcast(static_cast<Storage>(code));
}

/// Data of one element: an integer of -3 to 3, or any finite code.
template <class Element>
uint32_t random_code(Random* random, bool small) {
  constexpr uint32_t kBits = cutlass::sizeof_bits<Element>::value;
  for (;;) {
    uint32_t code;
    if (small) {
      const auto value = Element(static_cast<float>(static_cast<int>(random->below(7)) - 3));
      code = static_cast<uint32_t>(value.raw()) & ((1u << kBits) - 1u);
    } else if (kBits == 16) {
      // Exponents of about 2^-8 to 2^8: sums of full ranges would only show the largest term.
      code = random->below(2) << 15 | (119 + random->below(17)) << 7 | random->below(128);
    } else {
      code = random->below(1u << kBits);
    }
    if (std::isfinite(static_cast<float>(from_code<Element>(code)))) return code;
  }
}

template <class Scale>
uint32_t random_scale(Random* random, bool small) {
  if (std::is_same_v<Scale, cutlass::float_ue8m0_t>) {
    return small ? 126 + random->below(3) : 117 + random->below(21);
  }
  return small ? 0x30 + 8 * random->below(3) : 1 + random->below(0x7e);
}

/// One operand [rows, k], K innermost, on the host and on the device.
template <class Element>
struct OperandData {
  using Data = typename Operand<Element>::Data;
  using Scale = typename Operand<Element>::Scale;
  static constexpr int kBits = cutlass::sizeof_bits<Data>::value;

  int rows, k;
  std::vector<uint8_t> bytes, scales;
  std::vector<double> values;  ///< [rows][k] with scales
  void* device = nullptr;
  void* device_scales = nullptr;

  /// scale_layout maps (row, k, batch) to a place; scale_count: of places.
  template <class ScaleLayout>
  OperandData(int row_count, int depth, bool small, uint64_t seed, const ScaleLayout& scale_layout,
              size_t scale_count)
      : rows(row_count), k(depth) {
    Random random(seed);
    const size_t count = size_t(rows) * k;
    bytes.assign((count * kBits + 7) / 8, 0);
    values.resize(count);
    if constexpr (!std::is_void_v<Scale>) {
      scales.resize(scale_count);
      for (uint8_t& scale : scales) scale = uint8_t(random_scale<Scale>(&random, small));
    }
    for (size_t i = 0; i < count; ++i) {
      const uint32_t code = random_code<Data>(&random, small);
      if (kBits == 4) {
        bytes[i / 2] |= uint8_t(code << (4 * (i % 2)));
      } else {
        std::memcpy(&bytes[i * kBits / 8], &code, kBits / 8);
      }
      values[i] = static_cast<float>(from_code<Data>(code));
      if constexpr (!std::is_void_v<Scale>) {
        const size_t place = scale_layout(int(i / k), int(i % k), 0);
        values[i] *= static_cast<float>(from_code<Scale>(scales[place]));
      }
    }
    device = upload(bytes);
    if (!scales.empty()) device_scales = upload(scales);
  }
  ~OperandData() {
    cudaFree(device);
    cudaFree(device_scales);
  }
  OperandData(const OperandData&) = delete;

 private:
  static void* upload(const std::vector<uint8_t>& from) {
    void* to = nullptr;
    require_ok("cudaMalloc", cudaMalloc(&to, from.size()) == cudaSuccess);
    require_ok("cudaMemcpy", cudaMemcpy(to, from.data(), from.size(), cudaMemcpyHostToDevice) == 0);
    return to;
  }
};

/// Tile is that of one MMA (of the pair for 2-SM kernels on sm_100), Mainloop and Epilogue are
/// CUTLASS' schedules. kKept: bits of a sum that the hardware model keeps; kStep: K of one MMA.
template <class Arch, class OpClass, class ElementA, class ElementB, class Tile, class Cluster,
          class Mainloop, class Epilogue, int kKept, int kStep>
struct GemmCase {
  using DataA = typename Operand<ElementA>::Data;
  using DataB = typename Operand<ElementB>::Data;
  static constexpr bool kScaled = !std::is_void_v<typename Operand<ElementA>::Scale>;
  static constexpr int kAlignA = 128 / cutlass::sizeof_bits<DataA>::value;
  static constexpr int kAlignB = 128 / cutlass::sizeof_bits<DataB>::value;
  using RowMajor = cutlass::layout::RowMajor;
  using CollectiveEpilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      Arch, OpClass, Tile, Cluster, cutlass::epilogue::collective::EpilogueTileAuto, float, float,
      float, RowMajor, 4, float, RowMajor, 4, Epilogue>::CollectiveOp;
  using CollectiveMainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      Arch, OpClass, ElementA, RowMajor, kAlignA, ElementB, cutlass::layout::ColumnMajor, kAlignB,
      float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename CollectiveEpilogue::SharedStorage))>,
      Mainloop>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, CollectiveMainloop,
                                                      CollectiveEpilogue, void>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

  static auto scale_layouts(int m, int n, int k) {
    if constexpr (kScaled) {
      using Config = typename CollectiveMainloop::Sm1xxBlkScaledConfig;
      const auto shape = cute::make_shape(m, n, k, 1);
      return cute::make_tuple(Config::tile_atom_to_shape_SFA(shape),
                              Config::tile_atom_to_shape_SFB(shape));
    } else {
      const auto none = cute::Layout<Shape<int, int, int>>{};
      return cute::make_tuple(none, none);
    }
  }

  template <class Arguments, class Layouts>
  static auto mainloop_arguments(const OperandData<ElementA>& a, const OperandData<ElementB>& b,
                                 const Layouts& layouts) {
    const auto* const at = static_cast<const DataA*>(a.device);
    const auto* const bt = static_cast<const DataB*>(b.device);
    const auto a_stride =
        cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {a.rows, a.k, 1});
    const auto b_stride =
        cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {b.rows, b.k, 1});
    if constexpr (kScaled) {
      using Scale = typename Operand<ElementA>::Scale;
      return Arguments{at,
                       a_stride,
                       bt,
                       b_stride,
                       static_cast<const Scale*>(a.device_scales),
                       cute::get<0>(layouts),
                       static_cast<const Scale*>(b.device_scales),
                       cute::get<1>(layouts)};
    } else {
      return Arguments{at, a_stride, bt, b_stride};
    }
  }

  /// D against the host's sum. `kept`: bits of a partial sum that are kept, 0: all.
  static void compare(const char* name, const OperandData<ElementA>& a,
                      const OperandData<ElementB>& b, const std::vector<float>& c,
                      const std::vector<float>& d, int kept) {
    const int m = a.rows, n = b.rows, k = a.k;
    const double steps = (k + kStep - 1) / kStep + 1;
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        const double* const x = &a.values[size_t(i) * k];
        const double* const y = &b.values[size_t(j) * k];
        double sum = c[size_t(i) * n + j], magnitude = std::abs(sum);
        for (int p = 0; p < k; ++p) {
          sum += x[p] * y[p];
          magnitude += std::abs(x[p] * y[p]);
        }
        const double got = d[size_t(i) * n + j];
        const double bound = kept == 0 ? 0 : 4 * steps * std::ldexp(magnitude, -kept);
        if (std::abs(got - sum) <= bound) continue;  // false for NaN
        std::printf("%s %d x %d x %d: D[%d][%d] must be %.9g within %.3g; got %.9g\n", name, m, n,
                    k, i, j, sum, bound, got);
        std::exit(1);
      }
    }
  }

  static void run_once(const char* name, int m, int n, int k, bool small, bool exact) {
    const auto layouts = scale_layouts(m, n, k);
    const auto count = [](const auto& layout) {
      return size_t(cute::cosize(cute::filter_zeros(layout)));
    };
    const OperandData<ElementA> a(m, k, small, 1, cute::get<0>(layouts),
                                  count(cute::get<0>(layouts)));
    const OperandData<ElementB> b(n, k, small, 2, cute::get<1>(layouts),
                                  count(cute::get<1>(layouts)));
    Random random(3);
    std::vector<float> c(size_t(m) * n), d(c.size());
    for (float& value : c) value = static_cast<float>(random.below(17)) - 8;
    float *device_c = nullptr, *device_d = nullptr;
    const size_t bytes = c.size() * sizeof(float);
    require_ok("cudaMalloc", cudaMalloc(&device_c, bytes) == cudaSuccess);
    require_ok("cudaMalloc", cudaMalloc(&device_d, bytes) == cudaSuccess);
    cudaMemcpy(device_c, c.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemset(device_d, 0xff, bytes);

    typename Gemm::Arguments arguments{
        cutlass::gemm::GemmUniversalMode::kGemm,
        {m, n, k, 1},
        mainloop_arguments<typename CollectiveMainloop::Arguments>(a, b, layouts),
        {{1.0f, 1.0f},
         device_c,
         cutlass::make_cute_packed_stride(typename Kernel::StrideC{}, {m, n, 1}),
         device_d,
         cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {m, n, 1})}};
    Gemm gemm;
    void* workspace = nullptr;
    const size_t workspace_bytes = std::max<size_t>(Gemm::get_workspace_size(arguments), 1);
    require_ok("cudaMalloc", cudaMalloc(&workspace, workspace_bytes) == cudaSuccess);
    require_ok("can_implement", gemm.can_implement(arguments) == cutlass::Status::kSuccess);
    require_ok("initialize", gemm.initialize(arguments, workspace) == cutlass::Status::kSuccess);
    require_ok("run", gemm.run() == cutlass::Status::kSuccess);
    require_ok("cudaDeviceSynchronize", cudaDeviceSynchronize() == cudaSuccess);
    cudaMemcpy(d.data(), device_d, bytes, cudaMemcpyDeviceToHost);
    compare(name, a, b, c, d, small ? 0 : exact ? 24 : kKept);
    cudaFree(device_c);
    cudaFree(device_d);
    cudaFree(workspace);
    std::printf("%s %d x %d x %d, %s: as on the host\n", name, m, n, k,
                small ? "small integers, bit for bit" : "any code");
  }
};

/// Both kinds of operands; "exact" as an argument of the program: the machine's sums are exact.
template <class Case>
void run_case(const char* name, int m, int n, int k, int argc, char** argv) {
  const bool exact = argc > 1 && std::strcmp(argv[1], "exact") == 0;
  for (const bool small : {true, false}) Case::run_once(name, m, n, k, small, exact);
}

}  // namespace cutlass_gemms
