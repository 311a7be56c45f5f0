// Exact attention in FP64, forward and backward: what every backend is measured against.
// Depends on: nothing of the library's numerics or layouts; masks, offsets and decoding are written
// a second time here, so that a mistake there cannot hide here.
// Used by: the program's --check, benchmarks, tests. It is not a backend and not fast code.
#pragma once

#include <cstdint>
#include <vector>

#include "flamia/options.h"
#include "flamia/problem.h"
#include "flamia/status.h"

namespace flamia::oracle {

/// Exact outputs, dense and contiguous. Tokens of a batch are counted through: b * L + row.
/// Where rows were sampled, entries of documents' other rows are NaN. Rows past the last document
/// belong to nobody: O 0, LSE -inf, gradients 0.
struct Result {
  std::vector<double> o;            ///< [T * Hq * D]
  std::vector<double> dq;           ///< [T * Hq * D], empty without backward
  std::vector<double> dk;           ///< [Tk * Hkv * D], empty without backward
  std::vector<double> dv;           ///< [Tk * Hkv * D], empty without backward
  std::vector<double> lse;          ///< [Hq * T], batched [B * Hq * L]; natural log
  std::vector<int64_t> query_rows;  ///< tokens with O, LSE, dQ, ascending; empty means all
  std::vector<int64_t> key_rows;    ///< tokens with dK, dV, ascending; empty means all
};

struct Settings {
  bool backward = true;           ///< gradients too, when d_o is given
  int64_t rows_per_document = 0;  ///< 0: all; else this many query rows and key rows of each
                                  ///< document: the first, the last, one of each stratum between
  uint64_t seed = 0;              ///< of the sampled rows
  int threads = 0;                ///< 0: one per core; changes no number
};

/// Exact attention on the given inputs. inputs: q, k, v and cumulative lengths are read (BF16 or
/// F32, unit last stride), outputs ignored; d_o as q, or without data for forward only.
/// Non-finite values reach only the rows and keys that a mask lets them reach.
/// Memory: O(tokens) plus 128 rows of scores a thread. Errors: kInvalidArgument, kOutOfMemory.
Status attention(const Problem& problem, const Mask& mask, double softmax_scale,
                 const ForwardTensors& inputs, const TensorView& d_o, const Settings& settings,
                 Result* result);

}  // namespace flamia::oracle
