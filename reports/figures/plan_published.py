"""Predictions over published measurements: one line a measurement, the band of five per cent, filled where every condition is stated."""
from reports import look

NAME, TITLE, ORDER = "plan_published", "Predictions against published measurements", 150
WITHIN = 0.05


def applies(tables):
    return bool(_shown(tables))


def draw(tables, stem):
    rows = _shown(tables)
    sheet = look.Sheet("predictions against published measurements", "predicted over published", 1, columns=1, width=4.2,
                       height=0.17 * len(rows) + 0.2, gutter=0.6, left=4.6)
    ax = sheet.axes[0]
    for place, row in enumerate(rows):
        close, stated = abs(row["relative_error"]) <= WITHIN, row["standing"] == "stated"
        colour = look.PALETTE[0] if close else look.ALARM
        ratio = min(max(1 + row["relative_error"], 0.5), 1.5)
        ax.plot([1, ratio], [place, place], color=colour, linewidth=0.8, zorder=2)
        ax.plot(ratio, place, "o", markersize=4.5, markeredgecolor=colour, markerfacecolor=colour if stated else "white", zorder=3)
    ax.axvspan(1 - WITHIN, 1 + WITHIN, color=look.PALE_GREY, alpha=0.5, zorder=0)
    ax.axvline(1, color=look.MIDDLE, linestyle=look.DASHED, linewidth=1, zorder=1)
    ax.set_xlim(0.48, 1.52)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_yticks(range(len(rows)), [f"{row['quantity']}: {row['published']:g} {row['unit']}  {row['id']}" for row in rows], fontsize=6.5)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("predicted over published")
    within = sum(abs(row["relative_error"]) <= WITHIN for row in rows)
    notes = ("filled: every condition is stated; hollow: something is assumed, see the CSV", "bounds, floors and the calibration row are in the CSV")
    return [sheet.write(stem, look.caption(tables, rows, *notes), look.without_run(tables.rows("plan_published")),
                        f"{within} of {len(rows)} measurements are predicted within 5 %; the assumptions behind the others are in the CSV.")]


def _shown(tables):
    return [row for row in tables.rows("plan_published") if row["standing"] in ("stated", "assumed")]
