"""Sentences about hosts: which of them is slow, by how much, and which of them did not measure all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay.analysis.hosts.host_comparison import (
    HostComparison,
    HostDeviation,
    HostTally,
    ResponseComparison,
    Standing,
)
from ioassay.analysis.machine_conditions import Grade
from ioassay.narrative import conditions_text, phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.condition_means import Scale
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.result import Interval

DIFFERS = "Host {host} is {standing} in {response}: {size} {reference} ({bounds})."
ALSO = "Host {host} is also {standing} in {responses}."
OTHERS = "{hosts} {are} {standing}."
NONE = "No host is slow."
NONE_SLOW = "No host is slow: none of the {hosts} differs from the mean of all by more than the scatter of repetitions."
NONE_OF_TWO = "Neither host is slow: {first} and {second} differ by no more than the scatter of repetitions."
ALL_EQUAL = "No host is slow: all {hosts} are within {margin} of their mean in {responses}."
TWO_EQUAL = "Neither host is slow: {first} and {second} differ by at most {margin} in {responses}."
SEEN = "In {response}, a difference of {detectable} would have been seen."
ONE_REPETITION = (
    "One repetition does not show which host is slow, since nothing says how far chance goes. "
    "Run at least 3 (--repetitions)."
)
NOT_COMPARED = "The hosts are not compared: {reason}."
NOTHING = "no response that has a better direction was measured"
ENDED = "Host {host} ended: of {trials}, {counts}."
NONE_GOOD = "{hosts} {have} no good trial: {counts}."
PARTLY = "On host {host}, of {trials} {counts}."
OTHERS_PARTLY = "{hosts} have trials without a result as well: {counts}."
LACKING = "{hosts} {are} left out of {responses}, since {they} some of the conditions."
DISTURBED = "Host {host} was disturbed: {cause}"
SIMULTANEOUS = (
    "The intervals hold for all hosts and responses at once. "
    "Of equal hosts, one is called slow or fast in at most {risk} of runs."
)
AVERAGED = "A host's mean is over {points} of the other factors, each with the same weight."
SEPARATE_HOSTS = 4
"""Up to this number, each host has a sentence of its own."""
COLUMNS = ("response", "host", "deviation (%)", "low (%)", "high (%)", "p", "reading")


def findings(answers: Sequence[HostComparison]) -> list[Finding]:
    """One finding for a study."""
    return [_finding(comparison) for comparison in answers]


def _finding(comparison: HostComparison) -> Finding:
    first, *others = claims(comparison)
    ended = _ended(comparison)
    summary = [first, *_disturbed(comparison, claimed=True), *ended, *others]
    complete = all(tally.complete for tally in comparison.hosts)
    return Finding(
        study=comparison.study,
        question="hosts",
        response="",
        title="Which host is slow?",
        statements=summary,
        omissions=ended,
        statistics={
            "hosts": [_tally_numbers(tally) for tally in comparison.hosts],
            "responses": [_numbers(one) for one in comparison.responses],
        },
        tables=[_table(comparison)] if comparison.compared else [],
        caveats=_caveats(comparison),
        severity="info" if complete else "warning",
    )


# What differs


def claims(comparison: HostComparison) -> list[str]:
    """The sentences about which host is slow; always one at least."""
    if not comparison.compared:
        if comparison.responses and comparison.repetitions == 1:
            return [ONE_REPETITION]
        reasons = [one.undefined.reason for one in comparison.responses if one.undefined]
        return [NOT_COMPARED.format(reason=reasons[0] if reasons else NOTHING)]
    two = len(comparison.compared[0].deviations) == 2
    sentences = _of_standing(comparison, Standing.SLOW)
    if two:  # one is fast where the other is slow
        return sentences or _no_difference(comparison, two)
    if sentences:
        fast = [deviation.host for one in comparison.compared for deviation in one.of(Standing.FAST)]
        return [*sentences, *_brief([one.host for one in comparison.hosts if one.host in fast], Standing.FAST)]
    fast = _of_standing(comparison, Standing.FAST)
    return [NONE, *fast] if fast else _no_difference(comparison, two)


def _of_standing(comparison: HostComparison, standing: Standing) -> list[str]:
    """A sentence for each of the hosts that deviate most, or two where it does so in several responses."""
    found: dict[str, list[tuple[ResponseComparison, HostDeviation]]] = {}
    for one in comparison.compared:
        for deviation in one.of(standing):
            found.setdefault(deviation.host, []).append((one, deviation))
    ranked = sorted(found, key=lambda host: -max(one.clarity(deviation) for one, deviation in found[host]))
    shown = ranked if len(ranked) <= SEPARATE_HOSTS else ranked[: SEPARATE_HOSTS - 1]
    sentences = []
    for host in shown:
        (response, deviation), *rest = found[host]
        sentences.append(
            DIFFERS.format(
                host=host,
                standing=standing.value,
                response=phrases.noun(response.response),
                size=_size(response, deviation),
                reference=_reference(comparison, response, deviation),
                bounds=_bounds(response, deviation),
            )
        )
        if rest:
            also = [f"{phrases.noun(one.response)} ({_size(one, own)})" for one, own in rest]
            sentences[-1] += " " + ALSO.format(host=host, standing=standing.value, responses=phrases.listed(also))
    return [*sentences, *_brief(ranked[len(shown) :], standing)]


def _brief(hosts: Sequence[str], standing: Standing) -> list[str]:
    are = "is" if len(hosts) == 1 else "are"
    return (
        [OTHERS.format(hosts=phrases.capital(phrases.hosts(hosts)), are=are, standing=standing.value)] if hosts else []
    )


def _no_difference(comparison: HostComparison, two: bool) -> list[str]:
    hosts = sorted(deviation.host for deviation in comparison.compared[0].deviations)
    equal = [one for one in comparison.compared if len(one.of(Standing.EQUAL)) == len(one.deviations)]
    rest = [one for one in comparison.compared if one not in equal]
    known = {"first": hosts[0], "second": hosts[-1], "hosts": len(hosts), "margin": phrases.percent(MARGIN)}
    sentences = []
    if equal:
        responses = phrases.listed([phrases.noun(one.response) for one in equal], 3)
        sentences.append((TWO_EQUAL if two else ALL_EQUAL).format(responses=responses, **known))
    else:
        sentences.append((NONE_OF_TWO if two else NONE_SLOW).format(**known))
    return [*sentences, *(_seen(one) for one in rest[:1])]


def _seen(one: ResponseComparison) -> str:
    log = one.scale == Scale.LOG
    shown = phrases.percent(one.detectable) if log else phrases.value(one.response, one.detectable)
    return SEEN.format(response=phrases.noun(one.response), detectable=shown)


def _reference(comparison: HostComparison, one: ResponseComparison, deviation: HostDeviation) -> str:
    if len(one.deviations) == 2:
        return f"host {next(other.host for other in one.deviations if other.host != deviation.host)}"
    if len(one.reference) < len(one.deviations):
        agree = len(one.reference)
        only = agree == len(one.deviations) - 1
        return f"the mean of the other {agree} hosts" if only else f"the mean of the {agree} hosts that agree"
    every = len(one.deviations) == len(comparison.hosts)
    return f"the mean of {'all ' if every else ''}{len(one.deviations)} hosts"


def _size(one: ResponseComparison, deviation: HostDeviation) -> str:
    """`12 % below`, `2.4 times`."""
    estimate = deviation.pair.estimate
    if one.scale == Scale.RAW:
        return f"{phrases.value(one.response, abs(estimate))} {'above' if estimate > 0 else 'below'}"
    if estimate >= 2:
        return phrases.times(estimate)
    return f"{phrases.percent(abs(estimate - 1))} {'above' if estimate > 1 else 'below'}"


def _bounds(one: ResponseComparison, deviation: HostDeviation) -> str:
    """`simultaneous 95 % interval 9 to 15 %`, of what `_size` says."""
    interval, estimate = deviation.pair.interval, deviation.pair.estimate
    level = f"simultaneous {phrases.level(interval.confidence)} interval"
    if one.scale == Scale.RAW:
        low, high = sorted((abs(interval.low), abs(interval.high)))
        return f"{level} {phrases.span(one.response, low, high)}"
    if estimate >= 2:
        return f"simultaneous {phrases.bounds_of(interval)}"
    low, high = sorted((abs(interval.low - 1), abs(interval.high - 1)))
    return f"{level} {phrases.points(low)} to {phrases.points(high)} %"


# What was not measured, or not in quiet


def _ended(comparison: HostComparison) -> list[str]:
    """What hosts lack whose trials did not all go well, and which are left out of the comparison for it."""
    sentences = _tallies(comparison.hosts)
    without = {tally.host for tally in comparison.hosts if not tally.ok}
    lacking: dict[tuple[str, ...], list[str]] = {}
    for one in comparison.responses:
        if hosts := tuple(host for host in one.lacking if host not in without):
            lacking.setdefault(hosts, []).append(phrases.noun(one.response))
    for hosts, responses in lacking.items():
        every = len(responses) == len(comparison.responses)
        sentences.append(
            LACKING.format(
                hosts=phrases.capital(phrases.hosts(hosts)),
                are="is" if len(hosts) == 1 else "are",
                responses="the comparison" if every else f"that in {phrases.listed(responses, 3)}",
                they="it lacks" if len(hosts) == 1 else "they lack",
            )
        )
    return sentences


def _tallies(tallies: Sequence[HostTally]) -> list[str]:
    """The hosts without a good trial together, then the first of the others each for itself."""
    without = [tally for tally in tallies if not tally.ok]
    partly = [tally for tally in tallies if tally.ok and not tally.complete]
    shown = partly if len(partly) <= SEPARATE_HOSTS else partly[: SEPARATE_HOSTS - 1]
    sentences = []
    if without:
        hosts, have = phrases.hosts([tally.host for tally in without]), "has" if len(without) == 1 else "have"
        counts = _counts(without) or "none was planned"
        sentences.append(NONE_GOOD.format(hosts=phrases.capital(hosts), have=have, counts=counts))
    for tally in shown:
        trials = phrases.count(_planned(tally), "trial")
        template = ENDED if tally.ended else PARTLY
        sentences.append(template.format(host=tally.host, counts=_counts([tally]), trials=trials))
    if others := partly[len(shown) :]:
        hosts = phrases.hosts([tally.host for tally in others])
        sentences.append(OTHERS_PARTLY.format(hosts=phrases.capital(hosts), counts=_counts(others)))
    return sentences


def _planned(tally: HostTally) -> int:
    return max(tally.planned or 0, tally.ok + tally.failed + tally.skipped)


def _counts(tallies: Sequence[HostTally]) -> str:
    """`14 failed and 2 have no record`."""
    failed, skipped = (sum(getattr(tally, name) for tally in tallies) for name in ("failed", "skipped"))
    missing = sum(map(_planned, tallies)) - sum(tally.ok for tally in tallies) - failed - skipped
    parts = [(failed, "failed"), (skipped, "were skipped"), (missing, "have no record")]
    found = [f"{number} {ended}" for number, ended in parts if number]
    return phrases.listed(found) if found else ""


def _disturbed(comparison: HostComparison, *, claimed: bool) -> list[str]:
    """Hosts whose machine was disturbed: those that are called slow or fast (`claimed`), or the others."""
    deviating = {
        deviation.host
        for one in comparison.compared
        for deviation in one.deviations
        if deviation.standing in (Standing.SLOW, Standing.FAST)
    }
    return [
        DISTURBED.format(host=tally.host, cause=_small(conditions_text.cause(tally.conditions)))
        for tally in comparison.hosts
        if tally.conditions and tally.conditions.grade > Grade.FIT and (tally.host in deviating) == claimed
    ]


def _small(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _caveats(comparison: HostComparison) -> list[str]:
    caveats = _disturbed(comparison, claimed=False)
    if not comparison.compared:
        return caveats
    caveats.append(SIMULTANEOUS.format(risk=phrases.percent(1 - comparison.confidence)))
    most = max(one.points for one in comparison.compared)
    return [*caveats, AVERAGED.format(points=phrases.count(most, "combination"))] if most > 1 else caveats


# Numbers


def _numbers(one: ResponseComparison) -> dict[str, Any]:
    return {
        "response": one.response,
        "scale": one.scale.value,
        "points": one.points,
        "detectable": one.detectable,
        "reference": list(one.reference),
        "lacking": list(one.lacking),
        "reason": one.undefined.reason if one.undefined else None,
        "hosts": [
            {
                "host": deviation.host,
                "estimate": deviation.pair.estimate,
                "interval": phrases.ends(deviation.pair.interval),
                "p": deviation.pair.p,
                "standing": deviation.standing.value,
            }
            for deviation in one.deviations
        ],
    }


def _tally_numbers(tally: HostTally) -> dict[str, Any]:
    grade = conditions_text.GRADES[tally.conditions.grade] if tally.conditions else None
    counts = {name: getattr(tally, name) for name in ("host", "planned", "ok", "failed", "skipped")}
    return {**counts, "conditions": grade}


def _table(comparison: HostComparison) -> Table:
    rows = [_row(one, deviation) for one in comparison.compared for deviation in one.deviations]
    return Table(COLUMNS, rows)


def _row(one: ResponseComparison, deviation: HostDeviation) -> list[Any]:
    pair = deviation.pair
    ends: Interval = pair.interval
    numbers: list[Any] = [pair.estimate, ends.low, ends.high]
    if one.scale == Scale.LOG:
        numbers = [phrases.in_percent(number - 1) for number in numbers]
    else:
        numbers = [phrases.value(one.response, number) for number in numbers]
    return [phrases.name(one.response), deviation.host, *numbers, float(f"{pair.p:.2g}"), deviation.standing.value]
