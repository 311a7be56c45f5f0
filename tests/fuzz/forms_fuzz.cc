// Hostile programs on the virtual GPU: any of the instruction forms of programs that run on
// hardware, one after the other, with wrong numbers and modifiers, on registers of any values.
// Input: bytes: options, shape, values of registers, then forms with what is changed in them.
// A grid ends, or is refused or stopped in words; the host's memory stays whole, which the
// sanitizers watch.
#include <cctype>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "emulator/emulator.h"
#include "emulator/tma/tensor_map.h"
#include "tests/fuzz/launch_input.h"

namespace {

using namespace flamia::emulator;
using flamia::Status;
using fuzz::Input;
using fuzz::require;

constexpr uint64_t kBufferBytes = 4096;
constexpr uint32_t kMostForms = 12;

constexpr char kHead[] = R"(.version 9.0
.target sm_103a
.address_size 64
.shared .align 1024 .b8 room[16384];
.const .align 8 .b8 table[64];
.func (.param .b32 result) device_function(.param .b32 parameter) { ret; }
.entry kernel(.param .align 8 .b8 parameter[64]) {
.reg .pred %p<10>; .reg .b8 %b<10>; .reg .b16 %h<10>; .reg .b32 %r<600>; .reg .f32 %f<600>;
.reg .b64 %d<100>; .reg .f64 %e<10>; .reg .b128 %q<10>; .local .align 8 .b8 stack[64];
.param .b32 argument; .param .b32 returned;
)";

const std::vector<std::string>& forms() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> lines;
    std::ifstream file(std::string(FLAMIA_SOURCE_DIR) +
                       "/tests/emulator/data/instruction_forms.txt");
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("//")) lines.push_back(line);
    }
    require(!lines.empty(), "the forms must be there");
    return lines;
  }();
  return all;
}

/// A value that an instruction may take for something.
uint64_t value(Input* input, uint64_t buffer) {
  const uint64_t choice = input->take(1), small = input->take(1);
  const uint64_t shared = kSharedReserved + small * 16;
  switch (choice % 12) {
    case 0:
      return small;
    case 1:
      return buffer + small * 16;
    case 2:
      return shared;
    case 3:
      return kSharedWindow + shared + (choice >> 7 << kSharedRankShift);
    case 4:
      return ((choice >> 4) + 1) << 48 | small;
    case 5:  // operand of wgmma, of tcgen05
      return shared >> 4 | uint64_t{0x1000080000} | (choice >> 7 << 46) | (choice >> 4 & 7) << 61;
    case 6:
      return ~uint64_t{0} - small;
    case 7:  // instruction descriptor of tcgen05.mma
      return 0x08000010u | (small & 63) << 17 | (choice >> 4 & 7) << 7;
    case 8:
      return uint64_t{1} << (small & 63);
    case 9:
      return (kSharedReserved + (small & 7) * 8) | (choice >> 7 << kSharedRankShift);
    case 10:
      return input->take(4);
    default:
      return input->take(8);
  }
}

void put_map(Input* input, uint64_t buffer) {
  TensorMap map;
  map.type = static_cast<MapType>(input->take(1) % kMapTypeCount);
  map.rank = 1 + static_cast<uint32_t>(input->take(1) % kMapMaxRank);
  map.address = value(input, buffer) & ~uint64_t{15};
  map.swizzle = static_cast<Swizzle>(input->take(1) % 8);
  for (uint32_t i = 0; i < kMapMaxRank; ++i) {
    map.dims[i] = input->take(2);
    map.box[i] = static_cast<uint32_t>(input->take(1)) + 1;
    map.element_strides[i] = 1;
    if (i > 0) map.strides[i - 1] = input->take(2) * 16;
  }
  encode_map(map, reinterpret_cast<uint8_t*>(buffer));
}

/// The form with its `which`-th number replaced.
void change_number(std::string* form, uint64_t which, const std::string& number) {
  std::vector<std::pair<size_t, size_t>> places;
  for (size_t at = 1; at < form->size(); ++at) {
    const bool starts =
        std::isdigit((*form)[at]) != 0 && std::strchr(" ,+{([", (*form)[at - 1]) != nullptr;
    if (!starts) continue;
    size_t end = at;
    while (end < form->size() && std::isalnum((*form)[end]) != 0) ++end;
    places.push_back({at, end - at});
    at = end;
  }
  if (places.empty()) return;
  const auto [at, length] = places[which % places.size()];
  form->replace(at, length, number);
}

