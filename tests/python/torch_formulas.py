"""Every component written down with PyTorch operations, forward only: its autograd gives the gradients. Written from the formulas in
reference/components/<name>/<name>.hpp, not from their loops. A formula takes the inputs (x.name) and the axes (a["name"]) and returns
the outputs by name; index outputs come back as integers."""
import torch

FORMULAS = {}


def formula(function):
    FORMULAS[function.__name__] = function
    return function


def scale(a):
    return a["scale"] or a["d"] ** -0.5


def masked_attention(score, value, visible):
    """Softmax over the last axis of score[b h t s] where visible; rows that see nothing give 0 and −inf."""
    some = visible.any(-1)
    score = torch.where(visible, score, -torch.inf)
    safe = torch.where(some[..., None], score, 0.0)
    p = torch.where(some[..., None], torch.softmax(safe, -1), 0.0)
    lse = torch.where(some, torch.logsumexp(safe, -1), -torch.inf)
    return torch.einsum("bhts,bshd->bthd", p, value), lse


@formula
def attention(x, a):
    group = a["h"] // a["hk"]
    k, v = (y.repeat_interleave(group, 2) for y in (x.k, x.v))
    visible = (x.q_document[:, :, None] == x.k_document[:, None, :]) & (x.q_document[:, :, None] >= 0)
    if a["causal"]:
        visible = visible & (x.k_position[None, None, :] <= x.q_position[None, :, None])
    score = scale(a) * torch.einsum("bthd,bshd->bhts", x.q, k)
    o, lse = masked_attention(score, v, visible[:, None].expand_as(score))
    return {"o": o, "lse": lse}


@formula
def sparse_attention(x, a):
    group = a["h"] // a["hk"]
    k = x.k.repeat_interleave(group, 2)
    v = x.v.repeat_interleave(group, 2) if a["direct"] else k
    times = torch.zeros(a["b"], a["t"], a["s"] + 1, dtype=torch.float64)  # how often a row names a key; empty slots go to a column beyond
    times.scatter_add_(2, torch.where(x.id < 0, a["s"], x.id).long(), torch.ones_like(x.id, dtype=torch.float64))
    times = times[:, None, :, : a["s"]]
    score = scale(a) * torch.einsum("bthd,bshd->bhts", x.q, k)
    o, lse = masked_attention(score + torch.log(torch.clamp(times, min=1.0)), v, (times > 0).expand_as(score))
    return {"o": o, "lse": lse}


@formula
def embedding(x, a):
    return {"y": torch.nn.functional.embedding(x.id.long(), x.table)}


@formula
def linear(x, a):
    return {"y": torch.nn.functional.linear(x.x, x.w, getattr(x, "bias", None))}


