"""A drive is measured by the battery, stage by stage, in one run whose plan grows: `ioassay drive learn`.

The runner measures: each trial is a run of fio, witnessed, with a durable record. The battery is asked again from its
beginning whenever a batch has its records, so nothing else is kept, and a run that was killed goes on where it
was. Only what a load may last follows the clock, and that is in the plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from typing_extensions import TypedDict

from ioassay import units, validation
from ioassay.api import execution
from ioassay.api.execution import Announce, Execution, RunKeys, RunOptions
from ioassay.api.run_results import Run
from ioassay.errors import InputError, UsageError
from ioassay.host import block_devices, disks
from ioassay.host.machine import Machine
from ioassay.packs.ssd.twin import battery
from ioassay.packs.ssd.twin import measurement as measured
from ioassay.packs.ssd.twin.loads import Fit, Load, Reading
from ioassay.packs.ssd.twin.measurement import ENGINES, HOST, LAYOUT, FioTarget, Unmeasured
from ioassay.records.record import OK, Record, Warning_
from ioassay.roles import Trial
from ioassay.runner import preflight
from ioassay.runner.preflight import PreparedStudy
from ioassay.runner.progress import Progress
from ioassay.runner.run import GrowingPlan
from ioassay.store import bundle
from ioassay.store.run_folder import LEARN, RunStore, new_folder
from ioassay.study import plan
from ioassay.study.model import Study as StudyModel
from ioassay.study.model import Suite
from ioassay.targets import ownership_mark, safety

if TYPE_CHECKING:
    from ioassay.packs.ssd.questions.twin import Learned

DESCRIPTION = "drive.toml"
BUDGET_S = 600.0
LEAST_BUDGET_S = 20.0
_RANGE_BYTES_PER_S = 20e6
"""Of the budget: so much of a drive is used, that a slow one can be written twice in a fifth of it."""
_STEP_BYTES = 2**20
_TRIAL_S = 0.8
"""What a trial costs beside its run time, before the first has told: fio's start and end, the witness, the record."""
_MEASURING = 0.95
"""Share of the budget: the rest is for the fit and the page."""
_HOST_S = 0.5
_LEAST_RUN_S = 0.02
_MOST_OF_REST = 0.5
"""Share of the time that is left which all loads of a batch that end by their number of requests may take."""


class Request(TypedDict):
    """learn.json: what was asked."""

    schema: int
    target: dict[str, Any]
    """The table of all studies; its size is the range that is used."""
    writes: bool
    budget_s: float
    seed: int


@dataclass(frozen=True)
class Settings:
    """How a drive is measured; UsageError for what cannot be."""

    writes: bool = True
    """Whether the drive may be written; without, its write cache, program times and garbage collection stay unknown."""
    budget_s: float = BUDGET_S
    size: str | int | None = None
    """The range that is used, from the beginning; by default as much as the budget suffices for."""
    seed: int = 1

    def __post_init__(self) -> None:
        if not self.budget_s >= LEAST_BUDGET_S:
            raise UsageError(f"--budget is {self.budget_s:g} s; expected {LEAST_BUDGET_S:g} s or more")


class Twin(Run):
    """The run that measured a drive: its readings, and the description that follows from them."""

    @property
    def readings(self) -> Sequence[Reading]:
        """What each load gave; InputError for a damaged file of the run."""
        return self._learned.readings

    @property
    def fit(self) -> Fit:
        """The description of the drive, with intervals."""
        return self._learned.fit

    @property
    def _learned(self) -> Learned:
        from ioassay.packs.ssd.questions.twin import learned

        if (found := learned(self._store.root)) is None:
            raise InputError(f"{self._store.root}: no load of the drive went well; its trials say why")
        return found

    def describe(self, path: str | Path | None = None) -> Path:
        """Write the description, by default drive.toml in the run's folder, for `--drive`; its path.

        UsageError where it cannot be written, or where the drive is of another kind than the model.
        """
        out = Path(path) if path is not None else self._store.root / DESCRIPTION
        target = Path(str(read(self._store)["target"]["path"])).name
        source = f"{len(self.readings)} loads of fio, measured by ioassay drive learn in {self._store.root.name}"
        return _described(self.fit, self.readings, out, target, source)


