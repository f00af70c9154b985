#include "datasets/manifest.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <set>

#include "reference/core/error.hpp"
#include "reference/core/names.hpp"

namespace megatoken {

extern const std::string_view kManifestToml;  // datasets/manifest.toml, embedded by the build

namespace {

class ManifestParser {
 public:
  ManifestParser(std::string_view toml, const std::string& file) : file_(file) {
    try {
      root_ = toml::parse(toml, file);
    } catch (const toml::parse_error& error) {
      throw Error(ErrorKind::Usage, format("{}: line {}: {}", file, error.source().begin.line, error.description()));
    }
  }

  Manifest parse() {
    only_keys(root_, {"set", "collection"}, "the file");
    Manifest manifest;
    for (const toml::table* set : tables(root_, "set", "the file")) manifest.sets.push_back(parse_set(*set));
    std::set<std::string> names;
    for (const DataSet& set : manifest.sets)
      for (const DataFile& file : set.files) check(names.insert(file.name()).second, format("file '{}' is there twice", file.name()));
    for (const toml::table* item : tables(root_, "collection", "the file")) {
      only_keys(*item, {"name", "files"}, "[[collection]]");
      Collection collection{text(*item, "name", "[[collection]]"), texts(*item, "files", "[[collection]]")};
      for (const std::string& name : collection.files)
        check(names.count(name), format("collection '{}' names '{}', which no set has", collection.name, name));
      manifest.collections.push_back(std::move(collection));
    }
    return manifest;
  }

 private:
  void check(bool condition, const std::string& message) const {
    if (!condition) throw Error(ErrorKind::Usage, file_ + ": " + message);
  }

  void only_keys(const toml::table& table, const std::set<std::string_view>& valid, const std::string& where) const {
    for (const auto& [key, value] : table) check(valid.count(key.str()), format("{} has an unknown key '{}'", where, key.str()));
  }

  std::vector<const toml::table*> tables(const toml::table& parent, std::string_view key, const std::string& where) const {
    std::vector<const toml::table*> found;
    const toml::node* node = parent.get(key);
    if (!node) return found;
    check(node->is_array_of_tables() || (node->is_array() && node->as_array()->empty()), format("'{}' of {} must be a list of tables", key, where));
    for (const toml::node& item : *node->as_array()) found.push_back(item.as_table());
    return found;
  }

  template <class T>
  T value(const toml::table& table, std::string_view key, const std::string& where, const char* type, T fallback) const {
    const toml::node* node = table.get(key);
    if (!node) return fallback;
    const auto exact = node->value_exact<T>();
    check(exact.has_value(), format("'{}' of {} must be {}", key, where, type));
    return *exact;
  }

  std::string text(const toml::table& table, std::string_view key, const std::string& where) const {
    const std::string found = value<std::string>(table, key, where, "a text", "");
    check(!found.empty(), format("{} needs '{}'", where, key));
    return found;
  }

  std::vector<std::string> texts(const toml::table& table, std::string_view key, const std::string& where) const {
    std::vector<std::string> found;
    const toml::node* node = table.get(key);
    if (!node) return found;
    check(node->is_array(), format("'{}' of {} must be a list of texts", key, where));
    for (const toml::node& item : *node->as_array()) {
      check(item.is_string(), format("'{}' of {} must be a list of texts", key, where));
      found.push_back(item.as_string()->get());
    }
    return found;
  }

  DataSet parse_set(const toml::table& table) const {
    only_keys(table, {"name", "what", "licence", "quick", "download", "packages", "files"}, "[[set]]");
    DataSet set;
    set.name = text(table, "name", "[[set]]");
    const std::string where = format("set '{}'", set.name);
    set.what = text(table, "what", where);
    set.licence = text(table, "licence", where);
    set.quick = value(table, "quick", where, "true or false", false);
    set.download = value<int64_t>(table, "download", where, "a number of bytes", 0);
    set.packages = texts(table, "packages", where);
    for (const toml::table* file : tables(table, "files", where)) set.files.push_back(parse_file(*file, set, where));
    check(!set.files.empty(), where + " needs 'files'");
    return set;
  }

