"""ioassay sql: any question to one run or several, answered by DuckDB over their frames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay.cli import console, options, syntax
from ioassay.errors import ToolError, UsageError

if TYPE_CHECKING:
    import polars as pl


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("sql")(sql)


def sql(
    words: Annotated[list[str], syntax.Argument(metavar="RUN… QUERY", help="Folders of runs, then one SELECT.")],
    json: options.Json = False,
) -> None:
    """Query the records of one or more runs with SQL.

    The tables are trials, hist, series, samples, warnings and calls (system calls by name), each with a column run.

    Example: ioassay sql runs/A runs/B 'SELECT run, bs, avg("read.bw") FROM trials GROUP BY ALL'
    """
    console.use_json(json)
    if len(words) < 2:
        raise UsageError("wanted at least one run and a query; for example: ioassay sql RUN 'SELECT * FROM trials'")
    _require_duckdb()
    columns, rows = _answer([Path(word) for word in words[:-1]], words[-1])
    if json:
        console.emit({"columns": columns, "rows": [dict(zip(columns, row, strict=True)) for row in rows]})
    else:
        console.table(columns, [["" if cell is None else str(cell) for cell in row] for row in rows])


def _require_duckdb() -> None:
    """Where its build needs AVX2 and the processor has none, the process that imports it ends by SIGILL."""
    from ioassay.host import cpus

    if cpus.lacks_avx2():
        import sys

        from ioassay.process import supervisor

        tried = supervisor.capture([sys.executable, "-I", "-c", "import duckdb"], timeout_s=60)
        if (tried.exit_code or 0) < 0:
            raise ToolError(
                "this processor lacks AVX2, which the installed build of duckdb needs; query the run on another machine"
            )


class _Stream:
    """A frame by Arrow's C interface alone: of a frame itself DuckDB asks for pyarrow, 170 MB for one call."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested: object | None = None) -> object:
        return self._frame.__arrow_c_stream__(requested)


def _answer(roots: list[Path], query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    import duckdb
    import polars as pl

    from ioassay.store import frames
    from ioassay.store.run_folder import RunStore

    runs = [(name, frames.load(RunStore.open(root))) for name, root in _names(roots).items()]
    # No query reaches files or the network, not even by changing these settings back.
    database = duckdb.connect(config={"enable_external_access": "false", "lock_configuration": "true"})
    for name in ("trials", "hist", "series", "samples", "warnings", "calls"):
        pieces = [getattr(records, name).select(pl.lit(run).alias("run"), pl.all()) for run, records in runs]
        database.register(name, _Stream(pl.concat(pieces, how="diagonal_relaxed")))
    try:
        answer = database.execute(query)
        if answer is None or answer.description is None:
            raise UsageError("the query is empty; wanted for example 'SELECT * FROM trials'")
        return _distinct([str(column[0]) for column in answer.description]), answer.fetchall()
    except duckdb.Error as error:
        if "pytz" in str(error):  # DuckDB wants it for times with a zone, which no table of ours has
            raise UsageError("the query asks for a time with a zone; cast it, for example now()::TIMESTAMP") from None
        raise UsageError(f"the query failed: {error}") from None


def _names(roots: list[Path]) -> dict[str, Path]:
    """What the runs are called in the column `run`: their folders' names, or the paths where these are the same."""
    for name_of in (lambda root: root.resolve().name, str, lambda root: str(root.resolve())):
        names = {name_of(root): root for root in roots}
        if len(names) == len(roots):
            return names
    raise UsageError(f"a run is named twice among {', '.join(map(str, roots))}; wanted each once")


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
