"""Draws curves over tokens into a panel: lines, bands, hollow and crossed markers, guides, and labels at the ends of the lines."""
import math

import numpy
from matplotlib.lines import Line2D

from reports import look
from reports.series import SLOPE_SPAN, device_of, is_verified

DIRECT = 5  # up to so many curves are labelled where they end; more get a legend
LINE_HEIGHT = 9.5  # points
BACKGROUND = dict(boxstyle="square,pad=0.1", facecolor="white", edgecolor="none", alpha=0.75)  # of words among lines
SLOPE_NOTE = f"slope: power of T fitted over the last factor {SLOPE_SPAN} in length"


def slope_number(curve):
    """Two digits, and no minus in front of zero; "" without a slope."""
    return f"{round(curve.slope, 2) + 0.0:.2f}" if math.isfinite(curve.slope) else ""


def slope_text(curve):
    return f"slope {slope_number(curve)}" if slope_number(curve) else ""


class Painter:
    """Draws the curves of one report: knows the colours, the markers and which rows are verified."""

    def __init__(self, merged):
        self.merged = merged
        self.colours = look.variant_colours(merged)
        self.verified = is_verified(merged)

    def curves(self, ax, panel, detail, *, band=None, labels=True):
        """Every curve of the panel on axes whose scales are set; detail(curve) is the small print below its name; band gives
        (low, high) of a row."""
        for curve in panel.curves:
            colour = self.colours[curve.variant]
            ax.plot(curve.x, curve.y, color=colour, linestyle=look.phase_line(curve.phase), zorder=3)
            filled = numpy.array([self.verified(row) for row in curve.rows])
            failed = numpy.array([row["status"] == "fail" for row in curve.rows])
            for these, edge, face in ((filled, colour, colour), (~filled & ~failed, colour, "white"), (failed, look.ALARM, "white")):
                ax.plot(curve.x[these], curve.y[these], look.scheme_marker(self.merged, curve.scheme), markeredgecolor=edge,
                        markerfacecolor=face, markersize=4.8 + 1.1 * math.log2(max(1, curve.ranks)), zorder=4)
            if band:
                low, high = numpy.array([band(row) for row in curve.rows]).T
                ax.fill_between(curve.x, low, high, color=colour, alpha=0.18, linewidth=0, zorder=2)
            if curve.stop:
                cross(ax, curve.x[-1], curve.y[-1], f"{curve.stop['status']} at {look.tokens(curve.stop['t'])}")
        if labels and len(panel.curves) <= DIRECT:
            label(ax, [(curve.x[-1], curve.y[-1], name_in(panel.curves, curve), detail(curve), self.colours[curve.variant])
                       for curve in panel.curves])
        elif labels:
            self.legend(ax, [panel], detail)

    def legend(self, ax, panels, detail=lambda curve: "", shift=0.0):
        """One legend for several panels on the right of these axes, `shift` inches further out."""
        every = [curve for panel in panels for curve in panel.curves]
        seen = {f"{name_in(every, curve)}  {detail(curve)}".strip(): curve for curve in every}
        lines = [Line2D([], [], color=self.colours[curve.variant], linestyle=look.phase_line(curve.phase), label=name,
                        marker=look.scheme_marker(self.merged, curve.scheme)) for name, curve in seen.items()]
        look.legend_right(ax, lines, shift)


def name_in(curves, curve):
    """The name of a curve among others: with its phase if they have several."""
    return curve.name + (f" {curve.phase}" if len({other.phase for other in curves}) > 1 else "")


def cross(ax, x, y, reason):
    """× at the last feasible point, with the reason why there is no further one."""
    ax.plot([x], [y], "x", color=look.ALARM, markersize=9, markeredgewidth=1.8, zorder=6)
    inside = ax.transAxes.inverted().transform(ax.transData.transform((x, y)))[0] < 0.7
    ax.annotate(reason, (x, y), xytext=(7, -2.5) if inside else (-7, 5), textcoords="offset points", fontsize=7, color=look.ALARM,
                ha="left" if inside else "right", zorder=6, bbox=BACKGROUND)


