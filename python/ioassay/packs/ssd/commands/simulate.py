"""ioassay simulate: a trace over a simulated SSD, with one write buffer and setting or several."""

from __future__ import annotations

import copy
import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay.cli import completion_values, console, options, syntax
from ioassay.cli.progress import reading_progress
from ioassay.errors import Interrupted, UsageError
from ioassay.hints import nearest
from ioassay.packs.ssd import simulator, traces
from ioassay.packs.ssd.commands import simulate_text, trace
from ioassay.packs.ssd.commands.trace import PREPARING, READING, NoCache, cache_note, preparing, reading, trace_formats
from ioassay.packs.ssd.simulator import results
from ioassay.packs.ssd.traces import trace_file
from ioassay.simulation import options as simulation_options
from ioassay.simulation.options import (
    AUTO_COUNT,
    AUTO_SHARE,
    COUNT,
    FEEDING,
    FLAG,
    NUMBER,
    NUMBERS,
    OPTIONS,
    SHARE,
    SIZE,
    WINDOW,
    Option,
)

if TYPE_CHECKING:
    from ioassay.packs.ssd.simulator import Simulation


PANELS = {
    "drive": "The drive",
    "controller": "The controller of a drive of today",
    "buffer": "The write buffer",
    "feed": "Feeding",
    "precondition": "Before the measurement",
}
_METAVARS = {COUNT: "N", NUMBER: "X", NUMBERS: "X/X/…", SHARE: "SHARE", SIZE: "SIZE", WINDOW: "N|none", FEEDING: "HOW"}
_METAVARS |= {AUTO_SHARE: "SHARE|auto", AUTO_COUNT: "N|auto"}
_OUTPUT = "What comes out"
_STATE = "States"
_LONG = "Long traces"

Trace = Annotated[Path | None, syntax.Argument(metavar="TRACE", help="A trace; - is standard input.")]
Format = Annotated[
    str | None,
    syntax.Option("--format", metavar="NAME", values=trace_formats, help="Format of TRACE; detected by default."),
]
Set = Annotated[
    list[str] | None,
    syntax.Option(
        "--set",
        metavar="NAME=A,B,…",
        values=completion_values.of_simulation,
        help="Simulate once for each of these values of an option above.",
    ),
]
Threads = Annotated[
    int,
    syntax.Option(
        "--threads",
        metavar="N",
        min=1,
        max=1024,
        help="Threads that share one simulation, for writes in an open loop without window. [default: 1]",
    ),
]
Sample = Annotated[
    float | None,
    syntax.Option(
        "--sample",
        metavar="RATE",
        help="Estimate the hit ratios of write buffers from this share of the pages, and simulate nothing else.",
    ),
]
State = Annotated[
    Path | None, syntax.Option("--state", metavar="FILE", help="Begin with the drive whose state was saved there.")
]
Resume = Annotated[
    bool, syntax.Option("--resume", help="With --state: continue the saved run behind its last request.")
]
SaveState = Annotated[
    Path | None,
    syntax.Option("--save-state", metavar="FILE", help="Save the state; without TRACE, of the preconditioned drive."),
]
Output = Annotated[
    Path | None,
    syntax.Option(
        "--output", metavar="DIR", help="Write summary.json and tables there, for several simulations in a folder each."
    ),
]
Csv = Annotated[bool, syntax.Option("--csv", help="With --output: tables as CSV, not Parquet.")]
Force = Annotated[bool, syntax.Option("--force", help="With --output and --save-state: replace files that exist.")]
Drive = Annotated[
    str | None,
    syntax.Option(
        "--drive",
        metavar="NAME|FILE",
        values=completion_values.drives,
        panel=PANELS["drive"],
        help="Drive whose options apply: a name (ioassay drive list) or a file; single options override its own.",
    ),
]
ListPolicies = Annotated[bool, syntax.Option("--list-policies", help="List the write-buffer policies and exit.")]


def signature() -> inspect.Signature:
    """All options of the command as parameters; what was not given is None, False or 0."""
    return inspect.Signature(list(_parameters()))


