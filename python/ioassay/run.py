"""Runs the trials of a run that have no record yet, one after the other, and makes each durable.

Gets the three roles as objects. Prints nothing: what happens is told to a Progress.
A failed trial is a record, not an exception; what ends a run is safety, a full disk, or the user.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ioassay import host, process
from ioassay.errors import ToolError
from ioassay.monitors.sampler import Sampler
from ioassay.preflight import Bench
from ioassay.record import FAILED, OK, Record, Samples, Warning_
from ioassay.roles import Command, Load, Monitor, Outcome, Parsed, Trial
from ioassay.settings import KEEP, HostSettings, drop_caches
from ioassay.store import RunStore
from ioassay.targets.guard import Guard, guarded

if TYPE_CHECKING:
    from ioassay.study import Until

_LEAST_SPACE_BYTES = 2**16
"""A record and a tool's smallest results."""
_KEPT = ("id", "study", "driver", "point", "repetition", "seed", "order")


class Progress(Protocol):
    """Is told what happens."""

    def preparing(self, text: str, share: float) -> None:
        """A target is being made; `share` from 0 to 1."""

    def started(self, trial: Trial) -> None:
        """A trial begins."""

    def ended(self, trial: Trial, status: str) -> None:
        """A trial ended: ok, failed, skipped, `unneeded` (its point is precise enough) or `kept` (has a record)."""


@dataclass
class Tally:
    """How the trials of a run ended. `unneeded`: left out, because adaptive repetition was satisfied."""

    planned: int = 0
    ok: int = 0
    failed: int = 0
    skipped: int = 0
    unneeded: int = 0

    def add(self, status: str) -> None:
        """Count one trial."""
        self.planned += 1
        setattr(self, status, getattr(self, status) + 1)


@dataclass
class _Patience:
    """Adaptive repetition of one study: which points have been measured precisely enough.

    A decision about a repetition uses only earlier ones, so a resumed run decides as the first one did.
    """

    until: Until | None
    values: dict[str, list[float]] = field(default_factory=dict)

    def note(self, record: Record) -> None:
        if self.until is not None and record.status == OK:
            value = record.metrics.get(self.until.metric)
            self.values.setdefault(_key(record.trial["point"]), []).extend([] if value is None else [value])

    def enough(self, trial: Trial) -> bool:
        if self.until is None or trial.repetition < self.until.min:
            return False
        from ioassay.analysis.describe import relative_half_width

        values = self.values.get(_key(trial.point), [])
        return len(values) >= 2 and relative_half_width(values) <= self.until.ci


def _key(point: object) -> str:
    return json.dumps(point, sort_keys=True)


def execute(store: RunStore, benches: Sequence[Bench], progress: Progress) -> Tally:
    """Run what has no record yet; the tally counts every planned trial, earlier records included."""
    guards: dict[str, Guard] = {}
    with ExitStack() as stack:
        stack.enter_context(store.locked())
        process.end_orphans(_tag(store))
        stack.enter_context(process.watched(_tag(store)))
        for bench in benches:
            stack.callback(bench.close)
            guards[bench.study.name] = stack.enter_context(guarded(bench.touches(), bench.consent))
        settings = stack.enter_context(HostSettings(_governor(benches)))
        return _execute(store, {bench.study.name: bench for bench in benches}, guards, progress, settings.warnings)


def _governor(benches: Sequence[Bench]) -> str:
    """The governor for the whole run: changing it between studies would change the machine between them."""
    wanted = {bench.study.run.governor for bench in benches if bench.driver.tool() is not None}
    return "performance" if "performance" in wanted else KEEP


def _execute(
    store: RunStore,
    benches: dict[str, Bench],
    guards: dict[str, Guard],
    progress: Progress,
    of_host: Sequence[Warning_],
) -> Tally:
    tally = Tally()
    prepared: dict[str, Sequence[Warning_]] = {}
    patience = {name: _Patience(bench.study.until) for name, bench in benches.items()}
    for trial in store.trials():
        if store.has(trial.id):
            record = store.record(trial.id)
            progress.ended(trial, "kept")
        elif patience[trial.study].enough(trial):
            progress.ended(trial, "unneeded")
            tally.add("unneeded")
            continue
        else:
            bench = benches[trial.study]
            if trial.study not in prepared:
                prepared[trial.study] = [*of_host, *_prepare(bench, progress)]
            guards[trial.study].require_same(bench.driver.touches(trial.params))
            progress.started(trial)
            try:
                record = run_trial(store, bench, trial, prepared[trial.study])
            except OSError as error:
                raise store.stopped(store.folder(trial.id), error) from error
            progress.ended(trial, record.status)
        patience[trial.study].note(record)
        tally.add(record.status)
    return tally


