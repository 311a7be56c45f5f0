// Section headers, dynamic section and its strings; every offset is checked before it is read.
#include "tools/vgpu/elf_needs.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

namespace flamia::tools {
namespace {

class Bytes {
 public:
  explicit Bytes(std::string data) : data_(std::move(data)) {}

  template <typename Value>
  bool read(uint64_t offset, Value* value) const {
    if (offset > data_.size() || sizeof(Value) > data_.size() - offset) return false;
    std::memcpy(value, data_.data() + offset, sizeof(Value));
    return true;
  }
  /// The zero-terminated string at an offset; empty outside of the file.
  std::string text(uint64_t offset) const {
    if (offset >= data_.size()) return "";
    const size_t end = data_.find('\0', offset);
    return end == std::string::npos ? "" : data_.substr(offset, end - offset);
  }

 private:
  std::string data_;
};

void read_dynamic(const Bytes& bytes, const Elf64_Shdr& section, const Elf64_Shdr& strings,
                  ElfNeeds* needs) {
  needs->is_elf = true;
  for (uint64_t offset = 0; offset < section.sh_size; offset += sizeof(Elf64_Dyn)) {
    Elf64_Dyn entry;
    if (!bytes.read(section.sh_offset + offset, &entry) || entry.d_tag == DT_NULL) return;
    if (entry.d_tag == DT_NEEDED) {
      needs->needed.push_back(bytes.text(strings.sh_offset + entry.d_un.d_val));
    }
    if (entry.d_tag == DT_RPATH) needs->has_rpath = true;
  }
}

}  // namespace

ElfNeeds read_elf_needs(const std::string& path) {
  ElfNeeds needs;
  std::ifstream file(path, std::ios::binary);
  const Bytes bytes(std::string(std::istreambuf_iterator<char>(file), {}));
  Elf64_Ehdr header;
  if (!bytes.read(0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr)) {
    return needs;
  }
  const auto section_at = [&](uint64_t index, Elf64_Shdr* section) {
    return bytes.read(header.e_shoff + index * sizeof(Elf64_Shdr), section);
  };
  Elf64_Shdr names;
  if (!section_at(header.e_shstrndx, &names)) return needs;
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section, strings;
    if (!section_at(i, &section)) return needs;
    if (bytes.text(names.sh_offset + section.sh_name) == ".nv_fatbin") {
      needs.has_device_code = true;
    }
    if (section.sh_type == SHT_DYNAMIC && section_at(section.sh_link, &strings)) {
      read_dynamic(bytes, section, strings, &needs);
    }
  }
  return needs;
}

std::vector<std::string> warnings_for(const ElfNeeds& needs, const std::string& program) {
  std::vector<std::string> warnings;
  if (!needs.is_elf) return warnings;
  constexpr std::string_view kRuntime = "libcudart.so.";
  bool is_shared = false;
  for (const std::string& library : needs.needed) {
    if (library.compare(0, kRuntime.size(), kRuntime) != 0) continue;
    is_shared = true;
    if (library != "libcudart.so.13") {
      warnings.push_back(program + " needs " + library +
                         ", the virtual GPU is libcudart.so.13 (build with CUDA 13)");
    }
  }
  if (needs.has_device_code && !is_shared) {
    warnings.push_back(program +
                       " has device code but a static CUDA runtime: it does not reach the virtual "
                       "GPU (build with nvcc -cudart shared)");
  }
  if (needs.has_rpath) {
    warnings.push_back(program +
                       " has an RPATH, which the loader searches before the virtual GPU (build "
                       "with -Wl,--enable-new-dtags)");
  }
  return warnings;
}

}  // namespace flamia::tools
