"""The Python API: studies, runs, comparisons, drives and searches as objects. `ioassay` exports its names.

It stands above the rooms that do the work and below the command line, which is one of its users. It never prints or
exits: a `Progress` is called with what happens, and what goes wrong is an error of `ioassay.errors`. Calls block, and
may be made in any thread: `await asyncio.to_thread(study.run)` in a running event loop.

`section` and `table` are the HTML of its objects in notebooks. All text is escaped: names of studies and of hosts come
from files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_MOST_ROWS = 40


def section(title: str, lines: Sequence[str], parts: Iterable[tuple[str, Sequence[str]]] = (), tables: str = "") -> str:
    """A title, lines under it, and parts with a title and sentences of their own; `tables` are those of `table`."""
    body = [f"<strong>{escape(title)}</strong>", *(f"<div>{escape(line)}</div>" for line in lines if line)]
    body += [
        f"<p><em>{escape(head)}</em><br>{'<br>'.join(escape(sentence) for sentence in sentences)}</p>"
        for head, sentences in parts
    ]
    return f'<div class="ioassay">{"".join(body)}{tables}</div>'


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table, of long ones the first rows; None is an empty cell."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    cells = ([escape("" if cell is None else str(cell)) for cell in row] for row in rows[:_MOST_ROWS])
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in cells)
    more = f"<div>… and {len(rows) - _MOST_ROWS} more rows</div>" if len(rows) > _MOST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
