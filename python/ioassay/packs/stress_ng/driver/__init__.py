"""The driver stress_ng: one stressor of stress-ng a trial, with any of its options by stress-ng's own names.

The installed stress-ng lists its stressors; `stressor_parameters` checks parameters against that list.
Results come from its YAML; `stressor_outcome` decides whether they are a measurement. A bogo operation is what a
stressor calls one round of its work. It compares settings of one stressor on one machine. No kernel could confirm it,
so nothing is claimed. Nothing is started here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay.drivers.programs import require_version, text_of
from ioassay.errors import InputError, StudyError
from ioassay.pack import words
from ioassay.packs.stress_ng.claims import stressor_metrics
from ioassay.packs.stress_ng.driver import resource_demand, stressor_outcome, stressor_parameters
from ioassay.packs.stress_ng.driver.stressor_parameters import Capabilities, Settings
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
_AROUND_S = 0.2
"""Beside a trial's timeout: starting, the witness, the record; the median of 112 trials on four busy cores."""
_UNCONFINED = "stress-ng's stressors mount, make devices and write to /proc, /sys and /dev/shm"
_NOT_STARTED = "stress-ng was not started"
_FILE_CLASSES = ("filesystem", "io")
_FILE_MAKERS = frozenset(
    words(
        "chroot dev-shm dynlib fault fifo loop madvise mincore mmap mmapmany msync msyncmany pageswap quota ramfs "
        "rawdev rlimit sendfile sigio sockfd splice swap tee tmpfs umount vm-splice"
    )
)
"""Stressors of other classes that make files, or may."""
_NO_FILES = frozenset(("dup", "eventfd", "getdent", "procfs"))
"""Stressors of those classes that change no file of the target."""


class StressNg(Driver):
    """Runs stress-ng. Implements `roles.Driver`."""

    name = "stress_ng"
    measures = True
    length_key = "timeout"
    responses = ("bogo_ops_real_rate",)

    def __init__(self, processors: int | None = None) -> None:
        self._offer = Capabilities()
        self._processors = processors or len(os.sched_getaffinity(0))

    def tool(self) -> Tool | None:
        """stress-ng, with its lists of stressors, options and classes, and what it cannot do here."""
        return Tool("stress-ng", ["stress-ng", "--version"], MINIMUM, "stress-ng", stressor_parameters.probes())

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        """Take its version and lists; ToolError when it is too old to be read."""
        asked, example = "stress-ng --version", "a line such as stress-ng, version 0.15.06"
        pattern = r"stress-ng, version (\d+)\.(\d+)"
        require_version(version, pattern, MINIMUM, asked=asked, example=example, name="stress-ng")
        self._offer = stressor_parameters.capabilities(probes)

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        """Check one point; StudyError names the parameter. Names are known after `configure`."""
        wanted, kind = stressor_parameters.read(params, self._offer), target.get("kind", "null")
        if kind not in ("null", "folder"):
            raise StudyError(
                f"is '{kind}'; stress-ng loads a folder, or nothing: expected 'folder' or 'null'", key="target.kind"
            )
        warnings = [Warning_("will-be-skipped", text) for text in self._absent(wanted)]
        if kind == "null" and self.access(params) == WRITE:
            text = f"'{wanted.stressor}' makes files, which go to the disk that holds the run"
            warnings.append(Warning_("files-beside-run", text, "use [target] kind = 'folder' to say where"))
        return warnings

    def _absent(self, wanted: Settings) -> list[str]:
        """What the probes say that stress-ng will not do here, and what the lab will not let it do."""
        names = [wanted.stressor, *([f"sched {wanted.options['sched']}"] if "sched" in wanted.options else [])]
        absent = [f"'{name}' cannot run here: {why}" for name in names if (why := self._offer.absent.get(name))]
        return [*absent, *filter(None, [wanted.no_room(self._processors)])]

    def access(self, params: Mapping[str, Any]) -> str:
        """WRITE where the stressor makes files in the target, by its class; NOTHING for all others."""
        name = str(params.get("stressor", ""))
        classes = [known for known, members in self._offer.classes.items() if name in members]
        makes = name in _FILE_MAKERS or (name not in _NO_FILES and any(known in _FILE_CLASSES for known in classes))
        return WRITE if makes else NOTHING

    def touches(self, params: Mapping[str, Any]) -> Sequence[Touch]:
        """The device that `dev-file` names."""
        named = params.get("dev-file") or params.get("dev_file")
        return [Touch(Path(str(named)), WRITE)] if named else ()

    def confinement(self, params: Mapping[str, Any]) -> Confinement:
        """None: many stressors are about what a confined process may not do."""
        return Confinement(waiver=_UNCONFINED)

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """The timeout and what lies around it, and what is taken of the host; how much is written cannot be known."""
        wanted, makes_files = stressor_parameters.read(params, self._offer), self.access(params) == WRITE
        written = None if makes_files else 0
        demand = resource_demand.demand(wanted, makes_files)
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
        """Read its results; `skipped` or `failed`, with its own words, for everything that is no measurement."""
        try:
            wanted = stressor_parameters.read(trial.params, self._offer)
            if outcome is None:
                why = wanted.no_room(self._processors)
                return Parsed(SKIPPED, f"{why}: give it fewer workers") if why else Parsed(FAILED, _NOT_STARTED)
            return _read(wanted, outcome, raw)
        except (InputError, StudyError) as error:
            return Parsed(FAILED, f"{RESULTS}: {error}")


