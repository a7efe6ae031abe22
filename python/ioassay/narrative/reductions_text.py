"""The comparison of write buffers in sentences and tables, with published numbers where there are any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.analysis.claims import published_results
from ioassay.analysis.storage.write_buffer import (
    CLASSICS,
    EVEN,
    FEED,
    Change,
    Place,
    Rank,
    Reduction,
    Reductions,
    Rivalry,
    Spread,
)
from ioassay.factors import CASE, factor_label, level_phrase, level_text
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table

_SATURATED = "saturated"
_RANKS = {
    Rank.BETTER: "{subject} has a lower mean than {rival}",
    Rank.WORSE: "{subject} has a higher mean than {rival}",
    Rank.EVEN: "{subject} is even with {rival}",
    Rank.UNDECIDED: "The conditions do not agree which of {subject} and {rival} has the lower mean",
}
_FEW_WINNERS = 3
_IDLE = 0.1
"""Drives whose elements are busy for less than this share of the time hardly let a write wait."""
_ABSORBED = "Means are of the requests that reach the drive. A policy that absorbs more writes sends fewer requests."
_SOURCE = "Published: {source}. A trace called …-like is generated, not recorded."
_WITHOUT_MEAN = "A saturated run has no mean: the waits of its requests depend on the length of the trace."


def findings(answers: Sequence[Reductions]) -> list[Finding]:
    """One finding for each arrival mode; where there are published numbers one more, last."""
    return [*map(_finding, answers), *_published(answers), *_published_changes(answers)]


def conditions_text(feed: str) -> str:
    """An arrival mode in words: `at the original time stamps`, `32 requests outstanding`."""
    name, _, rest = feed.partition(":")
    match name:
        case "closed":
            return f"{rest} requests outstanding"
        case "scaled":
            return f"time stamps times {rest}"
        case "batch":
            return f"in batches of {rest.replace('@', ' every ')}"
    return "at the original time stamps" if feed == "open" else feed


def _finding(one: Reductions) -> Finding:
    against = [sentence for subject in one.subjects for sentence in _against(one, subject)]
    text = [_lowest(one), *(_under(one, sentence) for sentence in [*against, *_saturated(one)])]
    caveats = [_ABSORBED] if one.absorbs else []
    caveats += [_WITHOUT_MEAN] if any(place.saturated for place in one.places) else []
    return Finding(
        study=one.study,
        question="reductions",
        response=one.response,
        title=f"{phrases.name(one.response)} by policy" + (f", {conditions_text(one.feed)}" if one.feed else ""),
        statements=text,
        where={FEED: one.feed} if one.feed else {},
        statistics={"points": [_numbers(one, place) for place in one.places]},
        tables=[_means(one), *(_reductions(one, subject) for subject in one.subjects)],
        caveats=caveats,
    )


def _under(one: Reductions, sentence: str) -> str:
    """The sentence after its arrival mode, since a study may have several: `With 32 requests outstanding, …`."""
    if not one.feed:
        return phrases.capital(sentence)
    conditions = conditions_text(one.feed)
    where = conditions if conditions.startswith(("at ", "in ")) else f"with {conditions}"
    return phrases.capital(f"{where}, {sentence[:1].lower()}{sentence[1:]}")


def _against(one: Reductions, subject: str) -> list[str]:
    """A policy and the others: a sentence for those that it is better than, worse than and even with."""
    spreads = one.spreads(subject)
    if rivalry := one.rivalry(subject):
        return [_rivalry(subject, one.subjects[0], rivalry, spreads.get(one.subjects[0]))]
    if not spreads:
        return [f"No other policy has a mean to compare {subject} with."]
    changes: dict[str, list[str]] = {}
    median = "" if len(one.places) == 1 else "a median of "
    rivals = [other for other in spreads if one.rivalry(other)]
    for other, spread in spreads.items():
        if other not in rivals:
            verb, words = _change(other, spread, median)
            changes.setdefault(verb, []).append(words + _range(spread))
    text = [phrases.capital(f"{subject} {verb}{phrases.listed(words)}.") for verb, words in changes.items()]
    unknown = one.undecided(subject)
    limits = [f"The data do not show a difference in {phrases.count(unknown, 'comparison')}."] if unknown else []
    return [*text, *limits]


def _change(other: str, spread: Spread, median: str) -> tuple[str, str]:
    """The verb of a median change of the mean, and its size."""
    if abs(spread.middle) <= EVEN:
        return "is even with ", other
    if spread.middle >= 1:
        return f"multiplies the mean by {median}", f"{phrases.plain_number(1 + spread.middle)} against {other}"
    verb = "lowers" if spread.middle < 0 else "raises"
    return f"{verb} the mean by {median}", f"{100 * abs(spread.middle):.1f} % against {other}"


def _rivalry(subject: str, rival: str, counted: Rivalry, spread: Spread | None) -> str:
    """Whether a policy is better than its rival: by how much, and in how many conditions."""
    size = f": the median difference is {_percent(spread.middle)}{_range(spread)}" if spread else ""
    counts = {"lower": counted.lower, "within half a percent": counted.even, "higher": counted.higher}
    total = phrases.count(sum(counts.values()) + counted.undecided, "condition")
    parts = [f"{words} in {count}" for words, count in counts.items() if count]
    ranked = phrases.capital(_RANKS[counted.rank].format(subject=subject, rival=rival)) + f"{size}."
    known = f" The mean of {subject} is {phrases.listed(parts)} of {total}." if parts else ""
    unknown = f" The data do not show it in {counted.undecided}." if counted.undecided else ""
    return f"{ranked}{known}{unknown}"


def _lowest(one: Reductions) -> str:
    """The policies that have the lowest mean alone, and those that share it, by their number of conditions."""
    wins: dict[int, list[str]] = {}
    for policy in one.policies:
        wins.setdefault(one.wins(policy), []).append(policy)
    parts = [f"{phrases.listed(wins[count])} in {count}" for count in sorted(wins, reverse=True) if count]
    if not parts and not one.ties:
        return _under(one, "No condition has a mean.")
    total, name = phrases.count(len(one.places), "condition"), phrases.inside(one.response)
    if not parts:
        alone = f"no policy has the lowest mean alone in any of {total}."
        return _under(
            one, phrases.capital(f"{_sharers(one, f'the lowest {name}')} of {total}." if one.exact else alone)
        )
    if len(parts) > _FEW_WINNERS:
        parts = [*parts[: _FEW_WINNERS - 1], "others in fewer"]
    if one.exact and one.ties and max(one.shared.values()) > max(wins):
        shared = _sharers(one, f"the lowest {name}")
        return _under(one, phrases.capital(f"{shared} of {total}; elsewhere one is lowest: {phrases.listed(parts)}."))
    certainly = "" if one.exact else "certainly "
    text = f"{name} is {certainly}lowest with {phrases.listed(parts)} of {total}."
    ties = f" {phrases.count(one.ties, 'condition')} {'has' if one.ties == 1 else 'have'} a tie." if one.ties else ""
    shared = f" {phrases.capital(_sharers(one, 'it'))}." if one.ties else ""
    return _under(one, text) + (shared if one.exact else ties)


def _sharers(one: Reductions, what: str) -> str:
    """`epo and idle-cold share it in 7, other policies in 1`: of exact means, those that do so most often first."""
    (policies, count), *rest = one.shared.items()
    others = sum(number for _, number in rest)
    return f"{phrases.listed(policies)} share {what} in {count}" + (f", other policies in {others}" if others else "")


def _saturated(one: Reductions) -> list[str]:
    counts = {policy: one.saturated(policy) for policy in one.policies}
    parts = [f"{policy} in {phrases.count(count, 'condition')}" for policy, count in counts.items() if count]
    return [f"Saturated runs have no mean: {phrases.listed(parts)}."] if parts else []


def _means(one: Reductions) -> Table:
    rows = [
        [
            *(place.where[name] for name in one.factors),
            *(_SATURATED if policy in place.saturated else place.mean(policy) for policy in one.policies),
        ]
        for place in one.places
    ]
    formats = [*("" for _ in one.factors), *(one.response for _ in one.policies)]
    return Table([*one.factors, *one.policies], rows, formats)


def _reductions(one: Reductions, subject: str) -> Table:
    others = [policy for policy in one.policies if policy != subject]
    rows = [
        [*(place.where[name] for name in one.factors), *(_cell(one, place, subject, other) for other in others)]
        for place in one.places
    ]
    return Table([*one.factors, *(f"{subject} against {other} (%)" for other in others)], rows)


def _cell(one: Reductions, place: Place, subject: str, other: str) -> float | str | None:
    if {subject, other} & place.saturated:
        return _SATURATED
    reduction = place.reduction(subject, other)
    return None if reduction is None else _shown(reduction)


def _shown(reduction: Reduction) -> float | str:
    """Percent for a table, with the interval where there is one."""
    if reduction.low is None or reduction.high is None:
        return _rounded(reduction.share)
    return f"{100 * reduction.share:.1f} ({100 * reduction.low:.1f} to {100 * reduction.high:.1f})"


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
            statements=text or ["No published number can be compared here."],
            statistics={"rows": rows, "source": known.source},
            tables=[Table([*columns, "note"], rows)],
            caveats=[*known.reading, *reasons, _SOURCE.format(source=known.source)],
        )
    ]


def _mode_columns(answers: Sequence[Reductions]) -> list[str]:
    return [f"{conditions_text(one.feed)} (%)" if one.feed else "here (%)" for one in answers]


def _at(one: Reductions, case: str, policy: str, other: str) -> float | str | None:
    place = next((place for place in one.places if place.where.get(CASE) == case), None)
    return None if place is None else _cell(one, place, policy, other)


def _utilisation(answers: Sequence[Reductions], cases: Mapping[str, object]) -> list[float]:
    """That of the elements at the original time stamps, where there are published numbers."""
    return [
        place.utilisation["none"]
        for one in answers
        for place in one.places
        if one.feed == "open" and place.where.get(CASE) in cases and "none" in place.utilisation
    ]


def _contained(compared: int, missed: Sequence[tuple[str, str]]) -> list[str]:
    """How many published reductions lie between ours of all arrival modes, and which do not.

    `missed`: the trace and the other policy of each that does not.
    """
    if not compared:
        return []
    within = compared - len(missed)
    text = [
        "The range of these results, from original time stamps to many requests outstanding, contains "
        f"{within} of {phrases.count(compared, 'published reduction')}."
    ]
    traces: dict[str, list[str]] = {}
    for case, other in missed:
        traces.setdefault(other, []).append(case)
    return [*text, *(f"Not reproduced against {other}: {phrases.listed(cases)}." for other, cases in traces.items())]


def _idle(busy: Sequence[float]) -> list[str]:
    """How busy the drive was at the original time stamps, of utilisations."""
    if not busy:
        return []
    ends = list(dict.fromkeys(f"{100 * share:.2g}" for share in (min(busy), max(busy))))
    idle = ", so the order of evictions can avoid little waiting" if max(busy) < _IDLE else ""
    return [f"At the original time stamps, the elements are busy {' to '.join(ends)} % of the time{idle}."]


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
            caveats=[*(known.reading for known in by_effect), _SOURCE.format(source=first.source)],
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


def _effect(known: published_results.Change, changes: Sequence[Change]) -> list[str]:
    """The range of ours over all conditions, and which published numbers it contains."""
    shares = [change.share for change in changes if change.share is not None]
    if not shares:
        return []
    total = phrases.count(len(shares), "condition")
    ends = f"from {level_phrase(known.factor, known.start)} to {level_phrase(known.factor, known.end)}"
    name = f"{phrases.inside(known.response)} with {known.policy}"
    if not known.percent:
        counts = {"higher": sum(share > EVEN for share in shares), "lower": sum(share < -EVEN for share in shares)}
        parts = [f"{word} in {count}" for word, count in counts.items() if count] or ["even"]
        return [phrases.capital(f"{ends}, {name} is {phrases.listed(parts)} of {total}; published is higher.")]
    span = " to ".join(dict.fromkeys(_percent(share) for share in (min(shares), max(shares))))
    ours = phrases.capital(f"{ends}, {name} changes by {span} in {total}.")
    numbers = phrases.listed([_percent(number / 100) if number else "no change" for number in known.percent])
    beyond = [max(min(shares) - number / 100, number / 100 - max(shares)) for number in known.percent]
    missed = [_percent(number / 100) for number, share in zip(known.percent, beyond, strict=True) if share > EVEN]
    verdict = (
        f"not reproduced: {phrases.listed(missed)}"
        if missed
        else "within this range"
        if max(beyond) <= 0
        else "within half a percent of this range"
    )
    return [ours, f"Published {'is' if len(known.percent) == 1 else 'are'} {numbers}, {verdict}."]


def _change_cell(share: float | None) -> float | str:
    return _SATURATED if share is None else _rounded(share)


def _rounded(share: float) -> float:
    """Percent for a table."""
    return round(100 * share, 1) + 0.0  # no minus before a zero


def _percent(share: float) -> str:
    text = f"{100 * share:+.1f} %"
    return "0.0 %" if text[1:] == "0.0 %" else text


def _range(one: Spread) -> str:
    """The extremes over conditions: factors of a mean that doubles or more, else changes in percent."""
    if _percent(one.least) == _percent(one.most):
        return ""
    if one.middle >= 1:
        return f" ({phrases.plain_number(1 + one.least)} to {phrases.plain_number(1 + one.most)})"
    return f" ({_percent(one.least)} to {_percent(one.most)})"
