// Columns of tables and n-D tensors as HDF5 datasets.
#include <hdf5_hl.h>

#include "harness/store/hdf5.hpp"
#include "harness/store/hdf5_types.hpp"

namespace megatoken::hdf5 {
namespace {

constexpr hsize_t kRowsPerChunk = 1024;

/// About a MiB per chunk, whole inner dimensions first, so that a row range is read without the rest.
std::vector<hsize_t> chunk_shape(const std::vector<hsize_t>& shape, size_t element) {
  std::vector<hsize_t> chunk(shape.size(), 1);
  hsize_t left = (hsize_t{1} << 20) / element;
  for (size_t axis = shape.size(); axis-- > 0 && left > 1; left /= chunk[axis]) chunk[axis] = std::min(shape[axis], left);
  return chunk;
}

}  // namespace

std::vector<hsize_t> Dataset::shape() const {
  const Handle space = place_.own(H5Dget_space(handle_), H5Sclose, "read the shape");
  const int rank = H5Sget_simple_extent_ndims(space);
  place_.check(rank, "read the shape");
  std::vector<hsize_t> shape(static_cast<size_t>(rank));
  place_.check(H5Sget_simple_extent_dims(space, shape.data(), nullptr), "read the shape");
  return shape;
}

ColumnType Dataset::column_type() const {
  const Handle type = place_.own(H5Dget_type(handle_), H5Tclose, "read the type");
  switch (H5Tget_class(type)) {
    case H5T_STRING: return ColumnType::String;
    case H5T_FLOAT: return ColumnType::Float;
    case H5T_INTEGER: return H5Tget_size(type) == 1 ? ColumnType::Bool : ColumnType::Int;
    default: place_.fail("read a column that is neither text nor numbers");
  }
}

ColumnData Dataset::column(ColumnType type) const {
  const auto dims = shape();
  if (dims.size() != 1) place_.fail(format("read a column of {} dimensions", dims.size()));
  if (column_type() != type) place_.fail(format("read a column of type {} as {}", to_string(column_type()), to_string(type)));
  const auto read = [&]<class T>(std::vector<T> data, hid_t memory) -> ColumnData {
    if (!data.empty()) place_.check(H5Dread(handle_, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data()), "read the column");
    return data;
  };
  if (type == ColumnType::Float) return read(std::vector<double>(dims[0]), H5T_NATIVE_DOUBLE);
  if (type != ColumnType::String) return read(std::vector<int64_t>(dims[0]), H5T_NATIVE_INT64);
  const Handle stored = place_.own(H5Dget_type(handle_), H5Tclose, "read the type");
  const Handle space = place_.own(H5Dget_space(handle_), H5Sclose, "read the shape");
  return read_texts(place_, stored, space,
                    [&](hid_t memory, void* buffer) { return H5Dread(handle_, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, buffer); });
}

DType Dataset::dtype(hid_t type) const {
  const size_t size = H5Tget_size(type);
  if (has_attribute("dtype")) {
    const Value value = attribute("dtype");
    const auto* name = value.if_is<std::string>();
    if (!name) place_.fail("read attribute 'dtype', which is no text,");
    const DType dtype = parse_dtype(*name);
    if (static_cast<size_t>(size_of(dtype)) != size) place_.fail(format("read {}-byte numbers as {}", size, *name));
    return dtype;
  }
  if (H5Tget_class(type) == H5T_INTEGER) {
    if (size == 1 && H5Tget_sign(type) == H5T_SGN_NONE) return DType::U8;
    return size == 4 && H5Tget_sign(type) == H5T_SGN_2 ? DType::I32 : DType::I64;
  }
  if (H5Tget_class(type) != H5T_FLOAT) place_.fail("read a tensor that holds no numbers");
  if (size == 2) return H5Tget_ebias(type) == 127 ? DType::BF16 : DType::F16;
  return size == 4 ? DType::F32 : DType::F64;
}

Tensor Dataset::tensor() const {
  const Handle type = place_.own(H5Dget_type(handle_), H5Tclose, "read the type");
  const auto extents = shape();
  if (extents.size() > Dims::kMax) place_.fail(format("read a tensor of {} dimensions, more than {},", extents.size(), Dims::kMax));
  Dims dims;
  for (const hsize_t extent : extents) dims.push_back(static_cast<int64_t>(extent));
  if (extents.empty()) dims.push_back(1);  // a scalar
  Tensor tensor(dtype(type), dims);
  const Handle memory = tensor_type(place_, tensor->dtype);
  if (tensor->size() > 0) place_.check(H5Dread(handle_, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor->data), "read the tensor");
  return tensor;
}

void Dataset::make_scale(const std::string& dimension) {
  place_.check(H5DSset_scale(handle_, dimension.c_str()), "make a dimension scale");
}

void Dataset::attach_scale(const Dataset& scale) {
  place_.check(H5DSattach_scale(handle_, scale.handle_, 0), "attach the dimension scale");
}

Dataset Group::create_column(const std::string& name, const ColumnData& data, ColumnType type) {
  const auto what = format("write column '{}'", name);
  const hsize_t rows = std::visit([](const auto& values) { return values.size(); }, data);
  const hsize_t unlimited = H5S_UNLIMITED;
  const Handle space = place_.own(H5Screate_simple(1, &rows, &unlimited), H5Sclose, what);
  const Handle settings = place_.own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what);
  place_.check(H5Pset_chunk(settings, 1, &kRowsPerChunk), what);
  place_.check(H5Pset_shuffle(settings), what);
  place_.check(H5Pset_deflate(settings, 4), what);
  if (type != ColumnType::String) place_.check(H5Pset_fletcher32(settings), what);
  const auto create = [&](hid_t stored, hid_t memory, const void* values) {
    Dataset dataset(place_.own(H5Dcreate2(handle_, name.c_str(), stored, space, H5P_DEFAULT, settings, H5P_DEFAULT), H5Dclose, what),
                    place_.child(name));
    if (rows > 0) place_.check(H5Dwrite(dataset.id(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), what);
    return dataset;
  };
  if (const auto* texts = std::get_if<std::vector<std::string>>(&data)) {
    const Handle text = text_type(place_);
    return create(text, text, TextBuffer(*texts).data());
  }
  if (const auto* floats = std::get_if<std::vector<double>>(&data)) return create(H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, floats->data());
  return create(type == ColumnType::Bool ? H5T_STD_I8LE : H5T_STD_I64LE, H5T_NATIVE_INT64, std::get<std::vector<int64_t>>(data).data());
}

Dataset Group::create_tensor(const std::string& name, const TensorView& tensor) {
  const auto what = format("write tensor '{}'", name);
  const std::vector<hsize_t> shape(tensor.shape.begin(), tensor.shape.end());
  const Handle space = place_.own(H5Screate_simple(tensor.shape.rank(), shape.data(), nullptr), H5Sclose, what);
  const Handle settings = place_.own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what);
  if (tensor.size() > 0) {  // a checksum needs chunks; random mantissas do not compress
    const auto chunk = chunk_shape(shape, static_cast<size_t>(size_of(tensor.dtype)));
    place_.check(H5Pset_chunk(settings, tensor.shape.rank(), chunk.data()), what);
    place_.check(H5Pset_fletcher32(settings), what);
  }
  const Handle type = tensor_type(place_, tensor.dtype);
  Dataset dataset(place_.own(H5Dcreate2(handle_, name.c_str(), type, space, H5P_DEFAULT, settings, H5P_DEFAULT), H5Dclose, what),
                  place_.child(name));
  const Tensor host = tensor.contiguous() && tensor.device == Device::Cpu ? Tensor() : to_device(tensor, Device::Cpu);
  const void* data = host ? host->data : tensor.data;
  if (tensor.size() > 0) place_.check(H5Dwrite(dataset.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), what);
  dataset.set_attribute("dtype", to_string(tensor.dtype));
  return dataset;
}

}  // namespace megatoken::hdf5
