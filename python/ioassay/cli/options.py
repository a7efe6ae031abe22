"""The options that several commands share, so that they read and mean the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
Scale = Annotated[
    str, typer.Option(metavar="NAME", help="A smaller or larger variant that the study defines, such as quick.")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a parameter, target.KEY, run.KEY or seed.")
]
Factor = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=A,B,…", help="Add a factor, or replace a factor's levels; in a suite, where it is one."),
]
Repetitions = Annotated[int | None, typer.Option(min=1, metavar="N", help="Repetitions of each point.")]
DestroyData = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Allow what the named device or file holds to be overwritten."),
]
AllowExec = Annotated[
    bool,
    typer.Option("--allow-exec", help="Allow jobs to run programs, load code and write to storage elsewhere."),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Trials that only compute run N at once; by default one for each processor."),
]
Output = Annotated[Path | None, typer.Option(metavar="DIR", help="The run's folder; by default runs/<time>-<study>.")]
