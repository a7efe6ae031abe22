"""What speaks against the results: every doubt that the records themselves raise, each with its evidence.

The checks are in three files: about the numbers (`doubts_data.py`), about the machine (`doubts_machine.py`) and about
what trials ran under (`doubts_conditions.py`). Doubts that a driver or the host check raised when they ran are warnings
of the records, and repeated here only where they decide what may be compared.
"""

from __future__ import annotations

from ioassay.analysis import asked, doubts_conditions, doubts_data, doubts_machine
from ioassay.analysis.doubt import Context, Doubt
from ioassay.analysis.finding import Finding
from ioassay.analysis.remember import remembered
from ioassay.analysis.statistics.result import plain
from ioassay.record import RecordSet

CHECKS = (
    doubts_data.failed,
    doubts_data.incomplete,
    doubts_data.few_repetitions,
    doubts_machine.buffered,
    doubts_machine.cached,
    doubts_data.unstable,
    doubts_data.drifting,
    doubts_data.unsteady,
    doubts_data.short,
    doubts_data.saturated,
    doubts_conditions.narrowed,
    doubts_conditions.other_work,
    doubts_machine.busy_device,
    doubts_machine.stolen,
    doubts_machine.contended,
    doubts_machine.virtual,
    doubts_machine.governor,
    doubts_machine.clock,
    doubts_machine.interrupted,
    doubts_data.stopped_early,
)
"""In the order of the report."""
OF_COMPUTED = (doubts_data.failed, doubts_data.incomplete, doubts_data.stopped_early)
"""Where nothing was measured. What a simulation doubts itself is among the warnings of its records."""


def analyse(records: RecordSet, study: asked.Study) -> list[Finding]:
    """One finding for each doubt."""
    return [_finding(study, doubt) for doubt in doubts(records, study)]


@remembered
def doubts(records: RecordSet, study: asked.Study) -> list[Doubt]:
    """All doubts about one study."""
    context = Context(records, study)
    checks = CHECKS if asked.is_measured(study) else OF_COMPUTED
    return [doubt for check in checks for doubt in check(context)]


def _finding(study: asked.Study, doubt: Doubt) -> Finding:
    return Finding(
        study=str(study["name"]),
        question="caveats",
        response=doubt.response,
        title=doubt.title,
        statement=doubt.text,
        statistics={"code": doubt.code, **plain(doubt.evidence)},
        caveats=[f"Next step: {doubt.remedy}"] if doubt.remedy else [],
        severity=doubt.severity,
    )
