#include "harness/store/hdf5_types.hpp"

namespace megatoken::hdf5 {

Handle text_type(const Place& place) {
  Handle type = place.own(H5Tcopy(H5T_C_S1), H5Tclose, "make a string type");
  place.check(H5Tset_size(type, H5T_VARIABLE), "make a string type");
  place.check(H5Tset_cset(type, H5T_CSET_UTF8), "make a string type");
  return type;
}

namespace {

/// An IEEE-like type of two bytes; HDF5 and h5py convert it to float by its fields.
Handle half_type(const Place& place, size_t exponent_bits, size_t mantissa_bits) {
  Handle type = place.own(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "make a float type");
  place.check(H5Tset_fields(type, 15, mantissa_bits, exponent_bits, 0, mantissa_bits), "make a float type");
  place.check(H5Tset_size(type, 2), "make a float type");
  place.check(H5Tset_ebias(type, (size_t{1} << (exponent_bits - 1)) - 1), "make a float type");
  return type;
}

}  // namespace

Handle tensor_type(const Place& place, DType dtype) {
  switch (dtype) {
    case DType::F16: return half_type(place, 5, 10);
    case DType::BF16: return half_type(place, 8, 7);
    case DType::F64: return place.own(H5Tcopy(H5T_IEEE_F64LE), H5Tclose, "make a float type");
    case DType::F32: return place.own(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "make a float type");
    case DType::I32: return place.own(H5Tcopy(H5T_STD_I32LE), H5Tclose, "make an integer type");
    case DType::I64: return place.own(H5Tcopy(H5T_STD_I64LE), H5Tclose, "make an integer type");
    default: return place.own(H5Tcopy(H5T_STD_U8LE), H5Tclose, "make an integer type");  // u8, and e4m3: HDF5 would read its 448 as NaN
  }
}

}  // namespace megatoken::hdf5
