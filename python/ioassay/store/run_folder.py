"""A run on disk: its plan, its records, and the frames that analyses read.

    <run>/study.toml  plan.jsonl  host.json  run.lock
    <run>/place.json                  where relative paths of the study start from; not for others' eyes
    <run>/trials/<id>/record.json     written last: temporary file, fsync, rename, fsync of the folder
    <run>/trials/<id>/raw/…           tool output verbatim
    <run>/trials/<id>/{hist,series,samples}.parquet  witness.json
    <run>/tune.json  found.json       of a search: what was asked, what was found; its plan grows
    <run>/learn.json                  of a drive that is learned: what was asked; its plan grows

A trial without `record.json` never happened: it is run again. Old records load for ever (`migrate`).
Deliberately not here: running trials, computing anything from them.
"""

from __future__ import annotations

import dataclasses
import fcntl
import itertools
import json
import os
import select
import shlex
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from ioassay import atomic_file, validation
from ioassay.errors import InputError, RunError, StudyError, UsageError
from ioassay.host import privacy
from ioassay.records import observation
from ioassay.records.observation import Observation
from ioassay.records.record import FAILED, OK, SCHEMA, SKIPPED, Buckets, Record, Samples, Series
from ioassay.roles import Trial
from ioassay.store import dataset
from ioassay.study import catalog, plan
from ioassay.study.model import Suite

RECORD = "record.json"
PLAN = "plan.jsonl"
STUDY = "study.toml"
HOST = "host.json"
PLACE = "place.json"
FOLDER = "working_directory"
"""Key of place.json, and of the facts that `create` takes: where relative paths of the run's studies start from."""
WITNESS = "witness.json"
TUNE = "tune.json"
FOUND = "found.json"
LEARN = "learn.json"
_GROWING = {TUNE: ("tune", "Search"), LEARN: ("drive learn", "Twin")}
"""What was asked of a run whose plan grows -> the command that continues it, and what it is in the Python API."""
_CLEARING_S = 30.0
"""How long to wait for the process that clears up after a killed runner: two graces of ending, and a busy machine."""
_ENDING_S = 0.5
"""What a process that was killed may take to end."""


