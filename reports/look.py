"""What the marks of a figure mean, the page it stands on, and how it is written: the same tables give the same bytes.

colour = variant, the same in a whole report    marker = scheme    line style = phase    size of marker = ranks
grey = naive reference and vendor libraries     dashed grey = limits, ideals, guides     hollow marker = not verified
"""
import csv
import dataclasses
import math
import textwrap
from pathlib import Path

import matplotlib
import matplotlib.colors
import matplotlib.figure
import matplotlib.patches
import matplotlib.style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from reports.series import is_reference

# Told apart by colour-blind eyes too: 14 units of CIELAB at least between any two, grey included, whichever cone is missing.
PALETTE = ("#0072B2", "#D55E00", "#0B9E5E", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#5B3A00")
GREY, PALE_GREY, MIDDLE, DARK, ALARM = "#777777", "#c4c4c4", "#6f6f6f", "#333333", "#b3261e"
REFERENCE_GREYS = {"cpu": GREY, "gpu": "#4a4a4a"}
VENDORS = ("cublas", "cudnn", "cusparse", "vendor")
SCHEME_MARKERS = {"": "o", "gather": "s", "ring": "^", "zigzag": "D", "all_gather": "v", "ulysses": "P", "usp": "X", "state_passing": "p"}
SPARE_MARKERS = "<>hd8*"
PHASE_LINES = {"fwd_bwd": "-", "": "-", "fwd": (0, (6, 1.3)), "bwd": (0, (2, 1.2))}  # the whole is solid, its parts are broken
DASHED = (0, (3, 2))
HOLLOW = "hollow marker: not verified with both normal and aimed inputs"

matplotlib.style.use(["default", str(Path(__file__).with_name("style.mplstyle"))])  # ours alone, whatever the reader's matplotlibrc says


@dataclasses.dataclass
class Drawing:
    """A figure on disk (stem + .png, .svg, .csv) and what the page says about it."""

    stem: Path
    title: str
    says: str
    width: float  # inches


def variant_colours(merged):
    """Variant -> colour, greedily: the first of the palette that no variant of a common component has."""
    users = {}
    for row in merged.rows("results"):
        users.setdefault(row["component"], set()).add(row["variant"])
    colours, taken = {}, {}
    for component, variants in sorted(users.items()):
        for variant in sorted(variants - colours.keys()):
            if is_reference(variant) or variant.lower().startswith(VENDORS):
                colours[variant] = REFERENCE_GREYS.get(variant, "#a8a8a8")
                continue
            homes = [name for name, members in users.items() if variant in members]
            used = {colours[other] for name in homes for other in users[name] if other in colours}
            free = [colour for colour in PALETTE if colour not in used]
            colours[variant] = free[0] if free else PALETTE[len(used) % len(PALETTE)]
    return colours


def scheme_marker(merged, scheme):
    unknown = sorted({row.get("scheme", "") for row in merged.rows("results")} - SCHEME_MARKERS.keys())
    return SCHEME_MARKERS.get(scheme) or SPARE_MARKERS[unknown.index(scheme) % len(SPARE_MARKERS)]


def phase_line(phase):
    return PHASE_LINES.get(phase, ":")


def darker(colour, share=0.25):
    """The colour mixed with black, for text."""
    return tuple((1 - share) * part for part in matplotlib.colors.to_rgb(colour))


class Sheet:
    """A figure laid out in inches: title, panels with room for labels on their right, caption."""

    LEFT, GAP, BETWEEN = 0.72, 0.62, 0.92
    WIDEST = 10.8  # what a page shows without shrinking the letters
    NARROWEST = 2.6  # a panel; before it gets narrower the columns go below each other

    def __init__(self, title, subtitle, panels, *, columns=2, width=3.4, height=2.7, gutter=1.5, left=None, right=0.0,
                 top=1.02, bottom=0.42):
        columns = min(columns, panels)
        left = left or self.LEFT
        room = (self.WIDEST - left - right - (columns - 1) * self.GAP) / columns - gutter
        columns, width = (1, 1.35 * width) if room < self.NARROWEST and columns > 1 else (columns, min(width, room))
        self.columns = columns
        lines = -(-panels // columns)
        self.width = left + columns * (width + gutter) + (columns - 1) * self.GAP + right
        self.plot_height = top + lines * height + (lines - 1) * self.BETWEEN + bottom
        self.title, self.subtitle = title, subtitle
        self.figure = matplotlib.figure.Figure(figsize=(self.width, self.plot_height))
        FigureCanvasAgg(self.figure)
        self.axes = []
        for number in range(panels):
            line, column = divmod(number, columns)
            x = left + column * (width + gutter + self.GAP)
            y = self.plot_height - top - height - line * (height + self.BETWEEN)
            self.axes.append(self.figure.add_axes([x / self.width, y / self.plot_height, width / self.width, height / self.plot_height]))

    def write(self, stem, caption, rows, says):
        """Writes PNG, SVG and CSV; caption is a list of lines that the sheet is lengthened for."""
        lines = [part for line in caption if line for part in textwrap.wrap(line, int(self.width * 18.5))]
        added = 0.15 + 0.135 * len(lines)
        height = self.plot_height + added
        boxes = [ax.get_position() for ax in self.axes]
        for ax, box in zip(self.axes, boxes):
            ax.set_position([box.x0, (box.y0 * self.plot_height + added) / height, box.width, box.height * self.plot_height / height])
        self.figure.set_size_inches(self.width, height)
        self.figure.text(0.12 / self.width, 1 - 0.26 / height, self.title, fontsize=11, fontweight="bold", va="center")
        self.figure.text(0.12 / self.width, 1 - 0.46 / height, self.subtitle, fontsize=8, color="#666666", va="center")
        for number, line in enumerate(reversed(lines)):
            self.figure.text(0.12 / self.width, (0.1 + 0.135 * number) / height, line, fontsize=6.5, color="#777777")
        stem = Path(stem)
        self.figure.savefig(f"{stem}.png", metadata={"Software": None})
        self.figure.savefig(f"{stem}.svg", metadata={"Date": None, "Creator": None})
        write_csv(f"{stem}.csv", rows)
        return Drawing(stem, self.title, says, self.width)


def write_csv(path, rows):
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: plain(value) for name, value in row.items()} for row in rows)


