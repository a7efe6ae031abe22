"""Each load of a database's benchmark as if it were a trial of its own, so that one chart shows them all.

db_bench runs several loads in one process; their rates are metrics of one trial, named `<load>.ops_rate`. Judges
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ioassay.analysis.measurements.memo import memoized
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

LOAD, RATE = "load", "load.ops_rate"
_IDENTITY = ("study", "trial", "status", "reason", "repetition", "order", "started_unix_s", "duration_s")


@dataclass(frozen=True)
class Expanded:
    """The loads as trials of a study that has the factor `load` as well."""

    records: Dataset
    study: Study


def names(records: Dataset, study: Study) -> list[str]:
    """The loads that were measured, in the order in which they ran."""
    params = study.params.get("benchmarks", "")
    words = params.split(",") if isinstance(params, str) else params
    order = [str(word).strip().partition("[")[0] for word in words]
    trials = records.trials_of(study)
    measured = [name.removesuffix(".ops_rate") for name in trials.columns if name.endswith(".ops_rate")]
    known = [name for name in measured if not trials[f"{name}.ops_rate"].is_null().all()]
    return sorted(known, key=lambda name: order.index(name) if name in order else len(order))


@memoized
def expanded(records: Dataset, study: Study) -> Expanded | None:
    """One row a trial and load, with the metric `load.ops_rate`; None where nothing measured any."""
    import polars as pl

    found = names(records, study)
    if not found:
        return None
    trials = records.trials_of(study)
    kept = [name for name in dict.fromkeys((*_IDENTITY, *study.levels)) if name in trials.columns]
    rows = [
        trials.select(*kept, pl.lit(name).alias(LOAD), pl.col(f"{name}.ops_rate").cast(pl.Float64).alias(RATE))
        for name in found
    ]
    own = study.model_copy(update={"factors": {**study.factors, LOAD: found}})
    return Expanded(replace(records, studies=[own], trials=pl.concat(rows), traced=None), own)
