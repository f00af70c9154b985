"""Writes result files as harness/store/schema.toml has them, with made-up numbers that follow exact power laws, so that tests know
what must come out."""
import sys
import tomllib
from pathlib import Path

import h5py
import numpy

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
SCHEMA = tomllib.loads((ROOT / "harness/store/schema.toml").read_text())
TABLES = {table["name"]: table for table in SCHEMA["table"]}
RUN_ID = "1a2b3c4d-0000-4000-8000-000000000000"
TEXT = h5py.string_dtype()
TYPES = {"string": (TEXT, ""), "int": (numpy.int64, -1), "float": (numpy.float64, numpy.nan), "bool": (numpy.int8, -1)}


def write(path, tables, *, schema="megatoken-result", version="1.0", run_id=RUN_ID, status="complete", provenance=None):
    """A result file with these tables ({name: list of row dicts}); columns a row lacks get the missing value of their type."""
    with h5py.File(path, "w", libver=("v108", "latest")) as file:
        file.attrs.update(dict(schema=schema, schema_version=version, run_id=run_id, status=status, tool_version="0.1.0",
                               created="2025-01-31T12:00:00Z", finished="2025-01-31T12:10:00Z", config_toml="", tags_json="{}"))
        file.attrs["argv"] = numpy.array(["megatoken", "sweep", "--suite", "demo"], dtype=TEXT)
        about = dict(git_commit="0123456789abcdef0123456789abcdef01234567", git_branch="main", git_dirty=0, cxx_compiler="GNU 12.2.0",
                     os="Debian GNU/Linux 12", kernel="Linux 6.1", hdf5="1.10.8", cuda_runtime="", cuda_driver="", nccl="")
        file.create_group("provenance").attrs.update({**about, **(provenance or {})})
        for name in {**TABLES, **tables}:
            _table(file.create_group(name), name, tables.get(name, []))
    return Path(path)


def _table(group, name, rows):
    kinds = {column: kind for column, kind, *_ in TABLES.get(name, {}).get("columns", [])}
    if TABLES.get(name, {}).get("axes") or name not in TABLES:  # axes, and tables of the planner, are as their values are
        for row in rows:
            for column, value in row.items():
                kinds.setdefault(column, "string" if isinstance(value, str) else "float" if isinstance(value, float) else "int")
    unknown = {column for row in rows for column in row} - kinds.keys()
    assert not unknown, f"{name} has no columns {unknown}"
    group.attrs["table"] = 1
    group.attrs["columns"] = numpy.array(list(kinds), dtype=TEXT)
    dimension = TABLES.get(name, {}).get("dimension", "row")
    scale = group.create_dataset(dimension, data=numpy.arange(len(rows)), maxshape=(None,), chunks=(1024,))
    scale.make_scale(dimension)
    for column, kind in kinds.items():
        dtype, missing = TYPES[kind]
        values = [row.get(column, missing) for row in rows]
        if kind != "string":
            values = numpy.array(values, dtype=dtype)
        filters = {} if kind == "string" else dict(shuffle=True, compression="gzip", compression_opts=4, fletcher32=True)
        data = group.create_dataset(column, data=values, shape=(len(rows),), dtype=dtype, maxshape=(None,), chunks=(1024,), **filters)
        data.attrs.update(units="1", long_name=column)
        data.dims[0].attach_scale(scale)


CPU = [dict(rank=0, index=0, kind="cpu", name="AMD EPYC 9454", arch="x86_64", sm_count=2, memory=8 << 30, clock_policy="as-is")]
H200 = [dict(rank=rank, index=rank, kind="gpu", uuid=f"GPU-{rank}", name="NVIDIA H200", arch="sm_90", sm_count=132, memory=150 << 30,
             clock_policy="as-is") for rank in range(4)]


def result(component, variant, tokens, *, scheme="", phase="fwd_bwd", dtype="fp32", distribution="normal", ranks=1, status="pass",
           seconds=float("nan"), axes=None, device="cpu", **more):
    """One row of `results`."""
    axes = axes or dict(h=4, hk=2, d=64)
    place = f"{component}/{variant}" + (f"@{scheme}" if scheme else "")
    shape = " ".join(f"{name}={value}" for name, value in dict(b=1, t=tokens, **axes).items())
    key = f"{place} {phase} {dtype} ranks={ranks} {shape} dist={distribution} seed=0"
    row = dict(key=key, component=component, variant=variant, scheme=scheme, phase=phase, dtype=dtype, accum="fp32",
               distribution=distribution, seed=0, ranks=ranks, device=device, b=1, t=tokens, **axes, status=status,
               flops=4.0 * tokens * tokens * 256, n_samples=0, repro=f"megatoken check '{key}'", **more)
    if seconds == seconds:
        row.update(time_median=seconds, time_q25=seconds * 0.97, time_q75=seconds * 1.05, n_samples=15, tokens_per_second=tokens / seconds)
    return row


