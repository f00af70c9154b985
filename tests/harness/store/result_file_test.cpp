#include "harness/store/result_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "harness/store/build_info.hpp"
#include "harness/store/files.hpp"
#include "harness/store/hdf5.hpp"
#include "tests/harness/store/expect.hpp"
#include "tests/harness/store/scratch.hpp"

namespace megatoken {
namespace {

const RunInfo kRun{.argv = {"megatoken", "check", "größe=1"}, .config_toml = "suite = 'ci'\n", .tags = {{"host", "a \"b\""}}};

void add_case(ResultFile& file, const std::string& key, const std::string& status = "pass") {
  const int64_t row = file.table("results").append({{"key", key}, {"status", status}}, {{"t", 64}});
  file.table("checks").append({{"result", row}, {"output", "o"}, {"passed", true}});
}

TEST(ResultFile, ComesBackAsItWasWritten) {
  const Scratch scratch;
  setenv("NCCL_TEST_OF_THE_STORE", "1", 1);
  setenv("SECRET_TEST_OF_THE_STORE", "1", 1);
  auto file = ResultFile::create(scratch.file("a.h5"), kRun);
  add_case(file, "one");
  file.table("samples").append({{"result", 0}, {"time", 0.25}, {"discarded", false}});
  file.set_provenance("cuda_driver", "580.1");
  file.finish("complete");

  const ResultReader reader(scratch.file("a.h5"));
  EXPECT_EQ(text_field(reader.attributes(), "status"), "complete");
  EXPECT_EQ(text_field(reader.attributes(), "config_toml"), "suite = 'ci'\n");
  EXPECT_EQ(*find_field(reader.attributes(), "argv"), Value(kRun.argv));
  EXPECT_EQ(text_field(reader.attributes(), "run_id").size(), 36u);
  EXPECT_EQ(text_field(reader.attributes(), "run_id")[14], '4');
  EXPECT_EQ(text_field(reader.attributes(), "tool_version"), build_info().version);
  EXPECT_EQ(text_field(reader.provenance(), "cuda_driver"), "580.1");
  EXPECT_EQ(text_field(reader.provenance(), "git_commit"), build_info().git_commit);
  EXPECT_FALSE(text_field(reader.provenance(), "kernel").empty());
  const auto& names = *find_field(reader.provenance(), "env_names")->if_is<std::vector<std::string>>();
  EXPECT_EQ(std::ranges::count(names, "NCCL_TEST_OF_THE_STORE"), 1);
  EXPECT_EQ(std::ranges::count(names, "SECRET_TEST_OF_THE_STORE"), 0);
  ASSERT_EQ(reader.data().tables.size(), file.data().tables.size());
  for (const auto& table : file.data().tables) {
    const Table& read = reader.table(table.name());
    EXPECT_EQ(read.rows(), table.rows()) << table.name();
    for (const auto& column : table.columns())
      for (int64_t row = 0; row < table.rows(); ++row)
        EXPECT_EQ(read.text(row, column.schema.name), table.text(row, column.schema.name)) << table.name() << "/" << column.schema.name;
  }
  EXPECT_EQ(reader.table("results").column("t").schema.meaning, "tokens");
  EXPECT_EQ(scratch.listing(), "a.h5 ");
}

TEST(ResultFile, HoldsWhatTheSchemaSays) {
  const Scratch scratch;
  ResultFile::create(scratch.file("a.h5"), kRun).finish("complete");
  const auto file = hdf5::File::open(scratch.file("a.h5"));
  std::vector<std::string> tables;
  for (const auto& name : file.names())
    if (file.group(name).has_attribute("table")) tables.push_back(name);
  EXPECT_EQ(tables.size(), result_schema().tables.size());
  for (const auto& schema : result_schema().tables) {
    const auto group = file.group(schema.name);
    std::vector<std::string> names;
    for (const auto& column : schema.columns) {
      names.push_back(column.name);
      const auto dataset = group.dataset(column.name);
      EXPECT_EQ(dataset.column_type(), column.type) << schema.name << "/" << column.name;
      EXPECT_EQ(dataset.attribute("units"), Value(column.units)) << schema.name << "/" << column.name;
      EXPECT_EQ(dataset.attribute("long_name"), Value(column.meaning)) << schema.name << "/" << column.name;
    }
    EXPECT_EQ(group.attribute("columns"), Value(names));
    EXPECT_EQ(group.names().size(), names.size() + 1) << schema.name << ": the columns and their scale";
  }
}

TEST(ResultFile, IsNeverOverwritten) {
  const Scratch scratch;
  ResultFile::create(scratch.file("a.h5"), kRun).finish("complete");
  const auto before = file_bytes(scratch.file("a.h5"));
  const auto text = error_of(ErrorKind::Usage, [&] { ResultFile::create(scratch.file("a.h5"), kRun); });
  EXPECT_EQ(text, scratch.file("a.h5") + " exists and is never overwritten; name another output, or go on with it with --resume");
  EXPECT_EQ(file_bytes(scratch.file("a.h5")), before);
  EXPECT_EQ(scratch.listing(), "a.h5 ");
}

TEST(ResultFile, GetsANameOfItsOwnByDefault) {
  const Scratch scratch;
  const auto text = in_child([&] {
    std::filesystem::current_path(scratch.folder());
    const auto first = ResultFile::create("", kRun), second = ResultFile::create("", kRun);
    return first.path() != second.path() ? first.path() : "the same name twice";
  });
  EXPECT_TRUE(text.starts_with("results/2") && text.ends_with(".h5")) << text;
  EXPECT_TRUE(std::filesystem::exists(scratch.folder() / text));
}

TEST(ResultFile, WritesAtOnceOnFlushButRarelyAtCheckpoints) {
  const Scratch scratch;
  auto file = ResultFile::create(scratch.file("a.h5"), kRun);
  add_case(file, "one");
  EXPECT_FALSE(file.checkpoint());  // the file was written less than 10 s ago
  EXPECT_EQ(ResultReader(file.path()).table("results").rows(), 0);
  file.flush();
  const ResultReader reader(file.path());
  EXPECT_EQ(reader.table("results").rows(), 1);
  EXPECT_EQ(text_field(reader.attributes(), "status"), "running");
}

TEST(ResultFile, LeftUnfinishedIsAbortedWithoutTheCaseInProgress) {
  const Scratch scratch;
  try {
    auto file = ResultFile::create(scratch.file("a.h5"), kRun);
    add_case(file, "whole");
    file.checkpoint();
    file.table("results").append({{"key", "half"}});
    file.save_tensor(1, "o", Tensor::zeros(DType::F32, {4}), "t", "out");
    throw std::runtime_error("the case failed");
  } catch (const std::runtime_error&) {
  }
  const ResultReader reader(scratch.file("a.h5"));
  EXPECT_EQ(text_field(reader.attributes(), "status"), "aborted");
  EXPECT_EQ(reader.table("results").strings("key"), std::vector<std::string>{"whole"});
  EXPECT_TRUE(reader.tensors(1).empty());
}

TEST(ResultFile, ResumesWithAllRowsAndTensors) {
  const Scratch scratch;
  const auto path = scratch.file("a.h5");
  {
    auto file = ResultFile::create(path, kRun);
    add_case(file, "one");
    add_case(file, "later", "not_run");
    file.save_tensor(0, "o", Tensor::zeros(DType::BF16, {4}), "t", "out");
    file.flush();
  }
  const auto before = ResultReader(path);
  {
    auto file = ResultFile::resume(path, {.argv = {"megatoken", "--resume"}, .config_toml = "", .tags = {}});
    EXPECT_EQ(file.finished_keys(), std::set<std::string>{"one"});
    EXPECT_EQ(text_field(ResultReader(path).attributes(), "status"), "running");
    add_case(file, "two");
    EXPECT_THROW(file.save_tensor(0, "o", Tensor::zeros(DType::BF16, {4}), "t", "out"), Error);
    file.save_tensor(2, "o", Tensor::zeros(DType::BF16, {5}), "t", "out");
    file.finish("complete");
  }
  const ResultReader reader(path);
  EXPECT_EQ(reader.table("results").strings("key"), (std::vector<std::string>{"one", "later", "two"}));
  EXPECT_EQ(reader.table("checks").ints("result"), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(reader.table("results").ints("t"), (std::vector<int64_t>{64, 64, 64}));
  for (const auto* kept : {"run_id", "created", "config_toml", "tags_json"})
    EXPECT_EQ(text_field(reader.attributes(), kept), text_field(before.attributes(), kept)) << kept;
  EXPECT_EQ(find_field(reader.attributes(), "resumed")->if_is<std::vector<std::string>>()->size(), 1u);
  EXPECT_EQ(text_field(reader.attributes(), "status"), "complete");
  ASSERT_EQ(reader.tensors(0).size(), 1u);
  EXPECT_EQ(reader.tensors(2).at(0).tensor->shape, Dims{5});
}

TEST(ResultFile, KeepsTensorsThroughLaterCheckpoints) {
  const Scratch scratch;
  auto file = ResultFile::create(scratch.file("a.h5"), kRun);
  add_case(file, "one");
  Tensor tensor(DType::BF16, {3});
  for (int64_t i = 0; i < 3; ++i) set_value(tensor, i, static_cast<double>(i) + 0.5);
  file.save_tensor(0, "dk", tensor, "t", "oracle");
  set_value(tensor, 0, 9);  // the file keeps a copy
  for (int i = 0; i < 3; ++i) file.flush();
  const auto saved = ResultReader(file.path()).tensors(0);
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].name, "dk");
  EXPECT_EQ(saved[0].layout, "t");
  EXPECT_EQ(saved[0].role, "oracle");
  EXPECT_EQ(value_at(saved[0].tensor, 0), 0.5);
  EXPECT_TRUE(contains(error_of(ErrorKind::Usage, [&] { file.save_tensor(1, "o", tensor, "t", "out"); }), "row 1 of 1 results"));
  EXPECT_TRUE(contains(error_of(ErrorKind::Usage, [&] { file.save_tensor(0, "a/b", tensor, "t", "out"); }), "'a/b' is no name"));
}

TEST(ResultFile, IsNotWrittenOverTheFileOfAnotherRun) {
  const Scratch scratch;
  auto file = ResultFile::create(scratch.file("a.h5"), kRun);
  add_case(file, "mine");
  std::filesystem::remove(scratch.file("a.h5"));
  ResultFile::create(scratch.file("a.h5"), kRun).finish("complete");
  const auto other = file_bytes(scratch.file("a.h5"));
  EXPECT_TRUE(contains(error_of(ErrorKind::Environment, [&] { file.flush(); }), "a.h5 was replaced by another program"));
  EXPECT_EQ(file_bytes(scratch.file("a.h5")), other);
}

// What a reused inode looks like: the same number, another content.
TEST(ResultFile, IsNotWrittenOverAFileWithTheInodeOfItsOwn) {
  const Scratch scratch;
  auto file = ResultFile::create(scratch.file("a.h5"), kRun);
  const auto before = file_identity(scratch.file("a.h5"));
  {
    std::fstream other(scratch.file("a.h5"), std::ios::in | std::ios::out | std::ios::binary);
    other.seekp(0, std::ios::end);
    other << "theirs";
  }
  ASSERT_EQ(file_identity(scratch.file("a.h5"))->inode, before->inode);
  add_case(file, "mine");
  EXPECT_TRUE(contains(error_of(ErrorKind::Environment, [&] { file.flush(); }), "a.h5 was replaced by another program"));
}

TEST(ResultFileInPython, ReadsEveryTableInOneLine) {
  const Scratch scratch;
  auto file = ResultFile::create(scratch.file("a.h5"), kRun);
  file.table("results").append({{"key", "attention/cpu fwd fp32 t=64"}, {"status", "pass"}, {"time_median", 1e-3}, {"deterministic", true}},
                               {{"t", 64}, {"scale", 0.125}});
  file.table("results").append({{"key", "attention/gpu"}, {"status", "skipped"}, {"reason", "no_device: “none”"}});
  for (const auto* output : {"o", "dk"}) file.table("checks").append({{"result", 0}, {"output", output}});
  for (const DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16, DType::E4M3, DType::I32, DType::I64, DType::U8}) {
    Tensor tensor(dtype, {6});
    const std::vector<double> values = is_float(dtype) ? std::vector<double>{0, 1, -1.5, 0.15625, std::ldexp(1.0, -14), 448}
                                                       : std::vector<double>{0, 1, 2, 3, 4, 100};
    for (int64_t i = 0; i < 6; ++i) set_value(tensor, i, values[static_cast<size_t>(i)]);
    file.save_tensor(0, to_string(dtype), tensor, "t", "out");
  }
  Tensor extremes(DType::BF16, {4});  // largest, infinity, NaN, smallest
  for (const auto& [i, bits] : {std::pair{0, 0x7f7f}, {1, 0x7f80}, {2, 0x7fc0}, {3, 0x0001}})
    extremes.as<BFloat16>()[i].bits = static_cast<uint16_t>(bits);
  file.save_tensor(1, "bf16", extremes, "t", "out");
  file.finish("complete");

  const std::string python = build_info().plot_python.empty() ? "/usr/bin/python3" : build_info().plot_python;
  const std::string output = scratch.file("output");
  const int status = std::system(
      format("{} {}/tests/harness/store/read_with_h5py.py {} > {} 2>&1", python, MEGATOKEN_SOURCE_DIR, scratch.file("a.h5"), output).c_str());
  if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) GTEST_SKIP() << python << " has no h5py: " << file_bytes(output);
  EXPECT_EQ(WEXITSTATUS(status), 0) << file_bytes(output);
  EXPECT_EQ(file_bytes(output), format("read {} tables\n", result_schema().tables.size()));
}

TEST(ResultFile, ReadmeListsItsTables) {
  const auto readme = file_bytes(MEGATOKEN_SOURCE_DIR "/harness/store/README.md"), tables = schema_markdown(result_schema());
  if (readme.ends_with(tables)) return;
  const std::string fresh = MEGATOKEN_BINARY_DIR "/store_readme.md";
  put_bytes(fresh, readme.substr(0, readme.find("### /")) + tables);
  ADD_FAILURE() << "schema.toml changed: copy " << fresh << " to harness/store/README.md";
}

}  // namespace
}  // namespace megatoken
