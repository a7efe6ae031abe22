"""The comparison of write buffers: write-behind, who is best, hits beside their bound, and published numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ioassay.analysis import published
from ioassay.factors import CASE, arrival_text, factor_label, level_text
from ioassay.narrative import phrases
from ioassay.narrative.finding import Column, Finding, Table
from ioassay.narrative.say import Factor, Level, Range, Response, Say, Shares, holding, say, templates
from ioassay.packs.ssd.questions.write_buffer import (
    CLASSICS,
    EVEN,
    FEED,
    HIT_RATIO,
    WRITE_BEHIND,
    Ablation,
    HitBound,
    Leaders,
    Place,
    PublishedChange,
    Rank,
    Reductions,
    Spread,
    Sweep,
    answers,
    majority,
)
from ioassay.stats.contrasts import MARGIN
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

HEADING = templates("reductions")["heading"]
_SATURATED = "saturated"
_IDLE = 0.1
"""Drives whose elements are busy for less than this share of the time hardly let a write wait."""
_Said = tuple[str, dict[str, Any]]


def analyse(records: Dataset, study: Study) -> list[Finding]:
    return findings(answers(records, study))


def findings(found: Sequence[Ablation | Reductions | HitBound]) -> list[Finding]:
    """One finding for each answer; where there are published numbers one more of each kind."""
    compared = [one for one in found if isinstance(one, Reductions)]
    return [
        *(_ablation(one) for one in found if isinstance(one, Ablation)),
        *map(_reductions, compared),
        *_published(compared),
        *_published_changes(compared),
        *(_hits(one) for one in found if isinstance(one, HitBound)),
    ]


def _finding(one: Reductions, title: str, said: Iterable[_Said], codes: Mapping[str, bool], **parts: Any) -> Finding:
    """That of one arrival mode, which its sentences name; `codes` of caveats, and whether they hold."""
    where = {FEED: one.feed} if one.feed else {}
    return Finding(
        response=one.response,
        title=str(say(f"reductions.title_{title}", name=Response(one.response))),
        statements=[Say(f"reductions.{code}", values, where) for code, values in said],
        where=where,
        caveats=holding("reductions", **codes),
        **parts,
    )


def _columns(
    names: Iterable[str], value: Callable[[str, Any], Any], metric: str = "", title: str = "{}"
) -> list[Column]:
    return [Column(title.format(name), partial(value, name), metric) for name in names]


# Who is best


def _reductions(one: Reductions) -> Finding:
    said = [*(_swept(one, sweep) for sweep in one.sweeps), _lowest(one), *_variants(one), *_unknown(one)]
    places = _columns(one.factors, lambda name, place: place.where[name])
    tables = [Table.of(one.places, *places, *_columns(one.policies, _mean, one.response))]
    for subject in one.subjects[:1]:
        others = [policy for policy in one.policies if policy != subject]
        shares = _columns(others, partial(_cell, subject), "", f"{subject} against {{}} (%)")
        tables.append(Table.of(one.places, *places, *shares))
    points = [
        {
            "where": dict(place.where),
            "means": {policy: place.means.get(policy) for policy in one.policies},
            "saturated": sorted(place.saturated),
            "lowest": list(place.lowest(one.policies)),
            "reductions": {
                subject: {
                    other: found.share if (found := place.reduction(subject, other)) else None
                    for other in one.policies
                    if other != subject
                }
                for subject in one.subjects
            },
        }
        for place in one.places
    ]
    caveats = {"absorbed": one.absorbs, "without_mean": bool(one.saturated)}
    return _finding(one, "policies", said, caveats, statistics={"points": points}, tables=tables)


def _swept(one: Reductions, sweep: Sweep) -> _Said:
    """What a factor changes, and from where on nothing."""
    first, *levels = (Level(sweep.factor, level) for level in sweep.levels)
    code = "moves" if sweep.settles is None else "settles" if sweep.settles else "flat"
    end = sweep.settles - 1 if sweep.settles else -1
    change, factor = _shares(sweep.changes[end]), Factor(sweep.factor)
    known = {"name": Response(one.response), "policy": sweep.policy, "factor": factor, "margin": MARGIN}
    return code, {**known, "first": first, "last": levels[end], "change": change}


def _lowest(one: Reductions) -> _Said:
    """The policies that have the lowest mean, by their number of conditions, and by how much the first of them."""
    places, leaders = len(one.places), one.leaders
    if not leaders:
        return "none", {}
    if not one.exact and not any(len(policies) == 1 for policies in leaders):
        return "unclear", {"places": places}
    policy, *others = next(iter(leaders))
    spreads = {rival: spread for rival, spread in one.spreads(policy).items() if rival in one.ranked}
    rival = max(spreads, key=lambda other: spreads[other].middle, default="")
    leads = not others and rival and spreads[rival].middle < 0
    return "lowest" if one.exact else "certainly_lowest", {
        "name": Response(one.response),
        "leaders": _counted(leaders),
        "places": places,
        "by": say("reductions.by", policy=policy, share=-spreads[rival].middle, rival=rival) if leads else "",
    }


def _counted(leaders: Leaders) -> list[Say]:
    return [say("reductions.leader", policies=policies, number=number) for policies, number in leaders.items()]


def _variants(one: Reductions) -> Iterator[_Said]:
    """Whether a variant is better than the policy that it comes from."""
    for subject in one.subjects[1:]:
        rival = one.subjects[0]
        ranks, spread = one.ranks(subject, rival), one.spreads(subject).get(rival)
        if ranks and spread:
            yield majority(ranks), {"policy": subject, "rival": rival, "change": _shares(spread)}
            if number := ranks[Rank.UNDECIDED]:
                yield "unknown", {"places": number}


def _unknown(one: Reductions) -> Iterator[_Said]:
    if one.undecided:
        yield "comparisons", {"number": one.undecided}
    if counts := one.saturated:
        said = [say("reductions.saturated_policy", policy=policy, places=places) for policy, places in counts.items()]
        yield "saturated", {"policies": said}


def _shares(spread: Spread) -> Shares:
    return Shares(**vars(spread))


def _mean(policy: str, place: Place) -> float | str | None:
    return _SATURATED if policy in place.saturated else place.means.get(policy)


def _cell(subject: str, other: str, place: Place) -> float | str | None:
    """Percent for a table, with the interval where there is one."""
    if {subject, other} & place.saturated:
        return _SATURATED
    found = place.reduction(subject, other)
    if found is None or found.low is None or found.high is None:
        return None if found is None else _rounded(found.share)
    return f"{100 * found.share:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"


def _rounded(share: float | None) -> float | str:
    """Percent for a table; only saturated runs have none."""
    return _SATURATED if share is None else round(100 * share, 1) + 0.0  # no minus before a zero


# Published numbers


def _beside(title: Say, response: str, said: Iterable[Say], table: Table, *caveats: str, source: str) -> Finding:
    return Finding(
        response=response,
        title=str(title),
        statements=list(said),
        statistics={"rows": table.rows, "source": source},
        tables=[table],
        caveats=[*caveats, say("reductions.source", source=source)],
    )


def _modes(answers: Sequence[Reductions]) -> list[str]:
    return [f"{arrival_text(one.feed)} (%)" if one.feed else "here (%)" for one in answers]


def _published(answers: Sequence[Reductions]) -> Iterator[Finding]:
    """The published reductions and ours at each arrival mode; none where nothing was published."""
    known: Any = published("trace", answers[0].study) if answers else None
    if known is None or known["policy"] not in answers[0].policies:
        return
    subject, traces = known["policy"], {case: trace for trace in known["trace"] for case in trace["of"]}
    compared, rows, missed = 0, list[list[Any]](), dict[str, list[str]]()
    for case, trace in traces.items():
        against = trace["reductions"]
        here = [next((place for place in one.places if place.where.get(CASE) == case), None) for one in answers]
        for other in (policy for policy in answers[0].policies if policy in CLASSICS):
            ours = [_cell(subject, other, place) if place else None for place in here]
            if all(value is None for value in ours):
                continue
            note = trace.get("note", "") if other == "bplru-padded" else ""
            rows.append([case, other, against.get(other), *ours, note])
            numbers = [value for value in ours if isinstance(value, float)]
            if other in against and len(numbers) > 1:
                compared += 1
                if not min(numbers) <= against[other] <= max(numbers):
                    missed.setdefault(other, []).append(case)
    if not rows:
        return
    busy = [
        place.busy
        for one in answers
        for place in one.places
        if one.feed == "open" and place.where.get(CASE) in traces and place.busy is not None
    ]
    within = compared - sum(map(len, missed.values()))
    said = [say("reductions.contained", within=within, of=compared)] if compared else []
    said += [say("reductions.not_reproduced", policy=other, cases=cases) for other, cases in missed.items()]
    said += [say("reductions.idle" if max(busy) < _IDLE else "reductions.busy", share=max(busy))] if busy else []
    table = Table(["trace", f"{subject} against", "published (%)", *_modes(answers), "note"], rows)
    title, reasons = say("reductions.title_reductions", policy=subject), [known["reasons"][other] for other in missed]
    said = said or [say("reductions.incomparable")]
    caveats = dict.fromkeys([*known["reading"], *reasons])
    yield _beside(title, answers[0].response, said, table, *caveats, source=known["source"])


def _published_changes(answers: Sequence[Reductions]) -> Iterator[Finding]:
    """What a factor changes, here and published; none where nothing was published."""
    effects = list(dict.fromkeys(change.published for one in answers for change in one.changes))
    if not effects:
        return
    first, said, rows = effects[0], list[Say](), list[list[Any]]()
    rest = [name for name in answers[0].factors if name != first.factor]
    for known in effects:
        modes = [[change for change in one.changes if change.published == known] for one in answers]
        said += _effect(known, [change.share for mode in modes for change in mode if change.share is not None])
        levels = phrases.joined(level_text(known.factor, known.start), level_text(known.factor, known.end))
        published = ", ".join(f"{number:.1f}" for number in known.percent) or "higher"
        shown = [{tuple(change.where.items()): _rounded(change.share) for change in mode} for mode in modes]
        for where in dict.fromkeys(key for mode in shown for key in mode):
            ours = [mode.get(where) for mode in shown]
            rows.append([*(dict(where)[name] for name in rest), levels, published, *ours])
    label = factor_label(first.factor)
    table = Table([*rest, label, "published (%)", *_modes(answers)], rows)
    about = {"name": Response(first.response), "policy": first.policy, "factor": Factor(first.factor)}
    title, caveats = say("reductions.title_changes", **about), [one.reading for one in effects]
    yield _beside(title, first.response, said, table, *caveats, source=first.source)


def _effect(known: PublishedChange, shares: Sequence[float]) -> Iterator[Say]:
    """The range of ours over all conditions, and which published numbers it contains."""
    if not shares:
        return
    start, end = Level(known.factor, known.start), Level(known.factor, known.end)
    about: dict[str, Any] = {"first": start, "last": end, "name": Response(known.response), "policy": known.policy}
    about["places"] = len(shares)
    if not known.percent:
        counts = {"higher": sum(share > EVEN for share in shares), "lower": sum(share < -EVEN for share in shares)}
        parts = [say(f"reductions.{word}", number=number) for word, number in counts.items() if number]
        yield say("reductions.counted_change", counts=parts or ["even"], **about)
        return
    yield say("reductions.change", change=Shares(min(shares), 0.0, max(shares)), **about)
    numbers = [phrases.signed_percent(number / 100) if number else "no change" for number in known.percent]
    beyond = [max(min(shares) - number / 100, number / 100 - max(shares)) for number in known.percent]
    missed = [number for number, share in zip(numbers, beyond, strict=True) if share > EVEN]
    verdict = say(f"reductions.{'missed' if missed else 'within' if max(beyond) <= 0 else 'almost'}", numbers=missed)
    yield say(f"reductions.published{'s' if len(numbers) > 1 else ''}", numbers=numbers, verdict=verdict)


# Write-behind, and hits


def _ablation(one: Ablation) -> Finding:
    answer, levels = one.answer, one.levels[1:]
    spreads = {level: {policy: one.spread(policy, level) for policy in answer.policies} for level in levels}
    known = {level: {policy: spread for policy, spread in own.items() if spread} for level, own in spreads.items()}
    said = [part for level in levels for part in _changed(level, known[level], len(one.rows))]
    for level in reversed(one.levels):
        ahead, ties = _alone(one.leaders(level))
        about = {"level": level, "leaders": ahead, "places": len(one.rows), "ties": ties}
        said.append(("behind_lowest" if ahead else "behind_none", about))
    pairs = [(policy, level) for policy in answer.policies for level in one.levels]
    means = [Column(", ".join(pair), partial(_behind, *pair), answer.response) for pair in pairs]
    factors = [name for name in answer.factors if name != WRITE_BEHIND]
    table = Table.of(one.rows, *_columns(factors, lambda name, row: row[0][name]), *means)
    numbers = {level: {policy: vars(spread) for policy, spread in own.items()} for level, own in known.items()}
    return _finding(answer, "behind", said, {"either": True}, statistics={"changes": numbers}, tables=[table])


def _behind(policy: str, level: str, row: tuple[object, Mapping[str, Place]]) -> float | None:
    return row[1][level].means.get(policy) if level in row[1] else None


def _changed(level: str, spreads: Mapping[str, Spread], places: int) -> Iterator[_Said]:
    """Which means a level lowers, the most and the least, and which it raises or leaves even."""
    known = {policy: spread.middle for policy, spread in spreads.items() if policy != "none"}
    lowered = sorted((middle, policy) for policy, middle in known.items() if middle < -EVEN)
    if lowered:
        (most, most_policy), (least, policy) = lowered[0], lowered[-1]
        about = {"level": level, "places": places, "share": -least, "policy": policy}
        more = {"most": -most, "most_policy": most_policy} if len(lowered) > 1 else {}
        yield "lowers" if more else "one_lowers", {**about, **more}
    raised = [policy for policy, middle in known.items() if middle > EVEN]
    even = [policy for policy, middle in known.items() if abs(middle) <= EVEN]
    for code, policies in (("raises", raised), ("behind_even", even)):
        if policies:
            yield code, {"level": level, "policies": policies}


def _alone(leaders: Leaders) -> tuple[list[Say], Say | str]:
    """Who is ahead alone in how many conditions, and in how many there is a tie."""
    alone: Leaders = {policies: number for policies, number in leaders.items() if len(policies) == 1}
    ties = sum(leaders.values()) - sum(alone.values())
    return _counted(alone), say(f"reductions.behind_tie{'s' if ties > 1 else ''}", number=ties) if ties else ""


def _hits(one: HitBound) -> Finding:
    spreads = {policy: spread for policy in one.policies if (spread := one.spread(policy))}
    optima = [place.optimum for place in one.places if place.optimum is not None]
    said = [say("reductions.optimum", shares=Range.over(HIT_RATIO, optima))]
    if spreads:
        ranked, places = sorted(spreads, key=lambda policy: -spreads[policy].middle), len(one.places)
        gains = [say("reductions.gain_of", policy=policy, share=spreads[policy].middle) for policy in ranked]
        ahead, ties = _alone(one.leaders)
        said += [
            say("reductions.gain" if places > 1 else "reductions.gain_here", gains=gains),
            say("reductions.hits" if ahead else "reductions.hits_none", leaders=ahead, places=places, ties=ties),
        ]
    table = Table.of(
        one.places,
        *_columns(one.places[0].where, lambda name, place: place.where[name]),
        ("offline optimum", lambda place: place.optimum, HIT_RATIO),
        *_columns(one.policies, lambda policy, place: place.hits.get(policy), HIT_RATIO),
    )
    return Finding(
        response=HIT_RATIO,
        title=str(say("reductions.title_hits")),
        statements=(),
        details=said,
        statistics={"shares": {policy: vars(spread) for policy, spread in spreads.items()}},
        tables=[table],
        caveats=holding("reductions", bound=True, reordered=True),
    )