def tables():
    """What a sweep over two components on one machine leaves: curves, failures, skips, faults, balance."""
    results, checks = [], []

    def add(row, error=None):
        results.append(row)
        gradients = () if row["phase"] == "fwd" else ("dq", "dk", "dv")
        for output, factor in zip(("o", "lse") + gradients, (1.0, 0.3, 1.4, 1.6, 1.2)) if error else ():
            yardstick = 2.4e-7 * factor * row["t"] ** 0.1
            limit = max(yardstick, 5e-7) * (3 if output[0] == "d" else 2)
            checks.append(dict(result=len(results) - 1, output=output, strategy="full" if row["t"] <= 8192 else "rows", oracle="cpu fp64",
                               metric="rel_rms", value=error * factor, yardstick=yardstick, limit=limit, factor=2.0,
                               passed=int(error * factor <= limit), n_compared=row["t"] * 256, n_nonfinite=0, n_wrong=-1,
                               worst_index=f"b=0,t={row['t'] - 1},h=3,d=7", worst_got=0.125, worst_want=0.126))

    lengths = [2**power for power in range(10, 17)]
    for distribution in ("normal", "aimed"):
        for tokens in lengths:
            base = (tokens / 1024) ** 2
            memory = dict(memory_peak=int(tokens * 4 * 256 * 9), memory_predicted=int(tokens * 4 * 256 * 8.8))
            quadratic = dict(memory_peak=int(tokens * tokens * 4.2), memory_predicted=int(tokens * tokens * 4))
            if tokens <= 16384:
                add(result("attention", "cpu", tokens, distribution=distribution, seconds=0.9 * base, **quadratic), 2.6e-7 * tokens**0.1)
            elif tokens == 32768:
                add(result("attention", "cpu", tokens, distribution=distribution, status="timeout", reason="no result within 60 s"))
            add(result("attention", "online_softmax", tokens, distribution=distribution, seconds=0.03 * base, **memory),
                1.5e-7 * tokens**0.1)
            for ranks in (2, 4):
                for scheme, cost in (("ring", 1.71), ("zigzag", 1.0)):
                    traffic = 2 * (ranks - 1) * tokens * 4 * 2 * 64 * 3
                    add(result("attention", "online_softmax", tokens, scheme=scheme, ranks=ranks, distribution=distribution,
                               seconds=0.03 * base * cost / ranks + 2e-3, comm_bytes=traffic, comm_predicted=traffic, **memory),
                        1.6e-7 * tokens**0.1)
    delta = dict(h=1, d=128, dv=128)
    for power in range(12, 21, 2):
        tokens = 2**power
        add(result("kda", "cpu", tokens, axes=delta, seconds=4e-5 * tokens, phase="fwd"))
        add(result("kda", "chunk_wy", tokens, axes=delta, seconds=4e-6 * tokens, phase="fwd"), 2e-7)
        add(result("kda", "chunk_wy", tokens, axes=delta, seconds=1e-5 * tokens, phase="bwd"), 3e-7)
    results.append(result("kda", "chunk_wy", 2**22, axes=delta, phase="bwd", status="oom", reason="needs 9.1 GiB, 7.6 GiB are free"))
    add(result("kda", "chunk_wy", 4095, axes=delta, phase="fwd", status="fail", reason="o rel_rms 3.1e-03 > 1.0e-06 at b=0,t=4094,h=0,d=7"),
        3.1e-3)
    for variant, status, reason in (("gpu", "skipped", "no_device"), ("wgmma_sm90", "skipped", "no_device"),
                                    ("tcgen05_sm100", "not_run", "compiled, never run")):
        results.append(result("attention", variant, 65536, dtype="bf16", status=status, reason=reason, device="gpu"))
    return dict(devices=CPU, results=results, checks=checks, faults=faults(), balance=balance())


def faults():
    """Who rejects which planted fault; `mask_off_by_one` is invisible to normal inputs, `old_output` only `repeat` sees."""
    caught = {"drop_last_block": ("full", "rows", "cols"), "mask_off_by_one": ("full", "rows"), "skip_rescale": ("full", "rows", "prefix"),
              "int32_offset": ("rows", "shift"), "old_output": ("repeat",), "mean_instead_of_sum": ("shards", "exact")}
    strategies = ("full", "rows", "cols", "prefix", "shift", "shards", "exact", "repeat")
    rows = []
    for number, (fault, who) in enumerate(caught.items()):
        scheme = "ring" if fault == "mean_instead_of_sum" else ""
        for strategy in strategies:
            if (strategy in ("shards", "exact")) != bool(scheme):
                continue
            for distribution in ("normal", "aimed") if strategy not in ("exact", "repeat") else ("normal",):
                rejected = strategy in who and not (fault == "mask_off_by_one" and distribution == "normal")
                value = 1e-6 * (4.0 * 10**number if rejected else 0.4)
                rows.append(dict(fault=fault, component="attention", scheme=scheme, strategy=strategy, distribution=distribution,
                                 metric="wrong" if strategy == "exact" else "rel_rms", value=value, limit=1e-6, rejected=int(rejected)))
    return rows


