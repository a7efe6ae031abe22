"""How much load until requests wait: the highest load without waiting, and what the storage serves at most."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.analysis.storage.load_saturation import MARGIN, Saturation
from ioassay.narrative.finding import Finding, Table, bounds
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Quantity
from ioassay.stats.result import plain


def findings(answers: Sequence[Saturation]) -> list[Finding]:
    """One finding for each place."""
    return [_finding(one) for one in answers]


def _finding(one: Saturation) -> Finding:
    said = [_calm(one)]
    if one.waits is not None:
        level = one.levels[one.waits]
        p99 = Quantity(one.percentile, level.latency)
        said.append(say("load.waits", load=Quantity(one.rate, level.offered), p99=p99))
    fewer = () if one.saturates is None else (Quantity(one.rate, one.levels[one.saturates].offered),)
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
        caveats=[str(say("load.fewer", load=load)) for load in fewer],
    )


def _calm(one: Saturation) -> Say:
    """Up to which load requests do not wait, as far as that was judged."""
    most = one.levels[one.most]
    served = Quantity(one.rate, most.served, most.served_interval)
    limit = say("load.no_limit" if one.saturates is None else "load.limit", most=served)
    if one.lowest is None or one.calm_mean is None:
        return Say("load.saturated", {"limit": limit}, one.where)
    code, place = "load.scatters" if one.tested else "load.unrepeated", one.calm_mean
    if one.calm is not None and one.calm > one.lowest:  # a level against itself proves nothing
        code, place = "load.calm", one.calm
    elif place == one.lowest:
        code = "load.lowest" if place else "load.saturates" if one.levels[1].saturated else "load.always"
    load, lowest = Quantity(one.rate, one.levels[place].offered), one.levels[one.lowest].latency
    known = {"load": load, "times": 1 + MARGIN, "lowest": Quantity(one.percentile, lowest), "limit": limit}
    return Say(code, known, one.where)