def _parameters() -> Iterator[inspect.Parameter]:
    yield _parameter("trace", Trace, None)
    yield _parameter("drive", Drive, None)
    for option in OPTIONS:
        yield _parameter(option.name, _annotation(option), None)
    shared = inspect.signature(trace.convert, eval_str=True).parameters
    yield _parameter("format", Format, None, "Reading the trace")
    for names, panel in ((READING, "Reading the trace"), (PREPARING, "Preparing the trace, in this order")):
        for name in names:
            yield _parameter(name, shared[name].annotation, shared[name].default, panel)
    yield _parameter("set", Set, None, "Sweep")
    yield _parameter("threads", Threads, 1, _LONG)
    yield _parameter("sample", Sample, None, _LONG)
    yield _parameter("no_cache", NoCache, False, "Reading the trace")
    yield _parameter("state", State, None, _STATE)
    yield _parameter("resume", Resume, False, _STATE)
    yield _parameter("save_state", SaveState, None, _STATE)
    yield _parameter("output", Output, None, _OUTPUT)
    yield _parameter("csv", Csv, False, _OUTPUT)
    yield _parameter("force", Force, False, _OUTPUT)
    yield _parameter("json", options.Json, False, _OUTPUT)
    yield _parameter("list_policies", ListPolicies, False, _OUTPUT)


def _parameter(name: str, annotation: Any, default: Any, panel: str | None = None) -> inspect.Parameter:
    if panel is not None:
        info = copy.copy(annotation.__metadata__[0])
        info.panel = panel
        annotation = Annotated[annotation.__origin__, info]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _annotation(option: Option) -> Any:
    """Text, which the table's own reader takes; so that a wrong value is said alike everywhere."""
    name, panel = option.name.replace("_", "-"), PANELS[option.group]
    help_ = f"{option.about} [default: {_shown(option.default)}]"
    if option.kind == FLAG:
        return Annotated[bool | None, syntax.Option(f"--{name}/--no-{name}", help=help_, panel=panel)]
    metavar = "|".join(option.choices) or _METAVARS.get(option.kind, "NAME,…")
    values = _completer(option)
    return Annotated[str | None, syntax.Option(f"--{name}", metavar=metavar, help=help_, panel=panel, values=values)]


def _completer(option: Option) -> syntax.Completer | None:
    """What offers the values of an option, where they are names."""
    return completion_values.listed(completion_values.policies) if option.name == "policy" else None


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:g}" if isinstance(default, float) else str(default)


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("simulate")(simulate)


def simulate(**given: Any) -> None:
    """Run a trace on a simulated SSD and report response times and the drive's activity.

    Several policies, with commas, and several values of options (--set) are simulated in one pass and compared.

    Examples: ioassay simulate db.csv --drive samsung-980-pro; ioassay simulate db.csv --policy lru,epo --buffer 16MiB
    """
    json = console.use_json(given["json"])
    if given["list_policies"]:
        known = simulator.policies()
        console.emit({"policies": known}) if json else simulate_text.policies(known)
        return
    of_drive = simulator.drive_options(given["drive"])
    trace, described = _trace(given, of_drive)
    options = {**of_drive, **{name: given[name] for name in simulator.NAMES if given[name] is not None}}
    if given["state"]:
        options = simulator.options_of(given["state"], options, resume=given["resume"])
    runs = _runs(options, given["set"] or ())
    _check_state(given, len(runs))
    if given["sample"] is not None:
        _sample(given, described, runs, json=json)
        return
    if len(runs) > 1 and given["threads"] > 1:
        hint = "each has a thread of its own, and they share the processors"
        raise UsageError(f"--threads goes with one simulation, and {len(runs)} were asked for: {hint}")
    if len(runs) > 1 and str(trace) == "-":
        hint = "write it to a file first: ioassay trace make FILE"
        raise UsageError(
            f"standard input can be read once, {len(runs)} simulations and their optimum need more; {hint}"
        )
    drives = {name: simulator.check(run.options) for name, run in runs.items()}
    folders = _folders(given, list(runs))
    with reading_progress() as progress:
        described["progress"] = progress
        simulations = _simulations(given, described, list(runs.values()))
    del described["progress"]
    found = []
    for (name, run), done in zip(runs.items(), simulations, strict=True):
        if not done.raw["changes"]["given"] and given["trace"] is not None:
            raise UsageError(f"{trace}: {done.nothing}; nothing was simulated")
        summary = {"trace": str(trace), "format": done.raw["format"], "policy": run.policy, **done.summary}
        if run.levels:
            summary["set"] = run.levels
        summary["warnings"] = [vars(warning) for warning in done.warnings]
        found.append(summary)
        if name in folders:
            simulator.save(done, folders[name], {**summary, "options": run.options}, csv=given["csv"], force=True)
        if len(runs) == 1 and not json:
            simulate_text.describe(done, drives[name], run.options, str(trace))
    cache_note(simulations[0].raw)
    _warn(dict(zip(runs, found, strict=True)))
    if len(found) > 1:
        _compare(described, runs, found, json)
    elif json:
        console.emit(found[0])
    if simulations[0].raw.get("interrupted"):
        issued = f"{simulations[0].summary['issued']:,}"
        console.note(f"ioassay: interrupted after {issued} requests; the results are of the requests until then")
        raise console.Exit(Interrupted.exit_code)


