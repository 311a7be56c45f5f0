// What a debugger may call while the program stands still.
#include "emulator/execution/debugger.h"

#include <string>

#include "base/message.h"
#include "emulator/execution/scheduler.h"

namespace flamia::emulator::execution {
namespace {

const Grid* g_grid = nullptr;
std::string g_text;  ///< what was returned last

std::string register_text(const Warp& warp, uint32_t lane, const std::string& name) {
  for (const Group& group : warp.groups) {
    if ((group.mask >> lane & 1u) == 0) continue;
    const Code& code = *group.frame->code;
    const auto& registers = code.function->registers;
    for (size_t i = 0; i < registers.size(); ++i) {
      if (registers[i].name != name) continue;
      const uint64_t* const row = group.frame->registers.data() + size_t{code.slots[i]} * kLanes;
      const bool predicate = registers[i].type == ScalarType::kPred;
      const uint64_t value = predicate ? (row[0] >> lane & 1u) : row[lane];
      return concat(name, " = ", value, " (", hex(value), ")");
    }
    return concat("function ", code.function->name, " has no register ", name);
  }
  return concat("lane ", lane, " has exited");
}

}  // namespace

DebuggedGrid::DebuggedGrid(const Grid* grid) { g_grid = grid; }
DebuggedGrid::~DebuggedGrid() { g_grid = nullptr; }

}  // namespace flamia::emulator::execution

using flamia::emulator::execution::g_grid;
using flamia::emulator::execution::g_text;

extern "C" {

__attribute__((noinline)) void flamia_vgpu_trap(const char* kind, const char* text) {
  asm volatile("" : : "r"(kind), "r"(text) : "memory");  // the call must stay
}

const char* flamia_vgpu_where() {
  g_text = g_grid == nullptr ? "no grid is running\n"
                             : flamia::emulator::execution::describe_waits(*g_grid);
  return g_text.c_str();
}

const char* flamia_vgpu_register(uint32_t cta_x, uint32_t cta_y, uint32_t cta_z, uint32_t warp,
                                 uint32_t lane, const char* name) {
  g_text = "no such warp is resident";
  if (g_grid == nullptr || lane >= flamia::emulator::execution::kLanes) return g_text.c_str();
  for (const auto& cluster : g_grid->resident) {
    for (const auto& cta : cluster->ctas) {
      const bool here = cta->id.x == cta_x && cta->id.y == cta_y && cta->id.z == cta_z;
      if (!here || warp >= cta->warps.size()) continue;
      g_text = flamia::emulator::execution::register_text(*cta->warps[warp], lane, name);
    }
  }
  return g_text.c_str();
}
}
