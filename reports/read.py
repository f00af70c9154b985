"""A result file as tables: read('x.h5')['results']['time_median'] is a numpy column, rows(table) a list of dicts.

Every group of the file with attribute `table` is a table of equally long 1-D columns; missing values are NaN, -1 and "".
"""
from pathlib import Path

import h5py

SCHEMA, MAJOR = "megatoken-result", 1


class BadFile(Exception):
    """A file that cannot be read as a result file; the message names it and says what to do."""


class Tables(dict):
    """Table name -> {column: array}, with the attributes of the file in `file` and of its provenance in `provenance`."""

    def __init__(self, path):
        super().__init__()
        self.path, self.file, self.provenance = Path(path), {}, {}


def read(path):
    """The tables of one result file; raises BadFile with one clear line for anything else."""
    path = Path(path)
    if not path.exists():
        raise BadFile(f"{path}: no such file; give the result file that check, sweep or plan wrote")
    try:
        with open(path, "rb") as file:
            if file.read(8) != b"\x89HDF\r\n\x1a\n":
                raise BadFile(f"{path}: not an HDF5 file; give the .h5 file that check, sweep or plan wrote")
        with h5py.File(path, "r") as file:
            return _tables(path, file)
    except PermissionError:
        raise BadFile(f"{path}: may not be read; change its permissions") from None
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        if path.is_dir():
            raise BadFile(f"{path}: a directory; give the result files in it") from None
        reason = " ".join(str(error).split())
        raise BadFile(f"{path}: damaged ({reason}); run the case again, or restore the file from a copy") from None


def rows(table):
    """The table as a list of {column: value}, one a row."""
    return [dict(zip(table, values)) for values in zip(*(column.tolist() for column in table.values()))]


def _tables(path, file):
    schema, version = _text(file.attrs.get("schema", "")), _text(file.attrs.get("schema_version", ""))
    if schema != SCHEMA:
        raise BadFile(f"{path}: an HDF5 file, but not a Megatoken result file; give the .h5 file that check, sweep or plan wrote")
    if int(version.split(".")[0]) > MAJOR:
        raise BadFile(f"{path}: written with schema {version}, this version reads {MAJOR}.x; update Megatoken")
    tables = Tables(path)
    tables.file = {name: _text(value) for name, value in file.attrs.items()}
    if "provenance" in file:
        tables.provenance = {name: _text(value) for name, value in file["provenance"].attrs.items()}
    for name, group in file.items():
        if isinstance(group, h5py.Group) and group.attrs.get("table", 0):
            columns = [_text(column) for column in group.attrs["columns"]]
            tables[name] = {column: _column(group[column]) for column in columns}
            if len({len(column) for column in tables[name].values()}) > 1:
                raise ValueError(f"the columns of table {name} differ in length")
    return tables


def _column(dataset):
    return dataset.asstr()[:] if h5py.check_string_dtype(dataset.dtype) else dataset[:]


def _text(value):
    return value.decode() if isinstance(value, bytes) else value
