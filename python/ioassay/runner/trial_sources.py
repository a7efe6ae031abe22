"""Where the trials of a run come from, and which of them are not needed.

A run has the trials of its plan, unless a search decides by what was recorded. In a suite in which a study takes the
best level of an earlier one, the plan grows as that study ends. The level is looked up when all trials before have
their records. First it is written to the run's study.toml, then the trials are added to the plan, so that a resumed run
goes on with the same numbers and ids. A study whose level nothing tells is planned with the stand-in, and each of its
trials is skipped with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ioassay import metrics
from ioassay.errors import StudyError
from ioassay.records.record import OK, Record, Scalar, Warning_
from ioassay.roles import Trial
from ioassay.runner.preflight import PreparedStudy
from ioassay.store.run_folder import RunStore
from ioassay.study import plan, relative_levels
from ioassay.study.model import Study, Suite

if TYPE_CHECKING:
    from ioassay._core import Histogram
    from ioassay.study.model import Until


class Source(Protocol):
    """Where the trials of a run come from. What only some have to do, the others inherit."""

    def trials(self) -> Iterator[Trial | None]:
        """One trial after another; None where all before must have their records before it can say more."""

    def told(self, trial: Trial, record: Record) -> None:
        """A trial has its record, from now or from before."""
        return

    def notes(self, study: str) -> Sequence[Warning_]:
        """What each trial of a study bears, asked before its first one."""
        return ()


class GrowingPlan(Source, Protocol):
    """A plan whose trials follow from the records before them, such as that of a search."""

    @property
    def most(self) -> int:
        """The number of trials that there can be at most."""

    def announce(self, said: Callable[[str], None]) -> None:
        """Call `said` from now on with lines about how it goes."""


@dataclass(frozen=True)
class Planned(Source):
    """The trials of a run's plan, as they stand there."""

    store: RunStore
    blocks: int | None = None
    """With a number only the trials of the first randomised blocks of each study, and those that have a record; the
    others stay for whoever resumes the run."""

    def trials(self) -> Iterator[Trial | None]:
        """See Source."""
        for trial in self.store.trials():
            if self.blocks is None or trial.repetition < self.blocks or self.store.has(trial.id):
                yield trial


@dataclass
class Following(Source):
    """The plan of a suite in which a study takes the best level of an earlier one."""

    store: RunStore
    benches: Mapping[str, PreparedStudy]
    _notes: dict[str, list[Warning_]] = field(default_factory=dict)

    def trials(self) -> Iterator[Trial | None]:
        """The trials of one study after another; what is new is in the plan before it is given."""
        suite, order = self.store.suite(), 0
        planned: dict[str, list[Trial]] = {}
        for trial in self.store.trials():
            planned.setdefault(trial.study, []).append(trial)
        numbers = plan.count(suite)
        for name in [study.name for study in suite.studies]:
            study = next(one for one in suite.studies if one.name == name)
            if relative_levels.references(study):
                yield None
                suite, study = self._settled(suite, study)
            if name not in planned and relative_levels.follows(study):
                made = plan.trials(suite.model_copy(update={"studies": [study]}))
                planned[name] = [replace(trial, order=order + trial.order) for trial in made]
                self.store.extend(planned[name])
            yield from planned.get(name, ())
            order += numbers[name]

    def notes(self, study: str) -> Sequence[Warning_]:
        """What each trial of a study bears: that the level it takes is not certainly the best."""
        return self._notes.get(study, [])

    def _settled(self, suite: Suite, study: Study) -> tuple[Suite, Study]:
        """With the levels that it waited for; as it was, and all its points skipped, where one is not known."""
        from ioassay.analysis import study_focus
        from ioassay.store import frames

        records, levels = frames.load(self.store), dict[str, Scalar]()
        for wanted in relative_levels.references(study):
            earlier = next(one for one in records.studies if one.name == wanted.study)
            found = study_focus.choose(records, earlier, wanted.factor, wanted.response, study.params)
            if found is None:
                self._skip(
                    study, f"{wanted.factor} = best of {wanted.study}: no trial of that study tells a best level"
                )
                return suite, study
            levels[wanted.factor] = found.level
            if not found.certain:
                others = ", ".join(map(str, found.as_good))
                text = f"{wanted.factor} = {found.level} is the smallest of {others}, which are as good or may be"
                note = Warning_("best-level", f"{text}, for {found.response} in {wanted.study}")
                self._notes.setdefault(study.name, []).append(note)
        settled, found_study = relative_levels.settled(suite, study, levels)
        for trial in (plan.make_trial(found_study, point, 0, 0) for point in plan.points(found_study)):
            try:
                self.benches[study.name].driver.validate(trial.params, trial.target)
            except StudyError as error:
                self._skip(found_study, str(error))
        self.store.replace_suite(settled)
        return settled, found_study

    def _skip(self, study: Study, why: str) -> None:
        bench = self.benches[study.name]
        bench.cannot |= {plan.point_key(point): why for point in plan.points(study)}


