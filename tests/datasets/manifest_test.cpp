#include "datasets/manifest.hpp"

#include <set>

#include "datasets/known_contigs.hpp"
#include "tests/datasets/files.hpp"

namespace megatoken {
namespace {

using namespace testing;

TEST(Manifest, EveryEntryIsWhole) {
  const Manifest& manifest = builtin_manifest();
  int64_t quick_bytes = 0, quick = 0;
  for (const DataSet& set : manifest.sets) {
    EXPECT_FALSE(set.licence.empty()) << set.name;
    for (const DataFile& file : set.files) {
      if (!file.url.empty()) EXPECT_TRUE(file.url.starts_with("https://")) << file.url;
      else EXPECT_EQ(file.sha256.size(), 64u) << file.path;
      if (file.contig.empty()) continue;
      const size_t blank = file.contig.find(' ');
      EXPECT_TRUE(find_contig(file.contig.substr(0, blank), file.contig.substr(blank + 1))) << file.contig;
    }
    if (set.quick) ++quick, quick_bytes += set.download;
  }
  EXPECT_EQ(quick, 2);
  EXPECT_LT(quick_bytes, 8'000'000);  // a demo takes a few MB
}

TEST(Manifest, FindsSetsByNameByFileAndByTemplate) {
  const Manifest& manifest = builtin_manifest();
  EXPECT_EQ(manifest.set_of("austen").files.size(), 6u);
  EXPECT_EQ(manifest.set_of("austen/emma").name, "austen");
  const DataSet book = manifest.set_of("gutenberg/2600");
  EXPECT_EQ(book.files[0].path, "books/gutenberg/2600.txt");
  EXPECT_EQ(book.files[0].url, "https://www.gutenberg.org/cache/epub/2600/pg2600.txt");
  EXPECT_EQ(manifest.set_of("pg19/test/10146").files[0].url, "https://storage.googleapis.com/deepmind-gutenberg/test/10146.txt");
  EXPECT_EQ(book.source(), "www.gutenberg.org");
  EXPECT_EQ(manifest.set_of("hg38.chr22").source(), "hgdownload.soe.ucsc.edu");
  EXPECT_EQ(manifest.set_of("GRCh37.chr20").source(), "Debian vt-examples");
  expect_error(ErrorKind::Usage, {"'hg38.chr23'", "hg38.chr2"}, [&] { manifest.set_of("hg38.chr23"); });
  expect_error(ErrorKind::Usage, {"gutenberg/{}"}, [&] { manifest.set_of("gutenberg"); });
  expect_error(ErrorKind::Usage, {"unknown data set"}, [&] { manifest.set_of("gutenberg/../../x"); });
}

TEST(Manifest, NamesAndKindsComeFromPaths) {
  EXPECT_EQ(data_name("books/austen/emma.txt"), "austen/emma");
  EXPECT_EQ(data_name("books/emma.txt.gz"), "emma");
  EXPECT_EQ(data_name("genome/hg38.chr2.1-2333275.fa.gz"), "hg38.chr2.1-2333275");
  EXPECT_EQ(data_name("genome/hg38.2bit"), "hg38");
  EXPECT_EQ(data_kind("a/b.fasta.gz"), DataKind::Genome);
  EXPECT_EQ(data_kind("b.2bit"), DataKind::Genome);
  EXPECT_EQ(data_kind("chr1.fa.txt"), DataKind::Text);
}

TEST(Manifest, MistakesAreNamed) {
  const std::string set = "[[set]]\nname = \"a\"\nwhat = \"w\"\nlicence = \"l\"\n";
  const auto parse = [](const std::string& toml) { return [toml] { parse_manifest(toml, "my.toml"); }; };
  EXPECT_EQ(parse_manifest(set + "files = [{path = \"books/a.txt\", url = \"https://x/a\"}]", "my.toml").sets[0].files[0].name(), "a");
  expect_error(ErrorKind::Usage, {"my.toml: line 2"}, parse("[[set]]\nname = \n"));
  expect_error(ErrorKind::Usage, {"my.toml", "unknown key 'nmae'"}, parse("[[set]]\nnmae = \"a\"\n"));
  expect_error(ErrorKind::Usage, {"needs 'licence'"}, parse("[[set]]\nname = \"a\"\nwhat = \"w\"\n"));
  expect_error(ErrorKind::Usage, {"set 'a' needs 'files'"}, parse(set));
  expect_error(ErrorKind::Usage, {"'quick' of set 'a' must be true or false"}, parse(set + "quick = 1\n"));
  expect_error(ErrorKind::Usage, {"must lie in books/ or genome/"}, parse(set + "files = [{path = \"/etc/x\", url = \"u\"}]"));
  expect_error(ErrorKind::Usage, {"must lie in books/ or genome/"}, parse(set + "files = [{path = \"books/../x\", url = \"u\"}]"));
  expect_error(ErrorKind::Usage, {"exactly one of"}, parse(set + "files = [{path = \"books/a.txt\"}]"));
  expect_error(ErrorKind::Usage, {"needs packages"}, parse(set + "files = [{path = \"books/a.txt\", from = \"x\"}]"));
  expect_error(ErrorKind::Usage, {"64 lower-case hex digits"}, parse(set + "files = [{path = \"books/a.txt\", url = \"u\", sha256 = \"12\"}]"));
  expect_error(ErrorKind::Usage, {"'a' is there twice"}, parse(set + "files = [{path = \"books/a.txt\", url = \"u\"}, {path = \"genome/a.fa\", url = \"u\"}]"));
  expect_error(ErrorKind::Usage, {"names 'b', which no set has"}, parse("[[collection]]\nname = \"c\"\nfiles = [\"b\"]\n"));
}

}  // namespace
}  // namespace megatoken
