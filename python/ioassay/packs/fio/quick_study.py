"""The study of `ioassay quick`: about a minute to a verified answer for the disk under a folder."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ioassay import units
from ioassay.api.study import Study
from ioassay.errors import StudyError, UsageError
from ioassay.records.record import Warning_

if TYPE_CHECKING:
    from ioassay.api.execution import Announce, Execution
    from ioassay.api.progress import Progress
    from ioassay.api.run_results import Run
    from ioassay.packs.fio.quick_profile import Choice, QuickProfile

NAME = "quick"


class QuickStudy(Study):
    """Random and sequential reads and writes of a new file below a folder, in a profile that fits a budget of time."""

    profile: QuickProfile

    @classmethod
    def fitting(cls, path: Path, budget_s: float) -> QuickStudy:
        """The study for the disk under `path`. UsageError for no folder, StudyError where no profile fits it."""
        from ioassay.packs.fio import quick_profile
        from ioassay.study import catalog

        choice = _choice(path, budget_s)
        suite = catalog.load(NAME, lambda table: quick_profile.applied(dict(table), path.resolve(), choice.profile))
        study = cls.of_suite(suite, left_out=_compromise(choice, budget_s))
        study.profile, study._folder = choice.profile, path.resolve()
        return study

    _folder: Path

    def begin(
        self,
        output: str | Path | None = None,
        announce: Announce | None = None,
        *,
        destroy_data: object = (),
        allow_exec: bool = False,
        executor: object = None,
    ) -> Execution:
        """As `Study.begin`; files that killed runs left below the folder are warnings. It destroys nothing."""
        ready = super().begin(output, announce)
        return replace(ready, warnings=[*ready.warnings, *_left_behind(self._folder)])


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


def _choice(path: Path, budget_s: float) -> Choice:
    from ioassay.packs.fio import quick_profile
    from ioassay.study import catalog

    if not path.is_dir():
        what = "is no folder" if path.exists() else "no such folder"
        raise UsageError(f"{path}: {what}; wanted a folder on the disk to measure")
    quick_profile.check_budget(budget_s)
    speed, free_bytes = quick_profile.write_speed(path)
    try:
        return quick_profile.choose(budget_s, speed, free_bytes, len(catalog.load(NAME).studies[0].case))
    except StudyError as error:
        raise StudyError(str(error), source=str(path)) from None


def _compromise(choice: Choice, budget_s: float) -> list[Warning_]:
    """The profile that does not fit the disk, or the budget that does not fit the profile."""
    if choice.obstacle:
        text = (
            f"the profile '{choice.wanted.name}' does not fit: {choice.obstacle}. '{choice.profile.name}' is used, "
            "which compares with runs of that profile only"
        )
        return [Warning_("smaller-profile", text, "raise --budget, free space, or name another folder")]
    if choice.seconds > budget_s:
        about, given = units.format_duration(choice.seconds), units.format_duration(budget_s)
        text = f"the profile '{choice.profile.name}' takes about {about}; the budget is {given}"
        return [Warning_("over-budget", text, f"--budget {choice.seconds:.0f}s")]
    return []


def _left_behind(folder: Path) -> list[Warning_]:
    """Test files of earlier runs of this study that were killed together with all that could have removed them."""
    from ioassay.packs.fio import quick_profile
    from ioassay.targets import ownership_mark

    found = []
    for path in quick_profile.files_of_killed(folder):
        if parts := ownership_mark.files(path):
            size = units.format_size(sum(part.stat().st_blocks * 512 for part in parts))
            text = f"{path} ({size}) is the test file of a run that was killed"
            found.append(Warning_("file-left", text, shlex.join(["rm", "--", *map(str, parts)])))
    return found
