"""The study of `ioassay quick`: about a minute to a verified answer for the disk under a folder."""

from __future__ import annotations

import mmap
import os
import shlex
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import units
from ioassay.api.execution import USUAL, RunOptions
from ioassay.api.study import Study
from ioassay.errors import StudyError, UsageError
from ioassay.records.record import Warning_
from ioassay.study import catalog
from ioassay.targets import ownership_mark

if TYPE_CHECKING:
    from ioassay.api.execution import Announce, Execution
    from ioassay.api.run_results import Run
    from ioassay.runner.progress import Progress

NAME = "quick"


class QuickStudy(Study):
    """Random and sequential reads and writes of a new file below a folder, in a profile that fits a budget of time."""

    profile: QuickProfile

    @classmethod
    def fitting(cls, path: Path, budget_s: float) -> QuickStudy:
        """The study for the disk under `path`. UsageError for no folder, StudyError where no profile fits it.

        A profile that does not fit the disk, or a budget that does not fit the profile, is a warning.
        """
        if not path.is_dir():
            what = "is no folder" if path.exists() else "no such folder"
            raise UsageError(f"{path}: {what}; expected a folder on the disk to measure")
        check_budget(budget_s)
        speed, free_bytes = write_speed(path)
        try:
            choice = choose(budget_s, speed, free_bytes, len(catalog.load(NAME).studies[0].case))
        except StudyError as error:
            raise StudyError(str(error), source=str(path)) from None
        profile, warnings = choice.profile, []
        if choice.obstacle:
            text = (
                f"the profile '{choice.wanted.name}' does not fit: {choice.obstacle}. '{profile.name}' is used, "
                "which compares with runs of that profile only"
            )
            remedy = "raise --budget, free space, or name another folder"
            warnings.append(Warning_("smaller-profile", text, remedy))
        elif choice.seconds > budget_s:
            about, given = units.format_duration(choice.seconds), units.format_duration(budget_s)
            text = f"the profile '{profile.name}' takes about {about}; the budget is {given}"
            warnings.append(Warning_("over-budget", text, f"--budget {choice.seconds:.0f}s"))
        suite = catalog.load(NAME, lambda table: applied(dict(table), path.resolve(), profile))
        study = cls.of_suite(suite, left_out=warnings)
        study.profile, study._folder = profile, path.resolve()
        return study

    _folder: Path

    def begin(
        self, output: str | Path | None = None, announce: Announce | None = None, options: RunOptions = USUAL
    ) -> Execution:
        """As `Study.begin`; files that killed runs left below the folder are warnings."""
        ready = super().begin(output, announce, options)
        warnings = [*ready.warnings]
        for path in files_of_killed(self._folder):
            if parts := ownership_mark.files(path):
                size = units.format_size(sum(part.stat().st_blocks * 512 for part in parts))
                text = f"{path} ({size}) is the test file of a run that was killed"
                warnings.append(Warning_("file-left", text, shlex.join(["rm", "--", *map(str, parts)])))
        return replace(ready, warnings=warnings)


def quick(
    path: str | Path = ".",
    *,
    budget_s: float = 60.0,
    output: str | Path | None = None,
    progress: Progress | None = None,
    wait_quiet_s: float = 0.0,
) -> Run:
    """Measure the disk under `path` in about `budget_s` seconds; the test file is removed at the end.

    The budget chooses the profile: short (from 15 s), standard (from 60 s) or long (from 300 s). Runs of one profile
    can be compared. Other arguments and errors as of `Study.run`.
    """
    return QuickStudy.fitting(Path(path), budget_s).run(output, progress=progress, wait_quiet_s=wait_quiet_s)


# The fixed profiles: size of the file, run time of a trial, repetitions. Their numbers are constants, so that two runs
# on one disk, or on two disks, measure under the same conditions and can be compared. The disk's write speed is sampled
# first, only to choose the profile: writing the test file is part of the budget.

_SAMPLE_BYTES = 16 * 2**20
_SAMPLE_LIMIT_S = 1.0
_FILE = "ioassay-quick-"
"""Name of the test file, before the number of the process."""
_REPORT_S = 5.0
_TRIAL_OVERHEAD_S = 0.5
"""What a trial costs beside its run time: fio's start and end, and the durable record."""
_MOST_OF_FREE = 0.5
"""Share of the free space that the test file may take."""
_MOST_OVER_BUDGET = 2.0
"""The smallest profile may take this many times the budget, on a disk that is slow to write."""


