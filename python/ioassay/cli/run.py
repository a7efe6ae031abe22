"""ioassay run: a study, a suite or a fio job file, from plan to report."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from ioassay.api import computing
from ioassay.api import execution as executions
from ioassay.cli import closing, completion_values, console, options, session, syntax
from ioassay.errors import UsageError
from ioassay.roles import Consent


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("run")(run)


def run(
    study: Annotated[str | None, options.StudyName] = None,
    output: options.Output = None,
    resume: Annotated[Path | None, syntax.option("RUN", "Resume a stopped run.", completion_values.runs)] = None,
    setting: options.Set = None,
    factor: options.Factor = None,
    repetitions: options.Repetitions = None,
    blocks: Annotated[
        int | None, syntax.option("N", "Stop after N randomised blocks; --resume runs the others.", min=1)
    ] = None,
    scale: options.Scale = "full",
    destroy_data: options.DestroyData = None,
    allow_exec: options.AllowExec = False,
    workers: options.Workers = None,
    executor: options.Executor = None,
    wait_quiet: options.WaitQuiet = "",
    live: options.Live = False,
    json: options.Json = False,
) -> None:
    """Run a study and write its report.

    Examples: ioassay run block-io --scale quick; ioassay run my.fio --factor bs=4k,16k --repetitions 5
    """
    console.use_json(json)
    wait_quiet_s = options.seconds("--wait-quiet", wait_quiet)
    computing.at_once(executor, workers)
    if resume is not None:
        _refuse_changes(study, output, setting, factor, repetitions, scale)
        checks = executions.Checks(Consent(tuple(destroy_data or ()), allow_exec), executor=executor)
        execution = session.ready(partial(executions.resume, resume, checks), live=live)
    else:
        if study is None:
            raise UsageError(
                "no study given; expected a name from 'ioassay studies', a .toml study or a .fio job file. "
                "'ioassay quick' needs none"
            )
        chosen = options.study(study, scale, setting, factor, repetitions)
        begin = partial(chosen.begin, output, destroy_data=destroy_data or (), allow_exec=allow_exec, executor=executor)
        execution = session.ready(begin, live=live)
    ended = session.measure(execution, workers, wait_quiet_s, executor=executor, live=live, blocks=blocks)
    if json:
        console.emit(ended.as_dict())
    else:
        closing.say(ended)
    session.end(ended)


def _refuse_changes(study: str | None, *changes: object) -> None:
    if study is not None or any(change not in (None, "full") for change in changes):
        raise UsageError("--resume goes on with a run as it was planned; expected no study and no other change with it")
