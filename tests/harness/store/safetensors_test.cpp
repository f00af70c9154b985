#include "harness/store/safetensors.hpp"

#include <cstring>

#include "tests/harness/store/expect.hpp"
#include "tests/harness/store/scratch.hpp"

namespace megatoken {
namespace {

/// A file with this header and these bytes.
std::string file_with(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

TEST(Safetensors, EveryDtypeComesBackBitForBit) {
  const Scratch scratch;
  std::map<std::string, TensorView> views;
  std::vector<Tensor> tensors;
  for (const DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16, DType::E4M3, DType::I32, DType::I64, DType::U8}) {
    Tensor tensor(dtype, {3, 5});
    for (int64_t i = 0; i < tensor->bytes(); ++i) static_cast<uint8_t*>(tensor->data)[i] = static_cast<uint8_t>(i * 37 + 11);
    tensors.push_back(tensor);
    views.emplace(to_string(dtype), tensor);
  }
  views.emplace("part", tensors[1]->slice(1, 1, 3));
  views.emplace("none", TensorView(nullptr, DType::F32, {0, 7}));
  write_safetensors(scratch.file("a"), views, {{"key", "text \"quoted\""}});
  const auto read = read_safetensors(scratch.file("a"));
  EXPECT_EQ(read.metadata.at("key"), "text \"quoted\"");
  ASSERT_EQ(read.tensors.size(), views.size());
  for (const Tensor& tensor : tensors) {
    const Tensor& other = read.tensors.at(to_string(tensor->dtype));
    ASSERT_EQ(other->dtype, tensor->dtype);
    ASSERT_EQ(other->shape, tensor->shape);
    EXPECT_EQ(std::memcmp(other->data, tensor->data, static_cast<size_t>(tensor->bytes())), 0) << to_string(tensor->dtype);
  }
  EXPECT_EQ(read.tensors.at("part").as<float>()[3], tensors[1].as<float>()[5 + 2]);
  EXPECT_EQ(read.tensors.at("none")->shape, (Dims{0, 7}));
}

TEST(Safetensors, HasTheBytesOfTheFormat) {
  const Scratch scratch;
  Tensor x(DType::BF16, {2, 1});
  x.as<BFloat16>()[0] = BFloat16(1.0);
  x.as<BFloat16>()[1] = BFloat16(-2.0);
  write_safetensors(scratch.file("a"), {{"x", x}});
  const std::string header = R"({"x":{"data_offsets":[0,4],"dtype":"BF16","shape":[2,1]}})";
  EXPECT_EQ(file_bytes(scratch.file("a")), file_with(header + std::string(64 - header.size(), ' '), {'\x80', '\x3f', '\x00', '\xc0'}));
}

TEST(Safetensors, ReadsWhatOthersWrite) {
  const Scratch scratch;
  const std::string header = R"({"b":{"shape":[],"data_offsets":[8,12],"dtype":"F32"},"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},
    "z":{"dtype":"I32","shape":[0],"data_offsets":[0,0]}}  )";
  put_bytes(scratch.file("a"), file_with(header, std::string("\1\0\0\0\2\0\0\0\0\0\x80\x3f", 12)));
  const auto read = read_safetensors(scratch.file("a"));
  EXPECT_EQ(read.tensors.at("b")->shape, Dims{1});
  EXPECT_EQ(read.tensors.at("b").as<float>()[0], 1.0f);
  EXPECT_EQ(read.tensors.at("a").as<int32_t>()[1], 2);
}

