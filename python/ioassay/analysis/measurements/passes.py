"""Each pass or load that a tool timed, as if it were a trial of its own: a pass with what the witness saw of it.

IOzone's tests and the driver `filesuite` time several passes in one trial, over one size of file and record or a
matrix of them; db_bench runs several loads of a database. `expanded` and `expanded_loads` make a Dataset of them, so
that analyses and figures read them as they read trials. Judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ioassay.analysis import machine_conditions
from ioassay.analysis.measurements import memoized, monitor_rates
from ioassay.formats import conventions
from ioassay.records.observation import BPF, SYSCALLS, Observation
from ioassay.records.record import OK, Claim, Scalar
from ioassay.store.dataset import IDENTITY, Dataset
from ioassay.study.model import Study
from ioassay.verify import claim_groups, judge, session_times
from ioassay.verify.verdict import Verdict

FILE_SIZE, RECORD_SIZE, ACCOUNTING = "file_size", "record_size", "accounting"
CLAIM, WATCHED, SPAN = "claim", "claim, watched", "first to last call"
SUM, SESSION = "sum of call times", "open to close"
ACCOUNTINGS = (CLAIM, WATCHED, SPAN, SUM, SESSION)
"""Levels of the factor `accounting`. CLAIM is of the trials that count; where these have twins that the witness
watched, WATCHED is the claim of those, which the last three belong to."""
RATE, DIFFERENCE = "pass.bw", "pass.difference"
_WAYS = {"first_to_last": SPAN, "sum_of_calls": SUM, "open_to_close": SESSION}


@dataclass(frozen=True)
class Pass:
    """One timed pass of one trial. `seen` is None where the witness did not tell its calls apart."""

    trial: str
    point: Mapping[str, Scalar]
    claim: Claim
    contended: bool
    """Others used the processors during its trial, so that it may have waited for one at any moment."""
    seen: session_times.TimingDefinitions | None = None
    moved_bytes: int | None = None
    """Through the file, by the pass and by those that the tool made after it and does not report."""
    verdict: Verdict | None = None
    """Of the claim of this very run; whether watching changed the run is another question."""

    @property
    def test(self) -> str:
        """The test in words: 'random read' for 'random-read'; the kind where the tool has no name for it."""
        return (self.claim.test or self.claim.kind).replace("-", " ").replace("_", " ")

    @property
    def size(self) -> tuple[int, int]:
        """Bytes of file and record, 0 where they are not known."""
        return self.claim.file_bytes or 0, self.claim.record_bytes or 0

    @property
    def claimed_s(self) -> float | None:
        return session_times.claimed_seconds(self.claim)

    def rates(self) -> dict[str, float]:
        """Bytes/s by each accounting that is known, the claim as WATCHED."""
        found = {} if self.claim.rate_bytes_per_s is None else {WATCHED: self.claim.rate_bytes_per_s}
        return found | ({_WAYS[name]: rate for name, rate in self.seen.rates().items()} if self.seen else {})

    @property
    def gap_s(self) -> float | None:
        """The claimed interval less the time from the first to the last call."""
        return None if self.seen is None or self.claimed_s is None else self.claimed_s - self.seen.first_to_last_s

    def differences(self) -> dict[str, float]:
        """How far each accounting lies from the claim, as a share of it."""
        rates = self.rates()
        claimed = rates.pop(WATCHED, 0.0)
        return {name: rate / claimed - 1 for name, rate in rates.items()} if claimed > 0 else {}


@memoized
def counted(records: Dataset, study: Study) -> list[Pass]:
    """The passes of the trials that count; with twins these ran without the witness."""
    return [*_passes(records, study, records.trials_of(study))]


@memoized
def witnessed_passes(records: Dataset, study: Study) -> list[Pass]:
    """The passes that the witness watched; those of `counted` where the study has no twins."""
    traced = _traced(records, study)
    return counted(records, study) if traced is None else [*_passes(records, study, traced)]


def _traced(records: Dataset, study: Study) -> pl.DataFrame | None:
    if records.traced is None or not study.watch.twins:
        return None
    return records.traced.filter(records.traced["study"] == study.name).sort("order")


def _passes(records: Dataset, study: Study, trials: pl.DataFrame) -> Iterator[Pass]:
    design = study.design
    for row in trials.filter(trials["status"] == OK).iter_rows(named=True):
        trial = row["trial"]
        claims = [one for one in records.claims.get(trial, ()) if conventions(one.source).passes and one.test]
        busy = machine_conditions.contended(records.environments.get(trial))
        passes = [Pass(trial, design.point(row), claim, busy) for claim in claims]
        seen = records.observations.get(trial)
        # strace slows down the calls that it times.
        timed = seen is not None and SYSCALLS in seen.layers and seen.backend == BPF
        yield from _seen(passes, seen) if seen is not None and timed else passes


def _seen(passes: Sequence[Pass], observation: Observation) -> Iterator[Pass]:
    """Each pass with its verdict, and where its calls were told apart with their times."""
    claims = [one.claim for one in passes]
    groups = {group.places[0]: group for group in claim_groups.groups(claims, observation)}
    verdicts = judge.judge(claims, observation, contended=any(one.contended for one in passes))
    for place, (one, verdict) in enumerate(zip(passes, verdicts, strict=True)):
        group, claim = groups.get(place), one.claim
        if group is None or (found := session_times.of_group(group)) is None:
            yield replace(one, verdict=verdict)
            continue
        # With the next sessions of the same file, as many as the tool has silent passes.
        first = group.sessions[0]
        same = [each for each in observation.sessions if each.file == first.file and each.opened_ns > first.opened_ns]
        calls = [claim_groups.calls_of(each, claim.kind) for each in sorted(same, key=lambda each: each.opened_ns)]
        silent = [each for each in calls if each.calls][: claim.silent_passes]
        moved = sum(each.bytes for each in (claim_groups.calls_of(first, claim.kind), *silent))
        yield replace(one, verdict=verdict, seen=found, moved_bytes=moved)


@memoized
def expanded(records: Dataset, study: Study) -> Dataset | None:
    """The passes as trials of a study that has the factors test, file_size, record_size and accounting as well.

    One row a pass and accounting, with the metrics `pass.bw` and `pass.difference`; None where nothing claims any.
    Trials that failed or were skipped have a row for each pass that other trials have, with their reason.
    """
    if not (rows := [*_rows(records, study)]):
        return None
    passes = pl.DataFrame(rows, infer_schema_length=None)
    levels: dict[str, list[Scalar]] = {
        "test": list(dict.fromkeys(passes["test"])),
        FILE_SIZE: sorted(set(passes[FILE_SIZE])),
        RECORD_SIZE: sorted(set(passes[RECORD_SIZE])),
        ACCOUNTING: [one for one in ACCOUNTINGS if one in set(passes[ACCOUNTING])],
    }
    more = {name: found for name, found in levels.items() if name not in study.levels}
    known = records.trials_of(study)
    known = known.select(name for name in (*IDENTITY, *study.levels) if name in known.columns)
    traced = _traced(records, study)
    every = known if traced is None else pl.concat([known, traced.select(known.columns)])
    parts = passes.with_columns(pl.lit(CLAIM).alias(ACCOUNTING)).select(*more).unique(maintain_order=True)
    lost = known.filter(known["status"] != OK).join(parts, how="cross")
    found = every.join(passes.select("trial", *more, RATE, DIFFERENCE), on="trial")
    return records.with_factors(study, pl.concat([found, lost], how="diagonal"), more)


def _rows(records: Dataset, study: Study) -> Iterator[dict[str, Any]]:
    """The claims of the trials that count, and the accountings of those that the witness watched."""

    def row(one: Pass, level: str, rate: float, share: float | None = None) -> dict[str, Any]:
        parts = dict(zip(("test", FILE_SIZE, RECORD_SIZE, ACCOUNTING), (one.test, *one.size, level), strict=True))
        return {"trial": one.trial, **parts, RATE: rate, DIFFERENCE: None if share is None else 100 * share}

    for one in counted(records, study):
        if one.claim.rate_bytes_per_s is not None:
            yield row(one, CLAIM, one.claim.rate_bytes_per_s)
    twins = _traced(records, study) is not None
    for one in witnessed_passes(records, study):
        for name, rate in one.rates().items():
            if name != WATCHED or twins:
                yield row(one, name, rate, one.differences().get(name))


# Loads of a database's benchmark: db_bench runs several in a trial; their rates and counts are metrics of one trial,
# named `<load>.ops_rate` or `<load>.drive.write.bytes`

LOAD = "load"
LAYER, LAYER_BYTES = "layer", "layer.bytes"
USER, DRIVE, FLASH = "rocksdb.user_bytes", "drive.write.bytes", "drive.flash.bytes"
OF_DATABASE = ("rocksdb.wal_bytes", "rocksdb.flush_bytes", "rocksdb.compaction_write_bytes")
"""What RocksDB writes to files, by its own count."""
COUNTED = (
    *(USER, *OF_DATABASE, "rocksdb.compaction_read_bytes", "rocksdb.write_amplification", "rocksdb.stall_time"),
    *("rocksdb.cache_hit_ratio", DRIVE, FLASH, "drive.write_amplification", "drive.read.bytes", "drive.read.ios"),
)
"""What may be counted for each load, after its name."""
LAYERS: Mapping[str, tuple[str, ...]] = {"users": (USER,), "RocksDB": OF_DATABASE, "drive": (DRIVE,), "flash": (FLASH,)}
"""The way of written bytes down. What RocksDB does not count, it did not write."""


def loads(records: Dataset, study: Study) -> list[str]:
    """The loads that were measured, in the order in which they ran."""
    params = study.params.get("benchmarks", "")
    words = params.split(",") if isinstance(params, str) else params
    order = [str(word).strip().partition("[")[0] for word in words]
    trials = records.trials_of(study)
    measured = [name.removesuffix(".ops_rate") for name in trials.columns if name.endswith(".ops_rate")]
    known = [name for name in measured if not trials[f"{name}.ops_rate"].is_null().all()]
    return sorted(known, key=lambda name: order.index(name) if name in order else len(order))


@memoized
def expanded_loads(records: Dataset, study: Study) -> Dataset | None:
    """The loads as trials of a study that has the factor `load` as well.

    One row a trial and load, with `load.ops_rate` and what was counted for it (`load.drive.write.bytes`, …); None
    where nothing measured any load.
    """
    if not (found := loads(records, study)):
        return None
    trials = records.trials_of(study)
    counted = ["ops_rate", *(key for key in COUNTED if any(f"{name}.{key}" in trials.columns for name in found))]
    rows = [
        _of_load(trials, study, name, {f"{LOAD}.{key}": _metric(trials, f"{name}.{key}") for key in counted})
        for name in found
    ]
    return records.with_factors(study, pl.concat(rows), {LOAD: found})


@memoized
def layers(records: Dataset, study: Study) -> Dataset | None:
    """One row a trial, load and layer, with `layer.bytes`; None where nothing was counted by load."""
    trials = records.trials_of(study)
    found = [name for name in loads(records, study) if f"{name}.{DRIVE}" in trials.columns]
    if not found:
        return None
    rows = []
    for name in found:
        for layer, keys in LAYERS.items():
            volume = pl.sum_horizontal(_metric(trials, f"{name}.{key}") for key in keys)
            rows.append(_of_load(trials, study, name, {LAYER: pl.lit(layer), LAYER_BYTES: volume}))
    return records.with_factors(study, pl.concat(rows), {LOAD: found, LAYER: list(LAYERS)})


def _of_load(trials: pl.DataFrame, study: Study, load: str, columns: Mapping[str, pl.Expr]) -> pl.DataFrame:
    kept = [name for name in dict.fromkeys((*IDENTITY, *study.levels)) if name in trials.columns]
    return trials.select(*kept, pl.lit(load).alias(LOAD), **columns)


def _metric(trials: pl.DataFrame, name: str) -> pl.Expr:
    return monitor_rates.column(trials, name).cast(pl.Float64)
