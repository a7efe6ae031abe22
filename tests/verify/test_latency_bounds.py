"""Claimed latencies against those of the calls, and against the interval that they are of."""

from __future__ import annotations

from typing import Any

import pytest

from ioassay.records.observation import Calls
from ioassay.records.record import Claim
from ioassay.verify.claim_groups import Group
from ioassay.verify.evidence import FILES, Evidence
from ioassay.verify.latency_bounds import judge_latency

from .conftest import table

MEAN_NS = 100_000


def judged(latency: dict[str, float], seen: Evidence | None = None, claims: int = 1, **claim: Any) -> tuple[str, bool]:
    """The reason of the fault, and whether there is a note."""
    made = Claim("fio", **{"kind": "read", "seconds": 1.0, "latency_ns": latency, **claim})
    faults, notes, _ = judge_latency(Group([0], [made] * claims, True), seen or timed())
    return faults[0].reason if faults else "", bool(notes)


def timed(calls: int = 1000, completed: int = 1000) -> Evidence:
    return Evidence(FILES, calls, 0, calls=Calls(calls, completed, sum_ns=MEAN_NS * completed), timed=True)


@table("latency_bounds", "a_mean_may_be_a_little_below_and_more_above")
def test_a_mean_may_be_a_little_below_and_more_above(mean_ns: float, fields: Any, wanted: tuple[str, bool]) -> None:
    assert judged({"mean": mean_ns}, **fields) == wanted


@pytest.mark.parametrize(
    ("latency", "fields", "wanted"),
    [
        ({"p99": 1.102e9}, {}, ("", False)),  # 10 % and 2 ms longer than the interval
        ({"p99": 1.102e9 + 1}, {}, ("IMPOSSIBLE-LATENCY", False)),
        ({"p99": 1.103e9}, {"clock_step_s": 1e-3}, ("", False)),
        ({"clat.p99": 2e9, "clat.mean": 2e9}, {}, ("", True)),
        ({"slat.p99": 2e9}, {}, ("", True)),
        ({"lat.p99": 2e9}, {}, ("IMPOSSIBLE-LATENCY", False)),
        ({"p99": 2e9}, {"kind": "keys"}, ("", False)),
        ({"p99": 2e9}, {"seconds": None}, ("", False)),
    ],
)
def test_no_operation_takes_longer_than_the_interval(latency: Any, fields: Any, wanted: tuple[str, bool]) -> None:
    assert judged(latency, **fields) == wanted


def test_which_latencies_are_judged() -> None:
    half = {"mean": 50_000.0}
    assert judged(half, timed(1000, 980)) == ("OTHER-LATENCY", False)
    assert judged(half, timed(1000, 979)) == ("", True)  # too few ends were seen
    assert judged(half, timed(1000, 0)) == ("", True)
    assert judged(half, Evidence(FILES, 1000, 0, calls=timed().calls)) == ("", True)
    assert judged(half, claims=2) == judged({"p50": 1.0}) == ("", False)


def test_the_numbers_of_latencies() -> None:
    group = Group([0], [Claim("fio", "read", latency_ns={"mean": 97_500.0})], True)
    _, _, numbers = judge_latency(group, timed(1000, 990))
    assert numbers == {"claimed_latency_ns": 97_500.0, "seen_latency_ns": MEAN_NS, "latency_coverage": 0.99}
