"""The words of the trust line: whether the machine was quiet enough, and whether the tools' claims are confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ioassay.analysis import claim_verdicts, machine_conditions
from ioassay.analysis.claim_verdicts import ClaimVerdicts, Outcome
from ioassay.analysis.machine_conditions import Conditions, Disturbance, Grade
from ioassay.narrative.finding import Finding
from ioassay.narrative.say import Say, say
from ioassay.stats.result import plain
from ioassay.verify.verdict import HEADED, TRUE_CLAIMS, compared

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
    """The finding of a study that measured."""
    severity = "info" if one.grade == Grade.FIT else "warning"
    title, numbers = "Conditions of the measurements", as_dict(one)
    return Finding(one.study, "conditions", "", title, statements(one), statistics=numbers, severity=severity)


def as_dict(one: Conditions) -> dict[str, Any]:
    """Plain JSON-able form."""
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
    measured = [study for study in records.studies if records.is_measured(study)]
    if not measured:
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
    judged = [one for one in verdicts if one.outcome == Outcome.JUDGED]
    if not judged:
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
