"""The registry of factors: when two levels are the same, the numbers behind them, and what they are called."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from ioassay import factors, units
from ioassay.drivers.fio import fio_options
from ioassay.factors import Design, Kind, level_key, level_number, level_numbers, level_reading, same_level
from ioassay.records.record import Scalar
from ioassay.simulator import simulation_options

SAME: list[tuple[str, Scalar, Scalar]] = [
    ("bs", "4k", "4KiB"),
    ("bs", "4k", 4096),
    ("bs", "4K", "4096"),
    ("bs", "4kB", 4000),
    ("bs", "4k,16k", "4096,16KiB"),
    ("blocksize", "1M", "1024KiB"),
    ("bssplit", "4k/30:16k/70", "4KiB/30:16384/70"),
    ("bsrange", "4k-64k", "4KiB-65536"),
    ("size", "50%", "50.0 %"),
    ("target.size", "1GiB", "1024M"),
    ("target.page", "2KiB", 2048),
    ("iodepth", 1, "1"),
    ("iodepth", 16, 16.0),
    ("iodepth", "1k", 1024),
    ("fsync", True, 1),
    ("direct", True, 1),
    ("direct", "yes", True),
    ("direct", 0, False),
    ("group_reporting", "1", True),
    ("sync", "none", 0),
    ("rw", "rw", "readwrite"),
    ("rw", "read:16k", "read:16KiB"),
    ("runtime", "1m", "60s"),
    ("runtime", 1, "1000ms"),
    ("thinktime", "1ms", 1000),
    ("rate_cycle", "2s", 2000),
    ("run.timeout", "2m", 120),
    ("run.cpu_limit", "50%", 0.5),
    ("run.affinity", "0-2", "2,0,1"),
    ("run.affinity", 3, "3"),
    ("run.scheduler", "FIFO:9", "fifo:09"),
    ("run.memory_limit", "1GiB", 2**30),
    ("feed", "batch:48@5ms", "batch:48@5000us"),
    ("feed", "scaled:0.5", "scaled:0.50"),
    ("target.precondition", "steady", 1.0),
    ("cache-fence", True, "true"),
    ("cache_fence", True, 1),
    ("x", 1, "1"),
    ("x", 1, 1.0),
    ("x", 2.5, "2.5"),
    ("x", "1.0", 1),
    ("x", "4k", "4KiB"),
    ("x", "1k", 1024),
    ("x", "1s", "1000ms"),
    ("x", "50%", "50 %"),
    ("x", "10MB/s", "10000kB/s"),
    ("x", True, "true"),
    ("x", 2**60 + 1, str(2**60 + 1)),
]
APART: list[tuple[str, Scalar, Scalar]] = [
    ("bs", "4k", "4kB"),
    ("bs", "4k", "4k,4k"),
    ("bs", "4k", "8k"),
    ("size", "50%", 50),
    ("iodepth", 1, 2),
    ("rw", "rw", "randrw"),
    ("direct", True, False),
    ("runtime", "1m", 2**20),
    ("thinktime", 1, "1s"),
    ("run.cpu_limit", "50%", 50),
    ("run.affinity", "0-2", "0,2"),
    ("target.precondition", "none", "full"),
    ("feed", "closed:4", "closed:32"),
    ("case", "1k", "1024"),
    ("case", "A", "a"),
    ("case", "1", "1.0"),
    ("target.path", "/mnt/a", "/mnt/A"),
    ("target.path", "1k", "1024"),
    ("filename", "1", "01"),
    ("logfile", "1k", "1024"),
    ("buffer_pattern", "4k", "4096"),
    ("x", "Fast", "fast"),
    ("x", 1, True),
    ("x", "007", "7"),
    ("x", "1.10", "1.1"),
    ("x", "1e3", 1000),
    ("x", "nan", "NaN"),
    ("x", "inf", "infinity"),
    ("x", "1_000", 1000),
    ("x", "1s", 1),
    ("x", "1m", "60s"),
    ("x", 2**60, 2**60 + 1),
    ("x", "", "0"),
]


@pytest.mark.parametrize(("name", "level", "other"), SAME)
def test_levels_that_mean_the_same_are_the_same(name: str, level: Scalar, other: Scalar) -> None:
    assert same_level(name, level, other) and same_level(name, other, level)
    assert factors.repeated_level(name, ["other", level, other]) == (level, other)
    assert factors.distinct_levels(name, [level, other]) == (level,)


@pytest.mark.parametrize(("name", "level", "other"), APART)
def test_levels_that_only_look_alike_stay_apart(name: str, level: Scalar, other: Scalar) -> None:
    assert not same_level(name, level, other) and not same_level(name, other, level)
    assert factors.repeated_level(name, [level, other]) is None


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


def test_what_a_level_means_is_said_with_its_unit() -> None:
    meant = [("bs", "4k"), ("runtime", "1m"), ("direct", 1), ("run.affinity", "2,1"), ("iodepth", "08"), ("x", "word")]
    assert [factors.level_meaning(*each) for each in meant] == [
        "4096 bytes",
        "60 s",
        "yes",
        "processors 1-2",
        "8",
        "word",
    ]


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


def test_an_axis_is_called_by_its_label_and_a_tools_own_option_as_it_is_typed() -> None:
    titles = {name: factors.axis_title(name) for name in ("bs", "bloom_bits", "policy")}
    assert titles["bs"] == "Block size"
    assert titles["bloom_bits"] == "bloom_bits"
    assert titles["policy"] == "Policy"


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


# The numbers behind levels


@pytest.mark.parametrize(
    ("levels", "kind", "numbers"),
    [
        ([1, 2, 4], "number", [1, 2, 4]),
        (["1", "2.5"], "number", [1, 2.5]),
        (["4KiB", "1MiB"], "size", [4096, 1048576]),
        ([0, "4KiB"], "size", [0, 4096]),
        (["10ms", "1s"], "duration", [0.01, 1]),
        (["30s", "2m"], "duration", [30, 120]),
        (["25%", "50 %", 100], "percent", [25, 50, 100]),
        (["10MB/s", "1GiB/s"], "rate", [1e7, 2**30]),
    ],
)
def test_levels_of_one_kind_are_numbers(levels: Sequence[Scalar], kind: str, numbers: Sequence[float]) -> None:
    assert (level_reading("x", levels), level_numbers("x", levels)) == (kind, pytest.approx(numbers))


@pytest.mark.parametrize(
    "levels", [["4KiB", "50%"], ["1s", "50%"], ["fifo:99", "1"], [True, False], [1, True], ["nan", 1], []]
)
def test_levels_of_different_kinds_and_words_are_none(levels: Sequence[Scalar]) -> None:
    assert level_reading("x", levels) is None and level_numbers("x", levels) is None


def test_a_level_alone_is_a_size_where_it_can_be() -> None:
    levels = ("4m", "50%", "500ms", "other", None)
    assert [level_number("x", level) for level in levels] == [2**22, 50, 0.5, None, None]


def test_a_time_is_no_size_and_a_name_is_no_number() -> None:
    assert level_numbers("runtime", ["1m", "2m"]) == [60, 120]
    assert level_numbers("thinktime", [500, "1ms"]) == pytest.approx([0.0005, 0.001])
    assert level_numbers("case", ["4k", "64k"]) is None and level_numbers("target.path", ["1", "2"]) is None


def test_two_levels_that_mean_the_same_are_no_axis() -> None:
    assert factors.level_axis_numbers("x", ("1KiB", 1024)) is None
    assert factors.level_axis_numbers("x", ("1KiB", "2KiB")) == [1024, 2048]


def test_levels_of_one_number_have_one_key_where_their_factor_counts_bytes() -> None:
    for size_bytes in (512, 4096, 65536, 2**20, 3 * 2**20):
        shown = units.format_size(size_bytes).replace(" ", "")
        assert level_key("bs", shown) == level_key("bs", size_bytes) == str(size_bytes)


def test_a_share_of_a_size_is_shown_as_it_is_written() -> None:
    assert factors.level_label("size", "10%") == "10 %"
    assert factors.level_label("bs", "4096") == "4 KiB"