class RunStore:
    """One run's folder. Made by `create`, found again by `open`."""

    def __init__(self, root: Path) -> None:
        try:
            str(root).encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"{root}: is not UTF-8, and Parquet files cannot be read there; rename the folder"
            ) from None
        self.root = root
        self.resume_options: Sequence[str] = ()
        """What the user gave that a run does not keep, and that going on with it needs again."""
        self._kept: dict[Path, Path] = {}

    @classmethod
    def create(
        cls,
        root: Path,
        suite: Suite,
        host: Mapping[str, Any],
        trials: Iterable[Trial] | None = None,
        asked: Mapping[str, Any] | None = None,
        asked_in: str = TUNE,
    ) -> RunStore:
        """A new run folder with study, host facts and plan; the plan is written last and makes the run exist.

        `trials` are those of the suite, unless others are given (results that were made elsewhere, a search's first).
        `asked` is what a run whose plan grows was asked, for the file `asked_in`. Of `host` nothing is kept that
        identifies this machine.
        """
        made = cls(root)
        try:
            root.mkdir(parents=True, exist_ok=True)
            if any(root.iterdir()):
                go_on = f"; to go on with it: {made.resume_command}" if (root / PLAN).exists() else ""
                raise UsageError(f"{root}: exists already; expected a new or an empty folder{go_on}")
            (root / "trials").mkdir()
        except FileExistsError:
            what = "another ioassay has begun a run there just now" if root.is_dir() else "is a file"
            raise UsageError(f"{root}: {what}; expected a new folder") from None
        except OSError as error:
            raise RunError(f"{root}: cannot be created: {error.strerror}; --output names another place") from None
        try:
            _write_plan(root, suite, host, trials, {asked_in: asked} if asked is not None else {})
        except BaseException:
            shutil.rmtree(root, ignore_errors=True)  # it was empty a moment ago, and is no run yet
            raise
        return made

    @classmethod
    def open(cls, root: Path) -> RunStore:
        """An existing run; InputError when `root` is none."""
        try:
            if (root / PLAN).is_file():
                return cls(root)
            what = "has no plan.jsonl" if root.is_dir() else "is a file" if root.exists() else "no such folder"
        except OSError as error:
            what = error.strerror or "cannot be read"
        raise InputError(f"{root}: {what}; expected the folder of a run, such as runs/<time>-<study>")

    @property
    def resume_command(self) -> str:
        """What the user types to go on with this run."""
        command, _ = self._kind
        return shlex.join(["ioassay", *command.split(), "--resume", str(self.root), *self.resume_options])

    @property
    def _kind(self) -> tuple[str, str]:
        return next((kind for name, kind in _GROWING.items() if (self.root / name).is_file()), ("run", "Run"))

    @property
    def api_name(self) -> str:
        """What the run is in the Python API; another name than Run where its plan grows."""
        return self._kind[1]

    @property
    def is_search(self) -> bool:
        """Whether this is the run of a search, whose plan grows."""
        return (self.root / TUNE).is_file()

    def suite(self) -> Suite:
        path = self.root / STUDY
        try:
            table = validation.toml(path.read_bytes())
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise InputError(f"{path}: is corrupted ({error}); restore it from a copy of the run") from None
        return catalog.from_table(table, path, stored=True)

    def host(self) -> dataset.Host:
        """Facts about the machine, as gathered when the run began; of old runs, too, nothing that identifies it."""
        return cast(dataset.Host, privacy.published(self.raw_host()))

    def raw_host(self) -> dict[str, Any]:
        """The same as they lie on disk; old runs have host name, serial numbers and the kernel's command line there."""
        path, remedy = self.root / HOST, "it holds the host's facts; restore it from a copy of the run"
        found = _read_json(path, remedy)
        validation.typed(dataset.Host, found, str(path), remedy)
        return found

    def working_directory(self) -> Path | None:
        """Where relative paths of the run's studies start from; None for results that were made elsewhere."""
        path = self.root / PLACE
        remedy = "it holds the folder that the run began in; restore it from a copy of the run"
        folder = (_read_json(path, remedy) if path.exists() else self.raw_host()).get(FOLDER)
        return Path(folder) if isinstance(folder, str) else None

    def trials(self) -> Iterator[Trial]:
        path, number = self.root / PLAN, 0
        try:
            with path.open("rb") as lines:
                for line in lines:
                    number += 1
                    yield Trial(**validation.read(dataset.Planned, line, "the trial"))
        except InputError as error:
            raise InputError(
                f"{path}: line {number} is corrupted: {error}; restore it from a copy of the run"
            ) from None
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        if not number:
            raise InputError(f"{path}: is empty; expected a trial on each line: restore it from a copy of the run")

    def extend(self, trials: Iterable[Trial]) -> None:
        """Add trials to the plan. The plan is replaced as a whole, so that no kill leaves half of a line."""
        path = self.root / PLAN
        with self.writing(path):
            atomic_file.write_pieces(path, (path.read_text(encoding="utf-8"), *_lines(trials)))

    def replace_suite(self, suite: Suite) -> None:
        import tomli_w

        path = self.root / STUDY
        with self.writing(path):
            atomic_file.write(path, tomli_w.dumps(catalog.to_table(suite)))

    def asked(self, name: str) -> dict[str, Any] | None:
        """What a run whose plan grows was asked, as the file of that name has it; None where there is none."""
        path = self.root / name
        return _read_json(path, "restore it from a copy of the run") if path.is_file() else None

    def tuning(self) -> dataset.Search | None:
        """What a search was asked and, as `found`, what it came to (None before its end); None for other runs."""
        if not self.is_search:
            return None
        remedy = "restore it from a copy of the run"
        tune, found = self.root / TUNE, self.root / FOUND
        asked = validation.typed(dataset.Tuning, _read_json(tune, remedy), str(tune), remedy)
        if not found.exists():
            return {**asked, "found": None}
        return {**asked, "found": validation.typed(dataset.Outcome, _read_json(found, remedy), str(found), remedy)}

    def write_found(self, found: dataset.Outcome) -> None:
        with self.writing(self.root / FOUND):
            atomic_file.write(self.root / FOUND, json.dumps(found, indent=1))

    def planned(self) -> dict[str, int]:
        return dict(Counter(trial.study for trial in self.trials()))

    def folder(self, trial_id: str) -> Path:
        return self.root / "trials" / trial_id

    def begin(self, trial_id: str) -> Path:
        """An empty raw folder for a trial that is about to run; what an interrupted attempt left is removed."""
        folder = self.folder(trial_id)
        raw = folder / "raw"
        with self.writing(folder):
            if folder.exists():
                shutil.rmtree(folder)
            raw.mkdir(parents=True)
        return raw

    def keep(self, path: Path, raw: Path) -> None:
        """Copy a file into a raw folder; later ones have a link to that copy: a file may hold thousands of trials."""
        target = raw / path.name
        with self.writing(target):
            try:
                target.hardlink_to(self._kept[path])
            except (KeyError, OSError):  # the first, or the file system has no links, or no more of this file
                self._kept[path] = Path(shutil.copy2(path, target))

    @contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """What cannot be written is a RunError: nothing is lost, and it says how to go on."""
        try:
            yield
        except OSError as error:
            is_elsewhere = isinstance(error.filename, str) and not Path(error.filename).is_relative_to(path)
            found = f"{error.strerror or error}" + (f" ({error.filename})" if is_elsewhere else "")
            raise RunError(
                f"{path}: cannot be written: {found}; everything recorded before is kept. "
                f"Fix that, then go on with: {self.resume_command}"
            ) from error

    def has(self, trial_id: str) -> bool:
        return (self.folder(trial_id) / RECORD).exists()

    def write(
        self,
        record: Record,
        buckets: Sequence[Buckets] = (),
        series: Sequence[Series] = (),
        samples: Sequence[Samples] = (),
        seen: Observation | None = None,
    ) -> None:
        """Make a trial's result durable; once this returns, no power cut loses it."""
        folder = self.folder(record.trial["id"])
        key = {"study": record.trial["study"], "trial": record.trial["id"]}
        with self.writing(folder):
            if buckets or series or samples:
                from ioassay.store import frames

                frames.write(folder, key, buckets, series, samples)
            if seen is not None:
                atomic_file.write(folder / WITNESS, json.dumps(seen.as_stored(), separators=(",", ":")))
            for path in (folder / "raw").iterdir():
                atomic_file.sync(path)
            atomic_file.sync(folder / "raw")
            atomic_file.write(folder / RECORD, json.dumps(dataclasses.asdict(record), indent=1))
            atomic_file.sync(folder.parent)

    def adopt(self, trial: Trial, files: Mapping[str, bytes]) -> Record:
        """Make a trial durable that was recorded elsewhere: its files by their path in its folder.

        InputError where the files are none of a record of this trial.
        """
        places = {name: PurePosixPath(name) for name in files}
        strange = [name for name, place in places.items() if place.is_absolute() or ".." in place.parts]
        try:
            table = json.loads(files.get(RECORD, b""))
            record = read_record(table, Path(RECORD)) if isinstance(table, dict) else None
        except (ValueError, InputError):
            record = None
        wanted = {"id": trial.id, "point": dict(trial.point), "repetition": trial.repetition}
        if record is not None and not wanted.items() <= record.trial.items():
            record = None
        if strange or record is None:
            what = f"a file '{strange[0]}'" if strange else f"no {RECORD} of it"
            raise InputError(f"the host returned {what}; expected the files of this trial")
        folder = self.begin(trial.id).parent
        with self.writing(folder):
            for name, place in places.items():
                if name != RECORD:
                    path = folder / place
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(files[name])
                    atomic_file.sync(path)
            atomic_file.sync(folder / "raw")
            atomic_file.write(folder / RECORD, files[RECORD].decode())
            atomic_file.sync(folder.parent)
        return record

    def records(self) -> Iterator[Record]:
        for trial in self.trials():
            if self.has(trial.id):
                yield self.record(trial.id)

    def record(self, trial_id: str) -> Record:
        """One trial's record, migrated to the present schema."""
        path = self.folder(trial_id) / RECORD
        remedy = f"remove it and measure that trial again with: {self.resume_command}"
        return read_record(_read_json(path, remedy), path, remedy)

    def observation(self, trial_id: str) -> Observation:
        """What the witness saw of one trial, which `was_witnessed`."""
        path = self.folder(trial_id) / WITNESS
        remedy = f"remove its trial's folder and measure it again with: {self.resume_command}"
        table = _read_json(path, remedy)
        try:
            observation.require_schema(table)
        except ValueError as error:
            raise InputError(f"{path}: {error}; {remedy}") from None
        return validation.typed(Observation, table, str(path), remedy)

    def was_witnessed(self, trial_id: str) -> bool:
        return (self.folder(trial_id) / WITNESS).exists()

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Hold the run for one process; RunError when another one has it. What who clears up after it is to keep open.

        The process that clears up after a killed one holds it until it is done: that is waited for.
        """
        with self.writing(self.root):
            lock_file = (self.root / "run.lock").open("a+")
        with lock_file as lock:
            give_up_s = time.monotonic() + _CLEARING_S
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if _lives(lock) or time.monotonic() > give_up_s:
                        text = f"{self.root}: another ioassay is running this run; wait for it or end it"
                        raise RunError(text) from None
                time.sleep(0.02)
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            try:
                yield lock.fileno()
            finally:
                lock.truncate(0)  # who is killed leaves its number


def _lives(file: IO[str]) -> bool:
    """Whether the process that took the lock is there: before it has said its number, it is."""
    file.seek(0)
    said = file.read().strip()
    try:
        holder = os.pidfd_open(int(said))
    except (ValueError, OSError):
        return not said
    try:
        return not select.select([holder], [], [], _ENDING_S)[0]  # readable once it has ended, reaped or not
    finally:
        os.close(holder)


def new_folder(parent: Path, name: str, now: float | None = None) -> Path:
    """A path for a new run that does not exist yet: `<parent>/<time>-<name>`."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    paths = (parent / f"{stamp}-{name}{f'-{number}' if number > 1 else ''}" for number in itertools.count(1))
    return next(path for path in paths if not path.exists())


