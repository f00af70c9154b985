"""The page of a report as one self-contained HTML text: status first, then failures, figures, provenance, planted faults."""
import base64
from pathlib import Path

import jinja2

from reports import look, status
from reports.read import rows

HERE = Path(__file__).parent
LISTED = 200  # failures shown; more are counted


def render(merged, drawn):
    """drawn: (figure module, its drawings) in order; their SVGs are embedded, so that the page can travel alone."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True,
                                     undefined=jinja2.StrictUndefined)
    table = status.counts(merged)
    return environment.get_template("page.html.j2").render(
        summary=status.summary(merged),
        states=status.states(table),
        table=table,
        failures=status.failures(merged, status.FAILURES),
        limits=status.failures(merged, status.LIMITS),
        listed=LISTED,
        skips=status.skips(merged),
        sections=[dict(id=figure.NAME, title=figure.TITLE, drawings=list(map(_drawing, drawings))) for figure, drawings in drawn],
        runs=[_provenance(run, file) for run, file in zip(merged.runs, merged.files)],
        faults=status.faults(merged),
    )


def _drawing(drawing):
    picture = base64.b64encode(Path(f"{drawing.stem}.svg").read_bytes()).decode()
    return dict(title=drawing.title, says=drawing.says, picture=f"data:image/svg+xml;base64,{picture}", width=round(96 * drawing.width),
                links=[(kind.upper(), f"figures/{drawing.stem.name}.{kind}") for kind in ("png", "svg", "csv")])


def _provenance(run, file):
    """What is known of a file: (name, value) pairs, empty ones left out."""
    order = {name: value for name, value in file.file.items() if name not in ("schema", "config_toml")}
    facts = {"command": _words(order.pop("argv", "")), **order, "devices": run.devices, "clocks": run.clocks, **file.provenance}
    names, values = (facts.pop(name, ()) for name in ("env_names", "env_values"))
    facts["environment"] = " ".join(f"{name}={value}" for name, value in zip(names, values))
    rows = [(name, _words(value)) for name, value in facts.items()]
    return dict(run=run, facts=[(name, value) for name, value in rows if value not in ("", "{}", "[]")], ceilings=_ceilings(file))


def _ceilings(file):
    return [(row["kind"], look.scaled(row["value"], row["units"]), row.get("method", "")) for row in rows(file.get("ceilings", {}))]


def _words(value):
    return value if isinstance(value, str) else " ".join(map(str, value)) if hasattr(value, "__len__") else str(value)
