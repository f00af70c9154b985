// megatoken data as people use it: what list shows, what verify finds, exit codes, and errors of one line. No network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

namespace megatoken {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DataVerb : public testing::Test {
 protected:
  struct Outcome {
    int code;
    std::string out, err;
  };

  void SetUp() override {
    folder_ = fs::temp_directory_path() / (std::string("megatoken_data_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  std::string text(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Outcome data(const std::string& arguments, const std::string& environment = "MEGATOKEN_DATA=") const {
    const std::string command = "cd " + folder_.string() + " && " + environment + " " MEGATOKEN_BINARY_DIR "/megatoken data " + arguments + " >out.txt 2>err.txt";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text("out.txt"), text("err.txt")};
  }

  fs::path folder_;
};

TEST_F(DataVerb, ListSaysWhatIsThereAndWhatItIs) {
  const Outcome absent = data("list austen/emma");
  EXPECT_EQ(absent.code, 0) << absent.err;
  EXPECT_THAT(absent.out, HasSubstr("austen/emma  absent  883028"));
  EXPECT_THAT(absent.out, HasSubstr("Debian r-cran-janeaustenr, 1.6 MiB, quick"));
  write("mine/books/diary.txt", "Today\n");
  write("mine/genome/hg38.chr22.fa", ">chr22\nACGT\n");
  for (const auto& [arguments, environment] : {std::pair<std::string, std::string>{"list --data mine", "MEGATOKEN_DATA="}, {"list", "MEGATOKEN_DATA=mine"}}) {
    const Outcome listed = data(arguments, environment);
    EXPECT_EQ(listed.code, 0) << listed.err;
    EXPECT_THAT(listed.out, HasSubstr("mine/books/diary.txt"));
    EXPECT_THAT(listed.out, HasSubstr("unknown contig"));  // its name and header say chr22, its bases do not
  }
}

TEST_F(DataVerb, VerifyExitsWithOneAndNamesTheFileThatDiffers) {
  write("mine/books/emma.txt", "not the novel");
  write("mine/books/diary.txt", "Today\n");
  const Outcome outcome = data("verify --data mine");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("FAILED  austen/emma: 13 bytes instead of 883028 (mine/books/emma.txt)"));
  EXPECT_THAT(outcome.out, HasSubstr("ok      diary"));
  EXPECT_THAT(outcome.out, HasSubstr("1 of 2 files are right"));
  EXPECT_EQ(data("verify --data mine diary").code, 0);
  EXPECT_THAT(data("list --data mine diary").out, HasSubstr("verified"));
}

TEST_F(DataVerb, TheFolderOfTheEnvironmentIsNeverWritten) {
  write("shared/books/diary.txt", "Today\n");
  EXPECT_EQ(data("verify", "MEGATOKEN_DATA=shared").code, 0);
  int files = 0;
  for (const auto& item : fs::recursive_directory_iterator(folder_ / "shared")) files += item.is_regular_file();
  EXPECT_EQ(files, 1);
}

TEST_F(DataVerb, BadInputIsOneLineWithTheRightExitCode) {
  write("file", "x");
  const struct {
    std::string arguments, environment;
    int code;
    std::string word;
  } cases[] = {{"", "", 2, "list, fetch or verify"},
               {"lst", "", 2, "did you mean list?"},
               {"fetch austn", "", 2, "did you mean austen?"},
               {"fetch gutenberg", "", 2, "gutenberg/{}"},
               {"list 'hg39.*'", "", 2, "unknown data set 'hg39.*'"},
               {"list --dta x", "", 2, "--data"},
               {"list --data nowhere", "", 2, "--data names 'nowhere'"},
               {"list", "MEGATOKEN_DATA=nowhere", 2, "MEGATOKEN_DATA names 'nowhere'"},
               {"verify", "MEGATOKEN_DATA=", 2, "nothing to verify"},
               {"fetch austen --data file/below", "MEGATOKEN_DATA=", 5, "--data FOLDER that can be written"}};
  for (const auto& c : cases) {
    const Outcome outcome = data(c.arguments, c.environment);
    EXPECT_EQ(outcome.code, c.code) << c.arguments << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(c.word)) << c.arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << c.arguments << "\n" << outcome.err;
    EXPECT_FALSE(fs::exists(folder_ / "data")) << c.arguments;
  }
}

}  // namespace
}  // namespace megatoken
