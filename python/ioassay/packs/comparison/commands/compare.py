"""ioassay compare: is the second of two runs slower than the first?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay.cli import completion_values, console, options, session, syntax
from ioassay.errors import Contradicted, UsageError
from ioassay.hints import nearest

if TYPE_CHECKING:
    from ioassay.packs.comparison.comparison_results import Comparison
    from ioassay.packs.comparison.comparison_text import Line
    from ioassay.packs.comparison.run_comparison import FailOn


JUDGING = {
    "margin": syntax.row(str, "5%", "SHARE", "Relative differences below this count as the same."),
    "confidence": syntax.row(float, 0.95, "P", "Confidence level of the intervals.", min=0.5, max=0.9999),
    "fail_on": syntax.row(
        *(str, "known", "known|any|never"),
        "Exit 1 where B is slower and the scatter from run to run is known, on any loss of speed, or never.",
    ),
    "junit": syntax.row(Path | None, None, "FILE", "Also write JUnit XML, for CI."),
    "markdown": syntax.row(Path | None, None, "FILE", "Also write a summary in Markdown."),
}
"""How two runs are judged, and what for; `turns` judges alike."""


def register(app: syntax.Group) -> None:
    app.command()(compare)


@syntax.takes(JUDGING)
def compare(
    a: Annotated[Path, syntax.argument("A", "The run to compare with (the baseline).", completion_values.runs)],
    b: Annotated[
        Path | None,
        syntax.argument(
            "B", "The run to judge; with --history, A is judged where it is left out.", completion_values.runs
        ),
    ] = None,
    *,
    history: Annotated[
        str | None,
        syntax.option(
            "--history PLACE",
            "Judge by the scatter of earlier runs, and without B against them. PLACE as of `ioassay history`.",
            bare="",
        ),
    ] = None,
    output: Annotated[Path | None, syntax.option("DIR", "The page's folder; by default runs/<time>-compare.")] = None,
    json: options.Json = False,
    **given: Any,
) -> None:
    """Compare two runs statistically, with a page; exit 1 when B is slower.

    Two runs differ by themselves, too. By how much is known of turns (`ioassay turns`) and from a history; else a
    difference fails only with --fail-on any. Exit 4 when the kernel contradicts what a tool claimed. A machine that was
    not fit proves nothing: exit 0.

    Examples: ioassay compare runs/20260101-120000-quick runs/20260102-120000-quick --margin 3%;
    ioassay compare runs/20260102-120000-quick --history
    """
    if b is None and history is None:
        raise UsageError(f"{a}: is one run; expected another one to compare it with, or --history")
    judge(None if b is None else a, a if b is None else b, output, given, history)


def judging(given: Mapping[str, Any]) -> tuple[float, float, FailOn]:
    """Margin, confidence and what fails, of `JUDGING`; UsageError for what cannot be."""
    from ioassay.packs.comparison.run_comparison import FailOn

    if (how := given["fail_on"]) not in list(FailOn):
        raise UsageError(f"--fail-on {how}: expected {', '.join(FailOn)}{nearest(how, list(FailOn))}")
    return options.share("--margin", given["margin"]), given["confidence"], FailOn(how)


def judge(a: Path | None, b: Path, output: Path | None, given: Mapping[str, Any], history: str | None = None) -> None:
    """Judge two runs, or one and a history, as `JUDGING` was `given`, show what is found, and exit by it."""
    from ioassay import stats
    from ioassay.api import publication

    with publication.figure_processes() as processes:
        stats.load_numpy()
        from ioassay.api import run_results
        from ioassay.packs.comparison.comparison_results import Comparison

        before = None if a is None else run_results.open(a)
        found = Comparison(before, run_results.open(b), *judging(given), history)
        if given["junit"] is not None:
            _write("--junit", given["junit"], found.junit())
        if found.result.has_baseline and not found.result.rows:
            raise UsageError(
                f"{a or 'the history'} and {b} share no condition with values, so there is nothing to compare"
            )
        if given["markdown"] is not None:
            _write("--markdown", given["markdown"], found.markdown())
        page = found.publish(output, processes) if found.result.has_baseline else None
    report = None if page is None else str(page)
    console.answer(
        lambda: {**found.as_dict(), "report": report},
        lambda: _say(found, page) if page else console.line(found.verdict),
    )
    if found.result.contradicted:
        raise console.Exit(Contradicted.exit_code)
    if found.regression:
        raise console.Exit(1)


def _write(option: str, path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be written: {error.strerror}") from None


def _say(found: Comparison, page: Path) -> None:
    """The verdict, the worst rows, what else differs and where the page is, in session.MOST_LINES lines."""
    from ioassay.narrative import conditions_text, phrases
    from ioassay.packs.comparison import comparison_text

    result = found.result
    head = [*console.wrapped(str(comparison_text.headline(result))), str(comparison_text.account(result))]
    for letter, records in zip("AB", found.sides, strict=True):
        trust = conditions_text.trust(records)
        if trust is not None and trust.grade.name != "FIT":
            head += console.wrapped(f"{letter}: {trust.conditions}")
    notes = []
    if about := comparison_text.scatter(result):
        head += console.wrapped(str(about))
    if result.differences:
        first, *others = result.differences
        more = f" and {console.count(len(others), 'more difference')}, on the page" if others else ""
        notes.append(f"warning: {comparison_text.warning(first)}{more}")
    for letter, missing in comparison_text.only(result).items():
        if missing:
            notes.append(f"only in {letter}: {phrases.listed([*map(str, missing)], most=2)}")
    room = session.MOST_LINES - len(head) - len(notes) - len((page, "header", "the rows left out"))
    shown = comparison_text.lines(result, result.results[: max(room, 1)])
    columns = ("condition", "metric", "A", "B", "B/A", "interval", "verdict")
    console.lines((*head, *console.aligned(columns, [*map(_cells, shown)])))
    if left_out := len(result.results) - len(shown):
        console.line(f"… and {console.count(left_out, 'more row')} on the page")
    console.notes(notes)
    console.line(f"page    {page}")


def _cells(line: Line) -> list[str]:
    from ioassay.stats.contrasts import Ratio

    row, bounds = line.row, line.row.interval
    ratio = _ratio(row.ratio.ratio) if isinstance(row.ratio, Ratio) else "-"
    interval = f"{_ratio(bounds.low)} … {_ratio(bounds.high)}" if bounds else ""
    return [f"{row.study}: {row.label}", ", ".join(line.responses), *line.means, ratio, interval, line.verdict]


def _ratio(value: float) -> str:
    """With three decimals. The interval of few and scattered repetitions can be wider than anybody wants to read."""
    return "< 0.001" if 0 < value < 0.001 else "> 1000" if value > 1000 else f"{value:.3f}"
