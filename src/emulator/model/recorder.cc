// Amounts at the time of the access, classes at the end.
#include "emulator/model/recorder.h"

#include <bit>

#include "emulator/model/banks.h"
#include "emulator/model/instruction_cost.h"
#include "emulator/model/matrix_cost.h"

namespace flamia::emulator::model {

bool SectorSet::insert(uint64_t sector) {
  const uint64_t number = sector / kPageSectors;
  if (number != last_number_) {
    Page& page = pages_[number];
    if (page.empty()) page.resize(kPageSectors / 64);
    last_ = &page;
    last_number_ = number;
  }
  uint64_t& word = (*last_)[sector % kPageSectors / 64];
  const uint64_t bit = uint64_t{1} << sector % 64;
  const bool fresh = (word & bit) == 0;
  word |= bit;
  return fresh;
}

Recorder::Recorder(const ptx::Module* module, uint64_t ctas, uint32_t warps_per_cta,
                   uint32_t cluster_size)
    : module_(module), steps_(warps_per_cta) {
  launch_.ctas = ctas;
  launch_.warps_per_cta = warps_per_cta;
  launch_.cluster_size = cluster_size;
  launch_.warps.resize(warps_per_cta);
  for (auto& functions : steps_) functions.resize(module->functions.size());
}

StepCount* Recorder::steps(uint32_t warp, uint32_t function) {
  std::vector<StepCount>& counts = steps_[warp][function];
  if (counts.empty()) counts.resize(module_->functions[function].instructions.size());
  return counts.data();
}

void Recorder::sector(Counters* counters, uint64_t number, AccessKind kind) {
  if (kind == AccessKind::kRead) {
    (*counters)[Counter::kL2ReadBytes] += kSectorBytes;
    // What the launch itself wrote is still in the L2.
    if (read_.insert(number)) (*counters)[Counter::kHbmReadBytes] += kSectorBytes;
    return;
  }
  (*counters)[Counter::kL2WriteBytes] += kSectorBytes;
  if (kind == AccessKind::kAtomic && read_.insert(number)) {
    (*counters)[Counter::kHbmReadBytes] += kSectorBytes;
  }
  if (written_.insert(number)) (*counters)[Counter::kHbmWriteBytes] += kSectorBytes;
  read_.insert(number);
}

void Recorder::shared(uint32_t warp, const uint64_t* addresses, uint32_t active, uint32_t bytes,
                      AccessKind kind, bool remote) {
  Counters& c = launch_.warps[warp];
  const uint64_t all = uint64_t{bytes} * static_cast<uint32_t>(std::popcount(active));
  if (kind != AccessKind::kWrite) c[Counter::kSharedReadBytes] += all;
  if (kind != AccessKind::kRead) c[Counter::kSharedWriteBytes] += all;
  if (remote) c[Counter::kRemoteSharedBytes] += all;
  const Wavefronts wavefronts = shared_wavefronts(addresses, active, bytes);
  c[Counter::kSharedWavefronts] += wavefronts.needed;
  c[Counter::kSharedIdealWavefronts] += wavefronts.ideal;
}

void Recorder::global(uint32_t warp, const uint64_t* addresses, uint32_t active, uint32_t bytes,
                      AccessKind kind) {
  Counters& c = launch_.warps[warp];
  const uint64_t all = uint64_t{bytes} * static_cast<uint32_t>(std::popcount(active));
  c[kind == AccessKind::kRead    ? Counter::kGlobalReadBytes
    : kind == AccessKind::kWrite ? Counter::kGlobalWriteBytes
                                 : Counter::kGlobalAtomicBytes] += all;
  uint64_t sectors[kMostSectors];
  uint32_t distinct = 0;
  const uint32_t count = global_sectors(addresses, active, bytes, sectors, &distinct);
  c[Counter::kGlobalSectors] += count;
  c[Counter::kGlobalIdealSectors] += (distinct + kSectorBytes - 1) / kSectorBytes;
  for (uint32_t i = 0; i < count; ++i) sector(&c, sectors[i], kind);
}

void Recorder::local(uint32_t warp, uint32_t active, uint32_t bytes) {
  launch_.warps[warp][Counter::kLocalBytes] +=
      uint64_t{bytes} * static_cast<uint32_t>(std::popcount(active));
}

void Recorder::bulk(uint32_t warp, uint64_t address, uint64_t bytes, AccessKind kind) {
  if (bytes == 0) return;
  Counters& c = launch_.warps[warp];
  c[kind == AccessKind::kRead    ? Counter::kTmaReadBytes
    : kind == AccessKind::kWrite ? Counter::kTmaWriteBytes
                                 : Counter::kTmaReduceBytes] += bytes;
  const uint64_t last = (address + bytes - 1) / kSectorBytes;
  for (uint64_t s = address / kSectorBytes; s <= last; ++s) sector(&c, s, kind);
}

void Recorder::multicast(uint32_t warp, uint64_t bytes) {
  launch_.warps[warp][Counter::kMulticastBytes] += bytes;
}

void Recorder::bulk_shared(uint32_t warp, uint64_t bytes) {
  launch_.warps[warp][Counter::kTmaSharedBytes] += bytes;
}

void Recorder::tensor_mma(uint32_t warp, const InstructionForm& form,
                          const InstructionDescriptor& descriptor) {
  const TensorMmaCost cost = tensor_mma_cost(form, descriptor);
  Counters one;
  one.tensor[cost.name] = cost.count;
  one[Counter::kTensorFlops] = cost.count.flops;
  one[Counter::kOperandBytes] = cost.operand_bytes;
  launch_.warps[warp].add(one);
}

namespace {

void add_steps(const InstructionCost& cost, const StepCount& count, Counters* c) {
  (*c)[cost.category] += count.warps;
  (*c)[Counter::kWarpInstructions] += count.warps;
  (*c)[Counter::kLaneInstructions] += count.lanes;
  for (size_t s = 0; s < kSlotCount; ++s) c->slots[s] += cost.slots[s] * count.warps;
  // Tensor instructions need whole warps; one lane issues a tcgen05.cp.
  (*c)[Counter::kTmemReadBytes] += cost.tmem_read_bytes * count.warps;
  (*c)[Counter::kTmemWriteBytes] += cost.tmem_write_bytes * count.warps;
  (*c)[Counter::kTmemCopyBytes] += cost.tmem_copy_bytes * count.lanes;
  if (cost.tensor.empty()) return;
  (*c)[Counter::kTensorFlops] += cost.flops * count.warps;
  (*c)[Counter::kOperandBytes] += cost.operand_bytes * count.warps;
  TensorCount& tensor = c->tensor[cost.tensor];
  const uint64_t issues = tensor.issues + count.warps;
  const uint64_t flops = tensor.flops + cost.flops * count.warps;
  tensor = cost.tensor_count;
  tensor.issues = issues;
  tensor.flops = flops;
}

}  // namespace

LaunchCounters Recorder::finish() {
  std::unordered_map<const ptx::Instruction*, InstructionCost> costs;
  for (size_t w = 0; w < steps_.size(); ++w) {
    for (size_t f = 0; f < steps_[w].size(); ++f) {
      const ptx::Function& function = module_->functions[f];
      for (size_t i = 0; i < steps_[w][f].size(); ++i) {
        if (steps_[w][f][i].warps == 0) continue;
        const ptx::Instruction& in = function.instructions[i];
        auto found = costs.find(&in);
        if (found == costs.end()) found = costs.emplace(&in, cost_of(function, in)).first;
        add_steps(found->second, steps_[w][f][i], &launch_.warps[w]);
      }
    }
  }
  return std::move(launch_);
}

}  // namespace flamia::emulator::model
