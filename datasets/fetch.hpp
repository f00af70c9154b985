// Brings data sets into a data folder: Debian packages or addresses, checked against the manifest, moved into place only when right.
#pragma once
#include <functional>
#include <string>

#include "datasets/catalog.hpp"

namespace megatoken {

struct FetchOptions {
  std::string folder = "data";                                   // where files go; made when missing
  bool again = false;                                            // replace what is there
  std::function<void(const std::string&)> say = [](const std::string&) {};  // one line of progress
};

/// Fetches the files of `set` that no folder of the catalog has yet. What is there is verified unless it was before, and never fetched again;
/// an existing file that differs is an error unless `again`. One fetch at a time works in a folder; a second waits.
void fetch_data(const DataSet& set, const Catalog& catalog, const FetchOptions& options);

}  // namespace megatoken
