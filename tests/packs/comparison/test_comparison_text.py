"""A comparison of two runs in words: every verdict, and what was not compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ioassay.analysis.condition_comparison import Row, RunScatter, Verdict
from ioassay.narrative.finding import Finding
from ioassay.packs.comparison import comparison_text
from ioassay.packs.comparison.run_comparison import DRIVES, MACHINE, PROGRAMS, Comparison, Difference, Unmatched
from ioassay.stats.contrasts import Ratio
from ioassay.stats.result import Interval, Undefined

from ...corpora import cases
from ...narrative import golden

NONE = Undefined("one repetition only")


def row(verdict: Verdict, ratio: float | None, response: str = "read.bw") -> Row:
    known = NONE if ratio is None else Ratio(ratio, Interval(ratio - 0.1, ratio + 0.1, 0.95, "t"), 0.05, 8.0, 0.01)
    needed = None if ratio is None else 12
    return Row("bs", {"bs": "4KiB"}, "bs=4KiB", response, 5, 5, 1e8, 8e7, known, 0.05, None, needed, None, verdict)


ROWS = (
    row(Verdict.SLOWER, 0.8),
    row(Verdict.SLOWER, 1.5, "read.lat.p99"),
    replace(row(Verdict.DIFFERS, 0.9), scatter=RunScatter.UNKNOWN),
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
    shown += [Finding("", "compare", one.response, one.verdict, [comparison_text.reason(one)]) for one in made.rows]
    nothing = comparison_text.as_dict(comparison(()))["statement"]
    golden.check("comparison", [*shown, Finding("", "compare", "", "Nothing in common", nothing)])


@pytest.mark.parametrize(("unfit", "runs"), [(("A",), "in run A"), (("B",), "in run B"), (("A", "B"), "in either run")])
def test_no_conclusion_is_drawn_of_a_run_that_is_not_fit(unfit: tuple[str, ...], runs: str) -> None:
    made = replace(comparison(ROWS), unfit=unfit)
    sentence = f"No conclusion is drawn: the machine was not quiet enough {runs}."
    assert str(comparison_text.headline(made)) == sentence
    assert comparison_text.worst(made) is None
    text = comparison_text.as_dict(made)
    assert text["statement"] == f"{sentence} {comparison_text.account(made)}"
    assert str(comparison_text.account(made)) == "8 rows compared: withheld in 8."
    assert (text["unfit"], text["regression"], text["counts"]) == (list(unfit), False, made.counts)
    assert text["outcome"] == "not-comparable"


def test_no_conclusion_is_drawn_of_claims_that_the_kernel_contradicts() -> None:
    made = replace(comparison(ROWS), unfit=("A",), contradicted=("B",))
    assert str(comparison_text.headline(made)) == "No conclusion is drawn: the kernel contradicts claims of run B."
    text = comparison_text.as_dict(made)
    assert (text["outcome"], text["regression"], text["contradicted"]) == ("contradicted", False, ["B"])


@pytest.mark.parametrize("host", ["", "b"])
def test_two_builds_are_named_by_their_paths(host: str) -> None:
    builds = replace(PROGRAMS, a=["db_bench"], b=["/opt/new"], host=host)
    subject = f"host {host}" if host else "host"
    assert str(comparison_text.warning(builds)) == f"{subject}: A was measured with db_bench and B with /opt/new"


def test_the_worst_row_is_the_largest_loss() -> None:
    assert comparison(ROWS).worst == ROWS[1]


@cases("comparisons", "headlines")
def test_the_verdict_on_all_rows_is_one_word_and_one_sentence(case: dict[str, Any]) -> None:
    scatter = RunScatter(case.get("scatter", "none"))
    made = comparison(tuple(replace(row(Verdict(one), 1.0), scatter=scatter) for one in case["verdicts"]))
    assert made.outcome == case["outcome"] and str(comparison_text.headline(made)) == case.get("says", "")


@cases("comparisons", "changes")
def test_a_change_is_in_percent_and_a_large_one_a_factor(case: dict[str, Any]) -> None:
    ratio, *ends = case["ratio"]
    known = Ratio(ratio, Interval(*ends, 0.95, "t"), 0.05, 8.0, 0.01)
    assert comparison_text.change(replace(ROWS[0], ratio=known)) == case["says"]


def test_responses_are_named_in_brief() -> None:
    rows = [row(Verdict.SAME, 1.0, name) for name in ("read.lat.p99.9", "write.iops", "write.clat.p99", "cpu.usr")]
    names = [comparison_text.responses([one]) for one in rows]
    assert names == ["read p99.9 latency", "write IOPS", "99th percentile of write completion latency", "CPU usr"]
    assert comparison_text.responses(rows[:2]) == "read p99.9 latency and write IOPS"


def test_a_row_says_why_it_is_not_decided() -> None:
    assert comparison_text.reservation(row(Verdict.UNDECIDED, 0.97)) == "needs about 12 repetitions"
    assert comparison_text.reservation(row(Verdict.UNDECIDED, None)) == "one repetition only"
    assert comparison_text.reservation(row(Verdict.SAME, 1.0)) == ""
