"""What a study is: the model of its TOML file, validated, with messages that name file, key and value.

Expanding a study into trials is `study.plan`; finding built-in studies and reading files is `study.catalog`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from ioassay import metrics, units
from ioassay.errors import StudyError
from ioassay.factors import (
    CASE,
    HOST,
    LevelIndex,
    counts_concurrency,
    distinct_levels,
    level_meaning,
    repeated_level,
    same_level,
    setting_key,
)
from ioassay.hints import nearest, shown, suggestion
from ioassay.study import run_conditions
from ioassay.validation import error_text

MAX_TRIALS = 1_000_000
"""More than this is a slip of the pen: a null trial takes ten milliseconds, a real one seconds."""
_EXPLAIN_COST_S = 3e-6
"""Processor time that level explain adds to an operation at most (benches/README.md)."""
_MOST_EXPLAIN_COST = 0.01
_FACTOR_NAME = re.compile(r"^[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)?$")
_TRIAL_PARTS = ("target", "run")
IDENTITY = ("study", "trial", "status", "reason", "repetition", "order", "started_unix_s", "duration_s")
"""The columns of the frame of trials that are neither factors nor metrics."""
_NAME = r"^\w[\w.-]*$"
ALL_HOSTS = "all"
"""In place of the names of hosts: each that there is when the run begins."""
HOST_NAME = re.compile(_NAME)


def _level(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str):
        raise ValueError("expected a number, text, true or false")
    return _plain(value)


def _plain(value: Any) -> Any:
    """A value that a plan can hold: text, true, false, numbers, lists and tables of these."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("expected a finite number")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("expected a number that fits into 64 bits")
    if isinstance(value, str) and "\0" in value:
        raise ValueError("expected a text without a NUL, which no name or option can hold")
    if isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            _plain(part)
    elif not isinstance(value, bool | int | float | str):
        raise ValueError(f"expected text, a number, true, false, a list or a table of these; found {shown(value)}")
    return value


def _plain_table(table: dict[str, Any]) -> dict[str, Any]:
    for key, value in table.items():
        try:
            _plain(value)
        except ValueError as error:
            raise ValueError(f"{key} = {shown(value)}: {error}") from None
    return table


Level = Annotated[bool | int | float | str, BeforeValidator(_level)]
Table = Annotated[dict[str, Any], AfterValidator(_plain_table)]


