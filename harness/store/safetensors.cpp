#include "harness/store/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "harness/store/files.hpp"
#include "reference/core/error.hpp"
#include "reference/core/names.hpp"

namespace megatoken {
namespace {

using Json = nlohmann::json;
static_assert(std::endian::native == std::endian::little, "the format is little-endian, and so are its raw bytes");

constexpr const char* kMetadata = "__metadata__";
constexpr uint64_t kMaxHeader = 100'000'000;  // the limit of the format
constexpr std::array<std::pair<DType, const char*>, 8> kNames{{{DType::F64, "F64"},
                                                               {DType::F32, "F32"},
                                                               {DType::F16, "F16"},
                                                               {DType::BF16, "BF16"},
                                                               {DType::E4M3, "F8_E4M3"},
                                                               {DType::I32, "I32"},
                                                               {DType::I64, "I64"},
                                                               {DType::U8, "U8"}}};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(path, std::ios::binary | std::ios::ate) {
    if (!file_) throw Error(ErrorKind::Usage, format("{}: {}", path, std::strerror(errno)), "check the path");
    size_ = static_cast<uint64_t>(std::max<int64_t>(0, file_.tellg()));
    file_.seekg(0);
  }

  Safetensors read() {
    const Json header = read_header();
    Safetensors result;
    std::vector<std::pair<std::pair<uint64_t, uint64_t>, std::string>> order;  // by place in the file, to find holes and overlaps
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadata) {
        read_metadata(entry, result.metadata);
      } else {
        check(entry.is_object() && entry.size() == 3, format("tensor '{}' needs dtype, shape and data_offsets", name));
        order.emplace_back(offsets(name, entry), name);
      }
    }
    std::sort(order.begin(), order.end());
    uint64_t place = 0;
    for (const auto& [bytes, name] : order) {
      check(bytes.first == place, format("the bytes of tensor '{}' begin at {}, not {}", name, bytes.first, place));
      place = bytes.second;
      result.tensors.emplace(name, read_tensor(name, header.at(name)));
    }
    check(place == data_bytes_, format("the tensors end at byte {} of {}", place, data_bytes_));
    return result;
  }

 private:
  Json read_header() {
    uint64_t length = 0;
    check(size_ >= sizeof length && file_.read(reinterpret_cast<char*>(&length), sizeof length), "it is too short for a header");
    check(length >= 2 && length <= kMaxHeader && length <= size_ - sizeof length, format("its header cannot have {} bytes", length));
    std::string text(length, '\0');
    check(static_cast<bool>(file_.read(text.data(), static_cast<std::streamsize>(length))), "its header cannot be read");
    check(text[0] == '{', "its header does not begin with '{'");
    data_bytes_ = size_ - sizeof length - length;
    std::set<std::string> names;
    const auto no_twins = [&](int depth, Json::parse_event_t event, Json& value) {
      if (event == Json::parse_event_t::key && depth == 1) {
        const auto name = value.get<std::string>();
        check(names.insert(name).second, format("tensor '{}' is there twice", name));
      }
      return true;
    };
    try {
      return Json::parse(text, no_twins);
    } catch (const Json::parse_error& error) {
      check(false, format("its header is no JSON at byte {}", error.byte));
    }
    return {};
  }

  void read_metadata(const Json& entry, std::map<std::string, std::string>& metadata) const {
    check(entry.is_object(), "its metadata is no object");
    for (const auto& [key, value] : entry.items()) {
      check(value.is_string(), format("metadata '{}' is no text", key));
      metadata.emplace(key, value.get<std::string>());
    }
  }

  std::pair<uint64_t, uint64_t> offsets(const std::string& name, const Json& entry) const {
    const auto pair = entry.find("data_offsets");
    const auto is_count = [](const Json& value) { return value.is_number_unsigned(); };
    check(pair != entry.end() && pair->is_array() && pair->size() == 2 && std::all_of(pair->begin(), pair->end(), is_count),
          format("tensor '{}' needs two data_offsets", name));
    const uint64_t begin = (*pair)[0], end = (*pair)[1];
    check(begin <= end && end <= data_bytes_, format("tensor '{}' lies at bytes {} to {} of {}", name, begin, end, data_bytes_));
    return {begin, end};
  }

  DType dtype(const std::string& name, const Json& entry) const {
    const auto text = entry.find("dtype");
    check(text != entry.end() && text->is_string(), format("tensor '{}' has no dtype", name));
    const auto known = std::ranges::find(kNames, text->get<std::string>(), [](const auto& pair) { return std::string(pair.second); });
    check(known != kNames.end(),
          format("tensor '{}' has dtype {}, which is none of F64 F32 F16 BF16 F8_E4M3 I32 I64 U8", name, text->get<std::string>()));
    return known->first;
  }

  Dims shape(const std::string& name, const Json& entry) const {
    const auto list = entry.find("shape");
    check(list != entry.end() && list->is_array() && list->size() <= Dims::kMax,
          format("tensor '{}' needs a shape of at most {} axes", name, Dims::kMax));
    Dims shape;
    for (const auto& extent : *list) {
      const bool possible = extent.is_number_unsigned() && extent.get<uint64_t>() <= uint64_t{1} << 62;
      check(possible, format("tensor '{}' has an impossible shape", name));
      shape.push_back(extent.get<int64_t>());
    }
    if (list->empty()) shape.push_back(1);
    return shape;
  }

  Tensor read_tensor(const std::string& name, const Json& entry) {
    const DType type = dtype(name, entry);
    const Dims dims = shape(name, entry);
    const auto [begin, end] = offsets(name, entry);
    __int128 bytes = size_of(type);  // six extents can overflow 64 bits
    for (const int64_t extent : dims) bytes = std::min<__int128>(bytes * extent, __int128{1} << 63);
    check(bytes == end - begin, format("tensor '{}' of shape {} has {} bytes", name, dims.to_string(), end - begin));
    Tensor tensor(type, dims);
    file_.seekg(static_cast<std::streamoff>(size_ - data_bytes_ + begin));
    const bool read = bytes == 0 || file_.read(static_cast<char*>(tensor->data), tensor->bytes());
    check(read, format("the bytes of tensor '{}' cannot be read", name));
    return tensor;
  }

  void check(bool good, const std::string& what) const {
    if (!good) throw Error(ErrorKind::Usage, format("{} is no valid safetensors file: {}", path_, what), "make it again");
  }

  std::string path_;
  std::ifstream file_;
  uint64_t size_ = 0, data_bytes_ = 0;
};

}  // namespace

