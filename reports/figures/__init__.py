"""One module a figure: NAME (how its files begin), TITLE (its heading on the page), applies(tables), draw(tables, stem) -> [Drawing].

`tables` is what reports.merge.merge gives; a figure whose table is absent does not apply. A module in this folder is found by itself.
"""
import importlib
import pkgutil


def modules():
    """All figures in the order of the page: by ORDER, then by name."""
    found = [importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    return sorted(found, key=lambda figure: (figure.ORDER, figure.NAME))