/// Parts of the mnemonic: [begin, end) of each behind its dot.
std::vector<std::pair<size_t, size_t>> parts_of(const std::string& form) {
  std::vector<std::pair<size_t, size_t>> parts;
  const size_t last = form.find(' ') == std::string::npos ? form.size() - 1 : form.find(' ');
  for (size_t dot = form.find('.'); dot < last;) {
    size_t next = form.find('.', dot + 1);
    if (next == std::string::npos || next > last) next = last;
    parts.push_back({dot + 1, next});
    dot = next;
  }
  return parts;
}

void change_modifier(std::string* form, uint64_t which, const std::string& other, uint64_t whose) {
  const auto mine = parts_of(*form), theirs = parts_of(other);
  if (mine.empty() || theirs.empty()) return;
  const auto [begin, end] = mine[which % mine.size()];
  const auto [from, to] = theirs[whose % theirs.size()];
  form->replace(begin, end - begin, other.substr(from, to - from));
}

void change_operands(std::string* form, const std::string& other) {
  const size_t mine = form->find(' '), theirs = other.find(' ');
  if (mine == std::string::npos || theirs == std::string::npos) return;
  *form = form->substr(0, mine) + other.substr(theirs);
}

std::string body(Input* input, uint64_t buffer) {
  std::string text;
  const auto set = [&](const char* type, const char* file, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      text += std::string("mov.") + type + " " + file + std::to_string(i) + ", " +
              std::to_string(value(input, buffer)) + ";\n";
    }
  };
  set("b64", "%d", 5);
  set("b32", "%r", 5);
  const uint64_t bits = input->take(1);
  text += "mov.b16 %h1, " + std::to_string(input->take(2)) + ";\nsetp.eq.u32 %p1, " +
          std::to_string(bits & 1) + ", 0;\nmov.b64 {%r10, %r11}, %d3;\n";
  if ((bits & 2) != 0) text += "mbarrier.init.shared.b64 [room], 1;\n";
  if ((bits & 4) != 0)
    text += "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 64;\n";
  if ((bits & 8) != 0) text += "wgmma.fence.sync.aligned;\n";
  if ((bits & 16) != 0) text += "mov.u32 %r0, %tid.x;\n";
  if ((bits & 32) != 0) text += "st.bulk.weak.shared::cta [room], 16384, 0;\nbar.sync 0;\n";
  const uint64_t count = input->take(1) % kMostForms + 1;
  for (uint64_t i = 0; i < count; ++i) {
    std::string form = forms()[input->take(2) % forms().size()];
    const uint64_t change = input->take(1);
    if (change % 4 == 1) {
      const uint64_t number = value(input, buffer);
      change_number(&form, change >> 2, std::to_string(static_cast<int64_t>(number)));
    } else if (change % 4 == 2) {
      const std::string& other = forms()[input->take(2) % forms().size()];
      change_modifier(&form, change >> 2, other, input->take(1));
    } else if (change == 255) {
      change_operands(&form, forms()[input->take(2) % forms().size()]);
    }
    if (change % 16 == 4) form = "@%p1 " + form;
    text += form + "\n";
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  MachineOptions options = fuzz::options_of(input.take(1));
  Emulator emulator(options);
  uint64_t buffer = 0;
  require(emulator.memory().allocate(kBufferBytes, "buffer", &buffer).ok(), "memory");
  emulator.memory().mark(buffer, kBufferBytes, true);
  const uint64_t shape = input.take(1);
  put_map(&input, buffer);
  const std::string text = kHead + body(&input, buffer) + "done: ret;\n}\n";
  std::unique_ptr<LoadedModule> module;
  Status status = emulator.load(text, &module);
  if (!status.ok()) {
    require(!status.message().empty(), "a refusal must have words");
    return 0;
  }
  GridRequest request;
  request.module = module.get();
  request.function = module->module.find_function("kernel");
  constexpr uint32_t kThreads[] = {1, 32, 128, 160};
  request.block = {kThreads[shape & 3], 1, 1};
  request.cluster = {1 + static_cast<uint32_t>(shape >> 2 & 1), 1, 1};
  request.grid = {request.cluster.x * (1 + static_cast<uint32_t>(shape >> 3 & 1)), 1, 1};
  request.parameters.assign(module->module.functions[request.function].parameter_bytes, 0);
  GridReport report;
  status = emulator.run(request, &report);
  require(status.ok() || !status.message().empty(), "a refusal must have words");
  return 0;
}
