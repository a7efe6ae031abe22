"""SQL over the frames of runs, answered by DuckDB, which reaches neither files nor the network."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ioassay.errors import ToolError, UsageError
from ioassay.host import system
from ioassay.process import supervisor
from ioassay.store.table_files import TABLES

if TYPE_CHECKING:
    import polars as pl

    from ioassay.store.dataset import Dataset


class _Stream:
    """A frame by Arrow's C interface alone: of a frame itself DuckDB asks for pyarrow, 170 MB for one call."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested: object | None = None) -> object:
        return self._frame.__arrow_c_stream__(requested)


def rows(runs: Mapping[str, Dataset], query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and rows that a query gives; each table has a column `run` with the key of `runs`.

    UsageError for a query that fails; ToolError where this processor cannot run DuckDB.
    """
    require_duckdb()
    import duckdb
    import polars as pl

    # No query reaches files or the network, not even by changing these settings back.
    database = duckdb.connect(config={"enable_external_access": "false", "lock_configuration": "true"})
    for name in TABLES:
        pieces = [getattr(records, name).select(pl.lit(run).alias("run"), pl.all()) for run, records in runs.items()]
        database.register(name, _Stream(pl.concat(pieces, how="diagonal_relaxed")))
    try:
        answer = database.execute(query)
        if answer is None or answer.description is None:
            raise UsageError("the query is empty; expected for example 'SELECT * FROM trials'")
        return _distinct([str(column[0]) for column in answer.description]), answer.fetchall()
    except duckdb.Error as error:
        if "pytz" in str(error):  # DuckDB wants it for times with a zone, which no table of ours has
            raise UsageError("the query asks for a time with a zone; cast it, for example now()::TIMESTAMP") from None
        raise UsageError(f"the query failed: {error}") from None


def require_duckdb() -> None:
    """Load DuckDB and polars; ToolError where this processor cannot run DuckDB.

    Where its build needs AVX2 and the processor has none, the process that imports it ends by SIGILL."""
    if system.lacks_avx2():
        tried = supervisor.capture([sys.executable, "-I", "-c", "import duckdb"], timeout_s=60)
        if (tried.exit_code or 0) < 0:
            raise ToolError(
                "this processor lacks AVX2, which the installed build of duckdb needs; query the run on another machine"
            )
    import duckdb  # noqa: F401
    import polars  # noqa: F401


def _distinct(columns: list[str]) -> list[str]:
    """Column names, a number added to those that were there before: a JSON object has each key once."""
    found: list[str] = []
    for name in columns:
        number = 2
        distinct = name
        while distinct in found:
            distinct, number = f"{name}_{number}", number + 1
        found.append(distinct)
    return found
