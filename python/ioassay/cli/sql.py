"""ioassay sql: any question to one run or several, answered by DuckDB over their frames."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ioassay.cli import completion_values, console, options, syntax
from ioassay.errors import UsageError


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("sql")(sql)


def sql(
    words: Annotated[
        list[str], syntax.argument("RUN… QUERY", "Folders of runs, then one SELECT.", completion_values.runs)
    ],
    json: options.Json = False,
) -> None:
    """Query the records of one or more runs with SQL.

    The tables are trials, hist, series, samples, warnings and calls (system calls by name), each with a column run.

    Example: ioassay sql runs/A runs/B 'SELECT run, bs, avg("read.bw") FROM trials GROUP BY ALL'
    """
    from ioassay.api import query, run_results

    console.use_json(json)
    if len(words) < 2:
        raise UsageError("expected at least one run and a query; for example: ioassay sql RUN 'SELECT * FROM trials'")
    query.require_duckdb()
    runs = {name: run_results.open(root).records for name, root in _names([Path(word) for word in words[:-1]]).items()}
    columns, rows = query.rows(runs, words[-1])
    if json:
        console.emit({"columns": columns, "rows": [dict(zip(columns, row, strict=True)) for row in rows]})
    else:
        console.table(columns, [["" if cell is None else str(cell) for cell in row] for row in rows])


def _names(roots: list[Path]) -> dict[str, Path]:
    """What the runs are called in the column `run`: their folders' names, or the paths where these are the same."""
    for name_of in (lambda root: root.resolve().name, str, lambda root: str(root.resolve())):
        names = {name_of(root): root for root in roots}
        if len(names) == len(roots):
            return names
    raise UsageError(f"a run is named twice among {', '.join(map(str, roots))}; expected each once")
