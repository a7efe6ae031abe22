"""What the witness saw: its JSON form and back, and classes of calls as one."""

from __future__ import annotations

import json

import pytest

from ioassay.records.observation import (
    Calls,
    File,
    Histogram,
    Observation,
    Operation,
    Pattern,
    Requests,
    Session,
    from_dict,
)

READS = Calls(calls=3, completed=2, bytes=8, first_ns=10, last_ns=50, sum_ns=9, min_ns=4, max_ns=5)


def observation() -> Observation:
    return Observation(
        "bpf",
        "syscalls",
        ["block", "syscalls"],
        operations=[Operation("pread64", "read", READS, Histogram([4, 5], [1, 1]))],
        files=[File(0, "8:1", 12, "/data", "regular", "ext4", 4096)],
        sessions=[
            Session(
                0,
                5,
                60,
                ["read", "direct"],
                read=READS,
                first=READS,
                second_ns=20,
                ended_ns=55,
                read_pattern=Pattern(3, 2, stride_bytes=-4, unique_bytes=8, highest_bytes=8),
            )
        ],
        block=[Requests("8:0", "sda", True, "read", READS, 1, Histogram([4], [2]))],
        health={"lost": 0},
        counters={"rchar": 8.0},
        disks={"sda": {"reads": 3}},
        cost={"attach_s": 0.1},
    )


def test_an_observation_reads_back_from_json_as_it_was() -> None:
    assert from_dict(json.loads(json.dumps(observation().as_dict()))) == observation()
    stored = json.loads(json.dumps(observation().as_stored()))
    assert from_dict(stored) == observation()
    (session,) = stored["sessions"]
    assert not session.keys() & {"write", "write_pattern"}
    assert session["read_pattern"].keys() == {"calls", "sequential", "stride_bytes", "unique_bytes", "highest_bytes"}


def test_a_record_from_before_offsets_were_kept_has_none() -> None:
    table = observation().as_stored()
    del table["sessions"][0]["read_pattern"]
    (session,) = from_dict(table).sessions
    assert (session.read_pattern, session.write_pattern) == (None, None)
    table["sessions"][0]["read_pattern"] = 3
    with pytest.raises(ValueError, match="not an observation"):
        from_dict(table)


def test_what_a_later_version_adds_is_left_out_and_its_schema_refused() -> None:
    table = observation().as_dict()
    table["files"][0]["colour"] = "red"
    assert from_dict({**table, "colour": "red"}) == observation()
    with pytest.raises(ValueError, match="update ioassay"):
        from_dict({**table, "schema": 2})


@pytest.mark.parametrize("table", [{}, {"backend": "bpf"}, {**observation().as_dict(), "files": [{}]}, {"files": 3}])
def test_what_is_no_observation_is_said_to_be_none(table: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not an observation"):
        from_dict(table)


def test_two_classes_of_calls_add_up_whichever_comes_first() -> None:
    later = Calls(calls=1, completed=1, bytes=2, first_ns=5, last_ns=90, sum_ns=1, min_ns=1, max_ns=1)
    both = Calls(calls=4, completed=3, bytes=10, first_ns=5, last_ns=90, sum_ns=10, min_ns=1, max_ns=5)
    assert READS.plus(later) == later.plus(READS) == both
    assert READS.plus(Calls()) == Calls().plus(READS) == READS
