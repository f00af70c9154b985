// Fetching without a network: addresses are file:// (curl continues those as it does https), and packages are built here with dpkg-deb.
#include "datasets/fetch.hpp"

#include <cstdlib>

#include "datasets/debian_package.hpp"
#include "datasets/digest.hpp"
#include "datasets/download.hpp"
#include "datasets/process.hpp"
#include "datasets/records.hpp"
#include "tests/datasets/files.hpp"

namespace megatoken {
namespace {

using namespace testing;
namespace fs = std::filesystem;

bool has_program(const std::string& name) { return std::system(("command -v " + name + " > /dev/null 2>&1").c_str()) == 0; }

#define PROGRAM_OR_SKIP(name) \
  if (!has_program(name)) GTEST_SKIP() << name << " is not installed"

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& item : fs::recursive_directory_iterator(folder))
    if (item.is_regular_file()) names.push_back(fs::relative(item.path(), folder).string());
  std::sort(names.begin(), names.end());
  return names;
}

/// One set of one file at a file:// address, and the folder it goes to.
struct Download {
  TempFolder source, target;
  std::string url, sha256;
  std::vector<std::string> said;

  explicit Download(const std::string& bytes) : url("file://" + source.write("book.txt", bytes)), sha256(sha256_hex(bytes)) {}

  void fetch(bool with_checksum, bool again = false) {
    const Manifest manifest = parse_manifest("[[set]]\nname = \"a\"\nwhat = \"w\"\nlicence = \"l\"\nfiles = [{path = \"books/a.txt\", url = \"" + url + "\"" +
                                                 (with_checksum ? ", sha256 = \"" + sha256 + "\"" : "") + "}]\n", "test");
    said.clear();
    fetch_data(manifest.sets[0], Catalog(manifest, {target.path()}), {target.path(), again, [&](const std::string& line) { said.push_back(line); }});
  }
};

TEST(Process, ReturnsCodeErrorsAndOutput) {
  const TempFolder folder;
  const ProcessResult result = run_process({"sh", "-c", "pwd; echo first >&2; echo last >&2; echo >&2; exit 7"}, folder.path(), folder / "out");
  EXPECT_EQ(result.code, 7);
  EXPECT_EQ(result.last_error(), "last");
  EXPECT_EQ(fs::canonical(content(folder / "out").substr(0, content(folder / "out").size() - 1)), fs::canonical(folder.path()));
  EXPECT_EQ(run_process({"sh", "-c", "kill -9 $$"}).code, 137);
  expect_error(ErrorKind::Environment, {"cannot run no-such-program", "install"}, [] { run_process({"no-such-program"}); });
}

TEST(Fetch, BringsAFileOnceAndLeavesNothingElse) {
  PROGRAM_OR_SKIP("curl");
  Download d("a book\n");
  d.fetch(true);
  EXPECT_EQ(content(d.target / "books/a.txt"), "a book\n");
  EXPECT_EQ(names_in(d.target.path()), (std::vector<std::string>{".lock", "books/a.txt", "verified.tsv"}));
  const auto time = fs::last_write_time(d.target / "books/a.txt");
  fs::remove(d.source / "book.txt");  // what is there is not fetched again
  d.fetch(true);
  EXPECT_EQ(fs::last_write_time(d.target / "books/a.txt"), time);
  ASSERT_EQ(d.said.size(), 1u);
  EXPECT_NE(d.said[0].find("there already"), std::string::npos);
}

TEST(Fetch, FilesOfTheUserAreVerifiedAndKept) {
  PROGRAM_OR_SKIP("curl");
  Download d("a book\n");
  d.target.write("books/a.txt.gz", gzip("a book\n"));
  d.fetch(true);
  EXPECT_FALSE(fs::exists(d.target / "books/a.txt"));
  d.target.write("books/a.txt.gz", gzip("another\n"));
  expect_error(ErrorKind::Usage, {"books/a.txt.gz differs", "--again"}, [&] { d.fetch(true); });
  EXPECT_EQ(names_in(d.target.path()).size(), 3u);
}

TEST(Fetch, AgainReplacesWhatIsThere) {
  PROGRAM_OR_SKIP("curl");
  Download d("a book\n");
  d.target.write("books/a.txt", "damaged\n");
  d.fetch(true, true);
  EXPECT_EQ(content(d.target / "books/a.txt"), "a book\n");
}

TEST(Fetch, WrongContentIsNeverPutInPlace) {
  PROGRAM_OR_SKIP("curl");
  Download d("a book\n");
  d.source.write("book.txt", "not what was promised\n");
  expect_error(ErrorKind::Environment, {"books/a.txt is something else", "instead of " + d.sha256}, [&] { d.fetch(true); });
  EXPECT_EQ(names_in(d.target.path()), (std::vector<std::string>{".lock"}));
  d.source.write("book.txt", std::string("\0\1\2", 3));
  expect_error(ErrorKind::Environment, {"something else", "not a text file"}, [&] { d.fetch(false); });
  EXPECT_EQ(names_in(d.target.path()), (std::vector<std::string>{".lock"}));
}

