"""Planned memory of one GPU against tokens: categories stacked, the capacity as a dashed line. What lies above does not fit."""
from reports import look

NAME, TITLE, ORDER = "plan_memory", "Planned memory against tokens", 110
PANELS = 6
CATEGORIES = ("weights", "grads", "optimizer", "states", "activations", "workspace", "logits", "comm", "other")  # from the bottom up


def applies(tables):
    return any(not _on_host(row) for row in tables.rows("plan_memory"))


def draw(tables, stem):
    rows = [row for row in tables.rows("plan_memory") if not _on_host(row)]
    panels = {}
    for row in rows:
        panels.setdefault((row["model"], row["gpu"], row["label"]), []).append(row)
    shown = dict(list(panels.items())[:PANELS])
    categories = sorted({row["category"] for row in rows}, key=lambda name: (CATEGORIES.index(name) if name in CATEGORIES else 99, name))
    colours = look.category_colours(categories)
    sheet = look.Sheet("planned memory of one GPU", "predicted bytes by category at the peak of a training step", len(shown), gutter=0.75,
                       right=0.55 + 0.065 * max(map(len, categories)))
    for ax, ((model, gpu, label), members) in zip(sheet.axes, shown.items()):
        _stack(ax, members, categories, colours)
        look.panel_title(ax, f"{model} on {gpu}", label)
        ax.set_xlabel("tokens")
    look.legend_right(sheet.axes[sheet.columns - 1], [look.patch(colours[name], name) for name in reversed(categories)], shift=0.75)
    more = len(panels) - len(shown)
    notes = ("red: does not fit", "host memory is in the CSV" if any(map(_on_host, tables.rows("plan_memory"))) else "",
             f"{more} more plans are in the CSV" if more else "")
    return [sheet.write(stem, look.caption(tables, rows, *notes), look.without_run(tables.rows("plan_memory")),
                        "A bar below the dashed line fits. What grows with the sequence has to be sharded, recomputed or offloaded.")]


def _on_host(row):
    return row["category"].startswith("host")


def _stack(ax, rows, categories, colours):
    lengths = sorted({row["tokens"] for row in rows})
    capacity = max(row["capacity"] for row in rows)
    totals = []
    for place, tokens in enumerate(lengths):
        bottom = 0.0
        for category in categories:
            amount = sum(row["bytes"] for row in rows if row["tokens"] == tokens and row["category"] == category)
            ax.bar(place, amount, 0.72, bottom, color=colours[category], zorder=3)
            bottom += amount
        totals.append(bottom)
        fits = not capacity > 0 or bottom <= capacity
        ax.annotate(look.size(bottom), (place, bottom), (0, 2), textcoords="offset points", ha="center", fontsize=6.5,
                    color=look.DARK if fits else look.ALARM, fontweight="normal" if fits else "bold")
    if capacity > 0:
        ax.axhline(capacity, color=look.MIDDLE, linestyle=look.DASHED, linewidth=1.1, zorder=4)
        ax.annotate(f"capacity\n{look.size(capacity)}", (1, capacity), (4, 0), xycoords=("axes fraction", "data"),
                    textcoords="offset points", fontsize=7, color="#555555", va="center")
    look.linear_axis(ax, max(totals + [capacity]), look.size, binary=True)
    ax.set_xticks(range(len(lengths)), [look.tokens(tokens) for tokens in lengths])
    ax.grid(axis="x", visible=False)
