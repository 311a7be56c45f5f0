// Runs PTX text on the virtual GPU for tests: one module, buffers, a launch, its report.
// Depends on: emulator/emulator.h. Used by: execution_*_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "emulator/emulator.h"

namespace flamia::emulator {

class Machine {
 public:
  explicit Machine(const MachineOptions& options = {}) : emulator_(options) {}

  /// Loads a module; a text without .version gets the usual head.
  void load(const std::string& text, const std::string& target = "sm_90a") {
    std::string whole = text;
    if (text.find(".version") == std::string::npos) {
      whole = ".version 9.0\n.target " + target + "\n.address_size 64\n" + text;
    }
    const Status status = emulator_.load(whole, &module_);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  template <typename T>
  uint64_t upload(const std::vector<T>& values) {
    const uint64_t address = allocate(values.size() * sizeof(T));
    std::memcpy(reinterpret_cast<void*>(address), values.data(), values.size() * sizeof(T));
    emulator_.memory().mark(address, values.size() * sizeof(T), true);
    return address;
  }
  /// Memory that nothing has written.
  uint64_t allocate(uint64_t bytes) {
    uint64_t address = 0;
    EXPECT_TRUE(emulator_.memory().allocate(bytes, "buffer", &address).ok());
    return address;
  }
  template <typename T>
  std::vector<T> download(uint64_t address, size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), reinterpret_cast<const void*>(address), count * sizeof(T));
    return values;
  }

  GridRequest request;

  /// Parameters are laid out as the entry declares them.
  template <typename... Arguments>
  Status launch(const std::string& entry, ptx::Dim3 grid, ptx::Dim3 block, Arguments... arguments) {
    request.module = module_.get();
    request.function = module_->module.find_function(entry);
    if (request.function == ptx::kNoIndex) return {StatusCode::kInternal, "no entry " + entry};
    request.grid = grid;
    request.block = block;
    const ptx::Function& function = module_->module.functions[request.function];
    request.parameters.assign(function.parameter_bytes, 0);
    size_t index = 0;
    (put(function, index++, arguments), ...);
    return emulator_.run(request, &report);
  }

  GridReport report;
  Emulator& emulator() { return emulator_; }
  const ptx::Module& module() const { return module_->module; }

 private:
  template <typename T>
  void put(const ptx::Function& function, size_t index, T value) {
    ASSERT_LT(index, function.parameters.size());
    const ptx::Parameter& parameter = function.parameters[index];
    ASSERT_EQ(parameter.bytes, sizeof(T));
    std::memcpy(request.parameters.data() + parameter.offset, &value, sizeof(T));
  }

  Emulator emulator_;
  std::unique_ptr<LoadedModule> module_;
};

/// An entry k(out) in which `body` leaves a 32-bit result in %r0 of every thread.
inline std::string kernel(const std::string& body) {
  return R"(
.visible .entry k(.param .u64 out)
{
  .reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<64>; .reg .f32 %f<32>; .reg .b64 %d<32>;
  .reg .f64 %e<16>; .reg .b128 %q<4>;
)" + body +
         R"(
  ld.param.u64 %d31, [out];
  mov.u32 %r63, %tid.x;
  mov.u32 %r62, %ctaid.x;
  mov.u32 %r61, %ntid.x;
  mad.lo.s32 %r63, %r62, %r61, %r63;
  mul.wide.u32 %d30, %r63, 4;
  add.u64 %d31, %d31, %d30;
  st.global.u32 [%d31], %r0;
  ret;
}
)";
}

/// Runs kernel(body) and returns what every thread left in %r0.
inline std::vector<uint32_t> run_kernel(Machine& machine, const std::string& body,
                                        uint32_t threads = 32, uint32_t ctas = 1,
                                        const std::string& before = {}) {
  machine.load(before + kernel(body));
  const uint64_t out = machine.allocate(uint64_t{4} * threads * ctas);
  const Status status = machine.launch("k", {ctas, 1, 1}, {threads, 1, 1}, out);
  EXPECT_TRUE(status.ok()) << status.message();
  return machine.download<uint32_t>(out, size_t{threads} * ctas);
}

}  // namespace flamia::emulator
