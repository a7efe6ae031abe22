"""ioassay plan: what a study would do, without doing it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay import units
from ioassay.cli import console, options, progress, session, syntax
from ioassay.errors import UsageError
from ioassay.factors import level_word

if TYPE_CHECKING:
    from ioassay.api.study_plan import Plan


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("plan")(plan)


def plan(
    study: Annotated[str, options.StudyName],
    setting: options.Set = None,
    factor: options.Factor = None,
    repetitions: options.Repetitions = None,
    scale: options.Scale = "full",
    power: Annotated[
        str | None, syntax.option("SHARE", "Show how many repetitions detect a difference of SHARE.")
    ] = None,
    noise: Annotated[
        str | None, syntax.option("SHARE|RUN", "With --power: the noise between repetitions, or a run that shows it.")
    ] = None,
    trials: Annotated[bool, syntax.option("--trials", "List every trial in its order.")] = False,
    destroy_data: options.DestroyData = None,
    allow_exec: options.AllowExec = False,
    executor: options.Executor = None,
    json: options.Json = False,
) -> None:
    """Show trials, order, time and bytes written; run nothing.

    Examples: ioassay plan block-io; ioassay plan jobs --scale quick --trials
    """
    console.use_json(json)
    chosen = options.study(study, scale, setting, factor, repetitions)
    with progress.examining() as announce:
        planned = chosen.plan(
            destroy_data=destroy_data or (), allow_exec=allow_exec, executor=executor, announce=announce
        )
    result = planned.as_dict()
    if power is not None:
        result["power"] = [asdict(one) for one in planned.repetitions(options.share("--power", power), _noise(noise))]
    elif noise is not None:
        raise UsageError(f"--noise {noise}: expected with --power SHARE")
    if json:
        console.emit({**result, "order": planned.order()})
    else:
        _say(result, planned, planned.order() if trials else [])


def _noise(text: str | None) -> float | Path | None:
    """A run that shows the noise, or a share."""
    if text is None or Path(text).is_dir():
        return None if text is None else Path(text)
    return options.share("--noise", text)


def _say(result: dict[str, Any], planned: Plan, order: list[dict[str, Any]]) -> None:

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
            _volume(study),
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


def _volume(study: dict[str, Any]) -> str:
    known = units.format_size(study["written_bytes"])
    if not study["written_is_lower_bound"]:
        return known
    return f"> {known}" if study["written_bytes"] else "as fast as the disk takes it"
