"""All findings of a run: every study, every question that it asks, in report order.

A question that has nothing to say of a study returns no findings. An error in an analysis is an error: nothing is
caught here, because analyses have an outcome for degenerate data.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ioassay import debug_log, registry
from ioassay.analysis import OVERALL, REGISTRY, machine_conditions, questions_of
from ioassay.analysis.machine_conditions import Conditions, Grade
from ioassay.errors import Interrupted, StudyError
from ioassay.narrative import NARRATORS, conditions_text
from ioassay.narrative.finding import Finding
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

ALWAYS = ("conditions", "verdict")
_OBSERVATIONS = ("conditions", "verdict", "describe", "stability", "calls", "caveats", "unclaimed")
"""Questions of the core that conclude nothing of how fast something is."""


def concludes(question: str) -> bool:
    """Whether its findings are withheld, with their tables, where the machine was not fit to measure.

    What was only counted or measured stays: of packs and plugins the answers of a module with `CONCLUDES = False`.
    """
    if question in NARRATORS:
        return question not in _OBSERVATIONS
    return bool(getattr(REGISTRY.load(question), "CONCLUDES", True))


def analyse_all(records: Dataset) -> list[Finding]:
    """Those of each study in their order, between those about the run as a whole; StudyError for an unknown question.

    A table of all studies stands before them, a sentence about all behind.
    """
    each = [finding for study in records.studies for finding in analyse_study(records, study)]
    conditions = machine_conditions.of_run(records)
    overall = [
        finding
        for question, path in OVERALL.items()
        for finding in _said(question, importlib.import_module(path).together(records), conditions)
    ]
    return [*(one for one in overall if one.tables), *each, *(one for one in overall if not one.tables)]


def analyse_study(records: Dataset, study: Study) -> list[Finding]:
    """Findings of one study."""
    findings: list[Finding] = []
    conditions = next(iter(machine_conditions.analyse(records, study)), None)
    for question in questions(study):
        if question not in NARRATORS:
            findings += _in_own_words(question, records, study, conditions)
            continue
        answers = REGISTRY.load(question).analyse(records, study)
        debug_log.debug("analysis", f"{study.name}: {question}: {len(answers)} answers")
        findings += _said(question, answers, conditions)
    return findings


def _said(question: str, answers: Sequence[Any], conditions: Conditions | None) -> list[Finding]:
    """The answers in words; no conclusion where the machine was not fit."""
    module, _, function = NARRATORS[question].partition(":")
    words = importlib.import_module(module)
    narrated = [getattr(words, function)(one) for one in answers] if function else list(words.findings(answers))
    if conditions is None or conditions.grade < Grade.UNFIT:
        return narrated
    held = [concludes(question) or finding.concludes for finding in narrated]
    return [_withheld(one, conditions) if hold else one for one, hold in zip(narrated, held, strict=True)]


def _in_own_words(question: str, records: Dataset, study: Study, conditions: Conditions | None) -> list[Finding]:
    """The findings of an analysis of a pack or a plugin; where a plugin's fails, one that says so.

    They are withheld as `concludes` says, or as a finding says itself.
    """
    entry = REGISTRY.load(question)
    try:
        answers = [replace(finding, study=study.name, question=question) for finding in entry.analyse(records, study)]
        for finding in answers:
            json.dumps(finding.as_dict())
    except Exception as error:
        source = next((one.plugin.source for one in REGISTRY.plugins() if one.plugin.name == question), "")
        if isinstance(error, Interrupted) or not source:
            raise
        said = registry.fault(error) or f"it returned no findings that can be stored: {error}"
        failed = f"The analysis '{question}' of {source} failed: {said}."
        return [Finding(study.name, question, "", "The analysis failed", failed, severity="warning")]
    if conditions is None or conditions.grade < Grade.UNFIT:
        return answers
    return [_withheld(one, conditions) if concludes(question) or one.concludes else one for one in answers]


def _withheld(finding: Finding, unfit: Conditions) -> Finding:
    reason = conditions_text.withheld(unfit)
    tables = [table for table in finding.tables if table.observed]
    kept = replace(finding, details=(), statistics={}, tables=tables, severity="warning", withheld=str(reason))
    return replace(kept, statements=[reason, *finding.omissions])


def questions(study: Study) -> Sequence[str]:
    """The questions of a study in report order; all where it names none.

    The conditions and the verdict on the claims are always asked: all other answers rest on them.
    """
    listed = questions_of(study) or list(REGISTRY)
    for question in listed:
        if why := REGISTRY.refusal(question):
            raise StudyError(why, source=study.name, key="analysis.questions")
    return [question for question in REGISTRY if question in listed or question in ALWAYS]
