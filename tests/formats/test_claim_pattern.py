"""Claims that a user's regular expression finds in an output."""

from __future__ import annotations

import time

import pytest

from ioassay.errors import InputError, UsageError
from ioassay.formats import claim_pattern, user_pattern
from ioassay.formats.claim_pattern import GROUPS
from ioassay.records.record import Claim


def claims(pattern: str, text: str) -> list[Claim]:
    return claim_pattern.read(claim_pattern.parse(pattern), text)


def test_each_match_is_a_claim_in_the_order_of_the_text() -> None:
    text = "start\nREAD: 64 MiB in 0.50 s, 128.00 MiB/s\nWRITE: 8 MiB in 250 ms, 33.6 MB/s\n"
    pattern = (
        r"^(?P<kind>\w+): (?P<bytes>[\d.]+) (?P<bytes_unit>\w+) in (?P<seconds>[\d.]+ \w+), "
        r"(?P<rate>[\d.]+) (?P<unit>\S+)$"
    )
    read, write = claims(pattern, text)
    assert (read.kind, read.bytes, read.seconds, read.rate_bytes_per_s) == ("read", 2**26, 0.5, 2**27)
    assert (write.kind, write.bytes, write.seconds, write.rate_bytes_per_s) == ("write", 2**23, 0.25, 33.6e6)
    assert (read.source, write.source, write.clock_step_s) == ("user", "user", pytest.approx(0.001))
    assert (read.rate_unit_bytes, write.rate_unit_bytes) == (2**20, 2**20)  # whole MiB, which are not exact


@pytest.mark.parametrize(
    ("printed", "operations", "volume", "step"),
    [
        ("ops=16384 bytes=67108864", 16384, 2**26, 1.0),
        ("ops=16.4k bytes=67108864", None, 2**26, 1.0),
        ("ops=16384 bytes=64MiB", 16384, None, 1.0),
        ("ops=12k bytes=64.0MiB", None, 2**26, 2**20 / 10),
    ],
)
def test_what_was_rounded_is_claimed_as_such(
    printed: str, operations: int | None, volume: int | None, step: float
) -> None:
    (claim,) = claims(r"ops=(?P<ops>\S+) bytes=(?P<bytes>\S+)", printed)
    assert (claim.operations, claim.bytes, claim.rate_unit_bytes) == (operations, volume, pytest.approx(step))


@pytest.mark.parametrize(
    ("pattern", "text", "rate", "latency_ns"),
    [
        (r"(?P<rate>\d+) (?P<unit>\S+), (?P<latency>\d+us)", "5 MiB/s, 61us", 5 * 2**20, 61e3),
        (r"(?P<rate>\d+\S+), (?P<latency>\d+) (?P<unit>\w+)", "5MB/s, 61 ms", 5e6, 61e6),
        (r"(?P<unit>\S+) (?P<rate>\d+) (?P<latency>\d+)", "MBps 5 3", 5e6, 3e9),
        (r"(?P<rate_unit>\S+): (?P<latency>\d+)(?P<latency_unit>\w+) (?P<rate>\d+)", "kB/s: 7usec 9", 9e3, 7e3),
    ],
)
def test_a_unit_belongs_to_the_nearest_number(pattern: str, text: str, rate: float, latency_ns: float) -> None:
    (claim,) = claims(pattern, text)
    assert claim.rate_bytes_per_s == rate
    assert claim.latency_ns["mean"] == pytest.approx(latency_ns)


def test_files_syncs_and_records() -> None:
    (claim,) = claims(
        r"(?P<test>\w+) (?P<path>\S+): (?P<ops>\d+) of (?P<record>\S+), (?P<syncs>\d+) syncs",
        "t /a/b: 5 of 4KiB, 2 syncs",
    )
    assert (claim.test, claim.paths, claim.operations, claim.record_bytes, claim.syncs) == ("t", ("/a/b",), 5, 4096, 2)


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("(?P<bytes>", "no regular expression of Python"),
        ("(?P<megabytes>.)", "no group is called 'megabytes'.*bytes, ops, seconds, rate"),
        ("[0-9]+", "claims no number.*bytes, ops"),
        ("(?P<kind>read)", "claims no number"),
        ("(?P<bytes>1){1,99999999999999999999}", "no regular expression"),
        ("(?P<bytes>1)" + "x" * 2000, "2012 characters"),
    ],
)
def test_patterns_that_claim_nothing_are_refused_by_name(pattern: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        claim_pattern.parse(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "named"),
    [
        (r"(?P<bytes>\d+)", "none", "matches nothing"),
        (r"(?P<ops>\d)", "1" * 10_001, "more than 10000 times"),
        (r"(?P<bytes>\w+)", "many", "bytes is 'many'; wanted a number"),
        (r"(?P<bytes>\S+)", "5furlongs", "the unit 'furlongs'"),
        (r"(?P<seconds>\S+)", "5MB", "the unit 'MB'; wanted ns"),
        (r"(?P<ops>\S+)", "5Q", "the unit 'Q'; wanted k"),
        (r"(?P<bytes>\S+)", "9" * 25, "bytes is"),
        (r"(?P<kind>\w+) (?P<bytes>\d+)", "looked 5", "'looked' is no kind"),
    ],
)
def test_what_no_claim_can_be_is_refused(pattern: str, text: str, named: str) -> None:
    with pytest.raises(InputError, match=named):
        claims(pattern, text)


def test_a_pattern_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_pattern, "_MOST_CPU_S", 0.2)
    began = time.process_time()
    with pytest.raises(InputError, match="took more than 0.2 s of CPU time"):
        claims(r"(?P<bytes>(a|aa)+)$", "a" * 60 + "!")
    assert time.process_time() - began < 3
    assert claims(r"(?P<bytes>\d+)", "7")[0].bytes == 7


def test_every_group_can_be_used() -> None:
    for name in GROUPS:
        amount = "ops" if name == "bytes" else "bytes"
        assert claim_pattern.parse(rf"(?P<{name}>x)(?P<{amount}>y)").groups == 2
