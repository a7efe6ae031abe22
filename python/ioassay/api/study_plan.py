"""What a study would do on this machine: its trials, the time that they take, what they write, and the warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import units
from ioassay.api import diagnosis, html_view
from ioassay.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

    from ioassay.analysis.repetition_plan import RepetitionPlan
    from ioassay.records.record import Warning_
    from ioassay.runner.preflight import PreparedStudy, Storage
    from ioassay.study.model import Study, Suite


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

        rows = self.order()
        if not rows:
            texts = {"id": pl.String(), "study": pl.String()}
            return pl.DataFrame(schema={"order": pl.Int64(), **texts, "repetition": pl.Int64()})
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)

    @cached_property
    def studies(self) -> list[dict[str, Any]]:
        """A table for each study: points, repetitions, trials, seconds, written_bytes, what depends on the machine."""
        from ioassay.runner import preflight
        from ioassay.study import plan

        found = []
        for bench in self._benches:
            forecast = preflight.forecast(bench)
            found.append(
                {
                    "study": bench.study.name,
                    "title": bench.study.title,
                    "points": len(plan.points(bench.study)),
                    "repetitions": bench.study.max_repetitions,
                    "adaptive": bench.study.until is not None,
                    "trials": forecast.trials,
                    "seconds": forecast.seconds,
                    "written_bytes": forecast.written_bytes,
                    "written_is_lower_bound": forecast.unknown_writes,
                    "relative": _relative(bench.study),
                }
            )
        return found

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
        from ioassay.analysis import repetition_plan

        studies = self._suite.studies
        if noise is None:
            return [one for study in studies for one in repetition_plan.assumed(study, margin)]
        if isinstance(noise, float):
            return [one for study in studies for one in repetition_plan.assumed(study, margin, (noise,))]
        from ioassay.store import frames
        from ioassay.store.run_folder import RunStore

        earlier = frames.load(RunStore.open(Path(noise)))
        if found := [one for study in studies for one in repetition_plan.measured(study, margin, earlier)]:
            return found
        raise UsageError(f"--noise {noise}: no study of this plan has two repetitions there; expected a run of it")

    def order(self) -> list[dict[str, Any]]:
        """The trials in their order, each with its point."""
        from ioassay.study import plan

        known = {trial.id for trial in plan.known_trials(self._suite)}
        return [
            {
                "order": trial.order,
                "id": trial.id if trial.id in known else "",
                "study": trial.study,
                "repetition": trial.repetition,
                **trial.point,
            }
            for trial in plan.trials(self._suite)
        ]

    def as_dict(self) -> dict[str, Any]:
        """What `ioassay plan --json` prints, but for the order: with a warning for each broken plugin that was met."""
        return {
            "suite": self._suite.name,
            "title": self._suite.title,
            "studies": self.studies,
            "devices": [asdict(device) for device in self.devices()],
            "trials": sum(study["trials"] for study in self.studies),
            "seconds": sum(study["seconds"] for study in self.studies),
            "warnings": [vars(warning) for warning in (*self.warnings, *diagnosis.broken_plugins())],
        }

    def __repr__(self) -> str:
        trials = sum(study["trials"] for study in self.studies)
        return f"<Plan of {self._suite.name}: {trials} trials, about {self.seconds:.0f} s>"

    def _repr_html_(self) -> str:

        rows = [
            (
                study["study"],
                study["points"],
                study["repetitions"],
                study["trials"],
                units.format_duration(study["seconds"]),
            )
            for study in self.studies
        ]
        table = html_view.table(("study", "points", "repetitions", "trials", "time"), rows)
        return html_view.section(self._suite.title, [f"warning: {one.text}" for one in self.warnings], tables=table)


def _relative(study: Study) -> list[dict[str, Any]]:
    """Each key that is relative to the machine: as it was written, and the numbers here."""
    from ioassay.study import machine_levels

    if study.relative is None:
        return []
    known = [(key, written, machine_levels.number(study, key)) for key, written in study.relative.written.items()]
    waiting = [(f"params.{name}", written, None) for name, written in study.relative.pending.items()]
    return [{"key": key, "written": written, "here": here} for key, written, here in (*known, *waiting)]