TEST(Safetensors, RefusesEverythingElseByName) {
  const Scratch scratch;
  const auto complaint = [&](const std::string& bytes) {
    put_bytes(scratch.file("bad"), bytes);
    return error_of(ErrorKind::Usage, [&] { (void)read_safetensors(scratch.file("bad")); });
  };
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"x":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const std::string four = "1234";
  const std::string huge = "[4294967296,4294967296,4294967296,4294967296]";
  EXPECT_EQ(complaint(file_with(one("\"F32\"", "[1]", "[0,4]"), four)), "no error");
  EXPECT_TRUE(contains(complaint("1234567"), "bad is no valid safetensors file: it is too short for a header"));
  EXPECT_TRUE(contains(complaint(std::string(8, '\xff') + "{}"), "cannot have 18446744073709551615 bytes"));
  EXPECT_TRUE(contains(complaint(file_with("{}", "").substr(0, 9)), "cannot have 2 bytes"));
  EXPECT_TRUE(contains(complaint(file_with("[]", "")), "does not begin with '{'"));
  EXPECT_TRUE(contains(complaint(file_with("{\"x\":", "")), "no JSON at byte"));
  EXPECT_TRUE(contains(complaint(file_with(R"({"x":{},"x":{}})", "")), "'x' is there twice"));
  EXPECT_TRUE(contains(complaint(file_with(R"({"x":[1]})", "")), "needs dtype, shape and data_offsets"));
  EXPECT_TRUE(contains(complaint(file_with(R"({"__metadata__":{"a":1}})", "")), "metadata 'a' is no text"));
  EXPECT_TRUE(contains(complaint(file_with(one("\"F4\"", "[1]", "[0,4]"), four)), "has dtype F4"));
  EXPECT_TRUE(contains(complaint(file_with(one("\"F32\"", "[-1]", "[0,4]"), four)), "impossible shape"));
  EXPECT_TRUE(contains(complaint(file_with(one("\"F32\"", "[1,1,1,1,1,1,1]", "[0,4]"), four)), "at most 6 axes"));
  EXPECT_TRUE(contains(complaint(file_with(one("\"F32\"", "[2]", "[0,4]"), four)), "of shape [2] has 4 bytes"));
  EXPECT_TRUE(contains(complaint(file_with(one("\"F32\"", huge, "[0,4]"), four)), "has 4 bytes"));
  EXPECT_TRUE(contains(complaint(file_with(one("\"F32\"", "[1]", "[0,8]"), four)), "bytes 0 to 8 of 4"));
  EXPECT_TRUE(contains(complaint(file_with(one("\"F32\"", "[1]", "[4,0]"), four)), "bytes 4 to 0 of 4"));
  EXPECT_TRUE(contains(complaint(file_with(one("\"F32\"", "[1]", "[-1,3]"), four)), "needs two data_offsets"));
  EXPECT_TRUE(contains(complaint(file_with(one("\"F32\"", "[1]", "[4,8]"), four + four)), "begin at 4, not 0"));
  EXPECT_TRUE(contains(complaint(file_with(one("\"F32\"", "[1]", "[0,4]"), four + "5")), "end at byte 4 of 5"));
  EXPECT_TRUE(contains(error_of(ErrorKind::Usage, [&] { (void)read_safetensors(scratch.file("none")); }), "none: No such file"));
}

TEST(Safetensors, IsReadByPythonWithTheStandardLibraryAlone) {
  const Scratch scratch;
  Tensor x(DType::F32, {2});
  x.as<float>()[0] = 0.5f;
  x.as<float>()[1] = -3;
  Tensor y(DType::U8, {1});
  y.as<uint8_t>()[0] = 7;
  write_safetensors(scratch.file("a"), {{"ünïcode", y}, {"x", x}});
  put_bytes(scratch.file("read.py"), R"(
import json, struct, sys
data = open(sys.argv[1], "rb").read()
length, = struct.unpack("<Q", data[:8])
header, body = json.loads(data[8:8 + length]), data[8 + length:]
assert length % 8 == 0 and struct.unpack("<2f", body[slice(*header["x"]["data_offsets"])]) == (0.5, -3), header
assert body[slice(*header["\u00fcn\u00efcode"]["data_offsets"])] == b"\x07", header
)");
  const int status = std::system(format("python3 {} {}", scratch.file("read.py"), scratch.file("a")).c_str());
  if (WEXITSTATUS(status) == 127) GTEST_SKIP() << "no python3";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace megatoken
