"""The trials of a search: which comes next, after what was recorded; the source that `run.execute` takes them from.

docs/tune.md has the method and the words for what a trial is for (`Trial.search`), beside which `short` stands for a
pruned one as well: whether anything followed is seen when frames are made of the records. A search is a run with files
of its own (`store.run_folder`). Trials are added to its plan before they run; found.json is written before the
confirmation, and once more where the time was over before all candidates were confirmed.

Nothing is decided by a clock alone, and everything else follows from seed and records: a search that was killed asks
for the same again, finds the records, and goes on where it was. What the clock did decide is in found.json. `Script`
says which trials come, step by step, given the records of those before. It knows neither folder nor clock, which are
`Campaign`'s, and its candidates come from `search`. Where a search goes on, its plan is followed even if the search
would ask for something else now: the last digit of its model may differ with the number of processors, and a record may
have been removed and measured again.

What a short run says of the whole one is known from candidates that had both: the spread of the ratios of their values,
on the log scale, is the noise of a prediction.

The best of many noisy values is a lucky one (the winner's curse), so none of the search's own values is used at its
end: candidate and default are repeated anew, in blocks of two in a drawn order, so that a machine that drifts drifts
for both. What they prove is said in `questions.tuned`.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from statistics import NormalDist, fmean, variance
from typing import TYPE_CHECKING

from ioassay import metrics, stats
from ioassay.errors import InputError, RunError, UsageError
from ioassay.factors import CASE
from ioassay.hints import suggestion
from ioassay.packs.tuning.search.request import Request, from_table
from ioassay.records.record import OK, Record, Scalar
from ioassay.roles import Driver, Trial
from ioassay.runner.progress import Progress
from ioassay.runner.run import GrowingPlan
from ioassay.store import dataset
from ioassay.store.run_folder import RunStore
from ioassay.study import plan
from ioassay.study.model import Study
from ioassay.study.plan import Point

if TYPE_CHECKING:
    from ioassay.packs.tuning.search.search import Ask, Best, Search


SHORT, CONFIRM = "short", "confirm"
SHORT_SHARE = 0.25
"""Of the running time, for the short run."""
LEAST_LOSS = 0.1
ENOUGH_PAIRS = 3
_NORMAL = 3.0902
"""Quantile 0.999 of the normal distribution."""
MOST_CANDIDATES = 3
"""Points that are confirmed in turn at most, while the ones before violate a constraint."""
TRIALS, BUDGET, FAILED = "trials", "budget", "failed"
"""Why a search ended: all trials were made, its time was over, every point failed."""
Steps = Generator[list[Trial], None, None]


@dataclass
class Script:
    study: Study
    request: Request
    driver: Driver
    records: dict[str, Record] = field(default_factory=dict)
    """Trial -> its record."""
    planned: Sequence[Trial] = ()
    """The plan so far, of a search that goes on."""
    on_best: Callable[[Best, int], None] = lambda best, asked: None
    """Is told the best so far and how many were asked, whenever another point is the best."""
    _made: int = 0
    _repetitions: dict[str, int] = field(default_factory=dict)

    @property
    def default(self) -> dict[str, Scalar]:
        return self.whole(self.request.default)

    def whole(self, point: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """A point of the search with the factors that have one level only, in the order of the study."""
        cases = {CASE: self.study.case[0]["name"]} if self.study.case else {}
        single = {**cases, **{name: levels[0] for name, levels in self.study.factors.items()}}
        return {**single, **point}

    def search(self, over: Callable[[], bool]) -> Generator[list[Trial], None, dataset.Outcome]:
        """The trials of the search, in steps: all of one must have their records before the next is asked for.

        `over` says before each step whether the time is.
        """
        stats.load_numpy()
        from ioassay.packs.tuning.search.search import Search

        wanted = self.request
        search = Search(
            wanted.axes,
            maximize=wanted.goal.maximize,
            constraints=len(wanted.goal.constraints),
            seed=wanted.seed,
            budget=wanted.trials,
            first=dict(wanted.default),
        )
        shorts, asked, ended = Shorts(wanted.goal.maximize), 0, TRIALS
        while asked < wanted.trials:
            if asked and over():
                ended = BUDGET
                break
            try:
                asks = self._asks(search, min(wanted.batch, wanted.trials - asked))
            except RunError:
                ended = FAILED
                break
            asked += len(asks)
            yield from self._try(search, asks, shorts, asked)
        best = search.best()
        if best is None:
            return dataset.Outcome(ended=ended, asked=asked, winner=None, feasible=False, candidates=[])
        # The best points that seem to keep the constraints; none that the default precedes.
        better = takewhile(lambda one: one.feasible and one.point != wanted.default, search.ranking())
        most = MOST_CANDIDATES if wanted.goal.constraints else 1
        candidates = [self.whole(one.point) for one in islice(better, most)]
        return dataset.Outcome(
            ended=ended, asked=asked, winner=self.whole(best.point), feasible=best.feasible, candidates=candidates
        )

    def _asks(self, search: Search, number: int) -> list[Ask]:
        """So many points, as the plan has them or as the search wants them."""
        asks = [search.ask() for _ in range(number)]
        followed = []
        for place, ask in enumerate(asks, self._made):
            known = self.planned[place] if place < len(self.planned) else None
            if known is not None and known.search != CONFIRM and dict(known.point) != self.whole(ask.point):
                ask = replace(ask, point={axis.name: known.point[axis.name] for axis in self.request.axes})
            followed.append(ask)
        return followed

    def confirmation(self, winner: Mapping[str, Scalar], before: Sequence[Trial]) -> list[Trial]:
        wanted = self.request
        most = max(wanted.confirm, wanted.confirm_most)
        groups: dict[str, list[float]] = {}
        for trial in before:
            if trial.search not in (SHORT, CONFIRM) and (value := self._value(trial)) is not None:
                groups.setdefault(_key(trial), []).append(value)
        needed = repetitions_for([values for values in groups.values() if len(values) > 1], wanted.margin)
        return confirmation(self.study, winner, self.default, min(max(wanted.confirm, needed), most), before)

    def _try(self, search: Search, asks: Sequence[Ask], shorts: Shorts, asked: int) -> Steps:
        """Candidates that are asked together: a short run of those that can have one, whole runs of the hopeful."""
        before = search.best()
        trials = [self._trial(ask) for ask in asks]
        firsts = {trial.id: first for trial in trials if (first := self._first(trial))}
        if firsts:
            yield self._numbered(list(firsts.values()))
            for trial in trials:
                if trial.id in firsts and (value := self._value(firsts[trial.id])) is not None:
                    shorts.values[_key(trial)] = value
        lost = {
            trial.id for trial in trials if trial.id in firsts and self._lost(trial, firsts[trial.id], shorts, before)
        }
        rest = [trial for trial in trials if trial.id not in lost]
        if rest:
            yield self._numbered(rest)
        for ask, trial in zip(asks, trials, strict=True):
            first, value = firsts.get(trial.id), None if trial.id in lost else self._value(trial)
            if value is not None:
                shorts.tell(_key(trial), value)
                search.tell(ask.point, value, self._violations(trial))
            elif trial.id in lost and first is not None and self._value(first) is not None:
                search.tell(ask.point, shorts.foretold(_key(trial)), self._violations(first), pruned=True)
            else:
                search.tell(ask.point, None)
        after = search.best()
        if after is not None and (before is None or before.point != after.point):
            self.on_best(after, asked)

    def _lost(self, trial: Trial, first: Trial, shorts: Shorts, best: Best | None) -> bool:
        """Whether a candidate's short run is its last: it failed, or is clearly worse than that of the best."""
        if self.request.batch == 1 and self._made < len(self.planned):
            return self.planned[self._made].id != trial.id
        if self._value(first) is None:
            return True
        if trial.search == "default" or best is None or not best.feasible:
            return False
        return shorts.hopeless(_key(trial), plan.describe(self.whole(best.point)))

    def _trial(self, ask: Ask) -> Trial:
        point = self.whole(ask.point)
        name = plan.describe(point)
        repetition = self._repetitions.get(name, 0)
        self._repetitions[name] = repetition + 1
        return plan.make_trial(self.study, point, repetition, 0, search=ask.why)

    def _first(self, trial: Trial) -> Trial | None:
        """The short run of a candidate; None for one that was tried before, and for a load without a running time."""
        if not self.request.pruning or trial.repetition:
            return None
        params = self.driver.shortened(trial.params, SHORT_SHARE)
        return None if params is None else plan.with_params(trial, params, SHORT)

    def _numbered(self, trials: Sequence[Trial]) -> list[Trial]:
        """Trials with their place in the plan; a later step finds their records by id."""
        numbered = [replace(trial, order=self._made + place) for place, trial in enumerate(trials)]
        self._made += len(numbered)
        return numbered

    def _value(self, trial: Trial) -> float | None:
        record = self.records[trial.id]
        goal, known = self.request.goal, record.metrics.keys()
        return record.metrics[goal.metric] if record.status == OK and known >= {*goal.metrics} else None

    def _violations(self, trial: Trial) -> list[float]:
        found = self.records[trial.id].metrics
        return [constraint.violation(found[constraint.metric]) for constraint in self.request.goal.constraints]


