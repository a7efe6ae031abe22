"""ioassay history show: is it slower than before?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.cli import completion_values, console, options, session, syntax
from ioassay.errors import UsageError
from ioassay.hints import nearest
from ioassay.packs.history.commands import history_options

if TYPE_CHECKING:
    from ioassay.packs.history.trend import Trend

_OVER = ("time", "commit")
_COLUMNS = ("condition", "metric", "latest", "trend", "last change", "at the same time")


def show(
    study: Annotated[
        str, syntax.argument("STUDY", "A study of which the history has runs.", completion_values.studies)
    ],
    metric: Annotated[str | None, syntax.option("NAME", "This metric only.", completion_values.responses)] = None,
    where: history_options.Where = None,
    since: history_options.Since = None,
    over: Annotated[str, syntax.option("", "Runs in order of time, or of commits.", metavar="|".join(_OVER))] = _OVER[
        0
    ],
    from_: Annotated[str, syntax.option("--from PLACE", f"The history. {history_options.PLACE_WORDS}")] = "",
    page: Annotated[Path | None, syntax.option("DIR", "The page's folder; by default runs/<time>-history.")] = None,
    markdown: Annotated[Path | None, syntax.option("FILE", "Also write a summary in Markdown.")] = None,
    json: options.Json = False,
) -> None:
    """Show a study over all its runs, with a page: where it changed, by how much, and what else did.

    Each host, condition and metric is a series. Runs on an unfit machine, and such whose claims the kernel contradicts,
    are not counted. What would have been found is said where nothing changed.

    Example: ioassay history show quick --since 90d
    """
    from ioassay import stats
    from ioassay.api import publication

    if over not in _OVER:
        raise UsageError(f"--over is '{over}', expected {' or '.join(_OVER)}{nearest(over, _OVER)}")
    moment, pairs = history_options.moment(since), history_options.pairs(where)
    with publication.figure_processes() as processes:
        stats.load_numpy()
        from ioassay.packs.history import history_store, trend, trend_page, trend_text

        store = history_store.open(from_)
        found = trend.of_study(store, study, metric, pairs, moment, over)
        if markdown is not None:
            _write(markdown, trend_page.hidden(trend_text.markdown(found)))
        path = trend_page.publish(found, page, _again(study, metric, where, since, over), processes)
    console.answer(lambda: {**trend_text.as_dict(found), "page": str(path)}, lambda: _say(found, path))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"--markdown {path}: cannot be written: {error.strerror}") from None


def _again(study: str, metric: str | None, where: Sequence[str] | None, since: str | None, over: str) -> str:
    """The command, without its places, which would show where people keep things."""
    import shlex

    named = [("--metric", metric), *(("--where", word) for word in where or ()), ("--since", since)]
    words = [word for option, value in named if value is not None for word in (option, value)]
    return shlex.join(["ioassay", "history", "show", study, *words, *(["--over", over] if over != _OVER[0] else [])])


def _say(found: Trend, page: Path) -> None:
    """The answer, the series, worst first, and where the page is, in session.MOST_LINES lines."""
    from ioassay.packs.history import trend_text

    head = console.wrapped(str(trend_text.headline(found)))
    for lead in trend_text.leads(found):
        head += console.wrapped(str(lead))
    room = session.MOST_LINES - len(head) - len((page, "header", "the rows left out"))
    known = trend_text.lines(found)
    rows = [tuple(vars(line).values()) for line in known[: max(room, 1)]]
    console.lines((*head, *(history_options.fitted(_COLUMNS, rows) if rows else ())))
    if left_out := len(known) - len(rows):
        console.line(f"… and {left_out} more series on the page" if left_out > 1 else "… and one more on the page")
    console.line(f"page    {page}")
