"""What the JSON files of a run must hold, where the contracts' own types say too little to rely on.

A run may have been edited, cut by a full disk or mixed from two: each file is held against these types when it is read
(`ioassay.validation`), so that no analysis meets a level beyond 64 bits or a search without a goal.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from ioassay.validation import Finite, Whole

Level = str | bool | Annotated[int, Field(ge=-(2**63), lt=2**63)] | Finite
Point = dict[str, Level]


def _trial_id(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{16}", text):
        raise ValueError("expected 16 hexadecimal digits")
    return text


TrialId = Annotated[str, AfterValidator(_trial_id)]
"""What a trial is called (plan.make_trial). Nothing else may name a folder: the folder of a trial is emptied."""


class Identity(TypedDict):
    """`Record.trial`."""

    id: TrialId
    study: str
    point: Point
    repetition: Whole
    order: Whole
    driver: NotRequired[str]
    seed: NotRequired[Whole]
    twin: NotRequired[bool]
    calls: NotRequired[bool]
    search: NotRequired[str]


class Planned(TypedDict):
    """A line of plan.jsonl: `roles.Trial`."""

    id: TrialId
    study: str
    driver: str
    point: Point
    params: dict[str, Any]
    target: dict[str, Any]
    run: dict[str, Any]
    repetition: Whole
    seed: Whole
    order: Whole
    twin: NotRequired[bool]
    calls: NotRequired[bool]
    search: NotRequired[str]


class Processor(TypedDict, total=False):
    cpus: Whole
    governors: dict[str, Whole]


class _Clock(TypedDict, total=False):
    source: str


class _Memory(TypedDict, total=False):
    total_bytes: Whole


class _Disk(TypedDict, total=False):
    mount: dict[str, Any]
    devices: list[dict[str, Any]]


class Host(TypedDict, total=False):
    """host.json, as far as more is done with it than to show it."""

    cpu: Processor
    clock: _Clock
    memory: _Memory
    disk: _Disk
    virtualisation: dict[str, Any]
    kernel: dict[str, Any]
    ioassay: dict[str, Any]
    working_directory: str
    hosts: dict[str, Host]
    """Of a run on several hosts the facts of each by its name; the others are those of the machine that started it."""


class Bound(TypedDict):
    """A constraint of a search, in the unit of its metric."""

    metric: str
    sense: Literal["<=", ">=", "<", ">"]
    bound: Finite
    text: str


class _Axis(TypedDict):
    name: str
    levels: Annotated[list[Level], Field(min_length=1)]
    numbers: list[Finite] | None
    log: bool


class Tuning(TypedDict):
    """tune.json: what a search was asked."""

    schema: Annotated[int, Field(ge=1)]
    metric: str
    maximize: bool
    constraints: list[Bound]
    points: Annotated[int, Field(ge=1)]
    axes: Annotated[list[_Axis], Field(min_length=1)]
    default: Point
    trials: Annotated[int, Field(ge=1)]
    seed: Whole
    confirm: Annotated[int, Field(ge=0)]
    batch: Annotated[int, Field(ge=1)]
    pruning: bool
    budget_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
    margin: Annotated[float, Field(gt=0, lt=1)]
    confirm_most: NotRequired[Whole]
    source: str


class Outcome(TypedDict):
    """found.json: what a search came to."""

    ended: str
    asked: Whole
    winner: Point | None
    feasible: bool
    candidates: NotRequired[list[Point]]
    """Runs of older versions have none: they confirmed the winner only."""


class Search(Tuning):
    """A search: what was asked, and what it came to once it has ended."""

    found: Outcome | None
