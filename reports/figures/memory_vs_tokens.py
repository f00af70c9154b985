"""Peak memory against tokens, measured (marks) and predicted (dashed grey), with the fitted slope of the measured curve."""
from reports import curves, look, over_tokens, series

NAME, TITLE, ORDER = "memory_vs_tokens", "Memory against tokens, measured and predicted", 50
PEAK = series.positive("memory_peak")


def applies(tables):
    return bool(over_tokens.found(tables, PEAK))


def draw(tables, stem):
    return [over_tokens.draw(
        tables, component, panels, f"{stem}-{component}",
        title="peak memory against tokens", subtitle="measured (marks) and predicted (dashed grey)", axis=_axis, detail=_text,
        notes=(curves.SLOPE_NOTE, "off: the largest difference between measured and predicted"),
        columns=("memory_peak", "memory_predicted"),
        says="Marks on the dashed line mean that the memory model can be trusted to say what fits.",
    ) for component, panels in over_tokens.found(tables, PEAK).items()]


def _axis(ax, panel):
    predicted = [_predicted(curve) for curve in panel.curves]
    look.log_axis(ax, panel.values + [row["memory_predicted"] for rows in predicted for row in rows], look.size, base=2)
    for rows in predicted:
        ax.plot([row["t"] for row in rows], [row["memory_predicted"] for row in rows], color=look.MIDDLE, linestyle=look.DASHED,
                linewidth=1.1, zorder=5)


def _text(curve):
    off = [abs(row["memory_peak"] / row["memory_predicted"] - 1) for row in _predicted(curve)]
    return ", ".join(part for part in (curves.slope_text(curve), f"{100 * max(off):.0f} % off" if off else "") if part)


def _predicted(curve):
    return [row for row in curve.rows if row.get("memory_predicted", -1) > 0]
