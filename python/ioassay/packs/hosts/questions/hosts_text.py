"""Sentences and tables about hosts: which of them is slow, what they do together, and which did not measure all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ioassay import metrics
from ioassay.analysis.machine_conditions import Grade
from ioassay.narrative import conditions_text, phrases
from ioassay.narrative.finding import Column, Finding, Table, bounds
from ioassay.narrative.say import Deviation, Quantity, Response, Say, say, templates
from ioassay.packs.hosts.questions import host_comparison
from ioassay.packs.hosts.questions.host_comparison import (
    FEWEST_TRIALS,
    HostComparison,
    HostDeviation,
    ResponseComparison,
    Standing,
)
from ioassay.packs.hosts.questions.host_totals import LATE, LEAST_OVERLAP, HostMeans, HostTotals, PointTotals
from ioassay.stats.condition_means import Scale
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.result import plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

HEADING = templates("hosts")["heading"]


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding; none of a study on fewer than two hosts, or without trials."""
    known = len(study.hosts) > 1 and records.trials_of(study).height
    return [_finding(host_comparison.comparison(records, study))] if known else []


def _finding(one: HostComparison) -> Finding:
    first, *others = claims(one)
    incomplete, totals = list(_incomplete(one)), one.totals
    apart = totals is not None and (totals.starts is None or (totals.overlap or 0) < LEAST_OVERLAP)
    together = [] if totals is None else _together(totals)
    return Finding(
        title=templates("hosts")["title"] if totals is None else HEADING,
        statements=[first, *_disturbed(one, claimed=True), *incomplete, *others, *together],
        leads=True,
        omissions=incomplete,
        statistics=_numbers(one),
        tables=[*([_deviations(one)] if one.compared else []), *([] if totals is None else _totals(totals))],
        caveats=_caveats(one),
        severity="warning" if apart or not all(tally.complete for tally in one.hosts) else "info",
    )


# What differs


def claims(comparison: HostComparison) -> list[Say]:
    """The sentences about which host is slow; always one at least."""
    if not comparison.compared:
        if comparison.responses and comparison.repetitions == 1:
            return [say("hosts.once")]
        reasons = [one.undefined.reason for one in comparison.responses if one.undefined]
        return [say("hosts.not_compared", reason=reasons[0] if reasons else say("hosts.nothing"))]
    return list(_differences(comparison)) or list(_no_difference(comparison))