def without_run(rows):
    return [{name: value for name, value in row.items() if name != "run"} for row in rows]


def plain(value):
    """A value for a CSV cell: whole numbers without a point, missing numbers empty."""
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value


def caption(merged, rows, *notes, count=("n_samples", "samples")):
    """What was measured where: how many samples a point (or what `count` names), notes, then the runs, grouped by what they share."""
    places = {}
    for run in sorted({row["run"] for row in rows}):
        about = merged.runs[run]
        clocks = f"clocks {about.clocks}" if about.clocks else ""
        kinds = {row.get("device", "") for row in rows if row["run"] == run}
        devices = about.devices if len(kinds) > 1 else about.device(kinds.pop())
        text = ", ".join(part for part in (f"commit {about.commit}", devices, about.software, clocks) if part)
        places.setdefault(text, []).append(about.short_id or about.file)
    counts = sorted({int(row[count[0]]) for row in rows if row.get(count[0], -1) > 0})
    drawn = f"n = {' to '.join(f'{number:,}' for number in (counts[:1] + counts[1:][-1:]))} {count[1]} a point" if counts else ""
    lines = [f"{'run' if len(ids) == 1 else 'runs'} {', '.join(ids)} · {text}" for text, ids in places.items()]
    return ["; ".join(note for note in (drawn, *notes) if note)] + lines


def panel_title(ax, bold, plain_text=""):
    """Two lines above a panel: what it shows, and for which shape or device."""
    place = dict(xycoords="axes fraction", textcoords="offset points")
    ax.annotate(bold, (0, 1), (0, 17 if plain_text else 7), fontsize=8.5, fontweight="bold", color=DARK, **place)
    ax.annotate(plain_text, (0, 1), (0, 6), fontsize=7.5, color="#666666", **place)


def patch(colour, name):
    """A legend entry for areas of this colour."""
    return matplotlib.patches.Patch(color=colour, label=name)


