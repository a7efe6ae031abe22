"""What a study is: the model of its TOML file, validated, with messages that name file, key and value.

Expanding a study into trials is `ioassay.plan`; finding built-in studies and reading files is `ioassay.catalogue`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from ioassay import units
from ioassay.errors import StudyError

Level = bool | int | float | str
_FACTOR_NAME = re.compile(r"^[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)?$")
_TRIAL_PARTS = ("target", "run")


def _size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("not a size; wanted for example '1GiB' or a number of bytes")
    return units.parse_size(value)


def _duration_s(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("not a duration; wanted for example '10s' or a number of seconds")
    return units.parse_duration_s(value)


def _share(value: Any) -> float:
    text = str(value).strip()
    number = float(text.removesuffix("%"))
    return number / 100 if text.endswith("%") else number


Size = Annotated[int, BeforeValidator(_size)]
DurationS = Annotated[float, BeforeValidator(_duration_s)]
Share = Annotated[float, BeforeValidator(_share), Field(gt=0, lt=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Until(_Strict):
    """Adaptive repetition: repeat a point until the interval of its mean is narrow enough, never past `max`."""

    metric: str
    ci: Share = 0.05
    """Wanted half-width of the confidence interval, as a share of the mean ('5%' or 0.05)."""
    min: Annotated[int, Field(ge=2)] = 3
    max: Annotated[int, Field(ge=2)] = 30

    @model_validator(mode="after")
    def _ordered(self) -> Until:
        if self.min > self.max:
            raise ValueError(f"min is {self.min}, which is more than max = {self.max}")
        return self


class TargetSpec(BaseModel):
    """What is loaded. `kind` is an entry of `ioassay.targets.TARGETS`; other keys are that target's own."""

    model_config = ConfigDict(extra="allow", frozen=True)
    kind: str = "null"


class Run(_Strict):
    """Conditions of each trial."""

    timeout: DurationS | None = None
    """Ends a trial that hangs; by default the driver's estimate plus a generous margin."""
    cooldown: DurationS = 0.0
    """Pause before each trial, so that a drive can settle."""
    governor: Literal["performance", "keep"] = "performance"
    """CPU frequency governor during the run; put back afterwards."""
    drop_caches: bool = False
    """Drop the page cache before each trial (needs root)."""


class Watch(_Strict):
    """What watches the trials."""

    monitors: list[str] = Field(default_factory=lambda: ["cpu", "disk"])
    interval: DurationS = 0.25
    witness: Literal["off"] = "off"


class Analysis(_Strict):
    """What is to be answered: `responses` are metric names, `questions` keys of ANALYSES (empty: all that apply)."""

    responses: list[str] = Field(default_factory=list)
    questions: list[str] = Field(default_factory=list)
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95


class Figure(BaseModel):
    """One figure: `kind` is an entry of `ioassay.report.figures.FIGURES`; other keys are that figure's own."""

    model_config = ConfigDict(extra="allow", frozen=True)
    kind: str
    name: Annotated[str, Field(pattern=r"^[\w-]+$")]


class Scale(_Strict):
    """What a named scale (`--scale quick`) changes."""

    repetitions: PositiveInt | None = None
    until: Until | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    target: dict[str, Any] = Field(default_factory=dict)
    factors: dict[str, list[Level]] = Field(default_factory=dict)
    run: dict[str, Any] = Field(default_factory=dict)


class Study(_Strict):
    """One study: one driver, one target, fixed parameters, factors with their levels, repetitions."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$")]
    title: str
    description: str = ""
    driver: str
    repetitions: PositiveInt | None = None
    until: Until | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    target: TargetSpec = Field(default_factory=TargetSpec)
    params: dict[str, Any] = Field(default_factory=dict)
    factors: dict[str, list[Level]] = Field(default_factory=dict)
    case: list[dict[str, Any]] = Field(default_factory=list)
    run: Run = Field(default_factory=Run)
    watch: Watch = Field(default_factory=Watch)
    analysis: Analysis = Field(default_factory=Analysis)
    figures: list[Figure] = Field(default_factory=list)
    scale: dict[str, Scale] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Study:
        if self.repetitions is not None and self.until is not None:
            raise ValueError("has both 'repetitions' and 'until'; wanted one of them")
        _check_factors(self.factors)
        _check_cases(self.case, self.factors)
        names = [figure.name for figure in self.figures]
        if doubled := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"figures: name '{sorted(doubled)[0]}' is used twice")
        return self

    @property
    def max_repetitions(self) -> int:
        """Repetitions of each point at most."""
        if self.until is not None:
            return self.until.max
        return self.repetitions or 1


def _check_factors(factors: Mapping[str, list[Level]]) -> None:
    for name, levels in factors.items():
        if not _FACTOR_NAME.match(name):
            raise ValueError(f"factors.{name}: not a factor name; wanted a parameter, or target.<key> or run.<key>")
        if "." in name and name.split(".")[0] not in _TRIAL_PARTS:
            raise ValueError(f"factors.{name}: a dotted factor starts with {' or '.join(_TRIAL_PARTS)}")
        if name == "case":
            raise ValueError("factors.case: 'case' is the factor made by [[case]] tables; wanted another name")
        if not levels:
            raise ValueError(f"factors.{name}: has no levels; wanted at least one, or remove the factor")
        shown = [str(level) for level in levels]
        if doubled := {level for level in shown if shown.count(level) > 1}:
            raise ValueError(f"factors.{name}: level '{sorted(doubled)[0]}' is listed twice")


def _check_cases(cases: list[dict[str, Any]], factors: Mapping[str, list[Level]]) -> None:
    names: list[str] = []
    for number, case in enumerate(cases, start=1):
        name = case.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"case {number}: has no 'name'; wanted a short label for tables and figures")
        if name in names:
            raise ValueError(f"case {number}: name '{name}' is used twice")
        names.append(name)
        for key in case:
            if key in factors:
                raise ValueError(f"case '{name}': '{key}' is also a factor; wanted it in one of the two places")


class Suite(_Strict):
    """Several studies that make one run and one report. A single study is a suite of one."""

    name: str
    title: str
    description: str = ""
    studies: list[Study]

    @model_validator(mode="after")
    def _distinct(self) -> Suite:
        if not self.studies:
            raise ValueError("has no studies")
        names = [study.name for study in self.studies]
        if doubled := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"study '{sorted(doubled)[0]}' is listed twice")
        return self


def make_study(table: Mapping[str, Any], source: str) -> Study:
    """Validate one study given as a table; StudyError names `source`, the key and the value."""
    try:
        return Study.model_validate(dict(table))
    except ValidationError as error:
        raise study_error(error, source) from None


def study_error(error: ValidationError, source: str) -> StudyError:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        message = f"unknown key; {_near(key)}"
    elif first["type"] == "missing":
        message = "is missing"
    else:
        message = first["msg"].removeprefix("Value error, ")
        if key and not isinstance(first["input"], dict):
            message = f"{message}; found {first['input']!r}"
    more = len(error.errors()) - 1
    return StudyError(message + (f" (and {more} more)" if more else ""), source=source, key=key)


def _near(key: str) -> str:
    import difflib

    parts = key.split(".")
    model = _MODELS.get(parts[0], Study) if len(parts) > 1 else Study
    known = sorted(model.model_fields)
    close = difflib.get_close_matches(parts[-1], known, 1)
    return f"did you mean '{close[0]}'?" if close else f"known here: {', '.join(known)}"


_MODELS: dict[str, type[BaseModel]] = {
    "until": Until,
    "run": Run,
    "watch": Watch,
    "analysis": Analysis,
    "scale": Scale,
}
