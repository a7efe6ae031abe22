"""What a search is for: bounds in the units of their metrics, and how far a value breaks them."""

from __future__ import annotations

import math

import pytest

from ioassay.errors import UsageError
from ioassay.tuning.objective import make_goal, parse_constraint


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("write.lat.p99 < 5ms", 5e6),
        ("write.lat.p99<=500us", 5e5),
        ("read.bw >= 100MB/s", 1e8),
        ("read.bw > 64MiB", 64 * 2**20),
        ("read.iops > 10k", 1e4),
        ("sim.hit_ratio > 50%", 0.5),
        ("sim.hit_ratio > 0.5", 0.5),
        ("cpu.usr < 80%", 80.0),
        ("rss_max < 1GiB", 2**30),
        ("real_time < 10", 10.0),
        ("extra.nanosecs_per_call < 2us", 2000.0),
        ("value > -3", -3.0),
    ],
)
def test_a_bound_is_read_in_the_unit_of_its_metric(text: str, bound: float) -> None:
    assert parse_constraint(text).bound == pytest.approx(bound)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("write.lat.p99 5ms", "METRIC < VALUE"),
        ("write.lat.p99 <", "METRIC < VALUE"),
        ("write.lat.p99 < 5", "with its unit"),
        ("write.lat.p99 < 5MB", "such as 500us"),
        ("read.bw > 100", "with its unit"),
        ("read.bw > 5ms", "such as 100MB/s"),
        ("read.iops > 5ms", "a number"),
        ("write.lt.p99 < 5ms", "did you mean 'write.lat.p99'"),
    ],
)
def test_a_bound_that_cannot_be_says_what_was_wanted(text: str, wanted: str) -> None:
    with pytest.raises(UsageError, match=wanted):
        parse_constraint(text)


def test_violations_are_shares_of_the_bound_on_either_side() -> None:
    below, above = parse_constraint("write.lat.p99 < 5ms"), parse_constraint("read.iops >= 1000")
    assert below.violation(6e6) == pytest.approx(0.2)
    assert below.violation(4e6) == pytest.approx(-0.2)
    assert above.violation(800) == pytest.approx(0.2)
    assert above.violation(1000) == 0
    assert below.violation(5e6) > 0, "less, not equal"
    assert below.violation(math.nan) == below.violation(None) == math.inf


def test_constraints_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        make_goal("read.bw", None, ["read.iops < 10", "read.iops > 20"])
    make_goal("read.bw", None, ["read.iops < 20", "read.iops > 10"])


def test_a_goal_wants_one_direction_and_warns_of_the_wrong_one() -> None:
    with pytest.raises(UsageError, match="both"):
        make_goal("read.bw", "write.bw")
    with pytest.raises(UsageError, match="neither"):
        make_goal(None, None)
    with pytest.raises(UsageError, match="did you mean 'read.bw'"):
        make_goal("read.bww", None)
    assert "lower is better" in (make_goal("read.lat.p99", None).warning or "")
    assert make_goal(None, "read.lat.p99").warning is None
    assert make_goal("bogo_ops", None).warning is None