def _key(trial: Trial) -> str:
    return plan.describe(trial.point)


@dataclass
class Shorts:
    maximize: bool
    values: dict[str, float] = field(default_factory=dict)
    """Point's key -> value of its short run."""
    ratios: list[float] = field(default_factory=list)
    """Natural logarithm of whole over short value, of each candidate that had both."""

    def tell(self, key: str, whole: float) -> None:
        short = self.values.get(key)
        if short is not None and short > 0 and whole > 0:
            self.ratios.append(math.log(whole / short))

    def hopeless(self, key: str, best: str) -> bool:
        """Whether the candidate's short run is clearly worse than the one of the best."""
        one, other = self.values.get(key), self.values.get(best)
        if one is None or other is None or min(one, other) <= 0 or len(self.ratios) < ENOUGH_PAIRS:
            return False
        worse = math.log(other / one) if self.maximize else math.log(one / other)
        noise = math.sqrt(2) * statistics.stdev(self.ratios)  # of two short runs
        # Quantile 0.999 of Student's t, which few ratios deserve: Abramowitz and Stegun, 1964, 26.7.5, two terms.
        df, z = len(self.ratios) - 1, _NORMAL
        quantile = z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
        return worse > max(quantile * noise, math.log1p(LEAST_LOSS))

    def foretold(self, key: str) -> float:
        return self.values[key] * math.exp(statistics.median(self.ratios or [0.0]))


