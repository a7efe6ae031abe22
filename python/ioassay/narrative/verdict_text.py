"""The sentences and tables of the verdicts on a study's claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.analysis.claims.claim_verdicts import ClaimVerdicts, ConditionVerdicts, Outcome, counted
from ioassay.narrative import explanation_text, phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.result import plain
from ioassay.units import format_count, format_rate, format_size
from ioassay.verify.judge import overall, traffic
from ioassay.verify.session_times import claimed_seconds
from ioassay.verify.verdict import (
    BY_DEVICE,
    BY_DRIVE,
    CATEGORIES,
    CONTRADICTED,
    UNSUPPORTED,
    Verdict,
    rank,
    severity_of,
)

_MOST_EXPLAINED, _MOST_ROWS = 10, 120
_COUNTED = ("Verdict", "Claims", "What it means")
_WORST = ("Verdict", "Reason", "Condition", "Claim", "Trials", "Explanation")
_EACH = ("Condition", "Claim", "Trials", "Claimed", "Seen", "Difference in %", "Verdict", "Reason")


def findings(answers: Sequence[ClaimVerdicts]) -> list[Finding]:
    """One finding for a study that measured."""
    return [_of_claims(one) if one.outcome == Outcome.JUDGED else _without_claims(one) for one in answers]


def _without_claims(one: ClaimVerdicts) -> Finding:
    statistics = {"contradicted": 0, "witnessed_trials": one.witnessed}
    if one.outcome == Outcome.UNWITNESSED:
        return _finding(one, "The trials were not witnessed, so the tool's claims are not verified.", statistics)
    text = "The tool claims no I/O, so there is nothing to confirm or contradict."
    trials = f"{phrases.count(one.witnessed, 'trial')} {'was' if one.witnessed == 1 else 'were'} witnessed."
    last = explanation_text.text(traffic(one.unclaimed)) if one.unclaimed is not None else ""
    shown = [f"In the last of them: {last[:1].lower()}{last[1:]}"] if last else []
    return _finding(one, " ".join([text, trials, *shown]), {**statistics, "claims": 0})


def _finding(one: ClaimVerdicts, text: str, statistics: Mapping[str, Any], **more: Any) -> Finding:
    return Finding(
        study=one.study,
        question="verdict",
        response="",
        title="Verdicts on the claims",
        statements=text,
        statistics=plain(statistics),
        **more,
    )


def _of_claims(one: ClaimVerdicts) -> Finding:
    counts, rows = counted(one.judged), one.by_condition()
    worst = overall([judged.verdict for judged in one.judged])
    why = explanation_text.text(worst.explanation)
    ordered = dict(reversed(counts.items()))
    tables = [Table(_COUNTED, [[name, number, explanation_text.MEANINGS[name]] for name, number in ordered.items()])]
    if warned := [row for row in rows if row.worst.severity == "warning"]:
        tables.append(Table(_WORST, [_explained(row) for row in _worst_first(warned)[:_MOST_EXPLAINED]]))
    listed = rows if len(rows) <= _MOST_ROWS else _worst_first(rows)[:_MOST_ROWS]
    tables.append(Table(_EACH, [_compared(row) for row in listed]))
    left = f" The table has the {_MOST_ROWS} worst of {len(rows)} rows." if len(rows) > _MOST_ROWS else ""
    statistics = {
        "contradicted": counts.get(CONTRADICTED, 0),
        "witnessed_trials": one.witnessed,
        "claims": len(one.judged),
        "categories": ordered,
        "worst": {"category": worst.category, "reason": worst.reason, "explanation": why},
        "rows": [_numbers(row) for row in rows],
    }
    text = f"{_statement(one)}{left}"
    return _finding(one, text, statistics, tables=tables, severity=severity_of(worst.category))


def _worst_first(rows: Sequence[ConditionVerdicts]) -> list[ConditionVerdicts]:
    return sorted(rows, key=lambda row: -rank(row.worst))


def _statement(one: ClaimVerdicts) -> str:
    """Of the claims about I/O; others are only counted, unless there is nothing else."""
    judged, others = one.of_io, len(one.judged) - len(one.of_io)
    counts = counted(judged)
    worst = overall([claim.verdict for claim in judged])
    total = phrases.count(len(judged), "claim") + (" about I/O" if others else "")
    kinds = phrases.listed([f"{number} {category}" for category, number in counts.items()], most=len(CATEGORIES))
    text = [f"The kernel confirms {one.true - one.by_drive} of {total}: {kinds}."]
    if one.by_drive:
        text.append(f"The drive's own counts confirm {one.by_drive}, whose path the kernel does not see.")
    if others:
        text.append(f"{others} more {'is' if others == 1 else 'are'} not about I/O ({UNSUPPORTED}).")
    if worst.category == CATEGORIES[0]:
        return " ".join(text)
    first = next(claim for claim in judged if claim.verdict is worst)
    text.append(f"The worst is {worst.category} ({first.condition}, {first.claim}).")
    return " ".join([*text, explanation_text.text(worst.explanation)])


def _numbers(row: ConditionVerdicts) -> dict[str, Any]:
    worst = row.worst
    return {
        "condition": row.condition,
        "claim": row.claim,
        "trials": len(row.members),
        "category": worst.category,
        "reason": worst.reason,
        "numbers": dict(worst.numbers),
    }


def _compared(row: ConditionVerdicts) -> list[Any]:
    """A row of `_EACH`; the numbers are those of the worst repetition."""
    worst = row.worst
    claimed, seen, difference = _sides(worst)
    shown = None if difference is None else float(f"{difference:.3g}")
    return [row.condition, row.claim, len(row.members), claimed, seen, shown, worst.category, worst.reason]


def _explained(row: ConditionVerdicts) -> list[Any]:
    """A row of `_WORST`."""
    worst = row.worst
    same = sum(one.category == worst.category for one in row.members)
    of = f"{same} of {len(row.members)}"
    return [worst.category, worst.reason, row.condition, row.claim, of, explanation_text.text(worst.explanation)]


def _sides(verdict: Verdict) -> tuple[str | None, str | None, float | None]:
    """Claimed, seen, and the difference in percent: of the rate where it was timed, else of bytes or operations."""
    numbers, claim = verdict.numbers, verdict.claim
    seconds = numbers.get("seen_seconds")
    claimed_s = claimed_seconds(claim) if claim is not None else None
    if claim is not None and claim.bytes and claimed_s and seconds and numbers.get("seen_bytes"):
        rates = claim.bytes / claimed_s, numbers["seen_bytes"] / seconds
        return format_rate(rates[0]), format_rate(rates[1]), (rates[1] / rates[0] - 1) * 100
    for name, shown in (("bytes", format_size), ("operations", format_count)):
        claimed, seen = numbers.get(f"claimed_{name}"), numbers.get(f"seen_{name}")
        if verdict.reason == BY_DEVICE:  # its calls were not seen, its requests were
            seen = numbers.get("device_bytes") if name == "bytes" else numbers.get("device_requests")
        if verdict.reason == BY_DRIVE:
            seen = numbers.get(f"drive_{name}")
        if claimed is not None:
            difference = (seen / claimed - 1) * 100 if seen is not None and claimed else None
            return shown(claimed), shown(seen) if seen is not None else None, difference
    return None, None, None
