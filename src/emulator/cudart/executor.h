// What the runtime half asks of a machine. The emulator is one; tests bring a fake.
// Depends on: emulator.h. Used by: runtime.h, launch.cc, registry.cc.
#pragma once

#include <memory>
#include <string_view>

#include "emulator/emulator.h"

namespace flamia::emulator::cudart {

class Executor {
 public:
  virtual ~Executor() = default;
  virtual const MachineOptions& options() const = 0;
  virtual GlobalMemory& memory() = 0;
  virtual Status load(std::string_view ptx, std::unique_ptr<LoadedModule>* module) = 0;
  virtual Status check(const GridRequest& request) const = 0;
  virtual Status run(const GridRequest& request, GridReport* report) = 0;
};

using MakeExecutor = std::unique_ptr<Executor> (*)(const MachineOptions& options);

/// Says what every device is made by, from now on; the last call counts. Returns true, so that it
/// can initialize a constant.
bool set_executor_maker(MakeExecutor make);

}  // namespace flamia::emulator::cudart
