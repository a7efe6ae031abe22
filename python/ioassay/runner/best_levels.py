"""The trials of a suite in which a study takes the best level of an earlier one: the plan grows as that study ends.

The level is looked up when all trials before have their records. First it is written to the run's study.toml, then the
trials are added to the plan, so that a resumed run goes on with the same numbers and ids. A study whose level nothing
tells is planned with the stand-in, and each of its trials is skipped with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ioassay.errors import StudyError
from ioassay.records.record import Scalar, Warning_
from ioassay.roles import Trial
from ioassay.runner.preflight import PreparedStudy
from ioassay.store.run_folder import RunStore
from ioassay.study import earlier_best, plan
from ioassay.study.model import Study, Suite


@dataclass
class Following:
    """See run.Source."""

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
            if earlier_best.references(study):
                yield None
                suite, study = self._settled(suite, study)
            if name not in planned and earlier_best.follows(study):
                made = plan.trials(suite.model_copy(update={"studies": [study]}))
                planned[name] = [replace(trial, order=order + trial.order) for trial in made]
                self.store.extend(planned[name])
            yield from planned.get(name, ())
            order += numbers[name]

    def told(self, trial: Trial, record: object) -> None:
        """See run.Source; the records are read when a study needs them."""

    def notes(self, study: str) -> Sequence[Warning_]:
        """What each trial of a study bears: that the level it takes is not certainly the best."""
        return self._notes.get(study, [])

    def _settled(self, suite: Suite, study: Study) -> tuple[Suite, Study]:
        """With the levels that it waited for; as it was, and all its points skipped, where one is not known."""
        from ioassay.analysis import study_focus
        from ioassay.store import frames

        records, levels = frames.load(self.store), dict[str, Scalar]()
        for wanted in earlier_best.references(study):
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
        settled, found_study = earlier_best.settled(suite, study, levels)
        for trial in (plan.make_trial(found_study, point, 0, 0) for point in plan.points(found_study)):
            try:
                self.benches[study.name].driver.validate(trial.params, trial.target)
            except StudyError as error:
                self._skip(found_study, str(error))
        self.store.replace_suite(settled)
        return settled, found_study

    def _skip(self, study: Study, why: str) -> None:
        bench = self.benches[study.name]
        bench.cannot |= {json.dumps(point, sort_keys=True): why for point in plan.points(study)}
