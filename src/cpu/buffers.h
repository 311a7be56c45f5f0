// Every array of a CPU pass, carved from the workspace: one list for size and for use.
// Used by: workspace_bytes(), forward(), backward().
#pragma once

#include <cstdint>

#include "cpu/arena.h"
#include "cpu/operand.h"
#include "cpu/tile_product.h"
#include "plan/plan.h"

namespace flamia::cpu {

/// Floats of one worker. Tiles are 128 x 128 at most.
struct TileScratch {
  float* q = nullptr;
  float* q_grad = nullptr;
  float* k = nullptr;
  float* k_grad = nullptr;
  float* v = nullptr;
  float* v_grad = nullptr;
  float* d_o = nullptr;
  float* d_o_keys = nullptr;
  float* s = nullptr;
  float* p = nullptr;
  float* ds = nullptr;
  float* operand = nullptr;
  float* product = nullptr;
  float* first = nullptr;   ///< O, or dK
  float* second = nullptr;  ///< dV
  ProductScratch hardware;
};
constexpr int kTileFloats = 128 * 128;

struct ForwardBuffers {
  Operand q, k, v, v_diagonal;
  TileScratch* workers = nullptr;  ///< [threads], filled by carve()
};

struct BackwardBuffers {
  Operand q, k, v_grad, d_o, d_o_keys, q_grad, k_grad;
  Operand v, v_diagonal;           ///< all-4-bit only: their exponents rebuild P-hat
  float* delta = nullptr;          ///< [heads][query tokens]
  float* do_norm = nullptr;        ///< [heads][query tokens]
  float* v_norm = nullptr;         ///< [kv heads][key tokens]
  float* k_magnitude = nullptr;    ///< [kv heads][key tokens]
  int16_t* dq_exponent = nullptr;  ///< [heads][query tokens]
  float* dq32 = nullptr;           ///< [heads][query tokens][dim], or
  uint16_t* dq16 = nullptr;        ///< the same in binary16
  float* ds_sum = nullptr;         ///< [heads][query tokens]
  float* ds_magnitude = nullptr;   ///< [heads][query tokens]
  int32_t* turn = nullptr;         ///< [heads][query tiles]
  TileScratch* workers = nullptr;
};

/// tensors may be empty views while measuring.
ForwardBuffers carve_forward(const Plan& plan, const ForwardTensors& tensors, Arena& arena);
BackwardBuffers carve_backward(const Plan& plan, const BackwardTensors& tensors, Arena& arena);

/// Upper bound of the number of backward query tiles of a head.
int64_t backward_query_tiles(const Plan& plan);
int backward_query_tile(const Conventions& conventions);

}  // namespace flamia::cpu
