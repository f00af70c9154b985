#include "datasets/known_contigs.hpp"

#include <gtest/gtest.h>

namespace megatoken {
namespace {

TEST(KnownContigs, ChromosomesUsedHereHaveTheirPublishedLengthAndM5) {
  const struct {
    const char *assembly, *region;
    int64_t length;
    const char* m5;
  } published[] = {{"hg38", "chr1", 248956422, "6aef897c3d6ff0c78aff06ac189178dd"},   {"hg38", "chr2", 242193529, "f98db672eb0993dcfdabafe2a882905c"},
                   {"hg38", "chr20", 64444167, "b18e6c531b0bd70e949a7fc20859cb01"},   {"hg38", "chr21", 46709983, "974dc7aec0b755b19f031418fdedf293"},
                   {"hg38", "chr22", 50818468, "ac37ec46683600f808cdd41eac1d55cd"},   {"hg38", "chrX", 156040895, "2b3a55ff7f58eb308420c8a9b11cac50"},
                   {"GRCh37", "chr20", 63025520, "0dec9660ec1efaaf33281c0d5ea2560f"}, {"GRCh37", "chr22", 51304566, "a718acaa6135fdca8357d5bfe94211dd"}};
  for (const auto& p : published) {
    const KnownContig* contig = find_contig(p.m5);
    ASSERT_TRUE(contig) << p.assembly << " " << p.region;
    EXPECT_STREQ(contig->assembly, p.assembly);
    EXPECT_STREQ(contig->region, p.region);
    EXPECT_EQ(contig->length, p.length);
    EXPECT_EQ(contig, find_contig(p.assembly, p.region));
  }
  EXPECT_EQ(find_contig("00000000000000000000000000000000"), nullptr);
  EXPECT_EQ(find_contig("hg38", "chr23"), nullptr);
}

}  // namespace
}  // namespace megatoken