def legend_right(ax, handles, shift=0.0):
    """A legend to the right of these axes, `shift` inches further out."""
    x = 1.02 + shift / (ax.get_position().width * ax.figure.get_figwidth())
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(x, 1.02), borderaxespad=0, handlelength=2.6, labelspacing=0.55)


def category_colours(names):
    """Colours of areas that are not variants: the palette, then greys."""
    spare = (GREY, PALE_GREY, MIDDLE, DARK)
    return {name: (PALETTE + spare)[number % (len(PALETTE) + len(spare))] for number, name in enumerate(names)}


def rectangle(x, y, colour, edge):
    """A cell of a matrix, with a little air around it."""
    return matplotlib.patches.Rectangle((x + 0.04, y + 0.06), 0.92, 0.88, facecolor=colour, edgecolor=edge, linewidth=0.5)


# ---- numbers as people read them


def tokens(number):
    """65536 -> '64Ki', 1000 -> '1000'."""
    number = int(number)
    for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if number >= size and number * 4 % size == 0:
            return f"{number / size:g}{unit}"
    return str(number)


def scaled(number, unit=""):
    """1.5e9 -> '1.5 G', 3e-5 s -> '30 µs': three digits and a decimal prefix."""
    if not number:
        return "0"
    power = max(-4, min(5, math.floor(math.log10(abs(number) * (1 + 1e-9)) / 3)))
    return f"{number / 1000**power:.3g} {('p', 'n', 'µ', 'm', '', 'k', 'M', 'G', 'T', 'P')[power + 4]}{unit}".strip()


def count(number):
    """Small counts in full, large ones with a decimal prefix."""
    return f"{number:g}" if abs(number) < 10000 else scaled(number).replace(" ", "")


def rounded_tokens(number):
    """tokens() to three digits: 8675309 -> '8.27Mi'."""
    for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return str(number)


def size(number):
    """Bytes with a binary prefix: 2**30 -> '1 GiB'."""
    if not number:
        return "0"
    power = max(0, min(5, int(math.log2(number) // 10))) if number > 0 else 0
    return f"{number / 1024**power:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[power]}"


# ---- axes


def count_axis(ax, values, text=tokens):
    """A log2 x axis over counts (tokens, ranks) with a tick at powers of two, thinned to at most eight."""
    low, high = min(values), max(values)
    ax.set_xscale("log", base=2)
    powers = range(math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9) + 1)
    step = max(1, -(-len(powers) // 8))
    ticks = [2**power for power in powers][::-1][::step] or sorted(set(values))
    ax.xaxis.set_major_locator(FixedLocator(sorted(ticks)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    margin = max(1.12, (high / low) ** 0.04)
    ax.set_xlim(low / margin, high * margin)


def linear_axis(ax, largest, text, *, binary=False):
    """A y axis from zero with room for a word above the largest value; round ticks, of bytes in their binary unit."""
    unit = 1024 ** max(0, int(math.log2(largest) // 10)) if binary and largest > 1 else 1
    top = 1.15 * (largest or 1)
    ax.set_ylim(0, top)
    ax.yaxis.set_major_locator(FixedLocator([tick * unit for tick in MaxNLocator(6).tick_values(0, top / unit) if 0 <= tick * unit <= top]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))


def log_axis(ax, values, text, *, base=10, room=1.35, below=None):
    """A log y axis around these values; ticks at powers of ten, thinned, or of 1, 2, 5 when they span little."""
    low, high = min(values) / (below or room), max(values) * room
    if high / low < 4:
        low, high = low / 1.6, high * 1.6
    ax.set_yscale("log", base=base)
    ax.set_ylim(low, high)
    first, last = math.floor(math.log(low, base)), math.ceil(math.log(high, base))
    ticks = [float(base) ** power for power in range(first, last + 1)]
    inside = [tick for tick in ticks if low <= tick <= high]
    if len(inside) < 3:
        steps = (1, 2, 5) if base == 10 else (1, 1.25, 1.5, 1.75) if len(inside) < 2 else (1, 1.5)
        inside = [tick * step for tick in ticks for step in steps if low <= tick * step <= high]
    ax.yaxis.set_major_locator(FixedLocator(inside[::max(1, -(-len(inside) // 8))]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
