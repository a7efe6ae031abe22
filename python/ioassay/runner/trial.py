"""One trial, from its beginning to its durable record: measured by a tool under its monitors, or computed.

A failed trial is a record, not an exception. A trial of several processes is started as one (`process.sequence`). While
a tool runs, its current rates are read about once a second: as it says itself, and as the kernel counts for its device.
Which trial comes next is decided in `run`.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ioassay import host, registry, validation
from ioassay.errors import ConditionError, InputError, Interrupted, RunError, SafetyRefusal, ToolError
from ioassay.hints import document
from ioassay.host import interference
from ioassay.host.settings import drop_caches
from ioassay.monitors import monitor
from ioassay.monitors.sampler import Sampler
from ioassay.process import sequence, supervisor
from ioassay.records.kernel_times import kernel_times
from ioassay.records.observation import OFF, Observation
from ioassay.records.record import FAILED, OK, SKIPPED, Environment, Record, Samples, Warning_
from ioassay.roles import Command, CurrentRates, Driver, EndedStep, Load, Outcome, Parsed, Rates, Trial
from ioassay.runner import confinement
from ioassay.runner.conditions import Conditions, Hold
from ioassay.runner.executors import Gate, Start
from ioassay.runner.preflight import PreparedStudy
from ioassay.runner.worker import Computed
from ioassay.store.run_folder import RunStore
from ioassay.study import plan
from ioassay.verify import witness

COUNTED = "drive.json"
"""In a trial's raw folder: what storage that counts for itself said."""
UNAVAILABLE = "monitors.json"
"""Beside it: what the monitors cannot count on this machine, and why."""
_LEAST_SPACE_BYTES = 2**16
"""A record and a tool's smallest results."""
_KEPT = ("id", "study", "driver", "point", "repetition", "seed", "order", "twin", "calls")


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
    raw, point = store.begin(trial.id), plan.point_key(trial.point)
    if why := bench.cannot.get(point):
        return keep(store, trial, Computed(Parsed(SKIPPED, why), time.time(), 0.0), warnings)
    if trial.run.get("cooldown"):
        time.sleep(trial.run["cooldown"])
    if trial.run.get("drop_caches") and (dropped := drop_caches()):
        warnings = [*warnings, dropped]
    watched = _Watched(bench, trial, on_rates, must_end, gate or Gate())
    started_unix_s, started_s = time.time(), time.monotonic()
    try:
        with bench.target(trial).load(trial) as load:
            command = bench.driver.command(trial, load, raw)
            outcome = watched.run(command, load, raw, tag(store))
            counted = load.counted() if load.counted else None
            by_step = step_metrics(command, load, raw)
        parsed = _judged(bench.driver.parse(trial, outcome, raw), outcome, watched)
        if counted is not None:  # what the storage counted for itself stands beside the driver's reading
            (raw / COUNTED).write_text(json.dumps(counted.document, indent=1))
            claims = [replace(claim, direct=True) if counted.past_cache else claim for claim in parsed.claims]
            metrics, noted = {**parsed.metrics, **counted.metrics, **by_step}, [*parsed.warnings, *counted.warnings]
            parsed = replace(parsed, metrics=metrics, claims=claims, warnings=noted)
        if parsed.status == OK:
            timed = list(kernel_times(watched.seen)) if watched.seen is not None else []
            of_kernel = {name: value for each in timed for name, value in each.metrics.items()}
            measured = {**parsed.metrics, **of_kernel, **watched.start.metrics}
            parsed = replace(parsed, metrics=measured, buckets=[*parsed.buckets, *(each.buckets for each in timed)])
        if parsed.lasting:
            bench.cannot[point] = parsed.reason
        if parsed.status == OK and "total.iops" in parsed.metrics:
            bench.rates[point] = parsed.metrics["total.iops"]
    except (ToolError, ConditionError) as error:
        status = SKIPPED if isinstance(error, ConditionError) else FAILED
        command, outcome, parsed = None, None, Parsed(status, str(error))
    except Exception as error:
        if isinstance(error, Interrupted | RunError | SafetyRefusal) or not (fault := registry.fault(error)):
            raise
        command, outcome, parsed = None, None, Parsed(FAILED, fault)
    began_unix_s, lasted_s = started_unix_s, time.monotonic() - started_s
    if outcome is not None:
        began_unix_s, lasted_s = outcome.started_unix_s, outcome.duration_s
    exit_code, argv = outcome.exit_code if outcome else None, command.argv if command else ()
    return keep(store, trial, Computed(parsed, began_unix_s, lasted_s), warnings, argv, exit_code, watched)


