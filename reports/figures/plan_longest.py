"""Longest sequence that fits against the number of GPUs, one curve a technique in the order in which the plan adds them."""
from reports import curves, look

NAME, TITLE, ORDER = "plan_longest", "Longest sequence against GPUs", 130
MARKERS = "osD^vPX*"
PANELS = 4


def applies(tables):
    return bool(_panels(tables))


def draw(tables, stem):
    panels = _panels(tables)
    shown = dict(list(panels.items())[:PANELS])
    names = list(dict.fromkeys(row["technique"] for row in tables.rows("plan_longest")))
    colours = look.category_colours(names)
    sheet = look.Sheet("longest sequence that fits", "predicted tokens of one sequence, per technique", len(shown),
                       gutter=0.35 + 0.072 * max(map(len, names)))
    for ax, ((model, gpu), techniques) in zip(sheet.axes, shown.items()):
        every = [row for rows in techniques.values() for row in rows]
        look.count_axis(ax, [row["gpus"] for row in every], text=lambda value: f"{value:g}")
        look.log_axis(ax, [row["tokens"] for row in every], look.tokens, base=2)
        labels = []
        for technique, rows in techniques.items():
            x, y = [row["gpus"] for row in rows], [row["tokens"] for row in rows]
            ax.plot(x, y, color=colours[technique], marker=MARKERS[names.index(technique) % len(MARKERS)], zorder=3)
            labels.append((x[-1], y[-1], technique, f"{look.rounded_tokens(y[-1])} on {x[-1]}", colours[technique]))
        curves.label(ax, labels)
        look.panel_title(ax, f"{model} on {gpu}")
        ax.set_xlabel("GPUs")
    rows = tables.rows("plan_longest")
    more = len(panels) - len(shown)
    return [sheet.write(stem, look.caption(tables, rows, f"{more} more models are in the CSV" if more else ""), look.without_run(rows),
                        "Each technique stands on those below it; where a curve flattens, more GPUs no longer buy a longer sequence.")]


def _panels(tables):
    """(model, gpu) -> {technique: rows by GPUs}, without the points where nothing fits."""
    found = {}
    for row in sorted(tables.rows("plan_longest"), key=lambda row: row["gpus"]):
        if row["tokens"] > 0:
            found.setdefault((row["model"], row["gpu"]), {}).setdefault(row["technique"], []).append(row)
    return found
