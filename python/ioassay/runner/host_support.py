"""What this host can do for a study, found out by trying: run conditions, and the trials that a suite will skip.

Whether the host is fit to measure is `doctor`'s question. Nothing is loaded: conditions are tried on a program that
does nothing, and tools are asked what they cannot do here.
"""

from __future__ import annotations

from pathlib import Path

from ioassay.errors import ConditionError, ToolError
from ioassay.records.record import Warning_
from ioassay.roles import Consent
from ioassay.runner import conditions, preflight
from ioassay.runner.conditions import Conditions
from ioassay.study import catalog

_TRIED = (
    Conditions(scheduler="fifo:1"),
    Conditions(nice=-1),
    Conditions(cpu_limit=0.5),
    Conditions(memory_limit=2**26),
)
_NOT_RUN = ("will-be-skipped", "condition-unavailable")
_SCHEDULER = "proc/sys/kernel/sched_rt_{}_us"


def refused_conditions() -> list[Warning_]:
    """Conditions of `[run]` that this host refuses to this user."""
    found = []
    for wanted in _TRIED:
        try:
            conditions.rehearse(wanted)
        except ConditionError as error:
            found.append(Warning_("condition-unavailable", str(error)))
    return found


def skipped_trials(suite_name: str) -> list[Warning_]:
    """Why trials of a suite will be skipped here, by study; that a tool is missing is one of the reasons."""
    benches = preflight.assemble(catalog.load(suite_name), Consent())
    try:
        preflight.ready_tools(benches)
    except ToolError as error:
        return [Warning_("tool-missing", f"{suite_name}: {error}")]
    found = []
    for bench in benches:
        for warning in preflight.examine([bench]):
            if warning.code in _NOT_RUN:
                text = warning.text.removeprefix(f"{bench.study.name}: ")
                found.append(Warning_(warning.code, f"{bench.study.name}: {text}"))
    return found


def real_time_share(root: Path = Path("/")) -> float | None:
    """The share of a processor's time that real-time tasks may take while others wait; None where nobody says.

    Documentation/scheduler/sched-rt-group.rst: runtime of each period, of which -1 is no bound.
    """
    try:
        runtime_us, period_us = (int((root / _SCHEDULER.format(name)).read_text()) for name in ("runtime", "period"))
    except (OSError, ValueError):
        return None
    return 1.0 if runtime_us < 0 else runtime_us / period_us
