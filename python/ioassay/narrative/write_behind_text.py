"""The ablation of write-behind: what it changes for each policy, and which is best without and with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ioassay.analysis.storage.write_behind import Ablation
from ioassay.analysis.storage.write_buffer import EVEN, FEED
from ioassay.factors import arrival_text
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.say import Say, say

_EITHER = (
    "Within one write-behind, policies differ by their victims only. "
    "Within one policy, the columns differ by write-behind only."
)


def findings(answers: Sequence[Ablation]) -> list[Finding]:
    """One finding for each arrival mode."""
    return [_finding(one) for one in answers]


def _finding(one: Ablation) -> Finding:
    where = {FEED: one.feed} if one.feed else {}
    said = [part for level in one.levels[1:] for part in _changes(one, level)]
    said += [_lowest(one, level) for level in reversed(one.levels)]
    title = f"{phrases.name(one.response)} without and with write-behind"
    table = Table.of(
        enumerate(one.conditions),
        *((name, lambda row, name=name: row[1][name]) for name in one.factors),
        *(
            (
                f"{policy}, {level}",
                lambda row, policy=policy, level=level: one.mean(row[0], policy, level),
                one.response,
            )
            for policy in one.policies
            for level in one.levels
        ),
    )
    return Finding(
        study=one.study,
        question="ablation",
        response=one.response,
        title=title + (f", {arrival_text(one.feed)}" if one.feed else ""),
        statements=[Say(code, values, where) for code, values in said],
        where=where,
        statistics={"changes": {level: _spreads(one, level) for level in one.levels[1:]}},
        tables=[table],
        caveats=[_EITHER],
    )


def _spreads(one: Ablation, level: str) -> dict[str, dict[str, float]]:
    return {policy: vars(spread) for policy in one.policies if (spread := one.spread(policy, level))}


def _changes(one: Ablation, level: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Which means a level lowers, the most and the least, and which it raises or leaves even."""
    known = {policy: spread["middle"] for policy, spread in _spreads(one, level).items() if policy != "none"}
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


def _lowest(one: Ablation, level: str) -> tuple[str, dict[str, Any]]:
    counts = {policy: one.wins(policy, level) for policy in one.policies}
    ranked = sorted((policy for policy in counts if counts[policy]), key=lambda policy: -counts[policy])
    parts = [say("reductions.leader", policies=[policy], number=counts[policy]) for policy in ranked]
    number = one.ties(level)
    ties = say("reductions.behind_tie" if number == 1 else "reductions.behind_ties", number=number) if number else ""
    code = "reductions.behind_lowest" if parts else "reductions.behind_none"
    return code, {"level": level, "leaders": parts, "places": len(one.conditions), "ties": ties}
