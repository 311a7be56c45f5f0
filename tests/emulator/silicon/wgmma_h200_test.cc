// The tensor-core model of numerics against wgmma chains of an H200, bit for bit.
// Depends on: tests/cuda/silicon/wgmma_inputs.h, wgmma_h200.bin (README.md beside it). No GPU is
// needed.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "numerics/bf16.h"
#include "numerics/e4m3.h"
#include "numerics/e5m2.h"
#include "numerics/f16.h"
#include "numerics/tensor_core.h"
#include "tests/cuda/silicon/case_inputs.h"
#include "tests/cuda/silicon/wgmma_inputs.h"

namespace flamia::silicon {
namespace {

constexpr uint32_t kVerbatimTiles = 8;
constexpr uint32_t kTileOutputs = kTileRows * kTileCols;

/// One record of the file, as silicon_wgmma.cu writes it.
struct Record {
  std::vector<uint64_t> hashes;
  std::vector<uint32_t> outputs;
};

std::map<std::string, Record> read_records() {
  std::ifstream file(std::string(FLAMIA_SOURCE_DIR) + "/tests/emulator/silicon/wgmma_h200.bin",
                     std::ios::binary);
  std::map<std::string, Record> records;
  for (int length = file.get(); length >= 0; length = file.get()) {
    std::string name(static_cast<size_t>(length), ' ');
    file.read(name.data(), length);
    Record record{std::vector<uint64_t>(kTiles),
                  std::vector<uint32_t>(kVerbatimTiles * kTileOutputs)};
    file.read(reinterpret_cast<char*>(record.hashes.data()), kTiles * sizeof(uint64_t));
    file.read(reinterpret_cast<char*>(record.outputs.data()),
              static_cast<std::streamsize>(record.outputs.size() * sizeof(uint32_t)));
    if (file) records[name] = record;
  }
  return records;
}

struct Form {
  const char* name;
  CodeType a, b;
  AccumulatorModel model;
  bool half;  ///< binary16 accumulators
};

constexpr AccumulatorModel with_chunk(AccumulatorModel model, int chunk) {
  model.chunk = chunk;
  return model;
}

const Form kForms[] = {
    {"f32_e4m3_e4m3", kCodeE4m3, kCodeE4m3, kHopperFp8Accumulator, false},
    {"f32_e4m3_e5m2", kCodeE4m3, kCodeE5m2, kHopperFp8Accumulator, false},
    {"f32_e5m2_e4m3", kCodeE5m2, kCodeE4m3, kHopperFp8Accumulator, false},
    {"f32_e5m2_e5m2", kCodeE5m2, kCodeE5m2, kHopperFp8Accumulator, false},
    {"f32_f16_f16", kCodeF16, kCodeF16, kHopperF16Accumulator, false},
    {"f32_bf16_bf16", kCodeBf16, kCodeBf16, kHopperF16Accumulator, false},
    {"f32_tf32_tf32", kCodeTf32, kCodeTf32, with_chunk(kHopperF16Accumulator, 8), false},
    {"f16_e4m3_e4m3", kCodeE4m3, kCodeE4m3, kHopperFp8Accumulator, true},
    {"f16_e5m2_e5m2", kCodeE5m2, kCodeE5m2, kHopperFp8Accumulator, true},
    {"f16_f16_f16", kCodeF16, kCodeF16, kHopperF16Accumulator, true},
};

float decode(CodeType type, uint32_t code) {
  if (type.bits == 32) return bits_float(code & ~((1u << type.dropped_bits) - 1u));
  if (type.bits == 16) {
    const uint16_t half = static_cast<uint16_t>(code);
    return type.exponent_bits == 5 ? f16_to_float(half) : bf16_to_float(half);
  }
  const uint8_t byte = static_cast<uint8_t>(code);
  return type.has_infinity ? decode_e5m2(byte) : decode_e4m3(byte);
}

int min_exponent(CodeType type) { return 2 - (1 << (type.exponent_bits - 1)); }

std::vector<float> operand(CodeType type, uint32_t tile, uint32_t matrix, uint32_t rows, int k) {
  std::vector<float> values(rows * static_cast<uint32_t>(k));
  for (uint32_t i = 0; i < values.size(); ++i) {
    const uint32_t depth = static_cast<uint32_t>(k);
    values[i] = decode(type, code_operand(type, tile, matrix, i / depth, i % depth));
  }
  return values;
}

std::vector<uint32_t> model_tile(const Form& form, uint32_t tile) {
  const int step = kStepBytes * 8 / form.a.bits, k = step * kSteps;
  const std::vector<float> a = operand(form.a, tile, 0, kTileRows, k);
  const std::vector<float> b = operand(form.b, tile, 1, kTileCols, k);
  std::vector<uint32_t> outputs(kTileOutputs);
  for (uint32_t i = 0; i < kTileOutputs; ++i) {
    const uint32_t row = i / kTileCols, col = i % kTileCols;
    const uint32_t start = start_operand(tile, row, col);
    float sum = form.half ? f16_to_float(static_cast<uint16_t>((start >> 16) & 0xbbffu))
                          : bits_float(start);
    for (int at = 0; at < k; at += step) {
      const float* x = a.data() + row * static_cast<uint32_t>(k) + at;
      const float* y = b.data() + col * static_cast<uint32_t>(k) + at;
      sum = form.half ? accumulate_chunk_f16(x, y, step, sum, form.model, min_exponent(form.a))
                      : accumulate_chunk(x, y, step, sum, form.model, min_exponent(form.a),
                                         min_exponent(form.b), 0);
    }
    outputs[i] = form.half ? float_to_f16(sum) : float_bits(sum);
  }
  return outputs;
}

TEST(SiliconWgmma, ModelEqualsTheFirstTilesOfEveryForm) {
  const auto records = read_records();
  for (const Form& form : kForms) {
    ASSERT_TRUE(records.contains(form.name)) << form.name;
    const Record& record = records.at(form.name);
    for (uint32_t tile = 0; tile < kVerbatimTiles; ++tile) {
      const std::vector<uint32_t> outputs = model_tile(form, tile);
      for (uint32_t i = 0; i < kTileOutputs; ++i) {
        ASSERT_EQ(outputs[i], record.outputs[tile * kTileOutputs + i])
            << form.name << " tile " << tile << " row " << i / kTileCols << " column "
            << i % kTileCols;
      }
    }
  }
}

TEST(ExhaustiveSiliconWgmma, ModelEqualsTheHashOfEveryTile) {
  const auto records = read_records();
  for (const Form& form : kForms) {
    ASSERT_TRUE(records.contains(form.name)) << form.name;
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      uint64_t hash = kHashStart;
      for (const uint32_t value : model_tile(form, tile)) hash = hash_step(hash, value);
      ASSERT_EQ(hash, records.at(form.name).hashes[tile]) << form.name << " tile " << tile;
    }
  }
}

}  // namespace
}  // namespace flamia::silicon
