// Registration, lookup by host pointer or handle, and loading of PTX.
#include "emulator/cudart/registry.h"

#include <span>
#include <utility>

#include "base/message.h"
#include "emulator/cudart/chip.h"
#include "emulator/fatbin/fatbin.h"

namespace flamia::emulator::cudart {
namespace {

Status container_of(const ModuleRecord& module, std::span<const uint8_t>* container) {
  if (module.is_wrapper) return open_wrapper(module.image, container);
  // A bare container states its own size: header bytes, then payload bytes.
  const auto* bytes = static_cast<const uint8_t*>(module.image);
  uint64_t payload = 0;
  uint16_t header = 0;
  __builtin_memcpy(&header, bytes + 6, sizeof(header));
  __builtin_memcpy(&payload, bytes + 8, sizeof(payload));
  *container = {bytes, header + payload};
  return {};
}

/// The PTX of an image for a target.
Outcome ptx_of(const ModuleRecord& module, std::string_view target, std::string* text) {
  if (module.image == nullptr) {
    *text = module.text;
    return cudaSuccess;
  }
  std::span<const uint8_t> container;
  std::vector<FatbinEntry> entries;
  Status status = container_of(module, &container);
  if (status.ok()) status = read_container(container, &entries);
  if (!status.ok()) return {cudaErrorInvalidKernelImage, status.message()};
  const FatbinEntry* entry = nullptr;
  status = select_ptx(entries, target, &entry);
  if (!status.ok()) return {cudaErrorNoKernelImageForDevice, status.message()};
  status = decompress(*entry, text);
  if (!status.ok()) return {cudaErrorInvalidKernelImage, status.message()};
  return cudaSuccess;
}

}  // namespace

ModuleRecord* Registry::add_module(const void* image, bool is_wrapper) {
  modules_.push_back(std::make_unique<ModuleRecord>());
  ModuleRecord* module = modules_.back().get();
  module->image = image;
  module->is_wrapper = is_wrapper;
  module_handles_.insert(module);
  return module;
}

ModuleRecord* Registry::add_text(std::string ptx) {
  ModuleRecord* module = add_module(nullptr, false);
  module->text = std::move(ptx);
  return module;
}

void Registry::unload(ModuleRecord* module, Executor* executor) {
  module_handles_.erase(module);
  module->unloaded = true;
  if (module->loaded != nullptr && executor != nullptr) {
    const std::vector<ptx::Variable>& variables = module->loaded->module.variables;
    for (size_t i = 0; i < variables.size(); ++i) {
      if (variables[i].space != ptx::StateSpace::kGlobal) continue;
      // A variable that the executor did not place as a block of its own goes with the device.
      const Status released = executor->memory().release(module->loaded->variable_address[i]);
      static_cast<void>(released);
    }
  }
  if (module->loaded != nullptr) retired_.push_back(std::move(module->loaded));
  std::erase_if(kernel_of_, [&](const auto& pair) { return pair.second->module == module; });
  std::erase_if(variable_of_, [&](const auto& pair) { return pair.second->module == module; });
}

void Registry::reset() {
  retired_.clear();
  for (const std::unique_ptr<ModuleRecord>& module : modules_) {
    module->loaded.reset();
    module->failure = cudaSuccess;
  }
  for (const std::unique_ptr<Kernel>& kernel : kernels_) {
    kernel->function = ptx::kNoIndex;
    kernel->attributes = KernelAttributes();
  }
}

Kernel* Registry::add_kernel(ModuleRecord* module, std::string name, const void* host) {
  Kernel*& kernel = kernel_names_[{module, name}];
  if (kernel == nullptr) {
    kernels_.push_back(std::make_unique<Kernel>());
    kernel = kernels_.back().get();
    kernel->module = module;
    kernel->name = std::move(name);
    kernel_of_[kernel] = kernel;
  }
  if (host != nullptr) kernel_of_[host] = kernel;
  return kernel;
}

void Registry::add_variable(ModuleRecord* module, std::string name, uint64_t bytes,
                            const void* host) {
  variables_.push_back(std::make_unique<DeviceVariable>());
  DeviceVariable* variable = variables_.back().get();
  *variable = DeviceVariable{module, std::move(name), bytes};
  variable_of_[host] = variable;
}

Kernel* Registry::find_kernel(const void* function) const {
  const auto it = kernel_of_.find(function);
  return it == kernel_of_.end() ? nullptr : it->second;
}

DeviceVariable* Registry::find_variable(const void* symbol) const {
  const auto it = variable_of_.find(symbol);
  return it == variable_of_.end() ? nullptr : it->second;
}

uint8_t* Registry::find_constant(uint64_t offset, uint64_t bytes) const {
  uint8_t* found = nullptr;
  for (const std::unique_ptr<ModuleRecord>& module : modules_) {
    if (module->loaded == nullptr) continue;
    ByteBank& bank = module->loaded->constants;
    if (offset > bank.size() || bytes > bank.size() - offset) continue;
    if (found != nullptr) return nullptr;
    found = bank.data() + offset;
  }
  return found;
}

Outcome Registry::load(Executor& executor, ModuleRecord* module) const {
  if (module->loaded != nullptr) return cudaSuccess;
  if (!module->failure.ok()) return module->failure.error;
  std::string text;
  module->failure = ptx_of(*module, chip_facts(executor.options().chip).target, &text);
  if (!module->failure.ok()) return module->failure;
  if (module->is_borrowed && module->image != nullptr) {
    module->image = nullptr;
    module->text = text;
  }
  const Status status = executor.load(text, &module->loaded);
  if (!status.ok()) {
    module->loaded.reset();
    module->failure = to_outcome(status);
    if (status.code() == StatusCode::kInvalidArgument) module->failure.error = cudaErrorInvalidPtx;
  }
  return module->failure;
}

Outcome Registry::open_kernel(Executor& executor, const void* function, Kernel** kernel) const {
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  *kernel = find_kernel(function);
  if (*kernel == nullptr) return cudaErrorInvalidResourceHandle;
  Kernel& found = **kernel;
  const Outcome loaded = load(executor, found.module);
  if (!loaded.ok()) return loaded;
  if (found.function == ptx::kNoIndex) {
    found.function = found.module->loaded->module.find_function(found.name);
    const bool is_entry = found.function != ptx::kNoIndex && found.code().is_entry;
    if (!is_entry) {
      found.function = ptx::kNoIndex;
      return {cudaErrorInvalidDeviceFunction,
              concat("the PTX of the module must have the entry ", found.name, "; got none")};
    }
  }
  return cudaSuccess;
}

}  // namespace flamia::emulator::cudart
