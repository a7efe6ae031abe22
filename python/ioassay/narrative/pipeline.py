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
from ioassay.analysis.measurements.cells import offered_loads
from ioassay.errors import Interrupted, StudyError
from ioassay.narrative import NARRATORS, conditions_text
from ioassay.narrative.finding import Finding
from ioassay.narrative.say import Quantity, say
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

    A table of all studies stands before them, a sentence about all behind. Studies whose machine was not fit are left
    out of what is concluded of all.
    """
    each = [finding for study in records.studies for finding in analyse_study(records, study)]
    overall, unfit = list[Finding](), [one for one in records.studies if machine_conditions.is_unfit(records, one)]
    fit = [one for one in records.studies if one not in unfit]
    left_out = [say("conditions.left_out", studies=[one.name for one in unfit])] if unfit and fit else []
    for question, path in OVERALL.items():
        apart = left_out if concludes(question) else []
        asked = replace(records, studies=fit) if apart else records
        for one in _narrated(question, importlib.import_module(path).together(asked)):
            whole = replace(one, question=question, statements=[*one.statements, *apart])
            overall.append(_withheld(whole, machine_conditions.of_run(asked)))
    return [*(one for one in overall if one.tables), *each, *(one for one in overall if not one.tables)]


def analyse_study(records: Dataset, study: Study) -> list[Finding]:
    findings: list[Finding] = []
    conditions = next(iter(machine_conditions.analyse(records, study)), None)
    for question in questions(study):
        found = _asked(question, records, study)
        debug_log.debug("analysis", f"{study.name}: {question}: {len(found)} findings")
        findings += (_withheld(one, conditions) for one in found)
    beyond = [load for load in offered_loads(records, study).values() if load.saturated]
    if findings and beyond and not records.driver(study).counts_from_arrival:
        served, offered = (Quantity(beyond[0].metric, rate) for rate in (beyond[0].served, beyond[0].offered))
        said = say("load.beyond", places=beyond, served=served, offered=offered)
        findings[0] = replace(findings[0], premises=[*findings[0].premises, said])
    return findings


def _asked(question: str, records: Dataset, study: Study) -> list[Finding]:
    """What a question says of a study; where the analysis of a plugin fails, one that says so."""
    entry = REGISTRY.load(question)
    try:
        answers = entry.analyse(records, study)
        found = _narrated(question, answers) if question in NARRATORS else answers
        stamped = [replace(one, study=study.name, question=question) for one in found]
        for finding in stamped if question not in REGISTRY.own else ():
            json.dumps(finding.as_dict())
        return stamped
    except Exception as error:
        source = next((one.plugin.source for one in REGISTRY.plugins() if one.plugin.name == question), "")
        if isinstance(error, Interrupted) or not source:
            raise
        fault = registry.fault(error) or say("plugins.no_findings", error=error)
        said, title = say("plugins.failed", question=question, source=source, fault=fault), str(say("plugins.title"))
        return [Finding(study.name, question, title=title, statements=[said], severity="warning")]


def _narrated(question: str, answers: Sequence[Any]) -> Sequence[Finding]:
    module, _, function = NARRATORS[question].partition(":")
    words = importlib.import_module(module)
    return [getattr(words, function)(one) for one in answers] if function else words.findings(answers)


def _withheld(finding: Finding, conditions: Conditions | None) -> Finding:
    """Without its conclusion where the machine was not fit, as its question says (`concludes`), or itself."""
    if conditions is None or conditions.grade < Grade.UNFIT or not (concludes(finding.question) or finding.concludes):
        return finding
    reason = conditions_text.withheld(conditions)
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
