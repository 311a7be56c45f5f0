// Every rule of cuTensorMapEncodeTiled, and the fields of tensormap.replace.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "emulator/tma/tensor_map.h"

namespace flamia::emulator::test {
namespace {

struct Request {
  alignas(128) uint8_t map[kMapBytes] = {};
  uint64_t dims[5] = {256, 64, 8, 4, 2};
  uint64_t strides[4] = {512, 512 * 64, 512 * 64 * 8, 512 * 64 * 32};
  uint32_t box[5] = {64, 16, 2, 1, 1};
  uint32_t element_strides[5] = {1, 1, 1, 1, 1};
  EncodeTiledArguments arguments;
  Request() {
    arguments = {map, 6, 3, 0x7f0000001000, dims, strides, box, element_strides, 0, 3, 2, 0};
  }
};

TEST(TensorMap, EncodesAndDecodes) {
  Request r;
  ASSERT_TRUE(encode_tiled(r.arguments, false).ok());
  TensorMap map;
  ASSERT_TRUE(decode_map(r.map, &map).ok());
  EXPECT_EQ(map.type, MapType::kF16);
  EXPECT_EQ(map.rank, 3u);
  EXPECT_EQ(map.address, 0x7f0000001000u);
  EXPECT_EQ(map.dims[1], 64u);
  EXPECT_EQ(map.strides[1], 512u * 64);
  EXPECT_EQ(map.box[0], 64u);
  EXPECT_EQ(map.swizzle, Swizzle::k128B);
  EXPECT_EQ(map_box_bytes(map), 64u * 16 * 2 * 2);
}

TEST(TensorMap, DamagedBytesAreNoMap) {
  Request r;
  ASSERT_TRUE(encode_tiled(r.arguments, false).ok());
  TensorMap map;
  for (uint32_t i = 0; i < kMapBytes; i += 5) {
    if (i >= 8 && i < 16) continue;  // the word that programs may change
    r.map[i] ^= 0x40;
    EXPECT_EQ(decode_map(r.map, &map).kind, FaultKind::kBadOperand) << i;
    r.map[i] ^= 0x40;
  }
}

// CUTLASS clears bit 21 of the second word of small maps, for drivers that set it wrongly.
TEST(TensorMap, TheWordThatProgramsChangeMeansNothing) {
  Request r;
  ASSERT_TRUE(encode_tiled(r.arguments, false).ok());
  TensorMap before, after;
  ASSERT_TRUE(decode_map(r.map, &before).ok());
  r.map[10] ^= 0x20;
  ASSERT_TRUE(decode_map(r.map, &after).ok());
  EXPECT_EQ(after.address, before.address);
}

TEST(TensorMap, EveryRuleIsChecked) {
  struct Case {
    std::string word;
    std::function<void(Request*)> change;
  };
  const Case cases[] = {
      {"tensorMap", [](Request* r) { r->arguments.map = r->map + 16; }},
      {"tensorRank", [](Request* r) { r->arguments.rank = 0; }},
      {"tensorRank", [](Request* r) { r->arguments.rank = 6; }},
      {"tensorRank",
       [](Request* r) {
         r->arguments.rank = 2;
         r->arguments.interleave = 1;
       }},
      {"globalAddress", [](Request* r) { r->arguments.address += 8; }},
      {"globalAddress",
       [](Request* r) {
         r->arguments.address += 16;
         r->arguments.interleave = 2;
         r->arguments.swizzle = 1;
       }},
      {"globalDim[1]", [](Request* r) { r->dims[1] = 0; }},
      {"globalDim[0]", [](Request* r) { r->dims[0] = (uint64_t{1} << 32) + 1; }},
      {"globalStrides[0]", [](Request* r) { r->strides[0] = 520; }},
      {"globalStrides[1]", [](Request* r) { r->strides[1] = uint64_t{1} << 40; }},
      {"boxDim[2]", [](Request* r) { r->box[2] = 0; }},
      {"boxDim[1]", [](Request* r) { r->box[1] = 257; }},
      {"boxDim[0]", [](Request* r) { r->box[0] = 4; }},
      {"boxDim[0]", [](Request* r) { r->box[0] = 72; }},
      {"boxDim[0]", [](Request* r) { r->arguments.swizzle = 2; }},
      {"elementStrides[1]", [](Request* r) { r->element_strides[1] = 9; }},
      {"elementStrides[2]", [](Request* r) { r->element_strides[2] = 0; }},
      {"swizzle", [](Request* r) { r->arguments.swizzle = 4; }},
      {"swizzle", [](Request* r) { r->arguments.interleave = 2; }},
      {"interleave", [](Request* r) { r->arguments.interleave = 3; }},
      {"tensorDataType", [](Request* r) { r->arguments.type = 13; }},
      {"l2Promotion", [](Request* r) { r->arguments.l2_promotion = 4; }},
      {"oobFill", [](Request* r) { r->arguments.oob_fill = 2; }},
      {"oobFill",
       [](Request* r) {
         r->arguments.type = 1;
         r->arguments.oob_fill = 1;
       }},
      {"null", [](Request* r) { r->arguments.strides = nullptr; }},
  };
  for (const Case& test : cases) {
    Request r;
    test.change(&r);
    const Status status = encode_tiled(r.arguments, false);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << test.word;
    EXPECT_NE(status.message().find(test.word), std::string::npos) << status.message();
  }
}

TEST(TensorMap, PaddedTypesHaveTheirOwnRules) {
  const auto request = [] {
    Request r;
    r.arguments.type = 14;
    r.box[0] = 128;
    return r;
  };
  Request good = request();
  good.arguments.map = good.map;
  good.arguments.dims = good.dims;
  good.arguments.strides = good.strides;
  good.arguments.box = good.box;
  good.arguments.element_strides = good.element_strides;
  EXPECT_TRUE(encode_tiled(good.arguments, true).ok());
  EXPECT_FALSE(encode_tiled(good.arguments, false).ok()) << "not on Hopper";
  good.box[0] = 64;
  EXPECT_FALSE(encode_tiled(good.arguments, true).ok());
  good.box[0] = 128;
  good.dims[0] = 192;
  EXPECT_FALSE(encode_tiled(good.arguments, true).ok());
  good.dims[0] = 256;
  good.arguments.swizzle = 2;
  EXPECT_FALSE(encode_tiled(good.arguments, true).ok());
  good.arguments.swizzle = 6;
  EXPECT_FALSE(encode_tiled(good.arguments, true).ok());
  good.arguments.type = 15;
  EXPECT_TRUE(encode_tiled(good.arguments, true).ok());
  good.arguments.address += 16;
  EXPECT_FALSE(encode_tiled(good.arguments, true).ok());
}

TEST(TensorMap, Im2colIsRefusedByName) {
  EXPECT_EQ(encode_im2col().code(), StatusCode::kUnsupported);
}

TEST(TensorMap, ReplaceChangesFieldsInTheCodesOfPtx) {
  Request r;
  ASSERT_TRUE(encode_tiled(r.arguments, false).ok());
  TensorMap map;
  ASSERT_TRUE(replace_field(r.map, MapField::kElementType, 0, 10).ok());
  ASSERT_TRUE(replace_field(r.map, MapField::kRank, 0, 3).ok());
  ASSERT_TRUE(replace_field(r.map, MapField::kGlobalAddress, 0, 0x7f0000002000).ok());
  ASSERT_TRUE(replace_field(r.map, MapField::kGlobalDim, 3, 5).ok());
  ASSERT_TRUE(replace_field(r.map, MapField::kGlobalStride, 2, 65536).ok());
  ASSERT_TRUE(replace_field(r.map, MapField::kBoxDim, 3, 1).ok());
  ASSERT_TRUE(replace_field(r.map, MapField::kSwizzleAtomicity, 0, 1).ok());
  ASSERT_TRUE(decode_map(r.map, &map).ok());
  EXPECT_EQ(map.type, MapType::kBF16);
  EXPECT_EQ(map.rank, 4u);
  EXPECT_EQ(map.address, 0x7f0000002000u);
  EXPECT_EQ(map.dims[3], 5u);
  EXPECT_EQ(map.strides[2], 65536u);
  EXPECT_EQ(map.swizzle, Swizzle::k128BAtom32);
  EXPECT_TRUE(check_map(map).ok());
  ASSERT_TRUE(replace_field(r.map, MapField::kBoxDim, 1, 300).ok());
  ASSERT_TRUE(decode_map(r.map, &map).ok());
  EXPECT_FALSE(check_map(map).ok());
  EXPECT_FALSE(replace_field(r.map, MapField::kElementType, 0, 16).ok());
  EXPECT_FALSE(replace_field(r.map, MapField::kBoxDim, 5, 1).ok());
}

}  // namespace
}  // namespace flamia::emulator::test
