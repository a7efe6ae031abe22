"""The driver stress_ng: one stressor of stress-ng a trial, with any of its options by stress-ng's own names.

The installed stress-ng lists its stressors; `stressor_parameters` checks parameters against that list.
Results come from its YAML; `judge` decides whether they are a measurement. A bogo operation is what a
stressor calls one round of its work. It compares settings of one stressor on one machine. No kernel could confirm it,
so nothing is claimed. Nothing is started here.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ioassay import units
from ioassay.drivers import ended_badly, require_version, text_of
from ioassay.errors import InputError, StudyError
from ioassay.packs.stress_ng.claims import stressor_metrics
from ioassay.packs.stress_ng.driver import stressor_parameters
from ioassay.packs.stress_ng.driver.stressor_parameters import Capabilities, Settings, about, hopeless, log_messages
from ioassay.records.record import FAILED, OK, SKIPPED, Warning_
from ioassay.roles import (
    NOTHING,
    WRITE,
    Command,
    Confinement,
    Driver,
    Estimate,
    Load,
    Outcome,
    Parsed,
    Tool,
    Touch,
    Trial,
    short_s,
)

MINIMUM = (0, 15)
"""Its YAML has processor use and the stressors' own metrics since then."""
RESULTS = "stress-ng.yaml"
_NOT_STARTED = "stress-ng was not started"
_AROUND_S = 0.2
"""Beside a trial's timeout: starting, the witness, the record; the median of 112 trials on four busy cores."""
_FILE_CLASSES = ("filesystem", "io")


class StressNg(Driver):
    """Runs stress-ng. Implements `roles.Driver`."""

    name = "stress_ng"
    measures = True
    length_key = "timeout"
    responses = ("bogo_ops_real_rate",)

    def __init__(self, processors: int | None = None) -> None:
        self._offer = Capabilities()
        self._processors = processors or len(os.sched_getaffinity(0))

    def tool(self) -> Tool:
        return Tool("stress-ng", ["stress-ng", "--version"], MINIMUM, "stress-ng", stressor_parameters.probes())

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        example = "a line such as stress-ng, version 0.15.06"
        require_version(self.tool(), version, r"stress-ng, version (\d+)\.(\d+)", example)
        self._offer = stressor_parameters.capabilities(probes)

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        wanted, kind = stressor_parameters.read(params, self._offer), target.get("kind", "null")
        if kind not in ("null", "folder"):
            text = f"is '{kind}'; stress-ng loads a folder, or nothing: expected 'folder' or 'null'"
            raise StudyError(text, key="target.kind")
        # What the probes say that stress-ng will not do here, and what the lab will not let it do.
        names = [wanted.stressor, *([f"sched {wanted.options['sched']}"] if "sched" in wanted.options else [])]
        absent = [f"'{name}' cannot run here: {why}" for name in names if (why := self._offer.absent.get(name))]
        absent += filter(None, [wanted.no_room(self._processors)])
        warnings = [Warning_("will-be-skipped", text) for text in absent]
        if kind == "null" and self.access(params) == WRITE:
            text = f"'{wanted.stressor}' makes files, which go to the disk that holds the run"
            warnings.append(Warning_("files-beside-run", text, "use [target] kind = 'folder' to say where"))
        return warnings

    def access(self, params: Mapping[str, Any]) -> str:
        """WRITE where the stressor makes files in the target, by its class; NOTHING for all others."""
        name = str(params.get("stressor", ""))
        classes = [known for known, members in self._offer.classes.items() if name in members]
        by_class, listed = any(known in _FILE_CLASSES for known in classes), stressor_parameters.listed
        makes = name in listed("file_makers") or (by_class and name not in listed("file_less"))
        return WRITE if makes else NOTHING

    def touches(self, params: Mapping[str, Any]) -> Sequence[Touch]:
        """The device that `dev-file` names."""
        named = params.get("dev-file") or params.get("dev_file")
        return [Touch(Path(str(named)), WRITE)] if named else ()

    def confinement(self, params: Mapping[str, Any]) -> Confinement:
        """None: many stressors are about what a confined process may not do."""
        return Confinement(waiver="stress-ng's stressors mount, make devices and write to /proc, /sys and /dev/shm")

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """The timeout and what lies around it, and what is taken of the host; how much is written cannot be known."""
        wanted, makes_files = stressor_parameters.read(params, self._offer), self.access(params) == WRITE
        written = None if makes_files else 0
        demand = stressor_parameters.demand(wanted, makes_files)
        return Estimate(wanted.expected_s + _AROUND_S, written, demand=demand)

    def shortened(self, params: Mapping[str, Any], share: float) -> Mapping[str, Any] | None:
        """With a shorter `timeout`, in whole seconds; None where the load ends after its operations."""
        wanted = stressor_parameters.read(params, self._offer)
        part_s = short_s(wanted.expected_s, share, 1.0) if not wanted.counted else None
        return None if part_s is None else {**params, "timeout": int(part_s)}

    def command(self, trial: Trial, load: Load, raw: Path) -> Command | None:
        """stress-ng with its results and, unless the target is a folder, its files in `raw`.

        None where its real-time workers would keep all processors from the lab; `parse` then says so.
        """
        wanted, raw = stressor_parameters.read(trial.params, self._offer), raw.absolute()
        if wanted.no_room(self._processors):
            return None
        place = load.path if load.kind == "folder" and load.path else raw
        asked = ["--metrics", "--times", "--verbose", f"--yaml={raw / RESULTS}", f"--temp-path={place}"]
        if not {"seed", "no-rand-seed"} & wanted.options.keys():
            asked.append(f"--seed={trial.seed % 2**63}")
        return Command(["stress-ng", *wanted.argv(), *asked], wanted.longest_s, cwd=raw)

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """`skipped` or `failed`, with stress-ng's own words, for everything that is no measurement."""
        try:
            wanted = stressor_parameters.read(trial.params, self._offer)
            measured = stressor_metrics.yaml_metrics(text_of(raw / RESULTS)).get(wanted.stressor)
        except (InputError, StudyError) as error:
            return Parsed(FAILED, f"{RESULTS}: {error}")
        if outcome is None:
            why = wanted.no_room(self._processors)
            return Parsed(SKIPPED if why else FAILED, f"{why}: give it fewer workers" if why else _NOT_STARTED)
        log = "\n".join((text_of(outcome.stderr), text_of(outcome.stdout)))
        status, reason = judge(wanted, measured, outcome, log)
        warnings = remove_shared_memory(outcome.started_unix_s)
        if names := sorted(path.name for path in raw.glob("tmp-*") if path.is_dir()):  # they take the space of the run
            text = f"stress-ng left files behind in the trial's folder: {', '.join(names)[:200]}"
            warnings = [Warning_("files-left-behind", text, f"rm -r {raw}/tmp-*"), *warnings]
        if status != OK or measured is None:
            return Parsed(status, reason, warnings=warnings)
        # Each worker that was started has its number in the log, also where it is started again.
        workers = len({started[1] for started in _WORKER_STARTED.finditer(log)})
        counts = _counts(outcome, workers or wanted.workers)
        warnings = [*suspicions(wanted, measured, workers, log), *warnings]
        return Parsed(OK, metrics={**measured, **counts}, warnings=warnings)


