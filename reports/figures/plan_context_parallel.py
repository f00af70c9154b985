"""Planned step time (above) and bytes sent by one GPU (below) against the context-parallel degree, by what they are spent on."""
from reports import look

NAME, TITLE, ORDER = "plan_context_parallel", "Planned time and traffic against context-parallel degree", 120
PLANS = 3  # columns


def applies(tables):
    return bool(tables.rows("plan_time"))


def draw(tables, stem):
    rows = tables.rows("plan_time")
    plans = {}
    for row in rows:
        plans.setdefault((row["model"], row["gpu"], row["label"], row["tokens"]), []).append(row)
    shown = list(plans.items())[:PLANS]
    terms = list(dict.fromkeys(row["term"] for row in rows))
    colours = look.category_colours(terms)
    sheet = look.Sheet("planned time and traffic of a training step", "predicted, by what they are spent on", 2 * len(shown),
                       columns=len(shown), height=2.0, width=3.2, gutter=0.2, right=0.5 + 0.065 * max(map(len, terms)))
    for column, ((model, gpu, label, tokens), members) in enumerate(shown):
        # with panels below each other instead of side by side the pair of a plan stays together
        places = (column, column + len(shown)) if sheet.columns > 1 or len(shown) == 1 else (2 * column, 2 * column + 1)
        time, traffic = (sheet.axes[place] for place in places)
        _stack(time, members, "seconds", terms, colours, lambda value: look.scaled(value, "s"))
        _stack(traffic, members, "bytes", terms, colours, look.size, binary=True)
        look.panel_title(time, f"{model} on {gpu}: time", f"{label}  ·  {look.tokens(tokens)} tokens")
        look.panel_title(traffic, "bytes sent by one GPU")
    look.legend_right(sheet.axes[sheet.columns - 1], [look.patch(colours[name], name) for name in reversed(terms)], shift=0.2)
    more = len(plans) - len(shown)
    return [sheet.write(stem, look.caption(tables, rows, f"{more} more plans are in the CSV" if more else ""), look.without_run(rows),
                        "Splitting one sequence further pays until what it adds in communication exceeds what it saves in work.")]


def _stack(ax, rows, value, terms, colours, text, binary=False):
    degrees = sorted({row["cp"] for row in rows})
    totals = []
    for place, degree in enumerate(degrees):
        bottom = 0.0
        for term in terms:
            amount = sum(row[value] for row in rows if row["cp"] == degree and row["term"] == term and row[value] > 0)
            ax.bar(place, amount, 0.72, bottom, color=colours[term], zorder=3)
            bottom += amount
        totals.append(bottom)
        ax.annotate(text(bottom), (place, bottom), (0, 2), textcoords="offset points", ha="center", fontsize=7, color=look.DARK)
    ax.set_xticks(range(len(degrees)), degrees)
    ax.set_xlabel("context-parallel degree")
    ax.grid(axis="x", visible=False)
    look.linear_axis(ax, max(totals), text, binary=binary)
