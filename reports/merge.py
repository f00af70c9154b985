"""Several result files as one set of tables, so that one report can be drawn from runs on different machines.

Every table gets a column `run` (position of its file), references to rows of `results` are shifted, and `results` gets a column
`current`: a case that was measured again on the same device counts once, the last row of the last file wins.
"""
import dataclasses
from collections import Counter

import numpy

from reports.read import Tables, rows


@dataclasses.dataclass(frozen=True)
class Run:
    """Where and with what one file was measured: what a caption has to say."""

    file: str
    id: str
    created: str
    status: str
    commit: str
    gpus: str
    cpus: str
    software: str
    clocks: str

    @property
    def devices(self):
        return ", ".join(part for part in (self.gpus, self.cpus) if part)

    def device(self, kind):
        """The devices a row ran on: kind is its column `device`, gpu or cpu."""
        return (self.gpus or "no GPU") if kind == "gpu" else self.cpus or self.devices or kind

    @property
    def short_id(self):
        return self.id[:8]


class Merged(dict):
    """Table name -> {column: array}, as Tables, of several files; `runs` describes them, `files` are the Tables they came from."""

    def __init__(self, files):
        super().__init__()
        self.files = files
        self.runs = [describe(file) for file in files]
        self._rows = {}

    def rows(self, name):
        """The rows of a table as dicts, [] if there is none; of results only those that no later row replaces."""
        if name not in self._rows:
            found = rows(self.get(name, {}))
            self._rows[name] = [row for row in found if row.get("current", True)]
        return self._rows[name]


def merge(files: "list[Tables]"):
    merged = Merged(files)
    first_result = numpy.cumsum([0] + [_length(file.get("results", {})) for file in files])
    for name in sorted({name for file in files for name in file}):
        parts = []
        for run, file in enumerate(files):
            if _length(file.get(name, {})):
                parts.append(dict(file[name], run=numpy.full(_length(file[name]), run)))
                if name != "results" and "result" in file[name] and numpy.issubdtype(file[name]["result"].dtype, numpy.integer):
                    result = file[name]["result"].astype(numpy.int64)
                    parts[-1]["result"] = numpy.where(result >= 0, result + first_result[run], -1)
        if parts:
            merged[name] = _stack(parts)
    if "results" in merged:
        merged["results"]["index"] = numpy.arange(_length(merged["results"]))
        merged["results"]["current"] = _current(merged)
    return merged


def describe(file):
    """The Run of one file."""
    devices = rows(file.get("devices", {}))
    provenance = file.provenance
    commit = str(provenance.get("git_commit", ""))[:10] or "unknown commit"
    versions = [f"{label} {provenance[name]}" for label, name in (("driver", "cuda_driver"), ("CUDA", "cuda_runtime"), ("NCCL", "nccl"))
                if str(provenance.get(name, "")) not in ("", "none")]
    return Run(
        file=file.path.name,
        id=str(file.file.get("run_id", "")),
        created=str(file.file.get("created", "")),
        status=str(file.file.get("status", "")),
        commit=commit + (" with changes" if provenance.get("git_dirty") in (1, True, "1", "true") else ""),
        gpus=_devices(device for device in devices if device.get("kind") == "gpu"),
        cpus=_devices(device for device in devices if device.get("kind") != "gpu"),
        software=", ".join(versions),
        clocks=", ".join(sorted({device.get("clock_policy", "") for device in devices} - {""})),
    )


def _devices(devices):
    """'4 × NVIDIA H200': ranks that share a device count once."""
    distinct = {(device.get("index"), device.get("uuid"), device.get("name") or device.get("arch") or "unknown device"): device
                for device in devices}
    cores = {name: f" ({device['sm_count']} cores)" if device.get("kind") == "cpu" and device.get("sm_count", -1) > 0 else ""
             for (_, _, name), device in distinct.items()}
    counts = Counter(name for _, _, name in distinct)
    return ", ".join((f"{count} × " if count > 1 or not cores[name] else "") + name + cores[name] for name, count in counts.items())


def _length(table):
    return len(next(iter(table.values()))) if table else 0


def _stack(parts):
    """The parts below each other; a column that a part lacks is filled with its kind's missing value."""
    columns = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        kind = next(part[name] for part in parts if name in part).dtype
        missing = {"f": numpy.nan, "i": -1, "O": ""}.get(kind.kind, 0)
        columns[name] = numpy.concatenate([part[name] if name in part else numpy.full(_length(part), missing, kind) for part in parts])
    return columns


def _current(merged):
    results = merged["results"]
    last = {}
    kinds = results.get("device", numpy.full(_length(results), ""))
    for index, (run, key, kind) in enumerate(zip(results["run"], results["key"], kinds)):
        last[merged.runs[run].device(kind), key] = index
    current = numpy.zeros(_length(results), bool)
    current[list(last.values())] = True
    return current
