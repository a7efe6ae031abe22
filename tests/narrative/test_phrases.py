"""Numbers and names in plain English."""

from __future__ import annotations

from typing import Any

from corpora import cases
from ioassay import factors
from ioassay.narrative import phrases
from ioassay.narrative.say import FORMS, Quantity, Response
from ioassay.stats.result import Interval


@cases("units", "responses")
def test_a_response_reads_well_at_the_head_and_inside_a_sentence(case: dict[str, Any]) -> None:
    assert (phrases.name(case["response"]), phrases.inside(case["response"])) == (case["head"], case["inside"])


def test_a_percentile_has_its_article_within_a_sentence() -> None:
    assert f"{Response('read.lat.p99'):subject}" == "The 99th percentile of read total latency"
    assert (phrases.noun("read.bw"), f"{Response('cpu.usr'):subject}") == ("read bandwidth", "CPU usr")


def test_values_carry_their_unit() -> None:
    assert phrases.value("read.bw", 5e8) == "500 MB/s"
    assert phrases.value("read.iops", 14900.0) == "14.9 k IOPS"
    mean = Quantity("read.lat.p99", 1.5e5, Interval(1e5, 2e5, 0.9, "t"))
    assert f"{mean:interval}" == "150 µs (90 % interval 100 to 200 µs)"


def test_shares_never_round_to_a_whole_that_they_are_not() -> None:
    assert phrases.percent(0.023) == "2.3 %"
    assert phrases.percent(0.9999) == "more than 99 %"
    assert phrases.percent(1.0) == "100 %"
    assert phrases.percent(1.5) == "150 %"
    assert (phrases.points(1.05), phrases.points(-0.64, sign=True), phrases.points(0.2, sign=True)) == (
        "105",
        "-64",
        "+20",
    )
    assert (phrases.points(4.4e-7), phrases.points(-1e-9, sign=True), phrases.points(6e-5)) == ("0.00", "0.00", "0.006")


def test_small_p_values_are_bounded() -> None:
    assert FORMS["p"](1e-12) == "p < 0.0001"
    assert FORMS["p"](0.0321) == "p = 0.032"


def test_long_lists_are_cut_and_counted() -> None:
    assert phrases.listed([]) == "none"
    assert phrases.listed(["a"]) == "a"
    assert phrases.listed(["a", "b"]) == "a and b"
    assert phrases.listed(list("abcdef"), 4) == "a, b, c and 3 more"


def test_a_restriction_stands_before_its_sentence() -> None:
    assert phrases.placed({}, "Read bandwidth falls.") == "Read bandwidth falls."
    told = phrases.placed({"rw": "randrw", "case": "mixed"}, "Read bandwidth falls.")
    assert told == "With random access (randrw), mixed, read bandwidth falls."


@cases("levels", "phrases")
def test_levels_are_told_in_words(case: dict[str, Any]) -> None:
    assert factors.level_phrase(case["factor"], case["level"]) == case["says"]


@cases("levels", "names")
def test_factors_are_told_in_words_and_unknown_options_as_they_are_typed(case: dict[str, Any]) -> None:
    assert factors.factor_label(case["factor"]) == case["says"]


def test_a_level_is_a_place_with_its_own_preposition() -> None:
    assert phrases.at("workers", 4) == "at 4 workers"
    assert phrases.at("run.scheduler", "rr:99") == "under rr (priority 99)"
    assert phrases.at("cache-fence", False) == "without cache fence"
    where = {"cache-fence": False, "cpu-method": "int16", "workers": 4}
    assert phrases.placed(where, "Rate falls.") == "Without cache fence, with method int16, 4 workers, rate falls."
    assert phrases.both("cache-fence", False, True) == "runs with and without cache fence"


def test_a_range_says_its_unit_once() -> None:
    assert phrases.span("read.bw", 4.1e8, 4.32e8) == "410 to 432 MB/s"
    assert phrases.span("read.bw", 9.5e5, 1.2e6) == "950 kB/s to 1.2 MB/s"
    assert phrases.span("read.iops", 896, 1070) == "896 IOPS to 1.07 k IOPS"
    assert phrases.span("read.iops", 70200, 85400) == "70.2 to 85.4 k IOPS"


def test_numbers_have_no_exponent_that_a_reader_must_undo() -> None:
    assert [phrases.plain_number(number) for number in (0.51513, 42.086, 4573.2, 19912.0)] == [
        "0.515",
        "42.1",
        "4570",
        "19900",
    ]
