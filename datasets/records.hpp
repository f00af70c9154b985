// What was once verified in a data folder: FOLDER/verified.tsv, one line a file with its size, time, content digest and label.
// It spares reading unchanged files again, and pins the content of downloads for which no checksum is published.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "datasets/inspect.hpp"

namespace megatoken {

class Records {
 public:
  /// Reads the file when it is there. Throws a usage Error naming the line that is damaged.
  explicit Records(const std::string& folder);

  /// The facts of FOLDER/path as verified, if neither its size nor its time changed since; nullptr otherwise.
  const DataFacts* unchanged(const std::string& path) const;
  /// The digest that FOLDER/path had when it was first fetched, whatever happened to it since; "" when it never was.
  std::string pinned_sha256(const std::string& path) const;
  /// Remembers the facts of FOLDER/path as it is now and writes the file, whole or not at all.
  void put(const std::string& path, const DataFacts& facts);

 private:
  struct Record {
    int64_t size, time;
    DataFacts facts;
  };
  std::string folder_;
  std::map<std::string, Record> records_;
};

}  // namespace megatoken
