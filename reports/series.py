"""Result rows as curves over the number of tokens, and what is computed from curves: slopes, verified or not, references."""
import dataclasses
import math

import numpy

REFERENCES = ("cpu", "gpu")  # the naive variants of reference/
NO_SHAPE = ("t", "dist", "seed", "ranks")  # words of a key that are not axes of the shape
STOPPED = ("oom", "timeout", "crash", "error")
DISTRIBUTIONS = ("normal", "aimed", "tokens", "extreme")
SLOPE_SPAN = 16  # a slope is fitted over the longest lengths within this factor, where the leading power rules


@dataclasses.dataclass
class Curve:
    variant: str
    scheme: str
    ranks: int
    phase: str
    rows: list          # one row a length, shortest first
    x: numpy.ndarray    # tokens
    y: numpy.ndarray
    stop: "dict | None" = None  # the shortest row beyond the curve that found no end (out of memory, time-out, ...)

    @property
    def name(self):
        return self.variant + (f"@{self.scheme}" if self.scheme else "") + (f" ×{self.ranks}" if self.ranks > 1 else "")

    @property
    def slope(self):
        return slope(self.x, self.y)


@dataclasses.dataclass
class Panel:
    """Curves that may share a pair of axes: one component, one dtype, one shape, one device; they differ in who did the work."""

    component: str
    dtype: str
    shape: str
    device: str
    curves: list

    @property
    def values(self):
        return [float(y) for curve in self.curves for y in curve.y]


def slope(x, y):
    """Exponent p of y ∝ x^p by least squares in log-log over the longest lengths (NaN for fewer than three of them)."""
    x, y = numpy.asarray(x, float), numpy.asarray(y, float)
    keep = x * SLOPE_SPAN >= x.max()
    if keep.sum() < 3:
        return math.nan
    return float(numpy.polyfit(numpy.log(x[keep]), numpy.log(y[keep]), 1)[0])


def positive(name):
    """A column as a value to draw: missing (NaN, -1) and zero are left out."""
    def value(row):
        number = row.get(name, math.nan)
        return float(number) if number > 0 else math.nan
    return value


def shape_of(row):
    """The axes of a row without its tokens, in the words of its key, which leaves out what follows from the others: 'b=1 h=8 d=64'."""
    return " ".join(word for word in row["key"].split() if "=" in word and word.split("=")[0] not in NO_SHAPE)


def device_of(merged, row):
    return merged.runs[row["run"]].device(row.get("device", ""))


def components(merged):
    return sorted({row["component"] for row in merged.rows("results")})


def is_reference(variant):
    return variant in REFERENCES


def is_verified(merged):
    """A function row -> bool. A result is verified when its case passed with inputs `normal` and with `aimed`; the naive variants,
    which the others are held against, when they passed."""
    passed = {}
    for row in merged.rows("results"):
        if row["status"] == "pass":
            passed.setdefault((_case(merged, row), _who(row)), set()).add(row.get("distribution", ""))

    def verified(row):
        if row["status"] != "pass":
            return False
        return is_reference(row["variant"]) or {"normal", "aimed"} <= passed[_case(merged, row), _who(row)]
    return verified


def panels(merged, component, value, *, fewest=2, most=8):
    """Panels with the curves of value(row) over tokens that have at least `fewest` lengths; of many curves in a panel the longest."""
    rows = [row for row in merged.rows("results") if row["component"] == component]
    return panels_of(merged, rows, component, value, fewest=fewest, most=most)


def panels_of(merged, rows, component, value, *, fewest=2, most=8):
    groups = {}
    for row in rows:
        place = (device_of(merged, row), row.get("dtype", ""), shape_of(row))
        who = (*_who(row), row.get("phase", ""))
        groups.setdefault(place, {}).setdefault(who, []).append(row)
    found = []
    for (device, dtype, shape), members in sorted(groups.items()):
        curves = [_curve(who, rows, value) for who, rows in sorted(members.items())]
        curves = [curve for curve in curves if curve is not None and len(curve.x) >= fewest]
        curves = sorted(sorted(curves, key=lambda curve: -curve.x[-1])[:most], key=lambda curve: -curve.y[-1])
        if curves:
            found.append(Panel(component, dtype, shape, device, curves))
    return found


def longest(found, count):
    """The panels that reach furthest, in their old order."""
    best = sorted(found, key=lambda panel: (-max(curve.x[-1] for curve in panel.curves), -len(panel.curves)))[:count]
    return [panel for panel in found if any(panel is chosen for chosen in best)]


def rows_of(found):
    return [row for panel in found for curve in panel.curves for row in curve.rows]


def table(found, *columns):
    """The curves of these panels as rows for a CSV file: who, where, then the named columns, then the fitted slope."""
    return [{"component": panel.component, "variant": curve.variant, "scheme": curve.scheme, "ranks": curve.ranks, "phase": curve.phase,
             "dtype": panel.dtype, "shape": panel.shape, "device": panel.device, "distribution": row.get("distribution", ""),
             "status": row["status"], "tokens": int(x), "value": float(y), **{name: row.get(name, math.nan) for name in columns},
             "slope": curve.slope}
            for panel in found for curve in panel.curves for row, x, y in zip(curve.rows, curve.x, curve.y)]


def against_naive(merged):
    """A function row -> (speed-up, naive variant) of variants that are not naive; (NaN, "") where the naive time is not known.

    The naive time is that of one rank of the same device on the same inputs.
    """
    naive = {(_case(merged, row), row.get("distribution", "")): (row["time_median"], row["variant"]) for row in merged.rows("results")
             if is_reference(row["variant"]) and not row.get("scheme", "") and row.get("time_median", -1) > 0}

    def speedup(row):
        time, variant = naive.get((_case(merged, row), row.get("distribution", "")), (math.nan, ""))
        mine = row.get("time_median", math.nan)
        return (time / mine, variant) if mine > 0 and not is_reference(row["variant"]) else (math.nan, "")
    return speedup


def _case(merged, row):
    """What was computed, whoever did it and on whatever inputs."""
    return device_of(merged, row), row["component"], row.get("phase", ""), row.get("dtype", ""), row.get("t", -1), shape_of(row)


def _who(row):
    return row["variant"], row.get("scheme", ""), int(row.get("ranks", 1))


def _curve(who, rows, value):
    best = {}
    for row in sorted(rows, key=_preference):
        if row.get("t", -1) > 0 and not math.isnan(value(row)):
            best.setdefault(row["t"], row)
    if not best:
        return None
    drawn = [best[tokens] for tokens in sorted(best)]
    beyond = [row for row in rows if row["status"] in STOPPED and row.get("t", -1) > drawn[-1]["t"]]
    return Curve(*who, drawn, numpy.array([row["t"] for row in drawn], float), numpy.array([value(row) for row in drawn]),
                 min(beyond, key=lambda row: row["t"], default=None))


def _preference(row):
    name = row.get("distribution", "")
    order = DISTRIBUTIONS.index(name) if name in DISTRIBUTIONS else len(DISTRIBUTIONS)
    return row["status"] != "pass", order, name, row.get("seed", 0)
