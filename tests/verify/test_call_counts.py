"""Calls counted one by one."""

from __future__ import annotations

from ioassay.records.observation import Calls
from ioassay.verify.witness.call_counts import Tally


def test_calls_add_up_to_what_was_seen() -> None:
    made = Tally()
    assert made.calls_seen() == Calls()
    for entry_ns, asked in ((50, 100), (20, 100), (70, 100), (90, 100)):
        made.issue(entry_ns, asked)
    made.complete(100, 100, 50, 65)
    made.complete(100, 0, 20, 60)  # the end of the file is short and no error
    made.complete(100, -5, 70, 71)
    assert made.calls_seen() == Calls(
        4, 3, errors=1, short=1, requested_bytes=400, bytes=100, first_ns=20, last_ns=71, sum_ns=56, min_ns=1, max_ns=40
    )


def test_a_clock_that_went_back_gives_no_negative_time() -> None:
    made = Tally()
    made.issue(0, 8)
    made.complete(8, 8, 10, 5)
    assert made.calls_seen() == Calls(1, 1, requested_bytes=8, bytes=8, last_ns=5)