def normalised(x, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


@formula
def rms_norm(x, a):
    return {"y": x.w * normalised(x.x, a["eps"])}


@formula
def gated_rms_norm(x, a):
    return {"y": x.w * normalised(x.x, a["eps"]) * torch.sigmoid(x.gate)}


def clamped_unit(gate, up, limit):
    if limit:
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return torch.nn.functional.silu(gate) * up


@formula
def swiglu(x, a):
    return {"y": clamped_unit(x.gate, x.up, a["limit"])}


@formula
def short_conv(x, a):
    width, halo = a["width"], a["width"] - 1
    before = x.history if a["halo"] else torch.zeros(a["b"], halo, a["c"], dtype=torch.float64)
    first = x.document[:, :1].expand(-1, halo) if a["halo"] else torch.full((a["b"], halo), -2)
    rows, document = torch.cat([before, x.x], 1), torch.cat([first.long(), x.document.long()], 1)
    t, z = a["t"], 0
    for j in range(width):
        same = (document[:, j : j + t] == x.document)[..., None]
        z = z + torch.where(same, x.w[:, j] * rows[:, j : j + t], 0.0)
    out = {"y": torch.where((x.document >= 0)[..., None], torch.nn.functional.silu(z), 0.0)}
    if a["halo"]:
        last = [int((x.document[b] >= 0).sum()) for b in range(a["b"])]
        ends = [torch.where((document[b, n : n + halo] == document[b, n + halo - 1])[:, None], rows[b, n : n + halo], 0.0) for b, n in enumerate(last)]
        out["final_history"] = torch.stack(ends)
    return out


@formula
def hyper_connection(x, a):
    n, c = a["n"], a["c"]
    streams = x.e[:, :, None].expand(-1, -1, n, -1) if a["entry"] else x.x
    z = streams.flatten(2)
    m = torch.rsqrt(z.square().mean(-1, keepdim=True) + a["eps"]) * (z @ x.fn.flatten(1).T)
    group = torch.tensor([0] * n + [1] * n + [2] * n * n)
    logits = x.scale[group] * m + x.base
    pre, post = torch.sigmoid(logits[..., :n]) + a["hc_eps"], 2 * torch.sigmoid(logits[..., n : 2 * n])
    comb = torch.softmax(logits[..., 2 * n :].unflatten(-1, (n, n)), -1) + a["hc_eps"]
    comb = comb / (comb.sum(-2, keepdim=True) + a["hc_eps"])
    for _ in range(a["rounds"] - 1):
        comb = comb / (comb.sum(-1, keepdim=True) + a["hc_eps"])
        comb = comb / (comb.sum(-2, keepdim=True) + a["hc_eps"])
    x_out = post[..., None] * x.u[:, :, None] + torch.einsum("btij,btic->btjc", comb, streams)
    out = {"y": torch.einsum("bti,btic->btc", pre, streams), "x_out": x_out, "post": post, "comb": comb}
    if a["exit"]:
        out["pooled"] = x_out.mean(2)
    return out


@formula
def router(x, a):
    s = torch.sigmoid(x.x @ x.w.T)
    chosen = torch.sort(s.detach() + x.bias, dim=-1, descending=True, stable=True).indices[..., : a["k"]]  # stable: ties to the lower id
    weight = torch.gather(s, -1, chosen)
    return {"id": chosen, "weight": a["factor"] * weight / (weight.sum(-1, keepdim=True) + 1e-20)}


@formula
def experts(x, a):
    def mlp(gate_up, down):  # weights of one expert a token
        gate, up = (torch.einsum("btfc,btc->btf", gate_up[:, :, half], x.x) for half in (0, 1))
        return torch.einsum("btcf,btf->btc", down, clamped_unit(gate, up, a["limit"]))

    y = torch.zeros_like(x.x)
    for slot in range(a["k"]):
        e = x.id[..., slot].long()
        out = mlp(x.gate_up[e.clamp(min=0)], x.down[e.clamp(min=0)])
        y = y + torch.where((e >= 0)[..., None], x.weight[..., slot : slot + 1] * out, 0.0)
    if a["shared"]:
        everywhere = (a["b"], a["t"])
        y = y + mlp(x.shared_gate_up.expand(*everywhere, -1, -1, -1), x.shared_down.expand(*everywhere, -1, -1))
    return {"y": y}


@formula
def linear_cross_entropy(x, a):
    logprob = torch.log_softmax(torch.nn.functional.linear(x.x, x.w, getattr(x, "bias", None)), -1)
    valid = x.label >= 0
    logprob = torch.where(valid, torch.gather(logprob, -1, x.label.clamp(min=0).long()[..., None])[..., 0], 0.0)
    return {"loss": -logprob.sum().reshape(1), "logprob": logprob}


@formula
def adamw(x, a):
    norm = x.grad.norm()
    g = x.grad * min(1.0, a["clip"] / (float(norm) + 1e-6)) if a["clip"] else x.grad
    m, v = a["beta1"] * x.m + (1 - a["beta1"]) * g, a["beta2"] * x.v + (1 - a["beta2"]) * g * g
    step = (m / (1 - a["beta1"] ** a["step"])) / ((v / (1 - a["beta2"] ** a["step"])).sqrt() + a["eps"])
    p = x.master * (1 - a["lr"] * a["decay"]) - a["lr"] * step
    return {"weight_out": p, "master_out": p, "m_out": m, "v_out": v, "norm": norm.reshape(1)}


@formula
def kda(x, a):
    q, k, g, beta = x.q, x.k, x.g, x.beta
    if a["l2norm"]:
        q, k = (y / torch.sqrt(y.square().sum(-1, keepdim=True) + a["eps"]) for y in (q, k))
    if a["gate"]:  # 1 softplus, 2 bounded
        shifted, rate = g + x.dt_bias, torch.exp(x.A_log)[..., None]
        g = -rate * torch.nn.functional.softplus(shifted, threshold=1e9) if a["gate"] == 1 else a["lower_bound"] * torch.sigmoid(rate * shifted)
    if a["beta"]:  # 1 sigmoid, 2 doubled
        beta = a["beta"] * torch.sigmoid(beta)
    outputs, finals = [], []
    for b in range(a["b"]):
        zero = torch.zeros(a["h"], a["group"], a["d"], a["dv"], dtype=torch.float64)
        state = x.initial_state[b] if a["carry"] else zero
        for t in range(a["t"]):
            document = int(x.document[b, t])
            if document < 0:
                outputs.append(torch.zeros(a["h"], a["group"], a["dv"], dtype=torch.float64))
                continue
            if t > 0 and document != int(x.document[b, t - 1]):
                state = zero
            decayed = torch.exp(g[b, t])[..., None] * state
            key = k[b, t][:, None, :]
            error = x.v[b, t] - torch.einsum("hgdv,hgd->hgv", decayed, key.expand(-1, a["group"], -1))
            state = decayed + (beta[b, t][..., None, None] * key[..., None]) * error[..., None, :]
            outputs.append(scale(a) * torch.einsum("hgdv,hd->hgv", state, q[b, t]))
        finals.append(state)
    shape = (a["b"], a["t"], a["h"], a["group"], a["dv"])
    out = {"o": torch.stack(outputs).reshape(shape) if outputs else torch.zeros(shape, dtype=torch.float64)}
    if a["carry"]:
        out["final_state"] = torch.stack(finals)
    return out


@formula
def index_kl(x, a):
    pools = torch.arange(a["topk"]) < x.count[..., None]
    logit = x.logit.unflatten(-1, (a["topk"], a["pool"])) - x.lse.transpose(1, 2)[..., None, None]
    mass = torch.where(pools[:, :, None, :, None], torch.exp(logit), 0.0).sum((2, 4)).detach()
    target = mass / mass.sum(-1, keepdim=True).clamp(min=1e-300)
    score = torch.where(pools, x.score, -1e300)
    loss = torch.where(pools & (target > 0), target * (torch.log(target.clamp(min=1e-300)) - torch.log_softmax(score, -1)), 0.0).sum(-1)
    return {"loss": a["coefficient"] * loss}


def pools(document, size):
    """Row → first token of every complete pool of one document list; rows f // size."""
    found, start = {}, 0
    for i in range(len(document)):
        if i and document[i] != document[i - 1]:
            start = i
        if document[i] >= 0 and (i + 1 - start) % size == 0:
            first = i + 1 - size
            found[first // size] = first
    return found


@formula
def pool_keys(x, a):
    size, rows = a["pool"], a["t"] // a["pool"]
    keys = torch.nn.functional.layer_norm(x.k, (a["d"],), x.weight, x.bias, a["eps"])
    out = []
    for b in range(a["b"]):
        found = pools(x.document[b].tolist(), size)
        for row in range(rows):
            if row not in found:
                out.append(torch.zeros(a["d"], dtype=torch.float64))
                continue
            tokens = slice(found[row], found[row] + size)
            out.append((torch.softmax(x.gate[b, tokens] + x.ape, 0) * keys[b, tokens]).sum(0))
    shape = (a["b"], rows, a["d"])
    return {"y": torch.stack(out).reshape(shape) if out else torch.zeros(shape, dtype=torch.float64)}


@formula
def index_topk(x, a):
    size, k = a["pool"], a["topk"]
    all_scores = scale(a) * torch.einsum("bth,bthr->btr", x.w, torch.relu(torch.einsum("bthd,brd->bthr", x.q, x.k)))
    ids = torch.full((a["b"], a["t"], k * size + size - 1), -1)
    scores = torch.full((a["b"], a["t"], k), -torch.inf, dtype=torch.float64)
    for b in range(a["b"]):
        document = x.document[b].tolist()
        found = pools(document, size)
        for t in range(a["t"]):
            i = int(x.position[t])
            if document[i] < 0:
                continue
            start = document.index(document[i])
            rows = [r for r, first in found.items() if first >= start and first + size - 1 <= i]
            chosen = sorted(sorted(rows, key=lambda r: (-float(all_scores[b, t, r]), r))[:k])
            tokens = [found[r] + j for r in chosen for j in range(size)] + list(range(start + (i + 1 - start) // size * size, i + 1))
            ids[b, t, : len(tokens)] = torch.tensor(tokens, dtype=ids.dtype)
            scores[b, t, : len(chosen)] = all_scores[b, t, chosen]
    return {"id": ids, "score": scores}
