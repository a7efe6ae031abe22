"""The ablation of write-behind in sentences: what it changes for each policy, and which is best without and with it."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.analysis.storage.write_behind import Ablation
from ioassay.analysis.storage.write_buffer import EVEN, FEED, Spread
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.reductions_text import conditions_text


def findings(answers: Sequence[Ablation]) -> list[Finding]:
    """One finding for each arrival mode."""
    return [_finding(one) for one in answers]


def _finding(one: Ablation) -> Finding:
    text = [_winners(one, level) for level in reversed(one.levels)]
    text += [sentence for level in one.levels[1:] for sentence in _changes(one, level)]
    name = phrases.name(one.response)
    return Finding(
        study=one.study,
        question="ablation",
        response=one.response,
        title=f"{name} without and with write-behind" + (f", {conditions_text(one.feed)}" if one.feed else ""),
        statements=text,
        where={FEED: one.feed} if one.feed else {},
        statistics={"changes": {level: _shares(one, level) for level in one.levels[1:]}},
        tables=[_table(one)],
        caveats=[
            "Within one write-behind, policies differ by their victims only. "
            "Within one policy, the columns differ by write-behind only."
        ],
    )


def _changes(one: Ablation, level: str) -> list[str]:
    """What a level changes for each policy: sentences for those that it lowers, raises and leaves even."""
    known = {policy: spread for policy in one.policies if (spread := one.spread(policy, level)) and policy != "none"}
    groups: dict[str, list[str]] = {}
    for policy, spread in known.items():
        size = "" if abs(spread.middle) <= EVEN else f" by {100 * abs(spread.middle):.1f} %"
        groups.setdefault(_verb(spread), []).append(policy + size)
    median = "" if len(one.conditions) == 1 else " (medians over the conditions)"
    return [
        _placed(one, f"write-behind {level} {verb} the mean of {phrases.listed(words, 9)}{median}.")
        for verb, words in groups.items()
    ]


def _placed(one: Ablation, sentence: str) -> str:
    """A sentence with the arrival mode in front."""
    conditions = conditions_text(one.feed)
    place = conditions if conditions.startswith(("at ", "in ")) else f"with {conditions}"
    return phrases.capital(f"{place}, {sentence}" if one.feed else sentence)


def _verb(spread: Spread) -> str:
    if abs(spread.middle) <= EVEN:
        return "hardly changes"
    return "lowers" if spread.middle < 0 else "raises"


def _winners(one: Ablation, level: str) -> str:
    counts = {policy: one.wins(policy, level) for policy in one.policies}
    total = phrases.count(len(one.conditions), "condition")
    parts = [f"{policy} in {count}" for policy, count in sorted(counts.items(), key=lambda item: -item[1]) if count]
    ties = one.ties(level)
    if not parts:
        return _placed(one, f"with write-behind {level}, no policy has the lowest mean alone in any of {total}.")
    tied = f", and {phrases.count(ties, 'condition')} {'has' if ties == 1 else 'have'} a tie" if ties else ""
    return _placed(one, f"with write-behind {level}, the mean is lowest with {phrases.listed(parts)} of {total}{tied}.")


def _shares(one: Ablation, level: str) -> dict[str, dict[str, float]]:
    return {policy: vars(spread) for policy in one.policies if (spread := one.spread(policy, level))}


def _table(one: Ablation) -> Table:
    """The means; a policy's levels stand next to each other."""
    pairs = [(policy, level) for policy in one.policies for level in one.levels]
    rows = [
        [*where.values(), *(one.mean(condition, policy, level) for policy, level in pairs)]
        for condition, where in enumerate(one.conditions)
    ]
    columns = [*one.factors, *(f"{policy}, {level}" for policy, level in pairs)]
    return Table(columns, rows, [*("" for _ in one.factors), *(one.response for _ in pairs)])
