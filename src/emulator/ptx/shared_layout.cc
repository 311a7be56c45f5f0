// Who uses shared memory, found through the call graph, then offsets.
#include "emulator/ptx/shared_layout.h"

#include <algorithm>

#include "base/bits.h"

namespace flamia::emulator::ptx {
namespace {

/// What a function uses, itself or through calls.
struct Use {
  bool common = false;
  uint32_t dynamic_alignment = 1;
  std::vector<uint32_t> callers;

  bool merge(const Use& callee) {
    const bool grows = (callee.common && !common) || callee.dynamic_alignment > dynamic_alignment;
    common = common || callee.common;
    dynamic_alignment = std::max(dynamic_alignment, callee.dynamic_alignment);
    return grows;
  }
};

bool is_static(const Variable& variable) {
  return variable.space == StateSpace::kShared && !variable.is_dynamic;
}

uint64_t append(Variable* variable, uint64_t top) {
  variable->offset = round_up<uint64_t>(top, variable->alignment);
  return variable->offset + variable->bytes;
}

uint64_t lay_out_common(Module* module) {
  uint64_t top = 0;
  for (Variable& variable : module->variables) {
    if (is_static(variable)) top = append(&variable, top);
  }
  for (Function& function : module->functions) {
    if (function.is_entry) continue;
    for (Variable& variable : function.variables) {
      if (is_static(variable)) top = append(&variable, top);
    }
  }
  return top;
}

void add_use(const Variable& variable, Use* use) {
  if (variable.space != StateSpace::kShared) return;
  if (variable.is_dynamic) {
    use->dynamic_alignment = std::max(use->dynamic_alignment, variable.alignment);
  } else {
    use->common = true;
  }
}

std::vector<Use> direct_uses(const Module& module) {
  std::vector<Use> uses(module.functions.size());
  for (uint32_t index = 0; index < uses.size(); ++index) {
    const Function& function = module.functions[index];
    for (const Variable& variable : function.variables) {
      if (!function.is_entry || variable.is_dynamic) add_use(variable, &uses[index]);
    }
    uint32_t last_callee = kNoIndex;
    for (const Operand& operand : function.operands) {
      const bool is_symbol =
          operand.kind == OperandKind::kSymbol ||
          (operand.kind == OperandKind::kAddress && operand.base == AddressBase::kSymbol);
      if (is_symbol && operand.scope == Scope::kModule) {
        add_use(module.variables[operand.index], &uses[index]);
      } else if (operand.kind == OperandKind::kFunction && operand.index != last_callee) {
        last_callee = operand.index;
        uses[last_callee].callers.push_back(index);
      } else if (operand.kind == OperandKind::kPrototype ||
                 operand.kind == OperandKind::kCallTable) {
        uses[index].common = true;  // an indirect call: it may reach anything
      }
    }
    if (function.alias_of != kNoIndex) uses[function.alias_of].callers.push_back(index);
  }
  return uses;
}

}  // namespace

void lay_out_shared_memory(Module* module) {
  const uint64_t common_bytes = lay_out_common(module);
  std::vector<Use> uses = direct_uses(*module);
  std::vector<uint32_t> work(uses.size());
  for (uint32_t i = 0; i < work.size(); ++i) work[i] = i;
  while (!work.empty()) {
    const uint32_t callee = work.back();
    work.pop_back();
    for (const uint32_t caller : uses[callee].callers) {
      if (caller != callee && uses[caller].merge(uses[callee])) work.push_back(caller);
    }
  }
  for (uint32_t i = 0; i < uses.size(); ++i) {
    Function& function = module->functions[i];
    if (!function.is_entry) {
      function.shared_bytes = 0;
      continue;
    }
    uint64_t top = uses[i].common ? common_bytes : 0;
    for (Variable& variable : function.variables) {
      if (is_static(variable)) top = append(&variable, top);
    }
    function.shared_bytes = top;
    function.dynamic_shared_offset = round_up<uint64_t>(top, uses[i].dynamic_alignment);
  }
}

}  // namespace flamia::emulator::ptx
