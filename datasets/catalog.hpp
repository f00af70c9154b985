// All data known here: what the manifest can fetch and what lies in the data folders, by name.
// A data folder has books/ and genome/; a file's name is its path below them without ending. The first folder that has a name wins.
#pragma once
#include <string>
#include <vector>

#include "datasets/inspect.hpp"
#include "datasets/manifest.hpp"

namespace megatoken {

struct CatalogEntry {
  std::string name;
  std::string folder, path;         // the file is FOLDER/path; path is empty when it is absent
  const DataSet* set = nullptr;     // nullptr: not of the manifest, found in a folder
  const DataFile* promised = nullptr;

  bool present() const { return !path.empty(); }
  std::string file() const { return folder + "/" + path; }
};

class Catalog {
 public:
  /// Folders that do not exist hold nothing. `manifest` must outlive the catalog.
  Catalog(const Manifest& manifest, std::vector<std::string> folders);

  const std::vector<CatalogEntry>& entries() const { return entries_; }
  const std::vector<std::string>& folders() const { return folders_; }

  /// Entries whose name, or whose set's name, matches one of the globs; all of them for no glob. Throws for a glob that matches nothing.
  std::vector<const CatalogEntry*> select(const std::vector<std::string>& globs) const;

  /// The files that make up one data name, all present: a file (austen/emma, or emma while that is unambiguous), a piece of it that is there
  /// (hg38.chr2 → hg38.chr2.1-2333275), a set (austen) or a collection (austen/train). Throws with what to fetch or the nearest names.
  std::vector<const CatalogEntry*> find(const std::string& name) const;

 private:
  const CatalogEntry* present(const std::string& name) const;

  const Manifest& manifest_;
  std::vector<std::string> folders_;
  std::vector<CatalogEntry> entries_;
};

enum class DataState { Absent, Present, Verified };

/// Whether the entry is there, and whether its content was verified and has not changed since (FOLDER/verified.tsv).
DataState data_state(const CatalogEntry& entry);

struct Verification {
  bool passed = false;
  DataFacts facts;
  std::string message;  // what it was held against, or what differs
};

/// Reads all of a present entry and holds it against the manifest, else against FOLDER/SHA256SUMS, else against what was pinned when it was
/// fetched. A file that cannot be read fails with the reader's message.
Verification verify_data(const CatalogEntry& entry);

}  // namespace megatoken
