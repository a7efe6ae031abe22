"""Hit ratios and their bound in sentences: what the offline optimum reaches, and each policy's share of it."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.analysis.storage.hit_bound import HIT_RATIO, HitBound
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table

_BOUND = "The offline optimum knows the future. It bounds hits, not response times: fewer hits can be faster."
_REORDERED = "Its order is that of the trace. A drive whose host queue reorders requests sees a slightly different one."


def findings(answers: Sequence[HitBound]) -> list[Finding]:
    """One finding for each answer."""
    return [_finding(one) for one in answers]


def _finding(one: HitBound) -> Finding:
    optima = [place.optimum for place in one.places]
    ends = list(dict.fromkeys(f"{100 * share:.1f} %" for share in (min(optima), max(optima))))
    spreads = {policy: spread for policy in one.policies if (spread := one.spread(policy))}
    ranked = sorted(spreads, key=lambda policy: -spreads[policy].middle)
    text = [f"The offline optimum has hits on {' to '.join(ends)} of the written pages."]
    if ranked:
        median = "" if len(one.places) == 1 else "a median of "
        shares = [f"{100 * spreads[policy].middle:.1f} %" for policy in ranked]
        first = f"{ranked[0]} reaches {median}{shares[0]}"
        others = [f"{policy} {share}" for policy, share in zip(ranked[1:], shares[1:], strict=True)]
        text += [f"Of this possible gain, {phrases.listed([first, *others], 9)}.", _winners(one)]
    return Finding(
        study=one.study,
        question="hits",
        response=HIT_RATIO,
        title="Write hits and their bound, the offline optimum",
        statements=text,
        statistics={"shares": {policy: vars(spread) for policy, spread in spreads.items()}},
        tables=[_table(one)],
        caveats=[_BOUND, _REORDERED],
    )


def _winners(one: HitBound) -> str:
    counts = {policy: one.wins(policy) for policy in one.policies}
    parts = [f"{policy} in {count}" for policy, count in sorted(counts.items(), key=lambda item: -item[1]) if count]
    total = phrases.count(len(one.places), "condition")
    if not parts:
        return f"No policy has the most hits alone in any of {total}."
    ties = (
        f", and {phrases.count(one.ties, 'condition')} {'has' if one.ties == 1 else 'have'} a tie" if one.ties else ""
    )
    return f"The most hits alone has {phrases.listed(parts)} of {total}{ties}."


def _table(one: HitBound) -> Table:
    rows = [
        [*place.where.values(), place.optimum, *(place.ratios.get(policy) for policy in one.policies)]
        for place in one.places
    ]
    columns = [*one.factors, "offline optimum", *one.policies]
    return Table(columns, rows, [*("" for _ in one.factors), *(HIT_RATIO for _ in range(len(one.policies) + 1))])