@dataclass(frozen=True)
class QuickProfile:
    """The conditions of a quick run."""

    name: str
    budget_s: float
    """The least budget that it is meant for."""
    size_bytes: int
    run_s: float
    repetitions: int

    def seconds(self, workloads: int, write_bytes_per_s: float = float("inf")) -> float:
        """What the whole command takes, the report included."""
        trials = workloads * self.repetitions
        return self.size_bytes / write_bytes_per_s + trials * (self.run_s + _TRIAL_OVERHEAD_S) + _REPORT_S


PROFILES = (
    QuickProfile("long", 300, 4 * 2**30, 3.0, 10),
    QuickProfile("standard", 60, 512 * 2**20, 1.0, 5),
    QuickProfile("short", 15, 128 * 2**20, 0.3, 3),
)
"""The largest first. Five repetitions instead of three narrow an interval by more than a third (t of 2.8, not 4.3)."""


@dataclass(frozen=True)
class Choice:
    """The profile for a budget and a disk; `wanted` is that of a fast and empty one. `seconds`: what it takes here."""

    profile: QuickProfile
    wanted: QuickProfile
    seconds: float
    obstacle: str = ""
    """Why the profile is not the wanted one."""


def check_budget(budget_s: float) -> None:
    """UsageError when the budget is too short, before anything is written."""
    if budget_s < PROFILES[-1].budget_s:
        raise UsageError(
            f"--budget {budget_s:g}: too short for three repetitions; expected {PROFILES[-1].budget_s:g} s or more"
        )


def choose(budget_s: float, write_bytes_per_s: float, free_bytes: int, workloads: int) -> Choice:
    """The largest profile that the budget and the disk allow; StudyError where the disk allows none."""
    check_budget(budget_s)
    smallest = PROFILES[-1]
    wanted = next(one for one in PROFILES if one.budget_s <= budget_s)
    roomy = [one for one in PROFILES[PROFILES.index(wanted) :] if one.size_bytes <= free_bytes * _MOST_OF_FREE]
    free, speed = f"{units.format_size(free_bytes)} are free", f"the disk writes {units.format_rate(write_bytes_per_s)}"
    if not roomy:
        needed = units.format_size(smallest.size_bytes / _MOST_OF_FREE)
        raise StudyError(f"{free}; expected {needed} or more: free some, or name another folder")
    profile = next((one for one in roomy if one.seconds(workloads, write_bytes_per_s) <= budget_s), smallest)
    seconds = profile.seconds(workloads, write_bytes_per_s)
    if seconds > _MOST_OVER_BUDGET * budget_s:
        raise StudyError(
            f"{speed}, so that the profile '{profile.name}' takes about {units.format_duration(seconds)}; "
            f"expected --budget {seconds:.0f}s, or another folder"
        )
    obstacle = "" if profile == wanted else speed if wanted in roomy else free
    return Choice(profile, wanted, seconds, obstacle)


def write_speed(folder: Path) -> tuple[float, int]:
    """(bytes/s, free bytes) of the disk under `folder`, from a second or less of synchronous writes to a new file."""
    path = folder / f".ioassay-sample-{os.getpid()}"
    block = mmap.mmap(-1, 2**20)
    block.write(os.urandom(2**20))
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StudyError(f"{folder}: cannot be written: {error.strerror}; name another folder") from None
    try:
        path.unlink()  # it lives as long as the descriptor, so that not even SIGKILL leaves it
        with suppress(OSError):  # some filesystems know no direct I/O; the sync below is slower, but as honest
            import fcntl

            fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_DIRECT)
        began_s, written = time.monotonic(), 0
        while written < _SAMPLE_BYTES and time.monotonic() - began_s < _SAMPLE_LIMIT_S:
            written += os.write(descriptor, block)
            os.fdatasync(descriptor)
        speed = written / max(time.monotonic() - began_s, 1e-9)
    except OSError as error:
        raise StudyError(f"{folder}: cannot be written: {error.strerror}; name another folder") from None
    finally:
        os.close(descriptor)
    space = os.statvfs(folder)
    return speed, space.f_bavail * space.f_frsize


def files_of_killed(folder: Path) -> list[Path]:
    """Files that bear the name of a test file in `folder` and the number of a process that is gone."""
    named = ((path, path.name.removeprefix(_FILE)) for path in sorted(folder.glob(f"{_FILE}*")))
    return [path for path, pid in named if pid.isdecimal() and not Path("/proc", pid).exists()]


def applied(table: dict[str, Any], folder: Path, profile: QuickProfile) -> dict[str, Any]:
    """The study's table under a profile, its file in `folder`."""
    path = str(folder / f"{_FILE}{os.getpid()}")
    return {
        **table,
        "target": {**table["target"], "path": path, "size": profile.size_bytes},
        "params": {**table["params"], "runtime": f"{round(profile.run_s * 1000)}ms"},
        "repetitions": profile.repetitions,
    }
