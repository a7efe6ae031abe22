"""One trial, from its beginning to its durable record: measured by a tool under its monitors, or computed.

A failed trial is a record, not an exception. Which trial comes next is decided in `run`.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioassay import host, plugins
from ioassay.errors import ConditionError, Interrupted, RunError, SafetyRefusal, ToolError
from ioassay.hints import document
from ioassay.host import interference
from ioassay.host.settings import drop_caches
from ioassay.monitors import monitor
from ioassay.monitors.sampler import Sampler
from ioassay.process import supervisor
from ioassay.records.observation import OFF, Observation
from ioassay.records.record import FAILED, OK, SKIPPED, Environment, Record, Samples, Warning_
from ioassay.roles import Command, Counted, CurrentRates, Load, Monitor, Outcome, Parsed, Trial
from ioassay.runner import confinement, steps
from ioassay.runner.conditions import Conditions, Hold
from ioassay.runner.current_rates import RateReader
from ioassay.runner.hosts import Gate, Start
from ioassay.runner.preflight import PreparedStudy
from ioassay.runner.worker import Computed
from ioassay.store.run_folder import RunStore
from ioassay.verify import witness

COUNTED = "drive.json"
"""In a trial's raw folder: what storage that counts for itself said."""
UNAVAILABLE = "monitors.json"
"""Beside it: what the monitors cannot count on this machine, and why."""
_LEAST_SPACE_BYTES = 2**16
"""A record and a tool's smallest results."""
_KEPT = ("id", "study", "driver", "point", "repetition", "seed", "order", "twin", "calls")


@dataclass(frozen=True)
class _Run:
    """What one trial came to, before it is written."""

    parsed: Parsed
    started_unix_s: float
    duration_s: float
    command: Sequence[str] = ()
    exit_code: int | None = None
    samples: Sequence[Samples] = ()
    monitor_cost: Mapping[str, float] = field(default_factory=dict)
    seen: Observation | None = None
    environment: Environment | None = None
    warnings: Sequence[Warning_] = ()


def measure(
    store: RunStore,
    bench: PreparedStudy,
    trial: Trial,
    warnings: Sequence[Warning_] = (),
    must_end: Callable[[], str] | None = None,
    on_rates: Callable[[CurrentRates], None] = lambda rates: None,
    gate: Gate | None = None,
) -> Record:
    """Run one trial of a driver that measures, to its durable record; `must_end` may end its tool, with the reason.

    `on_rates` gets the current rates about once a second while the tool runs. The tool starts when `gate` lets it.
    """
    raw, point = store.begin(trial.id), json.dumps(trial.point, sort_keys=True)
    if why := bench.cannot.get(point):
        return _record(store, trial, _Run(Parsed(SKIPPED, why), time.time(), 0.0, warnings=warnings))
    warnings = [*warnings, *_settle(trial)]
    watched = _Watched(bench, trial, on_rates, must_end, gate or Gate())
    started_unix_s, started_s = time.time(), time.monotonic()
    try:
        with bench.target(trial).load(trial) as load:
            command = bench.driver.command(trial, load, raw)
            outcome = watched.run(command, load, raw, tag(store))
            counted = load.counted() if load.counted else None
            by_step = steps.metrics(command, load, raw)
        parsed = _judged(bench.driver.parse(trial, outcome, raw), outcome, watched)
        parsed = _with_start(_with_counts(parsed, counted, by_step, raw), watched.start)
        if parsed.lasting:
            bench.cannot[point] = parsed.reason
        if parsed.status == OK and "total.iops" in parsed.metrics:
            bench.rates[point] = parsed.metrics["total.iops"]
    except (ToolError, ConditionError) as error:
        status = SKIPPED if isinstance(error, ConditionError) else FAILED
        command, outcome, parsed = None, None, Parsed(status, str(error))
    except Exception as error:
        if isinstance(error, Interrupted | RunError | SafetyRefusal) or not (fault := plugins.fault(error)):
            raise
        command, outcome, parsed = None, None, Parsed(FAILED, fault)
    run = _Run(
        parsed,
        started_unix_s=outcome.started_unix_s if outcome else started_unix_s,
        duration_s=outcome.duration_s if outcome else time.monotonic() - started_s,
        command=command.argv if command else (),
        exit_code=outcome.exit_code if outcome else None,
        samples=watched.samples,
        monitor_cost=watched.cost,
        seen=watched.seen,
        environment=watched.environment,
        warnings=[*warnings, *parsed.warnings, *watched.warnings],
    )
    return _record(store, trial, run)


def keep(store: RunStore, trial: Trial, computed: Computed, warnings: Sequence[Warning_] = ()) -> Record:
    """Make the durable record of a trial that was computed in the folder that `store.begin` gave."""
    parsed = computed.parsed
    run = _Run(parsed, computed.started_unix_s, computed.duration_s, warnings=[*warnings, *parsed.warnings])
    return _record(store, trial, run)


