"""Threats to the validity of the results: all that the records themselves show, each with its evidence.

The checks are in three files: of the numbers (`data_threats.py`), of the machine (`machine_threats.py`) and of what
trials ran under (`run_condition_threats.py`). What a driver or the host check reported when they ran are warnings of
the records, and repeated here only where they decide what may be compared.
"""

from __future__ import annotations

from ioassay.analysis.threats import data_threats, machine_threats, run_condition_threats
from ioassay.analysis.threats.threat import Context, Threat
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

CHECKS = (
    data_threats.failed,
    data_threats.incomplete,
    data_threats.few_repetitions,
    run_condition_threats.in_memory,
    machine_threats.buffered,
    machine_threats.cached,
    data_threats.unstable,
    data_threats.drifting,
    data_threats.unsteady,
    data_threats.short,
    data_threats.saturated,
    run_condition_threats.narrowed,
    run_condition_threats.other_work,
    run_condition_threats.debug_build,
    run_condition_threats.uncalibrated,
    run_condition_threats.late,
    run_condition_threats.faulty,
    machine_threats.busy_device,
    machine_threats.machines,
    machine_threats.interrupted,
    data_threats.stopped_early,
)
"""In the order of the report."""
OF_COMPUTED = (data_threats.failed, data_threats.incomplete, data_threats.stopped_early)
"""Where nothing was measured. Warnings of a simulation itself are among the warnings of its records."""


def analyse(records: Dataset, study: Study) -> list[Threat]:
    """All threats to one study."""
    context = Context(records, study)
    checks = CHECKS if records.is_measured(study) else OF_COMPUTED
    return [threat for check in checks for threat in check(context)]
