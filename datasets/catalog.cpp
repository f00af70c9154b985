#include "datasets/catalog.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "datasets/digest.hpp"
#include "datasets/records.hpp"
#include "reference/core/error.hpp"
#include "reference/core/names.hpp"

namespace megatoken {
namespace {

namespace fs = std::filesystem;

bool is_data_file(const std::string& path) {
  const std::string plain = path.ends_with(".gz") ? path.substr(0, path.size() - 3) : path;
  return data_kind(path) == DataKind::Genome || plain.ends_with(".txt");
}

/// name → path below the folder. Of two packings of one file, the first by path.
std::map<std::string, std::string> scan(const std::string& folder) {
  std::map<std::string, std::string> found;
  for (const char* part : {"books", "genome"}) {
    std::error_code missing;
    for (const auto& item : fs::recursive_directory_iterator(fs::path(folder) / part, fs::directory_options::follow_directory_symlink, missing)) {
      const std::string path = fs::relative(item.path(), folder).generic_string();
      if (!item.is_regular_file() || !is_data_file(path)) continue;
      std::string& best = found[data_name(path)];
      if (best.empty() || path < best) best = path;
    }
  }
  return found;
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('/') + 1); }

/// The sum that FOLDER/SHA256SUMS (as sha256sum writes it) gives for `path`, or "".
std::string listed_sha256(const CatalogEntry& entry) {
  std::ifstream file(entry.folder + "/SHA256SUMS");
  for (std::string line; std::getline(file, line);)
    if (line.size() > 66 && line.substr(66) == entry.path) return line.substr(0, 64);
  return "";
}

std::string file_sha256(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Sha256 digest;
  std::string block(1 << 16, '\0');
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0)
    digest.update(std::string_view(block).substr(0, static_cast<size_t>(file.gcount())));
  return digest.hex();
}

}  // namespace

Catalog::Catalog(const Manifest& manifest, std::vector<std::string> folders) : manifest_(manifest), folders_(std::move(folders)) {
  std::vector<std::map<std::string, std::string>> found;
  for (const std::string& folder : folders_) found.push_back(scan(folder));

  std::set<std::string> taken;
  for (const DataSet& set : manifest.sets) {
    if (set.is_template()) continue;
    for (const DataFile& file : set.files) {
      CatalogEntry entry{file.name(), "", "", &set, &file};
      for (size_t i = 0; i < folders_.size() && !entry.present(); ++i)
        for (const std::string& name : {file.name(), last_part(file.name())})  // a flat folder may hold books/emma.txt
          if (const auto at = found[i].find(name); at != found[i].end() && !entry.present()) {
            entry.folder = folders_[i], entry.path = at->second;
            taken.insert(name);
          }
      taken.insert(file.name());
      entries_.push_back(std::move(entry));
    }
  }
  for (size_t i = 0; i < folders_.size(); ++i)
    for (const auto& [name, path] : found[i])
      if (taken.insert(name).second) entries_.push_back({name, folders_[i], path, nullptr, nullptr});
}

std::vector<const CatalogEntry*> Catalog::select(const std::vector<std::string>& globs) const {
  std::vector<const CatalogEntry*> chosen;
  std::set<std::string> unmatched(globs.begin(), globs.end());
  for (const CatalogEntry& entry : entries_) {
    bool matches = globs.empty();
    for (const std::string& glob : globs)
      if (matches_glob(entry.name, glob) || (entry.set && matches_glob(entry.set->name, glob))) matches = true, unmatched.erase(glob);
    if (matches) chosen.push_back(&entry);
  }
  if (!unmatched.empty()) {
    std::vector<std::string> names;
    for (const CatalogEntry& entry : entries_) names.push_back(entry.name);
    throw_unknown_name("data set", *unmatched.begin(), names);
  }
  return chosen;
}

const CatalogEntry* Catalog::present(const std::string& name) const {
  std::vector<const CatalogEntry*> pieces, last_parts;
  for (const CatalogEntry& entry : entries_) {
    if (!entry.present()) continue;
    if (entry.name == name) return &entry;
    if (entry.name.starts_with(name + ".")) pieces.push_back(&entry);
    if (last_part(entry.name) == name) last_parts.push_back(&entry);
  }
  if (pieces.size() == 1) return pieces[0];
  return last_parts.size() == 1 ? last_parts[0] : nullptr;
}

std::vector<const CatalogEntry*> Catalog::find(const std::string& name) const {
  if (const CatalogEntry* entry = present(name)) return {entry};

  std::vector<std::string> parts, known;
  for (const Collection& collection : manifest_.collections) {
    if (collection.name == name) parts = collection.files;
    known.push_back(collection.name);
  }
  for (const DataSet& set : manifest_.sets) {
    if (set.name == name && !set.is_template())
      for (const DataFile& file : set.files) parts.push_back(file.name());
    known.push_back(set.name);
  }
  for (const CatalogEntry& entry : entries_) {
    if (entry.name == name && parts.empty()) parts = {name};
    known.push_back(entry.name);
  }
  if (parts.empty()) throw_unknown_name("data", name, known);

  std::vector<const CatalogEntry*> files;
  for (const std::string& part : parts) {
    const CatalogEntry* entry = present(part);
    if (!entry)
      throw Error(ErrorKind::Usage, format("data '{}' is not in {}", part, folders_.empty() ? "any folder" : join(folders_, ", ")),
                  format("megatoken data fetch {}", name));
    files.push_back(entry);
  }
  return files;
}

DataState data_state(const CatalogEntry& entry) {
  if (!entry.present()) return DataState::Absent;
  return Records(entry.folder).unchanged(entry.path) ? DataState::Verified : DataState::Present;
}

Verification verify_data(const CatalogEntry& entry) {
  Verification result;
  try {
    result.facts = inspect_data(entry.file(), data_kind(entry.path));
    const std::string pinned = Records(entry.folder).pinned_sha256(entry.path);
    if (entry.promised && (!entry.promised->sha256.empty() || !entry.promised->contig.empty())) {
      result.message = difference(result.facts, *entry.promised);
      result.passed = result.message.empty();
      if (result.passed) result.message = entry.promised->sha256.empty() ? "M5 as published" : "sha256 as in the manifest";
    } else if (const std::string listed = listed_sha256(entry); !listed.empty()) {
      const std::string actual = file_sha256(entry.file());
      result.passed = actual == listed;
      result.message = result.passed ? "sha256 as in SHA256SUMS" : format("sha256 {} instead of {} (SHA256SUMS)", actual, listed);
    } else if (!pinned.empty()) {
      result.passed = result.facts.content.sha256 == pinned;
      result.message = result.passed ? "sha256 as when fetched"
                                     : format("sha256 {} instead of {} (when fetched)", result.facts.content.sha256, pinned);
    } else {
      result.passed = true;
      result.message = "readable; no checksum is known";
    }
  } catch (const Error& error) {
    result.passed = false;
    result.message = error.what();
  }
  return result;
}

}  // namespace megatoken
