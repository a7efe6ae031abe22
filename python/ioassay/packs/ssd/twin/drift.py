"""Has a drive drifted from its description? Some of the described points are measured again: `drive check --measure`.

Measured like any load of the battery, in repetitions whose order is shuffled. Each statistic is compared by the
interval of its ratio to what the description has: its measurements, or without any what its model gives. All intervals
hold together (Bonferroni), so that one drive in twenty that is as described is called drifted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np

from ioassay.analysis.machine_conditions import Grade
from ioassay.api import execution
from ioassay.api.execution import Announce, Execution, RunKeys, RunOptions
from ioassay.api.run_results import Run
from ioassay.api.study import Study
from ioassay.errors import InputError
from ioassay.narrative import phrases
from ioassay.packs.ssd.simulator import drive_accuracy
from ioassay.packs.ssd.twin import learning
from ioassay.packs.ssd.twin import measurement as measured
from ioassay.packs.ssd.twin.loads import Load, Operation, Pattern
from ioassay.records.record import OK
from ioassay.runner.progress import Progress
from ioassay.simulation import drive_files
from ioassay.simulation.drive_files import DriveFile, Point
from ioassay.stats.result import Interval, Undefined
from ioassay.stats.sample import t_interval
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite
from ioassay.units import format_size

BUDGET_S = 60.0
MARGIN = 0.10
_POINTS = 6
_REPETITIONS = 5
_RISK = 0.05
_BIN = 1 / 128
"""Half a bin of fio's histograms, which have 64 for each power of two."""
_TRIAL_S = 1.0
"""What a trial costs beside its run time."""
_LEAST_RUN_S = 0.2
_METRICS = {"mean_us": "lat.mean", "p50_us": "lat.p50", "p99_us": "lat.p99", "iops": "iops"}
_WORDS = {"mean_us": "mean latency", "p50_us": "p50", "p99_us": "p99", "iops": "IOPS"}
SAME, OPEN, DRIFTED = "same", "open", "drifted"


@dataclass(frozen=True)
class Change:
    """One statistic of one point: what was described, the mean of what was measured, and their ratio's interval."""

    point: Point
    statistic: str
    described: float
    measured: float
    ratio: Interval | None
    """None with fewer than two repetitions."""
    margin: float

    @property
    def outcome(self) -> str:
        """DRIFTED beyond the margin or SAME within it, with the whole interval; else OPEN."""
        if self.ratio is None:
            return OPEN
        low, high = math.log(self.ratio.low), math.log(self.ratio.high)
        most = math.log1p(self.margin)
        if low > most or high < -most:
            return DRIFTED
        return SAME if -most <= low and high <= most else OPEN

    @property
    def text(self) -> str:
        """`+2.1 % (-0.5 to +4.8)`."""
        change = phrases.signed_percent(self.measured / self.described - 1)
        if self.ratio is None:
            return change
        low, high = (phrases.points(end - 1, sign=True) for end in (self.ratio.low, self.ratio.high))
        return f"{change} ({low} to {high})"


