// Hazards become traps here.
#include "emulator/execution/order.h"

#include <algorithm>
#include <cstring>

#include "base/message.h"
#include "emulator/ptx/text.h"

namespace flamia::emulator::execution {
namespace {

constexpr uint64_t kTensorBytes = uint64_t{kTensorLanes} * kTensorColumns * 4;

enum class Place : uint8_t { kShared, kTensor, kGlobal };

std::string party_text(const Cluster& cluster, const HazardParty& party) {
  return concat(access_kind_name(party.kind), party.write ? " write" : " read", " of ",
                warp_text(cluster, party.warp), " (",
                instruction_text(*cluster.grid, party.instruction), ")");
}

std::string place_text(Place place, uint64_t address) {
  switch (place) {
    case Place::kShared:
      return concat("shared address ", hex(address));
    case Place::kTensor: {
      const uint64_t cell = address % kTensorBytes / 4;
      return concat("tensor memory of CTA rank ", address / kTensorBytes, ", lane ",
                    cell / kTensorColumns, " column ", cell % kTensorColumns);
    }
    case Place::kGlobal:
      break;
  }
  return concat("global address ", hex(address));
}

std::string hazard_text(const Cluster& cluster, Place place, const Hazard& hazard) {
  return concat(party_text(cluster, hazard.first), " and ", party_text(cluster, hazard.second),
                " at ", place_text(place, hazard.address), ": ", hazard_reason(hazard.kind));
}

[[noreturn]] void raise(const Cluster& cluster, Place place, const Hazard& hazard) {
  stop(fault_kind_name(FaultKind::kHazard), hazard_text(cluster, place, hazard));
}

/// How many bytes of the word can be looked at: registered memory of the host may end within it.
size_t bytes_of_word(const Cluster& cluster, const uint8_t* word) {
  const auto address = reinterpret_cast<uint64_t>(word);
  const GlobalMemory::Block* const block = cluster.grid->memory->block_of(address);
  if (block == nullptr) return 4;  // shared memory
  return std::min<uint64_t>(4 - address % 4, block->address + block->bytes - address);
}

/// The word where the hazard is, from its first byte that exists; or null.
const uint8_t* word_of(const Cluster& cluster, Place place, uint64_t address) {
  if (place == Place::kGlobal) {
    const GlobalMemory& memory = *cluster.grid->memory;
    for (uint64_t at = address; at < address + 4; ++at) {
      if (memory.block_of(at) != nullptr) return reinterpret_cast<const uint8_t*>(at);
    }
    return nullptr;
  }
  const SharedMemory* const shared = cluster.shared[shared_rank(static_cast<uint32_t>(address))];
  const uint32_t offset = shared_offset(static_cast<uint32_t>(address));
  return shared != nullptr && shared->contains(offset, 4) ? shared->at(offset) : nullptr;
}

/// Two stores of one value do no harm, and public kernels make them: what is in memory decides once
/// the second store is done.
bool may_be_equal(const Cluster& cluster, const Hazard& hazard) {
  const ptx::Module& module = cluster.grid->program->module().module;
  const uint32_t key = hazard.second.instruction;
  // Keys of very large modules are cut off.
  const size_t place = key & 0xfffffu;
  if (key >> 20 >= module.functions.size()) return false;
  const auto& instructions = module.functions[key >> 20].instructions;
  if (place >= instructions.size() || instructions[place].opcode != Opcode::kSt) return false;
  return hazard.kind == HazardKind::kRace && hazard.first.write && hazard.second.write &&
         hazard.first.kind == AccessKind::kGeneric && hazard.second.kind == AccessKind::kGeneric;
}

/// All lanes of a warp may execute one bulk store, as public kernels let them: its copies write the
/// same bytes.
bool is_one_store(const Hazard& hazard) {
  return hazard.first.write && hazard.second.write && hazard.first.kind == AccessKind::kBulk &&
         hazard.second.kind == AccessKind::kBulk && hazard.first.warp == hazard.second.warp &&
         hazard.first.instruction == hazard.second.instruction;
}

void report(Cluster& cluster, Place place, const Hazard& hazard) {
  if (place == Place::kGlobal && is_one_store(hazard)) return;
  const uint8_t* const word =
      may_be_equal(cluster, hazard) ? word_of(cluster, place, hazard.address) : nullptr;
  if (word == nullptr) raise(cluster, place, hazard);
  if (cluster.pending_store.word != nullptr) return;
  cluster.pending_store.word = word;
  std::memcpy(cluster.pending_store.before, word, bytes_of_word(cluster, word));
  cluster.pending_store.text = hazard_text(cluster, place, hazard);
}

}  // namespace

std::string warp_text(const Cluster& cluster, uint32_t global) {
  const uint32_t per_cta = static_cast<uint32_t>(cluster.ctas[0]->warps.size());
  const Cta& cta = *cluster.ctas[global / per_cta];
  return concat("CTA (", cta.id.x, ",", cta.id.y, ",", cta.id.z, ") warp ", global % per_cta);
}

std::string instruction_text(const Grid& grid, uint32_t key) {
  const ptx::Module& module = grid.program->module().module;
  const uint32_t index = key >> 20;
  if (index >= module.functions.size()) return "an unknown instruction";
  const ptx::Function& function = module.functions[index];
  if ((key & 0xfffffu) >= function.instructions.size()) return "an unknown instruction";
  const ptx::Instruction& instruction = function.instructions[key & 0xfffffu];
  return concat("line ", instruction.line, ": ", ptx::to_text(instruction, function, &module));
}

void note_shared(Cluster& cluster, const Actor& actor, uint64_t address, uint64_t bytes,
                 bool write) {
  if (cluster.shadow == nullptr) return;
  const auto hazard = write ? cluster.shadow->write(actor, address, bytes)
                            : cluster.shadow->read(actor, address, bytes);
  if (hazard.has_value()) report(cluster, Place::kShared, *hazard);
}

void note_global(Cluster& cluster, const Actor& actor, uint64_t address, uint64_t bytes,
                 bool write) {
  if (cluster.global_shadow == nullptr) return;
  const auto hazard = write ? cluster.global_shadow->write(actor, address, bytes)
                            : cluster.global_shadow->read(actor, address, bytes);
  if (hazard.has_value()) report(cluster, Place::kGlobal, *hazard);
}

void after_store(Cluster& cluster) {
  PendingStore& pending = cluster.pending_store;
  const bool equal =
      std::memcmp(pending.word, pending.before, bytes_of_word(cluster, pending.word)) == 0;
  pending.word = nullptr;
  if (!equal) stop(fault_kind_name(FaultKind::kHazard), std::move(pending.text));
}

void note_tensor(Cta& cta, const Actor& actor, uint32_t lane, uint32_t column, uint32_t columns,
                 bool write) {
  Cluster& cluster = *cta.cluster;
  if (cluster.tensor_shadow == nullptr) return;
  // The tensor memories of a cluster lie one behind the other.
  const uint64_t address = cta.rank * kTensorBytes + tensor_cell_address(lane, column);
  const auto hazard = write ? cluster.tensor_shadow->write(actor, address, uint64_t{columns} * 4)
                            : cluster.tensor_shadow->read(actor, address, uint64_t{columns} * 4);
  if (hazard.has_value()) raise(cluster, Place::kTensor, *hazard);
}

void forget_tensor(Cta& cta, uint32_t lane, uint32_t column, uint32_t columns) {
  if (cta.cluster->tensor_shadow == nullptr) return;
  cta.cluster->tensor_shadow->forget(cta.rank * kTensorBytes + tensor_cell_address(lane, column),
                                     uint64_t{columns} * 4);
}

Actor own_actor(Warp& warp, const Step& step, AccessKind kind) {
  return clocks_of(warp)->own_access(warp.global, kind, instruction_key(warp.code(), step));
}

void release_location(Warp& warp, uint64_t address, bool global, bool releases) {
  Cluster& cluster = *warp.cta->cluster;
  if (!cluster.clocks->write_location(warp.global, address, releases) || !global) return;
  uint32_t& writer = cluster.grid->location_writers[address];
  const uint32_t mine = cluster.number + 1;
  writer = writer == 0 || writer == mine ? mine : kManyWriters;
}

void acquire_location(Warp& warp, uint64_t address, bool global) {
  Cluster& cluster = *warp.cta->cluster;
  if (!global) return cluster.clocks->read_location(warp.global, address);
  const auto& writers = cluster.grid->location_writers;
  if (writers.empty()) return;
  const auto it = writers.find(address);
  if (it == writers.end()) return;
  if (it->second != cluster.number + 1) {
    // The clocks of other clusters are not ours: what they passed on is unknown.
    cluster.clocks->acquire_everything(warp.global);
  } else {
    cluster.clocks->read_location(warp.global, address);
  }
}

}  // namespace flamia::emulator::execution