def _record(store: RunStore, trial: Trial, run: _Run) -> Record:
    parsed, warnings = run.parsed, run.warnings
    if parsed.status == FAILED:
        _require_space(store)
    metrics = {name: value for name, value in parsed.metrics.items() if math.isfinite(value)}
    if lost := sorted(parsed.metrics.keys() - metrics.keys()):
        warnings = [*warnings, Warning_("not-a-number", f"{', '.join(lost)}: not a finite number, so left out")]
    record = Record(
        trial=_kept(trial),
        status=parsed.status,
        reason=parsed.reason,
        started_unix_s=run.started_unix_s,
        duration_s=run.duration_s,
        metrics=metrics,
        parts=list(parsed.parts),
        claims=list(parsed.claims),
        warnings=tuple(dict.fromkeys(warnings)),
        command=list(run.command),
        exit_code=run.exit_code,
        monitor_cost=run.monitor_cost,
        environment=run.environment,
        raw=sorted(path.name for path in (store.folder(trial.id) / "raw").iterdir()),
    )
    store.write(record, parsed.buckets, parsed.series, run.samples, run.seen)
    return record


def _kept(trial: Trial) -> dict[str, Any]:
    """What a record says of its trial."""
    said = dataclasses.asdict(trial)
    return {key: said[key] for key in _KEPT} | ({"search": trial.search} if trial.search else {})


def _require_space(store: RunStore) -> None:
    """A tool that could not write its results says nothing about the disk it measures: that trial is run again."""
    space = os.statvfs(store.root)
    if space.f_bavail * space.f_frsize < _LEAST_SPACE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _with_counts(parsed: Parsed, counted: Counted | None, by_step: Mapping[str, float], raw: Path) -> Parsed:
    """The driver's reading, with what the storage counted for itself beside it."""
    if counted is None:
        return parsed
    (raw / COUNTED).write_text(json.dumps(counted.document, indent=1))
    claims = parsed.claims
    if counted.past_cache:
        claims = [dataclasses.replace(claim, direct=True) for claim in claims]
    metrics, warnings = {**parsed.metrics, **counted.metrics, **by_step}, [*parsed.warnings, *counted.warnings]
    return dataclasses.replace(parsed, metrics=metrics, claims=claims, warnings=warnings)


def _with_start(parsed: Parsed, start: Start) -> Parsed:
    """The same, with what is kept of how its tool was started."""
    metrics = {**parsed.metrics, **start.metrics} if parsed.status == OK else parsed.metrics
    return dataclasses.replace(parsed, metrics=metrics, warnings=[*parsed.warnings, *start.warnings])


def _settle(trial: Trial) -> list[Warning_]:
    """What the study wants to have happened right before a trial."""
    if trial.run.get("cooldown"):
        time.sleep(trial.run["cooldown"])
    dropped = drop_caches() if trial.run.get("drop_caches") else None
    return [dropped] if dropped else []


