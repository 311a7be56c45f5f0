// The virtual GPU as the runtime half sees it: one chip with its memory, modules of PTX, and grids
// that run to their end.
// Depends on: ptx/module.h, machine/memory.h. Used by: cudart/, tests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/machine/memory.h"
#include "emulator/ptx/module.h"
#include "flamia/status.h"

namespace flamia::emulator {

enum class Chip : uint8_t { kH200, kB200, kB300 };
/// When asynchronous work completes; with kRandom also which cluster starts first, and where.
enum class Adversary : uint8_t { kLate, kEarly, kRandom };
enum class Numerics : uint8_t { kHardware, kExact };

/// Which executed instructions are written as text.
struct TraceOptions {
  std::string path;    ///< empty: no trace; "-": standard error
  std::string kernel;  ///< part of the name; empty: all
  bool has_launch = false, has_cta = false, has_warp = false;
  uint64_t launch = 0;  ///< number of the grid, from 0
  ptx::Dim3 cta;
  uint32_t warp = 0;
  uint32_t lane = 0;  ///< whose values are shown; the first active one where it is not active
  uint32_t first_line = 0, last_line = UINT32_MAX;  ///< of the PTX
  uint64_t skip = 0, count = 1000;                  ///< of what the other rules leave
};

/// What order a kernel must ask for.
enum class Rules : uint8_t {
  /// As kPublic, and a tcgen05.ld needs no wait: on silicon nothing orders its read before what
  /// comes after, but it is early enough. And columns may be used after tcgen05.dealloc until
  /// somebody else gets them.
  kLenient,
  /// What silicon needs.
  kPublic,
  /// Also what PTX asks for although public kernels run without it: tcgen05.fence around every
  /// synchronization, tcgen05.wait::ld although the loaded registers were used, fence.mbarrier_init
  /// (inside one CTA, and before relaxed cluster barriers), and that a CTA stays until its bulk
  /// stores have read their source. And bytes of a phase are expected before its last arrival,
  /// lanes
  /// of one store are compared, and any lane may be elected.
  kStrict,
};

/// How grids run. From the environment of the virtual GPU's own (FLAMIA_VGPU_*), or vgpu-run.
struct MachineOptions {
  Chip chip = Chip::kH200;
  Adversary adversary = Adversary::kRandom;
  Numerics numerics = Numerics::kHardware;
  uint64_t seed = 0;
  uint32_t sms = 8;             ///< CTAs of this many SMs are resident at a time
  uint64_t watchdog_steps = 0;  ///< warp instructions of one grid before it is stopped; 0: none
  bool check_uninitialized = true;
  bool check_hazards = true;
  Rules rules = Rules::kPublic;
  TraceOptions trace;
  std::string ptx_folder;  ///< where the text of every module is written; empty: nowhere
  bool count = false;      ///< GridReport::counters; costs about a fifth of the speed
};

/// A module whose variables have addresses: globals and constants are placed and initialized.
struct LoadedModule {
  ptx::Module module;
  std::vector<uint64_t> variable_address;  ///< [Module::variables] generic; 0: not placed (shared)
  ByteBank constants;
};

struct GridRequest {
  const LoadedModule* module = nullptr;
  uint32_t function = 0;  ///< an entry of the module
  ptx::Dim3 grid{1, 1, 1};
  ptx::Dim3 block{1, 1, 1};
  ptx::Dim3 cluster{1, 1, 1};
  uint32_t dynamic_shared_bytes = 0;
  bool cooperative = false;         ///< all CTAs are resident, several on an SM if need be
  std::vector<uint8_t> parameters;  ///< as laid out by Function::parameters
};

/// What stopped a grid, for a person: kernel, CTA, warp, PTX line and text, both parties of a
/// hazard.
struct Trap {
  std::string kind;  ///< "out of bounds", "race", "deadlock", "trap", "assert", ...
  std::string text;
};

namespace model {
struct LaunchCounters;
}

struct GridReport {
  uint64_t warp_instructions = 0;
  uint64_t lane_instructions = 0;
  std::vector<Trap> traps;                                ///< the first one stopped the grid
  std::string printed;                                    ///< by vprintf
  std::shared_ptr<const model::LaunchCounters> counters;  ///< if MachineOptions::count
};

/// One device. Not thread-safe: the runtime half holds a lock.
class Emulator {
 public:
  explicit Emulator(const MachineOptions& options);
  ~Emulator();

  const MachineOptions& options() const;
  GlobalMemory& memory();

  /// Parses and places a module. Errors: those of the parser, kOutOfMemory.
  Status load(std::string_view ptx, std::unique_ptr<LoadedModule>* module);
  /// Checks a request as the driver does at launch: sizes, shared memory, cluster, limits.
  Status check(const GridRequest& request) const;
  /// Runs a grid to its end. kDeviceError with the text of the first trap; the report has all.
  Status run(const GridRequest& request, GridReport* report);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flamia::emulator
