"""The frames of a Dataset: their columns, how a run's files become them, and how a trial's Parquet files are written.

Each row carries its study and trial, so that the files of a whole run can be read as one table by any tool. Nothing is
computed from the frames here.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ioassay import atomic_file
from ioassay.drivers import REGISTRY, driver
from ioassay.errors import InputError, ToolError
from ioassay.factors import level_word
from ioassay.records.observation import EXPLAIN, SYSCALLS, Observation
from ioassay.records.record import OK, Buckets, Record, Samples, Scalar, Series
from ioassay.roles import DriverFacts
from ioassay.store.dataset import Dataset
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Study

_TEXT, _WHOLE, _NUMBER = pl.String(), pl.Int64(), pl.Float64()
Schema = dict[str, pl.DataType]
KEY: Schema = {"study": _TEXT, "trial": _TEXT}
SCHEMAS: dict[str, Schema] = {
    "hist": {**KEY, "direction": _TEXT, "kind": _TEXT, "job": _WHOLE, "value_ns": _WHOLE, "count": _WHOLE},
    "series": {**KEY, "metric": _TEXT, "job": _WHOLE, "time_s": _NUMBER, "value": _NUMBER},
    "samples": {**KEY, "monitor": _TEXT, "name": _TEXT, "time_s": _NUMBER, "value": _NUMBER},
}
TRIALS: Schema = {
    **KEY,
    "status": _TEXT,
    "reason": _TEXT,
    "repetition": _WHOLE,
    "order": _WHOLE,
    "started_unix_s": _NUMBER,
    "duration_s": _NUMBER,
}
SEARCH = "search"
"""Column of the frame of trials of a search: what each was for."""
SHORT, PRUNED = "short", "pruned"
CALLS: Schema = {"name": _TEXT, "count": _WHOLE, "errors": _WHOLE, "per_second": _NUMBER, "by": _TEXT}
"""Beside KEY and the factors."""
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""A damaged page ends in a panic of the reader's threads, which is no PolarsError."""
WARNINGS: Schema = {**KEY, "code": _TEXT, "text": _TEXT, "remedy": _TEXT}


class Frame(pl.DataFrame):
    """A frame for users of the Python API."""

    def to_pandas(self, *args: Any, **options: Any) -> Any:
        """See polars.DataFrame.to_pandas. ToolError where what it needs is not installed."""
        try:
            return super().to_pandas(*args, **options)
        except ModuleNotFoundError as error:
            needs = f"to_pandas() needs pandas and pyarrow, and {error.name} is not installed"
            raise ToolError(f"{needs}; install both with: pip install 'ioassay[notebook]'") from None


def load(store: RunStore) -> Dataset:
    records = list(store.records())
    suite = store.suite()
    plain = [record for record in records if not record.trial.get("calls")]
    counting = [record for record in records if record.trial.get("calls")]
    # Of studies with twins, the witness's effect alone is judged by the trials that it watched.
    twinned = {study.name for study in suite.studies if study.watch.twins}
    traced = [record for record in plain if record.trial["study"] in twinned and not record.trial.get("twin")]
    apart = {record.trial["id"] for record in traced}
    counted = [record for record in plain if record.trial["id"] not in apart]
    # Where every trial was watched at this level and none besides, all of them tell their calls.
    by_name = (SYSCALLS, EXPLAIN)
    whole = {study.name for study in suite.studies if study.watch.witness in by_name and not study.watch.calls}
    seen = _Observations(store, records)
    warnings = [
        {"study": record.trial["study"], "trial": record.trial["id"], **vars(warning)}
        for record in records
        for warning in record.warnings
    ]
    return Dataset(
        root=store.root,
        studies=suite.studies,
        host=store.host(),
        trials=trials_frame(counted),
        warnings=pl.DataFrame(warnings, schema=WARNINGS),
        planned=store.planned(),
        figures=suite.figures,
        traced=trials_frame(traced) if traced else None,
        observations=seen,
        environments={record.trial["id"]: record.environment for record in records if record.environment},
        claims={record.trial["id"]: record.claims for record in records if record.claims},
        tuning=store.tuning(),
        calls=calls_frame(records, [*counting, *(record for record in plain if record.trial["study"] in whole)], seen),
        counting=trials_frame(counting) if counting else None,
        drivers=drivers_of(suite.studies),
        **{name: _parquet(store, counted, name) for name in SCHEMAS},
    )


def drivers_of(studies: Iterable[Study]) -> dict[str, DriverFacts]:
    """What the drivers of the studies state; old runs may name one that there is no more."""
    return {study.driver: driver(study.driver) for study in studies if study.driver in REGISTRY}


class _Observations(Mapping[str, Observation]):
    """Trial -> its observation, read from its file each time that it is asked for: all of them may be large."""

    def __init__(self, store: RunStore, records: Sequence[Record]) -> None:
        self._store = store
        self._trials = {record.trial["id"]: None for record in records if store.was_witnessed(record.trial["id"])}

    def __getitem__(self, trial: str) -> Observation:
        if trial not in self._trials:
            raise KeyError(trial)
        return self._store.observation(trial)

    def __iter__(self) -> Iterator[str]:
        return iter(self._trials)

    def __len__(self) -> int:
        return len(self._trials)


