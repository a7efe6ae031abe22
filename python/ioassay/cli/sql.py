"""ioassay sql: any question to one run or several, answered by DuckDB over their frames."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ioassay.cli import console, options
from ioassay.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("sql")(sql)


def sql(
    words: Annotated[list[str], typer.Argument(metavar="RUN… QUERY", help="Folders of runs, then one SELECT.")],
    json: options.Json = False,
) -> None:
    """Ask runs anything: tables trials, hist, series, samples, warnings, each with a column run.

    Example: ioassay sql runs/A runs/B 'SELECT run, bs, avg("read.bw") FROM trials GROUP BY ALL'
    """
    console.use_json(json)
    if len(words) < 2:
        raise UsageError("wanted at least one run and a query; for example: ioassay sql RUN 'SELECT * FROM trials'")
    columns, rows = _answer([Path(word) for word in words[:-1]], words[-1])
    if json:
        console.emit({"columns": columns, "rows": [dict(zip(columns, row, strict=True)) for row in rows]})
    else:
        console.table(columns, [["" if cell is None else str(cell) for cell in row] for row in rows])


def _answer(roots: list[Path], query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    import duckdb
    import polars as pl

    from ioassay import frames
    from ioassay.store import RunStore

    runs = [(root.name, frames.load(RunStore.open(root))) for root in roots]
    database = duckdb.connect(config={"enable_external_access": "false"})
    for name in ("trials", "hist", "series", "samples", "warnings"):
        pieces = [getattr(records, name).select(pl.lit(run).alias("run"), pl.all()) for run, records in runs]
        database.register(name, pl.concat(pieces, how="diagonal_relaxed").to_arrow())
    try:
        answer = database.execute(query)
        return [str(column[0]) for column in answer.description], answer.fetchall()
    except duckdb.Error as error:
        raise UsageError(f"the query failed: {error}") from None
