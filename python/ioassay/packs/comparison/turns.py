"""Two settings, builds or states of a machine measured in turns: A B, B A, A B, …, a randomised block of each.

Each turn is a start of its own, so that turns scatter as runs do; neighbours are compared, so that a slow drift
cancels. Both sides are ordinary runs, which `compare` recognizes as turns by their times.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from ioassay.api import execution
from ioassay.api.execution import USUAL, RunKeys, RunOptions
from ioassay.api.study import Study
from ioassay.errors import Interrupted, UsageError
from ioassay.runner.progress import Progress
from ioassay.stats.contrasts import MARGIN
from ioassay.stats.run_scatter import FEWEST_TURNS
from ioassay.store import run_folder

if TYPE_CHECKING:
    from ioassay.api.execution import Announce, Execution
    from ioassay.packs.comparison.comparison_results import Comparison

TURNS = 10
Begin = Callable[["Announce | None"], "Execution"]
Before = Callable[[str], None]


def turns(
    a: Study,
    b: Study,
    *,
    turns: int = TURNS,
    before: Before | None = None,
    output: str | Path | None = None,
    margin: float = MARGIN,
    confidence: float = 0.95,
    progress: Progress | None = None,
    **options: Unpack[RunKeys],
) -> Comparison:
    """Measure two studies in turns, a randomised block of each a turn, and judge `b` against `a`.

    `before('A')` or `before('B')` is called ahead of each turn, and switches what is no setting of a study. `output` is
    the new folder of the runs A and B, by default runs/<time>-turns; `options` and errors are those of `Study.run`.
    """
    from ioassay.packs.comparison.comparison_results import compare

    root = new_folder(output)
    with interruptible(root):
        for _, begin in planned({"A": a, "B": b}, turns, root, RunOptions(**options), before):
            begin(progress.preparing if progress else None).run(progress)
    return compare(root / "A", root / "B", margin=margin, confidence=confidence)


def new_folder(output: str | Path | None) -> Path:
    """The folder that the runs are in. UsageError where there is something already."""
    if output is None:
        return run_folder.new_folder(Path("runs"), "turns")
    root = Path(output)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise UsageError(f"{root}: exists already; expected a new or an empty folder")
    return root


def planned(
    sides: Mapping[str, Study], turns: int, root: Path, options: RunOptions = USUAL, before: Before | None = None
) -> Iterator[tuple[str, Begin]]:
    """The turns in their order: the letter, and what begins it. UsageError for what cannot take turns."""
    if turns < FEWEST_TURNS:
        raise UsageError(f"--turns is {turns}; expected at least {FEWEST_TURNS}, since they tell how much turns differ")
    for letter, study in sides.items():
        for one in study.suite.studies:
            if one.until is not None:
                raise UsageError(
                    f"{one.name} of {letter}: repeats until an interval is narrow, and each side as often as it needs; "
                    "expected repetitions in place of until"
                )
    fixed = {letter: _with_blocks(study, turns) for letter, study in sides.items()}
    for number in range(turns):
        for letter in ("AB", "BA")[number % 2]:
            if before is not None:
                before(letter)
            chosen = replace(options, blocks=number + 1)
            yield letter, _begin(fixed[letter], root / letter, chosen, is_new=number == 0)


def _with_blocks(study: Study, turns: int) -> Study:
    studies = [one.model_copy(update={"repetitions": turns}) for one in study.suite.studies]
    return Study.of_suite(study.suite.model_copy(update={"studies": studies}), study.left_out)


def _begin(study: Study, root: Path, options: RunOptions, *, is_new: bool) -> Begin:
    if is_new:
        return lambda announce: study.begin(root, announce, options)
    return lambda announce: execution.resume(root, options, announce)


@contextmanager
def interruptible(root: Path) -> Iterator[None]:
    """Ctrl-C says what the turns so far are good for: to resume one side alone would not go on in turns."""
    try:
        yield
    except (KeyboardInterrupt, Interrupted):
        a, b = (root / letter for letter in "AB")
        if not (a.exists() and b.exists()):
            raise Interrupted("interrupted in the first turns; what was recorded is kept") from None
        runs = shlex.join(map(str, (a, b)))
        raise Interrupted(f"interrupted; what was recorded is kept. The turns so far: ioassay compare {runs}") from None
