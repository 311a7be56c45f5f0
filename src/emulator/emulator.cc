// Modules get addresses, requests are checked as the driver would, grids are run.
// Exceptions of the execution end here as a Status.
#include "emulator/emulator.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <unordered_map>
#include <utility>

#include "base/message.h"
#include "emulator/execution/scheduler.h"
#include "emulator/execution/trace.h"
#include "emulator/model/recorder.h"
#include "emulator/ptx/parser.h"

namespace flamia::emulator {
namespace {

constexpr uint64_t kArenaBytes = uint64_t{1} << 40;
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint32_t kMostThreads = 1024;
constexpr uint32_t kMostClusterCtas = 16;
constexpr uint32_t kMostConstantBytes = 64 * 1024;
constexpr uint64_t kMostVariableBytes = 4 * kGiB;

uint64_t chip_memory(Chip chip) {
  switch (chip) {
    case Chip::kH200:
      return 141 * kGiB;
    case Chip::kB200:
      return 180 * kGiB;
    case Chip::kB300:
      return 288 * kGiB;
  }
  return kGiB;
}

uint64_t volume(const ptx::Dim3& dim) { return uint64_t{dim.x} * dim.y * dim.z; }

Status invalid(std::string text) { return {StatusCode::kInvalidArgument, std::move(text)}; }

std::string text_of(const ptx::Dim3& dim) { return concat(dim.x, "x", dim.y, "x", dim.z); }

/// Bytes of the parameters of an entry.
uint64_t parameter_bytes(const ptx::Function& function) { return function.parameter_bytes; }

}  // namespace

struct Emulator::State {
  explicit State(const MachineOptions& given)
      : options(given), memory(kArenaBytes, chip_memory(given.chip)) {}
  ~State() {
    if (trace_file != nullptr && trace_file != stderr) std::fclose(trace_file);
  }

  MachineOptions options;
  GlobalMemory memory;
  uint64_t launches = 0;
  uint64_t modules = 0;
  std::FILE* trace_file = nullptr;
  std::unordered_map<const LoadedModule*, std::unique_ptr<execution::Program>> programs;

