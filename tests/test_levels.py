"""The numbers behind the levels of a factor: read alike for all of them, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ioassay.analysis.measurements import study_view
from ioassay.records.record import Scalar, level_kind, level_number, level_numbers


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
    assert (level_kind(levels), level_numbers(levels)) == (kind, pytest.approx(numbers))


@pytest.mark.parametrize(
    "levels", [["4KiB", "50%"], ["1s", "50%"], ["fifo:99", "1"], [True, False], [1, True], ["nan", 1], []]
)
def test_levels_of_different_kinds_and_words_are_none(levels: Sequence[Scalar]) -> None:
    assert level_kind(levels) is None and level_numbers(levels) is None


def test_a_level_alone_is_a_size_where_it_can_be() -> None:
    assert [level_number(level) for level in ("4m", "50%", "500ms", "other", None)] == [2**22, 50, 0.5, None, None]


def test_two_levels_that_mean_the_same_are_no_axis() -> None:
    assert study_view.numbers(("1KiB", 1024)) is None
    assert study_view.numbers(("1KiB", "2KiB")) == [1024, 2048]
