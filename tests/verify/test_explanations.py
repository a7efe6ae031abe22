"""Which facts are worth a note beside a true claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ioassay.records.observation import Calls, Observation, Requests, Session
from ioassay.records.record import Claim
from ioassay.verify import explanations
from ioassay.verify.claim_groups import Group
from ioassay.verify.device_traffic import Pool
from ioassay.verify.evidence import CALLS, FILES, Device, Evidence
from ioassay.verify.operation_counts import Expected

from .conftest import table

SIZE, COUNT = 10_000_000, 1000
LAYERS = ("block", "syscalls")
EXACT, WANTED = Evidence(FILES, COUNT, SIZE), Expected(COUNT, SIZE)


def notes(
    claim: dict[str, Any] | None = None,
    *,
    seen: Evidence = EXACT,
    pool: dict[str, Any] | None = None,
    device: dict[str, Any] | None = None,
    group: dict[str, Any] | None = None,
    layers: Sequence[str] = LAYERS,
    **observation: Any,
) -> int:
    """How many notes there are; none by default."""
    base: dict[str, Any] = {
        "kind": "read", "bytes": SIZE, "operations": COUNT, "claims": 1, "syncs": 0, "page_cache_bytes": None,
        "direct": None, "synced": None, "storage": True, "watched": True,
        "device": Device(
            **{"known": True, "own_bytes": SIZE, "own_requests": COUNT, "any_bytes": SIZE, **(device or {})}
        ),
    }  # fmt: skip
    changed = {"filesystems": ("ext4",), **(pool or {})}
    changed["filesystems"] = frozenset(changed["filesystems"])
    claims = [Claim("fio", **{"kind": "read", **(claim or {})})]
    made = Group(**{"places": [0], "claims": claims, "told_apart": True, **(group or {})})
    watched = Observation("bpf", "syscalls", layers, **observation)
    return len(explanations.notes(made, WANTED, seen, Pool(**{**base, **changed}), watched))


@pytest.mark.parametrize(
    ("seen", "claim", "number"),
    [
        (EXACT, {}, 0),
        (Evidence(CALLS, COUNT + 1, SIZE + 10, 256, 10), {}, 1),
        (Evidence(CALLS, COUNT + 1, SIZE + 11, 256, 10), {}, 0),
        (Evidence(CALLS, COUNT, SIZE, 256, 10), {}, 0),
        (Evidence(FILES, COUNT + 2, SIZE, calls=Calls(short=2)), {}, 1),
        (Evidence(FILES, COUNT + 2, SIZE, calls=Calls(short=1)), {}, 0),
        (Evidence(FILES, COUNT + 2, SIZE + 1, calls=Calls(short=2)), {}, 0),
        (Evidence(FILES, COUNT, SIZE, calls=Calls(errors=1)), {}, 1),
        (Evidence(FILES, COUNT + 1, SIZE), {"unreported": ("ramp", "end-of-file", "layout")}, 2),
        (EXACT, {"unreported": ("ramp",)}, 0),
        (EXACT, {"engine": "io_uring"}, 1),
    ],
)
def test_what_was_seen_beside_the_claim(seen: Evidence, claim: dict[str, Any], number: int) -> None:
    assert notes(claim, seen=seen) == number


DIRECT = Session(0, 1, 9, ["direct"], read=Calls(1, 1), write=Calls(1, 1, bytes=9))


@pytest.mark.parametrize(
    ("claim", "group", "number"),
    [
        ({}, {"layout": [DIRECT]}, 1),
        ({}, {"missing": ["/a"], "named": True}, 1),
        ({}, {"missing": ["/a"]}, 0),
        ({"primed": True, "silent_passes": 1}, {"one_pass": True}, 2),
        ({"primed": True, "silent_passes": 1}, {}, 0),
        ({"direct": True}, {"sessions": [DIRECT]}, 0),
        ({"direct": False}, {"sessions": [DIRECT]}, 1),
        ({"direct": None}, {"sessions": [DIRECT]}, 0),
        ({"direct": True}, {"sessions": [Session(0, 1, 9, ["read"], read=Calls(1, 1))]}, 0),  # a property of its own
        ({"direct": True}, {"sessions": [Session(0, 1, 9, ["read"])]}, 0),
        ({}, {"claims": [Claim("fio", "read")] * 2}, 1),
        ({}, {"claims": [Claim("fio", "read")] * 2, "one_pass": True}, 0),
    ],
)
def test_how_the_group_was_judged(claim: dict[str, Any], group: dict[str, Any], number: int) -> None:
    assert notes(claim, group=group) == number


SYNCED = {"kind": "write", "synced": True, "syncs": 5}


@table("explanations", "what_the_device_did_otherwise")
def test_what_the_device_did_otherwise(pool: dict[str, Any], device: dict[str, Any], number: int) -> None:
    assert notes(pool=pool, device=device) == number


@table("explanations", "fewer_requests_than_calls")
def test_fewer_requests_than_calls(pool: dict[str, Any], device: dict[str, Any], number: int) -> None:
    assert notes(pool=pool, device=device) == number


def test_what_could_not_be_watched() -> None:
    assert notes(layers=("syscalls",)) == notes(why="no permission") == notes(layers=("record",), why="x") == 1
    block = [Requests("8:0", "sda", True, "read", Calls(9, 9))]
    assert notes(health={"missed": 2}, block=block) == 1 and notes(health={"missed": 0}) == 0