@dataclass(frozen=True)
class Drift:
    """What a drive's description and its measurement of now come to."""

    drive: str
    run: Run
    changes: tuple[Change, ...]
    of_model: bool
    """Whether the description has no measurements, so that its model stood in."""

    @property
    def outcome(self) -> str:
        """DRIFTED where any statistic is, SAME where all are, OPEN otherwise and on a machine that was unfit."""
        trust = self.run.trust
        found = {change.outcome for change in self.changes}
        if trust is not None and trust.grade == Grade.UNFIT:
            return OPEN
        return DRIFTED if DRIFTED in found else SAME if found == {SAME} else OPEN

    @property
    def verdict(self) -> str:
        """The outcome in one sentence."""
        number, margin = len(self.changes), f"{self.changes[0].margin:.0%}"
        of = {name: [one for one in self.changes if one.outcome == name] for name in (SAME, OPEN, DRIFTED)}
        whose = f"what its model gives for {self.drive}" if self.of_model else f"its description {self.drive}"
        if self.outcome == SAME:
            return f"The drive has not drifted from {whose}: all {number} statistics are within {margin}."
        if self.outcome == DRIFTED:
            worst = max(of[DRIFTED], key=lambda one: abs(math.log(one.measured / one.described)))
            most = f"the {_WORDS[worst.statistic]} of {load_text(worst.point)} by {worst.text}"
            counted = f"{len(of[DRIFTED])} of {number} statistics differ by more than {margin}"
            return f"The drive has drifted from {whose}: {counted}, {most}."
        if self.run.trust is not None and self.run.trust.grade == Grade.UNFIT:
            return f"Whether the drive has drifted from {whose} is not judged: the machine was unfit to measure."
        unclear = f"{len(of[OPEN])} are too noisy to tell; a longer --budget narrows their intervals"
        known = f"{len(of[SAME])} of {number} statistics are within {margin}"
        return f"No drift from {whose} is shown: {known}, and {unclear}."

    def rows(self) -> Iterator[list[str]]:
        """A row a point: the load, and the change of each statistic."""
        of_load: dict[str, dict[str, str]] = {}
        for one in self.changes:
            of_load.setdefault(load_text(one.point), {})[one.statistic] = one.text
        for load, own in of_load.items():
            yield [load, *(own.get(name, "-") for name in self.statistics)]

    @property
    def statistics(self) -> list[str]:
        """Those that any point has."""
        return [name for name in _METRICS if any(one.statistic == name for one in self.changes)]

    def columns(self) -> list[str]:
        """The head of `rows`."""
        return ["load", *(_WORDS[name] for name in self.statistics)]

    def as_dict(self) -> dict[str, Any]:
        """What `ioassay drive check --measure --json` prints."""
        changes = []
        for one in self.changes:
            load = {key: value for key, value in vars(one.point).items() if key != "statistics"}
            values = {"statistic": one.statistic, "described": one.described, "measured": one.measured}
            ends = {end: getattr(one.ratio, end, None) for end in ("low", "high")}
            changes.append({**load, **values, **ends, "outcome": one.outcome})
        verdict = {"drive": self.drive, "of_model": self.of_model, "outcome": self.outcome, "verdict": self.verdict}
        return {**verdict, "changes": changes, **self.run.as_dict()}


def load_text(point: Point) -> str:
    """`4 KiB random reads at depth 1`."""
    return f"{format_size(point.size_bytes)} {point.pattern} {point.operation}s at depth {point.depth}"


def drift(
    drive: str | Path,
    target: str | Path,
    *,
    budget_s: float = BUDGET_S,
    margin: float = MARGIN,
    output: str | Path | None = None,
    progress: Progress | None = None,
    **options: Unpack[RunKeys],
) -> Drift:
    """Measure some points of a described drive again on `target`, and say whether it drifted by more than `margin`.

    Nothing is written unless `destroy_data` names the target. Other arguments and errors as of `Study.run`.
    """
    progress, chosen = progress or Progress(), RunOptions(**options)
    described = drive_files.load(drive)
    with execution.interruptible():
        ready = begin(described, target, budget_s, output, chosen, progress.preparing)
    return compare(described, ready.run(progress), margin)


def begin(
    drive: DriveFile,
    target: str | Path,
    budget_s: float,
    output: str | Path | None,
    options: RunOptions,
    announce: Announce | None = None,
) -> Execution:
    """Check everything, then make the run's folder; its trials are those of an ordinary study."""
    path = Path(target).expanduser()
    settings = learning.Settings(writes=bool(options.destroy_data), budget_s=budget_s)
    table, notes = learning.target_table(path, settings)
    most = int(budget_s / _REPETITIONS / (_TRIAL_S + _LEAST_RUN_S))
    points, _ = sample(drive, writes=settings.writes, most=min(most, _POINTS))
    seconds = max(budget_s / len(points) / _REPETITIONS - _TRIAL_S, _LEAST_RUN_S)
    loads = [_load(point, seconds, int(table["size"]), learning.sector_bytes(path)) for point in points]
    made = measured.study("check", loads, table, measured.ENGINES[0], settings.seed, _REPETITIONS)
    suite = Suite(name=f"check-{drive.name}", title=f"Has the drive drifted from {drive.name}?", studies=[made])
    return Study.of_suite(suite, left_out=notes).begin(output, announce, options)


