"""A study as an object: read from a file or a built-in name, or made of Python values; planned and run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from ioassay import api, units
from ioassay.api import diagnosis, execution
from ioassay.api.execution import USUAL, RunKeys, RunOptions
from ioassay.errors import UsageError
from ioassay.hints import nearest
from ioassay.runner.progress import Progress

if TYPE_CHECKING:
    import polars as pl

    from ioassay.analysis.descriptive import RepetitionPlan
    from ioassay.api.execution import Announce, Execution
    from ioassay.api.run_results import Run
    from ioassay.records.record import Warning_
    from ioassay.runner.preflight import PreparedStudy, Storage
    from ioassay.study import model
    from ioassay.study.model import Suite


FULL = "full"
Changes = Mapping[str, object] | Iterable[str]
"""What is set, by its key; or `key=value` words, as the command line takes them."""


class StudyKeys(TypedDict, total=False):
    """Further keys of a study (docs/studies.md): what an editor completes."""

    title: str
    description: str
    repetitions: int
    order: str
    until: Mapping[str, object]
    seed: int
    case: Sequence[Mapping[str, object]]
    run: Mapping[str, object]
    watch: Mapping[str, object]
    analysis: Mapping[str, object]
    figures: Sequence[Mapping[str, object]]
    scale: Mapping[str, Mapping[str, object]]
    relative: Mapping[str, object]


class Study:
    """A study, or a suite of several: nothing has run yet.

        Study(driver="fio", target={"kind": "file", "size": "1GiB"}, params={"rw": "randread"}, factors={"bs": ["4k"]})

    The keys are those of a study's TOML (docs/studies.md): repetitions, until, seed, run, watch, analysis, figures, …
    StudyError names the key that is wrong.
    """

    def __init__(
        self,
        *,
        driver: str,
        target: Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
        factors: Mapping[str, Iterable[object]] | None = None,
        name: str = "study",
        **keys: Unpack[StudyKeys],
    ) -> None:
        from ioassay.study import catalog

        given = {"target": target, "params": params, "factors": factors, **keys}
        table: dict[str, object] = {"name": name, "driver": driver, "title": name}
        table |= {key: value for key, value in given.items() if value is not None}
        self.suite = catalog.from_table(_plain(table), Path("Study"))
        self.source, self.arguments = name, f"{name}.toml"

    suite: Suite
    """The studies as the rooms below have them."""
    left_out: tuple[Warning_, ...] = ()
    """A warning for each change that not all of its studies take."""
    source: str
    """What errors call it: a name or a file."""
    arguments: str
    """The words that name the same study to `ioassay run`."""

    @classmethod
    def of_suite(cls, suite: Suite, left_out: Sequence[Warning_] = ()) -> Self:
        """A suite that was read; `left_out` are warnings of changes without effect."""
        study = cls.__new__(cls)
        study.suite, study.left_out = suite, tuple(left_out)
        study.source = study.arguments = suite.name
        return study

    @classmethod
    def read(
        cls,
        name: str | Path,
        *,
        scale: str = FULL,
        settings: Changes = (),
        factors: Mapping[str, Iterable[object]] | Iterable[str] = (),
        repetitions: int | None = None,
    ) -> Self:
        """The study behind a built-in name, a `.toml` study or suite, or a `.fio` job file.

        `scale` is a variant that the study defines, `settings` set keys such as `runtime`, `target.path` or `seed`, and
        `factors` add or replace factors with their levels. StudyError for a study that is wrong; UsageError for a
        change that no study takes, or a scale that none has.
        """
        from ioassay.study import catalog

        scales = {FULL}
        set_, varied = _assignments(settings), _assignments(factors)
        left_out: list[Warning_] = []

        def change(tables: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
            scales.update(*(table.get("scale", {}) for table in tables))
            changed, warnings = catalog.adjusted_all(
                tables, scale=scale, settings=set_, factors=varied, repetitions=repetitions
            )
            left_out.extend(warnings)
            return changed

        suite = catalog.load_all(str(name), change)
        if scale not in scales:
            known = ", ".join(sorted(scales))
            raise UsageError(
                f"--scale {scale}: {name} has no such scale; it has {known} (in a study file: [scale.{scale}])"
                f"{nearest(scale, scales)}"
            )
        study = cls.of_suite(suite, left_out)
        words = [str(name), *(("--scale", scale) if scale != FULL else ())]
        words += [word for assignment in set_ for word in ("--set", assignment)]
        # A factor of several levels is none of the study that a search is about.
        words += [word for assignment in varied if "," not in assignment for word in ("--factor", assignment)]
        study.source, study.arguments = str(name), shlex.join(words)
        return study

    @property
    def name(self) -> str:
        """The name, which the folder of its runs has."""
        return self.suite.name

    @property
    def title(self) -> str:
        """The title."""
        return self.suite.title

    @property
    def studies(self) -> list[str]:
        """The names of its studies: one, unless it is a suite."""
        return [study.name for study in self.suite.studies]

    def to_toml(self) -> str:
        """The study as a TOML document with every default that was resolved, which `read` takes."""
        import tomli_w

        from ioassay.study import catalog

        return tomli_w.dumps(catalog.to_table(self.suite))

    def plan(
        self,
        *,
        destroy_data: Sequence[str] = (),
        allow_exec: bool = False,
        executor: Executor | str | None = None,
        announce: Announce | None = None,
    ) -> Plan:
        """What it would do: trials in their order, time, bytes written, warnings. Runs nothing.

        A missing tool is a warning. A study that names hosts is checked on them where `executor` says where they are.
        `announce` is called with what is examined, and its share. Errors as of `run`.
        """
        options = RunOptions(executor, destroy_data=destroy_data, allow_exec=allow_exec)
        with execution.named(self.source):
            checked = execution.inspect(self.suite, options, announce, is_plan=True)
        devices = checked.hosts.devices() if checked.hosts is not None else []
        checked.close()
        return Plan(checked.suite, checked.benches, [*self.left_out, *checked.warnings], devices)

    def begin(
        self, output: str | Path | None = None, announce: Announce | None = None, options: RunOptions = USUAL
    ) -> Execution:
        """Check everything and make the run's folder, for those who want to know more before it runs; see `run`."""
        from ioassay.store.run_folder import new_folder

        root = Path(output) if output is not None else new_folder(Path("runs"), self.name)
        with execution.named(self.source):
            ready = execution.begin(self.suite, root, options, announce)
        return replace(ready, warnings=[*self.left_out, *ready.warnings])

    def run(
        self, output: str | Path | None = None, *, progress: Progress | None = None, **options: Unpack[RunKeys]
    ) -> Run:
        """Run every trial; `Run.report` makes the page.

        `output` is the new folder, by default runs/<time>-<study>. Trials that only compute run in processes of this
        machine, `workers` at once, by default one a processor; or in `executor`, one of the caller's or a name such as
        "dask:local" (docs/cluster.md). Trials that measure run one at a time in a process, whichever thread asks. Those
        of a study that names hosts run there, and `executor` is the scheduler that these have joined (docs/hosts.md).
        `destroy_data` names devices and files whose data may be lost, `allow_exec` lets jobs run programs. With
        `wait_quiet_s` each measurement waits so long at most, in seconds, for a quiet machine. After `blocks`
        randomised blocks the run stops, and `Run.resume` runs the next ones: two runs can be measured in turns.

        Raises SafetyRefusal before anything is written where data could be lost, ToolError for a missing tool,
        ConditionError where no trial can run here, StudyError and UsageError for what cannot be, RunError where the run
        cannot go on, Interrupted at Ctrl-C: `open(folder).resume()` goes on. A trial that fails is no error
        (`Run.failed`).
        """
        progress, chosen = progress or Progress(), RunOptions(**options)
        with execution.interruptible():
            ready = self.begin(output, progress.preparing, chosen)
        return ready.run(progress)

    def __repr__(self) -> str:
        return f"<Study {self.name}: {self.title}>"

    def _repr_html_(self) -> str:
        from ioassay.study import plan

        counts = plan.count(self.suite)
        columns = ("study", "driver", "target", "factors", "trials")
        rows = [
            (
                study.name,
                study.driver,
                study.target.kind,
                "; ".join(f"{name} = {', '.join(map(str, levels))}" for name, levels in study.levels.items()),
                counts.get(study.name),
            )
            for study in self.suite.studies
        ]
        return api.section(self.title, [self.suite.description], tables=api.table(columns, rows))


