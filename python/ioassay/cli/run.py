"""From a study to its report: ioassay run, plan and studies."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay import units
from ioassay.api import execution
from ioassay.api.execution import RunOptions
from ioassay.cli import completion_values, console, options, progress, session, syntax
from ioassay.errors import UsageError

if TYPE_CHECKING:
    from ioassay.api.study import Plan


@syntax.takes({**options.CHANGES, **options.REPETITIONS, **options.CONSENT, **options.WORKERS, **options.EXECUTOR})
def run(
    study: Annotated[str | None, options.StudyName] = None,
    *,
    output: options.Output = None,
    resume: Annotated[Path | None, syntax.option("RUN", "Resume a stopped run.", completion_values.runs)] = None,
    blocks: Annotated[
        int | None, syntax.option("N", "Stop after N randomised blocks; --resume runs the others.", min=1)
    ] = None,
    wait_quiet: options.WaitQuiet = "",
    live: options.Live = False,
    json: options.Json = False,
    **given: Any,
) -> None:
    """Run a study and write its report.

    Examples: ioassay run block-io --scale quick; ioassay run my.fio --factor bs=4k,16k --repetitions 5
    """
    wait_quiet_s = options.seconds("--wait-quiet", wait_quiet)
    chosen = RunOptions(**options.of_run(given), wait_quiet_s=wait_quiet_s, blocks=blocks)
    if resume is not None:
        rows = {**options.CHANGES, **options.REPETITIONS}
        if study or output or any(given[name] != row.default for name, row in rows.items()):
            raise UsageError(
                "--resume goes on with a run as it was planned; expected no study and no other change with it"
            )
        ended = session.measure(lambda announce: execution.resume(resume, chosen, announce), live=live)
    else:
        planned = options.study(study, given)
        ended = session.measure(lambda announce: planned.begin(output, announce, chosen), live=live)
    console.answer(ended.as_dict, lambda: session.say(ended))
    session.end(ended)


@syntax.takes({**options.CHANGES, **options.REPETITIONS, **options.CONSENT, **options.EXECUTOR})
def plan(
    study: Annotated[str, options.StudyName],
    *,
    power: Annotated[
        str | None, syntax.option("SHARE", "Show how many repetitions detect a difference of SHARE.")
    ] = None,
    noise: Annotated[
        str | None, syntax.option("SHARE|RUN", "With --power: the noise between repetitions, or a run that shows it.")
    ] = None,
    trials: Annotated[bool, syntax.option("--trials", "List every trial in its order.")] = False,
    json: options.Json = False,
    **given: Any,
) -> None:
    """Show trials, order, time and bytes written; run nothing.

    Examples: ioassay plan block-io; ioassay plan jobs --scale quick --trials
    """
    chosen = options.study(study, given)
    with progress.examining() as announce:
        planned = chosen.plan(**options.of_run(given), announce=announce)
    result = planned.as_dict()
    if power is not None:
        seen: float | Path | None = None  # a share, or a run that shows it
        if noise is not None:
            seen = Path(noise) if Path(noise).is_dir() else options.share("--noise", noise)
        result["power"] = [asdict(one) for one in planned.repetitions(options.share("--power", power), seen)]
    elif noise is not None:
        raise UsageError(f"--noise {noise}: expected with --power SHARE")
    order = planned.order()
    console.answer(lambda: {**result, "order": order}, lambda: _say_plan(result, planned, order if trials else []))


def _say_plan(result: dict[str, Any], planned: Plan, order: list[dict[str, Any]]) -> None:
    from ioassay.factors import level_word

    def written(study: dict[str, Any]) -> str:
        known = units.format_size(study["written_bytes"])
        if not study["written_is_lower_bound"]:
            return known
        return f"> {known}" if study["written_bytes"] else "as fast as the disk takes it"

    console.warnings(planned.warnings)
    session.say_devices(planned.devices())
    console.line(result["title"])
    rows = [
        [
            study["study"],
            str(study["points"]),
            ("up to " if study["adaptive"] else "") + str(study["repetitions"]),
            str(study["trials"]),
            units.format_duration(study["seconds"]),
            written(study),
        ]
        for study in result["studies"]
    ]
    console.table(["study", "points", "repetitions", "trials", "time", "written"], rows)
    console.line(f"{console.count(result['trials'], 'trial')}, about {units.format_duration(result['seconds'])}")
    for study in result["studies"]:
        for relative in study["relative"]:
            console.line(f"{study['study']}: {_relative_text(relative)}")
    if "power" in result:
        _say_power(result["power"])
    for trial in order:
        point = " ".join(
            f"{key}={level_word(value)}" for key, value in trial.items() if key not in ("order", "id", "study")
        )
        console.line(f"{trial['order']:6d}  {trial['id'] or 'known later':16s}  {trial['study']}  {point}")


def _say_power(plans: list[dict[str, Any]]) -> None:
    from ioassay.narrative import phrases

    margin = phrases.percent(plans[0]["margin"])
    console.line(f"\nRepetitions that detect a difference of {margin} in four of five studies:")
    rows = [
        [
            plan["study"],
            phrases.name(plan["response"]) if plan["response"] else "any",
            f"{phrases.percent(plan['noise'])}{'' if plan['response'] else ' (assumed)'}",
            phrases.repetitions_needed(plan["repetitions"]).removesuffix(" repetitions"),
        ]
        for plan in plans
    ]
    console.table(["study", "response", "noise", "repetitions"], rows)


def _relative_text(relative: dict[str, Any]) -> str:
    """`factors.workers = 1, 2, 4 here, written 1, nproc, nproc*2; 1 level was there already`."""
    written, here = relative["written"], relative["here"]
    if here is None:
        return f"{relative['key']} = {written}, known when that study has ended"
    if not isinstance(written, list):
        return f"{relative['key']} = {here} here, written {written}"
    text = f"{relative['key']} = {', '.join(map(str, here))} here, written {', '.join(map(str, written))}"
    repeated = len(written) - len(here)
    were = "level was" if repeated == 1 else "levels were"
    return f"{text}; {repeated} {were} there already" if repeated else text


def studies(
    schema: Annotated[bool, syntax.option("--schema", "Print the JSON Schema of a study file.")] = False,
    json: options.Json = False,
) -> None:
    """List the built-in studies.

    Examples: ioassay studies; ioassay studies --schema
    """
    from ioassay.study import catalog
    from ioassay.study import plan as expansion

    if schema:
        console.emit(catalog.schema())
        return
    rows = [
        {
            "name": suite.name,
            "title": suite.title,
            "trials": sum(expansion.count(suite).values()),
            "about": suite.description,
        }
        for suite in catalog.available()
    ]
    columns = ("name", "trials", "title")
    console.answer(
        lambda: {"studies": rows}, lambda: console.table(columns, [[str(row[key]) for key in columns] for row in rows])
    )
