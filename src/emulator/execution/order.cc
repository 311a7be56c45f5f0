// Hazards become traps here.
#include "emulator/execution/order.h"

#include "base/message.h"
#include "emulator/ptx/text.h"

namespace flamia::emulator::execution {
namespace {

/// The hazard's sentence with instruction numbers replaced by lines of PTX.
[[noreturn]] void raise(const Grid& grid, const Hazard& hazard) {
  std::string text = describe(hazard);
  for (const HazardParty& party : {hazard.first, hazard.second}) {
    const std::string number = concat("(instruction ", party.instruction, ")");
    const size_t place = text.find(number);
    if (place == std::string::npos) continue;
    text.replace(place, number.size(), concat("(", instruction_text(grid, party.instruction), ")"));
  }
  stop(fault_kind_name(FaultKind::kHazard), std::move(text));
}

}  // namespace

std::string instruction_text(const Grid& grid, uint32_t key) {
  const ptx::Module& module = grid.program->module().module;
  const uint32_t index = key >> 20;
  if (index >= module.functions.size()) return "an unknown instruction";
  const ptx::Function& function = module.functions[index];
  if ((key & 0xfffffu) >= function.instructions.size()) return "an unknown instruction";
  const ptx::Instruction& instruction = function.instructions[key & 0xfffffu];
  return concat("line ", instruction.line, ": ", ptx::to_text(instruction, function, &module));
}

void note_shared(Cluster& cluster, const Actor& actor, uint64_t address, uint64_t bytes,
                 bool write) {
  if (cluster.shadow == nullptr) return;
  const auto hazard = write ? cluster.shadow->write(actor, address, bytes)
                            : cluster.shadow->read(actor, address, bytes);
  if (hazard.has_value()) raise(*cluster.grid, *hazard);
}

void note_tensor(Cta& cta, const Actor& actor, uint32_t lane, uint32_t column, uint32_t columns,
                 bool write) {
  Cluster& cluster = *cta.cluster;
  if (cluster.tensor_shadow == nullptr) return;
  // The tensor memories of a cluster lie one behind the other.
  constexpr uint64_t kBytes = uint64_t{kTensorLanes} * kTensorColumns * 4;
  const uint64_t address = cta.rank * kBytes + tensor_cell_address(lane, column);
  const auto hazard = write ? cluster.tensor_shadow->write(actor, address, uint64_t{columns} * 4)
                            : cluster.tensor_shadow->read(actor, address, uint64_t{columns} * 4);
  if (hazard.has_value()) raise(*cluster.grid, *hazard);
}

Actor own_actor(Warp& warp, const Step& step, AccessKind kind) {
  return clocks_of(warp)->own_access(warp.global, kind, instruction_key(warp.code(), step));
}

}  // namespace flamia::emulator::execution