simulate.__signature__ = signature()  # type: ignore[attr-defined]


def _simulations(given: Mapping[str, Any], described: Mapping[str, Any], runs: Sequence[_Run]) -> list[Simulation]:
    if len(runs) > 1:
        return simulator.sweep(described, [run.options for run in runs], state=given["state"])
    states = {name: given[name] for name in ("state", "resume", "save_state")}
    threads = given["threads"]
    return [simulator.simulate(described, partial=True, threads=threads, **states, **runs[0].options)]


def _sample(given: Mapping[str, Any], described: dict[str, Any], runs: Mapping[str, _Run], *, json: bool) -> None:
    """The hit ratios of each run's buffer from a sample of the pages, in one pass."""
    given_too = {"threads": given["threads"] > 1, **{name: given[name] for name in ("state", "save_state", "csv")}}
    for name in (name for name, there in given_too.items() if there):
        raise UsageError(f"--{name.replace('_', '-')} and --sample do not go together: no drive is simulated")
    for run in runs.values():
        results.check_sampled(run.options)
    folders = _folders(given, list(runs), names=[results.SUMMARY])
    with reading_progress() as progress:
        hits = simulator.sampled_hits(
            {**described, "progress": progress}, [run.options for run in runs.values()], given["sample"]
        )
    found = []
    for (name, run), done in zip(runs.items(), hits, strict=True):
        summary = {"trace": str(given["trace"]), "policy": run.policy, **done.summary}
        if run.levels:
            summary["set"] = run.levels
        summary["warnings"] = [vars(warning) for warning in done.warnings]
        found.append(summary)
        if name in folders:
            results.save_summary(folders[name], {**summary, "options": run.options})
    _warn(dict(zip(runs, found, strict=True)))
    if json:
        console.emit(found[0] if len(found) == 1 else {"samples": found})
    else:
        simulate_text.sampled(found)


def _compare(
    described: Mapping[str, Any], runs: Mapping[str, _Run], found: Sequence[dict[str, Any]], json: bool
) -> None:
    """Several simulations beside the offline optimum of their buffer, of which there is one for each `--set`."""
    optima: dict[tuple[str, ...], simulator.OfflineOptimum] = {}
    for run, summary in zip(runs.values(), found, strict=True):
        levels = tuple(run.levels.values())
        if levels not in optima:
            optima[levels] = simulator.offline_optimum(described, **run.options)
        optimum = optima[levels]
        summary["gain_share"] = optimum.gain_share(summary["hit_ratio"])
        if run.levels:
            summary["offline_optimum"] = {**vars(optimum), "hit_ratio": optimum.hit_ratio}
    if not json:
        simulate_text.compare(found, optima)
    elif len(optima) == 1:
        (optimum,) = optima.values()
        console.emit({"simulations": found, "offline_optimum": {**vars(optimum), "hit_ratio": optimum.hit_ratio}})
    else:
        console.emit({"simulations": found})