def _prepare(bench: Bench, progress: Progress) -> list[Warning_]:
    """Make and fill the study's targets, right before its first trial."""
    access = bench.access()
    targets = {id(target): target for target in map(bench.target, bench.points())}
    return [warning for target in targets.values() for warning in target.prepare(access, progress.preparing)]


def run_trial(store: RunStore, bench: Bench, trial: Trial, warnings: Sequence[Warning_] = ()) -> Record:
    """Run one trial to its durable record."""
    raw = store.begin(trial.id)
    warnings = [*warnings, *_settle(trial)]
    watched = _Watched(bench, trial)
    started_unix_s, started_s = time.time(), time.monotonic()
    try:
        with bench.target(trial).load(trial) as load:
            command = bench.driver.command(trial, load, raw)
            outcome = watched.run(command, load, raw, _tag(store))
        parsed = _judged(bench.driver.parse(trial, outcome, raw), outcome)
    except ToolError as error:
        command, outcome, parsed = None, None, Parsed(FAILED, str(error))
    if parsed.status == FAILED:
        _require_space(store)
    metrics = {name: value for name, value in parsed.metrics.items() if math.isfinite(value)}
    if lost := sorted(parsed.metrics.keys() - metrics.keys()):
        warnings = [*warnings, Warning_("not-a-number", f"{', '.join(lost)}: not a finite number, so left out")]
    record = Record(
        trial={key: value for key, value in dataclasses.asdict(trial).items() if key in _KEPT},
        status=parsed.status,
        reason=parsed.reason,
        started_unix_s=outcome.started_unix_s if outcome else started_unix_s,
        duration_s=outcome.duration_s if outcome else time.monotonic() - started_s,
        metrics=metrics,
        parts=list(parsed.parts),
        warnings=tuple(dict.fromkeys((*warnings, *parsed.warnings, *watched.warnings))),
        command=list(command.argv) if command else [],
        exit_code=outcome.exit_code if outcome else None,
        monitor_cost=watched.cost,
        raw=sorted(path.name for path in raw.iterdir()),
    )
    store.write(record, parsed.buckets, parsed.series, watched.samples)
    return record


def _require_space(store: RunStore) -> None:
    """A tool that could not write its results says nothing about the disk it measures: that trial is run again."""
    space = os.statvfs(store.root)
    if space.f_bavail * space.f_frsize < _LEAST_SPACE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _settle(trial: Trial) -> list[Warning_]:
    """What the study wants to have happened right before a trial."""
    if trial.run.get("cooldown"):
        time.sleep(trial.run["cooldown"])
    dropped = drop_caches() if trial.run.get("drop_caches") else None
    return [dropped] if dropped else []


@dataclass
class _Watched:
    """One trial under its monitors: they start while the child is held, and stop when it has ended."""

    bench: Bench
    trial: Trial
    samples: Sequence[Samples] = ()
    cost: dict[str, float] = field(default_factory=dict)
    warnings: Sequence[Warning_] = ()

    def run(self, command: Command | None, load: Load, raw: Path, tag: str) -> Outcome | None:
        sampler = Sampler(_monitors(self.bench, load), self.bench.study.watch.interval)
        if command is None:
            return None
        for name, text in command.files.items():
            (raw / name).write_text(text)
        try:
            return process.run(
                command.argv,
                stdout=raw / "stdout",
                stderr=raw / "stderr",
                timeout_s=self.trial.run.get("timeout") or command.timeout_s,
                cwd=command.cwd,
                env={**command.env, process.TRIAL_VARIABLE: tag},
                on_held=lambda _: sampler.start(),
            )
        finally:
            self.samples, self.cost = sampler.stop()
            self.warnings = sampler.warnings


def _monitors(bench: Bench, load: Load) -> list[Monitor]:
    from ioassay.monitors import monitor

    devices = host.devices(load.path) if load.path else ()
    return [monitor(name, devices=devices) for name in bench.study.watch.monitors]


def _judged(parsed: Parsed, outcome: Outcome | None) -> Parsed:
    """The driver's reading, with what only the runner saw: processes that the tool left behind."""
    if outcome is None or not outcome.leftovers:
        return parsed
    text = f"{len(outcome.leftovers)} processes were still alive when the tool ended, and were ended"
    return dataclasses.replace(parsed, warnings=(*parsed.warnings, Warning_("processes-left-behind", text)))


def _tag(store: RunStore) -> str:
    """What marks the processes of this run, whoever runs it."""
    return str(store.root.resolve())