  Status place(LoadedModule* module);
  void give_back(const LoadedModule& module);
  Status open_trace();
  Status keep_text(std::string_view text);
  void initialize(LoadedModule* module);
  uint64_t relocated(const LoadedModule& module, const ptx::Relocation& relocation) const;
};

Status Emulator::State::place(LoadedModule* module) {
  const auto& variables = module->module.variables;
  module->variable_address.assign(variables.size(), 0);
  uint64_t constant_bytes = 0, global_bytes = 0;
  for (size_t i = 0; i < variables.size(); ++i) {
    const ptx::Variable& variable = variables[i];
    uint64_t& address = module->variable_address[i];
    if (variable.space == ptx::StateSpace::kGlobal) {
      if (variable.linkage == ptx::Linkage::kExtern && variable.bytes == 0) continue;
      global_bytes += variable.bytes;
      if (global_bytes > kMostVariableBytes) {
        return invalid(concat("load: global variables must fit ", kMostVariableBytes,
                              " bytes; got ", global_bytes));
      }
      Status status =
          memory.allocate(std::max<uint64_t>(variable.bytes, 1), variable.name, &address);
      if (!status.ok()) return status;
    } else if (variable.space == ptx::StateSpace::kConst) {
      const uint64_t alignment = std::max<uint64_t>(variable.alignment, 1);
      constant_bytes = (constant_bytes + alignment - 1) / alignment * alignment;
      address = kConstWindow + constant_bytes;
      constant_bytes += variable.bytes;
    }
  }
  if (constant_bytes > kMostConstantBytes) {
    return invalid(concat("load: constant variables must fit ", kMostConstantBytes, " bytes; got ",
                          constant_bytes));
  }
  module->constants.resize(static_cast<uint32_t>(constant_bytes), true);
  initialize(module);
  return {};
}

/// The memory of a module that was refused after some of its variables had been placed.
void Emulator::State::give_back(const LoadedModule& module) {
  for (size_t i = 0; i < module.variable_address.size(); ++i) {
    if (module.module.variables[i].space != ptx::StateSpace::kGlobal) continue;
    if (module.variable_address[i] == 0) continue;
    const Status released = memory.release(module.variable_address[i]);
    static_cast<void>(released);
  }
}

uint64_t Emulator::State::relocated(const LoadedModule& module,
                                    const ptx::Relocation& relocation) const {
  uint64_t value = 0;
  if (relocation.is_function) {
    value = execution::function_address(relocation.index);
  } else {
    const ptx::Variable& variable = module.module.variables[relocation.index];
    value = module.variable_address[relocation.index];
    if (variable.space == ptx::StateSpace::kShared) value = kSharedReserved + variable.offset;
    if (!relocation.is_generic && variable.space == ptx::StateSpace::kConst) {
      value &= ~kWindowMask;
    }
  }
  return (value + static_cast<uint64_t>(relocation.addend)) >> relocation.shift;
}

void Emulator::State::initialize(LoadedModule* module) {
  const auto& variables = module->module.variables;
  for (size_t i = 0; i < variables.size(); ++i) {
    const ptx::Variable& variable = variables[i];
    const uint64_t address = module->variable_address[i];
    if (address == 0) continue;
    const bool constant = variable.space == ptx::StateSpace::kConst;
    uint8_t* const data = constant ? module->constants.data() + (address - kConstWindow)
                                   : reinterpret_cast<uint8_t*>(address);
    std::copy(variable.initial.begin(), variable.initial.end(), data);
    for (const ptx::Relocation& relocation : variable.relocations) {
      const uint64_t value = relocated(*module, relocation);
      std::memcpy(data + relocation.offset, &value, std::min<size_t>(relocation.bytes, 8));
    }
    if (!constant) memory.mark(address, variable.bytes, true);
  }
}

Status Emulator::State::open_trace() {
  if (trace_file != nullptr || options.trace.path.empty()) return {};
  trace_file = options.trace.path == "-" ? stderr : std::fopen(options.trace.path.c_str(), "w");
  if (trace_file == nullptr) {
    return invalid(concat(
        "trace: ", refusal("the path", "name a file that can be written", options.trace.path)));
  }
  std::setvbuf(trace_file, nullptr, _IOLBF, 0);  // readable while the program hangs
  return {};
}

Status Emulator::State::keep_text(std::string_view text) {
  if (options.ptx_folder.empty()) return {};
  const std::string path = concat(options.ptx_folder, "/module", modules++, ".ptx");
  std::FILE* const file = std::fopen(path.c_str(), "w");
  bool written = file != nullptr;
  if (written) {
    written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written = std::fclose(file) == 0 && written;
  }
  if (written) return {};
  return invalid(concat(
      "load: ", refusal("the folder for PTX", "be one that can be written", options.ptx_folder)));
}

Emulator::Emulator(const MachineOptions& options) : state_(std::make_unique<State>(options)) {}
Emulator::~Emulator() = default;

const MachineOptions& Emulator::options() const { return state_->options; }
GlobalMemory& Emulator::memory() { return state_->memory; }

Status Emulator::load(std::string_view text, std::unique_ptr<LoadedModule>* module) {
  auto loaded = std::make_unique<LoadedModule>();
  Status status = state_->keep_text(text);
  if (status.ok()) status = ptx::parse(text, &loaded->module);
  if (status.ok()) status = state_->place(loaded.get());
  if (!status.ok()) {
    state_->give_back(*loaded);
    return status;
  }
  state_->programs[loaded.get()] = std::make_unique<execution::Program>(loaded.get());
  *module = std::move(loaded);
  return {};
}

namespace {

Status check_block(const GridRequest& request, const ptx::Function& function) {
  const ptx::Dim3& block = request.block;
  const uint64_t threads = volume(block);  // of large sizes it may wrap
  if (threads == 0 || threads > kMostThreads || block.x > kMostThreads || block.y > kMostThreads ||
      block.z > 64) {
    return invalid(concat("launch: block must have 1 to ", kMostThreads, " threads; got ",
                          text_of(request.block)));
  }
  if (volume(request.grid) == 0 || request.grid.x > INT32_MAX || request.grid.y > 65535 ||
      request.grid.z > 65535) {
    return invalid(concat("launch: grid must be 1 to 2147483647 x 65535 x 65535; got ",
                          text_of(request.grid)));
  }
  const ptx::LaunchBounds& bounds = function.bounds;
  const uint64_t most = volume(bounds.max_threads);
  if (most != 0 && threads > most) {
    return invalid(concat("launch: block of ", function.name, " must have at most ", most,
                          " threads (.maxntid); got ", threads));
  }
  const ptx::Dim3& required = bounds.required_threads;
  if (volume(required) != 0 && (required.x != request.block.x || required.y != request.block.y ||
                                required.z != request.block.z)) {
    return invalid(concat("launch: block of ", function.name, " must be ", text_of(required),
                          " (.reqntid); got ", text_of(request.block)));
  }
  return {};
}

Status check_cluster(const GridRequest& request, const ptx::Function& function) {
  const ptx::Dim3& cluster = request.cluster;
  const uint64_t size = volume(cluster);
  if (size == 0 || size > kMostClusterCtas) {
    return invalid(concat("launch: cluster must have 1 to ", kMostClusterCtas, " CTAs; got ",
                          text_of(cluster)));
  }
  if (request.grid.x % cluster.x != 0 || request.grid.y % cluster.y != 0 ||
      request.grid.z % cluster.z != 0) {
    return invalid(concat("launch: grid must be a multiple of the cluster ", text_of(cluster),
                          "; got ", text_of(request.grid)));
  }
  const ptx::Dim3& required = function.bounds.required_cluster;
  if (volume(required) != 0 &&
      (required.x != cluster.x || required.y != cluster.y || required.z != cluster.z)) {
    return invalid(concat("launch: cluster of ", function.name, " must be ", text_of(required),
                          " (.reqnctapercluster); got ", text_of(cluster)));
  }
  return {};
}

}  // namespace

Status Emulator::check(const GridRequest& request) const {
  if (request.module == nullptr) return invalid("launch: module must not be null");
  const auto& functions = request.module->module.functions;
  if (request.function >= functions.size() || !functions[request.function].is_entry) {
    return invalid(
        concat("launch: function must be an entry of the module; got ", request.function));
  }
  if (!state_->programs.contains(request.module)) {
    return invalid("launch: module must have been loaded by this emulator");
  }
  const ptx::Function& function = functions[request.function];
  Status status = check_block(request, function);
  if (status.ok()) status = check_cluster(request, function);
  if (!status.ok()) return status;
  const uint64_t shared = std::max(function.shared_bytes, function.dynamic_shared_offset) +
                          request.dynamic_shared_bytes;
  if (shared > kSharedMax) {
    return invalid(concat("launch: shared memory of ", function.name, " must be at most ",
                          kSharedMax, " bytes; got ", shared));
  }
  if (request.parameters.size() < parameter_bytes(function)) {
    return invalid(concat("launch: parameters of ", function.name, " must have ",
                          parameter_bytes(function), " bytes; got ", request.parameters.size()));
  }
  return {};
}

Status Emulator::run(const GridRequest& request, GridReport* report) {
  Status status = check(request);
  if (status.ok()) status = state_->open_trace();
  if (!status.ok()) return status;
  *report = {};
  execution::Grid grid;
  grid.options = &state_->options;
  grid.program = state_->programs[request.module].get();
  grid.request = &request;
  grid.entry = &request.module->module.functions[request.function];
  grid.memory = &state_->memory;
  grid.parameters.resize(static_cast<uint32_t>(request.parameters.size()), true);
  std::copy(request.parameters.begin(), request.parameters.end(), grid.parameters.data());
  grid.report = report;
  const uint64_t launch = state_->launches++;
  grid.random_state = state_->options.seed * 0x2545f4914f6cdd1du + launch;
  const std::unique_ptr<execution::Tracer> tracer =
      execution::Tracer::make(state_->options.trace, grid.entry->name, launch, state_->trace_file);
  grid.tracer = tracer.get();
  grid.cluster_dim = request.cluster;
  grid.clusters = {request.grid.x / request.cluster.x, request.grid.y / request.cluster.y,
                   request.grid.z / request.cluster.z};
  grid.cluster_count = volume(grid.clusters);
  std::unique_ptr<model::Recorder> recorder;
  if (state_->options.count) {
    recorder = std::make_unique<model::Recorder>(&request.module->module, volume(request.grid),
                                                 (grid.threads() + 31) / 32,
                                                 static_cast<uint32_t>(volume(request.cluster)));
  }
  grid.recorder = recorder.get();
  grid.sms = std::max<uint64_t>({state_->options.sms, volume(request.cluster), 1});
  grid.sm_busy.assign(
      request.cooperative ? std::max<uint64_t>(grid.sms, volume(request.grid)) : grid.sms, false);
  try {
    execution::run_grid(grid);
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory,
            concat("launch: ", grid.entry->name, " needs more host memory than there is")};
  }
  if (recorder != nullptr) {
    report->counters = std::make_shared<model::LaunchCounters>(recorder->finish());
  }
  if (report->traps.empty()) return {};
  const Trap& first = report->traps.front();
  return {StatusCode::kDeviceError, concat(first.kind, ": ", first.text)};
}

}  // namespace flamia::emulator
