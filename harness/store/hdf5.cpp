#include "harness/store/hdf5.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "harness/store/hdf5_types.hpp"
#include "harness/store/seal.hpp"
#include "harness/store/text.hpp"

namespace megatoken::hdf5 {
namespace {

constexpr size_t kMemoryStep = size_t{1} << 20;  // by which a file in memory grows

/// What HDF5 itself says about the last failure, from where it happened.
std::string reason() {
  std::string text;
  const auto keep_first = [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
    *static_cast<std::string*>(out) = error->desc ? error->desc : "";
    return 1;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &text);
  return text;
}

}  // namespace

void Place::fail(const std::string& what) const {
  const auto why = reason();
  const auto message = format("{}: cannot {} at {}{}", file, what, path, why.empty() ? "" : format(" (HDF5: {})", why));
  if (writing) throw Error(ErrorKind::Environment, message);
  throw Error(ErrorKind::Usage, message, "the file is damaged or of another kind; restore it or make it again");
}

Handle Place::own(hid_t id, Handle::Close close, const std::string& what) const {
  if (id < 0) fail(what);
  return {id, close};
}

void Place::check(herr_t status, const std::string& what) const {
  if (status < 0) fail(what);
}

bool Object::has_attribute(const std::string& name) const { return H5Aexists(handle_, name.c_str()) > 0; }

Value Object::attribute(const std::string& name) const {
  const auto what = format("read attribute '{}'", name);
  const Handle attribute = place_.own(H5Aopen(handle_, name.c_str(), H5P_DEFAULT), H5Aclose, what);
  const Handle type = place_.own(H5Aget_type(attribute), H5Tclose, what);
  const Handle space = place_.own(H5Aget_space(attribute), H5Sclose, what);
  if (H5Tget_class(type) == H5T_STRING) {
    auto texts = read_texts(place_, type, space, [&](hid_t memory, void* buffer) { return H5Aread(attribute, memory, buffer); });
    if (H5Sget_simple_extent_type(space) == H5S_SCALAR && texts.size() == 1) return texts[0];
    return texts;
  }
  if (H5Sget_simple_extent_npoints(space) != 1) place_.fail(what + ", which is an array of numbers,");
  if (H5Tget_class(type) == H5T_FLOAT) {
    double value = 0;
    place_.check(H5Aread(attribute, H5T_NATIVE_DOUBLE, &value), what);
    return value;
  }
  int64_t value = 0;
  place_.check(H5Aread(attribute, H5T_NATIVE_INT64, &value), what);
  return value;
}

bool Object::is_value(const std::string& name) const {
  const Handle attribute = place_.own(H5Aopen(handle_, name.c_str(), H5P_DEFAULT), H5Aclose, format("read attribute '{}'", name));
  const Handle type = place_.own(H5Aget_type(attribute), H5Tclose, format("read attribute '{}'", name));
  const H5T_class_t kind = H5Tget_class(type);
  return kind == H5T_STRING || kind == H5T_FLOAT || kind == H5T_INTEGER;
}

Fields Object::attributes() const {
  std::vector<std::string> names;
  const auto collect = [](hid_t, const char* name, const H5A_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->push_back(name);
    return 0;
  };
  place_.check(H5Aiterate2(handle_, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names), "list the attributes");
  Fields fields;
  for (const auto& name : names)
    if (is_value(name)) fields.push_back({name, attribute(name)});
  return fields;
}

void Object::set_attribute(const std::string& name, const Value& value) {
  const auto what = format("write attribute '{}'", name);
  const auto put = [&](hid_t type, hid_t space, const void* data) {
    if (H5Aexists(handle_, name.c_str()) > 0) place_.check(H5Adelete(handle_, name.c_str()), what);
    const Handle attribute = place_.own(H5Acreate2(handle_, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose, what);
    if (H5Sget_simple_extent_npoints(space) > 0) place_.check(H5Awrite(attribute, type, data), what);
  };
  const Handle scalar = place_.own(H5Screate(H5S_SCALAR), H5Sclose, what);
  if (const auto* texts = value.if_is<std::vector<std::string>>()) {
    const TextBuffer buffer(*texts);
    const hsize_t count = texts->size();
    put(text_type(place_), place_.own(H5Screate_simple(1, &count, nullptr), H5Sclose, what), buffer.data());
  } else if (const auto* text = value.if_is<std::string>()) {
    const auto valid = valid_utf8(*text);
    const char* data = valid.c_str();
    put(text_type(place_), scalar, &data);
  } else if (const auto* number = value.if_is<double>()) {
    put(H5T_NATIVE_DOUBLE, scalar, number);
  } else {
    const auto* flag = value.if_is<bool>();
    const int64_t integer = flag ? *flag : *value.if_is<int64_t>();
    put(H5T_NATIVE_INT64, scalar, &integer);
  }
}

void Object::set_attributes(const Fields& fields) {
  for (const auto& field : fields) set_attribute(field.name, field.value);
}

bool Group::has(const std::string& name) const { return H5Lexists(handle_, name.c_str(), H5P_DEFAULT) > 0; }

std::vector<std::string> Group::names() const {
  std::vector<std::string> names;
  const auto collect = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->push_back(name);
    return 0;
  };
  place_.check(H5Literate(handle_, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names), "list the group");
  return names;
}

bool Group::is_group(const std::string& name) const {
  const Handle object = place_.own(H5Oopen(handle_, name.c_str(), H5P_DEFAULT), H5Oclose, format("open '{}'", name));
  return H5Iget_type(object) == H5I_GROUP;
}

Group Group::group(const std::string& name) const {
  return {place_.own(H5Gopen2(handle_, name.c_str(), H5P_DEFAULT), H5Gclose, format("open group '{}'", name)), place_.child(name)};
}

Group Group::create_group(const std::string& name) {
  const hid_t id = H5Gcreate2(handle_, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  return {place_.own(id, H5Gclose, format("make group '{}'", name)), place_.child(name)};
}

Dataset Group::dataset(const std::string& name) const {
  return {place_.own(H5Dopen2(handle_, name.c_str(), H5P_DEFAULT), H5Dclose, format("open '{}'", name)), place_.child(name)};
}

void Group::copy_from(const Group& source, const std::string& name) {
  place_.check(H5Ocopy(source.id(), name.c_str(), handle_, name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
               format("copy '{}' from {}", name, source.place_.file));
}

/// The buffer of a file in memory. HDF5 1.10's own copy of it (H5Fget_file_image) has a wrong checksum in its superblock, so we keep
/// the buffer that HDF5 leaves when it closes the file.
struct File::Memory {
  void* data = nullptr;

  static H5FD_file_image_callbacks_t callbacks(Memory* memory) {
    return {.image_malloc = [](size_t size, H5FD_file_image_op_t, void* self) { return resize(self, nullptr, size); },
            .image_memcpy = [](void* to, const void* from, size_t size, H5FD_file_image_op_t, void*) { return std::memcpy(to, from, size); },
            .image_realloc = [](void* data, size_t size, H5FD_file_image_op_t, void* self) { return resize(self, data, size); },
            .image_free = [](void*, H5FD_file_image_op_t, void*) -> herr_t { return 0; },
            .udata_copy = [](void* self) { return self; },
            .udata_free = [](void*) -> herr_t { return 0; },
            .udata = memory};
  }
  static void* resize(void* self, void* data, size_t size) {
    void* resized = std::realloc(data, size);
    if (resized) static_cast<Memory*>(self)->data = resized;
    return resized;
  }
};

void File::FreeMemory::operator()(Memory* memory) const {
  std::free(memory->data);
  delete memory;
}

File File::in_memory(const std::string& name) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const Place place{name, true};
  std::unique_ptr<Memory, FreeMemory> memory(new Memory);
  auto callbacks = Memory::callbacks(memory.get());
  const Handle access = place.own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "start a file");
  place.check(H5Pset_fapl_core(access, kMemoryStep, false), "start a file");
  place.check(H5Pset_file_image_callbacks(access, &callbacks), "start a file");
  place.check(H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST), "start a file");
  // HDF5 looks for an existing file first, and would read the last checkpoint into memory: below /dev/null there can be none.
  const std::string nowhere = "/dev/null/" + name;
  return {place.own(H5Fcreate(nowhere.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose, "start a file"), place, std::move(memory)};
}

File File::open(const std::string& name) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  struct stat status{};
  if (stat(name.c_str(), &status) != 0) throw Error(ErrorKind::Usage, format("{}: {}", name, std::strerror(errno)), "check the path");
  MEGATOKEN_CHECK(S_ISREG(status.st_mode), "{} is no file", name);
  const Place place{name, false};
  check_seal(name);
  if (H5Fis_hdf5(name.c_str()) == 0)
    throw Error(ErrorKind::Usage, format("{} is not an HDF5 file, or its start is damaged", name), "restore it or make it again");
  const Handle access = place.own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "open the file");
  // Writers replace files as a whole, so readers need no locks, which some network file systems refuse.
  place.check(H5Pset_file_locking(access, false, true), "open the file");
  return {place.own(H5Fopen(name.c_str(), H5F_ACC_RDONLY, access), H5Fclose, "open the file"), place};
}

std::vector<std::byte> File::image() && {
  place_.check(H5Fflush(handle_, H5F_SCOPE_GLOBAL), "assemble the file");
  const auto size = H5Fget_file_image(handle_, nullptr, 0);
  if (size <= 0 || H5Fget_obj_count(handle_, H5F_OBJ_ALL) != 1) place_.fail("assemble the file");
  close();
  const auto* bytes = static_cast<const std::byte*>(memory_->data);
  std::vector<std::byte> sealed(bytes, bytes + size);
  seal(sealed);
  return sealed;
}

}  // namespace megatoken::hdf5
