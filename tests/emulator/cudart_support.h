// A fake machine behind the runtime half, and a program that registers kernels with it as nvcc's
// code does. Kernels are lambdas on the host; PTX is parsed and placed as the emulator does it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulator/cudart/executor.h"
#include "emulator/cudart/runtime.h"
#include "emulator/ptx/parser.h"

// Calls of generated code, which no public header declares.
extern "C" {
void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name,
                            int limit, uint3* tid, uint3* bid, dim3* block, dim3* grid, int* size);
void __cudaRegisterVar(void** handle, char* host, char* address, const char* name, int external,
                       size_t bytes, int constant, int global);
char __cudaInitModule(void** handle);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream);
unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream);
}

namespace flamia::emulator::cudart {

/// What a kernel of the fake machine does; false: it traps with `trap`.
using FakeKernel = std::function<bool(const GridRequest& request, GridReport* report)>;

struct FakeMachine {
  std::map<std::string, FakeKernel> kernels;
  std::vector<GridRequest> launches;
  Status check;  ///< what Executor::check answers
  int loads = 0;
};
FakeMachine& fake_machine();

std::unique_ptr<Executor> make_fake_executor(const MachineOptions& options);

/// One process with a registered module: entries plain(u64), bounded (128 threads), clustered
/// (2, 1, 1), fixed (4096 bytes of shared memory), wide (u32, u64); variables counter and table.
class CudartTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// The functions and variables of the program that stand for those of the device.
  static const void* host(const char* name);
  cudaError_t launch(const char* name, dim3 grid, dim3 block, size_t shared = 0,
                     cudaStream_t stream = nullptr);
  /// Launch with a cluster, through cudaLaunchKernelExC.
  cudaError_t launch_cluster(const char* name, dim3 grid, dim3 block, dim3 cluster);
  /// Makes `plain` and the like trap.
  void make_trap(const char* name, const char* kind);

  void** module_ = nullptr;
  uint64_t argument_ = 0;

 private:
  std::string container_;
  struct Wrapper {
    uint32_t magic = 0x466243b1;
    uint32_t version = 1;
    const void* container = nullptr;
    const void* prelinked = nullptr;
  } wrapper_;
};

}  // namespace flamia::emulator::cudart

namespace flamia::emulator::cudart {

inline constexpr const char* kPtx = R"(
.version 9.0
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.visible .const .align 4 .b8 table[16];
.visible .entry plain(.param .u64 p) { ret; }
.visible .entry bounded(.param .u64 p) .maxntid 128, 1, 1 { ret; }
.visible .entry clustered(.param .u64 p) .explicitcluster .reqnctapercluster 2, 1, 1 { ret; }
.visible .entry fixed(.param .u64 p) { .shared .align 4 .b8 s[4096]; ret; }
.visible .entry wide(.param .u32 a, .param .u64 b) { ret; }
)";

inline constexpr const char* kNames[] = {"plain", "bounded", "clustered", "fixed",
                                         "wide",  "absent",  "counter",   "table"};
inline char host_symbols[std::size(kNames)];

template <typename Number>
void put_number(std::string* bytes, size_t at, Number number) {
  std::memcpy(bytes->data() + at, &number, sizeof(number));
}

inline std::string container_of(const std::string& ptx, uint32_t architecture) {
  const size_t padded = (ptx.size() + 8) / 8 * 8;
  std::string bytes(16 + 64 + padded, '\0');
  put_number<uint32_t>(&bytes, 0, 0xba55ed50u);
  put_number<uint16_t>(&bytes, 4, 1);
  put_number<uint16_t>(&bytes, 6, 16);
  put_number<uint64_t>(&bytes, 8, 64 + padded);
  put_number<uint16_t>(&bytes, 16, 1);
  put_number<uint32_t>(&bytes, 16 + 4, 64);
  put_number<uint64_t>(&bytes, 16 + 8, padded);
  put_number<uint32_t>(&bytes, 16 + 28, architecture);
  put_number<uint64_t>(&bytes, 16 + 40, 0x100000);
  std::memcpy(bytes.data() + 80, ptx.data(), ptx.size());
  return bytes;
}

class FakeExecutor final : public Executor {
 public:
  explicit FakeExecutor(const MachineOptions& options)
      : options_(options), memory_(uint64_t{1} << 32, uint64_t{1} << 30) {}

