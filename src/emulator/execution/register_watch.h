// Registers that asynchronous instructions use: accumulators and A fragments of wgmma between issue
// and wgmma.wait_group, accumulators written without wgmma.fence, results of tcgen05.ld.
// Depends on: state.h, order.h. Used by: decoding, which marks the steps that touch such registers;
// the loop of a warp, which calls check_registers for them; wgmma and tcgen05.ld.
// Only functions with such instructions pay, and in them only the instructions marked.
//
// Two things are legal although they look like crimes. Compilers place mov where they like, so that
// a mov between wgmma.fence and wgmma counts as if it came before. And an instruction that uses a
// result of tcgen05.ld waits for it, as PTX says (register dependency): without strict rules such
// a use counts as wait::ld for the loads up to that one.
#pragma once

#include "emulator/execution/state.h"

namespace flamia::emulator::execution {

/// Fills Step::watched and Code::touches of a decoded function.
void watch_registers(Code* code);
/// Before a watched step. Throws on hazards.
void check_registers(Warp& warp, const Step& step);
/// The warp issues a wgmma of that serial. Throws if a fence or a wait is missing.
void begin_wgmma(Warp& warp, const Step& step, uint64_t serial,
                 const std::vector<uint32_t>& accumulators, const std::vector<Source>& a);
/// A tcgen05.ld fills these registers.
void begin_tensor_load(Warp& warp, const std::vector<uint32_t>& slots, Epoch epoch);

}  // namespace flamia::emulator::execution