def repetitions_for(groups: Sequence[Sequence[float]], margin: float) -> int:
    """Repetitions of two points after which the 95 % interval of their ratio is expected to be `margin` wide each way.

    `groups`: repeated values, whose scatter is pooled as a share of their means; 0 where none was repeated.
    """
    usable = [(len(values) - 1, variance(values) / fmean(values) ** 2) for values in groups if fmean(values)]
    if not usable:
        return 0
    scatter = sum(degrees * share for degrees, share in usable) / sum(degrees for degrees, _ in usable)
    return math.ceil(2 * scatter * (NormalDist().inv_cdf(0.975) / margin) ** 2)


def confirmation(
    study: Study, candidate: Point, default: Point, repetitions: int, before: Iterable[Trial]
) -> list[Trial]:
    """The trials that confirm a candidate, after those that were planned `before`.

    Both points have the same numbers of repetition, which tell the default's of one candidate from those of another.
    """
    planned = list(before)
    fresh = 1 + max((trial.repetition for trial in planned if trial.point in (candidate, default)), default=-1)
    trials: list[Trial] = []
    for repetition in range(fresh, fresh + repetitions):
        block = [default, candidate]
        random.Random(f"{study.seed}/{study.name}/{CONFIRM}/{repetition}").shuffle(block)
        for point in block:
            order = len(planned) + len(trials)
            trials.append(plan.make_trial(study, point, repetition, order, search=CONFIRM))
    return trials


