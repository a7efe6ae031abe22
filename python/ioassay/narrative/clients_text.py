"""Sentences about what all hosts do together: sums of rates, percentiles of all requests, fairness, common starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ioassay import metrics, units
from ioassay.analysis.hosts.client_totals import LEAST_OVERLAP, Client, ClientTotals, Estimate, PointTotals
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.result import Interval, plain

ALL = "all hosts"
SUM = "{hosts} together: {values}."
SLOWEST = (
    "The slowest, host {host}, has {share} of the {response}; an equal share is {equal} (Jain's index {index:.3f})."
)
STARTED = "The hosts started within {apart} of each other{uncertainty}."
CLOCKS = ", clocks compared to ± {uncertainty}"
OVERLAP = "All ran at once for {share} of the longest trial."
LITTLE_OVERLAP = (
    "All ran at once for only {share} of the longest trial, so that the sums are of different times. "
    "Make the trials longer."
)
NO_STARTS = "How close the hosts started was not recorded, so that the sums may be of different times."
MERGED = "Percentiles of all hosts are those of all their requests."
LEFT_OUT = "{repetitions} of {of} left out of the row of all hosts, since a host has no good trial in them."
NO_TOTAL = "No repetition has a good trial of every host, so that nothing is stated of all hosts."
NO_TOTAL_AT = "At {places}, no repetition has a good trial of every host."
_MOST_SUMS = 2


def findings(answers: Sequence[ClientTotals]) -> list[Finding]:
    """One finding for a study, with a row for each host and one for all at every point."""
    return [_finding(answer) for answer in answers]


def _finding(answer: ClientTotals) -> Finding:
    warnings = list(_warnings(answer))
    sentences = [*_sums(answer), *warnings, *_timing(answer)]
    return Finding(
        study=answer.study,
        question="clients",
        response="",
        title="All clients, and each",
        statements=sentences,
        statistics={
            "starts": plain(answer.starts),
            "overlap": answer.overlap,
            "points": [_numbers(one) for one in answer.points],
        },
        tables=_tables(answer),
        caveats=list(_caveats(answer)),
        severity="warning" if warnings else "info",
    )


def _sums(answer: ClientTotals) -> Iterator[str]:
    """The first values of all hosts, of the first points."""
    if not any(one.total for one in answer.points):
        yield NO_TOTAL
        return
    hosts = "Both hosts" if len(answer.hosts) == 2 else f"All {len(answer.hosts)} hosts"
    for one in [part for part in answer.points if part.total and part.total.values][:_MOST_SUMS]:
        assert one.total is not None
        # The first of each direction: IOPS and bandwidth say the same.
        first = {name.partition(".")[0]: name for name in reversed(answer.responses) if name in one.total.values}
        values = [_value(name, one.total.values[name]) for name in reversed(first.values())]
        text = SUM.format(hosts=hosts, values=phrases.listed(values))
        yield phrases.placed(one.point, text) if len(answer.points) > 1 else text
    yield from _fairness(answer)


def _value(response: str, known: Estimate) -> str:
    interval, within = known.interval, ""
    if isinstance(interval, Interval):
        within = f" ({phrases.level(interval.confidence)} interval {_span(response, interval)})"
    return f"{phrases.noun(response)} {metrics.format_metric(response, known.value)}{within}"


def _span(response: str, interval: Interval) -> str:
    return phrases.span(response, interval.low, interval.high, metrics.format_metric)


def _fairness(answer: ClientTotals) -> Iterator[str]:
    """Where a rate is shared least evenly."""
    found = [(one, name, fair) for one in answer.points for name, fair in one.fairness.items()]
    if not found:
        return
    one, response, fair = min(found, key=lambda part: part[2].index)
    text = SLOWEST.format(
        host=fair.slowest,
        share=phrases.percent(fair.share),
        response=phrases.inside(response),
        equal=phrases.percent(1 / len(answer.hosts)),
        index=fair.index,
    )
    yield phrases.placed(one.point, text) if len(answer.points) > 1 else text


def _warnings(answer: ClientTotals) -> Iterator[str]:
    if not any(one.total for one in answer.points):
        return
    if answer.overlap is None:
        yield NO_STARTS
    elif answer.overlap < LEAST_OVERLAP:
        yield LITTLE_OVERLAP.format(share=phrases.percent(answer.overlap))


def _timing(answer: ClientTotals) -> Iterator[str]:
    starts = answer.starts
    if starts is None:
        return
    known = starts.uncertainty_ns
    uncertainty = "" if known is None else CLOCKS.format(uncertainty=units.format_ns(known))
    yield STARTED.format(apart=units.format_ns(starts.apart_ns), uncertainty=uncertainty)
    if answer.overlap is not None and answer.overlap >= LEAST_OVERLAP:
        yield OVERLAP.format(share=phrases.percent(answer.overlap))


def _caveats(answer: ClientTotals) -> Iterator[str]:
    if any(metrics.is_percentile(name) for name in answer.responses):
        yield MERGED
    without = [phrases.levels(one.point) for one in answer.points if one.total is None]
    if 0 < len(without) < len(answer.points):
        yield NO_TOTAL_AT.format(places=phrases.listed(without, 6))
    if left_out := sum(one.left_out for one in answer.points):
        repetitions = sum(one.left_out + (one.total.repetitions if one.total else 0) for one in answer.points)
        of = f"{phrases.count(repetitions, 'repetition')} {'is' if left_out == 1 else 'are'}"
        yield LEFT_OUT.format(repetitions=left_out, of=of)


def _numbers(one: PointTotals) -> dict[str, Any]:
    return {
        "point": dict(one.point),
        "left_out": one.left_out,
        "overlap": one.overlap,
        "fairness": plain(dict(one.fairness)),
        "clients": [plain(client) for client in one.clients],
        "all": plain(one.total),
    }


def _tables(answer: ClientTotals) -> list[Table]:
    """One for all points that have the same responses: reads and writes of different points share no rows."""
    alike: dict[tuple[str, ...], list[PointTotals]] = {}
    for one in answer.points:
        present = {name for client in one.clients for name in client.values}
        alike.setdefault(tuple(name for name in answer.responses if name in present), []).append(one)
    return [_table(points, responses, answer.confidence) for responses, points in alike.items() if responses]


def _table(points: Sequence[PointTotals], responses: Sequence[str], confidence: float) -> Table:
    factors = list(points[0].point)
    columns, formats = [*factors, "host", "n"], ["" for _ in (*factors, "host", "n")]
    for response in responses:
        columns += [phrases.name(response), f"{phrases.level(confidence)} interval"]
        formats += [response, ""]
    rows = [
        [*one.point.values(), client.host or ALL, client.repetitions, *_cells(client, responses)]
        for one in points
        for client in (*one.clients, *([one.total] if one.total else ()))
    ]
    return Table(columns, rows, formats)


def _cells(client: Client, responses: Sequence[str]) -> Iterator[Any]:
    for response in responses:
        known = client.values.get(response)
        yield known.value if known else None
        interval = known.interval if known else None
        yield _span(response, interval) if isinstance(interval, Interval) else None
