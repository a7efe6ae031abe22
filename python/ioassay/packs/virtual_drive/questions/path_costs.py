"""What does each access path cost? A request's mean time taken apart, and the CPU time of both ends.

For studies of cases on a drive that counts for itself. The parts of a trial add up to the tool's mean latency, by
definition: what overlaps is counted once, in the order submission, device, transport. The repetitions' means are
averaged; no test is made of parts, whose differences are those of the latencies that `alternatives` compares.
Deliberately not here: which case is best.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Any

from ioassay.analysis.measurements.cells import Cell, cells, label, plausible
from ioassay.factors import CASE
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.say import Quantity, Say, holding, say
from ioassay.packs.virtual_drive.questions.drive import SAME_PERCENT
from ioassay.records.record import Scalar
from ioassay.stats.result import plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

NAMES = {
    "submission": "submission",
    "device": "drive",
    "transport": "transport",
    "completion": "completion and waiting",
}
"""The parts in the order of the figure's bars, from zero, with their names there."""
_TIME = "read.lat.mean"
_MOST_ROWS = 120
_DIRECTIONS = ("read", "write")
_FORM = "target.form"
_OTHER_DRIVES = {"target.kind", "target.drive"}
"""Keys of cases that differ in what they load, not in the way to it."""
_RESPONSE = "total.iops"


class Setting(StrEnum):
    """What the engines of a study have in common, from the cleanest comparison to the least clean."""

    SUBSYSTEM = "one-subsystem"
    """The kernel's engines load the block device of the drive's NVMe/TCP subsystem, and SPDK the subsystem."""
    NVMEVIRT = "nvmevirt"
    TRANSPORTS = "several-transports"
    """The kernel's engines load a file (FUSE), the others sockets."""

    @property
    def code(self) -> str:
        """Of the sentence that says so."""
        return f"costs.{self.name.lower()}"


@dataclass(frozen=True)
class Cost:
    """A condition's means over `trials`, in ns a request except for `switches`; None for what was not measured.

    `submission_ns` is None of an engine that submits and completes in one call: `completion_ns` includes it.
    `client_ns` is CPU time of the tool, `server_ns` of the drive's process, which may poll.
    """

    point: Mapping[str, Scalar]
    trials: int
    total_ns: float
    submission_ns: float | None
    device_ns: float
    transport_ns: float | None
    completion_ns: float
    client_ns: float | None
    server_ns: float | None
    switches: float | None
    """Context switches of the tool a request."""

    @property
    def label(self) -> str:
        return label(self.point)

    def parts(self) -> dict[str, float]:
        """The parts that are known, by the names of `NAMES`."""
        known = {part: getattr(self, f"{part}_ns") for part in NAMES}
        return {part: value for part, value in known.items() if value is not None}


@dataclass(frozen=True)
class PathCosts:
    """All conditions of a study whose requests the drive counted as the tool did."""

    study: str
    setting: Setting
    costs: Sequence[Cost]
    uncounted: Sequence[str]
    """Conditions whose claims and drive differ by more than `SAME_PERCENT`: nothing is taken apart there."""

    def means(self, part: str) -> dict[str, float]:
        """Case -> mean of the part over its conditions, of cases that have it in as many conditions as any other."""
        found: dict[str, list[float]] = {}
        for cost in self.costs:
            if (value := cost.parts().get(part)) is not None:
                found.setdefault(str(cost.point[CASE]), []).append(value)
        most = max(map(len, found.values()), default=0)
        return {case: sum(values) / most for case, values in found.items() if len(values) == most}


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding for a study of cases on a drive that counts; none elsewhere."""
    return [finding(one) for one in path_costs(records, study)]


def path_costs(records: Dataset, study: Study) -> list[PathCosts]:
    where = setting(records, study)
    if where is None:
        return []
    costs, uncounted = costs_of(records, study, cells(records, study, _RESPONSE).cells)
    return [PathCosts(study.name, where, costs, uncounted)] if costs or uncounted else []


def premise(records: Dataset, study: Study) -> str | None:
    """The code of the sentence of what the engines have in common: the first line of the page of such a study."""
    where = setting(records, study)
    return None if where is None else where.code


def bars(
    records: Dataset, study: Study, chosen: Iterable[Cell]
) -> list[tuple[Mapping[str, Scalar], int, dict[str, float]]]:
    """What a chart of the costs shows: conditions, their trials, and the mean of each part in ns, by its name."""
    costs, _ = costs_of(records, study, chosen)
    return [(one.point, one.trials, {NAMES[part]: ns for part, ns in one.parts().items()}) for one in costs]


def setting(records: Dataset, study: Study) -> Setting | None:
    """What the engines have in common; None for a study without cases, of other drives, or of another target."""
    if CASE not in study.levels or study.target.kind not in ("virtual", "nvmevirt"):
        return None
    if any(_OTHER_DRIVES & case.keys() for case in study.case):
        return None
    if study.target.kind == "nvmevirt":
        return Setting.NVMEVIRT
    kernels = [case["name"] for case in study.case if _FORM in case]
    rows = (row for row in records.trials_of(study).iter_rows(named=True) if row[CASE] in kernels)
    seen = [found for row in rows if (found := row.get("drive.block_device")) is not None]
    return Setting.SUBSYSTEM if seen and all(seen) else Setting.TRANSPORTS


def costs_of(records: Dataset, study: Study, chosen: Iterable[Cell]) -> tuple[list[Cost], list[str]]:
    """The costs of conditions, and the labels of those whose requests the drive did not count as the tool did."""
    by_trial = {row["trial"]: row for row in records.trials_of(study).iter_rows(named=True)}
    found: list[Cost] = []
    uncounted = []
    for cell in chosen:
        rows = [by_trial[trial] for trial in cell.trials if trial in by_trial]
        counted = [parts for row in rows if (parts := _trial(row)) is not None]
        if counted:
            found.append(_mean(cell.point, counted))
        elif any(row.get("drive.block_device") is not None for row in rows):
            uncounted.append(cell.label)
    return found, uncounted


def _trial(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The costs of one trial; None where the drive served other requests than the tool claims."""
    ios = {way: row.get(f"{way}.ios") or 0.0 for way in _DIRECTIONS}
    requests = sum(ios.values())
    own = sum(row.get(f"drive.{way}.ios") or 0.0 for way in _DIRECTIONS)
    if not requests or abs(own - requests) > requests * SAME_PERCENT / 100:
        return None
    total, submission = _weighted(row, "{}.lat.mean", ios), _weighted(row, "{}.slat.mean", ios)
    device = _weighted(row, "drive.{}.lat.mean", ios)
    if total is None or device is None:
        return None
    submission = None if submission is None else min(submission, total)
    left = total - (submission or 0.0)
    device = min(device, left)
    left -= device
    floor = row.get("drive.floor")
    transport = min(floor, left) if floor is not None and plausible(floor) else None
    switches, used_percent, took_s = (row.get(name) for name in ("context_switches", "drive.cpu", "total.runtime"))
    return {
        "total_ns": total,
        "submission_ns": submission,
        "device_ns": device,
        "transport_ns": transport,
        "completion_ns": left - (transport or 0.0),
        "client_ns": row.get("cpu.per_io"),
        # Of a processor over the tool's run time: the drive's start and its end are no requests.
        "server_ns": None if used_percent is None or not took_s else used_percent / 100 * took_s / requests * 1e9,
        "switches": None if switches is None else switches / requests,
    }