def _lines(trials: Iterable[Trial]) -> Iterator[str]:
    return (f"{json.dumps(dataclasses.asdict(trial))}\n" for trial in trials)


def _write_plan(
    root: Path, suite: Suite, host: Mapping[str, Any], trials: Iterable[Trial] | None, asked: Mapping[str, Any]
) -> None:
    import tomli_w

    try:
        for name, table in asked.items():
            atomic_file.write(root / name, json.dumps(table, indent=1))
        atomic_file.write(root / STUDY, tomli_w.dumps(catalog.to_table(suite)))
        if FOLDER in host:
            atomic_file.write(root / PLACE, json.dumps({FOLDER: host[FOLDER]}, indent=1))
        kept = {name: value for name, value in host.items() if name != FOLDER}
        atomic_file.write(root / HOST, json.dumps(privacy.published(kept), indent=1))
        atomic_file.write_pieces(root / PLAN, _lines(trials or plan.known_trials(suite)))
        with suppress(PermissionError):  # a folder that may be entered and not read
            atomic_file.sync(root.absolute().parent)
    except OSError as error:
        raise RunError(f"{root}: cannot be written: {error.strerror}; --output names another place") from error
    except UnicodeEncodeError as error:
        odd = error.object[max(error.start - 30, 0) : error.end].encode(errors="backslashreplace").decode()
        raise StudyError(f"'…{odd}' is not UTF-8, and a study cannot hold it: rename the folder or file") from None