def from_runs(runs: Sequence[str | Path], path: str | Path = DESCRIPTION) -> tuple[Fit, Path]:
    """A description from closed loops of fio in runs of any kind, also imported ones, written to `path`.

    Addresses tell the structure only where `ioassay drive learn` wrote the drive in sequence. InputError for runs that
    have no such load; errors of writing as of `Twin.describe`.
    """
    from ioassay.packs.ssd.twin.inference import fit

    stores = [RunStore.open(Path(run)) for run in runs]
    asked = [store.asked(LEARN) for store in stores]
    readings = [reading for store in stores for reading in measured.readings(store)]
    if not readings:
        raise InputError(f"{', '.join(map(str, runs))}: no closed loop of fio past the page cache in it")
    sizes = [int(each["target"]["size"]) for each in asked if each]
    laid_out = all(each is not None and bool(each["writes"]) for each in asked)
    found = fit(readings, capacity_bytes=max(sizes, default=None), laid_out=laid_out)
    source = f"{len(readings)} loads of fio in {', '.join(store.root.name for store in stores)}"
    if without := sum("p99_us" not in reading.statistics for reading in readings):
        source += f"; {without} without percentiles, or with ones that contradict the mean"
    return found, _described(found, readings, Path(path), stores[0].root.name, source)


def _described(fit: Fit, readings: Sequence[Reading], path: Path, about: str, source: str) -> Path:
    from ioassay.packs.ssd.twin import description

    if fit.misfit:
        raise UsageError(f"the drive is of another kind than the model, and has no description: {fit.misfit}")
    description.write(fit, readings, path, about=f"A twin of {about}", source=source)
    return path


def learn(
    target: str | Path,
    *,
    read_only: bool = False,
    budget_s: float = BUDGET_S,
    size: str | int | None = None,
    output: str | Path | None = None,
    progress: Progress | None = None,
    **options: Unpack[RunKeys],
) -> Twin:
    """Measure a device or a file in about `budget_s` seconds; `Twin.fit` describes the drive.

    Unless `read_only`, what `target` holds is lost: a device or file with data needs `destroy_data`. A file that is not
    there is made. `size` is the range that is used, from its beginning. Other arguments and errors as of `Study.run`.
    """
    progress, chosen = progress or Progress(), RunOptions(**options)
    with execution.interruptible():
        ready = begin(target, Settings(not read_only, budget_s, size), output, chosen, progress.preparing)
    found = ready.run(progress)
    assert isinstance(found, Twin)
    return found


def begin(
    target: str | Path, settings: Settings, output: str | Path | None, options: RunOptions, announce: Announce | None
) -> Execution:
    """Check everything, then make the run's folder with its first trials planned."""
    path = Path(target).expanduser()
    table, notes = target_table(path, settings)
    asked = Request(schema=1, target=table, writes=settings.writes, budget_s=settings.budget_s, seed=settings.seed)
    with execution.named(str(path)):
        checked = execution.inspect(_suite([_base(asked)]), options, announce)
    preflight.require_measurable(checked.benches, checked.warnings)
    root = Path(output) if output is not None else new_folder(Path("runs"), f"learn-{path.name}")
    first = measured.study(HOST, measured.host_loads(_HOST_S), table, ENGINES[0], settings.seed)
    store = RunStore.create(root, _suite([first]), execution.facts(checked.benches), None, asked, LEARN)
    return _execution(store, asked, options, checked.benches[0], [*notes, *checked.warnings])


def resume(root: Path, options: RunOptions, announce: Announce | None = None) -> Execution:
    """A run that was stopped, checked as a new one is; UsageError for a run that measured no drive."""
    store = RunStore.open(root)
    bundle.require_resumable(root)
    asked = read(store)
    checked = execution.inspect(_suite([_base(asked)]), options, announce, store.working_directory())
    return _execution(store, asked, options, checked.benches[0], checked.warnings)


