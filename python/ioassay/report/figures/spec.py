"""What a figure's table in a study may say: the keys common to all kinds, checked with messages that name them.

Each kind adds its own keys in its own module. Light on purpose: a study is checked without what draws.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ioassay.errors import IoassayError, StudyError
from ioassay.narrative.say import sentence
from ioassay.study.model import Figure, Level
from ioassay.validation import error_text

ErrorBar = Literal["sd", "ci", "none"]
_KernelCalls = Literal["kernel.sync", "kernel.fsync", "kernel.fdatasync", "kernel.msync", "kernel.synchronous_write"]
Direction = Literal["read", "write", "trim", "sync", "total"] | _KernelCalls
Latency = Literal["lat", "clat", "slat"]


VegaLite = dict[str, Any]
"""A part of a Vega-Lite declaration, whose grammar is not ours: a channel, a mark's properties, a row of its data."""


SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"


class NoData(IoassayError):
    """Nothing to draw, and why; the figure becomes a placeholder that says so."""


class FigureSpec(BaseModel):
    """Keys of every figure. `where` keeps the trials whose factors have these levels.

    `of` says what a mark is made of: the study's trials, each pass that a trial timed
    (`analysis.measurements.passes`), each load of a database, or each layer that a load's bytes go through. With
    `suite` False, runs that have small multiples leave the figure out.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: str
    name: Annotated[str, Field(pattern=r"^[\w-]+$")]
    title: str = ""
    where: dict[str, Level] = Field(default_factory=dict)
    of: Literal["trials", "passes", "loads", "layers"] = "trials"
    suite: bool = True
    width: Annotated[int, Field(ge=200, le=2000)] = 640
    height: Annotated[int, Field(ge=120, le=2000)] = 360


Spec = TypeVar("Spec", bound=FigureSpec)


def read_spec(model: type[Spec], figure: Figure, source: str) -> Spec:
    """The figure as `model`; StudyError names `source`, the figure, key and value."""
    try:
        return model.model_validate(figure.model_dump())
    except ValidationError as error:
        first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    known = ", ".join(name for name in model.model_fields if name not in ("kind", "name"))
    message = {
        "extra_forbidden": sentence("figures.unknown_key", kind=figure.kind, known=known),
        "missing": sentence("figures.missing_key", kind=figure.kind),
    }.get(first["type"]) or error_text(first)
    raise StudyError(message, source=source, key=f"figures.{figure.name}.{key}")