  DataFile parse_file(const toml::table& table, const DataSet& set, const std::string& in) const {
    only_keys(table, {"path", "from", "r_record", "command", "url", "bytes", "sha256", "contig"}, "a file of " + in);
    DataFile file;
    file.path = text(table, "path", "a file of " + in);
    const std::string where = format("file '{}' of {}", file.path, in);
    check((file.path.starts_with("books/") || file.path.starts_with("genome/")) && file.path.find("..") == std::string::npos,
          where + " must lie in books/ or genome/");
    file.from = value<std::string>(table, "from", where, "a text", "");
    file.r_record = value<int64_t>(table, "r_record", where, "a number", -1);
    file.command = texts(table, "command", where);
    file.url = value<std::string>(table, "url", where, "a text", "");
    file.bytes = value<int64_t>(table, "bytes", where, "a number", 0);
    file.sha256 = value<std::string>(table, "sha256", where, "a text", "");
    file.contig = value<std::string>(table, "contig", where, "a text", "");
    check(!file.from.empty() + !file.command.empty() + !file.url.empty() == 1, where + " needs exactly one of 'from', 'command', 'url'");
    check(file.url.empty() == !set.packages.empty(), where + " needs packages with 'from' and 'command', and none with 'url'");
    check(file.sha256.empty() || (file.sha256.size() == 64 && file.sha256.find_first_not_of("0123456789abcdef") == std::string::npos),
          where + ": sha256 must be 64 lower-case hex digits");
    return file;
  }

  std::string file_;
  toml::table root_;
};

std::string filled(std::string text, const std::string& part) {
  for (size_t at = text.find("{}"); at != std::string::npos; at = text.find("{}", at + part.size())) text.replace(at, 2, part);
  return text;
}

}  // namespace

std::string data_name(const std::string& path) {
  std::string name = path.substr(path.find('/') + 1);
  for (const char* ending : {".gz", ".txt", ".fa", ".fasta", ".fna", ".2bit"})
    if (name.ends_with(ending)) name.resize(name.size() - std::string_view(ending).size());
  return name;
}

DataKind data_kind(const std::string& path) {
  const std::string plain = path.ends_with(".gz") ? path.substr(0, path.size() - 3) : path;
  for (const char* ending : {".fa", ".fasta", ".fna", ".2bit"})
    if (plain.ends_with(ending)) return DataKind::Genome;
  return DataKind::Text;
}

std::string DataFile::name() const { return data_name(path); }

bool DataSet::is_template() const { return files[0].path.find("{}") != std::string::npos; }

std::string DataSet::source() const {
  if (!packages.empty()) return "Debian " + packages[0];
  const std::string& url = files[0].url;
  const size_t host = url.find("://");
  return host == std::string::npos ? url : url.substr(host + 3, url.find('/', host + 3) - host - 3);
}

DataSet Manifest::set_of(const std::string& name) const {
  std::vector<std::string> valid;
  for (const DataSet& set : sets) {
    if (set.is_template()) {
      const std::string part = name.starts_with(set.name + "/") ? name.substr(set.name.size() + 1) : "";
      MEGATOKEN_CHECK(name != set.name, "'{}' needs the number of a book: {}", name, set.files[0].name());
      if (part.empty() || part.find("..") != std::string::npos) continue;
      DataSet copy = set;
      copy.name = name;
      for (DataFile& file : copy.files) file.path = filled(file.path, part), file.url = filled(file.url, part);
      return copy;
    }
    if (set.name == name) return set;
    valid.push_back(set.name);
    for (const DataFile& file : set.files) {
      if (file.name() == name) return set;
      if (file.name() != set.name) valid.push_back(file.name());
    }
  }
  throw_unknown_name("data set", name, valid);
}

Manifest parse_manifest(std::string_view toml, const std::string& file) { return ManifestParser(toml, file).parse(); }

const Manifest& builtin_manifest() {
  static const Manifest manifest = parse_manifest(kManifestToml, "manifest.toml");
  return manifest;
}

}  // namespace megatoken
