"""The sentences and the table of what each access path costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioassay.analysis.storage.path_costs import PARTS, Cost, PathCosts, Setting
from ioassay.factors import CASE
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.units import format_ns

SETTINGS = {
    Setting.SUBSYSTEM: (
        "All engines loaded the same NVMe/TCP subsystem: the kernel's its block device, SPDK the subsystem itself."
    ),
    Setting.NVMEVIRT: (
        "The kernel's engines loaded one drive of NVMeVirt. "
        "SPDK did not: it would take the drive from the kernel (vfio-pci or uio), which ioassay does not do."
    ),
    Setting.TRANSPORTS: (
        "The engines reached the same drive by different transports: the kernel's by a file (FUSE), SPDK by NVMe/TCP. "
        "Every difference below includes that of the transports."
    ),
}
"""The first line of the page of a study of access paths."""
_COLUMNS = (
    "Condition",
    "Trials",
    "Mean latency",
    "Submission",
    "Drive",
    "Transport",
    "Completion and waiting",
    "CPU time, tool",
    "CPU time, drive",
    "Context switches",
)
_CAVEATS = (
    "Submission: the tool's own (slat). Engines that submit and complete in one call have none apart.",
    "Drive: from a request's arrival at the drive to its answer.",
    "Transport: the round trip of a client that only spins, measured before each trial.",
    "Completion and waiting: the rest, with wake-ups, interrupts and queues outside the drive.",
    "CPU time, drive: its process polls, so that this is mostly the time between requests.",
)
_SUBJECTS = {
    "submission": "Submission takes",
    "device": "The drive takes",
    "transport": "The transport takes",
    "completion": "Completion and waiting take",
}
_MOST_ROWS = 120
_FEW = 9


def findings(answers: Sequence[PathCosts]) -> list[Finding]:
    """One finding for each study."""
    return [_finding(one) for one in answers]


def setting_sentence(setting: Setting) -> str:
    """What the engines have in common."""
    return SETTINGS[setting]


def _finding(one: PathCosts) -> Finding:
    text = [setting_sentence(one.setting), *_extremes(one.costs)]
    if one.uncounted:
        listed = phrases.listed(list(one.uncounted), _FEW)
        text.append(f"Nothing is taken apart where the drive did not count the claimed requests: {listed}.")
    return Finding(
        study=one.study,
        question="costs",
        response="",
        title="A request's time by part, and its CPU time",
        statements=text,
        statistics=one.statistics(),
        tables=[Table(_COLUMNS, [_row(cost) for cost in one.costs[:_MOST_ROWS]])] if one.costs else [],
        caveats=_CAVEATS,
    )


def _extremes(costs: Sequence[Cost]) -> list[str]:
    """For each part the cases with the smallest and the largest mean over all conditions that both share."""
    text = []
    for part in PARTS:
        means = _means(costs, part)
        if len(means) < 2:
            continue
        low, high = min(means, key=lambda case: means[case]), max(means, key=lambda case: means[case])
        if format_ns(means[low]) == format_ns(means[high]):
            text.append(f"{_SUBJECTS[part]} {format_ns(means[low])} of a request with every case.")
            continue
        values = [f"{format_ns(means[case])} ({case})" for case in (low, high)]
        text.append(f"{_SUBJECTS[part]} {values[0]} to {values[1]} of a request, on average over the conditions.")
    return text


def _means(costs: Sequence[Cost], part: str) -> dict[str, float]:
    """Case -> mean of the part over its conditions, of cases that have it in as many conditions as any other."""
    found: dict[str, list[float]] = {}
    for cost in costs:
        if (value := cost.parts().get(part)) is not None:
            found.setdefault(str(cost.point[CASE]), []).append(value)
    most = max(map(len, found.values()), default=0)
    return {case: sum(values) / most for case, values in found.items() if len(values) == most}


def _row(cost: Cost) -> list[Any]:
    parts = cost.parts()
    times = [cost.total_ns, *(parts.get(part) for part in PARTS), cost.client_ns, cost.server_ns]
    switches = None if cost.switches is None else float(f"{cost.switches:.2g}")
    return [cost.label, cost.trials, *(None if time is None else format_ns(time) for time in times), switches]