TEST(Fetch, WithoutAChecksumTheFirstDownloadIsPinned) {
  PROGRAM_OR_SKIP("curl");
  Download d("first edition\n");
  d.fetch(false);
  fs::remove(d.target / "books/a.txt");
  d.source.write("book.txt", "second edition\n");
  expect_error(ErrorKind::Environment, {"when it was fetched first"}, [&] { d.fetch(false); });
  EXPECT_FALSE(fs::exists(d.target / "books/a.txt"));
  d.fetch(false, true);
  EXPECT_EQ(content(d.target / "books/a.txt"), "second edition\n");
  EXPECT_EQ(Records(d.target.path()).pinned_sha256("books/a.txt"), sha256_hex("second edition\n"));
}

TEST(Fetch, AnInterruptedDownloadIsContinued) {
  PROGRAM_OR_SKIP("curl");
  std::string book;
  for (int i = 0; i < 5000; ++i) book += "line " + std::to_string(i) + "\n";
  Download d(book);
  d.target.write("books/a.txt.partial", book.substr(0, 12345));
  d.source.write("book.txt", std::string(12345, 'x') + book.substr(12345));  // the first part must come from the partial file
  d.fetch(true);
  EXPECT_EQ(content(d.target / "books/a.txt"), book);
  EXPECT_FALSE(fs::exists(d.target / "books/a.txt.partial"));
}

TEST(Fetch, APartLongerThanTheFileStartsAnew) {
  PROGRAM_OR_SKIP("curl");
  Download d("short\n");
  d.target.write("books/a.txt.partial", "much longer than short\n");
  d.fetch(true);
  EXPECT_EQ(content(d.target / "books/a.txt"), "short\n");
}

// Without a checksum nobody would notice that two versions were glued together.
TEST(Fetch, UncheckedDownloadsAreNotContinued) {
  PROGRAM_OR_SKIP("curl");
  Download d("second edition\n");
  d.target.write("books/a.txt.partial", "first");
  d.fetch(false);
  EXPECT_EQ(content(d.target / "books/a.txt"), "second edition\n");
}

TEST(Fetch, WhatAKilledFetchLeftIsCleared) {
  PROGRAM_OR_SKIP("curl");
  Download d("a book\n");
  d.target.write(".fetch/root/half", "half");
  d.fetch(true);
  EXPECT_EQ(names_in(d.target.path()), (std::vector<std::string>{".lock", "books/a.txt", "verified.tsv"}));
}

TEST(Fetch, UnreachableAddressesSayWhatToDo) {
  PROGRAM_OR_SKIP("curl");
  const TempFolder folder;
  expect_error(ErrorKind::Environment, {"cannot download file:///no/such/file", "curl: (37)"}, [&] { download("file:///no/such/file", folder / "x.partial"); });
  expect_error(ErrorKind::Environment, {"cannot download http://127.0.0.1:9/x", "curl: (7)", "online", "--data FOLDER"},
               [&] { download("http://127.0.0.1:9/x", folder / "x.partial"); });
}

TEST(Fetch, AFolderThatCannotBeMadeIsAnError) {
  const TempFolder folder;
  folder.write("file", "x");
  const Manifest& manifest = builtin_manifest();
  expect_error(ErrorKind::Environment, {folder / "file", "--data FOLDER"},
               [&] { fetch_data(manifest.sets[0], Catalog(manifest, {}), {.folder = folder / "file"}); });
}

TEST(DebianPackage, IsUnpackedWithoutBeingInstalled) {
  PROGRAM_OR_SKIP("dpkg-deb");
  const TempFolder folder;
  folder.write("tree/DEBIAN/control", "Package: tiny\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: a test\n");
  folder.write("tree/usr/share/tiny/a.fa", ">a\nACGT\n");
  fs::create_directories(folder / "debs");
  ASSERT_EQ(run_process({"dpkg-deb", "--build", "--root-owner-group", folder / "tree", folder / "debs/tiny.deb"}).code, 0);
  unpack_deb_files(folder / "debs", folder / "root");
  EXPECT_EQ(content(folder / "root/usr/share/tiny/a.fa"), ">a\nACGT\n");
  folder.write("debs/broken.deb", "not a package");
  expect_error(ErrorKind::Environment, {"cannot unpack broken.deb"}, [&] { unpack_deb_files(folder / "debs", folder / "root"); });
}

}  // namespace
}  // namespace megatoken
