"""A run on disk: its plan, its records, and the frames that analyses read.

    <run>/study.toml  plan.jsonl  host.json  run.lock
    <run>/trials/<id>/record.json     written last: temporary file, fsync, rename, fsync of the folder
    <run>/trials/<id>/raw/…           tool output verbatim
    <run>/trials/<id>/{hist,series,samples}.parquet

A trial without `record.json` never happened: it is run again. Old records load for ever (`migrate`).
Deliberately not here: running trials, computing anything from them.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import shutil
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ioassay import catalogue, durable, plan
from ioassay.errors import InputError, RunError
from ioassay.record import SCHEMA, Buckets, Record, Samples, Series, Warning_
from ioassay.roles import Trial
from ioassay.study import Suite

RECORD = "record.json"
PLAN = "plan.jsonl"
STUDY = "study.toml"
HOST = "host.json"


class RunStore:
    """One run's folder. Made by `create`, found again by `open`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def create(
        cls, root: Path, suite: Suite, host: Mapping[str, Any], trials: Iterable[Trial] | None = None
    ) -> RunStore:
        """A new run folder with study, host facts and plan; the plan is written last and makes the run exist.

        `trials` are those of the suite, unless others are given (results that were made elsewhere).
        """
        import tomli_w

        try:
            (root / "trials").mkdir(parents=True)
        except FileExistsError:
            raise RunError(f"{root}: exists already; wanted a new folder, or --resume {root}") from None
        except OSError as error:
            raise RunError(f"{root}: cannot be created: {error.strerror}; --output names another place") from None
        durable.write(root / STUDY, tomli_w.dumps(catalogue.to_table(suite)))
        durable.write(root / HOST, json.dumps(host, indent=1))
        planned = trials or plan.trials(suite)
        durable.write_pieces(root / PLAN, (f"{json.dumps(dataclasses.asdict(trial))}\n" for trial in planned))
        return cls(root)

    @classmethod
    def open(cls, root: Path) -> RunStore:
        """An existing run; RunError when `root` is none."""
        if not (root / PLAN).is_file():
            what = "has no plan.jsonl" if root.is_dir() else "no such folder"
            raise RunError(f"{root}: {what}; wanted the folder of a run, such as runs/<time>-<study>")
        return cls(root)

    def suite(self) -> Suite:
        """The resolved suite of this run."""
        path = self.root / STUDY
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"{path}: cannot be read: {error}") from None
        return catalogue.from_table(table, path)

    def host(self) -> dict[str, Any]:
        """Facts about the machine, as gathered when the run began."""
        return _read_json(self.root / HOST, "it holds the host's facts; restore it from a copy of the run")

    def trials(self) -> Iterator[Trial]:
        """The plan, streamed."""
        with (self.root / PLAN).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    yield Trial(**json.loads(line))
                except (ValueError, TypeError) as error:
                    raise InputError(f"{self.root / PLAN}: line {number} is corrupted: {error}") from None

    def planned(self) -> dict[str, int]:
        """Number of planned trials by study name."""
        numbers: dict[str, int] = {}
        for trial in self.trials():
            numbers[trial.study] = numbers.get(trial.study, 0) + 1
        return numbers

    def folder(self, trial_id: str) -> Path:
        """Where a trial's files are."""
        return self.root / "trials" / trial_id

    def begin(self, trial_id: str) -> Path:
        """An empty raw folder for a trial that is about to run; what an interrupted attempt left is removed."""
        folder = self.folder(trial_id)
        if folder.exists():
            shutil.rmtree(folder)
        raw = folder / "raw"
        raw.mkdir(parents=True)
        return raw

    def has(self, trial_id: str) -> bool:
        """Whether the trial has its record."""
        return (self.folder(trial_id) / RECORD).exists()

    def write(
        self,
        record: Record,
        buckets: Sequence[Buckets] = (),
        series: Sequence[Series] = (),
        samples: Sequence[Samples] = (),
    ) -> None:
        """Make a trial's result durable; once this returns, no power cut loses it."""
        folder = self.folder(record.trial["id"])
        key = {"study": record.trial["study"], "trial": record.trial["id"]}
        try:
            _write_frame(folder / "hist.parquet", key, [_bucket_columns(item) for item in buckets])
            _write_frame(folder / "series.parquet", key, [_series_columns(item) for item in series])
            _write_frame(folder / "samples.parquet", key, [_sample_columns(item) for item in samples])
            for path in (folder / "raw").iterdir():
                durable.sync(path)
            text = json.dumps(dataclasses.asdict(record), indent=1)
            durable.write(folder / RECORD, text)
            durable.sync(folder.parent)
        except OSError as error:
            raise RunError(
                f"{folder}: the record cannot be written: {error.strerror}; everything recorded before is kept, "
                f"go on with: ioassay run --resume {self.root}"
            ) from error

    def records(self) -> Iterator[Record]:
        """The records that exist, in the order of the plan."""
        for trial in self.trials():
            if self.has(trial.id):
                yield self.record(trial.id)

    def record(self, trial_id: str) -> Record:
        """One trial's record, migrated to the present schema."""
        path = self.folder(trial_id) / RECORD
        remedy = f"remove it and go on with: ioassay run --resume {self.root}"
        return read_record(_read_json(path, remedy), path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for one process; RunError when another one has it."""
        with (self.root / "run.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(f"{self.root}: another ioassay is running this run; wait for it or end it") from None
            yield


def new_folder(parent: Path, name: str, now: float | None = None) -> Path:
    """A path for a new run that does not exist yet: `<parent>/<time>-<name>`."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    path = parent / f"{stamp}-{name}"
    number = 1
    while path.exists():
        number += 1
        path = parent / f"{stamp}-{name}-{number}"
    return path


def read_record(table: Mapping[str, Any], path: Path) -> Record:
    """The Record behind parsed `record.json`; InputError when it is none."""
    try:
        fields = migrate(table)
        fields["warnings"] = tuple(Warning_(**warning) for warning in fields.get("warnings", ()))
        return Record(**fields)
    except (TypeError, KeyError, ValueError) as error:
        raise InputError(f"{path}: is not a record: {error}") from None


def migrate(table: Mapping[str, Any]) -> dict[str, Any]:
    """A record's table brought from its own schema to the present one."""
    schema = table["schema"]
    if schema > SCHEMA:
        raise ValueError(f"schema {schema} is newer than this ioassay's {SCHEMA}; update ioassay")
    fields = dict(table)
    for step in range(schema, SCHEMA):
        fields = MIGRATIONS[step](fields)
    return {**fields, "schema": SCHEMA}


MIGRATIONS: dict[int, Any] = {}
"""schema n -> function that turns a table of schema n into one of n + 1."""


def _read_json(path: Path, remedy: str) -> dict[str, Any]:
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path}: is corrupted ({error}); {remedy}") from None
    if not isinstance(table, dict):
        raise InputError(f"{path}: holds {type(table).__name__}, wanted an object; {remedy}")
    return table


