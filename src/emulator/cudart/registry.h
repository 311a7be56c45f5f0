// The modules of the process: fat binaries as they are registered, their kernels and variables, and
// the PTX of each, which is loaded at its first use.
// Depends on: fatbin/fatbin.h, executor.h. Used by: register_api.cc, launches, symbols, the driver.
// Records live until the process ends, so that a handle never dangles; unloading empties them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/cudart/errors.h"
#include "emulator/cudart/executor.h"

namespace flamia::emulator::cudart {

struct ModuleRecord {
  const void* image = nullptr;  ///< wrapper or container of a fat binary; null: `text` is the PTX
  bool is_wrapper = false;
  std::string text;
  bool is_borrowed = false;  ///< the image may go once it is loaded: its PTX is kept in `text`
  std::unique_ptr<LoadedModule> loaded;
  Outcome failure;  ///< of the first attempt to load, repeated at later ones
  bool unloaded = false;
};

/// What cudaFuncSetAttribute changes; -1: not set.
struct KernelAttributes {
  int max_dynamic_shared = -1;
  int carveout = -1;
  int non_portable_cluster = 0;
  int cluster_width = 0, cluster_height = 0, cluster_depth = 0;
  int cluster_policy = 0;
};

struct Kernel {
  ModuleRecord* module = nullptr;
  std::string name;
  uint32_t function = ptx::kNoIndex;  ///< once the module is loaded
  KernelAttributes attributes;

  const ptx::Function& code() const { return module->loaded->module.functions[function]; }
};

struct DeviceVariable {
  ModuleRecord* module = nullptr;
  std::string name;
  uint64_t bytes = 0;
};

class Registry {
 public:
  ModuleRecord* add_module(const void* image, bool is_wrapper);
  ModuleRecord* add_text(std::string ptx);
  bool is_module(const void* handle) const { return module_handles_.contains(handle); }
  /// Frees what the module placed in device memory; its handles are invalid from then on.
  void unload(ModuleRecord* module, Executor* executor);
  /// Unloads all modules; registered ones load again at their next use.
  void reset();

  /// The kernel `name` of the module; host: the function of the program that stands for it.
  Kernel* add_kernel(ModuleRecord* module, std::string name, const void* host);
  void add_variable(ModuleRecord* module, std::string name, uint64_t bytes, const void* host);

  /// A registered kernel by its host function or its handle, not loaded yet; null if there is none.
  Kernel* find_kernel(const void* function) const;
  DeviceVariable* find_variable(const void* symbol) const;
  /// The bytes of the only loaded module with constants at `offset` of its bank; otherwise null.
  uint8_t* find_constant(uint64_t offset, uint64_t bytes) const;

  /// Loads the module of a kernel, for the executor's chip. Null functions and unknown ones have
  /// the codes of the real runtime.
  Outcome open_kernel(Executor& executor, const void* function, Kernel** kernel) const;
  Outcome load(Executor& executor, ModuleRecord* module) const;

 private:
  std::vector<std::unique_ptr<ModuleRecord>> modules_;
  /// Of unloaded modules. The executor may remember a module by its address, so that it lives as
  /// long as the device.
  std::vector<std::unique_ptr<LoadedModule>> retired_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<std::unique_ptr<DeviceVariable>> variables_;
  std::unordered_set<const void*> module_handles_;
  std::unordered_map<const void*, Kernel*> kernel_of_;
  std::unordered_map<const void*, DeviceVariable*> variable_of_;
  std::map<std::pair<ModuleRecord*, std::string>, Kernel*> kernel_names_;
};

}  // namespace flamia::emulator::cudart
