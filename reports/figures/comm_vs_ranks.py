"""Bytes sent in all over the number of ranks: what the communicator's ledger counted (marks) and what the formula says (dashed grey)."""
from reports import curves, look, series

NAME, TITLE, ORDER = "comm_vs_ranks", "Communication against ranks, ledger and formula", 70
PANELS = 4


def applies(tables):
    return bool(_found(tables))


def draw(tables, stem):
    return [_draw(tables, component, panels, f"{stem}-{component}") for component, panels in _found(tables).items()]


def _found(tables):
    """Component -> [((dtype, phase, tokens, shape), {(variant, scheme): rows by ranks})] of curves over two rank counts at least."""
    groups = {}
    for row in sorted(tables.rows("results"), key=lambda row: row.get("ranks", 1)):
        if row.get("comm_bytes", -1) > 0 and row.get("ranks", 1) > 1:
            place = row.get("dtype", ""), row.get("phase", ""), row.get("t", -1), series.shape_of(row)
            curve = groups.setdefault(row["component"], {}).setdefault(place, {}).setdefault((row["variant"], row.get("scheme", "")), {})
            curve.setdefault(row["ranks"], row)
    found = {}
    for component, places in sorted(groups.items()):
        for place, members in sorted(places.items()):
            members = {who: list(rows.values()) for who, rows in sorted(members.items()) if len(rows) > 1}
            if members:
                found.setdefault(component, []).append((place, members))
    return found


def _draw(tables, component, panels, stem):
    longest = {}  # of each dtype, phase and shape the longest sequence: the others look the same
    for place, members in sorted(panels, key=lambda panel: panel[0][2]):
        longest[place[0], place[1], place[3]] = place, members
    shown = list(longest.values())[-PANELS:]
    names = [_name(who) for _, members in shown for who in members]
    sheet = look.Sheet(f"{component}: bytes sent against ranks", "ledger (marks) and formula (dashed grey)", len(shown),
                       gutter=0.35 + 0.072 * max(map(len, names)))
    painter = curves.Painter(tables)
    for ax, ((dtype, phase, tokens, shape), members) in zip(sheet.axes, shown):
        rows = [row for rows in members.values() for row in rows]
        look.count_axis(ax, [row["ranks"] for row in rows], text=lambda value: f"{value:g}")
        volumes = [row[name] for row in rows for name in ("comm_bytes", "comm_predicted") if row.get(name, -1) > 0]
        look.log_axis(ax, volumes, look.size, base=2)
        labels = []
        for (variant, scheme), rows in members.items():
            colour, marker = painter.colours[variant], look.scheme_marker(tables, scheme)
            x, y = [row["ranks"] for row in rows], [row["comm_bytes"] for row in rows]
            formula = [(row["ranks"], row["comm_predicted"]) for row in rows if row.get("comm_predicted", -1) > 0]
            ax.plot(x, y, marker, color=colour, markersize=6, zorder=4)
            ax.plot(*zip(*formula or [(x[0], y[0])]), color=look.MIDDLE, linestyle=look.DASHED, linewidth=1.1, zorder=3)
            wrong = sum(row["comm_bytes"] != row["comm_predicted"] for row in rows if row.get("comm_predicted", -1) > 0)
            says = "no formula" if not formula else f"{wrong} of {len(formula)} differ" if wrong else "equal, byte for byte"
            labels.append((x[-1], y[-1], _name((variant, scheme)), says, colour))
        curves.label(ax, labels)
        look.panel_title(ax, f"{look.tokens(tokens)} tokens  {dtype}  {phase}", shape)
        ax.set_xlabel("ranks")
    rows = [row for _, members in shown for rows in members.values() for row in rows]
    table = [{name: row.get(name, "") for name in ("key", "component", "variant", "scheme", "ranks", "t", "comm_bytes", "comm_predicted")}
             for _, members in panels for rows in members.values() for row in rows]
    more = len(panels) - len(shown)
    return sheet.write(stem, look.caption(tables, rows, f"{more} more cases are in the CSV" if more else ""), table,
                       "The formula is exact: a mark beside the dashed line is a message too many or too few.")


def _name(who):
    variant, scheme = who
    return variant + (f"@{scheme}" if scheme else "")
