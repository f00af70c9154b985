// HDF5's types for our numbers and strings.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "harness/store/hdf5.hpp"
#include "harness/store/text.hpp"

namespace megatoken::hdf5 {

/// UTF-8 strings of variable length.
Handle text_type(const Place& place);
/// The type a tensor of this dtype has in a file.
Handle tensor_type(const Place& place, DType dtype);

/// Strings as HDF5 takes them: an array of pointers to valid UTF-8.
class TextBuffer {
 public:
  explicit TextBuffer(const std::vector<std::string>& texts) {
    for (const auto& text : texts) texts_.push_back(valid_utf8(text));
    for (const auto& text : texts_) pointers_.push_back(text.c_str());
  }
  const void* data() const { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<const char*> pointers_;
};

/// Reads the strings of a dataset or attribute through `read(memory type, buffer)`.
template <class Read>
std::vector<std::string> read_texts(const Place& place, hid_t type, hid_t space, Read&& read) {
  const auto count = static_cast<size_t>(H5Sget_simple_extent_npoints(space));
  std::vector<std::string> texts(count);
  if (count == 0) return texts;
  if (H5Tis_variable_str(type) > 0) {
    std::vector<char*> buffer(count, nullptr);
    place.check(read(type, buffer.data()), "read strings");
    for (size_t i = 0; i < count; ++i) texts[i] = buffer[i] ? buffer[i] : "";
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, buffer.data());
  } else {
    const size_t width = H5Tget_size(type);
    std::vector<char> buffer(count * width);
    place.check(read(type, buffer.data()), "read strings");
    for (size_t i = 0; i < count; ++i) texts[i].assign(&buffer[i * width], strnlen(&buffer[i * width], width));
  }
  return texts;
}

}  // namespace megatoken::hdf5