def sample(drive: DriveFile, *, writes: bool, most: int = _POINTS) -> tuple[list[Point], bool]:
    """Points of a description, from the smallest and shallowest to the largest and deepest; and whether of its model.

    InputError where all that it has are writes, and none may be made.
    """
    # Flows are no load of one kind.
    points = [point for each in drive.measurements for point in each.points if not point.flows]
    of_model = not points
    points = points or [drive_accuracy.modelled(drive.options, point) for point in drive_accuracy.LOADS]
    known = {(one.operation, one.pattern, one.size_bytes, one.depth): one for one in points}
    chosen = [known[key] for key in sorted(known) if writes or key[0] == "read"]
    if not chosen:
        wanted = "expected --destroy-data NAME, which lets the drive be written"
        raise InputError(f"{drive.path}: describes writes only; {wanted}")
    places = np.unique(np.linspace(0, len(chosen) - 1, most).round().astype(int))
    return [chosen[place] for place in places], of_model


def compare(drive: DriveFile, run: Run, margin: float = MARGIN) -> Drift:
    """What a run that `begin` made measured, compared with the description."""
    store = RunStore.open(run.root)
    points, of_model = sample(drive, writes=True)
    found: dict[str, list[Mapping[str, float]]] = {}
    for trial in store.trials():
        if store.has(trial.id) and (record := store.record(trial.id)).status == OK:
            found.setdefault(str(trial.point["case"]), []).append(record.metrics)
    known = {_name(point): point for each in drive.measurements for point in each.points}
    known |= {_name(point): point for point in points}
    if not found:
        raise InputError(f"{run.root}: no trial went well, so nothing is compared; 'ioassay report' has the reasons")
    samples = []
    for point, each in ((known[name], each) for name, each in found.items()):
        for statistic in point.statistics:
            metric = f"{point.operation}.{_METRICS[statistic]}"
            values = [one[metric] for one in each if metric in one]
            is_mean = statistic == "iops" and "mean_us" in point.statistics  # which a closed loop makes the same
            samples += [(point, statistic, values)] if values and not is_mean else []
    confidence = 1 - _RISK / len(samples)
    changes = tuple(_change(*one, confidence=confidence, margin=margin) for one in samples)
    return Drift(drive.name, run, changes, of_model)


def _change(point: Point, statistic: str, values: Sequence[float], *, confidence: float, margin: float) -> Change:
    """fio's latencies are in nanoseconds, and its quantiles no finer than its bins."""
    described = point.statistics[statistic]
    unit = 1.0 if statistic == "iops" else 1e3
    bin_share = _BIN if statistic in ("p50_us", "p99_us") else 0.0
    logs = [math.log(value / unit / described) for value in values]
    ratio = None
    if not isinstance(found := t_interval(logs, confidence), Undefined):
        ratio = Interval(math.exp(found.low - bin_share), math.exp(found.high + bin_share), confidence, "log t")
    return Change(point, statistic, described, described * math.exp(sum(logs) / len(logs)), ratio, margin)


def _name(point: Point) -> str:
    return f"{point.pattern}-{point.operation}-{point.size_bytes}-depth-{point.depth}"


def _load(point: Point, seconds: float, capacity_bytes: int, least_bytes: int) -> Load:
    if point.size_bytes % least_bytes:
        text = f"{load_text(point)}: the drive takes multiples of {least_bytes} bytes"
        raise InputError(f"{text}; expected the drive that is described, in its format")
    operation, pattern = cast(Operation, point.operation), cast(Pattern, point.pattern)
    load = Load(_name(point), "check", operation, point.size_bytes, point.depth, pattern)
    return replace(load, span_bytes=capacity_bytes, seconds=seconds)
