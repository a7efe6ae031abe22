"""The trials of a search: which comes next, after what was recorded; the source that `run.execute` takes them from.

A search is a run like any other: its folder holds study, plan and records, so that `report` and `sql` read it, plus

    tune.json     what was asked (`request`), written before the plan
    plan.jsonl    grows: trials are added before they run, each time whole (temporary file, fsync, rename)
    found.json    what the search came to (why it ended, how many it asked, the winner, the candidates), before the
                  confirmation; once more where the time was over before all candidates were confirmed

Each trial says in `search` what it is for, which is a column of the frame of trials (`Dataset.trials["search"]`; the
column is missing in runs that are no search), and what was asked and found is `Dataset.tuning` (None elsewhere):

    default     the point that everything is compared with: the first that is tried
    explore     a point that has not been tried
    refine      a point near the best ones
    repeat      the next repetition of a point that was tried, to be surer of it
    short       the first part of a candidate's running time; it went on, so that its own trial follows
    pruned      the same, but clearly worse than the best's own first part, so that nothing follows. Trials and records
                say `short`: whether anything followed is seen when frames are made of them
    confirm     a fresh repetition of a candidate or of the default, after the search; the only ones that count in
                means, intervals and tests, because the search chose the winner by the luck of its own trials

Nothing is decided by a clock alone, and everything else follows from seed and records: a search that was killed asks
for the same again, finds the records, and goes on where it was. What the clock did decide is in found.json.
Deliberately not here: which point is worth trying (`search`), whether the winner won (`analysis.optimum.tuning`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, cast

from ioassay import metrics
from ioassay.errors import InputError, UsageError
from ioassay.packs.tuning.search.request import Request, from_table
from ioassay.packs.tuning.search.schedule import CONFIRM, MOST_CANDIDATES, SHORT_SHARE, Script, Steps
from ioassay.records.record import OK, Record, Warning_
from ioassay.roles import Driver, Trial
from ioassay.store import schema
from ioassay.store.run_folder import RunStore
from ioassay.study import plan
from ioassay.study.model import Study

if TYPE_CHECKING:
    from ioassay.packs.tuning.search.search import Best


@dataclass
class Campaign:
    """The source of a search's trials: its script, made durable step by step in the run's folder."""

    store: RunStore
    script: Script
    clock: Callable[[], float] = time.monotonic
    _planned: list[Trial] = field(default_factory=list)
    _given: int = 0
    _checked: bool = False

    @property
    def most(self) -> int:
        """How many trials there can be at most."""
        wanted = self.script.request
        shorts = wanted.trials if wanted.pruning and self._can_be_short() else 0
        candidates = MOST_CANDIDATES if wanted.goal.constraints else 1
        return wanted.trials + shorts + 2 * candidates * max(wanted.confirm, wanted.confirm_most)

    def trials(self) -> Iterator[Trial | None]:
        """See trial_sources.Source. What is new is in the plan before it is given."""
        self._planned = list(self.store.trials())
        self.script.planned = tuple(self._planned)
        for step in self._steps():
            yield from self._plan(step)
            yield None

    def told(self, trial: Trial, record: Record) -> None:
        """See trial_sources.Source. UsageError where the first trial that went well has not the metrics of the goal."""
        self.script.records[trial.id] = record
        if not self._checked and record.status == OK:
            self.script.require_metrics(record)
            self._checked = True

    def notes(self, study: str) -> Sequence[Warning_]:
        """See trial_sources.Source."""
        return ()

    def announce(self, said: Callable[[str], None]) -> None:
        """See trial_sources.GrowingPlan: each new best point."""

        def tell(best: Best, asked: int) -> None:
            value = metrics.format_metric(self.script.request.goal.metric, best.mean)
            rank, limits = ("best", "") if best.feasible else ("nearest", ", beyond the constraints")
            said(f"{rank} after {asked}: {plan.describe(best.point)}: {value}{limits}")

        self.script.on_best = tell

    def _steps(self) -> Steps:
        tuning, over = self.store.tuning(), self._clocked()
        found = tuning["found"] if tuning else None
        if found is None:
            found = cast(schema.Outcome, asdict((yield from self.script.search(over))))
            self.store.write_found(found)
        else:
            yield [trial for trial in self._planned if trial.search != CONFIRM]
        yield from self._confirmations(found, over)

    def _confirmations(self, found: schema.Outcome, over: Callable[[], bool]) -> Steps:
        """Of one candidate after another, until one keeps the constraints or the time is over."""
        winner = found["winner"]
        older = [winner] if winner is not None and found["feasible"] and winner != self.script.default else []
        candidates = found.get("candidates", older)
        for number, candidate in enumerate(candidates, 1):
            yield self.script.confirmation(candidate, self._planned[: self._given])
            if number == len(candidates) or self._dropped() < number:
                return
            if over():
                self.store.write_found({**found, "candidates": candidates[:number]})
                return

    def _dropped(self) -> int:
        """How many candidates violate a constraint in their confirmation, by the report's own judgement."""
        from ioassay.packs.tuning.questions import tuned
        from ioassay.store import frames

        records = frames.load(self.store)
        return len(tuned.measure(records, records.studies[0]).dropped)

    def _clocked(self) -> Callable[[], bool]:
        """Whether the time is over: that of trials recorded in earlier attempts, and of this one.

        While the plan has more, it has been decided that it was not.
        """
        budget_s, batch = self.script.request.budget_s, self.script.request.batch
        kept = [trial for trial in self._planned if self.store.has(trial.id)] if budget_s is not None else []
        spent_s = sum(self.store.record(trial.id).duration_s for trial in kept) / batch
        began_s = self.clock()

        def over() -> bool:
            more_planned = self._given < len(self._planned)
            return budget_s is not None and not more_planned and spent_s + self.clock() - began_s >= budget_s

        return over

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

    def _can_be_short(self) -> bool:
        first = plan.make_trial(self.script.study, self.script.default, 0, 0)
        return self.script.driver.shortened(first.params, SHORT_SHARE) is not None


def opening(study: Study, request: Request, driver: Driver) -> list[Trial]:
    """The first trials of a search, which its plan begins with."""
    return next(Script(study, request, driver).search(lambda: False))


def resumed(store: RunStore) -> Request:
    """What the search of a run was asked; UsageError for a run that is no search."""
    table = store.tuning()
    if table is None:
        raise UsageError(f"{store.root}: is no search; go on with it: {store.resume_command}")
    return from_table(table, str(store.root / "tune.json"))