def _assignments(changes: Changes) -> list[str]:
    """The changes as `key=value` words. UsageError for a level that such a word cannot hold."""

    def word(key: str, value: object) -> str:
        if isinstance(value, list):
            parts = [word(key, part) for part in value]
            if broken := next((part for part in parts if "," in part), None):
                raise UsageError(f"{key}: the level '{broken}' has a comma; expected it in the study's file")
            return ",".join(parts)
        return json.dumps(value) if isinstance(value, bool | int | float) else str(value)

    if not isinstance(changes, Mapping):
        return list(changes)
    return [f"{key}={word(key, _plain(value))}" for key, value in changes.items()]


def _plain(value: Any) -> Any:
    """The value as TOML has it: paths are text, sequences lists; arrays and numbers of numpy are those of Python."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, PurePath) else value


class Plan:
    """A study's plan; nothing has run and nothing was written."""

    def __init__(
        self,
        suite: Suite,
        benches: Sequence[PreparedStudy],
        warnings: Sequence[Warning_],
        of_hosts: Sequence[Storage] = (),
    ) -> None:
        self._suite, self._benches, self._of_hosts = suite, benches, of_hosts
        self.warnings = tuple(warnings)

    @cached_property
    def trials(self) -> pl.DataFrame:
        """One row a trial, in order: order, id ('' where it is known later), study, repetition, a column a factor."""
        import polars as pl

        from ioassay.store import frames

        rows = self.order()
        if not rows:
            texts = {"id": pl.String(), "study": pl.String()}
            return frames.Frame(schema={"order": pl.Int64(), **texts, "repetition": pl.Int64()})
        return frames.Frame(rows, infer_schema_length=None, strict=False)

    @cached_property
    def studies(self) -> list[dict[str, Any]]:
        """A table for each study: points, repetitions, trials, seconds, written_bytes, what depends on the machine."""
        from ioassay.runner import preflight
        from ioassay.study import plan

        costs = [(bench.study, preflight.forecast(bench)) for bench in self._benches]
        return [
            {
                "study": study.name,
                "title": study.title,
                "points": len(plan.points(study)),
                "repetitions": study.max_repetitions,
                "adaptive": study.until is not None,
                "trials": cost.trials,
                "seconds": cost.seconds,
                "written_bytes": cost.written_bytes,
                "written_is_lower_bound": cost.unknown_writes,
                "relative": _relative(study),
            }
            for study, cost in costs
        ]

    @property
    def seconds(self) -> float:
        """The time that all trials are expected to take."""
        return sum(float(study["seconds"]) for study in self.studies)

    @property
    def written_bytes(self) -> int:
        """What they write at least; exactly, unless a study writes for a time rather than a size."""
        return sum(int(study["written_bytes"]) for study in self.studies)

    def devices(self) -> list[Storage]:
        """The block devices that are loaded, with what is on them."""
        from ioassay.runner import preflight

        return [*preflight.devices(self._benches), *self._of_hosts]

    def repetitions(self, margin: float, noise: float | str | Path | None = None) -> list[RepetitionPlan]:
        """The repetitions that detect a relative difference of `margin` in four of five studies.

        `noise` is the relative noise between repetitions, or the folder of a run that shows it; several are assumed by
        default. UsageError for a run that shows none.
        """
        from ioassay.analysis import descriptive

        studies = self._suite.studies
        if noise is None:
            return [descriptive.repetition_plan(study, margin, one) for study in studies for one in descriptive.NOISES]
        if isinstance(noise, float):
            return [descriptive.repetition_plan(study, margin, noise) for study in studies]
        from ioassay.store import frames
        from ioassay.store.run_folder import RunStore

        earlier = frames.load(RunStore.open(Path(noise)))
        known = [(study, *item) for study in studies for item in descriptive.noise_of_responses(study, earlier).items()]
        if known:
            return [descriptive.repetition_plan(study, margin, one, response) for study, response, one in known]
        raise UsageError(f"--noise {noise}: no study of this plan has two repetitions there; expected a run of it")

    def order(self) -> list[dict[str, Any]]:
        """The trials in their order, each with its point."""
        from ioassay.study import plan

        known = {trial.id for trial in plan.known_trials(self._suite)}
        return [
            {"order": one.order, "id": one.id if one.id in known else "", "study": one.study}
            | {"repetition": one.repetition, **one.point}
            for one in plan.trials(self._suite)
        ]

    def as_dict(self) -> dict[str, Any]:
        """What `ioassay plan --json` prints, but for the order: with a warning for each broken plugin that was met."""
        return {
            "suite": self._suite.name,
            "title": self._suite.title,
            "studies": self.studies,
            "devices": [asdict(device) for device in self.devices()],
            "trials": sum(study["trials"] for study in self.studies),
            "seconds": self.seconds,
            "warnings": [vars(warning) for warning in (*self.warnings, *diagnosis.broken_plugins())],
        }

    def __repr__(self) -> str:
        trials = sum(study["trials"] for study in self.studies)
        return f"<Plan of {self._suite.name}: {trials} trials, about {self.seconds:.0f} s>"

    def _repr_html_(self) -> str:
        columns = ("study", "points", "repetitions", "trials")
        rows = [[*map(each.get, columns), units.format_duration(each["seconds"])] for each in self.studies]
        table = api.table((*columns, "time"), rows)
        return api.section(self._suite.title, [f"warning: {one.text}" for one in self.warnings], tables=table)


def _relative(study: model.Study) -> list[dict[str, Any]]:
    """Each key that is relative to the machine: as it was written, and the numbers here."""
    from ioassay.study import relative_levels

    if study.relative is None:
        return []
    known = [(key, written, relative_levels.number(study, key)) for key, written in study.relative.written.items()]
    waiting = [(f"params.{name}", written, None) for name, written in study.relative.pending.items()]
    return [{"key": key, "written": written, "here": here} for key, written, here in (*known, *waiting)]
