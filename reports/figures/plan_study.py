"""The formulas behind a plan over a range, one panel a study: pipeline bubbles, ZeRO stages, overlap thresholds, scheme crossover."""
from reports import curves, look

NAME, TITLE, ORDER = "plan_study", "Formulas behind the plan", 140
TEXT = {"B": look.size, "tokens": lambda value: look.rounded_tokens(round(value)), "1": lambda value: f"{100 * value:g} %"}


def applies(tables):
    return bool(tables.rows("plan_study"))


def draw(tables, stem):
    rows = tables.rows("plan_study")
    studies = {}
    for row in rows:
        studies.setdefault((row["study"], row["title"]), {}).setdefault(row["series"], []).append(row)
    longest = max(len(row["series"]) for row in rows)
    sheet = look.Sheet("formulas behind the plan", "computed, not measured", len(studies), gutter=0.35 + 0.07 * longest)
    for ax, ((study, title), series) in zip(sheet.axes, studies.items()):
        members = [row for points in series.values() for row in points]
        colours = look.category_colours(list(series))
        look.count_axis(ax, [row["x"] for row in members], text=lambda value: look.rounded_tokens(round(value)))
        text = TEXT[members[0]["unit"]]
        values = [row["y"] for row in members if row["y"] > 0]
        if members[0]["unit"] == "1":
            look.linear_axis(ax, max(values), text)
        else:
            look.log_axis(ax, values, text, base=2)
        labels = []
        for name, points in series.items():
            points = sorted((row["x"], row["y"]) for row in points if row["y"] > 0 or row["unit"] == "1")
            if points:
                ax.plot(*zip(*points), color=colours[name], marker=".", zorder=3)
                labels.append((*points[-1], name, "", colours[name]))
        curves.label(ax, labels)
        look.panel_title(ax, study, title)
        ax.set_xlabel(members[0]["x_label"])
        ax.set_ylabel(members[0]["y_label"])
    return [sheet.write(stem, look.caption(tables, rows), look.without_run(rows), "What the plan is made of, where each formula bends.")]
