"""The registry of factors: when two levels are the same, the numbers behind them, and what they are called."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ioassay import factors, units
from ioassay.drivers.fio import fio_options
from ioassay.factors import Design, Kind, level_key, level_number, level_numbers, level_reading, same_level
from ioassay.records.record import Scalar
from ioassay.simulator import simulation_options

from .corpora import cases


@cases("levels", "same")
def test_levels_are_the_same_where_they_mean_the_same(case: dict[str, Any]) -> None:
    name, (level, other) = case["factor"], case["levels"]
    assert same_level(name, level, other) is same_level(name, other, level) is case["same"]
    assert factors.repeated_level(name, ["other", level, other]) == ((level, other) if case["same"] else None)
    assert factors.distinct_levels(name, [level, other]) == ((level,) if case["same"] else (level, other))


@cases("levels", "numbers")
def test_levels_of_one_kind_are_numbers_and_others_are_none(case: dict[str, Any]) -> None:
    name = case["factor"]
    if "levels" not in case:
        assert level_number(name, case["level"]) == case.get("number")
        return
    wanted = pytest.approx(case["numbers"]) if "numbers" in case else None
    assert (level_reading(name, case["levels"]), level_numbers(name, case["levels"])) == (case.get("kind"), wanted)


@cases("levels", "words")
def test_a_level_and_an_axis_are_called_as_people_read_them(case: dict[str, Any]) -> None:
    said = {
        "title": lambda: factors.axis_title(case["factor"]),
        "label": lambda: factors.level_label(case["factor"], case["level"]),
        "meaning": lambda: factors.level_meaning(case["factor"], case["level"]),
    }
    (kind,) = said.keys() & case.keys()
    assert said[kind]() == case[kind]


def test_nothing_is_the_same_as_no_level() -> None:
    assert not same_level("x", None, None) and not same_level("x", "None", None)


@pytest.mark.parametrize("name", ["case", "bs", "direct", "runtime", "run.affinity", "run.scheduler", "rw", "x"])
def test_every_level_is_the_same_as_itself_and_as_its_text(name: str) -> None:
    """Frames turn numbers into text where one of a column's levels is a word."""
    levels: list[Scalar] = [0, 1, 7, -1, 2.5, 1e-05, 2**62, "", "word", "4k", "50%", "1s", "9" * 5000, "٣", "1:2,3-4@5"]
    for level in (*levels, "1" * 400 + "k", "1" * 400 + "s", "5-", "0-99999", "fifo:x", ":", "\u00b2"):
        assert same_level(name, level, level) and same_level(name, level, str(level)), level


def test_truth_is_the_same_as_its_text_in_a_frame() -> None:
    for name in ("x", "direct", "fsync", "case", "bs"):
        assert same_level(name, True, "true") and same_level(name, False, "false")
        assert not same_level(name, True, False)


@pytest.mark.parametrize(("name", "texts"), [
    ("bs", ["512", "4k", "4KiB", "4kB", "1.5k", "64k", "1M", "1MiB"]),
    ("runtime", ["1", "1s", "1000ms", "1m", "60s", "90", "1.5m"]),
    ("thinktime", ["1", "1us", "1ms", "1000", "2s"]),
    ("rate_cycle", ["1", "1ms", "1s", "1000"]),
])  # fmt: skip
def test_levels_are_the_same_where_fio_is_given_the_same(name: str, texts: list[str]) -> None:
    for one, other in itertools.product(texts, repeat=2):
        assert same_level(name, one, other) is (fio_options.write(name, one) == fio_options.write(name, other))


def test_the_registry_knows_each_option_that_fio_takes_as_a_time_in_that_unit() -> None:
    for name, convert in fio_options._WRITERS.items():
        if convert.__qualname__.startswith("_time."):
            assert factors.factor(name).kind is Kind.DURATION, name
            assert same_level(name, "2s", convert("2s")), name


def test_the_registry_knows_the_flags_and_sizes_of_the_simulated_drive() -> None:
    for option in simulation_options.OPTIONS:
        if option.kind == simulation_options.FLAG:
            assert factors.factor(option.name).kind is Kind.SWITCH, option.name
        if option.kind == simulation_options.SIZE:
            assert factors.factor(option.name).kind is Kind.SIZE, option.name


def test_no_name_is_listed_twice() -> None:
    names = [name for entry in factors.FACTORS for name in (entry.name, *entry.aliases)]
    assert len(names) == len(set(names)), [name for name in names if names.count(name) > 1]


# A study's points


def test_a_design_finds_levels_however_they_are_spelled_and_keeps_the_order_of_the_study() -> None:
    design = Design({"bs": ["64k", "4KiB"], "x": [True, "word"]})
    rows: list[dict[str, Any]] = [{"bs": 4096, "x": "word"}, {"bs": "65536", "x": "true"}, {"bs": "8k", "x": "word"}]
    assert [design.point(row) for row in rows] == [
        {"bs": "4KiB", "x": "word"},
        {"bs": "64k", "x": True},
        {"bs": "8k", "x": "word"},
    ]
    assert [row["bs"] for row in sorted(rows, key=design.place)] == ["65536", 4096, "8k"]
    assert design.in_order("bs", [4096, None, "1M", "64KiB", "4k"]) == ["64KiB", "4k", "1M"]
    assert design.key({"bs": "4k", "x": "true"}) == design.key({"bs": "4KiB", "x": True})
    assert design.lists("bs", "64KiB") and not design.lists("bs", "8k")


def test_two_levels_that_mean_the_same_are_no_axis() -> None:
    assert factors.level_axis_numbers("x", ("1KiB", 1024)) is None
    assert factors.level_axis_numbers("x", ("1KiB", "2KiB")) == [1024, 2048]


def test_levels_of_one_number_have_one_key_where_their_factor_counts_bytes() -> None:
    for size_bytes in (512, 4096, 65536, 2**20, 3 * 2**20):
        shown = units.format_size(size_bytes).replace(" ", "")
        assert level_key("bs", shown) == level_key("bs", size_bytes) == str(size_bytes)
