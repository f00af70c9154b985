// The human chromosomes whose M5 is published in sequence dictionaries, and the pieces of them that are used here.
#pragma once
#include <cstdint>
#include <string_view>

namespace megatoken {

struct KnownContig {
  const char* assembly;  // hg38 (= GRCh38) or GRCh37 (= hg19)
  const char* region;    // chr22, or chr22:20000001-21000000 (1-based, both ends included)
  int64_t length;        // bases
  const char* m5;
};

/// The contig with this M5 (32 lower-case hex digits), or nullptr.
const KnownContig* find_contig(std::string_view m5);
/// The contig of this assembly and region, or nullptr.
const KnownContig* find_contig(std::string_view assembly, std::string_view region);

}  // namespace megatoken
