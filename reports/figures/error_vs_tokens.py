"""Error against tokens, one figure a component and dtype: a column for each distribution of inputs, a row for each of the outputs
that come closest to their limits. Grey: the naive yardstick at the same dtype; dashed grey: the limit made from it."""
import dataclasses
import math

import numpy

from reports import curves, look, series

NAME, TITLE, ORDER = "error_vs_tokens", "Error against tokens", 20
METRIC = "rel_rms"
OUTPUTS = 2  # rows of panels
SLOPES = 3  # up to so many are printed below a panel
FROM_CHECK = ("output", "value", "yardstick", "limit", "strategy", "oracle", "n_compared")


@dataclasses.dataclass
class Spot:
    """The errors of one output under one distribution: rows are result rows with the check's numbers merged in."""

    output: str
    panel: series.Panel
    checks: list


def applies(tables):
    return bool(_groups(tables))


def draw(tables, stem):
    return [_draw(tables, component, dtype, group, f"{stem}-{component}-{dtype}") for (component, dtype), group in _groups(tables).items()]


def _groups(tables):
    """(component, dtype) -> {distribution: [Spot a shape and output]} of errors at two lengths at least."""
    results = {row["index"]: row for row in tables.rows("results")}
    worst = {}  # one check for each result and output: of its strategies the one closest to its limit
    for check in tables.rows("checks"):
        if check["metric"] == METRIC and check["result"] in results and check["value"] > 0 and check["limit"] > 0:
            place = check["result"], check["output"]
            if place not in worst or check["value"] / check["limit"] > worst[place]["value"] / worst[place]["limit"]:
                worst[place] = check
    split = {}
    for (index, output), check in sorted(worst.items()):
        row = dict(results[index], **{name: check.get(name, "") for name in FROM_CHECK})
        split.setdefault((row["component"], row.get("dtype", "")), {}).setdefault((row.get("distribution", ""), output), []).append(row)
    groups = {}
    for key, parts in sorted(split.items()):
        for (distribution, output), rows in sorted(parts.items()):
            panel = _panel(tables, key[0], rows)
            if panel:
                groups.setdefault(key, {}).setdefault(distribution, []).append(Spot(output, panel, series.rows_of([panel])))
    return groups


def _panel(tables, component, rows):
    found = series.panels_of(tables, rows, component, series.positive("value"))
    return series.longest(found, 1)[0] if found else None


def _draw(tables, component, dtype, group, stem):
    order = [name for name in series.DISTRIBUTIONS if name in group] + sorted(group.keys() - set(series.DISTRIBUTIONS))
    closeness = {}
    for spots in group.values():
        for spot in spots:
            ratio = max(row["value"] / row["limit"] for row in spot.checks)
            closeness[spot.output] = max(ratio, closeness.get(spot.output, 0))
    outputs = sorted(sorted(closeness, key=lambda name: (-closeness[name], name))[:OUTPUTS])
    grid = [(output, distribution) for output in outputs for distribution in order]
    spots = {(spot.output, distribution): spot for distribution in order for spot in group[distribution]}
    every = [spot.panel for spots_of in group.values() for spot in spots_of]
    sheet = look.Sheet(f"{component}: error against tokens, {dtype}", "relative RMS error against the oracle", len(grid),
                       columns=min(2, len(order)), height=2.2, gutter=0.5, right=0.2 + curves.legend_width(every))
    painter = curves.Painter(tables)
    for ax, place in zip(sheet.axes, grid):
        if place in spots:
            _spot(ax, painter, spots[place])
        else:
            ax.set_axis_off()
        small = spots[place].panel.shape if place in spots else "not checked at two lengths"
        look.panel_title(ax, f"{place[0]}  ·  {place[1]} inputs", small)
    painter.legend(sheet.axes[sheet.columns - 1], every, shift=0.6)
    left = sorted(closeness.keys() - set(outputs))
    note = f"{', '.join(left)} stay further from their limits (in the CSV)" if left else ""
    rows = [row for spot in spots.values() for row in spot.checks]
    notes = ("words at the axis: strategy of the check", curves.SLOPE_NOTE, note, look.HOLLOW)
    return sheet.write(stem, look.caption(tables, rows, *notes, count=("n_compared", "elements compared")),
                       [{"output": row["output"], **line} for spot in spots.values() for line, row in
                        zip(series.table([spot.panel], "yardstick", "limit", "strategy", "oracle"), spot.checks)],
                       "A curve must stay below the dashed limit; the grey yardstick is what plain arithmetic at this dtype costs.")


def _spot(ax, painter, spot):
    rows = spot.checks
    everything = [row[name] for row in rows for name in ("value", "yardstick", "limit") if row[name] > 0]
    look.count_axis(ax, [row["t"] for row in rows])
    look.log_axis(ax, everything, lambda value: f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e+"), room=2.2)
    tokens = sorted({row["t"] for row in rows})
    for name, style in (("limit", look.DASHED), ("yardstick", "-")):
        values = [max((row[name] for row in rows if row["t"] == count), default=math.nan) for count in tokens]
        if numpy.nanmax(values) > 0:
            ax.plot(tokens, values, color=look.GREY, linestyle=style, linewidth=1.1, zorder=2)
            ax.annotate(name, (tokens[-1], values[-1]), (10, 0), textcoords="offset points", fontsize=7, color="#666666", va="center")
    previous = None
    for count in tokens:
        names = "+".join(sorted({row["strategy"] for row in rows if row["t"] == count}))
        if names != previous:
            ax.annotate(names, (count, 0), (0, 2), xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=6.5,
                        color=look.GREY)
        previous = names
    painter.curves(ax, spot.panel, lambda curve: "", labels=False)
    slopes = ", ".join(f"{curves.name_in(spot.panel.curves, curve)} {curves.slope_number(curve)}" for curve in spot.panel.curves
                       if curves.slope_number(curve))
    ax.set_xlabel(f"tokens  ·  slopes: {slopes}" if slopes and len(spot.panel.curves) <= SLOPES else "tokens", labelpad=2, fontsize=7)