def _weighted(row: Mapping[str, Any], name: str, ios: Mapping[str, float]) -> float | None:
    """The mean over reads and writes; None where one of them has none."""
    done = {way: count for way, count in ios.items() if count}
    values: list[Any] = [row.get(name.format(way)) for way in done]
    return None if None in values else fmean(values, done.values())


def _mean(point: Mapping[str, Scalar], trials: Sequence[Mapping[str, Any]]) -> Cost:
    """The means of `trials`; a part that one of them lacks is in the completion of all, as it is in that one's."""
    known = {name: [trial[name] for trial in trials] for name in trials[0]}
    means: dict[str, Any] = {name: None if None in own else fmean(own) for name, own in known.items()}
    for name in ("submission_ns", "transport_ns"):
        if means[name] is None:
            means["completion_ns"] += fmean(value or 0.0 for value in known[name])
    return Cost(point=point, trials=len(trials), **means)


def finding(one: PathCosts) -> Finding:
    table = Table.of(
        one.costs[:_MOST_ROWS],
        ("Condition", lambda cost: cost.label),
        ("Trials", lambda cost: cost.trials),
        ("Mean latency", lambda cost: cost.total_ns, _TIME),
        ("Submission", lambda cost: cost.submission_ns, _TIME),
        ("Drive", lambda cost: cost.device_ns, _TIME),
        ("Transport", lambda cost: cost.transport_ns, _TIME),
        ("Completion and waiting", lambda cost: cost.completion_ns, _TIME),
        ("CPU time, tool", lambda cost: cost.client_ns, _TIME),
        ("CPU time, drive", lambda cost: cost.server_ns, _TIME),
        ("Context switches", lambda cost: None if cost.switches is None else float(f"{cost.switches:.2g}")),
    )
    return Finding(
        title=str(say("costs.title")),
        statements=[*_statements(one)],
        premises=[say(one.setting.code)],
        statistics={name: plain(getattr(one, name)) for name in ("setting", "costs", "uncounted")},
        tables=[table] if one.costs else [],
        caveats=holding("costs", **{f"of_{part}": True for part in (*NAMES, "server")}),
    )


def _statements(one: PathCosts) -> Iterator[Say]:
    """The cases that a part costs least and most, first the part in which they differ most."""
    means = {part: sorted(one.means(part).items(), key=lambda item: item[1]) for part in NAMES}
    compared = {part: (own[0], own[-1]) for part, own in means.items() if len(own) > 1}
    for part, ends in sorted(compared.items(), key=lambda item: item[1][0][1] - item[1][1][1]):
        least, most = (say("costs.of_case", time=Quantity(_TIME, time), case=case) for case, time in ends)
        if f"{least.values['time']}" == f"{most.values['time']}":
            yield say("costs.part_alike", part=say(f"costs.{part}"), time=most.values["time"])
        else:
            yield say("costs.part", part=say(f"costs.{part}"), least=least, most=most)
    if one.uncounted:
        yield say("costs.uncounted", conditions=one.uncounted)
