"""Fitted slopes of every curve over tokens: how time, memory and error grow, one line a variant, scheme, phase and shape."""
import math

from matplotlib.lines import Line2D

from reports import curves, look, series

NAME, TITLE, ORDER = "slopes", "Fitted slopes over tokens", 55
QUANTITIES = (("time", "o"), ("memory", "s"), ("error", "^"))
LINES = 60  # more are in the CSV
LINE_HEIGHT = 0.19  # inches
COLUMNS = ("component", "variant", "scheme", "ranks", "phase", "dtype", "shape", "device")


def applies(tables):
    return bool(_lines(tables))


def draw(tables, stem):
    lines = _lines(tables)
    shown = lines[:LINES]
    names = [_name(line) for line in shown]
    values = [line[f"{quantity}_slope"] for line in shown for quantity, _ in QUANTITIES]
    low, high = min(0.0, *(value for value in values if value == value)), max(2.0, *(value for value in values if value == value))
    sheet = look.Sheet("Fitted slopes over tokens", "power of the tokens: 0 constant, 1 linear, 2 quadratic", 1, height=LINE_HEIGHT * (len(shown) + 1),
                       left=0.3 + 0.062 * max(map(len, names)), gutter=1.0)
    ax = sheet.axes[0]
    ax.set_xlim(low - 0.12, high + 0.12)
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_yticks(range(len(shown)), names, fontsize=7)
    ax.set_xlabel("fitted slope")
    ax.grid(False, axis="y")
    for power in (0, 1, 2):
        ax.axvline(power, color=look.PALE_GREY, linestyle=look.DASHED, linewidth=0.9, zorder=1)
    colours = look.variant_colours(tables)
    for y, line in enumerate(shown):
        for quantity, marker in QUANTITIES:
            face = colours[line["variant"]] if quantity == "time" else "white"
            ax.plot([line[f"{quantity}_slope"]], [y], marker, color=colours[line["variant"]], markerfacecolor=face, markersize=5, zorder=3)
        if y and line["component"] != shown[y - 1]["component"]:
            ax.axhline(y - 0.5, color=look.PALE_GREY, linewidth=0.6, zorder=1)
    look.legend_right(ax, [Line2D([], [], color=look.DARK, linestyle="", marker=marker, markersize=5, label=quantity,
                                  markerfacecolor=look.DARK if quantity == "time" else "white") for quantity, marker in QUANTITIES])
    more = len(lines) - len(shown)
    notes = (curves.SLOPE_NOTE, "error: largest relative RMS error of any output", f"{more} more lines are in the CSV" if more else "")
    return [sheet.write(stem, look.caption(tables, [row for line in lines for row in line["rows"]], *notes),
                        [{name: value for name, value in line.items() if name != "rows"} for line in lines],
                        "A variant for long sequences has its time and memory at 1 or below, attention's time at 2, and its error near 0.")]


def _lines(tables):
    """One dict a curve that has a slope: who and where, the lengths it was fitted over, its slopes."""
    found = {}
    for quantity, value in (("time", series.positive("time_median")), ("memory", series.positive("memory_peak")), ("error", _error(tables))):
        for component in series.components(tables):
            for panel in series.panels(tables, component, value, fewest=3, most=None):
                for curve in panel.curves:
                    if curve.slope == curve.slope:
                        _line(found, panel, curve).update({f"{quantity}_slope": curve.slope})
    return [found[place] for place in sorted(found)]


def _line(found, panel, curve):
    place = (panel.component, curve.variant, curve.scheme, curve.ranks, curve.phase, panel.dtype, panel.shape, panel.device)
    fitted = [x for x in curve.x if x * series.SLOPE_SPAN >= curve.x.max()]
    blank = {f"{quantity}_slope": math.nan for quantity, _ in QUANTITIES}
    return found.setdefault(place, {**dict(zip(COLUMNS, place)), "tokens_from": int(min(fitted)), "tokens_to": int(max(fitted)),
                                    "lengths": len(fitted), **blank, "rows": curve.rows})


def _error(tables):
    """A function row -> the largest relative RMS error of any output of its case."""
    largest = {}
    for check in tables.rows("checks"):
        if check["metric"] == "rel_rms" and check["value"] > 0:
            largest[check["result"]] = max(check["value"], largest.get(check["result"], 0.0))
    return lambda row: largest.get(row["index"], math.nan)


def _name(line):
    who = line["variant"] + (f"@{line['scheme']} ×{line['ranks']}" if line["scheme"] else "")
    return f"{line['component']}/{who} {line['phase']} {line['dtype']}  {line['shape']}".replace(" b=1", "")
