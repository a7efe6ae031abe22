"""The history of a user, or of all who share a place: Parquet files, one a run, in a folder or an object store.

There is no server and no lock. A file is named after the time and the content of its run, is written whole and never
changed, so that several writers, and a run that is added twice, harm nothing; that of a run of which trials were
repeated since replaces the former one. Whoever deletes a file forgets its run.
DuckDB reads all files in one query, joined by the names of their columns, so that files of older versions need no
migration. Files of an object store are kept in the user's cache, which only fetches what is new.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shlex
import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from ioassay import atomic_file
from ioassay.errors import InputError, IoassayError, RunError, ToolError, UnreadableFile, UsageError, one_line
from ioassay.hints import nearest
from ioassay.host import privacy
from ioassay.packs.history import run_record
from ioassay.packs.history.record_columns import (
    BEGUN,
    KEYS,
    RUN_COLUMNS,
    TEXTS,
    VALUE_COLUMNS,
    VALUES,
    VERSION,
    VERSION_COLUMN,
    model,
)

if TYPE_CHECKING:
    import polars as pl

    from ioassay.store.dataset import Dataset

PLACE = "IOASSAY_HISTORY"
_SUFFIX = ".parquet"


def open(place: str | Path | None = None) -> Store:
    """The history at a place: a folder, or the address of an object store such as s3://bucket/history.

    By default $IOASSAY_HISTORY, or else ioassay/history in the user's data folder (XDG Base Directory Specification).
    It need not exist yet. ToolError where the packages for such an address are not installed.
    """
    named = str(place or os.environ.get(PLACE, ""))
    if not named:
        data = Path(os.environ.get("XDG_DATA_HOME", ""))
        try:
            named = str((data if data.is_absolute() else Path.home() / ".local/share") / "ioassay/history")
        except RuntimeError:
            raise UsageError(f"no home folder for the history is known; set ${PLACE} to a folder") from None
    return Store(named)


history = open


class Store:
    """The history at a place, which `open` returns; frames have a row for each study of a run, or for each value."""

    def __init__(self, place: str) -> None:
        self.place = place
        scheme = urlsplit(place).scheme if "://" in place else ""
        self._files: _Files
        if scheme in ("", "file"):
            self._files = _Folder(Path(unquote(urlsplit(place).path) if scheme else place).expanduser())
        else:
            self._files = _ObjectStore(place)
        self._named: set[str] = set()
        """Files that were said to be of no use, each once."""
        self._read_heads: tuple[Sequence[str], pl.DataFrame | None] = ((), None)
        """The files that were read last, and what is known of them: they never change."""

    def add(self, run: Dataset, label: str = "", host: str = "") -> bool:
        """Keep the numbers of a run; False where they are there already.

        `label` is what it is of, such as a commit; `host` names the machine in place of the hash that stands for it.

        UsageError for a run with trials that have no record yet, RunError where the place cannot be written.
        """
        _require_ended(run)
        named = privacy.Redaction(self._secrets, mild=True).text
        rows = run_record.of_run(run, label, host, lambda text: privacy.without_homes(named(text)))
        name = f"{rows[BEGUN][0]:%Y%m%dT%H%M%SZ}-{rows['run'][0]}{_SUFFIX}"
        there = self._files.find(name)
        if there is not None and _read_rows(there, [*RUN_COLUMNS, *VALUES]):
            return False
        content = io.BytesIO()
        rows.write_parquet(content, compression="zstd")
        self._files.write(name, content.getvalue())
        self._forget_former(name, rows)
        self._read_heads = ((), None)
        return True

    def _forget_former(self, name: str, rows: pl.DataFrame) -> None:
        """Remove what was added of a run before some of its trials were repeated: it began at the same microsecond."""
        began, _, _ = name.rpartition("-")
        own = rows.select(BEGUN, "host", "study").rows()
        for path in self._files.read(began) if rows["host"][0] else ():
            other = Path(path).name
            if other != name and _read_rows(path, [BEGUN, "host", "study"]) == own:
                self._files.remove(other)

    def runs(self, study: str | None = None, where: Mapping[str, str] | None = None) -> pl.DataFrame:
        """A row for each study of each run, by the time at which it began, with RUN_COLUMNS; texts are '' if unknown.

        `where` gives columns the text that they have. UsageError for a column that is none, InputError where the place
        cannot be read. A file that is none of a history is named by a warning, and left out.
        """
        return self._chosen(study, where).select(RUN_COLUMNS)

    def values(self, study: str, metric: str | None = None, where: Mapping[str, str] | None = None) -> pl.DataFrame:
        """A row for each run, condition and response, by the time at which the run began, with VALUE_COLUMNS.

        `point` has the levels as JSON, `values` one number a repetition, in the order they ran. Of a percentile that is
        made of all repetitions' requests these are the pseudo-values whose mean it is. Errors as of `runs`.
        """
        import polars as pl

        files = self._chosen(study, where)["file"].unique(maintain_order=True).to_list()
        lists = ", ".join(f'unnest("{name}") AS "{name}"' for name in VALUES)
        query = f"FROM (SELECT run, {BEGUN}, study, host, grade, file, {lists} FROM runs) WHERE study = $study"
        parameters = {"study": study, **({"metric": metric} if metric is not None else {})}
        found = self._read(files, query + " AND response = $metric" * (metric is not None), parameters)
        return found.select(VALUE_COLUMNS).with_columns(pl.col("host", "grade").fill_null(""))

    def _chosen(self, study: str | None, where: Mapping[str, str] | None) -> pl.DataFrame:
        import polars as pl

        wanted = {**(where or {}), **({"study": study} if study is not None else {})}
        for name in wanted:
            if name not in KEYS:
                known = f"expected one of {', '.join(KEYS)}{nearest(name, KEYS)}"
                raise UsageError(f"where {name}: runs have no such column; {known}")
        return self._heads().filter(pl.lit(True), *(pl.col(name) == text for name, text in wanted.items()))

    def _heads(self) -> pl.DataFrame:
        """All that is known of the runs but their values; `file` is the path of each."""
        import polars as pl

        paths = self._files.read()
        if self._read_heads[0] == paths and self._read_heads[1] is not None:
            return self._read_heads[1]
        found = self._read(paths, f"SELECT {VERSION_COLUMN}, file, {', '.join(RUN_COLUMNS)} FROM runs", {})
        is_ours = pl.col(VERSION_COLUMN).is_between(1, VERSION) & pl.col("run").is_not_null()
        for path, version in found.filter(is_ours.not_().fill_null(True)).unique("file")["file", VERSION_COLUMN].rows():
            newer = f"is of version {version}, and this ioassay reads up to {VERSION}; update ioassay"
            self._leave_out(path, newer if version is not None and version > VERSION else "is no record of a run")
        found = found.filter(is_ours).unique(["run", "study"], keep="first", maintain_order=True)
        found = found.with_columns(pl.col(TEXTS).fill_null("")).sort(BEGUN, "run", maintain_order=True)
        self._read_heads = (paths, found)
        return found

    def _read(self, paths: Sequence[str], query: str, parameters: Mapping[str, str]) -> pl.DataFrame:
        """What a query finds in the files, without those that cannot be read, which are named."""
        try:
            return _query(paths, query, parameters)
        except _Unreadable:
            return _query(self._usable(paths, query, parameters), query, parameters)

    def _usable(self, paths: Sequence[str], query: str, parameters: Mapping[str, str]) -> Sequence[str]:
        """Those that a query can read, by halves: few are damaged, and each query costs more than a file in it."""
        try:
            _query(paths, query, parameters)
            return paths
        except _Unreadable as error:
            if len(paths) == 1:
                self._leave_out(paths[0], str(error))
                return []
        half = len(paths) // 2
        halves = paths[:half], paths[half:]
        return [path for part in halves for path in self._usable(part, query, parameters)]

    def _leave_out(self, path: str, why: str) -> None:
        if path not in self._named:
            self._named.add(path)
            warnings.warn(f"{path}: left out of the history: {one_line(why)}", UnreadableFile, stacklevel=2)

    @cached_property
    def _secrets(self) -> list[privacy.Secret]:
        return privacy.of_host()


def _require_ended(run: Dataset) -> None:
    """UsageError for a run with trials that have no record, but for those that adaptive repetition may leave out."""
    counts = Counter(
        study for frame in (run.trials, run.traced, run.counting) if frame is not None for study in frame["study"]
    )
    fixed = [study.name for study in run.studies if study.until is None]
    missing = sum(max(run.planned.get(name, 0) - counts[name], 0) for name in fixed)
    if missing or not counts or (run.tuning is not None and run.tuning["found"] is None):
        planned = sum(run.planned.values())
        what = f"{missing} of {planned} trials have no record yet" if missing else "it has not ended"
        command = "ioassay tune" if run.tuning is not None else "ioassay run"
        raise UsageError(f"{run.root}: {what}; end it first: {command} --resume {shlex.quote(str(run.root))}")


class _Unreadable(Exception):
    """DuckDB cannot read a file; the text is the reason."""


def _query(paths: Sequence[str], query: str, parameters: Mapping[str, str]) -> pl.DataFrame:
    """What DuckDB finds in the table `runs`: all rows of the files, and `file`; what a file has not is null.

    _Unreadable where a file is damaged, or has a column of ours with another type.
    """
    import duckdb
    import polars as pl

    from ioassay.api import run_results

    run_results.require_duckdb()
    # Brackets and stars in a path would be patterns of a glob.
    literal = [re.sub(r"[*?\[]", lambda letter: f"[{letter[0]}]", path) for path in paths]
    own = "SELECT *, '' AS filename FROM model"
    every = f"FROM read_parquet($paths, union_by_name=true, filename=true) UNION ALL BY NAME {own}"
    try:
        with duckdb.connect() as database:
            database.register("model", run_results.Stream(model()))

            def found(rows: str, **more: object) -> pl.DataFrame:
                table = f"WITH runs AS (SELECT *, filename AS file FROM ({rows})) "
                relation = database.sql(table + query, params={**parameters, **more} or None)
                # A relation as it is makes Polars load types of DuckDB, whose leak a Python program reports at its end.
                return pl.DataFrame(run_results.Stream(relation))

            none = found(own)
            answer = found(every, paths=literal) if paths else none
            if answer.schema != none.schema:
                odd = next(name for name, kind in none.schema.items() if answer.schema[name] != kind)
                raise _Unreadable(f"is no record of a run: its column {odd} is {answer.schema[odd]}")
            return answer.with_columns(pl.col(pl.Datetime).dt.replace_time_zone("UTC"))
    except (duckdb.Error, pl.exceptions.PolarsError) as error:
        raise _Unreadable(str(error).partition("\n")[0]) from None


def _read_rows(path: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows of one file; none of a file that cannot be read."""
    import polars as pl

    try:
        found = _query([path], f"SELECT {', '.join(columns)} FROM runs", {})
    except _Unreadable:
        return []
    return found.with_columns(pl.col(pl.Datetime).dt.replace_time_zone(None)).rows()


