"""The sentences on system calls, one answer for each outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import golden
from ioassay.analysis.system_calls import Outcome, Point, SystemCalls
from ioassay.narrative import storage_text


def point(
    level: Any, count: Mapping[str, int], *, factor: str = "workers", by: str = "bpf", speed: float = 1.0
) -> Point:
    levels = {} if level is None else {factor: level}
    return Point("t", levels, by, count, 0, float(sum(count.values())), 500.0, speed)


def answer(*points: Point, dominant: tuple[str, ...] = ("read",), ordered: bool = True) -> SystemCalls:
    return SystemCalls(points, dominant, ordered, uncounted=0, reasons=())


MANY = {f"call{number}": 1000 - number for number in range(20)}
ANSWERS = {
    Outcome.UNCOUNTED: [SystemCalls((), (), True, 2, ("no strace here",))],
    Outcome.HARDLY_ANY: [answer(point(1, {"read": 900, "mmap": 200}), point(2, {"read": 1300}))],
    Outcome.SINGLE: [answer(point(None, {"read": 100_000}))],
    Outcome.CONSTANT: [answer(point(1, {"read": 10_000}), point(2, {"read": 10_500}))],
    Outcome.VARIES: [
        answer(
            point(1, {"read": 50_000, "write": 49_000, "mmap": 1000}, speed=0.5),
            point(4, {"read": 110_000, "write": 90_000}, speed=0.5),
            dominant=("read", "write"),
        ),
        answer(point(1, {"read": 10_000}), point(2, {"read": 90_000}), point(4, {"read": 50_000})),
        answer(
            point("fifo:99", {"futex": 90_000}, factor="run.scheduler", by="strace", speed=0.05),
            point("other", {"futex": 30_000}, factor="run.scheduler", by="strace", speed=0.05),
            dominant=("futex",),
            ordered=False,
        ),
        answer(point(1, MANY), point(2, {"read": 7000}), dominant=()),
    ],
}


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_answers(outcome: Outcome) -> None:
    assert {one.outcome for one in ANSWERS[outcome]} == {outcome}


def test_sentences() -> None:
    golden.check("calls", [storage_text.system_calls(one) for answers in ANSWERS.values() for one in answers])


def test_tables_have_a_row_for_each_point_and_the_names_with_all_others() -> None:
    found = storage_text.system_calls(ANSWERS[Outcome.VARIES][-1])
    points, names = found.tables
    assert [row[0] for row in points.rows] == ["1 worker", "2 workers"]
    assert len(names.rows) == 9 and names.rows[-1][0] == "all others"
    assert names.columns == ["system call", "1 worker", "2 workers"]
    for column, total in ((1, sum(MANY.values())), (2, 7000)):
        assert sum(row[column] for row in names.rows) == pytest.approx(total)
