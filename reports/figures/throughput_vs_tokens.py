"""Tokens per second against tokens, from the median time: linear from zero, so that twice as high is twice as fast."""
from reports import look, over_tokens, series

NAME, TITLE, ORDER = "throughput_vs_tokens", "Tokens per second against tokens", 40
LINEAR_SPAN = 60  # beyond such a ratio of largest to smallest value the axis is logarithmic, or the small ones would lie on zero
RATE = series.positive("tokens_per_second")


def applies(tables):
    return bool(over_tokens.found(tables, RATE))


def draw(tables, stem):
    return [over_tokens.draw(
        tables, component, panels, f"{stem}-{component}",
        title="tokens per second", subtitle="from the median time of one call", axis=_axis, detail=_rate_text, band=_band,
        notes=("band: quartiles",), columns=("time_median", "mfu", "fraction_of_roof", "n_samples"),
        says="Flat means linear cost; halving at every doubling of the sequence means quadratic cost.",
    ) for component, panels in over_tokens.found(tables, RATE).items()]


def _axis(ax, panel):
    if max(panel.values) > LINEAR_SPAN * min(panel.values):
        look.log_axis(ax, panel.values, look.scaled)
    else:
        look.linear_axis(ax, max(panel.values), look.scaled)


def _rate_text(curve):
    return f"{look.scaled(curve.y[-1])}/s at {look.tokens(curve.x[-1])}"


def _band(row):
    """Quartiles of the rate: the rate of the median time, scaled by the quartiles of the time."""
    work = row["tokens_per_second"] * row.get("time_median")
    return work / row.get("time_q75"), work / row.get("time_q25")
