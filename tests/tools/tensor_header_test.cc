// What the header of a safetensors file may say, and the sentence for each way in which it lies.
#include "tools/tensor_header.h"

#include <gtest/gtest.h>

#include <string>

namespace flamia::tools {
namespace {

std::string message(const std::string& json, uint64_t data_bytes) {
  TensorHeader header;
  const Status status = parse_tensor_header(json, data_bytes, &header);
  EXPECT_EQ(status.code(), status.ok() ? StatusCode::kOk : StatusCode::kInvalidArgument);
  return status.message();
}

std::string one_tensor(const std::string& fields) { return R"({"q":{)" + fields + "}}"; }

TEST(TensorHeader, GivesTensorsInTheOrderOfTheirBytes) {
  TensorHeader header;
  ASSERT_TRUE(parse_tensor_header(
                  R"({"__metadata__":{"a":"1"},
                      "v":{"dtype":"F64","shape":[2],"data_offsets":[6,22]},
                      "q":{"dtype":"BF16","shape":[1,3],"data_offsets":[0,6]}}   )",
                  22, &header)
                  .ok());
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "q");
  EXPECT_EQ(header.tensors[0].type, ElementType::kBF16);
  EXPECT_EQ(header.tensors[0].shape, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(header.tensors[1].begin, 6u);
  EXPECT_EQ(header.metadata.at("a"), "1");
}

TEST(TensorHeader, TakesEveryElementType) {
  for (const char* type : {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "I16", "U16", "F16",
                           "BF16", "I32", "U32", "F32", "I64", "U64", "F64"}) {
    const int64_t bytes = element_bytes(*element_from_name(type));
    EXPECT_EQ(
        message(one_tensor(std::string(R"("dtype":")") + type +
                           R"(","shape":[],"data_offsets":[0,)" + std::to_string(bytes) + "]"),
                static_cast<uint64_t>(bytes)),
        "");
  }
}

TEST(TensorHeader, TakesEmptyTensorsAndNoTensors) {
  EXPECT_EQ(message("{}", 0), "");
  EXPECT_EQ(message(one_tensor(R"("dtype":"F32","shape":[0,9],"data_offsets":[0,0])"), 0), "");
  EXPECT_EQ(message(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},
                        "b":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},
                        "c":{"dtype":"F32","shape":[0],"data_offsets":[2,2]}})",
                    2),
            "");
}

TEST(TensorHeader, TakesZeroDimsBesideHugeOnes) {
  EXPECT_EQ(message(one_tensor(R"("dtype":"F64","shape":[4611686018427387904,0,4611686018427387904],
                                  "data_offsets":[0,0])"),
                    0),
            "");
}

TEST(TensorHeader, RefusesWhatIsNotOneObject) {
  EXPECT_EQ(message("", 0), "the header must begin with { (is this a safetensors file?)");
  EXPECT_EQ(message("[]", 0), "the header must begin with { (is this a safetensors file?)");
  EXPECT_EQ(message("{", 0), "the header is not valid JSON at its byte 2");
  EXPECT_EQ(message("{}{}", 0), "the header is not valid JSON at its byte 3");
  EXPECT_EQ(message(std::string("{}\0{}", 5), 0), "the header must not contain NUL bytes");
  EXPECT_EQ(message("{\"\xff\":1}", 0), "the header is not valid JSON at its byte 3");
}

TEST(TensorHeader, RefusesDeepNesting) {
  std::string deep = R"({"q":)";
  for (int i = 0; i < 100000; ++i) deep += R"({"a":)";
  EXPECT_EQ(message(deep, 0), "tensor q: field a is unknown");
  std::string arrays = R"({"q":{"shape":)" + std::string(100000, '[');
  EXPECT_EQ(message(arrays, 0),
            "tensor q: shape must be an array of non-negative integers; got an array");
}

