"""Holds the fp64 oracles against PyTorch's autograd, where PyTorch is installed (development only; nothing else here needs it).

    python3 tests/python/check_against_torch.py --megatoken build/cpu/megatoken [COMPONENT...]

Every case is written by `megatoken dump … fp64 -o case.safetensors`: inputs, upstream gradients, and what the oracle makes of them. The
component is then computed again by the formulas of torch_formulas.py, its gradients by autograd. One line a component with the worst
relative error ‖oracle − torch‖ / ‖torch‖ of every tensor; exit code 1 when one is above 1e-9, 5 without PyTorch or the program."""
import argparse
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

try:
    import torch
except ImportError:
    print("check_against_torch: PyTorch is not installed here; run it where it is", file=sys.stderr)
    sys.exit(5)

from torch_formulas import FORMULAS

LIMIT = 1e-9

CASES = {
    "attention": ["b=2 t=19 h=4 hk=2 d=8 dv=6 docs=3", "t=17 h=2 d=8 causal=0 scale=0.3", "t=1 h=1 d=4"],
    "sparse_attention": ["b=2 t=19 h=4 hk=2 d=6 n=7", "t=15 h=4 hk=4 d=6 dv=5 n=6 direct=1 scale=0.5"],
    "embedding": ["b=2 t=23 c=6 v=11"],
    "linear": ["b=2 t=9 c=7 o=5 bias=1", "t=6 c=4 o=3"],
    "rms_norm": ["b=2 t=9 c=17"],
    "gated_rms_norm": ["b=2 t=7 h=3 d=8"],
    "swiglu": ["b=2 t=9 c=13", "t=9 c=13 limit=0.5", "t=9 c=13 limit=0"],
    "short_conv": ["b=2 t=21 c=5 docs=3", "b=2 t=13 c=4 docs=2 halo=3"],
    "hyper_connection": ["b=2 t=11 n=4 c=6", "t=9 n=4 c=5 entry=1 exit=1", "t=7 n=2 k=8 c=5 rounds=3 hc_eps=0.01"],
    "router": ["b=2 t=13 c=8 e=9 k=3"],
    "experts": ["b=2 t=13 c=8 e=6 k=3 f=5", "t=9 c=6 e=4 k=2 f=3 shared=0 limit=0.5"],
    "linear_cross_entropy": ["b=2 t=15 c=8 v=23 bias=1", "t=9 c=4 v=7"],
    "adamw": ["n=100", "n=100 clip=0 step=7"],
    "kda": ["b=2 t=13 h=2 group=2 d=5 dv=4 docs=3 carry=1", "t=11 h=2 d=4 gate=1 beta=2", "t=9 h=1 d=4 gate=0 beta=0 l2norm=0"],
    "index_kl": ["b=2 t=15 h=3 topk=5"],
    "pool_keys": ["b=2 t=15 d=3 docs=3", "t=11 d=5 pool=3 docs=2 eps=0.01"],
    "index_topk": ["b=2 t=23 h=2 d=4 topk=2 docs=3", "t=5 s=30 h=3 d=2 topk=3", "t=12 h=2 d=2 topk=4 pool=1"],
}
DISTRIBUTIONS = ["normal", "aimed"]
TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I32": torch.int32, "I64": torch.int64, "U8": torch.uint8}


def read_safetensors(path):
    """Texts and tensors: 8 bytes with the length of a JSON header, the header, raw bytes."""
    data = Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    texts, tensors = header.pop("__metadata__", {}), {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        kind = TYPES[entry["dtype"]]
        tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=kind).reshape(entry["shape"]) if end > begin else torch.empty(entry["shape"], dtype=kind)
    return texts, tensors


def parse_axes(text):
    values = {name: float(value) for name, value in (word.split("=") for word in text.split())}
    return {name: int(value) if value.is_integer() else value for name, value in values.items()}


def error(got, want):
    """‖got − want‖ / ‖want‖ over the finite entries; infinite when the others differ."""
    got, want = got.detach().double(), want.detach().double()
    if got.shape != want.shape:
        return float("inf")
    finite = torch.isfinite(want)
    if not torch.equal(got[~finite], want[~finite]):
        return float("inf")
    got, want = got[finite], want[finite]
    norm = float(want.norm()) or 1.0
    value = float((got - want).norm()) / norm
    return value if value == value else float("inf")


def compare(path):
    """Relative error of every output and gradient of a dumped case."""
    texts, tensors = read_safetensors(path)
    axes = parse_axes(texts["axes"])
    oracle = {name[7:]: tensor for name, tensor in tensors.items() if name.startswith("oracle.")}
    given = {name: tensor for name, tensor in tensors.items() if not name.startswith("oracle.")}
    upstream = {name: given.pop("d" + name) for name in oracle if "d" + name in given}
    inputs = {name: tensor.requires_grad_() if tensor.dtype == torch.float64 and "d" + name in oracle else tensor for name, tensor in given.items()}
    outputs = FORMULAS[texts["component"]](SimpleNamespace(**inputs), axes)
    errors = {name: error(oracle[name], output) for name, output in outputs.items()}
    wanted = {name: tensor for name, tensor in inputs.items() if tensor.requires_grad}
    if wanted:
        loss = sum((torch.where(torch.isfinite(outputs[name]), outputs[name], 0.0) * dy).sum() for name, dy in upstream.items())
        gradients = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
        for name, gradient in zip(wanted, gradients):
            errors["d" + name] = error(oracle["d" + name], torch.zeros_like(wanted[name]) if gradient is None else gradient)
    missing = set(oracle) - set(errors)
    errors.update({name: float("inf") for name in missing})
    return errors


def check(component, program, folder):
    """Worst error of every tensor over all cases of a component."""
    worst = {}
    for number, axes in enumerate(CASES[component]):
        for distribution in DISTRIBUTIONS:
            path = Path(folder) / f"{component}-{number}-{distribution}.safetensors"
            command = [program, "dump", component, *axes.split(), "fp64", f"dist={distribution}", "seed=7", "-o", str(path)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr.strip() or f"{' '.join(command)} failed")
            for name, value in compare(path).items():
                worst[name] = max(worst.get(name, 0.0), value)
            path.unlink()
    return worst


def components_of(program):
    """What this program knows, by asking for the tensors of each."""
    return [name for name in CASES if subprocess.run([program, "list", "--abi", name], capture_output=True).returncode == 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megatoken", default="build/cpu/megatoken", help="the program")
    parser.add_argument("components", nargs="*", help="default: all with a formula")
    options = parser.parse_args()
    program = str(Path(options.megatoken).resolve())
    if not Path(program).is_file():
        print(f"check_against_torch: {program} does not exist; build it or name another with --megatoken", file=sys.stderr)
        return 5
    for name in options.components:
        if name not in CASES:
            print(f"check_against_torch: no formula for '{name}'; there are {' '.join(CASES)}", file=sys.stderr)
            return 2
    torch.set_default_device("cpu")
    passed = True
    with tempfile.TemporaryDirectory() as folder:
        for component in options.components or components_of(program):
            try:
                worst = check(component, program, folder)
                good = bool(worst) and max(worst.values()) <= LIMIT
                line = "  ".join(f"{name} {value:.1e}" for name, value in worst.items())
            except Exception as problem:  # one component that cannot run must not hide the others
                good, line = False, f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}"
            passed &= good
            print(f"{'ok' if good else 'FAIL':<5}{component:<22}{line}", flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
