"""The sentences of verdicts and of latencies: what each category means, the explanation and the notes of one verdict,
and where the time of operations went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from ioassay.narrative.say import Say, say, templates
from ioassay.verify import properties
from ioassay.verify.latency_parts import LatencyParts
from ioassay.verify.verdict import (
    CONFIRMED,
    HEADED,
    NOT_JUDGED,
    TRUE_CLAIMS,
    Amount,
    Statement,
    Verdict,
    compared,
    rank,
)


def headline(verdicts: Sequence[Verdict], category: str, level: str = "") -> list[Say]:
    """What was compared of claims that are true, what was not judged, and what a verdict of this category means."""
    told = [say(f"explanation.{category}")]
    if category not in TRUE_CLAIMS:
        return told
    seen = compared(verdicts)
    names = [say(f"explanation.match_{name}") for name in HEADED[:-1] if name in seen.matched]
    missing = [say(f"explanation.match_{name}") for name in HEADED if name in seen.unjudged]
    if properties.LATENCY in seen.matched:
        names += _latencies(seen.latencies, without=seen.unjudged_latencies)
        missing += _latencies(seen.unjudged_latencies)
    first = [say("explanation.matched", names=names)] if names else []
    if missing:
        first.append(say("explanation.unmatched_at" if level else "explanation.unmatched", names=missing, level=level))
    return [*(told if category != CONFIRMED or not names else ()), *first]


def _latencies(names: Sequence[str], without: Sequence[str] = ()) -> list[Say]:
    """'the mean, p50 to p99.9 and the longest latency', by the names of those that match, and not in another form."""
    # 'mean' of 'clat.mean', 'sync' of 'sync.mean'.
    own, others = (
        {one.partition(".")[0] if one.startswith(("slat.", "sync.")) else one.removeprefix("clat.") for one in group}
        for group in (names, without)
    )
    known = own - others
    percentiles = sorted((name for name in own | others if name[1:2].isdigit()), key=lambda name: float(name[1:]))
    found = [say(f"explanation.match_{name}") for name in _NAMED if name in known]
    for is_known, members in groupby(percentiles, key=known.__contains__):
        run = [*members]
        code = "explanation.match_percentiles" if len(run) > 1 else "explanation.match_percentile"
        found += [say(code, first=run[0], last=run[-1])] if is_known else []
    return found


_NAMED = ("mean", "min", "max", "stddev", "requests", "slat", "sync")


def sentence(statement: Statement) -> Say:
    """One sentence, or two; a warning says that it is one."""
    own = Say(f"explanation.{statement.code}", {name: _typed(value) for name, value in statement.values})
    return say("explanation.warning", text=own) if statement.warns else own


def text(statements: Sequence[Statement]) -> str:
    return " ".join(str(sentence(statement)) for statement in statements)


def by_property(verdict: Verdict) -> str:
    """'By property: CONFIRMED operations, bytes; not judged pattern.'; '' where nothing could be judged."""
    names: dict[str, list[str]] = {}
    in_part = " in part" if compared([verdict]).unjudged_latencies else ""
    for each in sorted(verdict.properties, key=rank, reverse=True):
        is_partial = each.name == properties.LATENCY and each.category in TRUE_CLAIMS
        names.setdefault(each.category, []).append(each.name + in_part * is_partial)
    parts = [f"{category.replace(NOT_JUDGED, 'not judged')} {', '.join(among)}" for category, among in names.items()]
    return f"By property: {'; '.join(parts)}." if parts else ""


def as_dict(verdict: Verdict) -> dict[str, Any]:
    return {
        **{name: getattr(verdict, name) for name in ("category", "reason")},
        "explanation": text(verdict.explanation),
        "numbers": dict(verdict.numbers),
        "claim": asdict(verdict.claim) if verdict.claim else None,
        "notes": [str(sentence(note)) for note in verdict.notes],
        "severity": verdict.severity,
        "properties": [
            {"name": each.name, "category": each.category, "reason": each.reason, "explanation": text(each.statements)}
            for each in verdict.properties
        ],
    }


def _typed(value: object) -> object:
    if isinstance(value, Statement):
        return sentence(value)
    if isinstance(value, tuple):
        return [_typed(part) for part in value]
    if not isinstance(value, Amount):
        return value
    numbers = {"operations": value.operations, "bytes": value.bytes}
    parts = [say(f"explanation.{name}", number=number) for name, number in numbers.items() if number is not None]
    place = f"amount_{value.source}"
    return say(f"explanation.{place if place in templates('explanation') else 'amount'}", parts=parts)


_LEAST_SHARE = 0.02
_MOST_PARTS = 4
_SUM_TOLERANCE = 0.05


def part_name(name: str, engine: str) -> str:
    """The words for a part; requests of libaio and io_uring wait for something else than calls do."""
    words = templates("latency")
    return words.get(f"{name}_{engine}", words[name])


def parts_sentence(one: LatencyParts) -> Say:
    large = [part for part in one.parts if part.share >= _LEAST_SHARE][:_MOST_PARTS] or one.parts[:1]
    parts = [say("latency.part", name=part_name(part.name, one.engine), share=part.share) for part in large]
    depth = round(one.depth)
    code = "latency.mean_at_depth" if depth > 1 else "latency.mean"
    return say(code, mean_ns=one.mean_ns, kind=one.kind, depth=depth, parts=parts)


def sum_sentence(one: LatencyParts) -> Say | None:
    """What the measured parts sum to, where that is not the claimed mean; None where it is."""
    code = "latency.sum_above" if one.sum_share > 1 else "latency.sum_below"
    return say(code, share=one.sum_share) if abs(one.sum_share - 1) > _SUM_TOLERANCE else None
