// What an ELF program asks the loader for, as far as vgpu-run warns of it.
// Depends on: elf.h. Used by: vgpu_run.cc, tests.
#pragma once

#include <string>
#include <vector>

namespace flamia::tools {

struct ElfNeeds {
  bool is_elf = false;              ///< 64-bit little-endian ELF with a dynamic section
  std::vector<std::string> needed;  ///< DT_NEEDED
  bool has_rpath = false;           ///< DT_RPATH, which wins over LD_LIBRARY_PATH
  bool has_device_code = false;     ///< a section .nv_fatbin
};

/// Reads a file; damaged or foreign files are not ELF.
ElfNeeds read_elf_needs(const std::string& path);

/// Warnings for the person who runs the program on the virtual GPU, each one sentence.
std::vector<std::string> warnings_for(const ElfNeeds& needs, const std::string& program);

}  // namespace flamia::tools
