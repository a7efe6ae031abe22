"""Which trials a search makes, step by step, given the records of those before: the same records, the same trials.

Candidates come from `search`; whether one gets its whole running time is decided in `pruning`. Knows neither folder
nor clock: those are `campaign`'s.

Where a search goes on, its plan is followed even if the search would ask for something else now: the last digit of its
model may differ with the number of processors, and a record may have been removed and measured again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile

from ioassay.errors import RunError, UsageError
from ioassay.factors import CASE
from ioassay.packs.tuning.search import pruning
from ioassay.packs.tuning.search.confirmation import CONFIRM, confirmation, repetitions_for
from ioassay.packs.tuning.search.request import Request
from ioassay.packs.tuning.search.search import Ask, Best, Search
from ioassay.records.record import OK, Record, Scalar
from ioassay.roles import Driver, Trial
from ioassay.study import plan
from ioassay.study.model import Study
from ioassay.validation import suggestion

SHORT = "short"
MOST_CANDIDATES = 3
"""Points that are confirmed in turn at most, while the ones before violate a constraint."""
TRIALS, BUDGET, FAILED = "trials", "budget", "failed"
"""Why a search ended: all trials were made, its time was over, every point failed."""
Steps = Generator[list[Trial], None, None]


@dataclass(frozen=True)
class Outcome:
    """What a search came to. `winner` is a whole point; None where every trial failed.

    `candidates`: the points to confirm in turn until one keeps the constraints, the winner first.
    """

    ended: str
    asked: int
    winner: Mapping[str, Scalar] | None
    feasible: bool
    candidates: Sequence[Mapping[str, Scalar]] = ()


@dataclass
class Script:
    """The trials of one search."""

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
        """The whole point that everything is compared with."""
        return self.whole(self.request.default)

    def whole(self, point: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """A point of the search with the factors that have one level only, in the order of the study."""
        cases = {CASE: self.study.case[0]["name"]} if self.study.case else {}
        single = {**cases, **{name: levels[0] for name, levels in self.study.factors.items()}}
        return {**single, **point}

    def search(self, over: Callable[[], bool]) -> Generator[list[Trial], None, Outcome]:
        """The trials of the search, in steps: all of one must have their records before the next is asked for.

        `over` says before each step whether the time is.
        """
        wanted = self.request
        search = Search(
            wanted.axes,
            maximize=wanted.goal.maximize,
            constraints=len(wanted.goal.constraints),
            seed=wanted.seed,
            budget=wanted.trials,
            first=dict(wanted.default),
        )
        shorts, asked, ended = pruning.Shorts(wanted.goal.maximize), 0, TRIALS
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
            return Outcome(ended, asked, None, feasible=False)
        return Outcome(ended, asked, self.whole(best.point), best.feasible, self._candidates(search.ranking()))

    def _candidates(self, ranking: Sequence[Best]) -> list[dict[str, Scalar]]:
        """The best points that seem to keep the constraints; none that the default precedes."""
        better = takewhile(lambda best: best.feasible and best.point != self.request.default, ranking)
        most = MOST_CANDIDATES if self.request.goal.constraints else 1
        return [self.whole(best.point) for best in islice(better, most)]

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
        """The trials that confirm one candidate."""
        wanted = self.request
        most = max(wanted.confirm, wanted.confirm_most)
        needed = repetitions_for(self._repeated(before), wanted.margin)
        return confirmation(self.study, winner, self.default, min(max(wanted.confirm, needed), most), before)

    def _repeated(self, before: Sequence[Trial]) -> list[list[float]]:
        """The values of each point that the search measured whole and more than once."""
        groups: dict[str, list[float]] = {}
        for trial in before:
            if trial.search not in (SHORT, CONFIRM) and (value := self._value(trial)) is not None:
                groups.setdefault(_key(trial), []).append(value)
        return [values for values in groups.values() if len(values) > 1]

    def _try(self, search: Search, asks: Sequence[Ask], shorts: pruning.Shorts, asked: int) -> Steps:
        """Candidates that are asked together: a short run of those that can have one, whole runs of the hopeful."""
        before = search.best()
        trials = [self._trial(ask) for ask in asks]
        firsts = {
            trial.id: first for ask, trial in zip(asks, trials, strict=True) if (first := self._first(ask, trial))
        }
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
            self._tell(search, ask, trial, firsts.get(trial.id), shorts, trial.id in lost)
        after = search.best()
        if after is not None and (before is None or before.point != after.point):
            self.on_best(after, asked)

    def _lost(self, trial: Trial, first: Trial, shorts: pruning.Shorts, best: Best | None) -> bool:
        """Whether a candidate's short run is its last: it failed, or is clearly worse than that of the best."""
        if self.request.batch == 1 and self._made < len(self.planned):
            return self.planned[self._made].id != trial.id
        if self._value(first) is None:
            return True
        if trial.search == "default" or best is None or not best.feasible:
            return False
        return shorts.hopeless(_key(trial), plan.describe(self.whole(best.point)))

    def _tell(
        self, search: Search, ask: Ask, trial: Trial, first: Trial | None, shorts: pruning.Shorts, lost: bool
    ) -> None:
        value = None if lost else self._value(trial)
        if value is not None:
            shorts.tell(_key(trial), value)
            search.tell(ask.point, value, self._violations(trial))
        elif lost and first is not None and self._value(first) is not None:
            search.tell(ask.point, shorts.foretold(_key(trial)), self._violations(first), pruned=True)
        else:
            search.tell(ask.point, None)

    def _trial(self, ask: Ask) -> Trial:
        """The next repetition of a point."""
        point = self.whole(ask.point)
        name = plan.describe(point)
        repetition = self._repetitions.get(name, 0)
        self._repetitions[name] = repetition + 1
        return plan.make_trial(self.study, point, repetition, 0, search=ask.why)

    def _first(self, ask: Ask, trial: Trial) -> Trial | None:
        """The short run of a candidate; None for one that was tried before, and for a load without a running time."""
        if not self.request.pruning or trial.repetition:
            return None
        params = self.driver.shortened(trial.params, pruning.SHARE)
        return None if params is None else plan.with_params(trial, params, SHORT)

    def _numbered(self, trials: Sequence[Trial]) -> list[Trial]:
        """Trials with their place in the plan; a later step finds their records by id."""
        numbered = [replace(trial, order=self._made + place) for place, trial in enumerate(trials)]
        self._made += len(numbered)
        return numbered

    def _value(self, trial: Trial) -> float | None:
        record = self.records[trial.id]
        known = [name for name in self._metrics() if name in record.metrics]
        return record.metrics[self.request.goal.metric] if record.status == OK and known == self._metrics() else None

    def _violations(self, trial: Trial) -> list[float]:
        found = self.records[trial.id].metrics
        return [constraint.violation(found[constraint.metric]) for constraint in self.request.goal.constraints]

    def _metrics(self) -> list[str]:
        goal = self.request.goal
        return list(dict.fromkeys((goal.metric, *(constraint.metric for constraint in goal.constraints))))

    def require_metrics(self, record: Record) -> None:
        """UsageError where a trial that went well has not what the goal is about, naming what there is."""
        for name in self._metrics():
            if record.status == OK and name not in record.metrics:
                known = list(record.metrics)
                hint = suggestion(name, known) if known else "it gives none"
                told = f"{hint} It gives {', '.join(known)}" if hint.startswith("did") else hint
                raise UsageError(f"the first trial of '{self.study.name}' has no metric {name}; {told}")


def _key(trial: Trial) -> str:
    return plan.describe(trial.point)
