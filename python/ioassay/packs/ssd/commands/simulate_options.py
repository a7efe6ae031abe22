"""The options of `ioassay simulate`: those of the table of a simulation, and those of preparing a trace.

Each is declared elsewhere, `simulation.OPTIONS` and `ioassay trace convert`; here they become one signature, which
the command line is built from.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from ioassay.cli import completion_values, options, syntax
from ioassay.packs.ssd.commands import trace
from ioassay.packs.ssd.commands.trace_options import PREPARING, READING, NoCache, trace_formats
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