def read_record(table: Mapping[str, Any], path: Path, remedy: str = "restore it from a copy of the run") -> Record:
    """The Record behind parsed `record.json`; InputError when it is none."""
    try:
        fields = migrate(table)
    except ValueError as error:
        raise InputError(f"{path}: is not a record ({error}); {remedy}") from None
    if unknown := sorted(fields.keys() - {entry.name for entry in dataclasses.fields(Record)}):
        raise InputError(f"{path}: is not a record ({unknown[0]}: unknown key); {remedy}")
    record = validation.typed(Record, fields, str(path), remedy)
    validation.typed(dataset.Identity, record.trial, f"{path}: trial", remedy)
    if record.status not in (OK, FAILED, SKIPPED):
        raise InputError(f"{path}: status is '{record.status}'; expected {OK}, {FAILED} or {SKIPPED}; {remedy}")

    claims = []
    for claim in record.claims:  # equal to those before they were stored: JSON knows no tuples
        lists: dict[str, Any] = {key: tuple(value) for key, value in vars(claim).items() if isinstance(value, list)}
        claims.append(dataclasses.replace(claim, **lists))
    return dataclasses.replace(record, warnings=tuple(record.warnings), claims=tuple(claims))


def migrate(table: Mapping[str, Any]) -> dict[str, Any]:
    """A record's table brought from its own schema to the present one."""
    schema = table.get("schema")
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        raise ValueError(f"schema is {schema!r}; expected a number from 1 to {SCHEMA}")
    if schema > SCHEMA:
        raise ValueError(f"schema {schema} is newer than this ioassay's {SCHEMA}; update ioassay")
    fields = dict(table)
    for step in range(schema, SCHEMA):
        fields = MIGRATIONS[step](fields)
    return {**fields, "schema": SCHEMA}


MIGRATIONS: dict[int, Any] = {
    1: lambda table: {
        **table,
        "trial": {"twin": False, **table["trial"]} if isinstance(table.get("trial"), dict) else table.get("trial"),
        "claims": [],
    },
    2: lambda table: {**table, "environment": None},
}
"""schema n -> function that turns a table of schema n into one of n + 1.

Schema 2 knows what tools claim, and twins; schema 3 what else used the machine.
"""


def _read_json(path: Path, remedy: str) -> dict[str, Any]:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return validation.table(text, str(path), remedy)
