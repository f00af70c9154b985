"""Makes golden files: tensors of the public reference model of GLM-5.3-Flash, every operation in fp64 (development only).

    python3 tests/python/make_golden.py CONFIG OUT.h5 [--batch 2] [--tokens 90] [--seed 0] [--decode 37]

CONFIG is a JSON file with the reference's field names, or a golden file, whose configuration is taken. Needs PyTorch, h5py and a
transformers that has the model (5.17 or newer). The golden tests read the result when MEGATOKEN_GOLDEN names its folder.

Written: attribute config; input_ids, labels (shifted, −100 ignored), logits, logprobs, loss (mean over valid labels), weights/NAME,
grads/NAME; captured/layers.I.PART/outK of every layer; with --decode N decode_logprobs, from N tokens at once and then one at a time."""
import argparse
import json
import os
import sys
from pathlib import Path

try:
    import h5py
    import torch
    from torch.overrides import TorchFunctionMode
    from transformers.models.glm5_next import configuration_glm5_next, modeling_glm5_next
except ImportError as problem:
    print(f"make_golden: {problem}; PyTorch, h5py and transformers 5.17 or newer (with glm5_next) are needed", file=sys.stderr)
    sys.exit(5)

PARTS = ["attn_hc", "input_layernorm", "self_attn", "self_attn.indexer", "ffn_hc", "mlp.gate", "mlp"]
NAMES = {"self_attn.indexer": "indexer", "mlp.gate": "router"}


class AllDouble(TorchFunctionMode):
    """Turns every request for fp32 into one for fp64."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        def wide(value):
            return torch.float64 if value is torch.float32 else value

        function = torch.Tensor.double if function is torch.Tensor.float else function
        return function(*map(wide, args), **{name: wide(value) for name, value in (kwargs or {}).items()})


def read_config(path):
    if Path(path).suffix == ".h5":
        with h5py.File(path) as file:
            fields = json.loads(file.attrs["config"])
    else:
        fields = json.loads(Path(path).read_text())
    fields.pop("model_type", None)
    config = configuration_glm5_next.Glm5NextTextConfig(**fields)
    config._attn_implementation = config._experts_implementation = "eager"
    return config


def randomise(model, generator):
    """Weights at which every part matters: matrices keep the size of what they multiply, norms and mixings are uneven."""
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        if name.endswith("norm.weight"):
            value = 1 + 0.2 * noise
        elif name.endswith("embed_tokens.weight") or tensor.dim() < 2:
            value = 0.5 * noise
        else:
            value = noise / tensor.shape[-1] ** 0.5
        tensor.data.copy_(value)


def capture(model, captured):
    """Hooks that keep the outputs of the parts of every layer."""

    def keep(name):
        def hook(module, given, out):
            for index, tensor in enumerate(out if isinstance(out, tuple) else (out,)):
                if isinstance(tensor, torch.Tensor):
                    captured[f"{name}/out{index}"] = tensor.detach().clone()

        return hook

    hooks = []
    for number, layer in enumerate(model.layers):
        modules = dict(layer.named_modules())
        for part in PARTS:
            if part in modules:
                hooks.append(modules[part].register_forward_hook(keep(f"layers.{number}.{NAMES.get(part, part)}")))

        def keep_streams(module, given, out, name=f"layers.{number}.streams/out0"):
            captured[name] = out[0].detach().clone()

        hooks.append(layer.register_forward_hook(keep_streams))
    return hooks


def log_probabilities(logits, labels):
    return torch.log_softmax(logits, -1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]


def decode(model, head, input_ids, labels, prefill):
    """Log-probabilities through the caches: `prefill` tokens at once, then one at a time."""
    model.eval()
    parts, cache = [], None
    with torch.no_grad():
        for begin, end in [(0, prefill)] + [(i, i + 1) for i in range(prefill, input_ids.shape[1])]:
            keyword = {"cache": cache} if cache is not None else {}
            out = model(input_ids=input_ids[:, begin:end], use_cache=True, **keyword)
            cache = out.cache
            parts.append(head(out.last_hidden_state))
    return log_probabilities(torch.cat(parts, 1), labels)


def make(config, options):
    generator = torch.Generator().manual_seed(options.seed)
    model = modeling_glm5_next.Glm5NextTextModel(config).double().train()
    head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False).double()
    randomise(model, generator), randomise(head, generator)
    tokens = torch.randint(1, config.vocab_size, (options.batch, options.tokens + 1), generator=generator)
    input_ids, labels = tokens[:, :-1], tokens[:, 1:].clone()
    labels[:, 5::7] = -100
    captured = {}
    hooks = capture(model, captured)
    logits = head(model(input_ids=input_ids).last_hidden_state)
    for hook in hooks:
        hook.remove()
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    loss.backward()
    tensors = {"input_ids": input_ids, "labels": labels, "logits": logits, "logprobs": log_probabilities(logits, labels), "loss": loss}
    parameters = [*model.named_parameters(), *((f"lm_head.{name}", tensor) for name, tensor in head.named_parameters())]
    tensors.update({f"weights/{name}": tensor for name, tensor in parameters})
    tensors.update({f"weights/{name}": tensor for name, tensor in model.named_buffers()})
    tensors.update({f"grads/{name}": tensor.grad for name, tensor in parameters if tensor.grad is not None})
    tensors.update({f"captured/{name}": tensor for name, tensor in captured.items()})
    if options.decode:
        tensors["decode_logprobs"] = decode(model, head, input_ids, labels, options.decode)
    return tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="JSON file, or a golden file")
    parser.add_argument("out", help="file to write, never overwritten")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=90)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--decode", type=int, default=0, metavar="N", help="also decode, after a prefill of N tokens")
    options = parser.parse_args()
    if not Path(options.config).is_file():
        print(f"make_golden: {options.config} does not exist; name a JSON file or a golden file", file=sys.stderr)
        return 2
    if Path(options.out).exists():
        print(f"make_golden: {options.out} exists; name another file or remove it", file=sys.stderr)
        return 2
    config = read_config(options.config)
    with AllDouble():
        tensors = make(config, options)
    part = options.out + ".tmp"
    with h5py.File(part, "w") as file:
        file.attrs["config"] = json.dumps(config.to_dict())
        file.attrs["seed"] = options.seed
        for name, tensor in tensors.items():
            file[name] = tensor.detach().numpy()
    os.rename(part, options.out)
    print(f"{options.out}: {len(tensors)} tensors, loss {float(tensors['loss'].detach()):.6f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
