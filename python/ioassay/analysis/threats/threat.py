"""A threat to the validity of a study's results, and what the checks that find threats share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ioassay.analysis.measurements.cells import Cells, cells, label
from ioassay.factors import Design
from ioassay.records.record import OK, Scalar
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl


class Code(StrEnum):
    """The threats, under stable names. `narrative/catalogue/threats.toml` has their words and remedies."""

    FAILED = "trials-failed"
    SKIPPED = "trials-skipped"
    INCOMPLETE = "incomplete"
    DIFFERENT_WORK = "different-work"
    FEW_REPETITIONS = "few-repetitions"
    IN_MEMORY = "memory-filesystem"
    BUFFERED = "buffered"
    CACHED_READS = "cached-reads"
    CACHED_WRITES = "cached-writes"
    UNSTABLE = "unstable"
    DRIFT = "drift"
    UNSTEADY = "unsteady"
    SHORT = "short"
    SATURATION = "saturation"
    FEWER_PROCESSORS = "fewer-processors"
    DEBUG_BUILD = "debug-build"
    CALIBRATION = "calibration-uncertain"
    LATE_ANSWERS = "late-answers"
    FAULTS = "faults-injected"
    DEVICE_BUSY = "device-busy"
    VIRTUAL = "virtual"
    GOVERNOR = "governor"
    CLOCK = "clock"
    INTERRUPTED = "interrupted"
    SEQUENTIAL_STOPPING = "sequential-stopping"


@dataclass(frozen=True)
class Threat:
    """One threat with its `evidence`: JSON-able numbers and names."""

    study: str
    code: Code
    evidence: Mapping[str, Any] = field(default_factory=dict)
    severity: str = "warning"
    response: str = ""


@dataclass(frozen=True)
class Context:
    """One study and its records, with what several checks need computed once."""

    records: Dataset
    study: Study

    def threat(self, code: Code, severity: str = "warning", response: str = "", /, **evidence: Any) -> Threat:
        """A threat to this study."""
        return Threat(self.study.name, code, evidence, severity, response)

    @cached_property
    def responses(self) -> dict[str, Cells]:
        """Response -> its cells, for responses that have values."""
        found = {name: cells(self.records, self.study, name) for name in self.records.responses(self.study)}
        return {name: part for name, part in found.items() if part.cells}

    @cached_property
    def trials(self) -> pl.DataFrame:
        """All trials of the study, in run order."""
        return self.records.trials_of(self.study)

    @cached_property
    def good(self) -> pl.DataFrame:
        """The trials that went well."""
        import polars as pl

        return self.trials.filter(pl.col("status") == OK)

    @cached_property
    def points(self) -> dict[str, dict[str, Scalar]]:
        """Trial id -> its point, spelled as the study spells it, of the trials that went well."""
        factors = self.study.levels
        design = Design({name: levels for name, levels in factors.items() if name in self.good.columns})
        return {row["trial"]: design.point(row) for row in self.good.iter_rows(named=True)}

    def conditions(self, trials: Iterable[str]) -> dict[str, dict[str, Scalar]]:
        """Label -> point of the conditions of those of these trials that went well, in the study's order."""
        points = [self.points[trial] for trial in trials if trial in self.points]
        return {label(point): point for point in sorted(points, key=self.study.design.place)}

    def partial(self, code: Code, trials: Collection[str], severity: str = "warning", /, **evidence: Any) -> Threat:
        """A threat to trials that went well: their number, of how many, and their conditions."""
        where = {"trials": len(trials), "of": len(self.points), "conditions": list(self.conditions(trials))}
        return self.threat(code, severity, **where, **evidence)

    def warned(self, *codes: str) -> list[str]:
        """The trials that went well and whose records have a warning of these codes."""
        if self.records.warnings.is_empty():
            return []
        concerned = set(self.records.warnings.filter(self.records.warnings["code"].is_in([*map(str, codes)]))["trial"])
        return [trial for trial in self.points if trial in concerned]