def _counts(outcome: Outcome, workers: int) -> dict[str, float]:
    """What the kernel (getrusage(2)) and the witness counted; stress-ng itself tells its workers alone."""
    found = {"threads": outcome.threads, "tasks_at_once": outcome.most_alive, "processes": outcome.processes}
    if outcome.processes is not None:
        found["sub_processes"] = max(outcome.processes - 1 - workers, 0)  # 1: stress-ng, which starts the workers
    if usage := outcome.usage:
        found["context_switches"] = usage.ru_nvcsw + usage.ru_nivcsw
        found |= {"major_faults": usage.ru_majflt, "minor_faults": usage.ru_minflt}
    found["workers_started"] = workers
    return {name: float(number) for name, number in found.items() if number is not None}


# Was this a measurement? stress-ng exits with 0 where it skipped the stressor, and where it did nothing at all. Exit
# statuses are those of stress-ng(1). `skipped` is what this machine, kernel or user cannot do, in stress-ng's words;
# everything else that is no measurement is `failed`.

_EXITS = {
    1: "refused its options or could not set itself up",
    2: "says that the stressor failed",
    3: "could not start the stressor for want of resources",
    4: "has not implemented the stressor for this machine",
    5: "says that a signal ended a worker",
    6: "says that a worker ended in an unexpected way",
    7: "says that its own counts cannot be trusted",
}
_NOT_HERE = (0, 1, 3, 4)
"""Statuses behind which may be something that cannot be had here; the words tell."""
_GAVE_UP = (3, 4)
_GRACE_S = 0.5
"""Starting many workers takes a moment of a run."""
_LONGEST_QUOTE = 300
_WORKER_STARTED = re.compile(r"started \[\d+\] \(instance (\d+)\)")
_WORKER_KILLED = re.compile(r"\[\d+\] (?:\(\S+\) )?terminated on signal:? (?P<number>\d+)")
"""`process [7] (cpu) terminated on signal: 9 (Killed)` of 0.15, `cpu: [7] terminated on signal 9 'SIGKILL'` of 0.19,
which counts such a worker as passed (presumably the OOM killer's, which some stressors provoke) and ends with 0."""