def _duration_s(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("not a duration; expected for example '10s' or a number of seconds")
    return units.parse_duration_s(value)


def _share(value: Any) -> float:
    try:
        return units.parse_share(value)
    except ValueError:
        raise ValueError("not a share; expected for example '5%' or 0.05") from None


Size = Annotated[int, BeforeValidator(run_conditions.size_bytes)]
DurationS = Annotated[float, BeforeValidator(_duration_s), WithJsonSchema({"type": ["number", "string"]})]
Share = Annotated[float, BeforeValidator(_share), Field(gt=0, lt=1), WithJsonSchema({"type": ["number", "string"]})]
Affinity = Annotated[str, BeforeValidator(run_conditions.affinity), WithJsonSchema({"type": ["string", "integer"]})]
Cores = Annotated[float, BeforeValidator(run_conditions.cores), WithJsonSchema({"type": ["number", "string"]})]
MemoryLimit = Annotated[
    int, BeforeValidator(run_conditions.memory_bytes), WithJsonSchema({"type": ["integer", "string"]})
]
Hosts = Annotated[list[str], WithJsonSchema({"type": ["array", "string"], "items": {"type": "string"}})]


class _Described(BaseModel):
    """What stands below a key is its description in the schema of study files, which editors show."""

    model_config = ConfigDict(extra="allow", frozen=True, use_attribute_docstrings=True)


class _Strict(_Described):
    model_config = ConfigDict(extra="forbid")


class Until(_Strict):
    """Adaptive repetition, never past `max`: a point is repeated until the interval of its mean is narrow enough, or
    rounds of all points until they are steady, or have written enough."""

    metric: str
    """The metric whose mean has to be precise, or that has to be steady."""
    ci: Share = 0.05
    """Wanted half-width of the confidence interval, as a share of the mean (`5%` or 0.05)."""
    min: Annotated[int, Field(ge=2)] = 3
    """Repetitions of each point at least."""
    max: Annotated[int, Field(ge=2)] = 30
    """Repetitions of each point at most."""
    steady: bool | Annotated[list[Table], Field(min_length=1)] = False
    """In place of `ci`, rounds of all points until each is in steady state by SNIA's rule; or those with these levels,
    such as `[{ bs = "4KiB" }]`."""
    written: Annotated[Size, Field(gt=0), WithJsonSchema({"type": ["integer", "string"]})] | None = None
    """In place of `ci`, rounds until all trials together have written so much, such as `4GiB`."""

    @property
    def of_rounds(self) -> bool:
        """Whether rounds of all points end together, not the repetitions of each point on their own."""
        return bool(self.steady) or self.written is not None

    def tracks(self, point: Mapping[str, Level]) -> bool:
        """Whether a point has to be steady."""
        if isinstance(self.steady, bool):
            return self.steady
        return any(
            all(name in point and same_level(name, level, point[name]) for name, level in levels.items())
            for levels in self.steady
        )

    @model_validator(mode="after")
    def _ordered(self) -> Until:
        if self.min > self.max:
            raise ValueError(f"min is {self.min}, which is more than max = {self.max}")
        return self


class TargetSpec(_Described):
    """What is loaded. Keys other than `kind` are that target's own."""

    kind: str = "null"
    """The kind of storage, such as `file`, `device` or `virtual`; `null` is none."""

    @model_validator(mode="after")
    def _plain(self) -> TargetSpec:
        _plain_table(self.model_extra or {})
        return self


class Run(_Strict):
    """Conditions of each trial."""

    timeout: DurationS | None = None
    """Time after which a trial that hangs is ended, such as `5m`; by default the driver's estimate plus a margin."""
    cooldown: DurationS = 0.0
    """Pause before each trial, such as `10s`, so that a drive can settle."""
    governor: Literal["performance", "keep"] = "performance"
    """CPU frequency governor during the run; the earlier one returns afterwards."""
    drop_caches: bool = False
    """Drop the page cache before each trial, which needs root."""
    scheduler: Annotated[str, BeforeValidator(run_conditions.scheduler)] | None = None
    """Policy of the tool's processes: `fifo:<1 to 99>`, `rr:<1 to 99>`, `other`, `batch` or `idle`."""
    affinity: Affinity | None = None
    """Processors that the tool may run on, such as `0-2,5`."""
    nice: Annotated[int, BeforeValidator(run_conditions.nice)] | None = None
    """Nice value of the tool's processes, from -20 (most favourable) to 19."""
    cpu_limit: Cores | None = None
    """CPU time of all processes together, as a share of one processor (`150%`) or a number of processors (1.5)."""
    memory_limit: MemoryLimit | None = None
    """Memory of all processes together, page cache included, such as `1GiB`; the kernel ends what needs more."""
    hosts: Hosts = Field(default_factory=list)
    """The hosts that measure, by the names of their workers, or `all`; none is this machine."""
    together: bool = False
    """Start each trial on all hosts at one instant, for storage that they share."""


class Watch(_Strict):
    """What watches the trials."""

    monitors: list[str] = Field(default_factory=lambda: ["cpu", "disk"])
    """What is sampled during each trial, such as `cpu`, `disk` or `memory`."""
    interval: DurationS = 0.25
    """Time between two samples, such as `250ms`; a bare number is seconds."""
    witness: Literal["auto", "auto-explain", "off", "counters", "block", "syscalls", "explain", "record"] = "auto"
    """How the kernel observes each trial. `block` has no measurable cost; `syscalls` costs a fifth of a microsecond a
    call and times each; `explain` costs more and says where the time of each operation went. `auto` is `syscalls` where
    all I/O is direct, so that no call is shorter than 10 microseconds, or a metric `kernel.…` is asked for; else it is
    `block`. `auto-explain` is `auto`, but `explain` from the second trial of a condition on where its rate makes that
    cost less than 1 %."""
    twins: bool = False
    """Run each trial twice in random order: once with the witness and once without it. The one without it is
    analysed; the verdict is that of its twin."""
    calls: bool | dict[str, list[Level]] = False
    """Run each point once more with its system calls counted by name; its speeds are not used. A table selects points
    by levels: `{ workers = [1, 4] }`."""
    servers: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    """Names of programs that serve what is measured, such as `nbdkit`. Their work is part of the measurement, not of
    other programs."""

    @model_validator(mode="after")
    def _needs_witness(self) -> Watch:
        if self.twins and self.witness == "off":
            raise ValueError(
                "twins = true compares with the witness and without it; expected a witness other than 'off'"
            )
        return self


class Limit(_Strict):
    """What a response may be at most, or, where higher is better, at least."""

    most: str | float
    """The limit: a time with its unit, such as `10ms`, or a number in the metric's own unit."""
    of: str = ""
    """Who sets it, such as etcd."""


class Analysis(_Strict):
    """What is to be answered."""

    responses: list[str] = Field(default_factory=list)
    """The metrics to answer for, such as `read.bw` or `read.lat.p99`; none means those of the driver."""
    questions: list[str] = Field(default_factory=list)
    """The questions to answer, such as `peak` or `choice`; none means all that apply."""
    lead: Literal["shape", "peak", "choice"] = "shape"
    """What the summary begins with: the responses over the factors, the best level of the first response, or the best
    case."""
    limits: dict[str, Limit] = Field(default_factory=dict)
    """Limits of responses, by their metrics; the question `limits` says which conditions are within them."""
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    """Level of all confidence intervals, as a share of 1."""


class Relative(_Strict):
    """Written by ioassay: the machine that the study was planned on, and what its numbers were written as."""

    processors: PositiveInt
    """Number of processors that `nproc` was."""
    memory_bytes: PositiveInt
    """Memory that `ram` was, in bytes."""
    written: dict[str, bool | int | float | str | list[Level]]
    """Expressions such as `nproc*2` by their keys; of a factor with one, all levels."""
    pending: dict[str, str] = Field(default_factory=dict)
    """Parameters that are the `best of STUDY`, while that study has not ended; their values are stand-ins."""


class Figure(_Described):
    """One figure. Further keys are those of its kind."""

    kind: str
    """The kind of figure, such as `trend`, `bar` or `cdf`."""
    name: Annotated[str, Field(pattern=r"^[\w-]+$")]
    """Name of its files: letters, digits, `_` and `-`."""


class Scale(_Strict):
    """What a named scale (`--scale quick`) changes."""

    repetitions: PositiveInt | None = None
    """Repetitions of each point at this scale."""
    until: Until | None = None
    """In place of `repetitions`, the precision at which a point needs no more of them."""
    params: Table = Field(default_factory=dict)
    """Parameters of the driver that differ at this scale."""
    target: Table = Field(default_factory=dict)
    """Keys of the target that differ at this scale."""
    factors: dict[str, list[Level]] = Field(default_factory=dict)
    """Factors with their levels at this scale."""
    run: Table = Field(default_factory=dict)
    """Conditions of trials that differ at this scale."""
    watch: Table = Field(default_factory=dict)
    """Keys of `watch` that differ at this scale."""


class Study(_Strict):
    """One study: one driver, one target, fixed parameters, factors with their levels, repetitions."""

    name: Annotated[str, Field(pattern=_NAME)]
    """Short name for folders and tables; by default the file's name."""
    title: str
    """Heading of the report."""
    description: str = ""
    """Text below the heading of the report."""
    driver: str
    """The tool that makes the load, such as `fio` or `stress_ng`."""
    repetitions: PositiveInt | None = None
    """Repetitions of each point; 1 where neither this nor `until` is given."""
    until: Until | None = None
    """In place of `repetitions`, the precision at which a point needs no more of them."""
    order: Literal["shuffled", "listed"] = "shuffled"
    """Order of the points in each repetition; `listed` is that of the study, the last factor first."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Start of the random numbers that shuffle the trials and seed the tools."""
    target: TargetSpec = Field(default_factory=TargetSpec)
    """The storage under load."""
    params: Table = Field(default_factory=dict)
    """Fixed parameters of the driver, under its own names, such as `rw` or `runtime` of fio."""
    factors: dict[str, list[Level]] = Field(default_factory=dict)
    """What is varied: lists of levels under names of parameters, `target.<key>` or `run.<key>`."""
    case: list[Table] = Field(default_factory=list)
    """Irregular sets of points, each with a `name` and its own parameters; they are crossed with the factors."""
    run: Run = Field(default_factory=Run)
    """Conditions of each trial, such as its scheduling policy and the memory that it may use."""
    watch: Watch = Field(default_factory=Watch)
    """What is observed during each trial."""
    analysis: Analysis = Field(default_factory=Analysis)
    """The questions and the responses that they are about."""
    figures: list[Figure] = Field(default_factory=list)
    """Figures of the report; none means those that suit the factors."""
    scale: dict[str, Scale] = Field(default_factory=dict)
    """Smaller or larger variants by name, for `--scale <name>`."""
    relative: Relative | None = None
    """Written by ioassay into the study of a run: the machine that levels such as `nproc*2` were computed on."""

    @model_validator(mode="before")
    @classmethod
    def _with_host_factor(cls, table: Any) -> Any:
        """`run.hosts` is a factor from here on, so that it is planned, analysed and changed as any other."""
        run = table.get("run") if isinstance(table, Mapping) else None
        if not isinstance(run, Mapping) or not run.get("hosts"):
            return table
        hosts, factors = run["hosts"], table.get("factors", {})
        if not isinstance(hosts, list | str) or not isinstance(factors, Mapping):
            return table
        if HOST in factors:
            raise ValueError(f"has both run.hosts and factors.{HOST}; expected one of them")
        names = [name.strip() for name in hosts.split(",")] if isinstance(hosts, str) else list(hosts)
        rest = {key: value for key, value in run.items() if key != "hosts"}
        return {**table, "run": rest, "factors": {HOST: names, **factors}}

    @model_validator(mode="after")
    def _consistent(self) -> Study:
        if self.repetitions is not None and self.until is not None:
            raise ValueError("has both 'repetitions' and 'until'; expected one of them")
        _check_factors(self.factors)
        _check_cases(self.case, self.factors)
        _check_run(self)
        _check_hosts(self)
        _check_calls(self)
        _check_figures(self.figures)
        points = math.prod(map(len, self.factors.values())) * max(len(self.case), 1)
        trials = points * (self.max_repetitions * self.runs_per_trial + bool(self.watch.calls))
        if trials > MAX_TRIALS:
            raise ValueError(f"has {trials} trials; expected {MAX_TRIALS} or fewer: remove levels or repetitions")
        return self

    @property
    def levels(self) -> dict[str, tuple[Level, ...]]:
        """Factor -> its levels as written, each once; `case` first where there are cases, as the plan has it.

        Studies that were run before duplicates were refused may list a level twice: it counts once.
        """
        cases = {CASE: [case["name"] for case in self.case]} if self.case else {}
        return {name: distinct_levels(name, levels) for name, levels in {**cases, **self.factors}.items()}

    @property
    def design(self) -> LevelIndex:
        """The same, to find levels however they are spelled and to put points in the study's order."""
        return LevelIndex(self.levels)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that measure, in the order of the study; none for this machine."""
        return tuple(map(str, self.factors.get(HOST, ())))

    def on_hosts(self, names: Sequence[str]) -> Study:
        """The same study on other hosts. StudyError where they are too few to measure together, or too many trials."""
        table = self.model_dump(exclude_none=True)
        return make_study({**table, "factors": {**self.factors, HOST: list(names)}}, self.name)

    @property
    def has_target(self) -> bool:
        """Whether it loads storage; studies of processors and of other subsystems have no target."""
        return self.target.kind != "null"

    def settings(self, point: Mapping[str, Level]) -> dict[str, Any]:
        """What a point sets: the case's own keys, then the factors. A key with a dot is not of the driver.

        The host sets nothing: a trial has the same parameters on each.
        """
        case = next((case for case in self.case if case["name"] == point.get(CASE)), {})
        own = {key: value for key, value in case.items() if key != "name"}
        return own | {name: level for name, level in point.items() if name not in (CASE, HOST)}

    @property
    def wanted(self) -> dict[str, str]:
        """Each metric that it names -> the key that does."""
        asked = dict.fromkeys(self.analysis.responses, "analysis.responses")
        limited = dict.fromkeys(self.analysis.limits, "analysis.limits")
        return {**({self.until.metric: "until.metric"} if self.until is not None else {}), **limited, **asked}

    @property
    def witness_level(self) -> str:
        if not self.watch.witness.startswith("auto"):
            return self.watch.witness
        if any(name.startswith("kernel.") for name in self.wanted):
            return "syscalls"
        given = [case["direct"] for case in self.case if "direct" in case]
        direct = self.factors.get("direct", given or [self.params.get("direct", 0)])
        return "syscalls" if all(level in (1, "1", True) for level in direct) else "block"

    def witness_level_at(self, operations_per_s: float | None) -> str:
        """That of a trial, by the rate of an earlier one of its condition; None where none is known."""
        is_cheap = operations_per_s is not None and operations_per_s * _EXPLAIN_COST_S < _MOST_EXPLAIN_COST
        explains = self.watch.witness == "auto-explain" and self.witness_level == "syscalls" and is_cheap
        return "explain" if explains else self.witness_level

    @property
    def may_explain(self) -> bool:
        """Whether trials may be observed at level explain."""
        return self.watch.witness in ("explain", "auto-explain")

    def params_at(self, point: Mapping[str, Level]) -> dict[str, Any]:
        """The driver's parameters at one point: the study's own, then what the point sets."""
        return self.params | {name: value for name, value in self.settings(point).items() if "." not in name}

    @property
    def max_repetitions(self) -> int:
        if self.until is not None:
            return self.until.max
        return self.repetitions or 1

    @property
    def runs_per_trial(self) -> int:
        """2 where each trial has a twin without the witness, else 1."""
        return 2 if self.watch.twins else 1


def _check_factors(factors: Mapping[str, list[Level]]) -> None:
    for name, levels in factors.items():
        place = f"factors.{name}"
        _check_name(place, name)
        if name == CASE:
            raise ValueError(f"{place}: 'case' is the factor made by [[case]] tables; expected another name")
        if name in (*IDENTITY, "run", "search"):
            raise ValueError(f"{place}: '{name}' is a column of every table of trials; expected another name")
        if metrics.known(name) and not counts_concurrency(name):  # stress-ng's metric `threads` is others' parameter
            raise ValueError(f"{place}: '{name}' is a metric, which is measured; expected another name")
        if not levels:
            raise ValueError(f"{place}: has no levels; expected at least one, or remove the factor")


def _require_distinct_levels(factors: Mapping[str, list[Level]], source: str, place: str = "factors") -> None:
    """StudyError where a level is there twice under whatever spelling: its points would be run as if they differed."""
    for name, levels in factors.items():
        if not (repeated := repeated_level(name, levels)):
            continue
        first, second = map(shown, repeated)
        if first == second:
            text = f"level {first} is listed twice; expected it once"
        else:
            meaning = level_meaning(name, repeated[1])
            text = f"levels {first} and {second} are the same, both mean {meaning}; expected one of them"
        raise StudyError(text, source=source, key=f"{place}.{name}")


def _require_distinct_cases(cases: list[dict[str, Any]], source: str) -> None:
    """StudyError where two cases set the same; cases that set nothing are names for the study's own parameters."""
    known: dict[str, str] = {}
    for case in cases:
        settings = setting_key(CASE, {key: value for key, value in case.items() if key != "name"})
        first = known.setdefault(repr(settings), case["name"])
        if settings and first != case["name"]:
            told = ", ".join(f"{key} = {shown(value)}" for key, value in case.items() if key != "name")
            message = f"sets the same as case '{first}' ({told}); expected one of them"
            raise StudyError(message, source=source, key=f"case '{case['name']}'")


def _check_name(place: str, name: str) -> None:
    if not _FACTOR_NAME.match(name):
        raise ValueError(f"{place}: not a factor name; expected a parameter, or target.<key> or run.<key>")
    if "." in name and name.split(".")[0] not in _TRIAL_PARTS:
        raise ValueError(f"{place}: a dotted factor starts with {' or '.join(_TRIAL_PARTS)}")


def _check_cases(cases: list[dict[str, Any]], factors: Mapping[str, list[Level]]) -> None:
    names: list[str] = []
    for number, case in enumerate(cases, start=1):
        name = case.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"case {number}: has no 'name'; expected a short label for tables and figures")
        if name in names:
            raise ValueError(f"case {number}: name '{name}' is used twice")
        names.append(name)
        for key in case:
            _check_name(f"case '{name}': '{key}'", key)
            if key in factors:
                raise ValueError(f"case '{name}': '{key}' is also a factor; expected it in one of the two places")


