"""Planted faults against the checks that looked at them, a sheet a component: which strategy sees which fault with which inputs."""
import math

from matplotlib.colors import LinearSegmentedColormap

from reports import look
from reports.series import DISTRIBUTIONS

NAME, TITLE, ORDER = "planted_faults", "Planted faults: what the checks can see", 80
STRATEGIES = ("hygiene", "ledger", "full", "exact", "rows", "cols", "scan", "prefix", "shift", "shards", "repeat", "soak")
BLUES = LinearSegmentedColormap.from_list("rejected", ["#cfe3f1", look.PALETTE[0]])
FULL_COLOUR = 1e6  # times the limit, from which the colour grows no more
CELL_WIDTH, CELL_HEIGHT = 0.52, 0.24  # inches


def applies(tables):
    return bool(_tried(tables))


def draw(tables, stem):
    components = sorted({row["component"] for row in _tried(tables)})
    return [_draw(tables, component, [row for row in _tried(tables) if row["component"] == component], f"{stem}-{component}")
            for component in components]


def _tried(tables):
    """The rows of strategies that could look; rejected is missing (-1) where they could not."""
    return [row for row in tables.rows("faults") if row["rejected"] >= 0]


def _draw(tables, component, rows, stem):
    lines = list(dict.fromkeys((row["fault"], row.get("scheme", "")) for row in rows))
    seeing = {row["strategy"] for row in rows if row["rejected"]}
    blind = sorted({row["strategy"] for row in rows} - seeing) if seeing else []
    columns = sorted({(row["strategy"], row["distribution"]) for row in rows if row["strategy"] not in blind}, key=_column_order)
    names = [fault + (f" @{scheme}" if scheme else "") for fault, scheme in lines]
    caught = [any(row["rejected"] for row in rows if (row["fault"], row.get("scheme", "")) == line) for line in lines]
    left = 0.35 + 0.075 * max(map(len, names))
    cell = min(CELL_WIDTH, (look.Sheet.WIDEST - left - 0.9) / len(columns))
    sheet = look.Sheet(f"{component}: planted faults and the checks that reject them",
                       f"{sum(caught)} of {len(lines)} faults rejected; number: error / limit of the check", 1, width=cell * len(columns),
                       height=CELL_HEIGHT * len(lines), gutter=0.9, left=left, bottom=0.1, top=1.02 if cell > 0.4 else 1.3)
    ax = sheet.axes[0]
    ax.set_xlim(0, len(columns))
    ax.set_ylim(len(lines), 0)
    worst = {}
    for row in rows:
        if row["strategy"] in blind:
            continue
        place = columns.index((row["strategy"], row["distribution"])), lines.index((row["fault"], row.get("scheme", "")))
        worst[place] = max(worst.get(place, (0, 0.0)), (int(row["rejected"]), _ratio(row)))
    for (x, y), (rejected, ratio) in worst.items():
        shade = min(1.0, max(0.0, math.log(max(ratio, 1)) / math.log(FULL_COLOUR)))
        ax.add_patch(look.rectangle(x, y, BLUES(shade) if rejected else "white", edge="none" if rejected else look.PALE_GREY))
        if cell > 0.3:
            ax.text(x + 0.5, y + 0.52, _times(ratio) if rejected else "·", ha="center", va="center", fontsize=6.5,
                    color="white" if rejected and shade > 0.45 else look.DARK)
    for y, seen in enumerate(caught):
        ax.text(len(columns) + 0.15, y + 0.52, "rejected" if seen else "NOT SEEN", va="center", fontsize=7,
                color="#555555" if seen else look.ALARM, fontweight="normal" if seen else "bold")
    _axes(ax, columns, names, caught, upright=cell <= 0.4)
    notes = ("blue: rejected, darker further beyond the limit", "white: looked and accepted", "no cell: not applicable or not tried",
             f"looked and accepted every fault: {', '.join(blind)}" if blind else "")
    return sheet.write(stem, look.caption(tables, rows, *notes), look.without_run(rows),
                       "Every row needs a blue cell: a fault that no check rejects is a fault that would have been shipped.")


def _axes(ax, columns, names, caught, *, upright):
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.tick_params(length=0)
    ax.set_yticks([y + 0.5 for y in range(len(names))], names)
    for text, seen in zip(ax.get_yticklabels(), caught):
        text.set_color(look.DARK if seen else look.ALARM)
    ax.set_xticks([x + 0.5 for x in range(len(columns))], [distribution for _, distribution in columns], fontsize=6.5,
                  rotation=90 if upright else 0)
    ax.xaxis.tick_top()
    strategies = [strategy for strategy, _ in columns]
    for strategy in dict.fromkeys(strategies):
        first, many = strategies.index(strategy), strategies.count(strategy)
        ax.annotate(strategy, (first + many / 2, 1), (0, 40 if upright else 17), xycoords=("data", "axes fraction"),
                    textcoords="offset points", ha="center", fontsize=7.5, fontweight="bold", color=look.DARK)
        if first:
            ax.axvline(first, color=look.PALE_GREY, linewidth=0.7)


def _column_order(column):
    strategy, distribution = column
    return (STRATEGIES.index(strategy) if strategy in STRATEGIES else len(STRATEGIES), strategy,
            DISTRIBUTIONS.index(distribution) if distribution in DISTRIBUTIONS else len(DISTRIBUTIONS), distribution)


def _ratio(row):
    """How far beyond its limit; infinite for a check that allows nothing (a wrong element, a broken canary, a NaN)."""
    value, limit = row["value"], row["limit"]
    return value / limit if limit > 0 and math.isfinite(value) else math.inf


def _times(ratio):
    if not math.isfinite(ratio):
        return "✗"
    if ratio < 1000:
        return f"{ratio:.0f}×" if ratio >= 100 else f"{ratio:.2g}×"
    return f"{ratio:.0e}×".replace("e+0", "e").replace("e+", "e")
