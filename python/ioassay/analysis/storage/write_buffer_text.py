"""The comparison of write buffers in sentences. Computes nothing but counts and medians of what it is given."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ioassay.narrative import phrases

_FEEDINGS = {"open": "at the original time stamps"}


def conditions_text(feed: str) -> str:
    """A feeding in words: `at the original time stamps`, `32 requests outstanding`."""
    name, _, rest = feed.partition(":")
    match name:
        case "closed":
            return f"{rest} requests outstanding"
        case "scaled":
            return f"time stamps times {rest}"
        case "batch":
            return f"in batches of {rest.replace('@', ' every ')}"
    return _FEEDINGS.get(feed, feed)


@dataclass(frozen=True)
class Spread:
    """Reductions over several conditions, as shares."""

    least: float
    middle: float
    most: float


def shares(values: Sequence[float]) -> Spread:
    """The spread of some reductions."""
    return Spread(min(values), statistics.median(values), max(values))


def even(values: Sequence[float], margin: float) -> tuple[int, int, int]:
    """How many are lower, even within the margin, higher."""
    lower, higher = sum(value < -margin for value in values), sum(value > margin for value in values)
    return lower, len(values) - lower - higher, higher


@dataclass(frozen=True)
class Comparison:
    """Sentences about one response at one feeding."""

    response: str
    feed: str

    @property
    def _where(self) -> str:
        return f"{phrases.capital(self.feed)}, " if self.feed else ""

    def against(self, subject: str, by_other: Mapping[str, Spread]) -> str:
        """`At …, epo changes the mean write latency by -29.6 % against lru (-42 to -12 %), …`."""
        if not by_other:
            return phrases.capital(f"{self._where}{subject} can be compared with nothing.")
        parts = [f"{_percent(one.middle)} against {other}{_range(one)}" for other, one in by_other.items()]
        changes = f"{self._where}{subject} changes {self.response} by {phrases.listed(parts, 9)}"
        return phrases.capital(f"{changes} (the middle condition, and all).")

    def verdict(self, subject: str, rival: str, counted: tuple[int, int, int], by_other: Mapping[str, Spread]) -> str:
        """Whether a policy is better than its rival: in how many conditions, and by how much."""
        lower, equal, higher = counted
        if not lower + equal + higher:
            return self.against(subject, by_other)
        better = "beats" if lower > higher and lower > equal else "loses to" if higher > lower else "is even with"
        spread = by_other.get(rival)
        size = f" ({_percent(spread.middle)} in the middle{_range(spread)})" if spread else ""
        return (
            f"{phrases.capital(subject)} {better} {rival}{size}: lower in {lower}, within half a percent in {equal}, "
            f"higher in {higher} of {phrases.count(lower + equal + higher, 'condition')}."
        )

    def lowest(self, wins: Mapping[str, int], places: int) -> str:
        """Who has the lowest mean how often."""
        parts = [f"{policy} in {count}" for policy, count in sorted(wins.items(), key=lambda one: -one[1]) if count]
        if not parts:
            return "No condition has a mean."
        return f"Of {phrases.count(places, 'condition')} the lowest mean is that of {phrases.listed(parts, 9)}."

    def saturated(self, counts: Mapping[str, int]) -> list[str]:
        """Where there is no mean, and why."""
        parts = [f"{policy} in {phrases.count(count, 'condition')}" for policy, count in counts.items() if count]
        return [f"Saturated, so without a mean: {phrases.listed(parts, 9)}."] if parts else []


def reading(
    differences: Sequence[tuple[float | None, Sequence[float | str | None]]], busy: Sequence[float]
) -> list[str]:
    """How ours lie to the published reductions: between the feedings, or beyond both; and how busy the drive was.

    `differences`: the published percentage and ours at each feeding; `busy`: utilisations at the time stamps.
    """
    between = beyond = 0
    for published, ours in differences:
        known = [value for value in ours if isinstance(value, int | float)]
        if published is None or len(known) < 2:
            continue
        inside = min(known) <= published <= max(known)
        between, beyond = between + inside, beyond + (not inside)
    said = []
    if between + beyond:
        said.append(
            f"Of {phrases.count(between + beyond, 'published reduction')} that can be compared, {between} lie between "
            f"what comes out at the original time stamps and with many requests outstanding, {beyond} outside."
        )
    if busy:
        said.append(
            f"At the original time stamps the elements are busy {_busy(min(busy))} to {_busy(max(busy))} of the time: "
            "there is little waiting that an order of evictions could avoid."
        )
    return said or ["Nothing that was published can be compared here."]


def _busy(share: float) -> str:
    return f"{100 * share:.2g} %"


def _percent(share: float) -> str:
    text = f"{100 * share:+.1f} %"
    return "0.0 %" if text[1:] == "0.0 %" else text


def _range(one: Spread) -> str:
    return "" if one.least == one.most else f" ({_percent(one.least)} to {_percent(one.most)})"
