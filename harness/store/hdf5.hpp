// A thin layer over HDF5's C API: handles that close themselves, attributes, table columns and tensors. Every failed call becomes an
// Error that names the file and the object; HDF5 itself never prints. The library is not thread-safe: one thread at a time.
//
// New files are built in memory and written by write_atomically (files.hpp): HDF5 1.10 crashes at exit after a close that failed on a full
// disk, and a killed writer would leave a file that does not open.
#pragma once
#include <hdf5.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/store/table.hpp"
#include "harness/store/value.hpp"
#include "reference/core/tensor.hpp"

namespace megatoken::hdf5 {

/// Owns one HDF5 identifier.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  Close close_;
};

/// Where an object is, for error messages: the file, whether it is being written, and the path inside.
struct Place {
  std::string file;
  bool writing = false;
  std::string path = "/";

  Place child(const std::string& name) const { return {file, writing, path == "/" ? "/" + name : path + "/" + name}; }
  [[noreturn]] void fail(const std::string& what) const;
  /// Wraps the result of a call that returns a new identifier, or throws.
  Handle own(hid_t id, Handle::Close close, const std::string& what) const;
  /// Throws when a call returned a negative status.
  void check(herr_t status, const std::string& what) const;
};

/// What groups and datasets have in common: attributes.
class Object {
 public:
  hid_t id() const { return handle_; }
  const Place& place() const { return place_; }
  bool has_attribute(const std::string& name) const;
  Value attribute(const std::string& name) const;
  /// All attributes that are text or numbers, so without the references of dimension scales.
  Fields attributes() const;
  /// bool becomes 0 or 1; a list of texts a 1-D array of strings.
  void set_attribute(const std::string& name, const Value& value);
  void set_attributes(const Fields& fields);

 private:
  bool is_value(const std::string& name) const;

 protected:
  Object(Handle handle, Place place) : handle_(std::move(handle)), place_(std::move(place)) {}
  Handle handle_;
  Place place_;
};

class Dataset : public Object {
 public:
  Dataset(Handle handle, Place place) : Object(std::move(handle), std::move(place)) {}
  std::vector<hsize_t> shape() const;
  /// String, Float, Bool (one-byte integers) or Int.
  ColumnType column_type() const;
  /// Reads a 1-D dataset as a column of that type.
  ColumnData column(ColumnType type) const;
  /// Reads any numeric dataset; dtype from the attribute `dtype`, else from the number format in the file.
  Tensor tensor() const;
  /// Makes this dataset the scale of a dimension, for others to attach.
  void make_scale(const std::string& dimension);
  void attach_scale(const Dataset& scale);

 private:
  DType dtype(hid_t type) const;
};

class Group : public Object {
 public:
  Group(Handle handle, Place place) : Object(std::move(handle), std::move(place)) {}
  bool has(const std::string& name) const;
  /// Names in alphabetical order.
  std::vector<std::string> names() const;
  /// True when `name` is a group, false for a dataset.
  bool is_group(const std::string& name) const;
  Group group(const std::string& name) const;
  Group create_group(const std::string& name);
  Dataset dataset(const std::string& name) const;
  /// A 1-D extensible dataset in chunks of 1024, compressed; numbers with a checksum (HDF5 refuses one on strings of variable length).
  Dataset create_column(const std::string& name, const ColumnData& data, ColumnType type);
  /// An n-D dataset; fp16 and bf16 as float types of their own, e4m3 as uint8; attribute `dtype` says which.
  Dataset create_tensor(const std::string& name, const TensorView& tensor);
  /// Copies a whole group or dataset from another file.
  void copy_from(const Group& source, const std::string& name);
};

class File : public Group {
 public:
  /// A new file in memory, to become `name`.
  static File in_memory(const std::string& name);
  /// An existing file, to be read.
  static File open(const std::string& name);
  File(File&&) = default;
  ~File() { close(); }
  /// Closes a file built in memory and returns its bytes, sealed (seal.hpp). Its groups and datasets must be gone.
  std::vector<std::byte> image() &&;

 private:
  struct Memory;
  struct FreeMemory {
    void operator()(Memory* memory) const;
  };
  File(Handle handle, Place place, std::unique_ptr<Memory, FreeMemory> memory = nullptr)
      : Group(std::move(handle), std::move(place)), memory_(std::move(memory)) {}
  void close() { Handle(std::move(handle_)); }

  std::unique_ptr<Memory, FreeMemory> memory_;  // outlives the handle: HDF5 writes into it until the file is closed
};

}  // namespace megatoken::hdf5
