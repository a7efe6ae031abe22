"""What a run has done so far, for those who look on: its trials, the current rates, the end.

The runner's thread writes, as a `Progress` of `runner`; any number of others read. Nothing is queued for a reader: each
says what it has seen (`Cursor`) and gets what is new, so that one that is slow or gone costs nothing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import metrics, units
from ioassay.analysis import machine_conditions
from ioassay.errors import one_line
from ioassay.narrative import conditions_text
from ioassay.records.record import OK, Record
from ioassay.roles import CurrentRates, Rates, Trial
from ioassay.runner.progress import Progress, RemainingTime
from ioassay.study import plan

if TYPE_CHECKING:
    from ioassay.study.model import Suite

PLANNED, RUNNING = "planned", "running"
_MOST_POINTS = 900
"""Of the charts: a quarter of an hour at one a second."""
_MOST_METRICS = 2
_REASON_LETTERS = 200

Row = tuple[int, str, str, int, str, str, str]
"""Number, study, point, repetition from 1, status, result, how long it took."""
Point = tuple[float, float | None, float | None, float | None]
"""Time since the run's start in s; IOPS of the tool and of the device; the device's mean latency in ns."""


@dataclass(frozen=True)
class Cursor:
    """What a reader has seen."""

    version: int = -1
    changes: int = 0
    points: int = 0


@dataclass(frozen=True)
class _Running:
    """A trial that runs, the number of its row, and its start."""

    trial: Trial
    row: int
    began_s: float


@dataclass(frozen=True)
class _Now:
    """The latest of what is replaced, and never added to."""

    note: str = ""
    rates: CurrentRates | None = None
    rates_at_s: float = 0.0
    measured: Trial | None = None
    """Whose rates they are."""
    conditions: str = ""
    grade: str = ""
    end: str = ""
    end_text: str = ""
    report: Path | None = None


@dataclass
class RunState(Progress):
    """The state of the run in `folder`, of `total` trials that were expected to take `forecast_s`.

    All of it may be known later (`opened`, `planned`). `responses` are the metrics that a study is about, by its name.
    """

    title: str = "Waiting for the run"
    folder: Path | None = None
    total: int = 0
    forecast_s: float = 0.0
    trials: Iterable[Trial] = ()
    responses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._began_s = self.clock()
        self._left = RemainingTime(self.total, self.forecast_s, self.clock)
        self._rows: list[Row] = []
        self._numbers: dict[str, int] = {}
        self._changes: list[int] = []
        """Numbers of the rows that changed, in turn."""
        self._points: deque[Point] = deque(maxlen=_MOST_POINTS)
        self._point_count = self._version = 0
        self._counts: dict[str, int] = {}
        self._running: dict[str, _Running] = {}
        self._now = _Now()
        for trial in self.trials:
            self._number(trial)

    def opened(self, folder: Path, suite: Suite, trials: Iterable[Trial]) -> None:
        """The run has its folder, its studies and a plan."""
        with self._changed:
            self.title, self.folder = suite.title or suite.name, folder.absolute()
            self.responses = {study.name: study.analysis.responses for study in suite.studies}
            for trial in trials:
                self._number(trial)
        self._replace()

    def planned(self, trials: int, seconds: float) -> None:
        """The run begins: the number of its trials, and the time that all are expected to take."""
        with self._changed:
            self.total, self.forecast_s, self._began_s = trials, seconds, self.clock()
            self._left = RemainingTime(trials, seconds, self.clock)
        self._replace()

    def preparing(self, text: str, share: float) -> None:
        """A target is being made, or something is waited for."""
        self._replace(note=f"{text} {share:.0%}")

    def started(self, trial: Trial) -> None:
        """A trial begins."""
        with self._changed:
            number = self._number(trial)
            self._running[trial.id] = _Running(trial, number, self.clock())
            self._left.start(trial.id)
            self._set(number, RUNNING)
        self._replace(note="")

    def measuring(self, trial: Trial, rates: CurrentRates) -> None:
        """A trial's tool runs; where several hosts measure, the rates of the latest trial are shown."""
        if self._running and trial.id != next(reversed(self._running)):
            return
        tool, device = (source.iops if source else None for source in (rates.tool, rates.storage))
        self._add_point(tool, device, rates.latency_ns)
        self._replace(rates=rates, rates_at_s=self.clock(), measured=trial, note="")

    def ended(self, trial: Trial, status: str) -> None:
        """A trial ended."""
        with self._changed:
            running = self._running.pop(trial.id, None)
            self._left.end(trial.id)
            self._counts[status] = self._counts.get(status, 0) + 1
            self._set(self._number(trial), status)
        if running is not None:
            self._add_point(None, None, None)  # the lines of two trials are not joined
        self._replace()

    def recorded(self, trial: Trial, record: Record) -> None:
        """A trial has its record."""
        result = one_line(record.reason)[:_REASON_LETTERS] if record.status != OK else self._result(record)
        with self._changed:
            self._set(self._number(trial), record.status, result, units.format_duration(record.duration_s))
        if (environment := record.environment) is None:
            self._replace()
            return
        conditions = machine_conditions.summary(record.trial["study"], [environment])
        _, *others = map(str, conditions_text.statements(conditions))
        self._replace(grade=conditions_text.GRADES[conditions.grade], conditions=" ".join(others))

    def said(self, text: str) -> None:
        """A line about how it goes."""
        self._replace(note=text)

    def publishing(self) -> None:
        """All trials have ended; what is left is the report."""
        self._replace(note="analysing the records and writing the report", rates=None)

    def end(self, how: str, text: str, report: Path | None = None) -> None:
        """The run ended: `how` is complete, interrupted or failed. Later ends change nothing."""
        if not self._now.end:
            self._replace(end=how, end_text=text, report=report, note="", rates=None)

    @property
    def has_ended(self) -> bool:
        return bool(self._now.end)

    def await_change(self, cursor: Cursor, timeout_s: float) -> bool:
        """Wait for something that is new behind the cursor; False where nothing came in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._version != cursor.version, timeout_s)

    def await_end(self, timeout_s: float) -> None:
        """Wait for the end of the run, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: self.has_ended, timeout_s)

    def news(self, cursor: Cursor) -> tuple[dict[str, Any], Cursor]:
        """What is new behind the cursor, as the page takes it, and the cursor behind that; all of it for `Cursor()`."""
        with self._changed:
            changed = sorted(set(islice(self._changes, cursor.changes, None)))
            missed = min(self._point_count - cursor.points, len(self._points))
            points = list(islice(self._points, len(self._points) - missed, None))
            seen = Cursor(self._version, len(self._changes), self._point_count)
            rows = [self._rows[number] for number in changed]
            now, running, counts = self._now, list(self._running.values()), dict(self._counts)
            left_s = self._left.seconds()
        latest, name = running[-1] if running else None, ""
        if latest:
            others = f" and {len(running) - 1} more" if len(running) > 1 else ""
            name = f"{latest.trial.study} {plan.describe(latest.trial.point)} #{latest.trial.repetition + 1}{others}"
        rates = now.rates or CurrentRates(0.0)
        return {
            "title": self.title,
            "folder": str(self.folder or ""),
            "total": self.total,
            "counts": counts,
            "elapsed_s": self.clock() - self._began_s,
            "left_s": left_s,
            "note": now.note,
            "running": name,
            "running_row": latest.row if latest else None,
            "running_s": self.clock() - latest.began_s if latest else None,
            "rates_age_s": self.clock() - now.rates_at_s,
            "rates_row": self._numbers[now.measured.id] if now.measured else None,
            "tool": _source(now.measured.driver if now.measured else "", rates.tool),
            "device": _source(rates.device, rates.storage),
            "latency_ns": rates.latency_ns,
            "conditions": now.conditions,
            "grade": now.grade,
            "whole": cursor == Cursor(),
            "rows": rows,
            "points": points,
            "end": now.end,
            "end_text": now.end_text,
            "report": str(now.report or ""),
            "report_uri": now.report.as_uri() if now.report else "",
        }, seen

    def _number(self, trial: Trial) -> int:
        """The number of a trial's row, which a search adds as it goes."""
        if trial.id not in self._numbers:
            number = self._numbers[trial.id] = len(self._rows)
            point = plan.describe(trial.point)
            self._rows.append((number, trial.study, point, trial.repetition + 1, PLANNED, "", ""))
            self._changes.append(number)
        return self._numbers[trial.id]

    def _set(self, number: int, status: str, result: str = "", took: str = "") -> None:
        self._rows[number] = (*self._rows[number][:4], status, result, took)
        self._changes.append(number)

    def _add_point(self, tool: float | None, device: float | None, latency_ns: float | None) -> None:
        with self._changed:
            self._points.append((round(self.clock() - self._began_s, 1), tool, device, latency_ns))
            self._point_count += 1

    def _replace(self, **parts: Any) -> None:
        with self._changed:
            self._now = replace(self._now, **parts)
            self._version += 1
            self._changed.notify_all()

    def _result(self, record: Record) -> str:
        """The first metrics that the study is about, else a rate and a tail latency where there are any."""
        known = record.metrics
        names = [name for name in self.responses.get(record.trial["study"], ()) if name in known]
        if not names:
            first = (next((name for name in known if name.endswith(end)), "") for end in (".iops", ".lat.p99"))
            names = list(filter(None, first))
        labelled = ((metrics.metric(name).label, metrics.format_metric(name, known[name])) for name in names)
        return "; ".join(f"{label}: {value}" for label, value in islice(labelled, _MOST_METRICS))


def _source(name: str, rates: Rates | None) -> dict[str, object] | None:
    return {"name": name, "iops": rates.iops, "bytes_per_s": rates.bytes_per_s} if rates else None
