"""Causal work per rank and per ring step: (query, key) pairs of each layout, side by side. Above: pairs each rank owns in all.
Below: pairs of the slowest rank in each ring step, which every other rank waits for; their sum is what the ring takes."""
from reports import look

NAME, TITLE, ORDER = "balance", "Balance of causal attention over ranks", 60
CONFIGURATIONS = 3  # columns: the smallest sizes and the largest one; the others are in the CSV
LAYOUT_COLOURS = {"contiguous": look.GREY, "ring": look.GREY, "zigzag": look.PALETTE[0], "striped": look.PALETTE[4]}
SPARE = look.PALETTE[1:4]


def applies(tables):
    return bool(_configurations(tables))


def draw(tables, stem):
    configurations = _configurations(tables)
    order = sorted(configurations)
    shown = {size: configurations[size] for size in order[:CONFIGURATIONS - 1] + order[CONFIGURATIONS - 1:][-1:]}
    layouts = sorted({row["scheme"] for row in tables.rows("balance")}, key=lambda name: (LAYOUT_COLOURS.get(name) != look.GREY, name))
    spare = iter(SPARE)
    colours = {name: LAYOUT_COLOURS.get(name) or next(spare, look.PALE_GREY) for name in layouts}
    sheet = look.Sheet("balance of causal attention over ranks", "(query, key) pairs, counted", 2 * len(shown), columns=len(shown),
                       width=2.9, height=1.9, gutter=0.1, left=0.85)
    for column, ((tokens, ranks), split) in enumerate(shown.items()):
        totals = {name: _per_rank(split[name]) for name in layouts if name in split}
        steps = {name: _slowest_per_step(split[name]) for name in layouts if name in split}
        top, bottom = sheet.axes[column], sheet.axes[column + len(shown)]
        _bars(top, totals, colours, mean=sum(next(iter(totals.values()))) / ranks)
        _bars(bottom, steps, colours)
        worst = {name: max(values) * len(values) / sum(values) for name, values in totals.items() if sum(values)}
        look.panel_title(top, f"{look.tokens(tokens)} tokens on {ranks} ranks",
                         "slowest / mean: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in worst.items()))
        look.panel_title(bottom, "slowest rank of each ring step",
                         "sum: " + ", ".join(f"{name} {look.count(sum(values))}" for name, values in steps.items()))
        top.set_xlabel("rank")
        bottom.set_xlabel("ring step")
    key = sheet.axes[len(shown) - 1]
    handles = [look.patch(colours[name], name) for name in layouts]
    key.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.24), ncol=len(layouts), borderaxespad=0)
    more = len(configurations) - len(shown)
    notes = ("dashed: mean over ranks", f"{more} more sizes are in the CSV" if more else "")
    return [sheet.write(stem, look.caption(tables, tables.rows("balance"), *notes), look.without_run(tables.rows("balance")),
                        "Equal pieces of a sequence are not equal work: the last contiguous piece has the most, zig-zag pieces the same.")]


def _configurations(tables):
    """(tokens, ranks) -> layout -> rank -> step -> pairs."""
    found = {}
    for row in tables.rows("balance"):
        layouts = found.setdefault((row["tokens"], row["ranks"]), {})
        layouts.setdefault(row["scheme"], {}).setdefault(row["rank"], {})[row["step"]] = row["pairs"]
    return found


def _per_rank(ranks):
    """Pairs of each rank in all; a row with step -1 holds the total, else the steps are added."""
    return [steps.get(-1) or sum(steps.values()) for _, steps in sorted(ranks.items())]


def _slowest_per_step(ranks):
    steps = {step for pairs in ranks.values() for step in pairs if step >= 0}
    return [max(pairs.get(step, 0) for pairs in ranks.values()) for step in sorted(steps)]


def _bars(ax, layouts, colours, mean=None):
    width = 0.8 / max(1, len(layouts))
    longest = max((len(values) for values in layouts.values()), default=0)
    crowd = sum(len(look.count(value)) for values in layouts.values() for value in values)  # letters above the bars
    for number, (name, values) in enumerate(layouts.items()):
        places = [place + (number + 0.5) * width - 0.4 for place in range(len(values))]
        ax.bar(places, values, 0.92 * width, color=colours[name], zorder=3)
        for place, value in zip(places, values) if crowd <= 64 else ():
            ax.annotate(look.count(value), (place, value), (0, 1.5), textcoords="offset points", ha="center",
                        fontsize=6.5 if crowd <= 40 else 5.5, color="#555555")
    if mean:
        ax.axhline(mean, color="#555555", linestyle=look.DASHED, linewidth=1, zorder=4)
    ax.set_xticks(range(0, longest, max(1, longest // 8)))
    ax.grid(axis="x", visible=False)
    ax.margins(y=0.12)
    ax.yaxis.set_major_formatter(lambda value, _: look.count(value))
