"""The hits of write buffers and their bound: how much of the possible gain each policy reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ioassay.analysis.storage.hit_bound import HIT_RATIO, HitBound
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.say import Say, say

_BOUND = "The offline optimum knows the future. It bounds hits, not response times: fewer hits can be faster."
_REORDERED = "Its order is that of the trace. A drive whose host queue reorders requests sees a slightly different one."


def findings(answers: Sequence[HitBound]) -> list[Finding]:
    """One finding for a study."""
    return [_finding(one) for one in answers]


def _finding(one: HitBound) -> Finding:
    spreads = {policy: spread for policy in one.policies if (spread := one.spread(policy))}
    table = Table.of(
        one.places,
        *((name, lambda place, name=name: place.where[name]) for name in one.factors),
        ("offline optimum", lambda place: place.optimum, HIT_RATIO),
        *((policy, lambda place, policy=policy: place.ratios.get(policy), HIT_RATIO) for policy in one.policies),
    )
    return Finding(
        study=one.study,
        question="hits",
        response=HIT_RATIO,
        title="Write hits and their bound, the offline optimum",
        statements=_statements(one, {policy: spread.middle for policy, spread in spreads.items()}),
        statistics={"shares": {policy: vars(spread) for policy, spread in spreads.items()}},
        tables=[table],
        caveats=[_BOUND, _REORDERED],
    )


def _statements(one: HitBound, shares: Mapping[str, float]) -> list[Say]:
    optima, places = [place.optimum for place in one.places], len(one.places)
    ends = " to ".join(dict.fromkeys(f"{100 * share:.1f} %" for share in (min(optima), max(optima))))
    said = [say("reductions.optimum", shares=ends)]
    if not shares:
        return said
    ranked = sorted(shares, key=lambda policy: -shares[policy])
    gains = [say("reductions.gain_of", policy=policy, share=shares[policy]) for policy in ranked]
    median = "" if places == 1 else "a median of "
    counts = {policy: one.wins(policy) for policy in one.policies}
    most = sorted((policy for policy in counts if counts[policy]), key=lambda policy: -counts[policy])
    parts = [say("reductions.leader", policies=[policy], number=counts[policy]) for policy in most]
    tie = "reductions.behind_tie" if one.ties == 1 else "reductions.behind_ties"
    ties = say(tie, number=one.ties) if one.ties else ""
    return [
        *said,
        say("reductions.gain", gains=gains, median=median),
        say("reductions.hits" if parts else "reductions.hits_none", leaders=parts, places=places, ties=ties),
    ]
