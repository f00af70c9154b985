"""What the rows say before any figure: counts by status, failures with their worst check, planted faults, a summary in a few lines."""
import math
from collections import Counter

from reports import look, over_tokens, series

STATES = {"pass": "passed", "fail": "failed", "implausible": "implausible", "crash": "crashed", "error": "error", "oom": "out of memory",
          "timeout": "timed out", "skipped": "skipped", "not_run": "compiled, never run"}
USUAL = ("pass", "fail", "skipped", "not_run")
FAILURES = ("fail", "implausible", "crash", "error")
LIMITS = ("oom", "timeout")  # where a sweep found its end, not a wrong number


def counts(merged):
    """One dict a component, scheme, variant and device, with a count for each of STATES (and for states this list does not know)."""
    groups = {}
    for row in merged.rows("results"):
        place = row["component"], row.get("scheme", ""), row["variant"], series.device_of(merged, row)
        groups.setdefault(place, Counter())[row["status"]] += 1
    table = [dict(component=component, scheme=scheme, variant=variant, device=device, counts=count)
             for (component, scheme, variant, device), count in sorted(groups.items())]
    for row, before in zip(table, [None] + table):
        row["first"] = before is None or before["component"] != row["component"]
    return table


def states(table):
    """The states to show as columns: the usual ones, the others of STATES and unknown ones where they occur."""
    seen = {name for row in table for name in row["counts"]}
    known = {name: label for name, label in STATES.items() if name in USUAL or name in seen}
    return known | {name: name for name in sorted(seen - STATES.keys())}


def failures(merged, wanted):
    """Rows with one of the wanted states, with their worst check in words."""
    worst = {}
    for check in merged.rows("checks"):
        if check["passed"] == 0:
            ratio = check["value"] / check["limit"] if check["limit"] > 0 else float("inf")
            if check["result"] not in worst or ratio > worst[check["result"]][0]:
                worst[check["result"]] = ratio, check
    return [dict(row, check=_words(worst[row["index"]][1]) if row["index"] in worst else "")
            for row in merged.rows("results") if row["status"] in wanted]


def skips(merged):
    """(reason, count) of rows that did not run, the most frequent first."""
    skipped = [row for row in merged.rows("results") if row["status"] in ("skipped", "not_run")]
    reasons = Counter(row.get("reason") or STATES[row["status"]] for row in skipped)
    return sorted(reasons.items(), key=lambda item: (-item[1], item[0]))


def faults(merged):
    """One dict a planted fault: which (strategy, distribution) rejected it and which looked and accepted it."""
    groups = {}
    for row in merged.rows("faults"):
        fault = groups.setdefault((row["component"], row.get("scheme", ""), row["fault"]), dict(rejected=[], accepted=[]))
        who = f"{row['strategy']} ({row['distribution']})" if row["distribution"] else row["strategy"]
        if row["rejected"] >= 0:
            fault["rejected" if row["rejected"] else "accepted"].append(who)
    return [dict(component=component, scheme=scheme, fault=fault, rejected=list(dict.fromkeys(seen["rejected"])),
                 accepted=[who for who in dict.fromkeys(seen["accepted"]) if who not in seen["rejected"]])
            for (component, scheme, fault), seen in sorted(groups.items())]


def summary(merged):
    """(label, text) lines: what passed, what the checks can see, how time grows."""
    rows, checks, planted = merged.rows("results"), merged.rows("checks"), faults(merged)
    lines = []
    if rows:
        states_of = Counter(row["status"] for row in rows)
        ran = len(rows) - states_of["skipped"] - states_of["not_run"]
        others = [f"{states_of[name]} {label}" for name, label in STATES.items() if name != "pass" and states_of[name]]
        lines.append(("results", ", ".join([f"{states_of['pass']:,} of {ran:,} that ran passed"] + others)))
    if checks:
        current = {row["index"] for row in rows}
        checks = [check for check in checks if check["result"] in current]
        lines.append(("comparisons", f"{sum(check['passed'] == 1 for check in checks):,} of {len(checks):,} within their limits"))
    if planted:
        unseen = [fault["fault"] for fault in planted if not fault["rejected"]]
        lines.append(("planted faults", f"{len(planted) - len(unseen)} of {len(planted)} rejected"
                      + (f"; NOT SEEN: {', '.join(unseen)}" if unseen else "")))
    return lines + _slopes(merged) + _speedups(merged)


def _slopes(merged):
    """How time grows, of variants that are not naive on one rank, for the longest shape of each component, device and dtype."""
    lines = []
    for component, panels in over_tokens.found(merged, series.positive("time_median")).items():
        for place in sorted({(panel.device, panel.dtype) for panel in panels}):
            panel = series.longest([panel for panel in panels if (panel.device, panel.dtype) == place], 1)[0]
            ours = [curve for curve in panel.curves if not curve.scheme and not series.is_reference(curve.variant)]
            lines += [("time", f"{component}/{curve.name} {curve.phase} {panel.dtype}: ∝ T^{curve.slope:.2f} "
                               f"up to {look.tokens(curve.x[-1])} tokens") for curve in ours if math.isfinite(curve.slope)]
    return lines


def _speedups(merged):
    speedup = series.against_naive(merged)
    best = {}
    for row in merged.rows("results"):
        factor, naive = speedup(row)
        place = row["component"], row["variant"], row.get("scheme", ""), row.get("ranks", 1), row.get("phase", ""), row.get("dtype", "")
        if factor > 0 and not row.get("scheme", "") and (place not in best or row["t"] > best[place][0]):
            best[place] = row["t"], factor, naive
    return [("speed-up", f"{component}/{variant} {phase} {dtype}: {factor:.3g}× over {naive} at {look.tokens(tokens)} tokens")
            for (component, variant, _, _, phase, dtype), (tokens, factor, naive) in sorted(best.items())]


def _words(check):
    where = f" at {check['worst_index']}" if check.get("worst_index") else ""
    error = f"{check['metric']} {check['value']:.3g} > {check['limit']:.3g}{where}"
    rule = check.get("reason") or check["metric"]  # a check without a limit: canaries, same bits, bytes sent
    return f"{check['output']} by {check['strategy']}: {error if check['limit'] > 0 else rule}"