@dataclass
class _Watched:
    """One trial under its monitors and the witness: they start while the child is held, and stop when it has ended."""

    bench: PreparedStudy
    trial: Trial
    on_rates: Callable[[CurrentRates], None]
    must_end: Callable[[], str] | None = None
    gate: Gate = field(default_factory=Gate)
    start: Start = field(default_factory=Start)
    samples: Sequence[Samples] = ()
    cost: dict[str, float] = field(default_factory=dict)
    seen: Observation | None = None
    environment: Environment | None = None
    warnings: Sequence[Warning_] = ()
    over_memory: str = ""
    """That the kernel ended processes for the memory limit."""
    confined: bool = False

    def run(self, command: Command | None, load: Load, raw: Path, tag: str) -> Outcome | None:
        wanted = Conditions.of(self.trial.run)
        if command is None:
            self.warnings = _unused(self.trial, wanted)
            return None
        timeout_s = self.trial.run.get("timeout") or command.timeout_s
        hold = Hold(wanted, tag=tag, timeout_s=timeout_s, program=Path(command.argv[0]).name)
        try:
            with hold:
                return self._run(command, load, raw, tag, timeout_s, hold)
        finally:
            self.over_memory = hold.over_memory
            self.warnings = [*self.warnings, *hold.warnings]
            if hold.took_effect:
                kept = {"took_effect": hold.took_effect, "account": hold.account}
                (raw / "conditions.json").write_text(json.dumps(kept, indent=1))

    def _run(self, command: Command, load: Load, raw: Path, tag: str, timeout_s: float, hold: Hold) -> Outcome:
        loaded = host.devices(load.path)
        sampler = Sampler(_monitors(self.bench, loaded), self.bench.study.watch.interval)
        rates = RateReader(self.bench.driver, raw / "stdout", self._device(load, loaded), self.on_rates)
        for name, text in command.files.items():
            (raw / name).write_text(text)

        def held(pid: int) -> None:
            hold.apply(pid)
            watching.held(pid)
            sampler.attach(pid)
            self.gate.ready(self.trial)
            self.bench.meter.begin(os.sched_getaffinity(pid))
            sampler.start()
            rates.begin()
            self.gate.go(self.trial)

        def ended(pid: int) -> None:
            sampler.end()
            watching.ended(pid)
            hold.ended(pid)

        try:
            with self._watching(loaded, raw) as watching, self._confined(command, load, raw) as net:
                outcome = supervisor.run(
                    watching.command(steps.argv(command, load, raw)),
                    stdout=raw / "stdout",
                    stderr=raw / "stderr",
                    timeout_s=timeout_s,
                    cwd=command.cwd,
                    env={**net.environment, **command.env, supervisor.TRIAL_VARIABLE: tag},
                    on_held=held,
                    on_ended=ended,
                    confine=net.ruleset,
                    must_end=self.must_end,
                    on_wait=rates.report,
                )
                self.start = self.gate.account(self.trial, outcome.started_unix_s)
                environment = self.bench.meter.end(interference.cpu_time(outcome.usage))
                net.refused(outcome.unconfined)
                (raw / confinement.CONFINEMENT).write_text(json.dumps(net.document, indent=1))
                self.confined, self.warnings = net.ruleset is not None, [*self.warnings, *net.warnings]
                self.seen = seen = watching.observation(outcome)
                if environment is not None:
                    devices = self.bench.meter.device_shares(seen) if seen is not None else {}
                    self.environment = dataclasses.replace(environment, devices=devices)
                return steps.ended(_with_tasks(outcome, self.seen), command, raw)
        finally:
            self.samples, self.cost = sampler.stop()
            if sampler.unavailable:
                (raw / UNAVAILABLE).write_text(json.dumps(sampler.unavailable, indent=1))
            self.warnings = [*self.warnings, *sampler.warnings, *_witness_warnings(self.seen)]

    def _device(self, load: Load, devices: Sequence[str]) -> str:
        """The block device that is loaded: under the target, or without one under the first file of the parameters."""
        if load.path is None and (touches := self.bench.driver.touches(self.trial.params)):
            devices = host.devices(touches[0].path)
        return devices[0] if devices else ""

    def _confined(self, command: Command, load: Load, raw: Path) -> AbstractContextManager[confinement.Net]:
        driver, params = self.bench.driver, self.trial.params
        touches, needs = driver.touches(params), driver.confinement(params)
        return confinement.spread(load, touches, raw, needs, [command.argv[0]])

    def _watching(self, devices: Sequence[str], raw: Path) -> witness.Watching:
        if not self.trial.calls:
            rate = self.bench.rates.get(json.dumps(self.trial.point, sort_keys=True))
            level = OFF if self.trial.twin else self.bench.study.witness_level_at(rate)
            return witness.watching(level, devices, raw)
        try:
            return witness.counting(devices, raw)
        except ToolError as error:
            raise ConditionError(str(error)) from None


def _with_tasks(outcome: Outcome, seen: Observation | None) -> Outcome:
    """The outcome with the processes and threads that there were, where these were counted."""
    if seen is None or seen.threads is None or not seen.processes:
        return outcome
    return dataclasses.replace(
        outcome, processes=seen.processes - seen.threads, threads=seen.threads, most_alive=seen.most_alive
    )


def _unused(trial: Trial, wanted: Conditions) -> list[Warning_]:
    """Conditions are those of processes, and this trial starts none."""
    text = f"{wanted.text}: not used, since the driver '{trial.driver}' starts no process"
    return [Warning_("conditions-unused", text)] if wanted else []


def _witness_warnings(seen: Observation | None) -> list[Warning_]:
    """What the witness could not see; that it was not asked to see anything is no warning."""
    return [Warning_("witness-limited", seen.why)] if seen is not None and seen.why else []


def _monitors(bench: PreparedStudy, devices: Sequence[str]) -> list[Monitor]:
    return [monitor(name, devices=devices) for name in bench.study.watch.monitors]


def _judged(parsed: Parsed, outcome: Outcome | None, watched: _Watched) -> Parsed:
    """The driver's reading, with what only the runner saw: processes left behind, limits of memory and of writing.

    One that was ended for want of memory makes any trial a failed one: a tool that starts its killed processes again
    says that all went well.
    """
    warnings, over_memory = list(parsed.warnings), watched.over_memory
    if outcome is not None and outcome.leftovers:
        count = len(outcome.leftovers)
        were = f"{count} processes were" if count > 1 else "a process was"
        text = f"{were} still alive when the tool ended, and ended by the lab"
        warnings.append(Warning_("processes-left-behind", text))
    if outcome is not None and outcome.ended_for:
        return Parsed(FAILED, f"ended by the lab: {outcome.ended_for}", warnings=tuple(warnings))
    if over_memory:
        reason = f"{over_memory}: {parsed.reason}" if parsed.reason else over_memory
        return Parsed(FAILED, reason, warnings=tuple(warnings))
    reason = parsed.reason
    if parsed.status == FAILED and watched.confined and os.strerror(errno.EACCES) in reason:
        confined = f"its processes were confined to what raw/{confinement.CONFINEMENT} lists"
        reason = f"{reason}; {confined}; see {document('safety')}"
    return dataclasses.replace(parsed, reason=reason, warnings=tuple(warnings))


def tag(store: RunStore) -> str:
    """What marks the processes of this run, whoever runs it."""
    return str(store.root.resolve())
