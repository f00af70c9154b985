#include "harness/store/files.hpp"

#include <sys/resource.h>

#include <csignal>

#include "tests/harness/store/expect.hpp"
#include "tests/harness/store/scratch.hpp"

namespace megatoken {
namespace {

TEST(Files, AreWrittenWholeAndLeaveNothingBeside) {
  const Scratch scratch;
  write_file(scratch.file("a"), "one");
  write_file(scratch.file("a"), "two");
  EXPECT_EQ(file_bytes(scratch.file("a")), "two");
  EXPECT_EQ(scratch.listing(), "a ");
}

TEST(Files, AreNotOverwrittenByCreate) {
  const Scratch scratch;
  create_file(scratch.file("a"), std::as_bytes(std::span(std::string_view("one"))));
  const auto text = error_of(ErrorKind::Usage, [&] { create_file(scratch.file("a"), std::as_bytes(std::span(std::string_view("two")))); });
  EXPECT_TRUE(contains(text, scratch.file("a") + " exists and is never overwritten"));
  EXPECT_EQ(file_bytes(scratch.file("a")), "one");
  EXPECT_EQ(scratch.listing(), "a ");
}

TEST(Files, CreateLetsExactlyOneOfManyProcessesWin) {
  const Scratch scratch;
  constexpr int kProcesses = 16;
  for (int i = 0; i < kProcesses; ++i) {
    if (fork() != 0) continue;
    const auto text = format("process {}", i);
    try {
      create_file(scratch.file("a"), std::as_bytes(std::span(text)));
      _exit(0);
    } catch (const Error& error) {
      _exit(error.kind() == ErrorKind::Usage ? 1 : 2);
    }
  }
  int wins = 0, losses = 0;
  for (int status = 0; wait(&status) > 0;) {
    wins += WEXITSTATUS(status) == 0;
    losses += WEXITSTATUS(status) == 1;
  }
  EXPECT_EQ(wins, 1);
  EXPECT_EQ(losses, kProcesses - 1);
  EXPECT_EQ(file_bytes(scratch.file("a")).substr(0, 8), "process ");
  EXPECT_EQ(scratch.listing(), "a ");
}

TEST(Files, OnAFullDiskKeepTheLastGoodOne) {
  const Scratch scratch;
  const auto path = scratch.file("a");
  write_file(path, "good");
  const auto text = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    return error_of(ErrorKind::Environment, [&] { write_file(path, std::string(2000, 'x')); });
  });
  EXPECT_EQ(text, format("cannot write {}: File too large; free space or choose another output", path));
  EXPECT_EQ(file_bytes(path), "good");
  EXPECT_EQ(scratch.listing(), "a ");
}

TEST(Files, InAMissingFolderSayWhatToDo) {
  const Scratch scratch;
  const auto text = error_of(ErrorKind::Environment, [&] { write_file(scratch.file("no/a"), "x"); });
  EXPECT_TRUE(contains(text, "no/a: No such file or directory; make its folder"));
}

}  // namespace
}  // namespace megatoken
