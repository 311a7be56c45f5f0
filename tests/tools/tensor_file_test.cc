// Safetensors files on disk: what is written is read again, what is broken is refused by name.
#include "tools/tensor_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/tools/safetensors_bytes.h"
#include "tests/tools/temporary_folder.h"

namespace flamia::tools {
namespace {

HostTensor counted(ElementType type, const std::vector<int64_t>& shape) {
  HostTensor tensor;
  EXPECT_TRUE(HostTensor::allocate(type, shape, &tensor).ok());
  for (size_t i = 0; i < tensor.bytes(); ++i) {
    tensor.as<uint8_t>()[i] = static_cast<uint8_t>(7 * i + 1);
  }
  return tensor;
}

std::string open_message(const std::string& path) {
  TensorFile file;
  return file.open(path).message();
}

TEST(TensorFile, ReadsWhatItWrote) {
  const TemporaryFolder folder;
  const std::string path = folder.path("t.safetensors");
  const HostTensor q = counted(ElementType::kBF16, {3, 2, 4});
  const HostTensor lengths = counted(ElementType::kI64, {2});
  const HostTensor flags = counted(ElementType::kBool, {5});
  const HostTensor nothing = counted(ElementType::kF32, {0, 4});
  const std::map<std::string, std::string> metadata = {{"about", "a \"test\"\n"}};
  ASSERT_TRUE(write_tensor_file(
                  path, {{"q", &q}, {"flags", &flags}, {"lengths", &lengths}, {"empty", &nothing}},
                  metadata)
                  .ok());
  TensorFile file;
  ASSERT_EQ(file.open(path).message(), "");
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.tensors().size(), 4u);
  for (const auto& [name, original] :
       {std::pair("q", &q), {"lengths", &lengths}, {"flags", &flags}, {"empty", &nothing}}) {
    ASSERT_NE(file.find(name), nullptr) << name;
    HostTensor copy;
    ASSERT_TRUE(file.read(*file.find(name), &copy).ok());
    EXPECT_EQ(copy.type(), original->type());
    EXPECT_EQ(copy.shape(), original->shape());
    EXPECT_EQ(std::memcmp(copy.data(), original->data(), original->bytes()), 0);
  }
  EXPECT_EQ(file.find("k"), nullptr);
}

TEST(TensorFile, AlignsTensorsToTheirElements) {
  const TemporaryFolder folder;
  const std::string path = folder.path("t.safetensors");
  const HostTensor bytes = counted(ElementType::kU8, {3});
  const HostTensor wide = counted(ElementType::kF64, {2});
  ASSERT_TRUE(write_tensor_file(path, {{"bytes", &bytes}, {"wide", &wide}}, {}).ok());
  TensorFile file;
  ASSERT_TRUE(file.open(path).ok());
  EXPECT_EQ(file.find("wide")->begin, 0u);
  const std::string content = folder.read("t.safetensors");
  EXPECT_EQ((content.size() - 19) % 8, 0u);
}

TEST(TensorFile, WritesHeadersInTheFormatOfTheReferenceLibrary) {
  const TemporaryFolder folder;
  const HostTensor x = counted(ElementType::kU8, {1});
  ASSERT_TRUE(write_tensor_file(folder.path("t"), {{"x", &x}}, {}).ok());
  std::string header = R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(folder.read("t"), safetensors(header, "\x01"));
}

TEST(TensorFile, RefusesEqualNames) {
  const TemporaryFolder folder;
  const HostTensor x = counted(ElementType::kU8, {1});
  EXPECT_FALSE(write_tensor_file(folder.path("t"), {{"x", &x}, {"x", &x}}, {}).ok());
  EXPECT_FALSE(write_tensor_file(folder.path("t"), {{"__metadata__", &x}}, {}).ok());
  EXPECT_TRUE(folder.names().empty());
}

TEST(TensorFile, RefusesWhatIsNoRegularFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(open_message(folder.path("missing")),
            folder.path("missing") + ": No such file or directory");
  EXPECT_EQ(open_message(folder.path(".")),
            folder.path(".") + ": must be a regular file; it is a folder");
  EXPECT_EQ(open_message("/dev/zero"), "/dev/zero: must be a regular file; it is a device");
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(open_message(pipe), pipe + ": must be a regular file; it is a pipe");
}

TEST(TensorFile, RefusesShortFiles) {
  const TemporaryFolder folder;
  const std::string empty = folder.write("empty", "");
  EXPECT_EQ(open_message(empty), empty + ": must be a safetensors file; it has 0 bytes");
  const std::string seven = folder.write("seven", "1234567");
  EXPECT_EQ(open_message(seven), seven + ": must be a safetensors file; it has 7 bytes");
  const std::string eight = folder.write("eight", length_field(0));
  EXPECT_EQ(open_message(eight),
            eight + ": the header must begin with { (is this a safetensors file?)");
}

TEST(TensorFile, RefusesHeadersLongerThanTheFile) {
  const TemporaryFolder folder;
  const std::string rule = " (truncated, or not a safetensors file?)";
  const std::string a = folder.write("a", length_field(3) + "{}");
  EXPECT_EQ(open_message(a), a +
                                 ": the header claims 3 bytes, but the file has only 2 after its "
                                 "first 8" +
                                 rule);
  const std::string b = folder.write("b", length_field(~uint64_t{0}) + "{}");
  EXPECT_EQ(open_message(b), b +
                                 ": the header claims 18446744073709551615 bytes, but the file has "
                                 "only 2 after its first 8" +
                                 rule);
}

TEST(TensorFile, RefusesHeadersOverTheLimit) {
  const TemporaryFolder folder;
  const std::string path = folder.write("large", length_field(kLongestHeaderBytes + 1));
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(kLongestHeaderBytes) + 100), 0);
  EXPECT_EQ(open_message(path),
            path + ": the header must have 100000000 bytes at most; it has 100000001");
}