def judge(wanted: Settings, measured: Mapping[str, float] | None, outcome: Outcome, log: str) -> tuple[str, str]:
    """The status of a trial and the reason, '' where it is ok."""
    remedy = "raise run.timeout, or lower params.timeout"
    if reason := ended_badly(outcome, "stress-ng", remedy, lambda: _quoted(log)):
        return FAILED, reason
    code, done = outcome.exit_code or 0, measured.get("bogo_ops", 0.0) if measured is not None else 0.0
    # On level `info` it states a fact of the machine; on `fail` and `error` it is about this very run.
    facts = log_messages(log, "info")
    own, name = about(wanted.stressor, facts), f"'{wanted.stressor}'"
    if done <= 0 and code in _NOT_HERE and (why := hopeless([own]) or hopeless(facts)):
        return SKIPPED, f"stress-ng cannot do this here: {why}"
    if code in _GAVE_UP and "skipping stressor" in own:
        return SKIPPED, f"stress-ng cannot do this here: {own}"  # though some of its workers had begun
    if code == 4:
        return SKIPPED, f"stress-ng {_EXITS[4]}{_quoted(log)}"
    if code:
        return FAILED, f"stress-ng {_EXITS.get(code, 'failed')} (exit status {code}){_quoted(log, last=True)}"
    if measured is None:
        return FAILED, f"stress-ng wrote no results of {name}{_quoted(log)}"
    if killed := next(filter(None, map(_WORKER_KILLED.search, log_messages(log, "debug"))), None):
        return FAILED, f"signal {killed['number']} ended a worker of {name}: its counts are not whole"
    if done <= 0:
        return FAILED, f"{name} did no operation (0 bogo ops){_quoted(log)}"
    ran_s = measured.get("real_time", 0.0) or outcome.duration_s
    if wanted.timeout_s and not wanted.counted and ran_s < 0.9 * wanted.timeout_s - _GRACE_S:
        took = units.format_duration(ran_s)
        return FAILED, f"{name} ended after {took} of {wanted.timeout_s} s{_quoted(log)}"
    return OK, ""


def suspicions(wanted: Settings, measured: Mapping[str, float], workers: int, log: str) -> list[Warning_]:
    """What is odd about a good result."""
    found = []
    if wanted.workers and workers and workers < wanted.workers:
        text = f"{workers} of {wanted.workers} workers were started"
        found.append(Warning_("fewer-workers-started", text, "lower params.workers"))
    ran_s = measured.get("real_time", 0.0)
    if wanted.timeout_s and ran_s > 1.2 * wanted.timeout_s + 1:
        text = f"the workers ran for {units.format_duration(ran_s)} instead of {wanted.timeout_s} s"
        found.append(Warning_("over-run", text, "rates are over the time that they took"))
    notes = log_messages(log, "warn", "error", "fail")[:5]
    return [*found, *(Warning_("stress-ng-note", line[:_LONGEST_QUOTE]) for line in notes)]


def _quoted(log: str, last: bool = False) -> str:
    """The first lines of its complaints; options that it does not take are named without a prefix.

    `last`: where it complains of nothing, what it said last.
    """
    lines: Sequence[str] = list(dict.fromkeys(log_messages(log, "fail", "error", "warn")))  # workers complain alike
    if not lines:
        plain = (line.strip() for line in log.split("\n") if not stressor_parameters.PREFIX.match(line))
        lines = [line for line in plain if line and not line.startswith("Try '")]
    if not lines and last:
        lines = log_messages(log)[-1:]
    return f": {'; '.join(lines[:2])[:_LONGEST_QUOTE]}" if lines else ""


# Shared memory: the stressor `shm` (0.15.06) sometimes forgets objects, also where it ends in time. Each is memory that
# no process can use until it is removed (shm_overview(7)). An object is taken for one of a trial's only where its name
# is stress-ng's, the process in that name is gone, this user owns it, and it was changed since the trial began. Files
# that a stressor leaves in the target's folder go with that folder.

SHARED_MEMORY = Path("/dev/shm")
_NAME = re.compile(r"stress-ng-(\d+)-[0-9a-f]+-[0-9a-f]+")
"""Process, size or number, and a random number (stress-shm.c)."""


def remove_shared_memory(
    since_unix_s: float, folder: Path = SHARED_MEMORY, proc: Path = Path("/proc")
) -> list[Warning_]:
    """Remove what a trial that began at `since_unix_s` left in `folder`; a warning that says what it was."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    sizes_bytes = []
    for name in names:
        named, path = _NAME.fullmatch(name), folder / name
        if named is None or (proc / named[1]).exists():
            continue
        with suppress(OSError):
            found = path.lstat()
            if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_ctime >= since_unix_s:
                path.unlink()
                sizes_bytes.append(found.st_size)
    if not sizes_bytes:
        return []
    objects = f"{len(sizes_bytes)} object{'s' if len(sizes_bytes) > 1 else ''} of shared memory"
    text = f"stress-ng left {objects} ({units.format_size(sum(sizes_bytes))}) in {folder}; removed"
    return [Warning_("memory-left-behind", text)]
