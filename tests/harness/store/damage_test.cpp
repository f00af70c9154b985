// What happens to result files on full and read-only disks, under kill -9, and when somebody damages them.
#include <sys/mman.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <new>
#include <random>
#include <thread>

#include "harness/store/files.hpp"
#include "harness/store/hdf5.hpp"
#include "harness/store/result_file.hpp"
#include "tests/harness/store/expect.hpp"
#include "tests/harness/store/scratch.hpp"

namespace megatoken {
namespace {

const RunInfo kRun{.argv = {"test"}, .config_toml = "", .tags = {}};

/// Case number `index`, with everything else in the file told by that number.
void add_case(ResultFile& file, int64_t index) {
  auto& results = file.table("results");
  const int64_t row = results.append({{"key", format("case {}", index)}, {"seed", index}, {"status", "pass"}}, {{"t", index * 2}});
  for (int i = 0; i < 2; ++i) file.table("checks").append({{"result", row}, {"value", static_cast<double>(index)}});
  for (int i = 0; i < 3; ++i) file.table("samples").append({{"result", row}, {"iteration", i}});
}

/// Empty when the file holds whole cases 0, 1, 2, …; else what is wrong.
std::string inconsistency(const ResultReader& reader) {
  const auto& results = reader.table("results");
  const auto& checks = reader.table("checks");
  if (checks.rows() != 2 * results.rows() || reader.table("samples").rows() != 3 * results.rows())
    return format("{} results, {} checks, {} samples", results.rows(), checks.rows(), reader.table("samples").rows());
  for (int64_t row = 0; row < results.rows(); ++row) {
    const auto i = static_cast<size_t>(row);
    if (results.ints("seed")[i] != row || results.strings("key")[i] != format("case {}", row) || results.ints("t")[i] != 2 * row)
      return format("row {} holds {}", row, results.strings("key")[i]);
    if (checks.ints("result")[2 * i] != row || checks.floats("value")[2 * i + 1] != static_cast<double>(row))
      return format("the checks of row {} belong to row {}", row, checks.ints("result")[2 * i]);
  }
  return "";
}

/// A number that a parent and its children share.
class SharedCounter {
 public:
  SharedCounter() : value_(new (mmap(nullptr, sizeof *value_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>) {}
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  ~SharedCounter() { munmap(value_, sizeof *value_); }
  std::atomic<int>* operator->() { return value_; }

 private:
  std::atomic<int>* value_;
};

/// Adds cases until it is killed; counts the writes.
[[noreturn]] void write_for_ever(const std::string& path, SharedCounter& writes) {
  auto file = file_identity(path) ? ResultFile::resume(path, kRun) : ResultFile::create(path, kRun);
  for (int64_t index = file.table("results").rows();; ++index) {
    add_case(file, index);
    file.flush();
    writes->fetch_add(1);
  }
}

TEST(Damage, FilesOfKilledWritersOpenAndHoldWholeCases) {
  const Scratch scratch;
  const auto path = scratch.file("a.h5");
  SharedCounter writes;
  std::mt19937 random(1);
  int64_t rows = 0;
  for (int round = 0; round < 40; ++round) {
    writes->store(0);
    const pid_t child = fork();
    if (child == 0) write_for_ever(path, writes);
    const int wanted = (round + 1) % 4;  // killed while it starts, and after one to three writes
    while (!file_identity(path) || writes->load() < wanted) {
      ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "the writer ended by itself";
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the writer ended by itself";
    const ResultReader reader(path);
    ASSERT_EQ(inconsistency(reader), "") << "round " << round;
    EXPECT_EQ(text_field(reader.attributes(), "status"), "running");
    ASSERT_GE(reader.table("results").rows(), rows + writes->load()) << "rows were lost";
    rows = reader.table("results").rows();
  }
  auto file = ResultFile::resume(path, kRun);  // goes on where the last one was killed, and takes the stale PATH.tmp with it
  file.finish("complete");
  EXPECT_EQ(inconsistency(ResultReader(path)), "");
  EXPECT_EQ(scratch.listing(), "a.h5 ");
}

TEST(Damage, AReaderNeverSeesAHalfWrittenFile) {
  const Scratch scratch;
  const auto path = scratch.file("a.h5");
  SharedCounter writes;
  const pid_t child = fork();
  if (child == 0) write_for_ever(path, writes);
  int looks = 0, bad_looks = 0;
  while (writes->load() < 40 && waitpid(child, nullptr, WNOHANG) == 0) {
    const auto bytes = file_bytes(path);
    if (bytes.empty() && writes->load() == 0) continue;  // not there yet
    const bool whole = bytes.size() > 16 && bytes.substr(bytes.size() - 16, 8) == "MTSEAL1:";
    bad_looks += !whole;
    ++looks;
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(bad_looks, 0) << "of " << looks;
  EXPECT_GE(writes->load(), 40) << "the writer ended by itself";
  EXPECT_GT(looks, 40);
}

/// Adds cases until the disk is full; returns the error.
std::string fill_disk(const std::string& path) {
  auto file = ResultFile::create(path, kRun);
  return error_of(ErrorKind::Environment, [&] {
    for (int64_t index = 0; index < 100000; ++index) {
      add_case(file, index);
      if (index % 100 == 0) file.flush();
    }
  });
}

std::string judge_last_good_file(const std::string& path) {
  const ResultReader reader(path);
  return inconsistency(reader) + (reader.table("results").rows() > 0 ? "good" : "empty");
}

TEST(Damage, AFileSizeLimitIsOneErrorAndTheLastGoodFileStays) {
  const Scratch scratch;
  const auto path = scratch.file("a.h5");
  const auto text = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{400000, 400000};
    setrlimit(RLIMIT_FSIZE, &limit);
    return fill_disk(path);
  });
  EXPECT_EQ(text, format("cannot write {}: File too large; free space or choose another output", path));
  EXPECT_EQ(judge_last_good_file(path), "good");
  EXPECT_EQ(scratch.listing(), "a.h5 ");
}

TEST(Damage, AFullDiskIsOneErrorAndTheLastGoodFileStays) {
  const Scratch scratch;
  const auto path = scratch.file("a.h5");
  const auto text = in_child([&] {
    if (!mount_small(scratch.folder(), "size=1m")) return std::string("no mount");
    const auto error = fill_disk(path);
    return error + " | " + judge_last_good_file(path) + " " + scratch.listing();
  });
  if (text == "no mount") GTEST_SKIP() << "mounting a small disk needs root";
  EXPECT_EQ(text, format("cannot write {}: No space left on device; free space or choose another output | good a.h5 ", path));
}

TEST(Damage, AReadOnlyFolderIsOneError) {
  const Scratch scratch;
  const auto path = scratch.file("a.h5");
  const auto text = in_child([&] {
    if (!mount_small(scratch.folder(), "size=1m", MS_RDONLY)) return std::string("no mount");
    return error_of(ErrorKind::Environment, [&] { ResultFile::create(path, kRun); });
  });
  if (text == "no mount") GTEST_SKIP() << "mounting a read-only disk needs root";
  EXPECT_EQ(text, format("cannot write {}: Read-only file system; choose another output", path));
}

TEST(Damage, AMissingFolderIsOneError) {
  const auto text = error_of(ErrorKind::Environment, [] { ResultFile::create("/proc/no/such/a.h5", kRun); });
  EXPECT_EQ(text, "cannot write /proc/no/such/a.h5: No such file or directory; make its folder or choose another output");
}

class DamagedFile : public testing::Test {
 protected:
  void SetUp() override {
    auto file = ResultFile::create(path_, kRun);
    for (int64_t index = 0; index < 50; ++index) add_case(file, index);
    file.finish("complete");
    good_ = file_bytes(path_);
  }
  /// What reading these bytes says; "" when they are read.
  std::string complaint(const std::string& bytes) {
    put_bytes(path_, bytes);
    try {
      const ResultReader reader(path_);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage) << error.what();
      EXPECT_TRUE(contains(error.what(), path_));
      EXPECT_FALSE(error.hint().empty()) << error.what();
      return error.what();
    }
  }

  Scratch scratch_;
  std::string path_ = scratch_.file("a.h5");
  std::string good_;
};

TEST_F(DamagedFile, TruncatedAnywhereIsRefusedByName) {
  EXPECT_EQ(complaint(good_), "");
  for (size_t i = 0; i < 200; ++i) EXPECT_NE(complaint(good_.substr(0, good_.size() * i / 200)), "") << "cut to " << i << "/200";
}

TEST_F(DamagedFile, WithOneFlippedBitIsRefusedBeforeHdf5CanCrashOnIt) {
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = good_;
    bytes[random() % (bytes.size() - 16)] ^= static_cast<char>(1 << random() % 8);
    EXPECT_TRUE(contains(complaint(bytes), "is damaged: its checksum does not fit; restore it or make it again"));
  }
  std::string bytes = good_;
  bytes[bytes.size() - 16] = 'm';  // the seal itself: the contents are whole
  EXPECT_EQ(complaint(bytes), "");
}

TEST_F(DamagedFile, OfAnotherKindIsRefusedByName) {
  EXPECT_TRUE(contains(complaint("key,status\n"), "is not an HDF5 file"));
  EXPECT_TRUE(contains(complaint(""), "is not an HDF5 file"));
  auto foreign = hdf5::File::in_memory(path_);
  foreign.create_column("x", std::vector<int64_t>{1}, ColumnType::Int);
  const auto bytes = std::move(foreign).image();
  EXPECT_TRUE(contains(complaint({reinterpret_cast<const char*>(bytes.data()), bytes.size()}), "no result file of megatoken"));
}

/// A result file with other attributes and one table.
std::string with_table(const std::string& version, const std::vector<std::string>& columns, const std::vector<int64_t>& seeds) {
  auto file = hdf5::File::in_memory("x.h5");
  file.set_attributes({{"schema", "megatoken-result"}, {"schema_version", version}});
  {
    auto group = file.create_group("results");
    group.set_attributes({{"table", 1}, {"columns", columns}});
    group.create_column("key", std::vector<std::string>{"a", "b"}, ColumnType::String);
    group.create_column("seed", seeds, ColumnType::Int);
    group.create_column("attempt", std::vector<double>{1, 2}, ColumnType::Float);
    group.create_column("future", std::vector<int64_t>{5, 6}, ColumnType::Int);
  }
  const auto bytes = std::move(file).image();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(DamagedFile, OfAnotherVersionIsReadWhenItCanBe) {
  EXPECT_TRUE(contains(complaint(with_table("2.0", {"key"}, {1, 2})), "has schema 2.0, this program reads 1.0; use a newer megatoken"));
  EXPECT_TRUE(contains(complaint(with_table("one", {"key"}, {1, 2})), "no valid schema_version ('one')"));
  EXPECT_EQ(complaint(with_table("1.9", {"key", "seed", "future"}, {1, 2})), "");
  const ResultReader reader(path_);
  EXPECT_EQ(reader.table("results").ints("future"), (std::vector<int64_t>{5, 6}));  // a later column is kept
  EXPECT_EQ(reader.table("results").strings("status"), (std::vector<std::string>{"", ""}));  // a column it lacks is missing
  EXPECT_EQ(reader.table("checks").rows(), 0);
  EXPECT_TRUE(contains(error_of(ErrorKind::Usage, [&] { ResultFile::resume(path_, kRun); }), "has schema 1.9, this program writes 1.0"));
}

TEST_F(DamagedFile, WithTablesThatContradictThemselvesIsRefused) {
  EXPECT_TRUE(contains(complaint(with_table("1.0", {"key", "seed"}, {1, 2, 3})), "column 'seed' has 3 rows, 'key' has 2"));
  EXPECT_TRUE(contains(complaint(with_table("1.0", {"key", "gone"}, {1, 2})), "cannot open 'gone' at /results"));
  EXPECT_TRUE(contains(complaint(with_table("1.0", {"key", "attempt"}, {1, 2})), "type float as int at /results/attempt"));
}

}  // namespace
}  // namespace megatoken
