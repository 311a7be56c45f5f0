// What the tcgen05 families share: their operands, the memories of a CTA or of its pair.
// Depends on: jobs.h, tensor/mma.h. Used by: tensor_memory_steps.cc, tensor_pipe_steps.cc.
#pragma once

#include <vector>

#include "emulator/execution/jobs.h"
#include "emulator/execution/lanes.h"
#include "emulator/execution/spaces.h"
#include "emulator/tensor/tensor_copy.h"

namespace flamia::emulator::execution {

struct TensorOperandAddress {
  Source base;
  int64_t offset = 0;
};

struct TensorDetail : Detail {
  uint32_t cta_group = 1;
  Space space = Space::kGeneric;
  TensorOperandAddress address;
  // ld, st
  TensorAccess access;
  TensorReduce reduce;
  bool reducing = false;
  std::vector<uint32_t> slots;
  uint32_t reduced_slot = 0;
  std::vector<Source> values;
  // mma, cp, commit
  InstructionForm form;
  TensorOperandAddress a_address, sfa, sfb;
  Source a, b, idesc, accumulate, multicast;
  bool scaled = false, negated = false, has_multicast = false;
  uint32_t d_shift = 0;
  std::vector<Source> disabled;
  TensorCopyShape copy_shape = TensorCopyShape::k128x256b;
  TensorCopyFormat copy_format = TensorCopyFormat::kPlain;
};

inline const TensorDetail& tensor_detail(const Step& step) {
  return static_cast<const TensorDetail&>(*step.detail);
}

/// A detail with .cta_group taken.
inline TensorDetail* make_tensor_detail(Decoder& d) {
  TensorDetail* const detail = d.detail<TensorDetail>();
  d.accept({Modifier::kSync, Modifier::kAligned, Modifier::kCtaGroup1});
  detail->cta_group = d.take(Modifier::kCtaGroup2) ? 2 : 1;
  return detail;
}

inline TensorOperandAddress tensor_operand(Decoder& d, const ptx::Operand& operand) {
  TensorOperandAddress out;
  out.base = d.address(operand, &out.offset);
  return out;
}

inline uint32_t tensor_value(const Warp& warp, const TensorOperandAddress& address, uint32_t lane) {
  return static_cast<uint32_t>(warp.read(address.base)[lane]) +
         static_cast<uint32_t>(address.offset);
}

/// PTX: all tcgen05 instructions of a kernel have one .cta_group.
inline void check_group(Warp& warp, const Step& step) {
  Grid& grid = warp.grid();
  const uint32_t group = tensor_detail(step).cta_group;
  if (grid.tensor_group == 0) {
    grid.tensor_group = group;
    grid.tensor_group_key = instruction_key(warp.code(), step);
  }
  if (grid.tensor_group == group) return;
  stop(fault_kind_name(FaultKind::kBadOperand),
       concat("all tcgen05 instructions of a kernel must have one .cta_group; got ", group,
              " after ", grid.tensor_group, " (", instruction_text(grid, grid.tensor_group_key),
              ")"));
}

/// cta_group::2 needs both CTAs of the pair.
inline bool has_peer(const Cta& cta) {
  const uint32_t peer = cta.rank ^ 1u;
  const auto& shared = cta.cluster->shared;
  return peer < shared.size() && shared[peer] != nullptr;
}

inline TensorMemory& memory_of(Cta& cta) {
  if (cta.tensor == nullptr) {
    stop(fault_kind_name(FaultKind::kUnsupported), "this chip has no tensor memory");
  }
  return *cta.tensor;
}

/// require(), where uninitialized operands count only if they are checked.
inline void require_initialized(const Grid& grid, const Fault& fault, uint32_t lane = kNoLane) {
  if (fault.kind == FaultKind::kUninitialized && !grid.options->check_uninitialized) return;
  require(fault, lane);
}

}  // namespace flamia::emulator::execution
