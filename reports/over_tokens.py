"""The common page of the figures over tokens: a sheet a component, a panel a dtype, shape and device, the longest four drawn."""
from reports import curves, look, series

PANELS = 4


def found(tables, value, *, fewest=2):
    """Component -> panels of value(row), for the components that have any."""
    every = {component: series.panels(tables, component, value, fewest=fewest) for component in series.components(tables)}
    return {component: panels for component, panels in every.items() if panels}


def draw(tables, component, panels, stem, *, title, subtitle, axis, detail, notes, columns, says, band=None):
    """axis(ax, panel) sets the y axis and draws what lies below the curves; detail, band as Painter.curves has them."""
    shown = series.longest(panels, PANELS)
    sheet = look.Sheet(f"{component}: {title}", subtitle, len(shown), gutter=curves.gutter(shown, detail))
    painter = curves.Painter(tables)
    for ax, panel in zip(sheet.axes, shown):
        look.count_axis(ax, [x for curve in panel.curves for x in curve.x])
        axis(ax, panel)
        painter.curves(ax, panel, detail, band=band)
        curves.title(ax, panel, tables)
        ax.set_xlabel("tokens")
    more = len(panels) - len(shown)
    notes = (*notes, look.HOLLOW, f"{more} more shapes are in the CSV" if more else "")
    return sheet.write(stem, look.caption(tables, series.rows_of(shown), *notes), series.table(panels, *columns), says)
