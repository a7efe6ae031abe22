"""Two levels of a factor against each other, on average over everything else: what several rates have of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ioassay.analysis.effects.average_change import AverageChange
from ioassay.analysis.effects.one_factor import Outcome
from ioassay.factors import factor_label, level_text
from ioassay.narrative.finding import Table, bounds
from ioassay.narrative.say import Say, say
from ioassay.narrative.values import Level, Ratio
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.result import plain

_MOST = 4
"""More factors than these are not listed: the least and the greatest are."""
Changes = Sequence[tuple[str, AverageChange]]
"""What each rate is of, and how it changes."""


def statements(changes: Changes) -> Iterator[Say]:
    """For each pair of levels: which rates differ and by which factor, which do not, and of which it is not known."""
    pairs: dict[str, list[tuple[str, AverageChange]]] = {}
    for name, change in changes:
        pairs.setdefault(f"{change.factor} {change.levels}", []).append((name, change))
    for own in pairs.values():
        yield from _statements(own)


def _statements(own: Changes) -> Iterator[Say]:
    some = own[0][1]
    first, second = (Level(some.factor, level) for level in some.levels)
    facts: dict[str, Any] = {"first": first, "second": second, "margin": MARGIN, "of": len(own)}
    different, alike, undecided = (
        {name: change for name, change in own if change.outcome == outcome}
        for outcome in (Outcome.DIFFERENCE, Outcome.EQUIVALENT, Outcome.UNDECIDED)
    )
    if different:
        ratios = {name: Ratio(change.ratio.ratio, change.ratio.interval) for name, change in different.items()}
        shown = {name: say("average.ratio", name=name, ratio=ratio) for name, ratio in ratios.items()}
        if len(shown) <= _MOST:
            yield say("average.changed", ratios=[*shown.values()], **facts)
        else:
            least, most = (shown[pick(ratios, key=lambda name: ratios[name].value)] for pick in (min, max))
            yield say("average.changed_many", n=len(shown), least=least, most=most, **facts)
    if alike:
        yield say("average.alike", names=[*alike], **facts)
    if undecided:
        needed = max(change.needed or 0 for change in undecided.values())
        yield say("average.undecided", names=[*undecided], needed=needed, **facts)


def table(changes: Changes, title: str) -> Table:
    """A row for each; `title` is that of what the rates are of."""
    return Table.of(
        changes,
        ("factor", lambda row: factor_label(row[1].factor)),
        ("levels", lambda row: " over ".join(level_text(row[1].factor, level) for level in row[1].levels[::-1])),
        (title, lambda row: row[0]),
        ("ratio of the rates", lambda row: row[1].ratio.ratio),
        *bounds(lambda row: row[1].ratio.interval),
        ("p, adjusted", lambda row: row[1].ratio.p),
    )


def numbers(one: AverageChange) -> dict[str, object]:
    """Under stable names."""
    facts: dict[str, object] = {
        "factor": one.factor,
        "levels": [*one.levels],
        "ratio": plain(one.ratio),
        "p": one.ratio.p,
    }
    return {**facts, "outcome": one.outcome.value, "repetitions_needed": one.needed}
