// ldmatrix, stmatrix, movmatrix, mma.sync and wgmma.
// Depends on: tensor/mma.h and tensor/fragments.h, which define the results; jobs.h for wgmma.
// A wgmma starts when all four warps of the warp group have issued it; it reads its operands and
// writes its accumulators when the adversary says so, before wgmma.wait_group returns.
#include <algorithm>

#include "base/message.h"
#include "emulator/execution/counting.h"
#include "emulator/execution/jobs.h"
#include "emulator/execution/lanes.h"
#include "emulator/execution/register_watch.h"
#include "emulator/execution/spaces.h"
#include "emulator/tensor/fragments.h"
#include "emulator/tensor/mma.h"

namespace flamia::emulator::execution {
namespace {

using ptx::Operand;
using ptx::OperandKind;
using Registers = std::vector<std::array<uint32_t, kLanes>>;

NumericMode numeric_mode(const Grid& grid) {
  return grid.options->numerics == Numerics::kExact ? NumericMode::kExact : NumericMode::kHardware;
}

uint32_t (*raw(Registers& registers))[32] {
  return reinterpret_cast<uint32_t(*)[32]>(registers.data());
}

Registers gather(Frame& frame, const std::vector<Source>& sources) {
  Registers out(sources.size());
  for (size_t r = 0; r < sources.size(); ++r) {
    const uint64_t* const row =
        sources[r].constant != nullptr ? sources[r].constant : frame.row(sources[r].slot);
    for (uint32_t t = 0; t < kLanes; ++t) out[r][t] = static_cast<uint32_t>(row[t]);
  }
  return out;
}

void scatter(Frame& frame, const std::vector<uint32_t>& slots, const Registers& values) {
  for (size_t r = 0; r < slots.size(); ++r) {
    uint64_t* const row = frame.row(slots[r]);
    for (uint32_t t = 0; t < kLanes; ++t) row[t] = values[r][t];
  }
}

std::vector<Source> sources_of(Decoder& d, const Operand& operand) {
  std::vector<Source> out;
  if (operand.kind != OperandKind::kVector) {
    out.push_back(d.source(operand, ScalarType::kB32));
    return out;
  }
  for (const Operand& e : d.elements(operand)) out.push_back(d.source(e, ScalarType::kB32));
  return out;
}

std::vector<uint32_t> slots_of(Decoder& d, const Operand& operand) {
  std::vector<uint32_t> out;
  if (operand.kind != OperandKind::kVector) {
    out.push_back(d.target(operand));
    return out;
  }
  for (const Operand& e : d.elements(operand)) out.push_back(d.target(e));
  return out;
}

// ---- ldmatrix, stmatrix, movmatrix

struct RowsDetail : Detail {
  Space space = Space::kGeneric;
  MatrixLoad form = MatrixLoad::kM8n8;
  uint32_t count = 1;
  std::vector<uint32_t> slots;
  std::vector<Source> sources;
};

Outcome rows_lanes(Warp& warp, const Step& step, uint32_t active) {
  const auto& d = static_cast<const RowsDetail&>(*step.detail);
  const uint32_t rows = matrix_row_count(d.form, d.count);
  const uint32_t readers = rows >= kLanes ? kAllLanes : (1u << rows) - 1u;
  if (active != kAllLanes) stop("divergence", "ldmatrix and stmatrix need a whole warp");
  uint64_t addresses[kLanes];
  effective_addresses(warp.read(step.source[0]), step.number, d.space != Space::kGeneric,
                      addresses);
  LaneAccess access;
  locate_lanes(warp, d.space, addresses, readers, 16, 16, &access);
  uint8_t data[kLanes][16];
  Registers registers(matrix_register_count(d.form, d.count));
  if (step.choice == 0) {
    before_read(warp, step, access, {});
    count_access(warp, access, model::AccessKind::kRead);
    for (uint32_t i = 0; i < rows; ++i) std::copy_n(access.at[i].data, 16, data[i]);
    distribute_rows(d.form, d.count, data, raw(registers));
    scatter(*warp.group().frame, d.slots, registers);
  } else {
    before_write(warp, step, access, {});
    count_access(warp, access, model::AccessKind::kWrite);
    registers = gather(*warp.group().frame, d.sources);
    collect_rows(d.form, d.count, raw(registers), data);
    const MachineOptions& options = *warp.grid().options;
    if (options.rules == Rules::kStrict && options.check_hazards) {
      const uint8_t* bytes_of[kLanes];
      for (uint32_t i = 0; i < rows; ++i) bytes_of[i] = data[i];
      check_lanes_agree(warp, step, access, bytes_of);
    }
    for (uint32_t i = 0; i < rows; ++i) std::copy_n(data[i], 16, access.at[i].data);
  }
  return Outcome::kNext;
}

MatrixLoad rows_form(Decoder& d, bool store) {
  const bool transposed = d.take(Modifier::kTrans);
  const bool four = d.in.type(1) == ScalarType::kB4x16P64;
  const bool six = d.in.type(1) == ScalarType::kB6x16P32;
  const bool plain = d.in.types.size() == 1;
  switch (d.take_one({Modifier::kM8n8, Modifier::kM8n16, Modifier::kM16n16, Modifier::kM16n8})) {
    case 0:
      if (plain) return transposed ? MatrixLoad::kM8n8Transposed : MatrixLoad::kM8n8;
      break;
    case 1:
      if (four && !transposed) return MatrixLoad::kM8n16Expand4;
      if (six && !transposed) return MatrixLoad::kM8n16Expand6;
      break;
    case 2:
      if (!transposed) break;
      if (four) return MatrixLoad::kM16n16Expand4;
      if (six) return MatrixLoad::kM16n16Expand6;
      if (plain) return MatrixLoad::kM16n16Transposed;
      break;
    case 3:
      if (transposed && plain && store) return MatrixLoad::kM16n8Transposed;
      break;
    default:
      break;
  }
  d.refuse("the shape is not handled");
}

void decode_rows(Decoder& d) {
  RowsDetail* const detail = d.detail<RowsDetail>();
  const bool store = d.in.opcode == Opcode::kStmatrix;
  d.accept({Modifier::kSync, Modifier::kAligned});
  detail->form = rows_form(d, store);
  detail->count = 1u << d.take_one({Modifier::kX1, Modifier::kX2, Modifier::kX4}, 0);
  detail->space = take_space(d);
  d.expect(2, 2);
  d.step.source[0] = d.address(d.operand(store ? 0 : 1), &d.step.number);
  const uint32_t registers = matrix_register_count(detail->form, detail->count);
  if (store) {
    detail->sources = sources_of(d, d.operand(1));
  } else {
    detail->slots = slots_of(d, d.operand(0));
  }
  if (registers == 0 || registers != (store ? detail->sources.size() : detail->slots.size())) {
    d.refuse("the number of registers does not fit the shape");
  }
  d.step.choice = store ? 1 : 0;
  d.step.aligned = d.step.blocking = true;
  d.step.run = rows_lanes;
}

void decode_movmatrix(Decoder& d) {
  d.accept({Modifier::kSync, Modifier::kAligned, Modifier::kTrans, Modifier::kM8n8});
  d.operands(ScalarType::kB32, 1);
  d.step.aligned = d.step.blocking = true;
  d.step.run = [](Warp& warp, const Step& step, uint32_t) {
    uint32_t in[kLanes], out[kLanes];
    const uint64_t* const a = warp.read(step.source[0]);
    for (uint32_t t = 0; t < kLanes; ++t) in[t] = static_cast<uint32_t>(a[t]);
    transpose_m8n8(in, out);
    std::copy_n(out, kLanes, warp.row(step.target));
    return Outcome::kNext;
  };
}

// ---- mma.sync

ElementFormat element_format(const Decoder& d, ScalarType type) {
  switch (type) {
    case ScalarType::kF16:
      return ElementFormat::kF16;
    case ScalarType::kBf16:
      return ElementFormat::kBF16;
    case ScalarType::kTf32:
      return ElementFormat::kTF32;
    case ScalarType::kE4m3:
      return ElementFormat::kE4M3;
    case ScalarType::kE5m2:
      return ElementFormat::kE5M2;
    default:
      d.refuse("the element type is not handled");
  }
}

struct MmaDetail : Detail {
  MmaSync spec;
  std::vector<uint32_t> slots;
  std::vector<Source> a, b, c;
};

Outcome mma_lanes(Warp& warp, const Step& step, uint32_t active) {
  const auto& d = static_cast<const MmaDetail&>(*step.detail);
  if (active != kAllLanes) stop("divergence", "mma needs a whole warp");
  Frame& frame = *warp.group().frame;
  MmaSync spec = d.spec;
  spec.mode = numeric_mode(warp.grid());
  Registers a = gather(frame, d.a), b = gather(frame, d.b), c = gather(frame, d.c);
  Registers result(d.slots.size());
  require(mma_sync(spec, raw(a), raw(b), raw(c), raw(result)));
  scatter(frame, d.slots, result);
  return Outcome::kNext;
}

void decode_mma(Decoder& d) {
  MmaDetail* const detail = d.detail<MmaDetail>();
  d.accept(
      {Modifier::kSync, Modifier::kAligned, Modifier::kShapeMnk, Modifier::kRow, Modifier::kCol});
  if (d.in.shape.m != 16 || d.in.shape.n != 8 || d.in.types.size() != 4) {
    d.refuse("the shape is not handled");
  }
  detail->spec.a = element_format(d, d.in.type(1));
  detail->spec.b = element_format(d, d.in.type(2));
  detail->spec.k = d.in.shape.k;
  detail->spec.f16_accumulator = d.in.type(0) == ScalarType::kF16;
  d.expect(4, 4);
  detail->slots = slots_of(d, d.operand(0));
  detail->a = sources_of(d, d.operand(1));
  detail->b = sources_of(d, d.operand(2));
  detail->c = sources_of(d, d.operand(3));
  const uint32_t row_bytes = ptx::type_bits(d.in.type(1)) / 8 * d.in.shape.k;
  const size_t sums = detail->spec.f16_accumulator ? 2 : 4;
  if (detail->a.size() != row_bytes / 8 || detail->b.size() != row_bytes / 16 ||
      detail->c.size() != sums || detail->slots.size() != sums) {
    d.refuse("the number of registers does not fit the shape");
  }
  d.step.aligned = d.step.blocking = true;
  d.step.run = mma_lanes;
}

// ---- wgmma

constexpr uint32_t kGroupWarps = 4;

struct WgmmaDetail : Detail {
  Wgmma spec;
  std::vector<uint32_t> slots;
  std::vector<Source> a;  ///< registers; empty: a descriptor
  Source a_descriptor, b_descriptor, scale_d;
  bool negated = false;  ///< scale-d
};

/// One wgmma of one warp group, when it happens.
void run_wgmma(ActionJob& job, const std::array<PendingMatrix, kGroupWarps>& parts,
               const WgmmaDetail& d, uint64_t a_descriptor, uint64_t b_descriptor,
               bool accumulate) {
  Cta& cta = *job.warp->cta;
  const uint32_t first = job.warp->index / kGroupWarps * kGroupWarps;
  Wgmma spec = d.spec;
  spec.accumulate = accumulate;
  spec.mode = numeric_mode(*cta.cluster->grid);
  Registers a[kGroupWarps], c[kGroupWarps];
  const uint32_t(*a_rows[kGroupWarps])[32];
  uint32_t(*c_rows[kGroupWarps])[32];
  std::vector<Source> accumulators;
  for (const uint32_t slot : d.slots) accumulators.push_back({nullptr, slot});
  for (uint32_t w = 0; w < kGroupWarps; ++w) {
    a[w] = gather(*parts[w].frame, d.a);
    c[w] = gather(*parts[w].frame, accumulators);
    a_rows[w] = raw(a[w]);
    c_rows[w] = raw(c[w]);
  }
  WgmmaA operand;
  operand.descriptor = a_descriptor;
  if (!d.a.empty()) operand.registers = a_rows;
  std::vector<uint32_t> chunks;
  Fault fault = wgmma(spec, *cta.shared, operand, b_descriptor, c_rows, &chunks);
  if (fault.kind != FaultKind::kUninitialized || cta.cluster->grid->options->check_uninitialized) {
    require(fault);
  }
  for (const uint32_t chunk : chunks) {
    job.touch_shared(*cta.cluster, map_shared(chunk, cta.rank), 16, false);
  }
  for (uint32_t w = 0; w < kGroupWarps; ++w) {
    scatter(*parts[w].frame, d.slots, c[w]);
    cta.warps[first + w]->matrix_done = parts[w].serial;
  }
}

Outcome wgmma_lanes(Warp& warp, const Step& step, uint32_t active) {
  const auto& d = static_cast<const WgmmaDetail&>(*step.detail);
  if (active != kAllLanes) stop("divergence", "wgmma needs whole warps");
  Cta& cta = *warp.cta;
  const uint32_t first = warp.index / kGroupWarps * kGroupWarps;
  if (first + kGroupWarps > cta.warps.size()) {
    stop(fault_kind_name(FaultKind::kBadOperand), "wgmma needs a group of four warps");
  }
  std::shared_ptr<SyncClock> before;
  if (clocks_of(warp) != nullptr) {
    before = std::make_shared<SyncClock>();
    clocks_of(warp)->release(warp.global, before.get());
  }
  warp.matrices.push_back(
      {&step, warp.group().frame->shared_from_this(), ++warp.matrix_serial, before});
  begin_wgmma(warp, step, warp.matrix_serial, d.slots, d.a);
  std::array<PendingMatrix, kGroupWarps> parts;
  for (uint32_t w = 0; w < kGroupWarps; ++w) {
    const auto& pending = cta.warps[first + w]->matrices;
    if (pending.empty()) return Outcome::kNext;
    parts[w] = pending.front();
    if (parts[w].step != parts[0].step) {
      stop("divergence", "the warps of a warp group must issue the same wgmma");
    }
  }
  for (uint32_t w = 0; w < kGroupWarps; ++w) cta.warps[first + w]->matrices.pop_front();
  const uint64_t a_descriptor = d.a.empty() ? warp.read(d.a_descriptor)[0] : 0;
  const uint64_t b_descriptor = warp.read(d.b_descriptor)[0];
  uint32_t scale = read_predicate(warp, d.scale_d);
  if (d.negated) scale = ~scale;
  const bool accumulate = (scale & 1u) != 0;
  // The pipe is that of the group's first warp, whoever comes last: the group is in order.
  auto job = make_job(
      warp, step, kNoLane, AccessKind::kWgmma,
      [=, &d](ActionJob& self) {
        run_wgmma(self, parts, d, a_descriptor, b_descriptor, accumulate);
      },
      cta.warps[first].get());
  // It starts when all four warps have come, so it is after what each of them did before: a warp's
  // fenced writes need no barrier inside the group (CUTLASS' attention backward relies on it).
  for (uint32_t w = 0; w < kGroupWarps && job->ordered; ++w) {
    OrderClocks::come_after(*parts[w].before, &job->work);
    cta.warps[first + w]->matrix_epochs.push_back({parts[w].serial, job->work.actor.epoch});
  }
  job->queue = reinterpret_cast<uint64_t>(cta.warps[first].get());
  warp.grid().issue(std::move(job));
  return Outcome::kNext;
}

void decode_wgmma(Decoder& d) {
  WgmmaDetail* const detail = d.detail<WgmmaDetail>();
  d.accept({Modifier::kSync, Modifier::kAligned, Modifier::kShapeMnk});
  if (d.in.types.size() != 3 || d.in.shape.m != 64) d.refuse("the form is not handled");
  detail->spec.f16_accumulator = d.in.type(0) == ScalarType::kF16;
  detail->spec.a = element_format(d, d.in.type(1));
  detail->spec.b = element_format(d, d.in.type(2));
  detail->spec.n = d.in.shape.n;
  if (d.in.shape.k != instruction_k(detail->spec.a)) d.refuse("K does not fit the element type");
  const Operand& a = d.operand(1);
  detail->slots = slots_of(d, d.operand(0));
  if (detail->slots.size() !=
      (detail->spec.f16_accumulator ? d.in.shape.n / 4u : d.in.shape.n / 2u)) {
    d.refuse("the number of accumulators does not fit the shape");
  }
  if (a.kind == OperandKind::kVector) {
    detail->a = sources_of(d, a);
    if (detail->a.size() != 4) d.refuse("A must have four registers");
  } else {
    detail->a_descriptor = d.source(a, ScalarType::kB64);
  }
  detail->b_descriptor = d.source(2, ScalarType::kB64);
  Operand scale = d.operand(3);
  detail->negated = scale.negated;
  scale.negated = false;
  detail->scale_d = d.source(scale, ScalarType::kPred);
  d.expect(4, 8);
  const auto immediate = [&d](uint32_t i) {
    return i < d.operand_count() ? d.operand(i).value : int64_t{1};
  };
  detail->spec.negate_a = immediate(4) == -1;
  detail->spec.negate_b = immediate(5) == -1;
  const uint32_t transposes = d.operand_count() - std::min(d.operand_count(), 6u);
  if (transposes == 2) detail->spec.mn_major_a = d.operand(6).value == 1;
  if (transposes != 0) detail->spec.mn_major_b = d.operand(5 + transposes).value == 1;
  d.step.aligned = d.step.blocking = true;
  d.step.run = wgmma_lanes;
}

Outcome wait_lanes(Warp& warp, const Step& step, uint32_t) {
  const size_t newest = static_cast<size_t>(step.number);
  const auto& groups = warp.matrix_groups;
  if (groups.size() > newest && groups[groups.size() - 1 - newest] > warp.matrix_done) {
    warp.group().wait.kind = Wait::Kind::kMatrix;
    return Outcome::kBlocked;
  }
  warp.group().wait = {};
  if (groups.size() > newest) {
    warp.matrix_waited = std::max(warp.matrix_waited, groups[groups.size() - 1 - newest]);
  }
  while (!warp.matrix_epochs.empty() && warp.matrix_epochs.front().first <= warp.matrix_waited) {
    clocks_of(warp)->observe(warp.global, warp.matrix_epochs.front().second);
    warp.matrix_epochs.pop_front();
  }
  return Outcome::kNext;
}

void decode_groups(Decoder& d) {
  d.accept({Modifier::kSync, Modifier::kAligned});
  d.step.aligned = d.step.blocking = true;
  switch (d.in.opcode) {
    case Opcode::kWgmmaFence:
      d.step.run = [](Warp& warp, const Step&, uint32_t) {
        ++warp.matrix_fences;
        return Outcome::kNext;
      };
      break;
    case Opcode::kWgmmaCommitGroup:
      d.step.run = [](Warp& warp, const Step&, uint32_t) {
        warp.matrix_groups.push_back(warp.matrix_serial);
        return Outcome::kNext;
      };
      break;
    default:
      d.expect(1, 1);
      d.step.number = d.operand(0).value;
      d.step.run = wait_lanes;
      break;
  }
}

}  // namespace

DecodeFunction matrix_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kLdmatrix:
    case Opcode::kStmatrix:
      return decode_rows;
    case Opcode::kMovmatrix:
      return decode_movmatrix;
    case Opcode::kMma:
      return decode_mma;
    case Opcode::kWgmmaMmaAsync:
      return decode_wgmma;
    case Opcode::kWgmmaFence:
    case Opcode::kWgmmaCommitGroup:
    case Opcode::kWgmmaWaitGroup:
      return decode_groups;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