def _check_run(study: Study) -> None:
    """Conditions that vary between points are as they would have to be in [run]."""
    varied = [(f"factors.{name}", name, level) for name, levels in study.factors.items() for level in levels]
    varied += [(f"case '{case['name']}': {name}", name, level) for case in study.case for name, level in case.items()]
    for place, name, level in varied:
        part, _, key = name.partition(".")
        if part != "run":
            continue
        if key in ("hosts", "together"):
            raise ValueError(f"{place}: holds for a whole study; expected it in [run]")
        if key == "governor":
            raise ValueError(
                f"{place}: the governor holds for a whole run; expected a study for each, and a comparison"
            )
        try:
            Run.model_validate({key: level})
        except ValidationError as error:
            first = error.errors()[0]
            unknown = first["type"] == "extra_forbidden"
            raise ValueError(
                f"{place}: {suggestion(key, Run.model_fields) if unknown else error_text(first)}"
            ) from None


def _check_hosts(study: Study) -> None:
    for name in study.factors.get(HOST, ()):
        if not isinstance(name, str) or not HOST_NAME.match(name):
            raise ValueError(
                f"run.hosts: {shown(name)} is no name of a host; expected letters, digits, '.', '_' and '-'"
            )
    if ALL_HOSTS in study.hosts and len(study.hosts) > 1:
        raise ValueError(f"run.hosts: '{ALL_HOSTS}' is in a list with others; expected it alone")
    if study.run.together and len(study.hosts) < 2 and ALL_HOSTS not in study.hosts:
        raise ValueError("run.together: starts several hosts at one instant; expected two or more in run.hosts")


