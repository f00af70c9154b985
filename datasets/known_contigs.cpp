#include "datasets/known_contigs.hpp"

namespace megatoken {
namespace {

// Two releases of GRCh37 differ in two chromosomes: UCSC's hg19 has N for two IUPAC codes of chr3, and Ensembl masks the pseudoautosomal
// regions of chrY. The mitochondrion is left out: both assemblies share it, so it would not tell them apart.
constexpr KnownContig kContigs[] = {
    {"hg38", "chr1", 248956422, "6aef897c3d6ff0c78aff06ac189178dd"},
    {"hg38", "chr2", 242193529, "f98db672eb0993dcfdabafe2a882905c"},
    {"hg38", "chr3", 198295559, "76635a41ea913a405ded820447d067b0"},
    {"hg38", "chr4", 190214555, "3210fecf1eb92d5489da4346b3fddc6e"},
    {"hg38", "chr5", 181538259, "a811b3dc9fe66af729dc0dddf7fa4f13"},
    {"hg38", "chr6", 170805979, "5691468a67c7e7a7b5f2a3a683792c29"},
    {"hg38", "chr7", 159345973, "cc044cc2256a1141212660fb07b6171e"},
    {"hg38", "chr8", 145138636, "c67955b5f7815a9a1edfaa15893d3616"},
    {"hg38", "chr9", 138394717, "6c198acf68b5af7b9d676dfdd531b5de"},
    {"hg38", "chr10", 133797422, "c0eeee7acfdaf31b770a509bdaa6e51a"},
    {"hg38", "chr11", 135086622, "1511375dc2dd1b633af8cf439ae90cec"},
    {"hg38", "chr12", 133275309, "96e414eace405d8c27a6d35ba19df56f"},
    {"hg38", "chr13", 114364328, "a5437debe2ef9c9ef8f3ea2874ae1d82"},
    {"hg38", "chr14", 107043718, "e0f0eecc3bcab6178c62b6211565c807"},
    {"hg38", "chr15", 101991189, "f036bd11158407596ca6bf3581454706"},
    {"hg38", "chr16", 90338345, "db2d37c8b7d019caaf2dd64ba3a6f33a"},
    {"hg38", "chr17", 83257441, "f9a0fb01553adb183568e3eb9d8626db"},
    {"hg38", "chr18", 80373285, "11eeaa801f6b0e2e36a1138616b8ee9a"},
    {"hg38", "chr19", 58617616, "85f9f4fc152c58cb7913c06d6b98573a"},
    {"hg38", "chr20", 64444167, "b18e6c531b0bd70e949a7fc20859cb01"},
    {"hg38", "chr21", 46709983, "974dc7aec0b755b19f031418fdedf293"},
    {"hg38", "chr22", 50818468, "ac37ec46683600f808cdd41eac1d55cd"},
    {"hg38", "chrX", 156040895, "2b3a55ff7f58eb308420c8a9b11cac50"},
    {"hg38", "chrY", 57227415, "ce3e31103314a704255f3cd90369ecce"},
    {"GRCh37", "chr1", 249250621, "1b22b98cdeb4a9304cb5d48026a85128"},
    {"GRCh37", "chr2", 243199373, "a0d9851da00400dec1098a9255ac712e"},
    {"GRCh37", "chr3", 198022430, "fdfd811849cc2fadebc929bb925902e5"},
    {"GRCh37", "chr3", 198022430, "641e4338fa8d52a5b781bd2a2c08d3c3"},
    {"GRCh37", "chr4", 191154276, "23dccd106897542ad87d2765d28a19a1"},
    {"GRCh37", "chr5", 180915260, "0740173db9ffd264d728f32784845cd7"},
    {"GRCh37", "chr6", 171115067, "1d3a93a248d92a729ee764823acbbc6b"},
    {"GRCh37", "chr7", 159138663, "618366e953d6aaad97dbe4777c29375e"},
    {"GRCh37", "chr8", 146364022, "96f514a9929e410c6651697bded59aec"},
    {"GRCh37", "chr9", 141213431, "3e273117f15e0a400f01055d9f393768"},
    {"GRCh37", "chr10", 135534747, "988c28e000e84c26d552359af1ea2e1d"},
    {"GRCh37", "chr11", 135006516, "98c59049a2df285c76ffb1c6db8f8b96"},
    {"GRCh37", "chr12", 133851895, "51851ac0e1a115847ad36449b0015864"},
    {"GRCh37", "chr13", 115169878, "283f8d7892baa81b510a015719ca7b0b"},
    {"GRCh37", "chr14", 107349540, "98f3cae32b2a2e9524bc19813927542e"},
    {"GRCh37", "chr15", 102531392, "e5645a794a8238215b2cd77acb95a078"},
    {"GRCh37", "chr16", 90354753, "fc9b1a7b42b97a864f56b348b06095e6"},
    {"GRCh37", "chr17", 81195210, "351f64d4f4f9ddd45b35336ad97aa6de"},
    {"GRCh37", "chr18", 78077248, "b15d4b2d29dde9d3e4f93d1d0f2cbc9c"},
    {"GRCh37", "chr19", 59128983, "1aacd71f30db8e561810913e0b72636d"},
    {"GRCh37", "chr20", 63025520, "0dec9660ec1efaaf33281c0d5ea2560f"},
    {"GRCh37", "chr21", 48129895, "2979a6085bfe28e3ad6f552f361ed74d"},
    {"GRCh37", "chr22", 51304566, "a718acaa6135fdca8357d5bfe94211dd"},
    {"GRCh37", "chrX", 155270560, "7e0e2e580297b7764e31dbc80c2540dd"},
    {"GRCh37", "chrY", 59373566, "1fa3474750af0948bdf97d5a0ee52e51"},
    {"GRCh37", "chrY", 59373566, "1e86411d73e6f00a10590f976be01623"},
    {"hg38", "chr2:1-2333275", 2333275, "857e23c56ad670c351b8c2f12a011678"},
    {"hg38", "chr16:186964-397118", 210155, "e4cfb67b23963f8b246847c08fb571a1"},
    {"hg38", "chr21:24985581-26000306", 1014726, "26bb91cd2f3caaae1238f5b7851be8a5"},
    {"GRCh37", "chr6:995529-2051541", 1056013, "e7659b5ece5d639e63f612c4d0820cfc"},
    {"GRCh37", "chr22:20000001-21000000", 1000000, "05a352ea48c23662e7d72e1614f88da7"},
};

}  // namespace

const KnownContig* find_contig(std::string_view m5) {
  for (const KnownContig& contig : kContigs)
    if (m5 == contig.m5) return &contig;
  return nullptr;
}

const KnownContig* find_contig(std::string_view assembly, std::string_view region) {
  for (const KnownContig& contig : kContigs)
    if (assembly == contig.assembly && region == contig.region) return &contig;
  return nullptr;
}

}  // namespace megatoken
