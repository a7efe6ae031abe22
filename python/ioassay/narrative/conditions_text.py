"""Can the numbers be trusted? Whether the machine was quiet enough, and what the kernel says of the tools' claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ioassay.analysis import claim_verdicts, machine_conditions
from ioassay.analysis.claim_verdicts import ClaimVerdicts, ConditionVerdicts, Outcome, Unclaimed, counted
from ioassay.analysis.machine_conditions import Conditions, Disturbance, Grade
from ioassay.narrative.explanation_text import sentence, text
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.say import Say, say, templates
from ioassay.stats.result import plain
from ioassay.units import format_count, format_rate, format_size
from ioassay.verify.judge import overall, traffic
from ioassay.verify.session_times import claimed_seconds
from ioassay.verify.verdict import (
    BY_DEVICE,
    BY_DRIVE,
    CONFIRMED,
    CONTRADICTED,
    HEADED,
    TRUE_CLAIMS,
    UNSUPPORTED,
    Verdict,
    compared,
    rank,
    severity_of,
)

if TYPE_CHECKING:
    from ioassay.store.dataset import Dataset

GRADES = {grade: grade.name.lower() for grade in Grade}


@dataclass(frozen=True)
class Trust:
    """Two judgements of a run, a line each; empty where there is nothing to judge."""

    grade: Grade
    conditions: str
    claims: str
    contradicted: int = 0
    """Number of claims."""


def finding(one: Conditions) -> Finding:
    severity = "info" if one.grade == Grade.FIT else "warning"
    title = str(say("conditions.title"))
    return Finding(title=title, statements=statements(one), statistics=as_dict(one), severity=severity)


def as_dict(one: Conditions) -> dict[str, Any]:
    return dict(plain({**asdict(one), "grade": GRADES[one.grade]}))


def statements(one: Conditions) -> list[Say]:
    """The grade, then what disturbed most and what to do about it."""
    if one.disturbance is None:
        return [say("conditions.fit"), say("conditions.others", share=one.others_share)]
    code = "conditions.grade_on" if one.hosts else "conditions.grade_in" if one.trials > 1 else "conditions.grade"
    number = one.unfit if one.grade == Grade.UNFIT else one.unfit + one.doubtful
    grade = say(code, grade=GRADES[one.grade], number=number, of=one.trials, hosts=one.hosts)
    return [grade, cause(one), say(f"conditions.remedy_{one.disturbance}")]


def line(one: Conditions) -> str:
    """`Conditions: unfit in 24 of 30 trials. Other programs (rustc) used 62 % …. Stop them, or …`."""
    return " ".join(map(str, statements(one)))


def cause(one: Conditions) -> Say:
    """What disturbed most; `one` was disturbed."""
    unnamed = one.disturbance == Disturbance.PROGRAMS and not one.programs
    code = f"conditions.{one.disturbance}{'_unnamed' if unnamed else ''}"
    return say(code, value=one.value, programs=one.programs, devices=one.devices)


def withheld(one: Conditions) -> Say:
    """What stands in the place of a conclusion."""
    return say("conditions.withheld", number=one.unfit, of=one.trials)


def trust(records: Dataset) -> Trust | None:
    """The trust lines of a run; None where nothing was measured."""
    if not (measured := [study for study in records.studies if records.is_measured(study)]):
        return None
    conditions = machine_conditions.of_run(records)
    verdicts = [one for study in measured for one in claim_verdicts.analyse(records, study)]
    return Trust(
        conditions.grade if conditions else Grade.FIT,
        line(conditions) if conditions else str(say("conditions.unknown")),
        " ".join(map(str, _claims(verdicts))),
        sum(one.contradicted for one in verdicts),
    )


def _claims(verdicts: Sequence[ClaimVerdicts]) -> list[Say]:
    """`Claims: the kernel confirms 96 of 96.`"""
    if not (judged := [one for one in verdicts if one.outcome == Outcome.JUDGED]):
        unwitnessed = any(one.outcome == Outcome.UNWITNESSED for one in verdicts)
        return [say("conditions.unwitnessed")] if unwitnessed else []
    total, true = sum(len(one.of_io) for one in judged), sum(one.true for one in judged)
    drive, contradicted = sum(one.by_drive for one in judged), sum(one.contradicted for one in judged)
    code = "conditions.claims_drive" if drive else "conditions.claims"
    confirmed = say(code, kernel=true - drive, of=total, drive=drive)
    rest = {"contradicted": contradicted, "unjudged": total - true - contradicted}
    parts = [say(f"conditions.{name}", number=number) for name, number in rest.items() if number]
    held = [claim.verdict for one in judged for claim in one.of_io if claim.verdict.category in TRUE_CLAIMS]
    missing = [say(f"explanation.match_{name}") for name in HEADED if name in compared(held).unjudged]
    found = [confirmed, *([say("conditions.claims_rest", parts=parts)] if parts else [])]
    return [*found, *([say("conditions.claims_unjudged", names=missing)] if missing else [])]


# Verdicts


_MOST_EXPLAINED, _MOST_ROWS = 10, 120


def claims_finding(one: ClaimVerdicts | Unclaimed) -> Finding:
    """That of a study that measured, or of all whose tool claims no I/O."""
    if isinstance(one, Unclaimed):
        said = [say("verdict.all_unclaimed", tools=one.tools), say("verdict.witnessed", trials=one.witnessed)]
        numbers = {"studies": list(one.studies), "tools": list(one.tools), "witnessed_trials": one.witnessed}
        return Finding(title=str(say("verdict.title_unclaimed")), statements=said, statistics=numbers)
    title = str(say("verdict.title"))
    if one.outcome == Outcome.JUDGED:
        severity = severity_of(overall([claim.verdict for claim in one.judged]).category)
        tables, said = [*_tables(one)], [*_of_claims(one)]
        return Finding(title=title, statements=said, statistics=_statistics(one), tables=tables, severity=severity)
    said = [say(f"verdict.{one.outcome}")]
    if one.outcome == Outcome.UNCLAIMED:
        said.append(say("verdict.witnessed", trials=one.witnessed))
    if one.unclaimed is not None:
        said.append(say("verdict.last", seen=[sentence(part) for part in traffic(one.unclaimed)]))
    claims = {} if one.outcome == Outcome.UNWITNESSED else {"claims": 0}
    statistics = {"contradicted": 0, "witnessed_trials": one.witnessed, **claims}
    return Finding(title=title, statements=said, statistics=statistics)


def _of_claims(one: ClaimVerdicts) -> Iterator[Say]:
    """Of the claims about I/O; others are only counted, unless there is nothing else."""
    kinds = [say("verdict.kind", number=number, category=name) for name, number in counted(one.of_io).items()]
    others = len(one.judged) - len(one.of_io)
    code = "verdict.confirmed_io" if others else "verdict.confirmed"
    yield say(code, true=one.true - one.by_drive, of=len(one.of_io), kinds=kinds)
    if one.by_drive:
        yield say("verdict.by_drive", number=one.by_drive)
    if others:
        yield say("verdict.others", number=others, category=UNSUPPORTED)
    worst = max(one.of_io, key=lambda claim: rank(claim.verdict))
    if worst.verdict.category != CONFIRMED:
        yield say("verdict.worst", category=worst.verdict.category, condition=worst.condition, claim=worst.claim)
        yield from map(sentence, worst.verdict.explanation)
    if (rows := len(one.by_condition())) > _MOST_ROWS:
        yield say("verdict.rows", shown=_MOST_ROWS, of=rows)


def _tables(one: ClaimVerdicts) -> Iterator[Table]:
    """How many claims have which verdict, the worst ones with their explanation, and all."""
    rows = one.by_condition()
    worst_first = sorted(rows, key=lambda row: -rank(row.worst))

    def alike(row: ConditionVerdicts) -> str:
        return f"{sum(one.category == row.worst.category for one in row.members)} of {len(row.members)}"

    yield Table.of(
        reversed(counted(one.judged).items()),
        ("Verdict", lambda count: count[0]),
        ("Claims", lambda count: count[1]),
        ("What it means", lambda count: templates("explanation")[count[0]]),
    )
    if warned := [row for row in worst_first if row.worst.severity == "warning"]:
        yield Table.of(
            warned[:_MOST_EXPLAINED],
            ("Verdict", lambda row: row.worst.category),
            ("Reason", lambda row: row.worst.reason),
            ("Condition", lambda row: row.condition),
            ("Claim", lambda row: row.claim),
            ("Trials", alike),
            ("Explanation", lambda row: text(row.worst.explanation)),
        )
    yield Table.of(
        [(row, *_sides(row.worst)) for row in (rows if len(rows) <= _MOST_ROWS else worst_first[:_MOST_ROWS])],
        ("Condition", lambda row: row[0].condition),
        ("Claim", lambda row: row[0].claim),
        ("Trials", lambda row: len(row[0].members)),
        ("Claimed", lambda row: row[1]),
        ("Seen", lambda row: row[2]),
        ("Difference in %", lambda row: None if row[3] is None else float(f"{row[3]:.3g}")),
        ("Verdict", lambda row: row[0].worst.category),
        ("Reason", lambda row: row[0].worst.reason),
    )


def _statistics(one: ClaimVerdicts) -> dict[str, Any]:
    counts, worst = counted(one.judged), overall([judged.verdict for judged in one.judged])
    rows = []
    for row in one.by_condition():
        claim = {"condition": row.condition, "claim": row.claim, "trials": len(row.members)}
        verdict = {"category": row.worst.category, "reason": row.worst.reason, "numbers": dict(row.worst.numbers)}
        rows.append({**claim, **verdict})
    return {
        "contradicted": counts.get(CONTRADICTED, 0),
        "witnessed_trials": one.witnessed,
        "claims": len(one.judged),
        "categories": dict(reversed(counts.items())),
        "worst": {"category": worst.category, "reason": worst.reason, "explanation": text(worst.explanation)},
        "rows": plain(rows),
    }


def _sides(verdict: Verdict) -> tuple[str | None, str | None, float | None]:
    """Claimed, seen, and the difference in percent: of the rate where it was timed, else of bytes or operations."""
    numbers, claim = verdict.numbers, verdict.claim
    seconds = numbers.get("seen_seconds")
    claimed_s = claimed_seconds(claim) if claim is not None else None
    if claim is not None and claim.bytes and claimed_s and seconds and numbers.get("seen_bytes"):
        rates = claim.bytes / claimed_s, numbers["seen_bytes"] / seconds
        return format_rate(rates[0]), format_rate(rates[1]), (rates[1] / rates[0] - 1) * 100
    for name, shown, requests in (("bytes", format_size, "bytes"), ("operations", format_count, "requests")):
        sources = {BY_DEVICE: f"device_{requests}", BY_DRIVE: f"drive_{name}"}
        claimed, seen = numbers.get(f"claimed_{name}"), numbers.get(sources.get(verdict.reason, f"seen_{name}"))
        if claimed is not None:
            difference = (seen / claimed - 1) * 100 if seen is not None and claimed else None
            return shown(claimed), shown(seen) if seen is not None else None, difference
    return None, None, None