def keep(
    store: RunStore,
    trial: Trial,
    computed: Computed,
    warnings: Sequence[Warning_] = (),
    command: Sequence[str] = (),
    exit_code: int | None = None,
    watched: _Watched | None = None,
) -> Record:
    """Make the durable record of a trial that was computed, or measured, in the folder that `store.begin` gave."""
    parsed = computed.parsed
    noted = [*warnings, *parsed.warnings, *([*watched.start.warnings, *watched.warnings] if watched else ())]
    if parsed.status == FAILED:
        space = os.statvfs(store.root)
        if space.f_bavail * space.f_frsize < _LEAST_SPACE_BYTES:
            # A tool that could not write its results says nothing about the disk it measures: that trial is run again.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    metrics = {name: value for name, value in parsed.metrics.items() if math.isfinite(value)}
    if lost := sorted(parsed.metrics.keys() - metrics.keys()):
        noted = [*noted, Warning_("not-a-number", f"{', '.join(lost)}: not a finite number, so left out")]
    said = dataclasses.asdict(trial)
    record = Record(
        trial={key: said[key] for key in _KEPT} | ({"search": trial.search} if trial.search else {}),
        status=parsed.status,
        reason=parsed.reason,
        started_unix_s=computed.started_unix_s,
        duration_s=computed.duration_s,
        metrics=metrics,
        parts=list(parsed.parts),
        claims=list(parsed.claims),
        warnings=tuple(dict.fromkeys(noted)),
        command=list(command),
        exit_code=exit_code,
        monitor_cost=watched.cost if watched else {},
        environment=watched.environment if watched else None,
        raw=sorted(path.name for path in (store.folder(trial.id) / "raw").iterdir()),
    )
    samples, seen = (watched.samples, watched.seen) if watched else ((), None)
    store.write(record, parsed.buckets, parsed.series, samples, seen)
    return record


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
            text = f"{wanted.text}: not used, since the driver '{self.trial.driver}' starts no process"
            self.warnings = [Warning_("conditions-unused", text)] if wanted else []
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
        loaded, watch = host.devices(load.path), self.bench.study.watch
        sampler = Sampler([monitor(name, devices=loaded) for name in watch.monitors], watch.interval)
        driver, params, devices = self.bench.driver, self.trial.params, loaded
        if load.path is None and (named := driver.touches(params)):  # no target: the first file of the parameters
            devices = host.devices(named[0].path)
        rates = RateReader(driver, raw / "stdout", devices[0] if devices else "", self.on_rates)
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
            touches, needs = driver.touches(params), driver.confinement(params)
            confined = confinement.spread(load, touches, raw, needs, [command.argv[0]])
            if self.trial.calls:
                try:
                    witnessed = witness.counting(loaded, raw)
                except ToolError as error:
                    raise ConditionError(str(error)) from None
            else:
                rate = self.bench.rates.get(plan.point_key(self.trial.point))
                level = OFF if self.trial.twin else self.bench.study.witness_level_at(rate)
                witnessed = witness.watching(level, loaded, raw)
            with witnessed as watching, confined as net:
                outcome = supervisor.run(
                    watching.command(step_argv(command, load, raw)),
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
                    shares = self.bench.meter.device_shares(seen) if seen is not None else {}
                    self.environment = replace(environment, devices=shares)
                if seen is not None and seen.threads is not None and seen.processes:
                    processes, threads = seen.processes - seen.threads, seen.threads
                    outcome = replace(outcome, processes=processes, threads=threads, most_alive=seen.most_alive)
                return with_steps(outcome, command, raw)
        finally:
            self.samples, self.cost = sampler.stop()
            if sampler.unavailable:
                (raw / UNAVAILABLE).write_text(json.dumps(sampler.unavailable, indent=1))
            limited = [Warning_("witness-limited", self.seen.why)] if self.seen is not None and self.seen.why else []
            self.warnings = [*self.warnings, *sampler.warnings, *limited]


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
    return replace(parsed, reason=reason, warnings=tuple(warnings))


def tag(store: RunStore) -> str:
    """What marks the processes of this run, whoever runs it."""
    return str(store.root.resolve())


# A trial of several processes

_DESCRIPTION, RESULTS = "json", "steps-ended.json"
"""In a trial's raw folder: what `process.sequence` was told to run, and what it left."""


def step_argv(command: Command, load: Load, raw: Path) -> Sequence[str]:
    """What starts a command; where it has steps, their description is written to the raw folder."""
    if not command.steps:
        return command.argv
    counter = load.step_counter
    description = {
        "steps": [list(step.argv) for step in command.steps],
        "names": [step.name for step in command.steps],
        "results": str((raw / RESULTS).absolute()),
        "folder": str(load.path.absolute()) if load.path is not None and load.path.is_dir() else None,
        "cold": command.cold,
        "socket": str(counter.socket) if counter else None,
        "request": counter.request if counter else None,
    }
    (raw / _DESCRIPTION).write_text(json.dumps(description, indent=1))
    return sequence.command((raw / _DESCRIPTION).absolute())


def with_steps(outcome: Outcome, command: Command, raw: Path) -> Outcome:
    """The outcome, with the steps that ended; none where the sequence was ended before it could say so."""
    found = [
        EndedStep(step.name, int(one["exit_status"]), int(one["stdout_end"]))
        for step, one in zip(command.steps, _results(command, raw).get("ended", ()), strict=False)
    ]
    return replace(outcome, steps=found) if found else outcome


def step_metrics(command: Command | None, load: Load, raw: Path) -> dict[str, float]:
    """What the storage counted for each step that has a name: `<name>.<metric>`. Steps of one name are one."""
    counter = load.step_counter
    if command is None or counter is None:
        return {}
    found = _results(command, raw)
    answers = [found.get("before"), *(one["counted"] for one in found.get("ended", ()))]
    known: dict[str, float] = {}
    for step, before, after in zip(command.steps, answers, answers[1:], strict=False):
        if step.name and all(isinstance(answer, dict) and answer.get("ok") is True for answer in (before, after)):
            known |= {f"{step.name}.{key}": value for key, value in counter.metrics(before, after).items()}
    return known


def _results(command: Command, raw: Path) -> Mapping[str, Any]:
    if not command.steps:
        return {}
    try:
        return validation.table((raw / RESULTS).read_text(), RESULTS)
    except (OSError, InputError):
        return {}


# Its current rates: the end of the output of its tool, and /proc/diskstats. A source with nothing to say is left out

INTERVAL_S, SHORT_INTERVAL_S, SHORT_S = 1.0, 0.5, 2.0
"""Between two reports; and in the first seconds of a trial, since some trials have no more."""
_STALE_S = 2.5
"""A tool that has written nothing for so long says nothing of the moment; fio writes once a second."""
_END_BYTES = 4096
_SECTOR_BYTES = 512
_LEAST_MS = 20.0
"""Of the time of all requests: with less, rounding to milliseconds would change their mean by more than 5 %."""


class RateReader:
    """Hands a trial's current rates to `on_rates`: `begin` as its tool begins, `report` as often as one likes."""

    def __init__(
        self,
        driver: Driver,
        stdout: Path,
        device: str,
        on_rates: Callable[[CurrentRates], None],
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver, self._stdout, self._device, self._on_rates = driver, stdout, device, on_rates
        self._clock = clock
        self._disk = monitor("disk", devices=[device], root=root) if device else None
        self._began_s = self._reported_s = self._written_s = 0.0
        self._written_bytes = 0
        self._counted: Mapping[str, float] = {}

    def begin(self) -> None:
        self._began_s = self._reported_s = self._written_s = self._clock()
        self._counted = self._counters()

    def report(self) -> None:
        now_s = self._clock()
        seconds = now_s - self._reported_s
        if seconds < (INTERVAL_S if now_s - self._began_s > SHORT_S else SHORT_INTERVAL_S):
            return
        before, self._counted, self._reported_s = self._counted, self._counters(), now_s
        rates = CurrentRates(now_s - self._began_s, self._of_tool(now_s))
        prefix = f"{self._device}."
        grown = {name.removeprefix(prefix): now - before.get(name, now) for name, now in self._counted.items()}
        if grown:  # completed reads and writes, and their mean latency; flushes and discards are neither
            requests, spent_ms = grown["reads"] + grown["writes"], grown["read_ms"] + grown["write_ms"]
            moved_bytes = _SECTOR_BYTES * (grown["read_sectors"] + grown["write_sectors"])
            latency_ns = 1e6 * spent_ms / requests if requests and spent_ms >= _LEAST_MS else None
            storage = Rates(requests / seconds, moved_bytes / seconds)
            rates = replace(rates, device=self._device, storage=storage, latency_ns=latency_ns)
        self._on_rates(rates)

    def _of_tool(self, now_s: float) -> Rates | None:
        try:
            with self._stdout.open("rb") as file:
                size_bytes = os.fstat(file.fileno()).st_size
                end = os.pread(file.fileno(), _END_BYTES, max(0, size_bytes - _END_BYTES))
        except OSError:
            return None
        if size_bytes != self._written_bytes:
            self._written_bytes, self._written_s = size_bytes, now_s
        return self._driver.rates(end.decode(errors="replace")) if now_s - self._written_s < _STALE_S else None

    def _counters(self) -> Mapping[str, float]:
        with suppress(OSError, ValueError):
            return self._disk.read() if self._disk is not None else {}
        return {}
