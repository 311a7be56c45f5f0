// Clusters come and go: memories, warps and their first frame; the end of lanes and CTAs.
#include <algorithm>

#include "base/message.h"
#include "emulator/execution/control.h"
#include "emulator/execution/order.h"
#include "emulator/execution/scheduler.h"

namespace flamia::emulator::execution {
namespace {

constexpr uint32_t kBulkSlots = 64;

/// Registers of a thread at launch: what fits for so many threads, as ptxas would use at most.
uint32_t launch_registers(const Grid& grid) {
  const ptx::LaunchBounds& bounds = grid.entry->bounds;
  uint32_t count = static_cast<uint32_t>(grid.register_budget) / std::max(grid.threads(), 128u);
  count = std::min(count / 8 * 8, 248u);
  return bounds.max_registers != 0 ? std::min(count, bounds.max_registers) : count;
}

void make_views(Warp* warp) {
  const Grid& grid = warp->grid();
  const Cluster& cluster = *warp->cta->cluster;
  // The constant bank of a module is read only; views have one type for all banks.
  auto* const constants = const_cast<ByteBank*>(&grid.program->module().constants);
  for (uint32_t i = 0; i < kLanes; ++i) {
    warp->views[i] = {
        grid.memory,     cluster.shared.data(), static_cast<uint32_t>(cluster.shared.size()),
        warp->cta->rank, &warp->local[i],       const_cast<ByteBank*>(&grid.parameters),
        constants};
  }
}

void make_warps(Cta* cta) {
  Grid& grid = *cta->cluster->grid;
  const uint32_t threads = grid.threads(), count = (threads + kLanes - 1) / kLanes;
  const Code& code = grid.program->code(grid.request->function);
  for (uint32_t w = 0; w < count; ++w) {
    auto warp = std::make_unique<Warp>();
    warp->cta = cta;
    warp->index = w;
    warp->global = cta->rank * count + w;
    const uint32_t lanes = std::min(kLanes, threads - w * kLanes);
    warp->started = warp->live = lanes == kLanes ? kAllLanes : (1u << lanes) - 1u;
    warp->register_count = launch_registers(grid);
    make_views(warp.get());
    Group group;
    group.mask = warp->live;
    group.frame = warp->enter(code, nullptr, warp->live);
    warp->groups.push_back(group);
    warp->select(0);
    cta->warps.push_back(std::move(warp));
  }
  cta->live_warps = count;
  const uint64_t used = uint64_t{count} * kLanes * launch_registers(grid);
  cta->pool_registers =
      static_cast<uint32_t>(grid.register_budget > used ? grid.register_budget - used : 0);
}

bool is_strict(const Grid& grid) { return grid.options->rules == Rules::kStrict; }

uint32_t shared_bytes(const Grid& grid) {
  const uint64_t dynamic = grid.request->dynamic_shared_bytes;
  const uint64_t end = std::max(grid.entry->shared_bytes, grid.entry->dynamic_shared_offset);
  return static_cast<uint32_t>(dynamic == 0 ? grid.entry->shared_bytes : end + dynamic);
}

ptx::Dim3 position(uint64_t linear, const ptx::Dim3& dim) {
  return {static_cast<uint32_t>(linear % dim.x), static_cast<uint32_t>(linear / dim.x % dim.y),
          static_cast<uint32_t>(linear / dim.x / dim.y)};
}

std::unique_ptr<Cta> make_cta(Cluster* cluster, uint32_t rank) {
  Grid& grid = *cluster->grid;
  const ptx::Dim3& dim = grid.cluster_dim;
  auto cta = std::make_unique<Cta>();
  cta->cluster = cluster;
  cta->rank = rank;
  const ptx::Dim3 in = position(rank, dim);
  cta->id = {cluster->id.x * dim.x + in.x, cluster->id.y * dim.y + in.y,
             cluster->id.z * dim.z + in.z};
  const ptx::Dim3& all = grid.request->grid;
  cta->serial = (cta->id.z * all.y + cta->id.y) * all.x + cta->id.x;
  cta->sm = grid.take_sm();
  cta->shared = std::make_unique<SharedMemory>(shared_bytes(grid));
  cta->mbarriers = std::make_unique<MbarrierTable>(cta->shared.get(), !is_strict(grid));
  if (grid.options->chip != Chip::kH200) {
    cta->tensor = std::make_unique<TensorMemory>(grid.options->rules == Rules::kLenient);
  }
  cluster->shared[rank] = cta->shared.get();
  return cta;
}

/// What a CTA leaves behind when its last warp has exited.
void check_end(Cta& cta) {
  Grid& grid = *cta.cluster->grid;
  if (cta.tensor != nullptr) {
    if (const uint32_t columns = cta.tensor->leave(cta.serial); columns != 0) {
      stop("leak", concat("the CTA exited with ", columns, " columns of tensor memory allocated (",
                          instruction_text(grid, cta.tensor_alloc_key), ")"));
    }
  }
  if (!grid.options->check_hazards) return;
  for (const auto& job : grid.jobs) {
    if (job->warp->cta != &cta || job->drained) continue;
    // Silicon keeps the memory of the CTA until its stores have read it; public kernels rely on it.
    if (job->stores && !is_strict(grid)) continue;
    stop("undrained", concat("the CTA exited before asynchronous work of warp ", job->warp->index,
                             " completed (",
                             instruction_text(grid, instruction_key(*job->code, *job->step)), ")"));
  }
  const auto open = cta.mbarriers->unbalanced();
  if (!open.empty()) {
    stop(fault_kind_name(FaultKind::kBarrier),
         concat("the CTA exited with transactions open at mbarrier ", hex(open[0]), " (",
                cta.mbarriers->describe(open[0]), ", made by ",
                instruction_text(grid, cta.mbarriers->origin(open[0]).instruction), ")"));
  }
}

void end_warp(Warp& warp) {
  Cta& cta = *warp.cta;
  Cluster& cluster = *cta.cluster;
  --cta.live_warps;
  cta.pool_registers += warp.register_count * kLanes;
  warp.register_count = 0;
  settle_barriers(cta);
  if (cta.live_warps != 0) return;
  check_end(cta);
  cluster.shared[cta.rank] = nullptr;
  --cluster.live_ctas;
}

}  // namespace

Outcome exit_lanes(Warp& warp, uint32_t active) {
  Cluster& cluster = *warp.cta->cluster;
  for (size_t g = 0; g < warp.groups.size(); ++g) {
    const Group& group = warp.groups[g];
    if (g == warp.current || group.wait.kind != Wait::Kind::kAligned) continue;
    stop("divergence", concat("lanes ", hex(active), " exit while lanes ", hex(group.mask),
                              " wait at an .aligned instruction, line ",
                              group.frame->code->function->instructions[group.pc].line));
  }
  if (active != warp.group().mask) warp.split(active, warp.group().pc + 1);
  // Lanes that had arrived at the cluster barrier stay counted; the others count as arrived.
  uint32_t waiting = 0;
  each_lane(active, [&](uint32_t i) {
    if (warp.cluster_arrived[i] != static_cast<uint32_t>(cluster.generation) + 1) ++waiting;
  });
  const uint32_t ended = static_cast<uint32_t>(std::popcount(active));
  cluster.live_threads -= ended;
  cluster.arrived -= ended - waiting;
  warp.live &= ~active;
  warp.groups.erase(warp.groups.begin() + warp.current);
  warp.current = 0;
  ++warp.grid().activity;
  if (warp.live == 0) {
    warp.frames.clear();
    warp.registers = nullptr;
    end_warp(warp);
  }
  settle_cluster_barrier(cluster);
  return Outcome::kJump;
}

std::unique_ptr<Cluster> make_cluster(Grid& grid, uint64_t number) {
  auto cluster = std::make_unique<Cluster>();
  const uint32_t size = static_cast<uint32_t>(grid.cluster_size());
  cluster->grid = &grid;
  cluster->number = static_cast<uint32_t>(number);
  cluster->id = position(number, grid.clusters);
  cluster->shared.resize(size);
  cluster->live_ctas = size;
  cluster->live_threads = size * grid.threads();
  for (uint32_t rank = 0; rank < size; ++rank) {
    cluster->ctas.push_back(make_cta(cluster.get(), rank));
  }
  if (grid.options->check_hazards) {
    OrderRules rules;
    rules.tensor_fences = rules.init_fences = is_strict(grid);
    rules.loads_at_issue = grid.options->rules == Rules::kLenient;
    const uint32_t warps = size * ((grid.threads() + kLanes - 1) / kLanes);
    cluster->clocks = std::make_unique<OrderClocks>(warps, kBulkSlots, rules);
    cluster->shadow = std::make_unique<Shadow>(Shadow::Memory::kShared, rules);
    cluster->tensor_shadow = std::make_unique<Shadow>(Shadow::Memory::kTensor, rules);
    cluster->global_shadow = std::make_unique<Shadow>(Shadow::Memory::kGlobal, rules);
  }
  for (const auto& cta : cluster->ctas) make_warps(cta.get());
  return cluster;
}

}  // namespace flamia::emulator::execution