def trials_frame(records: Sequence[Record]) -> pl.DataFrame:
    factors = _factors(records)
    metrics = list(dict.fromkeys(name for record in records for name in record.metrics))
    rows = [{**record.trial, **vars(record), "trial": record.trial["id"]} for record in records]
    columns = [pl.Series(name, [row[name] for row in rows], kind) for name, kind in TRIALS.items()]
    columns += [_levels(name, [record.trial["point"].get(name) for record in records]) for name in factors]
    columns += [pl.Series(name, [record.metrics.get(name) for record in records], pl.Float64()) for name in metrics]
    if any(SEARCH in record.trial for record in records):
        columns.insert(len(TRIALS), pl.Series(SEARCH, list(_searched(records)), pl.String()))
    return pl.DataFrame(columns)


def _searched(records: Sequence[Record]) -> Iterator[str | None]:
    """What each trial of a search was for; a short trial is `pruned` where nothing of its point followed."""
    for place, record in enumerate(records):
        kind = record.trial.get(SEARCH)
        own = record.trial["study"], record.trial["point"]
        later = (other.trial for other in records[place + 1 :] if kind == SHORT)
        followed = any((one["study"], one["point"]) == own and one.get(SEARCH) != SHORT for one in later)
        yield PRUNED if kind == SHORT and not followed and record.status == OK else kind


def calls_frame(
    records: Sequence[Record], watched: Sequence[Record], observations: Mapping[str, Observation]
) -> pl.DataFrame:
    """One row a system call of each of the `watched` whose calls were counted; `Dataset.calls` has the columns.

    `records` are all of the run: a factor is of the same type here as in their frame.
    """
    rows: list[tuple[Any, ...]] = []
    for trial in (record.trial["id"] for record in watched):
        if seen := observations.get(trial):
            seconds = max(seen.ended_ns - seen.held_ns, 1) / 1e9
            for name, number in sorted(seen.calls.items(), key=lambda item: (-item[1], item[0])):
                rows.append((trial, name, number, seen.call_errors.get(name, 0), number / seconds, seen.backend))
    known = trials_frame(records)
    factors = [name for name in known.columns if name in _factors(records) and name not in CALLS]
    found = pl.DataFrame(rows, schema={"trial": pl.String(), **CALLS}, orient="row")
    keys = known.select(*KEY, *factors)
    return found.join(keys, on="trial", how="left", maintain_order="left").select(*KEY, *factors, *CALLS)


def _factors(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record.trial["point"]))


def _levels(name: str, levels: Sequence[Scalar | None]) -> pl.Series:
    """Numbers stay numbers when all levels are numbers; otherwise all are text, as the study wrote them."""
    present = [level for level in levels if level is not None]
    if all(isinstance(level, int) and not isinstance(level, bool) for level in present):
        return pl.Series(name, levels, pl.Int64())
    if all(isinstance(level, int | float) and not isinstance(level, bool) for level in present):
        return pl.Series(name, levels, pl.Float64())
    return pl.Series(name, [None if level is None else level_word(level) for level in levels], pl.String())


def _parquet(store: RunStore, records: Sequence[Record], name: str) -> pl.DataFrame:
    """The Parquet files of the trials that have a record, one below the other, in the plan's order."""
    paths = [path for record in records if (path := store.folder(record.trial["id"]) / f"{name}.parquet").exists()]
    if not paths:
        return pl.DataFrame(schema=SCHEMAS[name])
    try:
        return pl.scan_parquet(paths).select(list(SCHEMAS[name])).collect()
    except _UNREADABLE as error:
        for path in paths:
            try:
                pl.read_parquet(path)
            except _UNREADABLE as found:
                remedy = "remove its trial's folder and run again with --resume"
                raise InputError(f"{path}: is corrupted ({found}); {remedy}") from None
        raise InputError(f"{paths[0].parent.parent}: {error}") from None


def write(
    folder: Path,
    key: Mapping[str, str],
    buckets: Sequence[Buckets],
    series: Sequence[Series],
    samples: Sequence[Samples],
) -> None:
    """Make a trial's distributions, series and samples durable in its folder; `key` is its study and its id.

    Items are one below the other; the texts and numbers of each are repeated over its rows. No items: no file.
    """
    renamed = {"values_ns": "value_ns", "counts": "count"}
    for stem, items in (("hist", buckets), ("series", series), ("samples", samples)):
        frames, schema, path = [], SCHEMAS[stem], folder / f"{stem}.parquet"
        for item in items:
            piece = {renamed.get(field, field): value for field, value in vars(item).items()}
            scalars = {**key, **{name: value for name, value in piece.items() if isinstance(value, str | int)}}
            columns = {name: value for name, value in piece.items() if name not in scalars}
            lists = {name: pl.Series(name, list(value), schema[name]) for name, value in columns.items()}
            literals = [pl.lit(value, schema[name]).alias(name) for name, value in scalars.items()]
            frames.append(pl.DataFrame(lists).with_columns(literals).select(list(schema)))
        if frames:
            content = io.BytesIO()  # polars itself would tell a full disk by an error that is no OSError
            pl.concat(frames).write_parquet(content, compression="zstd")
            path.write_bytes(content.getbuffer())
            atomic_file.sync(path)
