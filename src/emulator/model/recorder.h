// Counts while a grid runs: what the interpreter calls.
// Depends on: counters.h, banks.h, ptx/module.h. Used by: execution/counting.h; emulator.cc.
// Executions are counted per instruction of the text and become classes and slots at the end, so
// that the inner loop adds two numbers; only accesses to memory are looked at as they happen.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "emulator/model/counters.h"
#include "emulator/ptx/module.h"
#include "emulator/tensor/descriptors.h"

namespace flamia::emulator::model {

/// How often one instruction ran.
struct StepCount {
  uint64_t warps = 0;
  uint64_t lanes = 0;
};

enum class AccessKind : uint8_t { kRead, kWrite, kAtomic };

/// The sectors that a launch has touched.
class SectorSet {
 public:
  /// True at the first call for a sector.
  bool insert(uint64_t sector);

 private:
  static constexpr uint64_t kPageSectors = 4096;
  using Page = std::vector<uint64_t>;
  std::unordered_map<uint64_t, Page> pages_;
  uint64_t last_number_ = ~uint64_t{0};
  Page* last_ = nullptr;
};

class Recorder {
 public:
  Recorder(const ptx::Module* module, uint64_t ctas, uint32_t warps_per_cta, uint32_t cluster_size);

  /// One entry for every instruction of a function; of the warps with this index.
  StepCount* steps(uint32_t warp, uint32_t function);

  // Accesses of the lanes in `active`; addresses of the others do not matter.
  void shared(uint32_t warp, const uint64_t* addresses, uint32_t active, uint32_t bytes,
              AccessKind kind, bool remote);
  void global(uint32_t warp, const uint64_t* addresses, uint32_t active, uint32_t bytes,
              AccessKind kind);
  void local(uint32_t warp, uint32_t active, uint32_t bytes);

  /// One copy of the TMA between global and shared memory: a contiguous range.
  void bulk(uint32_t warp, uint64_t address, uint64_t bytes, AccessKind kind);
  /// A load that arrived at another destination of a multicast, which read no memory.
  void multicast(uint32_t warp, uint64_t bytes);
  /// Between shared memories.
  void bulk_shared(uint32_t warp, uint64_t bytes);
  void tensor_mma(uint32_t warp, const InstructionForm& form,
                  const InstructionDescriptor& descriptor);

  /// Everything, with the executions of instructions turned into classes.
  LaunchCounters finish();

 private:
  void sector(Counters* counters, uint64_t number, AccessKind kind);

  const ptx::Module* module_;
  LaunchCounters launch_;
  std::vector<std::vector<std::vector<StepCount>>> steps_;  ///< [warp][function][instruction]
  SectorSet read_, written_;
};

}  // namespace flamia::emulator::model