  const MachineOptions& options() const override { return options_; }
  GlobalMemory& memory() override { return memory_; }

  Status load(std::string_view text, std::unique_ptr<LoadedModule>* module) override {
    ++fake_machine().loads;
    auto loaded = std::make_unique<LoadedModule>();
    Status status = ptx::parse(text, &loaded->module);
    if (!status.ok()) return status;
    uint32_t constants = 0;
    for (const ptx::Variable& variable : loaded->module.variables) {
      uint64_t address = 0;
      if (variable.space == ptx::StateSpace::kGlobal) {
        status = memory_.allocate(variable.bytes, variable.name, &address);
        if (!status.ok()) return status;
        std::memcpy(reinterpret_cast<void*>(address), variable.initial.data(),
                    variable.initial.size());
        memory_.mark(address, variable.bytes, true);
      } else if (variable.space == ptx::StateSpace::kConst) {
        address = kConstWindow | constants;
        constants += static_cast<uint32_t>(variable.bytes);
      }
      loaded->variable_address.push_back(address);
    }
    loaded->constants.resize(constants, true);
    *module = std::move(loaded);
    return {};
  }

  Status check(const GridRequest&) const override { return fake_machine().check; }

  Status run(const GridRequest& request, GridReport* report) override {
    FakeMachine& machine = fake_machine();
    machine.launches.push_back(request);
    report->warp_instructions = 2;
    report->lane_instructions = 64;
    const std::string& name = request.module->module.functions[request.function].name;
    const auto it = machine.kernels.find(name);
    if (it == machine.kernels.end() || it->second(request, report)) return {};
    return Status(StatusCode::kDeviceError, report->traps.at(0).text);
  }

 private:
  MachineOptions options_;
  GlobalMemory memory_;
};

inline size_t index_of(const char* name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (std::string_view(kNames[i]) == name) return i;
  }
  throw std::invalid_argument(name);
}

inline FakeMachine& fake_machine() {
  static FakeMachine machine;
  return machine;
}

inline std::unique_ptr<Executor> make_fake_executor(const MachineOptions& options) {
  return std::make_unique<FakeExecutor>(options);
}

inline void CudartTest::SetUp() {
  set_executor_maker(&make_fake_executor);
  fake_machine() = FakeMachine();
  Runtime::get().restart();
  container_ = container_of(kPtx, 90);
  wrapper_.container = container_.data();
  module_ = __cudaRegisterFatBinary(&wrapper_);
  for (const char* name : {"plain", "bounded", "clustered", "fixed", "wide", "absent"}) {
    __cudaRegisterFunction(module_, static_cast<const char*>(host(name)), nullptr, name, -1,
                           nullptr, nullptr, nullptr, nullptr, nullptr);
  }
  __cudaRegisterVar(module_, &host_symbols[index_of("counter")], nullptr, "counter", 0, 4, 0, 0);
  __cudaRegisterVar(module_, &host_symbols[index_of("table")], nullptr, "table", 0, 16, 1, 0);
  __cudaRegisterFatBinaryEnd(module_);
}

inline void CudartTest::TearDown() { Runtime::get().restart(); }

inline const void* CudartTest::host(const char* name) { return &host_symbols[index_of(name)]; }

inline cudaError_t CudartTest::launch(const char* name, dim3 grid, dim3 block, size_t shared,
                                      cudaStream_t stream) {
  void* arguments[] = {&argument_, &argument_};
  return cudaLaunchKernel(host(name), grid, block, arguments, shared, stream);
}

inline cudaError_t CudartTest::launch_cluster(const char* name, dim3 grid, dim3 block,
                                              dim3 cluster) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = cluster.x;
  attribute.val.clusterDim.y = cluster.y;
  attribute.val.clusterDim.z = cluster.z;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.attrs = &attribute;
  config.numAttrs = 1;
  void* arguments[] = {&argument_, &argument_};
  return cudaLaunchKernelExC(&config, host(name), arguments);
}

inline void CudartTest::make_trap(const char* name, const char* kind) {
  const std::string text = kind;
  fake_machine().kernels[name] = [text](const GridRequest&, GridReport* report) {
    report->traps.push_back(Trap{text, "kernel trapped"});
    return false;
  };
}

}  // namespace flamia::emulator::cudart
