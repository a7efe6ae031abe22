"""ioassay compare: is B faster than A, slower, the same, or do the data not decide?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay.cli import console, options, syntax
from ioassay.errors import UsageError

if TYPE_CHECKING:
    from ioassay.analysis.run_comparison import Comparison


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("compare")(compare)


def compare(
    a: Annotated[Path, syntax.Argument(metavar="A", help="The run to compare with (the baseline).")],
    b: Annotated[Path, syntax.Argument(metavar="B", help="The run to judge.")],
    margin: Annotated[
        str, syntax.Option(metavar="SHARE", help="Relative differences below this count as the same.")
    ] = "5%",
    confidence: Annotated[
        float, syntax.Option(min=0.5, max=0.9999, metavar="P", help="Confidence level of the intervals.")
    ] = 0.95,
    junit: Annotated[Path | None, syntax.Option(metavar="FILE", help="Also write JUnit XML, for CI.")] = None,
    json: options.Json = False,
) -> None:
    """Compare two runs statistically; exit 1 when B is slower."""
    from ioassay.analysis import run_comparison
    from ioassay.narrative import comparison_text
    from ioassay.store import frames
    from ioassay.store.run_folder import RunStore

    console.use_json(json)
    before, after = (frames.load(RunStore.open(root)) for root in (a, b))
    result = run_comparison.compare(before, after, margin=options.share("--margin", margin), confidence=confidence)
    if junit is not None:
        from ioassay.report.junit import junit_xml

        try:
            junit.write_text(junit_xml(result), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--junit {junit}: cannot be written: {error.strerror}") from None
    if not result.rows:
        raise UsageError(f"{a} and {b} share no condition with values, so there is nothing to compare")
    console.emit(comparison_text.as_dict(result)) if json else _say(result)
    if result.regression:
        raise console.Exit(1)


def _say(result: Comparison) -> None:
    from ioassay import metrics
    from ioassay.narrative import comparison_text
    from ioassay.stats.ratio_of_means import Ratio

    for difference in result.differences:
        console.note(f"warning: {comparison_text.warning(difference)}")
    rows = []
    for row in result.rows:
        shown = metrics.metric(row.response)
        ratio = f"{row.ratio.ratio:.3f}" if isinstance(row.ratio, Ratio) else "-"
        interval = f"{row.interval.low:.3f} … {row.interval.high:.3f}" if row.interval else ""
        means = [shown.format(row.mean_a), shown.format(row.mean_b)]
        rows.append([f"{row.study}: {row.label}", row.response, *means, ratio, interval, row.verdict])
    console.table(["condition", "metric", "A", "B", "B/A", "interval", "verdict"], rows)
    for side, missing in (("A", result.only_a), ("B", result.only_b)):
        for one in missing:
            console.note(f"only in {side}: {comparison_text.unmatched(one)}")
    console.line(f"\n{comparison_text.statement(result)}")