@dataclass
class Patience:
    """Adaptive repetition of one study: which points have been measured precisely enough.

    A decision about a repetition uses only earlier ones, so a resumed run and one with any number of workers decide
    alike. The interval is the one that the report shows: of a percentile that of all requests together, wherever all
    repetitions have kept their histograms.
    """

    until: Until | None
    twins: bool = False
    """Whether the trials that count are those without the witness."""
    values: dict[str, dict[int, float]] = field(default_factory=dict)
    """Point -> repetition -> value."""
    histograms: dict[str, dict[int, Histogram]] = field(default_factory=dict)
    """The same of the latencies, where the metric is a percentile of them."""

    def note(self, record: Record, folder: Path) -> None:
        """Take in a record, whose distributions are in `folder`."""
        if record.trial.get("twin", False) != self.twins or record.trial.get("calls"):
            return
        if self.until is None or record.status != OK or (value := record.metrics.get(self.until.metric)) is None:
            return
        point, repetition = plan.point_key(record.trial["point"]), record.trial["repetition"]
        self.values.setdefault(point, {})[repetition] = value
        if histogram := _latencies(folder, self.until.metric):
            self.histograms.setdefault(point, {})[repetition] = histogram

    def decides(self, trial: Trial) -> bool:
        """Whether earlier repetitions decide about this one, so that they must have been recorded."""
        return self.until is not None and trial.repetition >= self.until.min

    def enough(self, trial: Trial) -> bool:
        """Whether a repetition is not needed, as the earlier ones of its point are precise enough."""
        if self.until is None or not self.decides(trial):
            return False
        from ioassay.analysis.descriptive import relative_half_width
        from ioassay.analysis.measurements import merged_histograms

        known, histograms = (
            self.values.get(plan.point_key(trial.point), {}),
            self.histograms.get(plan.point_key(trial.point), {}),
        )
        earlier = [repetition for repetition in sorted(known) if repetition < trial.repetition]
        if len(earlier) < 2:
            return False
        percentile = metrics.latency_percentile(self.until.metric)
        if percentile is None or not all(repetition in histograms for repetition in earlier):
            return relative_half_width([known[repetition] for repetition in earlier]) <= self.until.ci
        parts = [histograms[repetition] for repetition in earlier]
        values = merged_histograms.pseudo_values(parts, [percentile.percent]).ravel()
        return relative_half_width(values) <= self.until.ci


def _latencies(folder: Path, metric: str) -> Histogram | None:
    """The latencies of a trial whose percentile `metric` is; None of other metrics, and where none were kept."""
    percentile, path = metrics.latency_percentile(metric), folder / "hist.parquet"
    if percentile is None or not path.exists():
        return None
    import polars as pl

    from ioassay.analysis.measurements import merged_histograms

    found = merged_histograms.of_rows(pl.read_parquet(path), percentile.direction, percentile.kind)
    return next(iter(found.values()), None)
