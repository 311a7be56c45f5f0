// Any bytes as PTX text and as a fat binary: both readers refuse in words or give what can be used.
// What the parser accepts has valid indices, can be printed and analyzed, and one instruction of it
// printed and parsed again prints the same.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "emulator/fatbin/fatbin.h"
#include "emulator/ptx/cfg.h"
#include "emulator/ptx/parser.h"
#include "emulator/ptx/text.h"

namespace {

using flamia::Status;
using flamia::emulator::FatbinEntry;
namespace ptx = flamia::emulator::ptx;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "ptx_fuzz: %s\n", what);
  std::abort();
}

void require_words(const Status& status) {
  require(!status.message().empty(), "a refusal must have words");
  for (const char character : status.message()) {
    require(static_cast<unsigned char>(character) >= 0x20, "a refusal must be one line");
  }
}

/// Reads every element, so that the sanitizers see indices out of range.
void check_operand(const ptx::Module& module, const ptx::Function& function,
                   const ptx::Operand& operand, int depth) {
  require(depth < 4, "operands must be shallow");
  require(uint64_t{operand.first} + operand.count <= function.operands.size(),
          "elements must exist");
  for (const ptx::Operand& element : function.elements_of(operand)) {
    check_operand(module, function, element, depth + 1);
  }
  if (operand.kind == ptx::OperandKind::kLabel) {
    require(operand.index < function.instructions.size(), "targets must be instructions");
  }
  if (operand.kind == ptx::OperandKind::kFunction) {
    require(operand.index < module.functions.size(), "functions must exist");
  }
}

void check_module(const ptx::Module& module, size_t text_size) {
  for (const ptx::Variable& variable : module.variables) {
    require(variable.initial.size() <= variable.bytes, "initializers must fit");
    for (const ptx::Relocation& relocation : variable.relocations) {
      require(relocation.offset + relocation.bytes <= variable.initial.size(),
              "relocations must fit");
    }
  }
  for (const ptx::Function& function : module.functions) {
    require(!function.has_body || !function.instructions.empty(), "bodies must return");
    require(function.instructions.size() <= text_size, "memory must grow with the text");
    for (const ptx::Instruction& instruction : function.instructions) {
      for (const ptx::Operand& operand : function.operands_of(instruction)) {
        check_operand(module, function, operand, 0);
      }
      require(!ptx::to_text(instruction, function, &module).empty(), "all must print");
    }
    for (const ptx::BranchTable& table : function.branch_tables) {
      for (const uint32_t target : table.targets) {
        require(target < function.instructions.size(), "targets must be instructions");
      }
    }
    const ptx::ControlFlow flow = ptx::analyze(function);
    for (const uint32_t meeting : flow.reconvergence) {
      require(meeting == ptx::kNoIndex || meeting <= function.instructions.size(),
              "lanes must meet inside the function");
    }
  }
}

void read_fatbin(const uint8_t* data, size_t size) {
  std::vector<FatbinEntry> entries;
  const Status status = flamia::emulator::read_container({data, size}, &entries);
  if (!status.ok()) return require_words(status);
  const FatbinEntry* entry = nullptr;
  const Status selected = flamia::emulator::select_ptx(entries, "sm_100a", &entry);
  if (!selected.ok()) return require_words(selected);
  std::string text;
  const Status decompressed = flamia::emulator::decompress(*entry, &text);
  if (!decompressed.ok()) return require_words(decompressed);
  require(text.size() <= entry->text_bytes, "text must have its size");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read_fatbin(data, size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ptx::Module module;
  const Status status = ptx::parse(text, &module);
  if (status.ok()) {
    check_module(module, size);
  } else {
    require_words(status);
  }
  return 0;
}