def read(store: RunStore) -> Request:
    """What was asked; UsageError for a run that measured no drive."""
    if (table := store.asked(LEARN)) is None:
        raise UsageError(f"{store.root}: learned no drive; continue it: {store.resume_command}")
    return validation.typed(Request, table, str(store.root / LEARN), "restore it from a copy of the run")


def _execution(
    store: RunStore, asked: Request, options: RunOptions, base: PreparedStudy, warnings: Sequence[Warning_]
) -> Execution:
    if options.blocks is not None:
        why = "the trials of a drive that is learned follow from each other"
        raise UsageError(f"blocks is {options.blocks}; expected none, since {why}")
    noted = [*warnings]
    made = Execution(store, [base], options, noted, Battery(store, asked, base, noted))
    made.forecast_s = asked["budget_s"]
    return made


def _base(asked: Request) -> StudyModel:
    """What is examined before anything is done: a load as dangerous as any to come. No trial of it is planned."""
    operation = "write" if asked["writes"] else "read"
    load = Load("first", "learn", operation, 4096, requests=1)  # type: ignore[arg-type]
    return measured.study("learn", [load], asked["target"], ENGINES[0], asked["seed"])


def _suite(studies: Sequence[StudyModel]) -> Suite:
    about = "Loads of one kind each, by which the parameters of the drive's model are told."
    return Suite(name="learn", title="A twin of a drive", description=about, studies=list(studies))