def _trace(given: Mapping[str, Any], of_drive: Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The trace and its description, read and prepared as the options say; pages are those of the drive."""
    if given["trace"] is None and given["save_state"]:
        return Path("no trace"), traces.source(traces.recipe(requests=0))
    if given["trace"] is None:
        raise UsageError("no trace is given (see: ioassay simulate --help)")
    page = given["page"] or of_drive.get("page", simulator.NAMES["page"].default)
    prepare = preparing({**given, "page": page})
    trace = given["trace"]
    read, cache = reading(given), not given["no_cache"]
    return trace, traces.source(trace, format=given["format"], read=read, prepare=prepare, cache=cache)


@dataclass(frozen=True)
class _Run:
    """One simulation of a sweep: its options, and those of `--set` among them."""

    policy: str
    options: dict[str, Any]
    levels: dict[str, str]


def _runs(options: dict[str, Any], sets: Sequence[str]) -> dict[str, _Run]:
    """A run for each policy and each combination of `--set`, by name. An option that only some policies know is for
    those alone."""
    known = {each["name"]: set(each["options"]) for each in simulator.policies()}
    wanted = [name.strip() for name in options.get("policy", "none").split(",")]
    for name in wanted:
        if name not in known:
            raise UsageError(f"policy is '{name}', expected {', '.join(known)}{nearest(name, known)}")
    levels = _levels(sets, options)
    special = set().union(*known.values())
    for name in special & (options.keys() | levels.keys()) - set().union(*(known[policy] for policy in wanted)):
        able = ", ".join(policy for policy in known if name in known[policy])
        raise UsageError(f"--{name.replace('_', '-')} is an option of {able}, and the policy is {', '.join(wanted)}")
    runs = {}
    for policy in wanted:
        apt = {name: values for name, values in levels.items() if name not in special or name in known[policy]}
        common = {name: value for name, value in options.items() if name not in special or name in known[policy]}
        for values in itertools.product(*apt.values()):
            chosen = dict(zip(apt, values, strict=True))
            name = " ".join([policy, *(f"{option}={value}" for option, value in chosen.items())])
            runs[name] = _Run(policy, {**common, **chosen, "policy": policy}, chosen)
    return runs


def _levels(sets: Sequence[str], options: Mapping[str, Any]) -> dict[str, list[str]]:
    """The values of each option that `--set NAME=VALUE,VALUE` names."""
    levels: dict[str, list[str]] = {}
    for text in sets:
        name, separator, values = text.partition("=")
        option = simulation_options.known(name.strip().replace("-", "_")).name
        if option == "policy":
            raise UsageError("--set policy=…: the policies of a sweep are those of --policy lru,epo")
        if option in levels or option in options:
            raise UsageError(f"{option} is given twice, expected one --set with all of its values, or --{name} alone")
        levels[option] = list(dict.fromkeys(value.strip() for value in values.split(",")))
        if not separator or "" in levels[option]:
            raise UsageError(f"--set is '{text}', expected NAME=VALUE,VALUE,… such as buffer=1MiB,4MiB")
    return levels


def _check_state(given: Mapping[str, Any], runs: int) -> None:
    """UsageError for options of states that do not go together, before anything is simulated."""
    if given["resume"] and not given["state"]:
        raise UsageError("--resume goes with --state FILE")
    if runs > 1 and (given["resume"] or given["save_state"]):
        name = "resume" if given["resume"] else "save-state"
        raise UsageError(f"--{name} goes with one simulation, and {runs} were asked for")
    if given["save_state"]:
        trace_file.check(given["save_state"], force=given["force"])


def _warn(found: Mapping[str, dict[str, Any]]) -> None:
    """Each warning once, with the runs that it is about where there are several."""
    about: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, summary in found.items():
        for warning in summary["warnings"]:
            about.setdefault(tuple(warning.items()), []).append(name)
    for fields, names in about.items():
        warning = dict(fields)
        text = warning["text"] if len(found) == 1 else f"{', '.join(names)}: {warning['text']}"
        console.warnings([{**warning, "text": text}])


def _folders(given: Mapping[str, Any], runs: list[str], names: Sequence[str] = ()) -> dict[str, Path]:
    """Where what is simulated goes, after a look that it may."""
    if given["output"] is None:
        if given["csv"] or (given["force"] and not given["save_state"]):
            raise UsageError(f"--{'csv' if given['csv'] else 'force'} goes with --output DIR")
        return {}
    output: Path = given["output"]
    folders = {runs[0]: output} if len(runs) == 1 else {name: output / name.replace(" ", ",") for name in runs}
    for folder in folders.values():
        results.check_files(folder, names or results.file_names(given["csv"]), force=given["force"])
    return folders
