"""The options that several commands share, so that they read and mean the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.cli import completion_values, syntax
from ioassay.errors import UsageError

if TYPE_CHECKING:
    from ioassay.api.study import Study

StudyName = syntax.Argument(
    metavar="STUDY", values=completion_values.studies, help="A built-in study, a .toml study or suite, or a .fio file."
)
RunFolder = Annotated[Path, syntax.Argument(metavar="RUN", values=completion_values.runs, help="The folder of a run.")]
Json = Annotated[bool, syntax.Option("--json", help="Print the result as one JSON object.")]
Scale = Annotated[
    str,
    syntax.Option(
        metavar="NAME",
        values=completion_values.scales,
        help="A smaller or larger variant that the study defines, such as quick.",
    ),
]
Set = Annotated[
    list[str] | None,
    syntax.Option(
        "--set",
        metavar="KEY=VALUE",
        values=completion_values.settings,
        help="Set a parameter, target.KEY, run.KEY or seed.",
    ),
]
Factor = Annotated[
    list[str] | None,
    syntax.Option(
        metavar="KEY=A,B,…",
        values=completion_values.factors,
        help="Add a factor, or replace a factor's levels; in a suite, where it is one.",
    ),
]
Repetitions = Annotated[int | None, syntax.Option(min=1, metavar="N", help="Repetitions of each point.")]
DestroyData = Annotated[
    list[str] | None,
    syntax.Option(metavar="NAME", help="Allow the data on the named device or file to be overwritten."),
]
AllowExec = Annotated[
    bool,
    syntax.Option("--allow-exec", help="Allow jobs to run programs, load code and write to storage elsewhere."),
]
Workers = Annotated[
    int | None,
    syntax.Option(
        min=1, metavar="N", help="Compute N trials at once if they measure nothing; by default one per processor."
    ),
]
Executor = Annotated[
    str | None,
    syntax.Option(
        metavar="NAME",
        values=completion_values.executors,
        help="Where trials that only compute run (local, dask:local, dask://HOST:PORT, slurm:…), and where hosts are.",
    ),
]
Output = Annotated[Path | None, syntax.Option(metavar="DIR", help="The run's folder; by default runs/<time>-<study>.")]
Live = Annotated[bool, syntax.Option("--live", help="Show the run on a local page; its address is printed.")]
WaitQuiet = Annotated[
    str,
    syntax.Option(
        metavar="TIME", help="Wait up to TIME for a quiet machine before each trial, and repeat disturbed ones."
    ),
]


def seconds(option: str, text: str) -> float:
    """The time that an option gives, as in 90s or 5m; '' is 0. UsageError for anything else."""
    from ioassay import units

    try:
        return units.parse_duration_s(text) if text else 0.0
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def share(option: str, text: str) -> float:
    """The share behind an option: `5%` or `0.05`."""
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = -1.0
    if not 0 < number < 1:
        raise UsageError(f"{option} {text}: wanted a share such as 5% or 0.05")
    return number


def study(
    name: str | None,
    scale: str,
    settings: list[str] | None,
    factors: list[str] | None,
    repetitions: int | None = None,
) -> Study:
    """The study that the options of a command mean; UsageError where none is named."""
    from ioassay.api.study import Study

    if name is None:
        raise UsageError("no study given; wanted a name from 'ioassay studies', a .toml study or a .fio job file")
    return Study.read(name, scale=scale, settings=settings or (), factors=factors or (), repetitions=repetitions)
