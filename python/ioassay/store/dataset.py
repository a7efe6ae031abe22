"""All records of one run as typed studies and data frames: what every analysis and every figure reads.

Deliberately not here: reading the run's files (`ioassay.store.frames`) and computing anything from the records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, cast

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from ioassay import metrics
from ioassay.metrics import DIRECTIONS
from ioassay.records.record import SKIPPED, WILL_BE_SKIPPED, Claim, Scalar
from ioassay.roles import DriverFacts, UnknownDriver
from ioassay.study.model import IDENTITY as IDENTITY
from ioassay.study.model import Figure, Study
from ioassay.validation import Finite, Whole

if TYPE_CHECKING:
    import polars as pl

    from ioassay.records.observation import Observation
    from ioassay.records.record import Environment


_USUAL_RESPONSES = tuple(f"{way}.{quantity}" for quantity in ("bw", "iops", "lat.p99") for way in DIRECTIONS)
"""What is worth answering where a study names no responses, most telling first."""


def _no_calls() -> pl.DataFrame:
    import polars as pl

    text, number = pl.String(), pl.Int64()
    kinds = {"study": text, "trial": text, "name": text, "count": number, "errors": number, "per_second": pl.Float64()}
    return pl.DataFrame(schema={**kinds, "by": text})


def section(host: Mapping[str, object], name: str) -> Mapping[str, Any]:
    """A section of the facts of a host; an empty one where there is none, or host.json was damaged."""
    found = host.get(name)
    return found if isinstance(found, Mapping) else {}


def machines(host: Host, study: Study) -> dict[str, Host]:
    """The facts of each machine that measured the study, by host; of one that names no hosts this one's, under ''.

    Facts of a host that never answered are empty.
    """
    known = host.get("hosts", {})
    return {name: known.get(name, {}) for name in study.hosts} if study.hosts else {"": host}


def machine(host: Host, study: Study) -> Host:
    """The facts that all machines have alike which measured the study; what differs is missing."""
    first, *others = machines(host, study).values()
    alike = {
        part: {
            name: value
            for name, value in facts.items()
            if all(section(other, part).get(name) == value for other in others)
        }
        for part in first
        if (facts := section(first, part))
    }
    return cast(Host, alike) if others else first


@dataclass(frozen=True)
class Dataset:
    """All records of one run, as frames; what every analysis and figure reads.

    trials: one row a recorded trial: study, trial, status, reason, repetition, order, started_unix_s, duration_s,
        one column a factor (by its name; null where the study has no such factor), one Float64 column a metric.
        Of a search also `search`, what the trial was for (`packs/tuning` has the words).
    hist: study, trial, direction, kind, job, value_ns (Int64), count (Int64).
    series: study, trial, metric, job, time_s, value.
    samples: study, trial, monitor, name, time_s, value (raw counters and gauges).
    warnings: study, trial, code, text, remedy.
    Frames without rows keep these columns. `host` is host.json (`machines`: of who measured); `root` the run's folder.
    """

    root: Path
    studies: Sequence[Study]
    host: Host
    trials: pl.DataFrame
    hist: pl.DataFrame
    series: pl.DataFrame
    samples: pl.DataFrame
    warnings: pl.DataFrame
    planned: Mapping[str, int]
    """Number of planned trials by study name."""
    figures: Sequence[Figure] = ()
    """Those of the suite, which show several studies; those of one study are its own."""
    traced: pl.DataFrame | None = None
    """Where trials have twins: the trials that the witness watched, in the columns of `trials`, which are then those
    that it did not watch. None where no study has twins."""
    observations: Mapping[str, Observation] = field(default_factory=dict)
    """Trial -> what the witness saw, read when it is asked for; trials that were not watched are missing."""
    environments: Mapping[str, Environment] = field(default_factory=dict)
    """Trial -> what else used the machine; computed trials, and those of older versions, are missing."""
    claims: Mapping[str, Sequence[Claim]] = field(default_factory=dict)
    """Trial -> what its tool claimed; trials whose tool claims nothing are missing."""
    calls: pl.DataFrame = field(default_factory=_no_calls)
    """System calls by name: one row a trial and name, most frequent first: study, trial, one column a factor (as in
    `trials`), name, count and errors (Int64: entered, and of these failed), per_second (Float64: count over the time
    from the command's first instruction to its end), by (who counted: 'bpf' or 'strace'). Of studies with
    `watch.calls` these are the trials of `counting`, of others those that the witness watched at level syscalls. A
    factor that is called like one of these columns has none here. No rows: nothing was counted."""
    counting: pl.DataFrame | None = None
    """Where trials were run once more to count their system calls (`watch.calls`): these, in the columns of `trials`,
    which are without them. Speeds of these are not to be used. None where no study has such."""
    tuning: Search | None = None
    """Of a search: what was asked (tune.json: metric, maximize, constraints, axes, default, …) and, once it has ended,
    `found` (found.json: ended, asked, winner, feasible, candidates). None for every other run."""
    drivers: Mapping[str, DriverFacts] = field(default_factory=dict)
    """By name; a driver that this version does not have is missing."""
    _trials_of: dict[str, pl.DataFrame] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for study in self.studies:
            metrics.declare(self.driver(study).declared_metrics(study.params))

    def __setstate__(self, state: Mapping[str, object]) -> None:
        """Unpickled in another process, whose registry knows no metric of these studies yet."""
        self.__dict__.update(state)
        self.__post_init__()

    def machines(self, study: Study) -> dict[str, Host]:
        return machines(self.host, study)

    def machine(self, study: Study) -> Host:
        return machine(self.host, study)

    def trials_of(self, study: Study) -> pl.DataFrame:
        """All recorded trials of the study, failed ones too, in the order they ran."""
        import polars as pl

        if study.name not in self._trials_of:
            self._trials_of[study.name] = self.trials.filter(pl.col("study") == study.name).sort("order")
        return self._trials_of[study.name]

    def with_factors(self, study: Study, trials: pl.DataFrame, factors: Mapping[str, Sequence[Scalar]]) -> Dataset:
        """The parts of trials as trials of one study, which has these factors as well."""
        own = study.model_copy(update={"factors": {**study.factors, **factors}})
        return replace(self, studies=[own], trials=trials, traced=None)

    def announced_skips(self) -> set[str]:
        """Texts of warnings about trials that were to be skipped, and were: the reasons of these say the same."""
        skipped = self.trials.filter(self.trials["status"] == SKIPPED)["reason"].to_list() if self.trials.height else []
        announced = self.warnings.filter(self.warnings["code"] == WILL_BE_SKIPPED)["text"].to_list()
        return {text for text in announced if any(text in (reason or "") for reason in skipped)}

    def responses(self, study: Study) -> list[str]:
        """The metrics to answer: as the study lists them, or the usual ones that its trials have."""
        trials = self.trials_of(study)
        driver = self.driver(study)
        own = [metric.name for metric in driver.declared_metrics(study.params)] or driver.responses
        wanted = study.analysis.responses or dict.fromkeys((*_USUAL_RESPONSES, *own))
        return [name for name in wanted if name in trials.columns and trials[name].null_count() < trials.height]

    def is_measured(self, study: Study) -> bool:
        """Whether its trials measured a machine, so that repetitions differ and the machine may be doubted."""
        return not self.driver(study).deterministic

    def driver(self, study: Study) -> DriverFacts:
        return self.drivers.get(study.driver) or UnknownDriver()


# What the JSON files of a run must hold

Level = str | bool | Annotated[int, Field(ge=-(2**63), lt=2**63)] | Finite
Point = dict[str, Level]


def _trial_id(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{16}", text):
        raise ValueError("expected 16 hexadecimal digits")
    return text


TrialId = Annotated[str, AfterValidator(_trial_id)]
"""What a trial is called (plan.make_trial). Nothing else may name a folder: the folder of a trial is emptied."""


class _Planned(TypedDict):
    id: TrialId
    study: str
    point: Point
    repetition: Whole
    order: Whole
    twin: NotRequired[bool]
    calls: NotRequired[bool]
    search: NotRequired[str]


class Identity(_Planned):
    """`Record.trial`."""

    driver: NotRequired[str]
    seed: NotRequired[Whole]


class Planned(_Planned):
    """A line of plan.jsonl: `roles.Trial`."""

    driver: str
    params: dict[str, Any]
    target: dict[str, Any]
    run: dict[str, Any]
    seed: Whole


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
