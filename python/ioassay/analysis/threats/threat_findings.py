"""What speaks against the results: every doubt that the records themselves raise, each with its evidence.

The checks are in three files: about the numbers (`data_threats.py`), about the machine (`machine_threats.py`) and about
what trials ran under (`run_condition_threats.py`). Doubts that a driver or the host check raised when
they ran are warnings
of the records, and repeated here only where they decide what may be compared.
"""

from __future__ import annotations

from ioassay.analysis.measurements.memo import memoized
from ioassay.analysis.threats import data_threats, machine_threats, run_condition_threats
from ioassay.analysis.threats.threat import Context, Threat
from ioassay.narrative.finding import Finding
from ioassay.stats.result import plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

CHECKS = (
    data_threats.failed,
    data_threats.incomplete,
    data_threats.few_repetitions,
    machine_threats.buffered,
    machine_threats.cached,
    data_threats.unstable,
    data_threats.drifting,
    data_threats.unsteady,
    data_threats.short,
    data_threats.saturated,
    run_condition_threats.narrowed,
    run_condition_threats.other_work,
    machine_threats.busy_device,
    machine_threats.stolen,
    machine_threats.contended,
    machine_threats.virtual,
    machine_threats.governor,
    machine_threats.clock,
    machine_threats.interrupted,
    data_threats.stopped_early,
)
"""In the order of the report."""
OF_COMPUTED = (data_threats.failed, data_threats.incomplete, data_threats.stopped_early)
"""Where nothing was measured. What a simulation doubts itself is among the warnings of its records."""


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding for each doubt."""
    return [_finding(study, doubt) for doubt in threats(records, study)]


@memoized
def threats(records: Dataset, study: Study) -> list[Threat]:
    """All doubts about one study."""
    context = Context(records, study)
    checks = CHECKS if records.is_measured(study) else OF_COMPUTED
    return [doubt for check in checks for doubt in check(context)]


def _finding(study: Study, doubt: Threat) -> Finding:
    return Finding(
        study=study.name,
        question="caveats",
        response=doubt.response,
        title=doubt.title,
        statement=doubt.text,
        statistics={"code": doubt.code, **plain(doubt.evidence)},
        caveats=[f"Next step: {doubt.remedy}"] if doubt.remedy else [],
        severity=doubt.severity,
    )
