// Hostile launches on the virtual GPU: kernels with any parameters, any sizes and any options, and
// PTX of any text that parses. A grid ends, or is refused or stopped in words; the host's memory
// stays whole, which the sanitizers watch.
// Input: PTX text from ".version" on, or bytes: module, entry, block, cluster, adversary, shared
// memory, then parameters as choices: a pointer with a small or any offset, a tensor map, any bits.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "emulator/emulator.h"
#include "tests/fuzz/launch_input.h"

namespace {

using namespace flamia::emulator;
using flamia::Status;
using fuzz::Input;
using fuzz::options_of;
using fuzz::require;

constexpr uint64_t kBufferBytes = 4096;
constexpr const char* kModules[] = {
    "scalar_sm90a",         "shared_reduce_sm90a", "async_copy_sm90a",
    "wgmma_sm90a",          "tcgen05_sm100a",      "divergent_sm103a",
    "async_copy_sm100a",    "printing_sm90a",      "execution_kernels_sm90a",
    "hopper_kernels_sm90a", "pipeline_sm90a",      "pipeline_sm100a"};

const std::string& sample(size_t index) {
  static std::string texts[std::size(kModules)];
  if (texts[index].empty()) {
    const std::string path =
        std::string(FLAMIA_SOURCE_DIR) + "/tests/emulator/data/" + kModules[index] + ".ptx";
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    texts[index] = text.str();
    require(!texts[index].empty(), "the samples must be there");
  }
  return texts[index];
}

void put_parameter(Input* input, uint64_t buffer, uint8_t* at, uint32_t bytes) {
  const uint64_t choice = input->take(1);
  uint64_t value = 0;
  switch (choice % 4) {
    case 0:
      value = buffer + input->take(1) * 4;
      break;
    case 1:
      value = buffer + input->take(8);
      break;
    case 2:
      value = input->take(2);
      break;
    default:
      value = input->take(8);
      break;
  }
  for (uint32_t i = 0; i < bytes; i += 8) {
    // A long parameter (a tensor map, a struct) starts with the value and goes on with any bits.
    const uint64_t part = i == 0 ? value : input->take(8);
    std::memcpy(at + i, &part, std::min<uint32_t>(8, bytes - i));
  }
}

void run(Emulator* emulator, const LoadedModule* module, uint32_t function, Input* input) {
  uint64_t buffer = 0;
  require(emulator->memory().allocate(kBufferBytes, "buffer", &buffer).ok(), "memory");
  emulator->memory().mark(buffer, kBufferBytes, true);
  GridRequest request;
  request.module = module;
  request.function = function;
  const uint64_t shape = input->take(2);
  request.block = {static_cast<uint32_t>(shape & 0xff), 1 + static_cast<uint32_t>(shape >> 14), 1};
  request.cluster = {1 + static_cast<uint32_t>(shape >> 8 & 1), 1, 1};
  request.grid = {request.cluster.x * (1 + static_cast<uint32_t>(shape >> 9 & 1)), 1, 1};
  request.dynamic_shared_bytes = static_cast<uint32_t>(input->take(2)) * 4;
  const ptx::Function& entry = module->module.functions[function];
  request.parameters.assign(entry.parameter_bytes, 0);
  for (const ptx::Parameter& parameter : entry.parameters) {
    if (uint64_t{parameter.offset} + parameter.bytes > request.parameters.size()) continue;
    put_parameter(input, buffer, request.parameters.data() + parameter.offset, parameter.bytes);
  }
  GridReport report;
  const Status status = emulator->run(request, &report);
  require(status.ok() || !status.message().empty(), "a refusal must have words");
  require(status.ok() == report.traps.empty() || !status.ok(), "a trap must be an error");
}

void launch(const std::string& text, Input* input, uint64_t entry_choice) {
  Emulator emulator(options_of(input->take(1)));
  std::unique_ptr<LoadedModule> module;
  const Status status = emulator.load(text, &module);
  if (!status.ok()) return require(!status.message().empty(), "a refusal must have words");
  std::vector<uint32_t> entries;
  for (uint32_t i = 0; i < module->module.functions.size(); ++i) {
    if (module->module.functions[i].is_entry) entries.push_back(i);
  }
  if (entries.empty()) return;
  run(&emulator, module.get(), entries[entry_choice % entries.size()], input);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  if (size > 8 && std::memcmp(data, ".version", 8) == 0) {
    // Sizes and parameters of a run of any text: from its own end.
    Input tail(data + size / 2, size - size / 2);
    launch(std::string(reinterpret_cast<const char*>(data), size), &tail, size);
    return 0;
  }
  const size_t module = input.take(1) % std::size(kModules);
  const uint64_t entry = input.take(1);
  launch(sample(module), &input, entry);
  return 0;
}