def balance():
    """(query, key) pairs of causal attention, counted one by one."""
    rows = []
    for tokens, ranks in ((16, 4), (32, 8)):
        position = numpy.arange(tokens)
        half = tokens // (2 * ranks)
        stripe = position // half
        owners = {"contiguous": position // (tokens // ranks), "zigzag": numpy.minimum(stripe, 2 * ranks - 1 - stripe)}
        for scheme, owner in owners.items():
            for rank in range(ranks):
                counts = [sum(int(key <= query) for query in position[owner == rank] for key in position[owner == (rank - step) % ranks])
                          for step in range(ranks)]
                for step, pairs in enumerate(counts):
                    rows.append(dict(scheme=scheme, tokens=tokens, ranks=ranks, rank=rank, step=step, pairs=pairs))
    return rows


def plan_tables():
    """What the planner leaves: memory over tokens, time and traffic over context-parallel degree, longest sequence over GPUs."""
    gib = 2.0**30
    memory = [dict(model="glm53_flash", gpu="b200", label="full recompute + offload, tp 8, cp 2", tokens=tokens, category=category,
                   bytes=share * gib, capacity=178 * gib)
              for tokens in (2**16, 2**17, 2**18, 2**19, 2**20)
              for category, share in (("weights", 9.0), ("grads", 9.0), ("optimizer", 14.0), ("activations", tokens / 2**20 * 96),
                                      ("workspace", tokens / 2**20 * 44), ("comm", 3.0 + tokens / 2**20 * 6),
                                      ("logits", tokens / 2**20 * 12), ("host", tokens / 2**20 * 180))]
    time = [dict(model="glm53_flash", gpu="b200", label="1Mi tokens", cp=cp, tokens=2**20, term=term, seconds=seconds, bytes=volume)
            for cp in (1, 2, 4, 8)
            for term, seconds, volume in (("sparse attention", 180.0 / cp, 0.0), ("indexer", 60.0 / cp, 2e9 * (cp - 1)),
                                          ("linear attention", 30.0 / cp, 1e9 * (cp - 1)), ("experts", 50.0 / cp, 8e10 / cp),
                                          ("exposed communication", 4.0 * cp, 0.0))]
    techniques = ("baseline", "+ sequence parallelism", "+ tiled loss", "+ offload")
    longest = [dict(model="llama_8b", gpu="h100", technique=technique, gpus=gpus, tokens=int(32768 * gpus**0.95 * 2.6**number))
               for number, technique in enumerate(techniques) for gpus in (1, 2, 4, 8, 16, 32)]
    studies = [dict(study=name, title=title, series=series, x_label="ranks", x=float(x), y_label="value", y=scale * x, unit=unit)
               for name, title, unit, scale in (("zero_state", "training state", "B", 2.0**30), ("bubbles", "idle part", "1", 0.01),
                                                ("overlap", "local tokens", "tokens", 512.0))
               for series in ("first", "second") for x in (1, 2, 4, 8)]
    published = [dict(id=f"S{number}", quantity="peak", source="a report", conditions="some", unit="GiB", published=100.0,
                      predicted=100 * (1 + error), relative_error=error, standing=standing, assumption="" if standing == "stated" else "a layout")
                 for number, (error, standing) in enumerate(((0.0, "stated"), (0.04, "assumed"), (-0.12, "assumed"), (-0.9, "floor")))]
    return dict(plan_memory=memory, plan_time=time, plan_longest=longest, plan_study=studies, plan_published=published)


def gpu_tables():
    """The same component on four GPUs, where naive and vendor variants stand beside ours."""
    rows = []
    for tokens in (2**power for power in range(16, 21)):
        base = (tokens / 65536) ** 2
        for distribution in ("normal", "aimed"):
            common = dict(dtype="bf16", device="gpu", distribution=distribution)
            for variant, seconds in (("gpu", 2.0), ("cudnn", 0.011), ("wgmma_sm90", 0.010)):
                if variant != "gpu" or tokens <= 2**18:
                    rows.append(result("attention", variant, tokens, seconds=seconds * base, memory_peak=tokens * 9000,
                                       memory_predicted=tokens * 8800, **common))
            rows.append(result("attention", "wgmma_sm90", tokens, scheme="zigzag", ranks=4, seconds=0.0026 * base,
                               comm_bytes=tokens * 3072, comm_predicted=tokens * 3072, **common))
    return dict(devices=H200 + CPU, results=rows)