def target_table(path: Path, settings: Settings) -> tuple[dict[str, Any], list[Warning_]]:
    """The table of the target, with the range that is used, and what is to be said of it."""
    resolved = safety.resolve(path)
    try:
        asked = None if settings.size is None else units.parse_size(settings.size)
    except ValueError as error:
        raise UsageError(f"--size {settings.size}: {error}") from None
    suffices = int(settings.budget_s * _RANGE_BYTES_PER_S)
    if resolved.is_block_device():
        number = block_devices.number_of(resolved)
        if number is None or (device := block_devices.device(number)) is None:
            raise UsageError(f"{path}: the kernel knows no such device; expected a disk such as /dev/nvme0n1")
        kind, there = "device", device.size_bytes
    else:
        if resolved.is_dir():
            raise UsageError(f"{path}: a folder; expected a device such as /dev/nvme0n1, or a file: {path / 'test'}")
        kind, there = "file", resolved.stat().st_size if resolved.is_file() else 0
        if not there and not settings.writes:
            raise UsageError(f"{path}: no such file, and --read-only makes none; expected a device or a file with data")
        if path.is_relative_to("/dev") and not path.exists():
            raise UsageError(f"{path}: there is no such device; expected one that 'lsblk' lists, such as /dev/nvme0n1")
    if asked is not None and (not asked or asked % _STEP_BYTES):
        raise UsageError(f"--size {settings.size}: expected 1 MiB or a multiple of it")
    used = asked or (min(there, suffices) if settings.writes and there else there or suffices // 4)
    used -= used % min(_STEP_BYTES, used or 1)
    if used < _STEP_BYTES:
        raise UsageError(f"{path}: {units.format_size(used)} are too few to tell anything; expected 1 MiB or more")
    if there and used > there:
        raise UsageError(f"--size {settings.size}: {path} has {units.format_size(there)}; expected at most that")
    table: dict[str, Any] = {"kind": kind, "path": str(path), "size": used}
    if there and (kind == "device" or ownership_mark.read(resolved) is None):
        table["prepare"] = "none"  # the battery writes it itself, and a served drive is a file that cannot be made anew
    if used >= there:
        return table, []
    text = f"{path}: the first {units.format_size(used)} of {units.format_size(there)} are used"
    more = "" if asked else f", as the budget of {units.format_duration(settings.budget_s)} suffices for them"
    return table, [Warning_("range-used", text + more, "--size names another range")]


def sector_bytes(path: Path) -> int:
    """The smallest request that the drive under a path takes: the largest logical block on the way down to it."""
    names = [device.name for device in disks.chain(Machine(Path("/")), path.absolute())]
    devices = filter(None, map(block_devices.named, names))
    sizes = (block_devices.text_of(each.folder / "queue/logical_block_size") for each in devices)
    return max((int(size) for size in sizes if size.isdecimal()), default=512)


@dataclass
class Battery(GrowingPlan):
    """The source of the trials: what the battery wants next, after what was recorded."""

    store: RunStore
    asked: Request
    base: PreparedStudy
    """Of its targets all studies are; it has no trials itself."""
    warnings: list[Warning_]
    """Of the run: what is found while the plan grows is added."""
    clock: Callable[[], float] = time.monotonic
    _progress: Progress = field(default_factory=Progress)
    _records: dict[str, Record] = field(default_factory=dict)
    _readings: dict[str, Reading | None] = field(default_factory=dict)
    """Trial -> what it gave, read once: a log of single requests may have millions of lines."""
    _benches: dict[str, PreparedStudy] = field(default_factory=dict)
    _spent_before_s: float = 0.0
    _began_s: float = 0.0

    @property
    def most(self) -> int:
        """As many as fit into the rest of the budget, at the pace so far."""
        done = len(self._records)
        each_s = self._spent_s() / done if done else _TRIAL_S + self.asked["budget_s"] / 150
        return max(done + round(max(self._left_s(), 0.0) / each_s), len(list(self.store.trials())))

    def announce(self, progress: Progress) -> None:
        self._progress = progress

    def on_record(self, trial: Trial, record: Record) -> None:
        self._records[trial.id] = record

    def bench(self, study: str) -> PreparedStudy:
        return self._benches[study]

    def trials(self) -> Iterator[Trial | None]:
        """See run.Source. What is new is in the plan before it is given."""
        earlier = [self.store.record(one.id) for one in self.store.trials() if self.store.has(one.id)]
        self._spent_before_s = sum(one.duration_s + _TRIAL_S for one in earlier)
        self._began_s = self.clock()
        for given in count():
            studies = self.store.suite().studies
            if given == len(studies):
                if not (wanted := self._wanted(studies)):
                    return
                studies = [*studies, self._plan(wanted, studies)]
            made = studies[given]
            self._benches[made.name] = replace(self.base, study=made)
            for warning in preflight.examine_points(self._benches[made.name]):
                self._add(warning)
            self._progress.grown(self.most)
            yield from (trial for trial in self.store.trials() if trial.study == made.name)
            yield None

    def _wanted(self, studies: Sequence[StudyModel]) -> Sequence[Load]:
        """The loads of the next batch; none at the end of the battery, or of the budget."""
        found = measured.readings(self.store, self._readings)
        of_host, *batches = ([one for one in found if one.load.stage == study.name] for study in studies)
        if self.asked["writes"]:
            if not batches:
                return [measured.layout_load()]
            _, *batches = batches
        target = FioTarget(self._capacity_bytes(), batches)
        budget_s = self.asked["budget_s"] * _MEASURING - sum(one.seconds + _TRIAL_S for one in of_host)
        try:
            battery.learn(target, writes=self.asked["writes"], budget_s=budget_s)
        except Unmeasured as missing:
            if self._left_s() > 2 * _TRIAL_S:
                return missing.loads
            text = f"the budget was over before the loads of stage '{missing.loads[0].stage}'"
            self._note("budget-over", f"{text}; what they and later ones tell stays unknown")
        return ()

    def _capacity_bytes(self) -> int:
        """The range that the battery may use: what was written in sequence, where the budget was too short for all."""
        size_bytes = int(self.asked["target"]["size"])
        of_layout = [one for one in measured.readings(self.store, self._readings) if one.load.stage == LAYOUT]
        written = sum(one.requests * one.load.size_bytes for one in of_layout) or size_bytes
        if written < size_bytes:
            text = f"the first {units.format_size(written)} of {units.format_size(size_bytes)} are used"
            self._note("layout-cut", f"{text}, which the budget sufficed to write in sequence")
        return min(written - written % _STEP_BYTES, size_bytes)

    def _note(self, code: str, text: str, remedy: str = "--budget 20m") -> None:
        self._add(Warning_(code, text, remedy))

    def _add(self, warning: Warning_) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)
            self._progress.said(warning.text)

    def _plan(self, loads: Sequence[Load], studies: Sequence[StudyModel]) -> StudyModel:
        """Make a batch durable as the next study of the run."""
        table, stage = self.asked["target"], loads[0].stage
        number = sum(each.name.rstrip("-0123456789") == stage for each in studies)
        name = f"{stage}-{number + 1}" if number else stage
        least = sector_bytes(Path(str(table["path"])))
        most = max(int(self._left_s() / (self._overhead_s() + _LEAST_RUN_S)), 1)
        if len(loads) > most:
            self._note("loads-left-out", f"the budget suffices for {most} of the {len(loads)} loads of stage '{stage}'")
        fitted = [self._limited(load, loads[:most], least) for load in loads[:most]]
        capacity_bytes = self._capacity_bytes() if len(studies) > 1 else int(table["size"])
        made = measured.study(name, fitted, table, self._engine(studies), self.asked["seed"], 1, capacity_bytes)
        order = len(list(self.store.trials()))
        trials = [plan.make_trial(made, point, 0, order + at) for at, point in enumerate(plan.points(made))]
        self.store.replace_suite(_suite([*studies, made]))
        self.store.extend(trials)
        return made

    def _limited(self, load: Load, loads: Sequence[Load], least_bytes: int) -> Load:
        """The load in requests that the drive takes, and in the time that is left for its batch."""
        size, align = (-(-each // least_bytes) * least_bytes for each in (load.size_bytes, load.align_bytes))
        overhead_s = self._overhead_s() * len(loads) + sum(one.rest_s for one in loads)
        room_s = max(self._left_s() - overhead_s, 0.0)
        untimed = sum(not one.seconds for one in loads)
        of_untimed_s = room_s * _MOST_OF_REST if untimed else 0.0
        timed_s = sum(one.seconds for one in loads)
        share = min((room_s - of_untimed_s) / timed_s, 1.0) if timed_s else 1.0
        if share < 1:
            text = f"the loads of stage '{load.stage}' are shorter than planned, for the sake of the budget"
            self._note("loads-shortened", text)
        load = replace(load, size_bytes=size, align_bytes=align)
        if load.seconds:
            return replace(load, seconds=max(load.seconds * share, _LEAST_RUN_S))
        requests = load.requests or (load.span_bytes or self._capacity_bytes() - load.begin_bytes) // size
        return replace(load, requests=requests, seconds=max(of_untimed_s / untimed, _LEAST_RUN_S))

    def _engine(self, studies: Sequence[StudyModel]) -> str:
        """io_uring; the next one where all loads of the host failed with it, which their records explain."""
        if len(studies) > 1:
            return str(studies[-1].params["ioengine"])
        kept = [self._records[one.id] for one in self.store.trials() if one.id in self._records]
        if any(one.status == OK for one in kept):
            return ENGINES[0]
        why = kept[0].reason if kept else "no load of the host was measured"
        self._note("engine-replaced", f"{ENGINES[1]} in place of {ENGINES[0]}: {why}", "")
        return ENGINES[1]

    def _overhead_s(self) -> float:
        """What a trial took so far beside its run time; one of another stage is as slow to start."""
        if not (done := len(self._records)):
            return _TRIAL_S
        run_s = sum(one.metrics.get("total.runtime", 0.0) for one in self._records.values())
        return max((self._spent_s() - run_s) / done, _LEAST_RUN_S)

    def _spent_s(self) -> float:
        return self._spent_before_s + self.clock() - self._began_s

    def _left_s(self) -> float:
        return self.asked["budget_s"] * _MEASURING - self._spent_s()


Twin._resumed = staticmethod(resume)
