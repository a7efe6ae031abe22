"""The level that a later study takes: the best, or the smallest of those that are as good."""

from __future__ import annotations

from typing import Any

from ioassay.analysis import conclusion


def choice(lab: Any, levels: dict[Any, float], noise: float = 0.001, **keys: Any) -> Any:
    study = lab.study(factors={"workers": list(levels), **keys.pop("factors", {})}, responses=["read.bw"], **keys)
    spread = (-1, 0, 1)
    measure = lambda p, n: {"read.bw": 1e8 * levels[p["workers"]] * (1 + noise * spread[n % 3])}  # noqa: E731
    return conclusion.choose(lab.records(lab.run(study, measure, 3)), study, "workers")


def test_the_best_level_is_taken_where_it_is_alone(lab: Any) -> None:
    found = choice(lab, {1: 1, 2: 2, 4: 3})
    assert (found.level, found.certain, found.response) == (4, True, "read.bw")


def test_a_level_that_nothing_distinguishes_is_the_smallest(lab: Any) -> None:
    found = choice(lab, {1: 1.0, 2: 1.02, 4: 1.01}, noise=0.3)
    assert (found.level, found.as_good) == (1, (1, 2, 4))


def test_places_that_are_those_of_the_later_study_count(lab: Any) -> None:
    study = lab.study(factors={"workers": [1, 2], "rw": ["read", "write"]}, responses=["total.bw"])

    def measure(p: Any, n: int) -> Any:
        better = (p["workers"] == 2) == (p["rw"] == "read")
        return {"total.bw": (2e8 if better else 1e8) * (1 + 0.001 * n)}

    records = lab.records(lab.run(study, measure, 3))
    levels = {rw: conclusion.choose(records, study, "workers", settings={"rw": rw}) for rw in ("read", "write")}
    assert {rw: found.level for rw, found in levels.items() if found} == {"read": 2, "write": 1}


def test_a_factor_without_records_has_no_level(lab: Any) -> None:
    study = lab.study(factors={"workers": [1, 2]}, responses=["read.bw"])
    assert conclusion.choose(lab.records(lab.run(study, lambda *_: None, 2)), study, "workers") is None


def test_a_single_repetition_gives_the_level_with_the_highest_value(lab: Any) -> None:
    study = lab.study(factors={"workers": [1, 2, 4]}, responses=["read.bw"])
    records = lab.records(lab.run(study, lambda p, _: {"read.bw": 1e8 * p["workers"]}, 1))
    found = conclusion.choose(records, study, "workers")
    assert found is not None and found.level == 4