def _check_calls(study: Study) -> None:
    """That levels are named of factors that there are. Levels that a factor has lost (`--factor`) are no error."""
    named = study.watch.calls if isinstance(study.watch.calls, dict) else {}
    known = [*study.factors, *([CASE] if study.case else [])]
    if unknown := [name for name in named if name not in known]:
        wanted = f"expected one of {', '.join(known)}" if known else "expected true: the study has no factors"
        raise ValueError(f"watch.calls: '{unknown[0]}' is no factor of the study; {wanted}{nearest(unknown[0], known)}")


def _check_figures(figures: list[Figure]) -> None:
    names = [figure.name for figure in figures]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"figures: name '{sorted(doubled)[0]}' is used twice")


class Suite(_Strict):
    """Several studies that make one run and one report. A single study is a suite of one."""

    name: Annotated[str, Field(pattern=_NAME)]
    """Short name for folders and tables; by default the file's name."""
    title: str
    """Heading of the report."""
    description: str = ""
    """Text below the heading of the report."""
    studies: list[Study]
    """The studies in their order, under distinct names."""
    figures: list[Figure] = Field(default_factory=list)
    """Figures of several studies at once; those of one study are its own."""

    @model_validator(mode="after")
    def _distinct(self) -> Suite:
        _check_figures(self.figures)
        if not self.studies:
            raise ValueError("has no studies")
        names = [study.name for study in self.studies]
        if doubled := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"study '{sorted(doubled)[0]}' is listed twice")
        return self


