"""What does each access path cost? A request's mean time taken apart, and the CPU time of both ends.

For studies of cases on a drive that counts for itself. The parts of a trial add up to the tool's mean latency, by
definition: what overlaps is counted once, in the order submission, device, transport. The repetitions' means are
averaged; no test is made of parts, whose differences are those of the latencies that `alternatives` compares.
Deliberately not here: which case is best.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from ioassay.analysis.measurements.cells import Cell, cells, label, plausible
from ioassay.analysis.storage.drive_agreement import SAME_PERCENT
from ioassay.factors import CASE
from ioassay.records.record import Scalar
from ioassay.stats.result import plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

PARTS = ("submission", "device", "transport", "completion")
"""In the order of the figure's bars, from zero."""
_DIRECTIONS = ("read", "write")
_FORM = "target.form"
_RESPONSE = "total.iops"


class Setting(StrEnum):
    """What the engines of a study have in common, from the cleanest comparison to the least clean."""

    SUBSYSTEM = "one-subsystem"
    """The kernel's engines load the block device of the drive's NVMe/TCP subsystem, and SPDK the subsystem."""
    NVMEVIRT = "nvmevirt"
    TRANSPORTS = "several-transports"
    """The kernel's engines load a file (FUSE), the others sockets."""


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
        """The condition in words."""
        return label(self.point)

    def parts(self) -> dict[str, float]:
        """The parts that are known, by the names of `PARTS`."""
        known = {part: getattr(self, f"{part}_ns") for part in PARTS}
        return {part: value for part, value in known.items() if value is not None}


@dataclass(frozen=True)
class PathCosts:
    """All conditions of a study whose requests the drive counted as the tool did."""

    study: str
    setting: Setting
    costs: Sequence[Cost]
    uncounted: Sequence[str]
    """Conditions whose claims and drive differ by more than `SAME_PERCENT`: nothing is taken apart there."""

    def statistics(self) -> dict[str, Any]:
        """The numbers under stable names."""
        rows = [{**vars(one), "point": dict(one.point)} for one in self.costs]
        return {"setting": self.setting, "costs": [plain(row) for row in rows], "uncounted": list(self.uncounted)}


def analyse(records: Dataset, study: Study) -> list[PathCosts]:
    """One answer for a study of cases on a drive that counts; none elsewhere."""
    where = setting(records, study)
    if where is None:
        return []
    costs, uncounted = costs_of(records, study, cells(records, study, _RESPONSE).cells)
    return [PathCosts(study.name, where, costs, uncounted)] if costs or uncounted else []


def setting(records: Dataset, study: Study) -> Setting | None:
    """What the engines have in common; None for a study without cases, or of another target."""
    if CASE not in study.levels or study.target.kind not in ("virtual", "nvmevirt"):
        return None
    if study.target.kind == "nvmevirt":
        return Setting.NVMEVIRT
    kernels = [case["name"] for case in study.case if _FORM in case]
    rows = _rows(records, study)
    seen = [
        row["drive.block_device"] for row in rows if row[CASE] in kernels and row.get("drive.block_device") is not None
    ]
    return Setting.SUBSYSTEM if seen and all(seen) else Setting.TRANSPORTS


def costs_of(records: Dataset, study: Study, chosen: Iterable[Cell]) -> tuple[list[Cost], list[str]]:
    """The costs of conditions, and the labels of those whose requests the drive did not count as the tool did."""
    by_trial = {row["trial"]: row for row in _rows(records, study)}
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


def _rows(records: Dataset, study: Study) -> list[dict[str, Any]]:
    return list(records.trials_of(study).iter_rows(named=True))


def _trial(row: Mapping[str, Any]) -> dict[str, float | None] | None:
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
    if submission is not None:
        submission = min(submission, total)
    left = total - (submission or 0.0)
    device = min(device, left)
    left -= device
    floor = row.get("drive.floor")
    transport = min(float(floor), left) if floor is not None and plausible(floor) else None
    return {
        "total_ns": total,
        "submission_ns": submission,
        "device_ns": device,
        "transport_ns": transport,
        "completion_ns": left - (transport or 0.0),
        "client_ns": row.get("cpu.per_io"),
        "server_ns": _server_ns(row, requests),
        "switches": _per_request(row.get("context_switches"), requests),
    }


def _weighted(row: Mapping[str, Any], name: str, ios: Mapping[str, float]) -> float | None:
    """The mean over reads and writes; None where one of them has none."""
    done = {way: count for way, count in ios.items() if count}
    total = 0.0
    for way, count in done.items():
        value = row.get(name.format(way))
        if value is None:
            return None
        total += value * count
    return total / sum(done.values())


def _server_ns(row: Mapping[str, Any], requests: float) -> float | None:
    """The drive's share of a processor, over the tool's run time: its start and its end are no requests."""
    used_percent, took_s = row.get("drive.cpu"), row.get("total.runtime")
    return None if used_percent is None or not took_s else used_percent / 100 * took_s / requests * 1e9


def _per_request(count: float | None, requests: float) -> float | None:
    return None if count is None else count / requests


def _mean(point: Mapping[str, Scalar], trials: Sequence[Mapping[str, float | None]]) -> Cost:
    """The means of `trials`; a part that one of them lacks is in the completion of all, as it is in that one's."""
    names = [one.name for one in fields(Cost) if one.name not in ("point", "trials")]
    means: dict[str, Any] = {}
    completion = 0.0
    for name in names:
        known = [value for trial in trials if (value := trial[name]) is not None]
        whole = len(known) == len(trials)
        means[name] = sum(known) / len(trials) if whole else None
        if not whole and name in ("submission_ns", "transport_ns"):
            completion += sum(known) / len(trials)
    means["completion_ns"] += completion
    return Cost(point=point, trials=len(trials), **means)