def _differences(comparison: HostComparison) -> Iterator[Say]:
    """All of the clearest host, and where several deviate each with the first response in which it does."""
    worse = {**_deviating(comparison, Standing.SLOW), **_deviating(comparison, Standing.APART)}
    for standing in (Standing.SLOW, Standing.APART, Standing.FAST):
        found = _deviating(comparison, standing)
        if found and (standing != Standing.FAST or not worse):
            (response, deviation), *rest = next(iter(found.values()))
            every, agree = len(response.hosts), len(response.reference)
            if every == 2:
                reference = say("hosts.one", host=next(one.host for one in response.hosts if one is not deviation))
            else:
                code = "hosts.all" if agree == every else "hosts.rest" if agree == every - 1 else "hosts.agree"
                reference = say(code, n=agree)
            known = {**_known(response, deviation), "reference": reference, "trials": response.trials}
            yield say(f"hosts.{standing}", **known, needed=-(-FEWEST_TRIALS // response.points))
            if rest:
                also = [say("hosts.also_in", **_known(*one)) for one in rest]
                yield say("hosts.also", host=deviation.host, standing=standing, responses=also)
        two = len(comparison.compared[0].hosts) == 2
        if len(found) > 1 and not (two and standing == Standing.APART):
            briefly = [say("hosts.briefly", **_known(*own[0])) for own in found.values()]
            yield say("hosts.several", standing=standing, hosts=briefly)
        if found and two:
            return  # the other is fast where one is slow


def _deviating(
    comparison: HostComparison, standing: Standing
) -> dict[str, list[tuple[ResponseComparison, HostDeviation]]]:
    """Host -> where it deviates, the clearest host first."""
    found: dict[str, list[tuple[ResponseComparison, HostDeviation]]] = {}
    for one in comparison.compared:
        for deviation in one.of(standing):
            found.setdefault(deviation.host, []).append((one, deviation))
    return dict(sorted(found.items(), key=lambda item: -max(deviation.clarity for _, deviation in item[1])))


def _known(one: ResponseComparison, deviation: HostDeviation) -> dict[str, object]:
    metric = one.response if one.scale == Scale.RAW else ""
    size = Deviation(deviation.estimate, deviation.interval, metric)
    return {"host": deviation.host, "response": Response(one.response), "size": size}


def _no_difference(comparison: HostComparison) -> Iterator[Say]:
    hosts = sorted(deviation.host for deviation in comparison.compared[0].hosts)
    two = "_two" if len(hosts) == 2 else ""
    known: dict[str, Any] = {"n": len(hosts), "first": hosts[0], "second": hosts[-1]}
    equal = [one for one in comparison.compared if len(one.of(Standing.EQUAL)) == len(one.hosts)]
    if equal:
        responses = [phrases.noun(one.response) for one in equal]
        yield say(f"hosts.equal{two}", responses=responses, margin=MARGIN, **known)
    rest = next((one for one in comparison.compared if one not in equal), None)
    if rest:
        raw = rest.scale == Scale.RAW
        detectable = Deviation(rest.detectable, metric=rest.response) if raw else Deviation(1 + rest.detectable)
        code = "hosts.seen" if equal else f"hosts.none{two}"
        yield say(code, response=Response(rest.response), detectable=detectable, **known)


# What they do together


def _together(one: HostTotals) -> Iterator[Say]:
    """The first sums, where a rate is shared least evenly, and how close the starts were."""
    whole = [(part, part.all) for part in one.points if part.all and part.all.values]
    for part, total in whole[:2]:
        # The first of each direction: IOPS and bandwidth say the same.
        first = {name.partition(".")[0]: name for name in reversed(one.responses) if name in total.values}
        found = [
            Quantity(name, total.values[name].value, total.values[name].interval) for name in reversed(first.values())
        ]
        values = [say("hosts.value", response=Response(known.metric), value=known) for known in found]
        yield Say("hosts.sum", {"n": len(one.hosts), "values": values}, _place(one, part))
    shares = [(part, name, fair) for part, _ in whole for name, fair in part.fairness.items()]
    if shares:
        part, name, fair = min(shares, key=lambda entry: entry[2].index)
        shared = {"host": fair.slowest, "share": fair.share, "response": Response(name), "index": fair.index}
        yield Say("hosts.slowest", {**shared, "equal": 1 / len(one.hosts)}, _place(one, part))
    if not any(part.all for part in one.points):
        yield say("hosts.no_total")
    elif one.starts is None or one.overlap is None:
        yield say("hosts.no_starts")
    else:
        apart, uncertainty = (Quantity(LATE, ns) for ns in (one.starts.apart_ns, one.starts.uncertainty_ns))
        code = "hosts.started" if one.overlap >= LEAST_OVERLAP else "hosts.starts_apart"
        yield say(code, apart=apart, uncertainty=uncertainty, overlap=one.overlap)


def _place(one: HostTotals, part: PointTotals) -> dict[str, object]:
    return dict(part.point) if len(one.points) > 1 else {}


# What was not measured, or not in quiet


def _incomplete(comparison: HostComparison) -> Iterator[Say]:
    """What hosts lack whose trials did not all go well, and which are left out of the comparison for it."""
    partly = []
    for one in comparison.hosts:
        numbers = {"failed": one.failed, "skipped": one.skipped, "missing": one.missing}
        counts = [say(f"hosts.{name}", n=n, of=one.trials) for name, n in numbers.items() if n]
        if counts or not one.ok:
            partly.append(say("hosts.ended" if one.ended else "hosts.host", host=one.host, counts=counts))
    if partly:
        yield say("hosts.incomplete", hosts=partly)
    if lacking := list(dict.fromkeys(host for one in comparison.responses for host in one.lacking)):
        yield say("hosts.lacking", hosts=lacking)


def _disturbed(comparison: HostComparison, *, claimed: bool) -> list[Say]:
    """Hosts whose machine was disturbed: those that are called slow or fast (`claimed`), or the others."""
    deviating = {*_deviating(comparison, Standing.SLOW), *_deviating(comparison, Standing.FAST)}
    return [
        say("hosts.disturbed", host=tally.host, cause=conditions_text.cause(tally.conditions))
        for tally in comparison.hosts
        if tally.conditions and tally.conditions.grade > Grade.FIT and (tally.host in deviating) == claimed
    ]


def _caveats(one: HostComparison) -> Iterator[Say]:
    yield from _disturbed(one, claimed=False)
    if one.compared:
        yield say("hosts.simultaneous", risk=1 - one.confidence)
        if (most := max(response.points for response in one.compared)) > 1:
            yield say("hosts.averaged", points=most)
    points = one.totals.points if one.totals else ()
    without = [phrases.levels(part.point) for part in points if part.all is None]
    if one.totals is None or len(without) == len(points):
        return
    if any(metrics.is_percentile(name) for name in one.totals.responses):
        yield say("hosts.merged")
    if without:
        yield say("hosts.no_total_at", places=without)
    if left_out := sum(part.left_out for part in points):
        whole = left_out + sum(part.all.repetitions for part in points if part.all)
        yield say("hosts.left_out", left_out=left_out, repetitions=whole)


# Numbers


def _numbers(one: HostComparison) -> dict[str, Any]:
    responses = [
        {
            **plain(part),
            "reason": part.undefined and part.undefined.reason,
            "hosts": [{**plain(own), "interval": phrases.ends(own.interval)} for own in part.hosts],
        }
        for part in one.responses
    ]
    grades = [tally.conditions and conditions_text.GRADES[tally.conditions.grade] for tally in one.hosts]
    hosts = [{**plain(tally), "conditions": grade} for tally, grade in zip(one.hosts, grades, strict=True)]
    totals = plain(one.totals) if one.totals else {}
    return {**totals, **({"overlap": one.totals.overlap} if one.totals else {}), "hosts": hosts, "responses": responses}


def _deviations(comparison: HostComparison) -> Table:
    def cell(one: ResponseComparison, number: float) -> float | str | None:
        raw = one.scale == Scale.RAW
        return phrases.value(one.response, number) if raw else phrases.in_percent(number - 1)

    return Table.of(
        [(one, deviation) for one in comparison.compared for deviation in one.hosts],
        ("response", lambda row: phrases.name(row[0].response)),
        ("host", lambda row: row[1].host),
        ("deviation (%)", lambda row: cell(row[0], row[1].estimate)),
        ("low (%)", lambda row: cell(row[0], row[1].interval.low)),
        ("high (%)", lambda row: cell(row[0], row[1].interval.high)),
        ("p", lambda row: float(f"{row[1].p:.2g}")),
        ("reading", lambda row: row[1].standing),
    )


def _totals(one: HostTotals) -> list[Table]:
    """One for all points that have the same responses: reads and writes of different points share no rows."""
    alike: dict[tuple[str, ...], list[tuple[PointTotals, HostMeans]]] = {}
    for part in one.points:
        present = tuple(name for name in one.responses if any(name in means.values for means in part.clients))
        rows = [(part, means) for means in (*part.clients, part.all) if means]
        alike.setdefault(present, []).extend(rows)
    factors = [*map(_factor, one.points[0].point)]
    host = Column("host", lambda row: row[1].host or "all hosts"), Column("n", lambda row: row[1].repetitions)
    return [
        Table.of(rows, *factors, *host, *(column for name in responses for column in _means(name)))
        for responses, rows in alike.items()
        if responses
    ]


def _factor(name: str) -> Column:
    return Column(name, lambda row: row[0].point[name])


def _means(response: str) -> list[Column]:
    mean = Column(phrases.name(response), lambda row: getattr(row[1].values.get(response), "value", None), response)
    return [mean, *bounds(lambda row: getattr(row[1].values.get(response), "interval", None), response)]