void write_safetensors(const std::string& path, const std::map<std::string, TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<std::pair<std::string, TensorView>> order(tensors.begin(), tensors.end());
  const auto wider = [](const auto& a, const auto& b) { return size_of(a.second.dtype) > size_of(b.second.dtype); };
  std::stable_sort(order.begin(), order.end(), wider);  // widest first keeps every tensor aligned
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::vector<Tensor> copies;
  std::vector<std::span<const std::byte>> parts(2);
  int64_t place = 0;
  for (const auto& [name, tensor] : order) {
    MEGATOKEN_CHECK(name != kMetadata, "'{}' is no name for a tensor", name);
    const bool plain = tensor.device == Device::Cpu && tensor.contiguous();
    if (!plain) copies.push_back(to_device(tensor, Device::Cpu));
    const void* data = plain ? tensor.data : copies.back()->data;
    parts.emplace_back(static_cast<const std::byte*>(data), static_cast<size_t>(tensor.bytes()));
    const auto* dtype = std::ranges::find(kNames, tensor.dtype, &std::pair<DType, const char*>::first)->second;
    const std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {place, place + tensor.bytes()}}};
    place += tensor.bytes();
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  parts[0] = std::as_bytes(std::span(&length, 1));
  parts[1] = std::as_bytes(std::span(text));
  write_file(path, parts);
}

Safetensors read_safetensors(const std::string& path) { return Reader(path).read(); }

}  // namespace megatoken