@dataclass
class Campaign(GrowingPlan):
    """The source of a search's trials: its script, made durable step by step in the run's folder."""

    store: RunStore
    script: Script
    clock: Callable[[], float] = time.monotonic
    _planned: list[Trial] = field(default_factory=list)
    _given: int = 0
    _checked: bool = False

    @property
    def most(self) -> int:
        wanted = self.script.request
        first = plan.make_trial(self.script.study, self.script.default, 0, 0)
        can_be_short = self.script.driver.shortened(first.params, SHORT_SHARE) is not None
        shorts = wanted.trials if wanted.pruning and can_be_short else 0
        candidates = MOST_CANDIDATES if wanted.goal.constraints else 1
        return wanted.trials + shorts + 2 * candidates * max(wanted.confirm, wanted.confirm_most)

    def trials(self) -> Iterator[Trial | None]:
        """See run.Source. What is new is in the plan before it is given."""
        self._planned = list(self.store.trials())
        self.script.planned = tuple(self._planned)
        for step in self._steps():
            yield from self._plan(step)
            yield None

    def on_record(self, trial: Trial, record: Record) -> None:
        """See run.Source. UsageError where the first trial that went well has not the metrics of the goal."""
        self.script.records[trial.id] = record
        if self._checked or record.status != OK:
            return
        self._checked, known = True, list(record.metrics)
        if missing := next((name for name in self.script.request.goal.metrics if name not in known), ""):
            hint = suggestion(missing, known) if known else "it gives none"
            hint += f" It gives {', '.join(known)}" if hint.startswith("did") else ""
            raise UsageError(f"the first trial of '{self.script.study.name}' has no metric {missing}; {hint}")

    def announce(self, progress: Progress) -> None:
        def tell(best: Best, asked: int) -> None:
            value = metrics.format_metric(self.script.request.goal.metric, best.mean)
            rank, limits = ("best", "") if best.feasible else ("nearest", ", beyond the constraints")
            progress.said(f"{rank} after {asked}: {plan.describe(best.point)}: {value}{limits}")

        self.script.on_best = tell

    def _steps(self) -> Steps:
        tuning, request = self.store.tuning(), self.script.request
        kept = [trial for trial in self._planned if self.store.has(trial.id)] if request.budget_s is not None else []
        spent_s = sum(self.store.record(trial.id).duration_s for trial in kept) / request.batch
        began_s = self.clock()

        def over() -> bool:
            """Whether the time of trials recorded in earlier attempts, and of this one, is over.

            While the plan has more, it has been decided that it was not.
            """
            if request.budget_s is None or self._given < len(self._planned):
                return False
            return spent_s + self.clock() - began_s >= request.budget_s

        found = tuning["found"] if tuning else None
        if found is None:
            found = yield from self.script.search(over)
            self.store.write_found(found)
        else:
            yield [trial for trial in self._planned if trial.search != CONFIRM]
        # One candidate after another is confirmed, until one keeps the constraints or the time is over.
        winner = found["winner"]
        older = [winner] if winner is not None and found["feasible"] and winner != self.script.default else []
        candidates = found.get("candidates", older)
        for number, candidate in enumerate(candidates, 1):
            yield self.script.confirmation(candidate, self._planned[: self._given])
            from ioassay.packs.tuning.questions import tuned
            from ioassay.store import frames

            if number == len(candidates):
                return
            records = frames.load(self.store)  # whether it violates a constraint is the report's own judgement
            if len(tuned.measure(records, records.studies[0]).dropped) < number:
                return
            if over():
                self.store.write_found({**found, "candidates": candidates[:number]})
                return

    def _plan(self, step: Sequence[Trial]) -> list[Trial]:
        """Make a step durable, or see that it is what was planned before; the step as it stands in the plan."""
        known = self._planned[self._given : self._given + len(step)]
        if any((one.id, one.order) != (other.id, other.order) for one, other in zip(known, step, strict=False)):
            raise InputError(
                f"{self.store.root}: its plan is not that of this search; study.toml, tune.json or the plan was "
                "changed, or another version of ioassay began it. Begin a new one"
            )
        if new := list(step[len(known) :]):
            self.store.extend(new)
            self._planned += new
        self._given += len(step)
        return self._planned[self._given - len(step) : self._given]


def opening(study: Study, request: Request, driver: Driver) -> list[Trial]:
    """The first trials of a search, which its plan begins with."""
    return next(Script(study, request, driver).search(lambda: False))


def resumed(store: RunStore) -> Request:
    """What the search of a run was asked; UsageError for a run that is no search."""
    table = store.tuning()
    if table is None:
        raise UsageError(f"{store.root}: is no search; go on with it: {store.resume_command}")
    return from_table(table, str(store.root / "tune.json"))
