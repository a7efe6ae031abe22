"""The options of `ioassay tune`, and what their words mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from ioassay import units
from ioassay.cli import completion_values, syntax
from ioassay.errors import UsageError

if TYPE_CHECKING:
    from ioassay.packs.tuning.parameter_search import SearchSettings
    from ioassay.records.record import Scalar

_GOAL, _SPACE, _EFFORT = "Goal", "Where to search", "Effort"


def _option(*names: str, help_: str, panel: str, metavar: str | None = None, **more: Any) -> Any:
    return syntax.Option(*names, help=help_, panel=panel, metavar=metavar, **more)


Maximize = Annotated[
    str | None,
    _option(
        help_="Metric to maximize, such as read.iops.",
        panel=_GOAL,
        metavar="METRIC",
        values=completion_values.responses,
    ),
]
Minimize = Annotated[
    str | None,
    _option(
        help_="Metric to minimize, such as read.lat.p99.",
        panel=_GOAL,
        metavar="METRIC",
        values=completion_values.responses,
    ),
]
SubjectTo = Annotated[
    list[str] | None,
    _option(
        help_="Constraint, such as 'write.lat.p99 < 5ms'; may be repeated.",
        panel=_GOAL,
        metavar="CONSTRAINT",
        values=completion_values.responses,
    ),
]
Range = Annotated[
    list[str] | None,
    _option(
        "--range",
        help_="Values of one parameter to search: LOW..HIGH, LOW..HIGH:STEP, LOW..HIGH:*2 or A,B,C; "
        "log:LOW..HIGH is logarithmic; may be repeated. "
        "By default everything from a factor's lowest to its highest level.",
        panel=_SPACE,
        metavar="NAME=LOW..HIGH",
        values=completion_values.axes,
    ),
]
Listed = Annotated[
    bool, _option("--listed", help_="Use only levels that the study lists, none between them.", panel=_SPACE)
]
Default = Annotated[
    list[str] | None,
    _option(
        help_="Value that the winner is compared with; by default the study's parameter or a factor's first level.",
        panel=_SPACE,
        metavar="NAME=VALUE",
        values=completion_values.factors,
    ),
]
Trials = Annotated[
    int | None,
    _option(help_="Number of trials of the search; the confirmation adds its own.", panel=_EFFORT, metavar="N"),
]
Confirm = Annotated[
    int | None,
    _option(
        help_="Fresh repetitions of winner and default at the end. [5, or the study's own up to 10; up to 20 by noise]",
        panel=_EFFORT,
        metavar="K",
        min=2,
    ),
]
Budget = Annotated[
    str | None,
    _option(
        help_="Stop the search after this time, such as 10m; the confirmation still runs.",
        panel=_EFFORT,
        metavar="TIME",
    ),
]
Pruning = Annotated[
    bool,
    _option(
        "--pruning/--no-pruning",
        help_="Abandon candidates that are bad after a quarter of their time.",
        panel=_EFFORT,
    ),
]
Seed = Annotated[int | None, _option(help_="Seed of the search and of its trials.", panel=_EFFORT, metavar="N", min=0)]
Margin = Annotated[
    str,
    _option(help_="Relative differences below this count as the same, as for compare.", panel=_EFFORT, metavar="SHARE"),
]


def read(
    ranges: Sequence[str] | None,
    defaults: Sequence[str] | None,
    *,
    listed: bool,
    trials: int | None,
    confirm: int | None,
    budget: str | None,
    pruning: bool,
    margin: float,
) -> SearchSettings:
    """What was asked; UsageError names the option, what it says and what was wanted."""
    from ioassay.packs.tuning.parameter_search import SearchSettings

    named = _pairs("--default", defaults, "1")
    return SearchSettings(
        trials,
        ranges=_pairs("--range", ranges, "1..64"),
        defaults={name: _scalar(value) for name, value in named.items()},
        listed=listed,
        confirm=confirm,
        budget_s=_budget_s(budget),
        pruning=pruning,
        margin=margin,
    )


def _pairs(option: str, assignments: Sequence[str] | None, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for assignment in assignments or ():
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if not (name and equals and value):
            raise UsageError(f"{option} {assignment}: wanted NAME=VALUE, such as iodepth={example}")
        if name in found:
            raise UsageError(f"{option} {assignment}: '{name}' is named twice; wanted one of them")
        found[name] = value
    return found


def _scalar(text: str) -> Scalar:
    """As in a study: numbers, true and false; everything else is text."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return value if isinstance(value, bool | int | float) else text


def _budget_s(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = units.parse_duration_s(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise UsageError(f"--budget {text}: wanted a time above 0, such as 90s, 10m or 2h")
    return seconds