# Where the files are


def _is_of(name: str, beginning: str) -> bool:
    return name.startswith(beginning) and name.endswith(_SUFFIX)


class _Files(Protocol):
    def read(self, beginning: str = "") -> list[str]:
        """The paths of the files whose names begin so, by name, once they can be read here.

        InputError where the place cannot be read.
        """

    def find(self, name: str) -> str | None:
        """The path of one of them; None where it is not there."""

    def write(self, name: str, content: bytes) -> None:
        """Make a file whole and lasting; RunError where that fails."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is still there; RunError where that fails."""


class _Folder:
    """A folder, made when the first file is written; the umask decides who else may write there."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, beginning: str = "") -> list[str]:
        try:
            names = [path.name for path in self.root.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InputError(
                f"{self.root}: cannot be read: {error.strerror}; expected the folder of a history"
            ) from None
        return [str(self.root / name) for name in sorted(names) if _is_of(name, beginning)]

    def find(self, name: str) -> str | None:
        path = self.root / name
        try:
            return str(path) if path.exists() else None
        except OSError as error:
            raise self._unwritten(error) from None

    def write(self, name: str, content: bytes) -> None:
        unfinished = self.root / f".{name}.{os.getpid()}-{threading.get_ident()}.tmp"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            try:
                with unfinished.open("xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                unfinished.rename(self.root / name)  # over that of another writer, which has the same content
            finally:
                unfinished.unlink(missing_ok=True)
            atomic_file.sync(self.root)
        except OSError as error:
            raise self._unwritten(error) from None

    def remove(self, name: str) -> None:
        try:
            (self.root / name).unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritten(error) from None

    def _unwritten(self, error: OSError) -> RunError:
        what = f"the history cannot be written: {error.strerror}"
        return RunError(f"{self.root}: {what}; --to or ${PLACE} names another place")


class _ObjectStore:
    """An address that fsspec knows; a file is written by one request, which object stores carry out whole."""

    def __init__(self, place: str) -> None:
        self.place = place
        try:
            import fsspec

            self._system, self._root = fsspec.core.url_to_fs(place)
        except ImportError as error:
            raise ToolError(
                f"{place}: needs Python packages that are not installed ({error}); install fsspec, and the package for "
                "this kind of address, with: pip install 'ioassay[objectstore]'"
            ) from None
        except ValueError as error:
            raise UsageError(
                f"{place}: {error}; expected a folder, or an address such as s3://bucket/history"
            ) from None

    @cached_property
    def _cache(self) -> Path:
        named = Path(os.environ.get("XDG_CACHE_HOME", ""))
        root = (named if named.is_absolute() else Path.home() / ".cache") / "ioassay/history"
        return root / hashlib.sha256(self.place.encode()).hexdigest()[:16]

    def read(self, beginning: str = "") -> list[str]:
        with self._asked("read", InputError):
            try:
                listed = self._system.ls(self._root, detail=True, refresh=True)
            except FileNotFoundError:
                return []
            wanted = [entry for entry in listed if _is_of(PurePosixPath(entry["name"]).name, beginning)]
            return sorted(self._fetched(wanted))

    def find(self, name: str) -> str | None:
        with self._asked("read", RunError):
            try:
                return self._fetched([self._system.info(f"{self._root}/{name}")])[0]
            except FileNotFoundError:
                return None

    def write(self, name: str, content: bytes) -> None:
        with self._asked("written", RunError):
            self._system.pipe_file(f"{self._root}/{name}", content)

    def remove(self, name: str) -> None:
        with self._asked("written", RunError), suppress(FileNotFoundError):
            self._system.rm_file(f"{self._root}/{name}")

    def _fetched(self, entries: Sequence[Mapping[str, Any]]) -> list[str]:
        """The paths of files in the cache, where they are put first if they are not there, or had another size."""
        cached = {entry["name"]: self._cache / PurePosixPath(entry["name"]).name for entry in entries}
        known = [path.stat().st_size if path.exists() else -1 for path in cached.values()]
        lacking = [entry["name"] for entry, size in zip(entries, known, strict=True) if entry["size"] != size]
        contents = self._system.cat(lacking, on_error="raise") if lacking else {}
        try:
            for name, content in contents.items():
                self._cache.mkdir(parents=True, exist_ok=True)
                unfinished = cached[name].with_suffix(f".{os.getpid()}.tmp")
                unfinished.write_bytes(content)
                unfinished.replace(cached[name])
        except OSError as error:
            what = f"cannot be written: {error.strerror}; $XDG_CACHE_HOME names another place"
            raise RunError(f"{self._cache}: {what}") from None
        return [*map(str, cached.values())]

    @contextmanager
    def _asked(self, how: str, kind: type[IoassayError]) -> Iterator[None]:
        """Whatever the package of the store raises is an error of the store: each has a tree of errors of its own."""
        try:
            yield
        except IoassayError:
            raise
        except Exception as error:
            raise kind(f"{self.place}: the history cannot be {how}: {str(error) or type(error).__name__}") from None
