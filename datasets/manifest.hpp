// manifest.toml: the data sets that can be fetched, where they come from, and what their content must be.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace megatoken {

enum class DataKind { Text, Genome };

struct DataFile {
  std::string path;                  // below the data folder: books/austen/emma.txt
  std::string from;                  // path inside the unpacked packages, or
  int64_t r_record = -1;             //   with `from`: number of the record in an R data base
  std::vector<std::string> command;  // a program of the packages whose output is the file, or
  std::string url;                   // an address
  int64_t bytes = 0;                 // of the unpacked content; 0: not known
  std::string sha256;                // of the unpacked content; empty: not known
  std::string contig;                // "hg38 chr2": what the M5 of the bases must say; empty for books

  std::string name() const;          // austen/emma
};

struct DataSet {
  std::string name, what, licence;
  bool quick = false;                // a few MB: what a demo takes
  int64_t download = 0;              // bytes that travel; 0: not known
  std::vector<std::string> packages; // Debian packages; empty for addresses
  std::vector<DataFile> files;

  bool is_template() const;          // {} stands for a part of the name that the user gives
  std::string source() const;        // "Debian r-cran-janeaustenr", "hgdownload.soe.ucsc.edu"
};

struct Collection {
  std::string name;
  std::vector<std::string> files;    // names
};

struct Manifest {
  std::vector<DataSet> sets;
  std::vector<Collection> collections;

  /// The set called `name`, the set that holds the file `name`, or a template filled in ("gutenberg/2600").
  /// Throws a usage Error with the nearest names.
  DataSet set_of(const std::string& name) const;
};

/// Throws a usage Error naming `file` and the line or key that is wrong.
Manifest parse_manifest(std::string_view toml, const std::string& file);
/// The manifest that the build put into the program.
const Manifest& builtin_manifest();

/// "books/austen/emma.txt.gz" → "austen/emma": the path without its first folder, packing and ending.
std::string data_name(const std::string& path);
/// By the ending: .fa .fasta .fna .2bit are genomes, packed or not; everything else is text.
DataKind data_kind(const std::string& path);

}  // namespace megatoken