def _read(wanted: Settings, outcome: Outcome, raw: Path) -> Parsed:
    log = "\n".join((text_of(outcome.stderr), text_of(outcome.stdout)))
    measured = stressor_metrics.yaml_metrics(text_of(raw / RESULTS)).get(wanted.stressor)
    status, reason = stressor_outcome.judge(wanted, measured, outcome, log)
    behind = [*_left_behind(raw), *stressor_outcome.remove_shared_memory(outcome.started_unix_s)]
    if status != OK or measured is None:
        return Parsed(status, reason, warnings=behind)
    workers = stressor_outcome.workers_started(log)
    started = workers or wanted.workers
    metrics = {**measured, "workers_started": float(started), **_switches(outcome), **_tasks(started, outcome)}
    return Parsed(OK, metrics=metrics, warnings=(*stressor_outcome.suspicions(wanted, measured, workers, log), *behind))


def _switches(outcome: Outcome) -> dict[str, float]:
    """What the kernel counted of stress-ng, its workers and their children (getrusage(2))."""
    usage = outcome.usage
    if usage is None:
        return {}
    switches = usage.ru_nvcsw + usage.ru_nivcsw
    return {
        "context_switches": float(switches),
        "major_faults": float(usage.ru_majflt),
        "minor_faults": float(usage.ru_minflt),
    }


def _tasks(workers: int, outcome: Outcome) -> dict[str, float]:
    """What the witness counted; nothing without it, as stress-ng itself tells its workers alone."""
    found = {"threads": outcome.threads, "tasks_at_once": outcome.most_alive, "processes": outcome.processes}
    if outcome.processes is not None:
        found["sub_processes"] = max(outcome.processes - 1 - workers, 0)  # 1: stress-ng, which starts the workers
    return {name: float(number) for name, number in found.items() if number is not None}


def _left_behind(raw: Path) -> list[Warning_]:
    """Folders of files that a stressor did not remove, in `raw`, where they take the space of the run."""
    names = sorted(path.name for path in raw.glob("tmp-*") if path.is_dir())
    if not names:
        return []
    text = f"stress-ng left files behind in the trial's folder: {', '.join(names)[:200]}"
    return [Warning_("files-left-behind", text, f"rm -r {raw}/tmp-*")]
