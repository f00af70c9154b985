"""Time against tokens, a sheet a component: how a variant scales, and what it costs at which length."""
from reports import curves, look, over_tokens, series

NAME, TITLE, ORDER = "time_vs_tokens", "Time against tokens", 10
TIME = series.positive("time_median")


def applies(tables):
    return bool(over_tokens.found(tables, TIME))


def draw(tables, stem):
    return [over_tokens.draw(
        tables, component, panels, f"{stem}-{component}",
        title="time against tokens", subtitle="median time of one call", axis=_axis, detail=curves.slope_text,
        band=lambda row: (row.get("time_q25"), row.get("time_q75")), notes=("band: quartiles", curves.SLOPE_NOTE),
        columns=("time_median", "time_q25", "time_q75", "n_samples"),
        says="Steeper is worse. A curve parallel to ∝T² doubles its cost per token whenever the sequence doubles.",
    ) for component, panels in over_tokens.found(tables, TIME).items()]


def _axis(ax, panel):
    look.log_axis(ax, panel.values, lambda value: look.scaled(value, "s"), below=2.2)
    curves.guides(ax, panel)