def _bucket_columns(item: Buckets) -> dict[str, Any]:
    head = {"direction": item.direction, "kind": item.kind, "job": item.job}
    return {**head, "value_ns": list(item.values_ns), "count": list(item.counts)}


def _series_columns(item: Series) -> dict[str, Any]:
    return {"metric": item.metric, "job": item.job, "time_s": list(item.time_s), "value": list(item.value)}


def _sample_columns(item: Samples) -> dict[str, Any]:
    columns = {"time_s": list(item.time_s), "name": list(item.name), "value": list(item.value)}
    return {"monitor": item.monitor, **columns}


def _write_frame(path: Path, key: Mapping[str, str], pieces: Sequence[Mapping[str, Any]]) -> None:
    """Pieces one below the other; scalars of a piece are repeated over its rows. No rows: no file."""
    if not pieces:
        return
    import polars as pl

    from ioassay.frames import SCHEMAS

    schema = SCHEMAS[path.stem]
    frames = []
    for piece in pieces:
        lists = {name: pl.Series(name, value, schema[name]) for name, value in piece.items() if isinstance(value, list)}
        scalars = {**key, **{name: value for name, value in piece.items() if not isinstance(value, list)}}
        literals = [pl.lit(value, schema[name]).alias(name) for name, value in scalars.items()]
        frames.append(pl.DataFrame(lists).with_columns(literals).select(list(schema)))
    pl.concat(frames).write_parquet(path, compression="zstd")
    durable.sync(path)