TEST(TensorHeader, RefusesRepetition) {
  const std::string tensor = R"("q":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_EQ(message("{" + tensor + "," + tensor + "}", 1), "tensor q is there twice");
  EXPECT_EQ(message(one_tensor(R"("dtype":"U8","dtype":"U8")"), 1),
            "tensor q: field dtype is there twice");
  EXPECT_EQ(message(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "metadata entry a is there twice");
}

TEST(TensorHeader, RefusesFieldsOfOtherKinds) {
  EXPECT_EQ(message(R"({"q":7})", 0), "tensor q must be an object; got a number");
  EXPECT_EQ(message(R"({"q":null})", 0), "tensor q must be an object; got null");
  EXPECT_EQ(message(R"({"__metadata__":[]})", 0), "__metadata__ must be an object; got an array");
  EXPECT_EQ(message(R"({"__metadata__":{"a":1}})", 0), "metadata must be strings; got a number");
  EXPECT_EQ(message(one_tensor(R"("dtype":3)"), 0),
            "tensor q: dtype must be a string; got a number");
  EXPECT_EQ(message(one_tensor(R"("dtype":"F4")"), 0), "tensor q: dtype F4 is unknown");
  EXPECT_EQ(message(one_tensor(R"("stride":[1])"), 0), "tensor q: field stride is unknown");
  EXPECT_EQ(message(one_tensor(R"("shape":[true])"), 0),
            "tensor q: shape must be an array of non-negative integers; got a boolean");
}

TEST(TensorHeader, RefusesMissingFields) {
  EXPECT_EQ(message(one_tensor(R"("shape":[],"data_offsets":[0,1])"), 1),
            "tensor q: field dtype is missing");
  EXPECT_EQ(message(one_tensor(R"("dtype":"U8","data_offsets":[0,1])"), 1),
            "tensor q: field shape is missing");
  EXPECT_EQ(message(one_tensor(R"("dtype":"U8","shape":[1])"), 1),
            "tensor q: field data_offsets is missing");
  EXPECT_EQ(message(one_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), 1),
            "tensor q: data_offsets must be two numbers");
  EXPECT_EQ(message(one_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), 1),
            "tensor q: data_offsets must be two numbers");
}

TEST(TensorHeader, RefusesDimsThatAreNoSizes) {
  const auto shape = [](const std::string& dims) {
    return message(one_tensor(R"("dtype":"F32","data_offsets":[0,4],"shape":[)" + dims + "]"), 4);
  };
  EXPECT_EQ(
      shape("-1"),
      "tensor q: shape must be an array of non-negative integers; got the negative number -1");
  EXPECT_EQ(shape("1.5"),
            "tensor q: shape must be an array of non-negative integers; got the number 1.5");
  EXPECT_EQ(shape("99999999999999999999"),
            "tensor q: shape must be an array of non-negative integers; got the number "
            "99999999999999999999");
  EXPECT_EQ(shape("18446744073709551615"), "tensor q: dim 18446744073709551615 is too large");
  EXPECT_EQ(shape("4294967296,4294967296"),
            "tensor q: shape [4294967296, 4294967296] is too large");
  EXPECT_EQ(shape("4611686018427387904"), "tensor q: shape [4611686018427387904] is too large");
  EXPECT_EQ(shape("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"), "tensor q: rank must be 16 at most");
}

TEST(TensorHeader, RefusesBytesThatDoNotFitTheShape) {
  EXPECT_EQ(message(one_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4),
            "tensor q: F32 [2] must have 8 bytes; data_offsets [0, 4] have 4");
  EXPECT_EQ(message(one_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4),
            "tensor q: data_offsets must not decrease; got [4, 0]");
  EXPECT_EQ(message(one_tensor(R"("dtype":"U8","shape":[9],"data_offsets":[0,9])"), 5),
            "tensor q ends at byte 9 of the data, but the file has only 5 (truncated?)");
  EXPECT_EQ(message(one_tensor(R"("dtype":"U8","shape":[1],
                                  "data_offsets":[18446744073709551614,18446744073709551615])"),
                    1),
            "tensor q ends at byte 18446744073709551615 of the data, but the file has only 1 "
            "(truncated?)");
}

TEST(TensorHeader, RefusesOverlapsHolesAndLeftovers) {
  const auto pair = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
  };
  EXPECT_EQ(message(pair("[0,4]", "[4,8]"), 8), "");
  EXPECT_EQ(message(pair("[4,8]", "[0,4]"), 8), "");
  EXPECT_EQ(message(pair("[0,4]", "[3,7]"), 7),
            "tensor b begins at byte 3 of the data, inside the tensor before it");
  EXPECT_EQ(message(pair("[0,4]", "[0,4]"), 4),
            "tensor b begins at byte 0 of the data, inside the tensor before it");
  EXPECT_EQ(message(pair("[0,4]", "[6,10]"), 10),
            "tensor b begins at byte 6 of the data, after a hole of 2 bytes");
  EXPECT_EQ(message(pair("[0,4]", "[4,8]"), 9),
            "1 bytes after the last tensor belong to no tensor");
}

TEST(TensorHeader, ShowsHostileNamesWithoutControlCharacters) {
  EXPECT_EQ(message(R"({"\u001b[31m\n":0})", 0),
            "tensor \\x1b[31m\\x0a must be an object; got a number");
}

}  // namespace
}  // namespace flamia::tools
