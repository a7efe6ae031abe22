"""ioassay turns: is B faster than A on this machine now?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay import units
from ioassay.cli import completion_values, console, options, progress, session, syntax
from ioassay.errors import RunError, UsageError
from ioassay.packs.comparison.commands.compare import JUDGING, judge, judging

if TYPE_CHECKING:
    from ioassay.api.run_results import Run

_SWITCH_S = 600.0
"""What a command may take that switches something."""


def _of_side(letter: str) -> dict[str, syntax.Row]:
    side = letter.lower()
    texts = list[str] | None, None
    return {
        f"set_{side}": syntax.row(*texts, "KEY=VALUE", f"Set it for {letter} only.", completion_values.settings),
        f"env_{side}": syntax.row(*texts, "NAME=VALUE", f"Set an environment variable for {letter}, such as a build."),
        f"switch_{side}": syntax.row(
            *(str, "", "COMMAND"), f"Run COMMAND in a shell ahead of each turn of {letter}, such as one that mounts."
        ),
    }


_SIDES = {**_of_side("A"), **_of_side("B")}


def register(app: syntax.Group) -> None:
    app.command()(turns)


@syntax.takes({**_SIDES, **options.CHANGES, **options.CONSENT, **JUDGING})
def turns(
    study: Annotated[str | None, options.StudyName] = None,
    *,
    number: Annotated[int, syntax.option("--turns N", "Turns of each side.", min=3)] = 10,
    output: Annotated[Path | None, syntax.option("DIR", "The folder; by default runs/<time>-turns.")] = None,
    wait_quiet: options.WaitQuiet = "",
    json: options.Json = False,
    **given: Any,
) -> None:
    """Measure two settings or builds in turns, and compare them.

    A B, B A, A B, …: each turn is a start of its own and measures each point once. Neighbours are compared, so that a
    slow drift of the machine cancels. The folder has the runs A and B; exit statuses are those of `compare`.

    Examples: ioassay turns block-size --set-a direct=0 --set-b direct=1;
    ioassay turns reads.toml --env-a IOASSAY_DB_BENCH=./old --env-b IOASSAY_DB_BENCH=./new
    """
    from ioassay.api.execution import RunOptions
    from ioassay.packs.comparison import turns as in_turns

    judging(given)
    wait_quiet_s = options.seconds("--wait-quiet", wait_quiet)
    chosen = RunOptions(**options.of_run(given), wait_quiet_s=wait_quiet_s)
    own = {side: {name: given[f"{name}_{side.lower()}"] for name in ("set", "env", "switch")} for side in "AB"}
    for side in "AB":
        _variables(side, own[side]["env"])
    settings = {side: [*(given["setting"] or ()), *(own[side]["set"] or ())] for side in "AB"}
    sides = {side: options.study(study, {**given, "setting": settings[side]}) for side in "AB"}
    root = in_turns.new_folder(output)
    runs: dict[str, Run] = {}
    before = os.environ.copy()
    try:
        with in_turns.interruptible(root):
            for side, begin in in_turns.planned(
                sides, number, root, chosen, lambda side: _switch(side, before, own[side])
            ):
                with progress.examining() as announce:
                    execution = begin(announce)
                if side not in runs:
                    console.note(f"{side}: {execution.store.root}")
                    session.say_devices(execution.devices())
                with progress.shown(execution.trials, execution.forecast_s) as shown:
                    runs[side] = execution.run(shown)
    finally:
        os.environ.clear()
        os.environ.update(before)
    failed = {side: run.tally for side, run in runs.items() if run.failed}
    console.notes(f"{side}: {tally}" for side, tally in failed.items())
    console.notes(session.kept_lines(runs["B"].kept_files()))
    for run in runs.values():
        run.publish()
    judge(root / "A", root / "B", root / "comparison", given)
    if failed:
        raise console.Exit(1)


def _variables(side: str, words: list[str] | None) -> dict[str, str]:
    """The variables that a side sets. UsageError for words that are no assignment."""
    found = dict(word.partition("=")[::2] for word in words or ())
    if wrong := next((word for word in words or () if word.find("=") < 1), None):
        raise UsageError(f"--env-{side.lower()} {wrong}: expected NAME=VALUE")
    return found


def _switch(side: str, before: Mapping[str, str], own: Mapping[str, Any]) -> None:
    """Make the environment and the machine as a side wants them. RunError where its command fails."""
    from ioassay.process import supervisor

    os.environ.clear()
    os.environ.update({**before, **_variables(side, own["env"])})
    if not (command := own["switch"]):
        return
    done = supervisor.capture(["sh", "-c", command], timeout_s=_SWITCH_S)
    if done.exit_code:
        said = next(iter(done.stderr.strip().splitlines()[-1:]), "it said nothing")
        raise RunError(f"--switch-{side.lower()}: '{command}' ended with status {done.exit_code}: {said}")
    if done.timed_out:
        raise RunError(
            f"--switch-{side.lower()}: '{command}' did not end within {units.format_duration(_SWITCH_S)}; "
            "expected a command that switches something and ends"
        )
