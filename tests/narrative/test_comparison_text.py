"""A comparison of two runs in words: every verdict, and what was not compared."""

from __future__ import annotations

import golden
from ioassay.analysis.run_comparison import DRIVES, MACHINE, Comparison, Difference, Row, Unmatched, Verdict
from ioassay.narrative import comparison_text
from ioassay.narrative.finding import Finding
from ioassay.stats.ratio_of_means import Ratio
from ioassay.stats.result import Interval, Undefined

NONE = Undefined("one repetition only")


def row(verdict: Verdict, ratio: float | None, response: str = "read.bw") -> Row:
    known = NONE if ratio is None else Ratio(ratio, Interval(ratio - 0.1, ratio + 0.1, 0.95, "t"), 0.05, 8.0, 0.01)
    needed = None if ratio is None else 12
    return Row("bs", {"bs": "4KiB"}, "bs=4KiB", response, 5, 5, 1e8, 8e7, known, 0.05, None, needed, None, verdict)


ROWS = (
    row(Verdict.SLOWER, 0.8),
    row(Verdict.SLOWER, 1.5, "read.lat.p99"),
    row(Verdict.FASTER, 1.3),
    row(Verdict.CHANGED, 2.0, "cpu.usr"),
    row(Verdict.SAME, 1.01),
    row(Verdict.UNDECIDED, 0.97),
    row(Verdict.UNDECIDED, None),
)
UNMATCHED = (Unmatched("bs", "bs=1MiB", "read.bw"), Unmatched("other"))
DIFFERENCES = (Difference("bs", "params.iodepth", 1, 32), Difference("host", "kernel.release", None, "7.0"))


def comparison(rows: tuple[Row, ...]) -> Comparison:
    return Comparison("a", "b", 0.05, 0.95, rows, UNMATCHED, (), (*DIFFERENCES, MACHINE, DRIVES))


def test_sentences() -> None:
    made = comparison(ROWS)
    text = comparison_text.as_dict(made)
    shown = [Finding("", "compare", "", "Comparison", text["statement"], caveats=[*text["only_a"], *text["warnings"]])]
    shown += [Finding("", "compare", one.response, one.verdict, comparison_text.reason(one, 0.05)) for one in made.rows]
    nothing = comparison_text.statement(comparison(()))
    golden.check("comparison", [*shown, Finding("", "compare", "", "Nothing in common", nothing)])


def test_the_worst_row_is_the_largest_loss() -> None:
    assert comparison(ROWS).worst == ROWS[1]
