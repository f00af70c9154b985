// What a data file holds, found by reading all of it.
#pragma once
#include <cstdint>
#include <string>

#include "datasets/byte_reader.hpp"
#include "datasets/manifest.hpp"

namespace megatoken {

struct DataFacts {
  ContentDigest content;
  std::string label;          // "text, UTF-8", "hg38 chr22 (M5 match)", "unknown contig", "25 sequences, 24 with M5 match"
  int64_t symbols = 0;        // bytes of a text, bases of a genome
  int64_t unknown = 0;        // bases that are N or an IUPAC code
  int64_t lower_case = 0;     // soft-masked bases
};

/// Throws what the readers throw: an Error naming the file and the place where it is no text or no DNA.
DataFacts inspect_data(const std::string& path, DataKind kind);

/// "" when the facts are what the manifest promises, else what differs, with both values.
std::string difference(const DataFacts& facts, const DataFile& promised);

}  // namespace megatoken
