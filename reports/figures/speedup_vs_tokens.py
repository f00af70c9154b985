"""Speed-up over the naive variant on the same case against tokens, where both were timed; the geometric mean over lengths is printed."""
import math

import numpy

from reports import look, over_tokens, series

NAME, TITLE, ORDER = "speedup_vs_tokens", "Speed-up over the naive variant", 30


def applies(tables):
    return bool(_found(tables))


def draw(tables, stem):
    speedup = series.against_naive(tables)

    def axis(ax, panel):
        look.log_axis(ax, [1.0] + panel.values, lambda value: f"{value:g}×")
        ax.axhline(1, color=look.GREY, linestyle=look.DASHED, linewidth=1, zorder=1)
        naive = sorted({speedup(row)[1] for curve in panel.curves for row in curve.rows})
        ax.annotate(f"naive {' or '.join(naive)}", (1, 1), (-2, 2), xycoords=("axes fraction", "data"), textcoords="offset points",
                    fontsize=7, color=look.GREY, ha="right")

    return [over_tokens.draw(
        tables, component, panels, f"{stem}-{component}",
        title="speed-up over the naive variant", subtitle="naive time / time on the same inputs, where both were timed", axis=axis,
        detail=_mean_text, notes=("mean: geometric, over the lengths drawn", "×N: on N ranks, against the naive variant on one"),
        columns=("time_median",), says="Above 1 is faster than the naive variant.",
    ) for component, panels in _found(tables).items()]


def _found(tables):
    speedup = series.against_naive(tables)
    return over_tokens.found(tables, lambda row: speedup(row)[0], fewest=1)


def _mean_text(curve):
    return f"mean {math.exp(numpy.log(curve.y).mean()):.3g}×"