def make_study(table: Mapping[str, Any], source: str, *, stored: bool = False) -> Study:
    """Validate one study given as a table; StudyError names `source`, the key and the value.

    A `stored` study is of a run that exists. Older versions compared levels by their text, so it may list one twice.
    """
    try:
        study = Study.model_validate(dict(table))
    except ValidationError as error:
        raise study_error(error, source) from None
    if not stored:
        _require_distinct_levels(study.factors, source)
        _require_distinct_cases(study.case, source)
    return study


def check_scales(scales: Any, source: str) -> None:
    """Validate the `[scale.<name>]` tables, those too that nobody asked for; StudyError as in `make_study`."""
    try:
        known = _SCALES.validate_python(scales)
    except ValidationError as error:
        raise study_error(error, source, "scale") from None
    for name, scale in known.items():
        _require_distinct_levels(scale.factors, source, f"scale.{name}.factors")


def study_error(error: ValidationError, source: str, below: str = "") -> StudyError:
    """The first thing that pydantic found, as an error that names file, key, value and what was wanted."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in ((below,) if below else ()) + first["loc"])
    if first["type"] == "extra_forbidden":
        table, *inside = key.split(".")
        model = _MODELS.get(table, Study) if inside else Study
        message = f"unknown key; {suggestion(key.split('.')[-1], model.model_fields)}"
    elif first["type"] == "missing":
        message = "is missing"
    else:
        message = error_text(first)
    more = len(error.errors()) - 1
    return StudyError(message + (f" (and {more} more)" if more else ""), source=source, key=key)


_SCALES = TypeAdapter(dict[str, Scale])
_MODELS: dict[str, type[BaseModel]] = {"until": Until, "run": Run, "watch": Watch, "analysis": Analysis, "scale": Scale}
