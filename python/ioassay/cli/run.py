"""ioassay run: a study, a suite or a fio job file, from plan to report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.cli import closing, console, options, session, study_choice, syntax
from ioassay.errors import UsageError
from ioassay.roles import Consent

if TYPE_CHECKING:
    from ioassay.records.record import Warning_
    from ioassay.runner.preflight import Bench
    from ioassay.store.run_folder import RunStore


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("run")(run)


def run(
    study: Annotated[
        str | None, syntax.Argument(metavar="STUDY", help="A built-in study, a .toml study or suite, or a .fio file.")
    ] = None,
    output: options.Output = None,
    resume: Annotated[Path | None, syntax.Option(metavar="RUN", help="Resume a stopped run.")] = None,
    setting: options.Set = None,
    factor: options.Factor = None,
    repetitions: options.Repetitions = None,
    scale: options.Scale = "full",
    destroy_data: options.DestroyData = None,
    allow_exec: options.AllowExec = False,
    workers: Annotated[
        int | None,
        syntax.Option(
            min=1, metavar="N", help="Compute N trials at once if they measure nothing; by default one per processor."
        ),
    ] = None,
    wait_quiet: options.WaitQuiet = "",
    live: options.Live = False,
    json: options.Json = False,
) -> None:
    """Run a study and write its report.

    Examples: ioassay run block-io --scale quick; ioassay run my.fio --factor bs=4k,16k --repetitions 5
    """
    console.use_json(json)
    wait_quiet_s = options.seconds("--wait-quiet", wait_quiet)
    consent = Consent(tuple(destroy_data or ()), allow_exec)
    if resume is not None:
        _refuse_changes(study, output, setting, factor, repetitions, scale)
        store, benches, warnings = session.resume(resume, consent)
    else:
        store, benches, warnings = _new(study, output, consent, setting, factor, repetitions, scale)
    tally, published = session.measure(store, benches, workers, wait_quiet_s=wait_quiet_s, live=live)
    if json:
        console.emit(session.result(store, tally, published, warnings))
    else:
        closing.say(store, tally, published, warnings)
    session.end(tally, published)


def _new(
    study: str | None,
    output: Path | None,
    consent: Consent,
    setting: list[str] | None,
    factor: list[str] | None,
    repetitions: int | None,
    scale: str,
) -> tuple[RunStore, list[Bench], list[Warning_]]:
    from ioassay.store.run_folder import new_folder

    if study is None:
        raise UsageError(
            "no study given; wanted a name from 'ioassay studies', a .toml study or a .fio job file. "
            "'ioassay quick' needs none"
        )
    left_out: list[Warning_] = []
    suite = study_choice.chosen(study, scale, setting, factor, repetitions, left_out)
    with study_choice.named(study):
        store, benches, warnings = session.begin(suite, output or new_folder(Path("runs"), suite.name), consent)
    return store, benches, [*left_out, *warnings]


def _refuse_changes(study: str | None, *changes: object) -> None:
    if study is not None or any(change not in (None, "full") for change in changes):
        raise UsageError("--resume goes on with a run as it was planned; wanted no study and no other change with it")
