"""The words of the trust line: whether the machine was quiet enough, and whether the tools' claims are confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ioassay.analysis import machine_conditions
from ioassay.analysis.claims import claim_verdicts
from ioassay.analysis.claims.claim_verdicts import ClaimVerdicts, Outcome
from ioassay.analysis.machine_conditions import Conditions, Disturbance, Grade
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding
from ioassay.stats.result import plain
from ioassay.store.dataset import Dataset

CAUSES = {
    Disturbance.PROGRAMS: "Other programs{programs} used {percent} of the CPU time.",
    Disturbance.STEAL: "The hypervisor took {percent} of the CPU time.",
    Disturbance.DEVICE: "Other programs moved {percent} of the bytes of {devices}.",
    Disturbance.MEMORY: "Tasks waited for memory in {percent} of the time.",
    Disturbance.THROTTLED: "Processors were slowed down because they were too hot.",
    Disturbance.CLOCK: "The processors ran at {percent} of their highest frequency.",
}
REMEDIES = {
    Disturbance.PROGRAMS: "Stop them, or repeat the run with --wait-quiet.",
    Disturbance.STEAL: "Measure at a quieter time or on another host.",
    Disturbance.DEVICE: "Stop what uses the device, or measure on another one.",
    Disturbance.MEMORY: "Free memory, or measure with less of it.",
    Disturbance.THROTTLED: "Cool the machine, or add run.cooldown.",
    Disturbance.CLOCK: "Set the governor to performance (run.governor).",
}
GRADES = {Grade.FIT: "fit", Grade.DOUBTFUL: "doubtful", Grade.UNFIT: "unfit"}
UNKNOWN = "Conditions: not recorded."
WITHHELD = "No conclusion is drawn: the machine was not quiet enough in {trials}."


@dataclass(frozen=True)
class Trust:
    """Two judgements of a run, a line each; empty where there is nothing to judge."""

    grade: Grade
    conditions: str
    claims: str
    contradicted: int = 0
    """Number of claims."""


def findings(answers: Sequence[Conditions]) -> list[Finding]:
    """One finding for a study that measured."""
    return [
        Finding(
            study=one.study,
            question="conditions",
            response="",
            title="Conditions of the measurements",
            statements=line(one),
            statistics=as_dict(one),
            severity="info" if one.grade == Grade.FIT else "warning",
        )
        for one in answers
    ]


def as_dict(one: Conditions) -> dict[str, Any]:
    """Plain JSON-able form."""
    return dict(plain({**asdict(one), "grade": GRADES[one.grade]}))


def line(one: Conditions) -> str:
    """`Conditions: unfit in 24 of 30 trials. Other programs (rustc) used 62 % …. Stop them, or …`."""
    if one.disturbance is None:
        others = phrases.percent(one.others_share)
        return f"Conditions: fit. Other programs used {others} of the CPU time."
    number = one.unfit if one.grade == Grade.UNFIT else one.unfit + one.doubtful
    places = GRADES[one.grade] + (f" in {number} of {one.trials} trials" if one.trials > 1 else "")
    if one.hosts:
        places += f", most of all on {phrases.hosts(one.hosts)}"
    return f"Conditions: {places}. {cause(one)} {REMEDIES[one.disturbance]}"


def cause(one: Conditions) -> str:
    """What disturbed most, a sentence; `one` was disturbed."""
    assert one.disturbance is not None
    programs = f" ({phrases.listed(list(one.programs), most=9)})" if one.programs else ""
    return CAUSES[one.disturbance].format(
        programs=programs, percent=phrases.percent(one.value), devices=phrases.listed(list(one.devices), most=3)
    )


def withheld(one: Conditions) -> str:
    """What stands in the place of a conclusion."""
    return WITHHELD.format(trials=f"{one.unfit} of {phrases.count(one.trials, 'trial')}")


def trust(records: Dataset) -> Trust | None:
    """The trust lines of a run; None where nothing was measured."""
    measured = [study for study in records.studies if records.is_measured(study)]
    if not measured:
        return None
    conditions = machine_conditions.of_run(records)
    verdicts = [one for study in measured for one in claim_verdicts.analyse(records, study)]
    return Trust(
        conditions.grade if conditions else Grade.FIT,
        line(conditions) if conditions else UNKNOWN,
        claims(verdicts),
        sum(one.contradicted for one in verdicts),
    )


def claims(verdicts: Sequence[ClaimVerdicts]) -> str:
    """`Claims: the kernel confirms 96 of 96.`"""
    judged = [one for one in verdicts if one.outcome == Outcome.JUDGED]
    if not judged:
        unwitnessed = any(one.outcome == Outcome.UNWITNESSED for one in verdicts)
        return "Claims: not verified, since no trial was witnessed." if unwitnessed else ""
    total, true = sum(len(one.of_io) for one in judged), sum(one.true for one in judged)
    by_drive = sum(one.by_drive for one in judged)
    contradicted = sum(one.contradicted for one in judged)
    text = [f"Claims: the kernel confirms {true - by_drive} of {total}"]
    text += [f"the drive's counts {by_drive} more"] if by_drive else []
    counts = {"contradicted": contradicted, "neither confirmed nor contradicted": total - true - contradicted}
    others = [f"{count} {'is' if count == 1 else 'are'} {words}" for words, count in counts.items() if count]
    sentences = [", ".join(text), *([phrases.listed(others)] if others else [])]
    return " ".join(f"{sentence}." for sentence in sentences)
