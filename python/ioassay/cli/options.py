"""The options that several commands share, so that they read and mean the same everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from ioassay import units
from ioassay.cli import completion_values, syntax
from ioassay.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ioassay.api.study import Study

StudyName = syntax.argument(
    "STUDY", "A built-in study, a .toml study or suite, or a .fio file.", completion_values.studies
)
RunFolder = Annotated[Path, syntax.argument("RUN", "The folder of a run.", completion_values.runs)]
Json = Annotated[bool, syntax.option("--json", "Print the result as one JSON object.")]
_texts = partial(syntax.row, list[str] | None, None)
_number = partial(syntax.row, int | None, None, "N", min=1)
CHANGES = {
    "setting": _texts("--set KEY=VALUE", "Set a parameter, target.KEY, run.KEY or seed.", completion_values.settings),
    "factor": _texts(
        "KEY=A,B,…",
        "Add a factor, or replace a factor's levels; in a suite, where it is one.",
        completion_values.factors,
    ),
    "scale": syntax.row(
        *(str, "full", "NAME", "A smaller or larger variant that the study defines, such as quick."),
        values=completion_values.scales,
    ),
}
"""What changes a study."""
REPETITIONS = {"repetitions": _number("Repetitions of each point.")}
CONSENT = {
    "destroy_data": _texts("NAME", "Allow the data on the named device or file to be overwritten."),
    "allow_exec": syntax.row(
        bool, False, "--allow-exec", "Allow jobs to run programs, load code and write to storage elsewhere."
    ),
}
WORKERS = {
    "workers": _number("Compute N trials at once if they measure nothing; by default one per processor."),
}
EXECUTOR = {
    "executor": syntax.row(
        *(str | None, None, "NAME"),
        "Where trials that only compute run (local, dask:local, dask://HOST:PORT, slurm:…), and where hosts are.",
        completion_values.executors,
    )
}
Output = Annotated[Path | None, syntax.option("DIR", "The run's folder; by default runs/<time>-<study>.")]
Live = Annotated[bool, syntax.option("--live", "Show the run on a local page; its address is printed.")]
WaitQuiet = Annotated[
    str, syntax.option("TIME", "Wait up to TIME for a quiet machine before each trial, and repeat disturbed ones.")
]


def seconds(option: str, text: str) -> float:
    """The time that an option gives, as in 90s or 5m; '' is 0. UsageError for anything else."""
    try:
        return units.parse_duration_s(text) if text else 0.0
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def share(option: str, text: str) -> float:
    """The share behind an option: `5%` or `0.05`."""
    try:
        number = units.parse_share(text)
    except ValueError:
        number = -1.0
    if not 0 < number < 1:
        raise UsageError(f"{option} {text}: expected a share such as 5% or 0.05")
    return number


def of_run(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given of `RunOptions`, by the names that these have there."""
    return {name: given[name] for name in (*CONSENT, *WORKERS, *EXECUTOR) if given.get(name)}


def study(name: str | None, given: Mapping[str, Any]) -> Study:
    """The study that the options of a command mean; UsageError where none is named."""
    from ioassay.api.study import Study

    if name is None:
        raise UsageError(
            "no study given; expected a name from 'ioassay studies', a .toml study or a .fio job file. "
            "'ioassay quick' needs none"
        )
    settings, factors = given["setting"] or (), given["factor"] or ()
    return Study.read(
        name, scale=given["scale"], settings=settings, factors=factors, repetitions=given.get("repetitions")
    )