TEST(TensorFile, RefusesEveryTruncation) {
  const TemporaryFolder folder;
  const HostTensor q = counted(ElementType::kBF16, {3, 2, 4});
  ASSERT_TRUE(write_tensor_file(folder.path("whole"), {{"q", &q}}, {}).ok());
  const std::string whole = folder.read("whole");
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const std::string path = folder.write("part", whole.substr(0, bytes));
    EXPECT_EQ(open_message(path).rfind(path + ": ", 0), 0u) << bytes;
  }
}

TEST(TensorFile, SaysSoWhenTheFileShrinksWhileItIsRead) {
  const TemporaryFolder folder;
  const std::string path = folder.path("t");
  const HostTensor q = counted(ElementType::kBF16, {8});
  ASSERT_TRUE(write_tensor_file(path, {{"q", &q}}, {}).ok());
  TensorFile file;
  ASSERT_TRUE(file.open(path).ok());
  ASSERT_EQ(truncate(path.c_str(), 20), 0);
  HostTensor copy;
  const Status status = file.read(*file.find("q"), &copy);
  EXPECT_EQ(status.message(), path + ": tensor q: the file ends too early");
  EXPECT_EQ(status.code(), StatusCode::kInternal);
}

TEST(TensorFile, CanBeOpenedAgain) {
  const TemporaryFolder folder;
  const HostTensor q = counted(ElementType::kBF16, {8});
  ASSERT_TRUE(write_tensor_file(folder.path("a"), {{"q", &q}}, {{"n", "1"}}).ok());
  ASSERT_TRUE(write_tensor_file(folder.path("b"), {{"k", &q}}, {}).ok());
  TensorFile file;
  ASSERT_TRUE(file.open(folder.path("a")).ok());
  ASSERT_TRUE(file.open(folder.path("b")).ok());
  EXPECT_EQ(file.find("q"), nullptr);
  EXPECT_TRUE(file.metadata().empty());
}

}  // namespace
}  // namespace flamia::tools
