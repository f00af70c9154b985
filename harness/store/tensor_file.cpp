#include "harness/store/tensor_file.hpp"

#include "harness/store/files.hpp"
#include "harness/store/hdf5.hpp"

namespace megatoken {
namespace {

bool is_hdf5(const std::string& path) { return path.ends_with(".h5") || path.ends_with(".hdf5"); }

std::vector<std::byte> encode(const std::string& path, const std::map<std::string, TensorView>& tensors, const std::map<std::string, std::string>& metadata) {
  auto file = hdf5::File::in_memory(path);
  for (const auto& [key, text] : metadata) file.set_attribute(key, text);
  for (const auto& [name, tensor] : tensors) file.create_tensor(name, tensor);
  return std::move(file).image();
}

TensorFile decode(const std::string& path) {
  const auto file = hdf5::File::open(path);
  TensorFile result;
  for (const auto& [name, value] : file.attributes())
    if (const auto* text = value.if_is<std::string>()) result.metadata.emplace(name, *text);
  for (const auto& name : file.names())
    if (!file.is_group(name)) result.tensors.emplace(name, file.dataset(name).tensor());
  return result;
}

}  // namespace

void check_tensor_file_name(const std::string& path) {
  if (!is_hdf5(path) && !path.ends_with(".safetensors")) throw Error(ErrorKind::Usage, format("'{}' is no file of tensors", path), "name it NAME.h5 or NAME.safetensors");
}

void write_tensor_file(const std::string& path, const std::map<std::string, TensorView>& tensors, const std::map<std::string, std::string>& metadata) {
  check_tensor_file_name(path);
  if (file_identity(path)) throw Error(ErrorKind::Usage, path + " exists", "name another file or remove it");
  if (is_hdf5(path)) create_file(path, encode(path, tensors, metadata));
  else write_safetensors(path, tensors, metadata);
}

TensorFile read_tensor_file(const std::string& path) {
  check_tensor_file_name(path);
  return is_hdf5(path) ? decode(path) : read_safetensors(path);
}

}  // namespace megatoken
