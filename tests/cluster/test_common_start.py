"""One instant for several hosts: clocks that differ, and hosts that do not come."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioassay.cluster.common_start import ClockOffset, CommonStart, clock_offset


@given(
    ahead_s=st.floats(-1e4, 1e4),
    ways=st.lists(st.tuples(st.floats(1e-5, 0.5), st.floats(1e-5, 0.5)), min_size=12, max_size=12),
)
def test_an_offset_is_never_further_off_than_it_says(ahead_s: float, ways: list[tuple[float, float]]) -> None:
    """Whatever the ways there and back take, and however unequal they are."""
    now_s, left = [1.7e9], iter(ways)

    def ask() -> float:
        there_s, back_s = next(left)
        now_s[0] += there_s
        told_s = now_s[0] + ahead_s
        now_s[0] += back_s
        return told_s

    found = clock_offset(ask, lambda: now_s[0])
    assert abs(found.seconds - ahead_s) <= found.uncertainty_s + 1e-6  # of seconds since 1970 in double precision
    assert found.uncertainty_s == pytest.approx(min(there + back for there, back in ways) / 2, abs=1e-6)


def test_the_last_host_fixes_the_instant() -> None:
    start = CommonStart(["a", "b"])
    start.arrive("a", ClockOffset(5.0, 0.001))
    assert start.instant_s(0.01) is None
    start.arrive("b", ClockOffset(-5.0, 0.002))
    first = start.instant_s(0.01)
    assert first is not None
    assert start.instant_s(0.01) == first
    assert start.absent == ()


def test_the_others_do_not_wait_for_a_host_that_left() -> None:
    start = CommonStart(["a", "b", "c"], absent=["d"])
    start.arrive("a", ClockOffset())
    start.leave("b")
    waiting: list[float | None] = []
    thread = threading.Thread(target=lambda: waiting.append(start.instant_s(60)))
    thread.start()
    start.leave("c")
    thread.join(timeout=240)
    assert waiting[0] is not None
    assert start.absent == ("b", "c", "d")


def test_a_host_that_has_started_and_ends_is_not_absent() -> None:
    start = CommonStart(["a", "b"])
    for host in ("a", "b"):
        start.arrive(host, ClockOffset())
    start.leave("a")
    assert start.absent == ()
