#include "harness/store/hdf5.hpp"

#include <limits>

#include "harness/store/files.hpp"
#include "tests/harness/store/expect.hpp"
#include "tests/harness/store/scratch.hpp"

namespace megatoken::hdf5 {
namespace {

/// Writes a file through `fill` and opens it again.
template <class Fill>
File written(const Scratch& scratch, Fill&& fill) {
  auto file = File::in_memory(scratch.file("a.h5"));
  fill(file);
  write_file(scratch.file("a.h5"), std::move(file).image());
  return File::open(scratch.file("a.h5"));
}

TEST(Hdf5, AttributesOfEveryKindComeBack) {
  const Scratch scratch;
  const Fields fields{{"empty", ""},
                      {"flag", 1},
                      {"list", std::vector<std::string>{"a b", "", "αβγ"}},
                      {"no_list", std::vector<std::string>{}},
                      {"number", 0.1},
                      {"text", std::string(100000, 'x')},  // longer than an object header may be
                      {"tokens", int64_t{1} << 40}};
  const auto file = written(scratch, [&](File& out) {
    out.set_attributes(fields);
    out.set_attribute("flag", true);  // replaces, and a bool is an int in the file
    out.set_attribute("text", *find_field(fields, "text"));
  });
  EXPECT_EQ(file.attributes(), fields);
  EXPECT_TRUE(file.has_attribute("list"));
  EXPECT_FALSE(file.has_attribute("lists"));
}

TEST(Hdf5, ColumnsOfEveryTypeComeBack) {
  const Scratch scratch;
  std::vector<double> floats{0.1, -std::numeric_limits<double>::infinity(), 5e-324};
  std::vector<int64_t> ints(5000), flags{1, 0, -1};
  for (size_t i = 0; i < ints.size(); ++i) ints[i] = static_cast<int64_t>(i) * (int64_t{1} << 41) - 7;
  std::vector<std::string> texts{"", "αβ", std::string(3000, 'y'), "tab\tquote\""};
  const auto file = written(scratch, [&](File& out) {
    auto group = out.create_group("table");
    group.create_column("float", floats, ColumnType::Float);
    group.create_column("int", ints, ColumnType::Int);
    group.create_column("flag", flags, ColumnType::Bool);
    group.create_column("text", texts, ColumnType::String);
    group.create_column("nothing", std::vector<std::string>{}, ColumnType::String);
  });
  const auto group = file.group("table");
  EXPECT_EQ(group.names(), (std::vector<std::string>{"flag", "float", "int", "nothing", "text"}));
  for (const auto& [name, type] : {std::pair{"float", ColumnType::Float}, {"int", ColumnType::Int}, {"flag", ColumnType::Bool},
                                   {"text", ColumnType::String}})
    EXPECT_EQ(group.dataset(name).column_type(), type) << name;
  EXPECT_EQ(std::get<std::vector<double>>(group.dataset("float").column(ColumnType::Float)), floats);
  EXPECT_EQ(std::get<std::vector<int64_t>>(group.dataset("int").column(ColumnType::Int)), ints);
  EXPECT_EQ(std::get<std::vector<int64_t>>(group.dataset("flag").column(ColumnType::Bool)), flags);
  EXPECT_EQ(std::get<std::vector<std::string>>(group.dataset("text").column(ColumnType::String)), texts);
  EXPECT_TRUE(std::get<std::vector<std::string>>(group.dataset("nothing").column(ColumnType::String)).empty());
  const auto text = error_of(ErrorKind::Usage, [&] { (void)group.dataset("int").column(ColumnType::Float); });
  EXPECT_TRUE(contains(text, "type int as float at /table/int"));
}

TEST(Hdf5, TextThatIsNotUtf8IsMadeReadable) {
  const Scratch scratch;
  const auto file = written(scratch, [](File& out) {
    out.set_attribute("text", std::string("a\xff\xc3z\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf") + std::string("\0end", 4));
    out.create_column("column", std::vector<std::string>{"\xe2\x82", "\xe2\x82\xac"}, ColumnType::String);
  });
  const std::string bad = "\xef\xbf\xbd";
  std::string expected = "a" + bad + bad + "z";
  for (int i = 0; i < 9; ++i) expected += bad;
  EXPECT_EQ(file.attribute("text"), Value(expected + bad + "end"));
  const auto column = std::get<std::vector<std::string>>(file.dataset("column").column(ColumnType::String));
  EXPECT_EQ(column, (std::vector<std::string>{bad + bad, "€"}));
}

TEST(Hdf5, TensorsOfEveryDtypeComeBackBitForBit) {
  const Scratch scratch;
  const std::vector<DType> dtypes{DType::F64, DType::F32, DType::F16, DType::BF16, DType::E4M3, DType::I32, DType::I64, DType::U8};
  std::vector<Tensor> tensors;
  for (const DType dtype : dtypes) {
    Tensor tensor(dtype, {7, 3, 5});
    for (int64_t i = 0; i < tensor->bytes(); ++i) static_cast<uint8_t*>(tensor->data)[i] = static_cast<uint8_t>(i * 37 + 11);
    tensors.push_back(tensor);
  }
  const auto file = written(scratch, [&](File& out) {
    for (const Tensor& tensor : tensors) out.create_tensor(to_string(tensor->dtype), tensor);
    out.create_tensor("part", tensors[3]->slice(2, 1, 3));  // strided: packed on the way
    out.create_tensor("none", Tensor(DType::BF16, {0, 4}));
  });
  for (const Tensor& tensor : tensors) {
    const Tensor read = file.dataset(to_string(tensor->dtype)).tensor();
    ASSERT_EQ(read->dtype, tensor->dtype);
    ASSERT_EQ(read->shape, tensor->shape);
    EXPECT_EQ(std::memcmp(read->data, tensor->data, static_cast<size_t>(tensor->bytes())), 0) << to_string(tensor->dtype);
  }
  const Tensor part = file.dataset("part").tensor();
  EXPECT_EQ(part->shape, (Dims{7, 3, 2}));
  EXPECT_EQ(part.as<BFloat16>()[5].bits, tensors[3].as<BFloat16>()[(2 * 5) + 2].bits);
  EXPECT_EQ(file.dataset("none").tensor()->shape, (Dims{0, 4}));
}

TEST(Hdf5, TensorsLargerThanAChunkComeBack) {
  const Scratch scratch;
  Tensor tensor(DType::I32, {3, 1000, 500});
  for (int32_t i = 0; i < 1500000; ++i) tensor.as<int32_t>()[i] = i;
  const auto file = written(scratch, [&](File& out) { out.create_tensor("x", tensor); });
  const Tensor read = file.dataset("x").tensor();
  EXPECT_EQ(std::memcmp(read->data, tensor->data, static_cast<size_t>(tensor->bytes())), 0);
}

TEST(Hdf5, MissingAndForeignFilesAreNamed) {
  const Scratch scratch;
  EXPECT_TRUE(contains(error_of(ErrorKind::Usage, [&] { File::open(scratch.file("no.h5")); }), "no.h5: No such file"));
  EXPECT_TRUE(contains(error_of(ErrorKind::Usage, [&] { File::open(scratch.folder()); }), "is no file"));
  put_bytes(scratch.file("text.h5"), "Call me Ishmael.");
  EXPECT_TRUE(contains(error_of(ErrorKind::Usage, [&] { File::open(scratch.file("text.h5")); }), "text.h5 is not an HDF5 file"));
  put_bytes(scratch.file("empty.h5"), "");
  EXPECT_TRUE(contains(error_of(ErrorKind::Usage, [&] { File::open(scratch.file("empty.h5")); }), "empty.h5 is not an HDF5 file"));
  const auto file = written(scratch, [](File&) {});
  EXPECT_TRUE(contains(error_of(ErrorKind::Usage, [&] { (void)file.dataset("gone"); }), "a.h5: cannot open 'gone' at /"));
  EXPECT_TRUE(contains(error_of(ErrorKind::Usage, [&] { (void)file.attribute("gone"); }), "cannot read attribute 'gone'"));
}

}  // namespace
}  // namespace megatoken::hdf5
