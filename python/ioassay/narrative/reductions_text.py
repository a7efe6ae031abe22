"""The comparison of write buffers: write-behind, who is best, hits beside their bound, and published numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ioassay.analysis.claims import published_results
from ioassay.analysis.storage.write_buffer import (
    CLASSICS,
    EVEN,
    FEED,
    HIT_RATIO,
    Ablation,
    Change,
    HitBound,
    Place,
    Reductions,
    Sweep,
)
from ioassay.factors import CASE, arrival_text, factor_label, level_text
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Factor, Level, Response, Shares
from ioassay.stats.contrasts import MARGIN

_SATURATED = "saturated"
_IDLE = 0.1
"""Drives whose elements are busy for less than this share of the time hardly let a write wait."""
_Said = tuple[str, dict[str, Any]]


def findings(answers: Sequence[Ablation | Reductions | HitBound]) -> list[Finding]:
    """One finding for each answer; where there are published numbers one more of each kind."""
    compared = [one for one in answers if isinstance(one, Reductions)]
    return [
        *(_ablation(one) for one in answers if isinstance(one, Ablation)),
        *map(_reductions, compared),
        *_published(compared),
        *_published_changes(compared),
        *(_hits(one) for one in answers if isinstance(one, HitBound)),
    ]


def _reductions(one: Reductions) -> Finding:
    where = {FEED: one.feed} if one.feed else {}
    said = [*(_swept(one, sweep) for sweep in one.sweeps), _lowest(one), *_variants(one), *_unknown(one)]
    saturated = any(place.saturated for place in one.places)
    means = Table.of(
        one.places,
        *_places(one.factors),
        *((policy, lambda place, policy=policy: _mean(place, policy), one.response) for policy in one.policies),
    )
    tables = [means]
    if one.subjects:
        subject, *_ = one.subjects
        others = [policy for policy in one.policies if policy != subject]
        shares = (
            (f"{subject} against {other} (%)", lambda place, other=other: _cell(place, subject, other))
            for other in others
        )
        tables.append(Table.of(one.places, *_places(one.factors), *shares))
    return Finding(
        study=one.study,
        question="reductions",
        response=one.response,
        title=f"{phrases.name(one.response)} by policy",
        statements=[Say(code, values, where) for code, values in said],
        where=where,
        statistics={"points": [_numbers(one, place) for place in one.places]},
        tables=tables,
        caveats=_caveats(absorbed=one.absorbs, without_mean=saturated),
    )


def _caveats(**which: bool) -> list[str]:
    return [str(say(f"reductions.{code}")) for code, holds in which.items() if holds]


def _places(factors: Sequence[str]) -> list[tuple[str, Any]]:
    return [(name, lambda place, name=name: place.where[name]) for name in factors]


def _mean(place: Place, policy: str) -> float | str | None:
    return _SATURATED if policy in place.saturated else place.mean(policy)


def _swept(one: Reductions, sweep: Sweep) -> _Said:
    """What a factor changes, and from where on nothing."""
    factor, name, changes = sweep.factor, Response(one.response), [Shares(*vars(one).values()) for one in sweep.changes]
    first, *_, last = (Level(factor, level) for level in sweep.levels)
    known = {"factor": Factor(factor), "name": name, "policy": sweep.policy, "margin": MARGIN, "first": first}
    if sweep.settles == 0:
        return "reductions.flat", {**known, "last": last, "change": changes[-1]}
    if sweep.settles is None:
        return "reductions.moves", {**known, "last": last, "change": changes[-1]}
    settled = Level(factor, sweep.levels[sweep.settles])
    return "reductions.settles", {**known, "level": settled, "change": changes[sweep.settles - 1]}


def _lowest(one: Reductions) -> _Said:
    """The policies that have the lowest mean, by their number of conditions, and by how much the first of them."""
    places, leaders = len(one.places), one.leaders
    if not leaders:
        return "reductions.none", {}
    if not one.exact and not any(len(policies) == 1 for policies in leaders):
        return "reductions.unclear", {"places": places}
    first = next(iter(leaders))
    parts = [say("reductions.leader", policies=policies, number=number) for policies, number in leaders.items()]
    return "reductions.lowest", {
        "name": Response(one.response),
        "certainly": "" if one.exact else "certainly ",
        "leaders": parts,
        "places": places,
        "by": _lead(one, first[0]) if len(first) == 1 else "",
    }


def _lead(one: Reductions, policy: str) -> Say | str:
    """By how much the leader lowers the mean of the policy that comes next."""
    spreads = {rival: spread for rival, spread in one.spreads(policy).items() if rival in one.ranked}
    if not spreads:
        return ""
    rival = max(spreads, key=lambda other: spreads[other].middle)
    if spreads[rival].middle >= 0:
        return ""
    return say("reductions.by", policy=policy, share=-spreads[rival].middle, rival=rival)


def _variants(one: Reductions) -> Iterator[_Said]:
    """Whether a variant is better than the policy that it comes from."""
    for subject in one.subjects[1:]:
        counted, spread = one.rivalry(subject), one.spreads(subject).get(one.subjects[0])
        if counted is not None and spread is not None:
            change = Shares(*vars(spread).values())
            yield f"reductions.{counted.rank}", {"policy": subject, "rival": one.subjects[0], "change": change}
            if counted.undecided:
                yield "reductions.unknown", {"places": counted.undecided}


def _unknown(one: Reductions) -> Iterator[_Said]:
    if one.subjects and (number := one.undecided(one.subjects[0])):
        yield "reductions.comparisons", {"number": number}
    counts = {policy: one.saturated(policy) for policy in one.policies}
    if any(counts.values()):
        said = [say("reductions.saturated_policy", policy=policy, places=n) for policy, n in counts.items() if n]
        yield "reductions.saturated", {"policies": said}


def _cell(place: Place, subject: str, other: str) -> float | str | None:
    """Percent for a table, with the interval where there is one."""
    if {subject, other} & place.saturated:
        return _SATURATED
    found = place.reduction(subject, other)
    if found is None:
        return None
    if found.low is None or found.high is None:
        return _rounded(found.share)
    return f"{100 * found.share:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"


def _numbers(one: Reductions, place: Place) -> dict[str, Any]:
    def share(subject: str, other: str) -> float | None:
        reduction = place.reduction(subject, other)
        return None if reduction is None else reduction.share

    return {
        "where": dict(place.where),
        "means": {policy: place.mean(policy) for policy in one.policies},
        "saturated": sorted(place.saturated),
        "lowest": [policy for policy in one.policies if place.lowest(policy)],
        "reductions": {
            subject: {other: share(subject, other) for other in one.policies if other != subject}
            for subject in one.subjects
        },
    }


# Published numbers


def _published(answers: Sequence[Reductions]) -> list[Finding]:
    """The published reductions and ours at each arrival mode; none where nothing was published."""
    known = published_results.of(answers[0].study) if answers else None
    if known is None or known.policy not in answers[0].policies:
        return []
    rows: list[list[Any]] = []
    for case, against in known.reductions.items():
        for other in [policy for policy in answers[0].policies if policy in CLASSICS]:
            ours = [_at(one, case, known.policy, other) for one in answers]
            if any(value is not None for value in ours):
                note = known.notes.get(case, "") if other == "bplru-padded" else ""
                rows.append([case, other, against.get(other), *ours, note])
    if not rows:
        return []
    columns = ["trace", f"{known.policy} against", "published (%)"]
    columns += _mode_columns(answers)
    ranges = [
        (row[0], row[1], row[2], [value for value in row[3:-1] if isinstance(value, int | float)])
        for row in rows
        if row[2] is not None
    ]
    known_ranges = [one for one in ranges if len(one[3]) > 1]
    missed = [(case, other) for case, other, number, ours in known_ranges if not min(ours) <= number <= max(ours)]
    text = [*_contained(len(known_ranges), missed), *_idle(_utilisation(answers, known.reductions))]
    reasons = dict.fromkeys(known.reasons[other] for _, other in missed)
    return [
        Finding(
            study=answers[0].study,
            question="reductions",
            response=answers[0].response,
            title=f"Reductions of the mean response by {known.policy}, here and published",
            statements=text or [say("reductions.incomparable")],
            statistics={"rows": rows, "source": known.source},
            tables=[Table([*columns, "note"], rows)],
            caveats=[*known.reading, *reasons, str(say("reductions.source", source=known.source))],
        )
    ]


def _mode_columns(answers: Sequence[Reductions]) -> list[str]:
    return [f"{arrival_text(one.feed)} (%)" if one.feed else "here (%)" for one in answers]


def _at(one: Reductions, case: str, policy: str, other: str) -> float | str | None:
    place = next((place for place in one.places if place.where.get(CASE) == case), None)
    return None if place is None else _cell(place, policy, other)


def _utilisation(answers: Sequence[Reductions], cases: Mapping[str, object]) -> list[float]:
    """That of the elements at the original time stamps, where there are published numbers."""
    return [
        place.utilisation["none"]
        for one in answers
        for place in one.places
        if one.feed == "open" and place.where.get(CASE) in cases and "none" in place.utilisation
    ]


def _contained(compared: int, missed: Sequence[tuple[str, str]]) -> Iterator[Say]:
    """How many published reductions lie between ours of all arrival modes, and which do not.

    `missed`: the trace and the other policy of each that does not.
    """
    if compared:
        yield say("reductions.contained", within=compared - len(missed), of=compared)
    traces: dict[str, list[str]] = {}
    for case, other in missed:
        traces.setdefault(other, []).append(case)
    yield from (say("reductions.not_reproduced", policy=other, cases=cases) for other, cases in traces.items())


def _idle(busy: Sequence[float]) -> Iterator[Say]:
    """How busy the drive was at the original time stamps, of utilisations."""
    if busy:
        shares = " to ".join(dict.fromkeys(f"{100 * share:.2g}" for share in (min(busy), max(busy))))
        idle = ", so the order of evictions can avoid little waiting" if max(busy) < _IDLE else ""
        yield say("reductions.idle", shares=shares, idle=idle)


def _published_changes(answers: Sequence[Reductions]) -> list[Finding]:
    """What a factor changes, here and published; none where nothing was published."""
    by_effect: dict[published_results.Change, list[list[Change]]] = {}
    for place, one in enumerate(answers):
        for change in one.changes:
            by_effect.setdefault(change.published, [[] for _ in answers])[place].append(change)
    if not by_effect:
        return []
    first = next(iter(by_effect))
    label = factor_label(first.factor)
    rows = [row for known, by_mode in by_effect.items() for row in _change_rows(answers[0], known, by_mode)]
    text = [
        sentence for known, by_mode in by_effect.items() for sentence in _effect(known, [c for m in by_mode for c in m])
    ]
    columns = [*_rest(answers[0], first), label, "published (%)", *_mode_columns(answers)]
    return [
        Finding(
            study=answers[0].study,
            question="reductions",
            response=first.response,
            title=f"{phrases.name(first.response)} with {first.policy} by {label}, here and published",
            statements=text,
            statistics={"rows": rows, "source": first.source},
            tables=[Table(columns, rows)],
            caveats=[*(known.reading for known in by_effect), str(say("reductions.source", source=first.source))],
        )
    ]


def _rest(one: Reductions, known: published_results.Change) -> list[str]:
    return [name for name in one.factors if name != known.factor]


def _change_rows(one: Reductions, known: published_results.Change, by_mode: Sequence[Sequence[Change]]) -> list[Any]:
    """A row for each condition: where it is, the levels, the published numbers, and ours at each arrival mode."""
    levels = phrases.joined(level_text(known.factor, known.start), level_text(known.factor, known.end))
    published = ", ".join(f"{number:.1f}" for number in known.percent) or "higher"
    shares = [{tuple(change.where.items()): change.share for change in changes} for changes in by_mode]
    rows = []
    for where in dict.fromkeys(key for mode in shares for key in mode):
        ours = [_change_cell(mode[where]) if where in mode else None for mode in shares]
        rows.append([*(dict(where)[name] for name in _rest(one, known)), levels, published, *ours])
    return rows


def _effect(known: published_results.Change, changes: Sequence[Change]) -> Iterator[Say]:
    """The range of ours over all conditions, and which published numbers it contains."""
    shares = [change.share for change in changes if change.share is not None]
    if not shares:
        return
    about: dict[str, Any] = {
        "first": Level(known.factor, known.start),
        "last": Level(known.factor, known.end),
        "name": Response(known.response),
        "policy": known.policy,
        "places": len(shares),
    }
    if not known.percent:
        counts = {"higher": sum(share > EVEN for share in shares), "lower": sum(share < -EVEN for share in shares)}
        parts = [f"{word} in {count}" for word, count in counts.items() if count] or ["even"]
        yield say("reductions.counted_change", counts=parts, **about)
        return
    yield say("reductions.change", change=Shares(min(shares), 0.0, max(shares)), **about)
    numbers = [phrases.signed_percent(number / 100) if number else "no change" for number in known.percent]
    beyond = [max(min(shares) - number / 100, number / 100 - max(shares)) for number in known.percent]
    missed = [number for number, share in zip(numbers, beyond, strict=True) if share > EVEN]
    verdict = (
        f"not reproduced: {phrases.listed(missed)}"
        if missed
        else "within this range"
        if max(beyond) <= 0
        else "within half a percent of this range"
    )
    code = "published" if len(numbers) == 1 else "publisheds"
    yield say(f"reductions.{code}", numbers=numbers, verdict=verdict)


def _change_cell(share: float | None) -> float | str:
    return _SATURATED if share is None else _rounded(share)


def _rounded(share: float) -> float:
    """Percent for a table."""
    return round(100 * share, 1) + 0.0  # no minus before a zero


# Write-behind, and hits


def _ablation(one: Ablation) -> Finding:
    where = {FEED: one.feed} if one.feed else {}
    spreads = {level: _spreads(one, level) for level in one.levels[1:]}
    said = [part for level in one.levels[1:] for part in _changed(one, level, spreads[level])]
    said += [_behind_lowest(one, level) for level in reversed(one.levels)]
    means = (
        (f"{policy}, {level}", lambda row, policy=policy, level=level: one.mean(row[0], policy, level), one.response)
        for policy in one.policies
        for level in one.levels
    )
    return Finding(
        study=one.study,
        question="reductions",
        response=one.response,
        title=f"{phrases.name(one.response)} without and with write-behind",
        statements=[Say(code, values, where) for code, values in said],
        where=where,
        statistics={"changes": spreads},
        tables=[
            Table.of(
                enumerate(one.conditions),
                *((name, lambda row, name=name: row[1][name]) for name in one.factors),
                *means,
            )
        ],
        caveats=_caveats(either=True),
    )


def _spreads(one: Ablation, level: str) -> dict[str, dict[str, float]]:
    return {policy: vars(spread) for policy in one.policies if (spread := one.spread(policy, level))}


def _changed(one: Ablation, level: str, spreads: Mapping[str, Mapping[str, float]]) -> Iterator[_Said]:
    """Which means a level lowers, the most and the least, and which it raises or leaves even."""
    known = {policy: spread["middle"] for policy, spread in spreads.items() if policy != "none"}
    lowered = sorted((middle, policy) for policy, middle in known.items() if middle < -EVEN)
    about: dict[str, Any] = {"level": level, "places": len(one.conditions)}
    if lowered:
        (most, most_policy), (least, policy) = lowered[0], lowered[-1]
        code = "reductions.lowers" if len(lowered) > 1 else "reductions.one_lowers"
        yield code, {**about, "share": -least, "policy": policy, "most": -most, "most_policy": most_policy}
    raised = [policy for policy, middle in known.items() if middle > EVEN]
    even = [policy for policy, middle in known.items() if abs(middle) <= EVEN]
    if raised:
        yield "reductions.raises", {**about, "policies": raised}
    if even:
        yield "reductions.behind_even", {**about, "policies": even}


def _behind_lowest(one: Ablation, level: str) -> _Said:
    leaders = _leaders({policy: one.wins(policy, level) for policy in one.policies}, one.ties(level))
    code = "reductions.behind_lowest" if leaders["leaders"] else "reductions.behind_none"
    return code, {"level": level, "places": len(one.conditions), **leaders}


def _leaders(counts: Mapping[str, int], ties: int) -> dict[str, Any]:
    """Who is ahead alone in how many conditions, the most frequent first, and in how many there is a tie."""
    ranked = sorted((policy for policy in counts if counts[policy]), key=lambda policy: -counts[policy])
    parts = [say("reductions.leader", policies=[policy], number=counts[policy]) for policy in ranked]
    tied = say("reductions.behind_tie" if ties == 1 else "reductions.behind_ties", number=ties) if ties else ""
    return {"leaders": parts, "ties": tied}


def _hits(one: HitBound) -> Finding:
    spreads = {policy: spread for policy in one.policies if (spread := one.spread(policy))}
    optima, places = [place.optimum for place in one.places], len(one.places)
    ends = " to ".join(dict.fromkeys(f"{100 * share:.1f} %" for share in (min(optima), max(optima))))
    said = [say("reductions.optimum", shares=ends)]
    if spreads:
        ranked = sorted(spreads, key=lambda policy: -spreads[policy].middle)
        gains = [say("reductions.gain_of", policy=policy, share=spreads[policy].middle) for policy in ranked]
        leaders = _leaders({policy: one.wins(policy) for policy in one.policies}, one.ties)
        said += [
            say("reductions.gain", gains=gains, median="" if places == 1 else "a median of "),
            say("reductions.hits" if leaders["leaders"] else "reductions.hits_none", places=places, **leaders),
        ]
    table = Table.of(
        one.places,
        *_places(one.factors),
        ("offline optimum", lambda place: place.optimum, HIT_RATIO),
        *((policy, lambda place, policy=policy: place.ratios.get(policy), HIT_RATIO) for policy in one.policies),
    )
    return Finding(
        study=one.study,
        question="reductions",
        response=HIT_RATIO,
        title="Write hits and their bound, the offline optimum",
        statements=said,
        statistics={"shares": {policy: vars(spread) for policy, spread in spreads.items()}},
        tables=[table],
        caveats=_caveats(bound=True, reordered=True),
    )
