"""Reads the file that ResultFileInPython of result_file_test.cpp wrote, one line per table, with nothing but h5py. Exit 77: no h5py here."""
import json
import sys

try:
    import h5py
    import numpy
except ImportError as missing:
    print(missing)
    sys.exit(77)


def table(group):
    return {k: group[k].asstr()[:] if h5py.check_string_dtype(group[k].dtype) else group[k][:] for k in group.attrs["columns"]}


with h5py.File(sys.argv[1]) as file:
    tables = {name: table(file[name]) for name in file if "table" in file[name].attrs}
    assert file.attrs["schema"] == "megatoken-result" and file.attrs["status"] == "complete"
    assert list(file.attrs["argv"]) == ["megatoken", "check", "größe=1"], file.attrs["argv"]
    assert json.loads(file.attrs["tags_json"]) == {"host": "a \"b\""}
    assert list(file["provenance"].attrs["env_names"]) == sorted(file["provenance"].attrs["env_names"])
    for name in "results checks samples memory balance devices links ceilings timeline verdicts faults".split():
        assert name in tables, name
        group, dimension = file[name], file[name].attrs["dimension"]
        for column in group.attrs["columns"]:
            assert group[column].dims[0][0] == group[dimension], (name, column)   # every column hangs on the scale of its table
            assert group[column].chunks == (1024,) and group[column].maxshape == (None,) and group[column].shuffle, (name, column)
            assert group[column].compression == "gzip" and "units" in group[column].attrs and group[column].attrs["long_name"]
            assert group[column].fletcher32 == (not h5py.check_string_dtype(group[column].dtype)), (name, column)
        assert list(group[dimension][:]) == list(range(len(group[dimension])))

    results = tables["results"]
    assert list(results["key"]) == ["attention/cpu fwd fp32 t=64", "attention/gpu"] and list(results["status"]) == ["pass", "skipped"]
    assert list(results["t"]) == [64, -1] and results["t"].dtype == numpy.int64
    assert results["scale"][0] == 0.125 and numpy.isnan(results["scale"][1])
    assert results["time_median"][0] == 1e-3 and numpy.isnan(results["time_median"][1])
    assert list(results["deterministic"]) == [1, -1] and results["deterministic"].dtype == numpy.int8
    assert results["reason"][1] == "no_device: “none”"
    assert file["results/time_median"].attrs["units"] == "s" and file["results/t"].attrs["long_name"] == "tokens"
    assert list(tables["checks"]["result"]) == [0, 0] and list(tables["checks"]["output"]) == ["o", "dk"]

    tensors = file["tensors/0"]
    values = [0.0, 1.0, -1.5, 0.15625, 2.0 ** -14, 448.0]
    for name in "fp64 fp32 fp16 bf16".split():
        assert list(tensors[name][:]) == values, (name, tensors[name][:])
    for name in "i32 i64 u8".split():
        assert list(tensors[name][:]) == [0, 1, 2, 3, 4, 100], (name, tensors[name][:])
    assert tensors["e4m3"].dtype == numpy.uint8 and list(tensors["e4m3"][:]) == [0x00, 0x38, 0xBC, 0x22, 0x00, 0x7E], tensors["e4m3"][:]
    for name in tensors:
        assert tensors[name].attrs["dtype"] == name and tensors[name].attrs["layout"] == "t" and tensors[name].attrs["role"] == "out"
    assert tensors["bf16"].id.get_type().get_size() == 2 and tensors["fp16"].dtype == numpy.float16
    extremes = file["tensors/1/bf16"][:]
    assert extremes[0] == numpy.float32(3.3895314e38) and extremes[1] == numpy.inf and numpy.isnan(extremes[2]) and extremes[3] == 2.0 ** -133
print("read", len(tables), "tables")