def label(ax, labels):
    """Names the lines beside their ends, pushed apart. (x, y, name, detail, colour)"""
    height = ax.get_position().height * ax.figure.get_figheight() * 72
    heights = [LINE_HEIGHT * (2 if entry[3] else 1) + 1.5 for entry in labels]
    wanted = [ax.transAxes.inverted().transform(ax.transData.transform((x, y)))[1] * height for x, y, *_ in labels]
    for (x, y, name, detail, colour), place, want in zip(labels, spread(wanted, heights, height), wanted):
        end = ax.transAxes.inverted().transform(ax.transData.transform((x, y)))[0]
        if end < 0.93 or abs(place - want) > 3:
            ax.annotate("", (1.025, place / height), (end + 0.012, want / height), xycoords="axes fraction", textcoords="axes fraction",
                        arrowprops=dict(arrowstyle="-", color=colour, linewidth=0.6, alpha=0.55, shrinkA=2, shrinkB=0), zorder=2)
        offset = LINE_HEIGHT / 2 if detail else 0
        ax.annotate(name, (1.03, place / height), (0, offset), xycoords="axes fraction", textcoords="offset points", va="center",
                    fontsize=7.5, color=look.darker(colour), fontweight="bold")
        ax.annotate(detail, (1.03, place / height), (0, -offset), xycoords="axes fraction", textcoords="offset points", va="center",
                    fontsize=7, color="#555555")


def spread(wanted, heights, room):
    """Centres for boxes of these heights, near the wanted ones, in order, without overlap, and inside [0, room] if they fit."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    blocks = []  # [sum of (wanted bottom of block), boxes, height]: neighbours that touch move as one
    for index in order:
        blocks.append([wanted[index] - heights[index] / 2, [index], heights[index]])
        while len(blocks) > 1 and _bottom(blocks[-2], room) + blocks[-2][2] > _bottom(blocks[-1], room):
            start, boxes, height = blocks.pop()
            below = blocks[-1]
            count = len(below[1]) + len(boxes)
            below[0] = (below[0] * len(below[1]) + (start - below[2]) * len(boxes)) / count
            below[1] += boxes
            below[2] += height
    places = [0.0] * len(wanted)
    for block in blocks:
        bottom = _bottom(block, room)
        for index in block[1]:
            places[index] = bottom + heights[index] / 2
            bottom += heights[index]
    return places


def _bottom(block, room):
    return max(0.0, min(block[0], room - block[2]))


def guides(ax, panel, powers=(1, 2)):
    """Dashed grey lines ∝ T^p from below the first point of the lowest curve, as a measure of steepness."""
    start_x, start_y = min((curve.y[0], curve.x[0]) for curve in panel.curves)[::-1]
    start_y *= 0.55
    (low, high), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    for power in powers:
        end = min(high, start_x * (top / start_y) ** (1 / power))
        ends = numpy.array([start_x, end])
        ax.plot(ends, start_y * (ends / start_x) ** power, color=look.PALE_GREY, linestyle=look.DASHED, linewidth=0.9, zorder=1)
        ax.annotate("∝T" + {1: "", 2: "²"}.get(power, f"^{power}"), (end, start_y * (end / start_x) ** power), (-2, -3),
                    textcoords="offset points", fontsize=7, color=look.GREY, ha="right", va="top", zorder=5,
                    bbox=BACKGROUND)
    ax.set_xlim(low, high)
    ax.set_ylim(bottom, top)


def gutter(panels, detail):
    """Inches of room that the labels of these panels need on their right."""
    widths = [0.7]
    for panel in panels:
        for curve in panel.curves:
            name, small = len(name_in(panel.curves, curve)), len(detail(curve))
            widths.append(0.25 + 0.072 * max(name, small) if len(panel.curves) <= DIRECT else 0.6 + 0.062 * (name + 2 + small))
    return max(widths)


def legend_width(panels):
    """Inches that Painter.legend needs for these panels."""
    every = [curve for panel in panels for curve in panel.curves]
    return 0.6 + 0.064 * max(len(name_in(every, curve)) for curve in every)


def title(ax, panel, tables):
    """dtype and phase; below them shape, and device where a report has several."""
    phases = {curve.phase for curve in panel.curves}
    devices = {device_of(tables, row) for row in tables.rows("results")}
    bold = "  ".join(part for part in (panel.dtype, next(iter(phases)) if len(phases) == 1 else "") if part)
    small = "  ·  ".join(part for part in (panel.shape, panel.device if len(devices) > 1 else "") if part)
    look.panel_title(ax, bold or panel.component, small)
