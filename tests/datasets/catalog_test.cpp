#include "datasets/catalog.hpp"

#include <algorithm>

#include "datasets/digest.hpp"
#include "datasets/records.hpp"
#include "tests/datasets/files.hpp"

namespace megatoken {
namespace {

using namespace testing;

const std::string kEmma = "Emma Woodhouse\n";

Manifest small_manifest() {
  return parse_manifest("[[set]]\nname = \"austen\"\nwhat = \"novels\"\nlicence = \"none\"\n"
                        "files = [{path = \"books/austen/emma.txt\", url = \"https://x/e\", sha256 = \"" + sha256_hex(kEmma) + "\", bytes = 15},"
                        "{path = \"books/austen/other.txt\", url = \"https://x/o\"}]\n"
                        "[[set]]\nname = \"hg38.chr2\"\nwhat = \"w\"\nlicence = \"l\"\n"
                        "files = [{path = \"genome/hg38.chr2.fa.gz\", url = \"https://x/c\", contig = \"hg38 chr2\"}]\n"
                        "[[collection]]\nname = \"austen/both\"\nfiles = [\"austen/emma\", \"austen/other\"]\n", "test");
}

const CatalogEntry& entry_of(const Catalog& catalog, const std::string& name) {
  const auto& all = catalog.entries();
  const auto found = std::find_if(all.begin(), all.end(), [&](const CatalogEntry& entry) { return entry.name == name; });
  if (found == all.end()) throw Error(ErrorKind::Usage, "no entry " + name);
  return *found;
}

TEST(Catalog, FindsFilesByNameInTheOrderOfTheFolders) {
  const TempFolder first, second;
  const Manifest manifest = small_manifest();
  second.write("books/austen/emma.txt", kEmma);
  first.write("books/emma.txt.gz", gzip(kEmma));  // a flat folder
  first.write("books/deep/er/own.txt", "own");
  second.write("books/deep/er/own.txt", "shadowed");
  first.write("genome/hg38.chr2.1-100.fa", ">x\nACGT\n");
  first.write("genome/hg38.chr21.fa", ">x\nACGT\n");
  first.write("books/notes.md", "no data");
  const Catalog catalog(manifest, {first.path(), second.path(), first / "absent"});
  EXPECT_EQ(entry_of(catalog, "austen/emma").file(), first / "books/emma.txt.gz");
  EXPECT_FALSE(entry_of(catalog, "austen/other").present());
  EXPECT_EQ(entry_of(catalog, "deep/er/own").file(), first / "books/deep/er/own.txt");
  EXPECT_EQ(entry_of(catalog, "hg38.chr2.1-100").set, nullptr);
  EXPECT_EQ(catalog.entries().size(), 6u);  // three of the manifest, three found; emma is not listed twice

  EXPECT_EQ(catalog.find("austen/emma")[0]->file(), first / "books/emma.txt.gz");
  EXPECT_EQ(catalog.find("emma")[0]->name, "austen/emma");
  EXPECT_EQ(catalog.find("own")[0]->name, "deep/er/own");
  EXPECT_EQ(catalog.find("hg38.chr2")[0]->name, "hg38.chr2.1-100");  // the piece that is there, never chr21
  expect_error(ErrorKind::Usage, {"'austen/other' is not in", "megatoken data fetch austen"}, [&] { catalog.find("austen"); });
  expect_error(ErrorKind::Usage, {"'austen/other' is not in"}, [&] { catalog.find("austen/both"); });
  expect_error(ErrorKind::Usage, {"unknown data 'austen/ema'", "austen/emma"}, [&] { catalog.find("austen/ema"); });
  first.write("books/austen/other.txt", "other");
  const Catalog complete(manifest, {first.path()});
  for (const char* name : {"austen", "austen/both"}) {
    const auto files = complete.find(name);
    ASSERT_EQ(files.size(), 2u) << name;
    EXPECT_EQ(files[0]->name, "austen/emma");
    EXPECT_EQ(files[1]->name, "austen/other");
  }
}

TEST(Catalog, SelectsByGlobAndRefusesWhatMatchesNothing) {
  const TempFolder folder;
  const Manifest manifest = small_manifest();
  const Catalog catalog(manifest, {folder.path()});
  EXPECT_EQ(catalog.select({}).size(), 3u);
  EXPECT_EQ(catalog.select({"austen"}).size(), 2u);
  EXPECT_EQ(catalog.select({"*emma", "hg38.*"}).size(), 2u);
  expect_error(ErrorKind::Usage, {"'hg39.*'"}, [&] { catalog.select({"austen", "hg39.*"}); });
}

TEST(Verification, HoldsFilesAgainstTheManifest) {
  const TempFolder folder;
  const Manifest manifest = small_manifest();
  folder.write("books/emma.txt.gz", gzip(kEmma));
  const auto verify = [&](const std::string& name) { return verify_data(entry_of(Catalog(manifest, {folder.path()}), name)); };
  EXPECT_TRUE(verify("austen/emma").passed);
  EXPECT_EQ(verify("austen/emma").message, "sha256 as in the manifest");
  folder.write("books/emma.txt.gz", gzip("Emma Woodhause\n"));
  EXPECT_FALSE(verify("austen/emma").passed);
  EXPECT_NE(verify("austen/emma").message.find("instead of " + sha256_hex(kEmma)), std::string::npos);
  folder.write("books/emma.txt.gz", gzip("Emma"));
  EXPECT_EQ(verify("austen/emma").message, "4 bytes instead of 15");
  folder.write("books/emma.txt.gz", gzip(kEmma).substr(0, 20));
  EXPECT_FALSE(verify("austen/emma").passed);
  EXPECT_NE(verify("austen/emma").message.find("truncated gzip"), std::string::npos);
  folder.write("genome/hg38.chr2.fa.gz", gzip(">chr2\nACGT\n"));
  EXPECT_FALSE(verify("hg38.chr2").passed);
  EXPECT_EQ(verify("hg38.chr2").message, "unknown contig instead of hg38 chr2");
}

TEST(Verification, UsesSha256SumsForFilesOfTheUser) {
  const TempFolder folder;
  const Manifest manifest = small_manifest();
  const std::string packed = gzip("a book");
  folder.write("books/own.txt.gz", packed);
  const auto verify = [&] { return verify_data(entry_of(Catalog(manifest, {folder.path()}), "own")); };
  EXPECT_TRUE(verify().passed);
  EXPECT_EQ(verify().message, "readable; no checksum is known");
  folder.write("SHA256SUMS", sha256_hex("x") + "  books/other.txt.gz\n" + sha256_hex(packed) + "  books/own.txt.gz\n");
  EXPECT_TRUE(verify().passed);
  EXPECT_EQ(verify().message, "sha256 as in SHA256SUMS");
  folder.write("books/own.txt.gz", gzip("a bock"));
  EXPECT_FALSE(verify().passed);
}

TEST(Records, RememberUntilTheFileChanges) {
  const TempFolder folder;
  const Manifest manifest = small_manifest();
  folder.write("books/own.txt", "a book");
  const Catalog catalog(manifest, {folder.path()});
  const CatalogEntry& entry = entry_of(catalog, "own");
  EXPECT_EQ(data_state(entry), DataState::Present);
  EXPECT_EQ(data_state(entry_of(catalog, "austen/emma")), DataState::Absent);
  const DataFacts facts = inspect_data(entry.file(), DataKind::Text);
  Records(folder.path()).put(entry.path, facts);
  EXPECT_EQ(data_state(entry), DataState::Verified);
  EXPECT_EQ(Records(folder.path()).unchanged(entry.path)->label, "text, UTF-8");
  EXPECT_EQ(Records(folder.path()).pinned_sha256(entry.path), sha256_hex("a book"));

  std::filesystem::last_write_time(entry.file(), std::filesystem::file_time_type::clock::now() + std::chrono::seconds(9));
  EXPECT_EQ(data_state(entry), DataState::Present);
  EXPECT_TRUE(verify_data(entry).passed);  // touched, yet the same
  folder.write("books/own.txt", "a bock");
  EXPECT_EQ(data_state(entry), DataState::Present);
  EXPECT_FALSE(verify_data(entry).passed);
  EXPECT_NE(verify_data(entry).message.find("(when fetched)"), std::string::npos);

  folder.write("verified.tsv", "nonsense\n");
  expect_error(ErrorKind::Usage, {"verified.tsv", "damaged at line 1", "delete it"}, [&] { data_state(entry); });
}

}  // namespace
}  // namespace megatoken
