"""How much load until requests wait: the highest load without waiting, and what the storage serves at most."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.analysis.storage.load_saturation import MARGIN, LoadLevel, Saturation
from ioassay.narrative.finding import Finding, Table, bounds
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Quantity
from ioassay.stats.result import plain


def findings(answers: Sequence[Saturation]) -> list[Finding]:
    """One finding for each place."""
    return [_finding(one) for one in answers]


def _finding(one: Saturation) -> Finding:
    saturates = None if one.saturates is None else one.levels[one.saturates]
    waits = None if one.waits is None else one.levels[one.waits]
    said = [Say(*_calm(one), where=one.where)]
    if waits is not None:
        p99 = Quantity(one.percentile, waits.latency)
        said.append(say("load.waits", load=Quantity(one.rate, waits.offered), p99=p99))
    lowest = 0.0 if one.lowest is None else one.levels[one.lowest].latency
    table = Table.of(
        one.levels,
        ("offered", lambda level: level.offered, one.rate),
        ("served", lambda level: level.served, one.rate),
        *bounds(lambda level: level.served_interval, one.rate),
        ("p99", lambda level: level.latency, one.percentile),
        *bounds(lambda level: level.latency_interval, one.percentile),
        ("p99 / lowest", lambda level: level.latency / lowest if lowest else None),
    )
    return Finding(
        study=one.study,
        question="load",
        response=one.percentile,
        title="How much load until requests wait?",
        statements=said,
        where=one.where,
        statistics={**plain(one), "saturates": one.saturates},
        tables=[table],
        caveats=[] if saturates is None else [str(say("load.fewer", load=Quantity(one.rate, saturates.offered)))],
    )


def _calm(one: Saturation) -> tuple[str, dict[str, object]]:
    """Up to which load requests do not wait, as far as that was judged."""
    most = one.levels[one.most]
    limit = say(
        "load.no_limit" if one.saturates is None else "load.limit",
        most=Quantity(one.rate, most.served, most.served_interval),
    )
    if one.lowest is None or one.calm_mean is None:
        return "load.saturated", {"limit": limit}

    def values(level: LoadLevel, lowest: LoadLevel) -> dict[str, object]:
        shown = Quantity(one.percentile, lowest.latency)
        return {"load": Quantity(one.rate, level.offered), "times": 1 + MARGIN, "lowest": shown, "limit": limit}

    place, lowest = one.calm_mean, one.levels[one.lowest]
    if one.calm is not None and one.calm > one.lowest:  # a level against itself proves nothing
        return "load.calm", values(one.levels[one.calm], lowest)
    if place == one.lowest == 0 and one.levels[1].saturated:
        return "load.saturates", values(one.levels[0], lowest)
    if place == one.lowest:
        return "load.lowest" if place else "load.always", values(one.levels[place], lowest)
    return "load.scatters" if one.tested else "load.unrepeated", values(one.levels[place], lowest)
