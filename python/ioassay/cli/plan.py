"""ioassay plan: what a study would do, without doing it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay.cli import console, options, session, study_choice, syntax
from ioassay.errors import UsageError

if TYPE_CHECKING:
    from ioassay.records.record import Warning_
    from ioassay.runner.preflight import Bench
    from ioassay.study.model import Study, Suite


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("plan")(plan)


def plan(
    study: Annotated[
        str, syntax.Argument(metavar="STUDY", help="A built-in study, a .toml study or suite, or a .fio file.")
    ],
    setting: options.Set = None,
    factor: options.Factor = None,
    repetitions: options.Repetitions = None,
    scale: options.Scale = "full",
    power: Annotated[
        str | None, syntax.Option(metavar="SHARE", help="Show how many repetitions detect a difference of SHARE.")
    ] = None,
    noise: Annotated[
        str | None,
        syntax.Option(metavar="SHARE|RUN", help="With --power: the noise between repetitions, or a run that shows it."),
    ] = None,
    trials: Annotated[bool, syntax.Option("--trials", help="List every trial in its order.")] = False,
    destroy_data: options.DestroyData = None,
    allow_exec: options.AllowExec = False,
    json: options.Json = False,
) -> None:
    """Show trials, order, time and bytes written; run nothing."""
    from ioassay.roles import Consent

    console.use_json(json)
    left_out: list[Warning_] = []
    suite = study_choice.chosen(study, scale, setting, factor, repetitions, left_out)
    with study_choice.named(study):
        benches, warnings = session.rehearsed_benches(
            suite, Consent(tuple(destroy_data or ()), allow_exec), without_tools=True
        )
    warnings = [*left_out, *warnings]
    result = _result(suite, benches, warnings)
    if power is not None:
        result["power"] = _power(suite, options.share("--power", power), noise)
    elif noise is not None:
        raise UsageError(f"--noise {noise}: wanted with --power SHARE")
    if json:
        console.emit({**result, "order": _order(suite)})
    else:
        _say(result, benches, warnings, _order(suite) if trials else [])


def _result(suite: Suite, benches: list[Bench], warnings: list[Warning_]) -> dict[str, Any]:
    from ioassay.runner import preflight
    from ioassay.study import plan

    studies = []
    for bench in benches:
        forecast = preflight.forecast(bench)
        studies.append(
            {
                "study": bench.study.name,
                "title": bench.study.title,
                "points": len(plan.points(bench.study)),
                "repetitions": bench.study.max_repetitions,
                "adaptive": bench.study.until is not None,
                "trials": forecast.trials,
                "seconds": forecast.seconds,
                "written_bytes": forecast.written_bytes,
                "written_is_lower_bound": forecast.unknown_writes,
                "relative": _relative(bench.study),
            }
        )
    return {
        "suite": suite.name,
        "title": suite.title,
        "studies": studies,
        "devices": [asdict(device) for device in preflight.devices(benches)],
        "trials": sum(study["trials"] for study in studies),
        "seconds": sum(study["seconds"] for study in studies),
        "warnings": [vars(warning) for warning in warnings],
    }


def _relative(study: Study) -> list[dict[str, Any]]:
    """Each key that is relative to the machine: as it was written, and the numbers here."""
    from ioassay.study import machine_levels

    if study.relative is None:
        return []
    known = [(key, written, machine_levels.number(study, key)) for key, written in study.relative.written.items()]
    waiting = [(f"params.{name}", written, None) for name, written in study.relative.pending.items()]
    return [{"key": key, "written": written, "here": here} for key, written, here in (*known, *waiting)]


def _power(suite: Suite, margin: float, noise: str | None) -> list[dict[str, Any]]:
    """The repetitions that each study needs, by the noise of an earlier run, a given one, or several assumed ones."""
    from ioassay.analysis import repetition_plan

    if noise is None:
        plans = [one for study in suite.studies for one in repetition_plan.assumed(study, margin)]
    elif (root := Path(noise)).is_dir():
        from ioassay.store import frames
        from ioassay.store.run_folder import RunStore

        earlier = frames.load(RunStore.open(root))
        plans = [one for study in suite.studies for one in repetition_plan.measured(study, margin, earlier)]
        if not plans:
            raise UsageError(f"--noise {noise}: no study of this plan has two repetitions there; wanted a run of it")
    else:
        assumed = (options.share("--noise", noise),)
        plans = [one for study in suite.studies for one in repetition_plan.assumed(study, margin, assumed)]
    return [asdict(plan) for plan in plans]


def _order(suite: Suite) -> list[dict[str, Any]]:
    from ioassay.study import plan

    known = {trial.id for trial in plan.known_trials(suite)}
    return [
        {
            "order": trial.order,
            "id": trial.id if trial.id in known else "",
            "study": trial.study,
            "repetition": trial.repetition,
            **trial.point,
        }
        for trial in plan.trials(suite)
    ]


def _say(result: dict[str, Any], benches: list[Bench], warnings: list[Warning_], order: list[dict[str, Any]]) -> None:
    from ioassay import units

    console.warnings(warnings)
    session.say_devices(benches)
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
        point = " ".join(f"{key}={value}" for key, value in trial.items() if key not in ("order", "id", "study"))
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
    from ioassay import units

    known = units.format_size(study["written_bytes"])
    if not study["written_is_lower_bound"]:
        return known
    return f"> {known}" if study["written_bytes"] else "as fast as the disk takes it"
