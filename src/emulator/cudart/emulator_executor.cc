// The emulator as the executor of libcudart. Linked into that library only: to be part of it is to
// be used by it.
#include <memory>

#include "emulator/cudart/executor.h"

namespace flamia::emulator::cudart {
namespace {

class EmulatorExecutor final : public Executor {
 public:
  explicit EmulatorExecutor(const MachineOptions& options) : emulator_(options) {}

  const MachineOptions& options() const override { return emulator_.options(); }
  GlobalMemory& memory() override { return emulator_.memory(); }
  Status load(std::string_view ptx, std::unique_ptr<LoadedModule>* module) override {
    return emulator_.load(ptx, module);
  }
  Status check(const GridRequest& request) const override { return emulator_.check(request); }
  Status run(const GridRequest& request, GridReport* report) override {
    return emulator_.run(request, report);
  }

 private:
  Emulator emulator_;
};

std::unique_ptr<Executor> make_emulator(const MachineOptions& options) {
  return std::make_unique<EmulatorExecutor>(options);
}

[[maybe_unused]] const bool kInstalled = set_executor_maker(&make_emulator);

}  // namespace
}  // namespace flamia::emulator::cudart
