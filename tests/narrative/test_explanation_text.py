"""The sentences of verdicts: one of each code, with numbers like those of a run."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import golden
from ioassay.narrative import explanation_text
from ioassay.narrative.finding import Finding
from ioassay.narrative.say import templates
from ioassay.records.record import Claim
from ioassay.verify.verdict import CATEGORIES, MATCH, Amount, Code, Property, Statement, Verdict, state

MIB = 2**20
AMOUNT = Amount(16384, 64 * MIB)
VALUES: dict[str, Any] = {
    "claimed": AMOUNT,
    "seen": Amount(8192, 32 * MIB, "files"),
    "extra": Amount(None, 80_000),
    "parts": (
        state(Code.CALLS, kind="read", number=16384, bytes=64 * MIB),
        state(Code.CALLS_UNCOUNTED, kind="write", bytes=16 * MIB),
    ),
    "bytes": 16 * MIB,
    "bytes_per_s": 64e6,
    "claimed_bytes_per_s": 128e6,
    "implied_per_s": 64e6,
    "claimed_per_s": 128e6,
    "seen_bytes_per_s": None,
    "difference_percent": 0.31,
    "lack": 0.5,
    "coverage": 0.916,
    "share": 0.031,
    "pattern": "random",
    "sequential": 0.996,
    "stride": 0.75,
    "ratio": 1.52,
    "low": 0.93,
    "high": 1.61,
    "metric": "read bandwidth",
    "name": "clat.mean",
    "kind": "read",
    "engine": "io_uring",
    "why": "no permission for bpf(2)",
    "files": ("/data/a", "/data/b"),
    "layers": ("counters", "block"),
    "engines": ("io_uring",),
    "servers": ("host-a", "host-b"),
    "names": ("direct", "engine"),
    "filesystems": ("tmpfs",),
    "devices": ("loop0",),
    "explanation": (state(Code.NO_SYNC),),
}
OTHERS: dict[Code, dict[str, Any]] = {
    Code.UNKNOWN_KIND: {"kind": "append"},
    Code.REQUESTS_OF_COMMAND: {"parts": (state(Code.REQUESTS, kind="read", number=16384, bytes=64 * MIB),)},
    Code.BYTES_APART: {"claimed": 67_108_864, "seen": 67_104_768},
    Code.SYNCS_FEWER: {"claimed": 3, "seen": 1},
    Code.OBSERVER_EFFECT_UNKNOWN: {"runs": 2},
    Code.CLOCK_LATE: {"late_s": 60e-6},
    Code.INTERVAL_WITH_MORE: {"parts": ("layout", "ramp")},
}


def number(name: str) -> float:
    """What a value that has no example is, by its unit."""
    units = {"_bytes": 3 * MIB, "_ns": 81_500, "_s": 0.5}
    return next((value for unit, value in units.items() if name.endswith(unit)), 7)


def example(code: Code) -> Statement:
    names = set(re.findall(r"{(\w+)", templates("explanation")[code]))
    return state(code, **{name: VALUES.get(name, number(name)) for name in names} | OTHERS.get(code, {}))


def test_sentences() -> None:
    made = [Finding("", "", "", code, explanation_text.text([example(code)])) for code in Code]
    made += [Finding("", "", "", name, templates("explanation")[name]) for name in CATEGORIES]
    golden.check("explanation", made)


def test_every_code_and_category_has_its_sentence() -> None:
    assert {*Code, *CATEGORIES} <= templates("explanation").keys()


@pytest.mark.parametrize(("ratio", "words"), [(1.031, "3.1 % too high"), (100, "100 times what it was")])
def test_a_rate_that_is_too_high_is_a_percentage_or_a_factor(ratio: float, words: str) -> None:
    assert words in explanation_text.text([state(Code.RATE_TOO_HIGH, ratio=ratio)])


@pytest.mark.parametrize(("matched", "said"), [(["mean", "p99"], "latency"), (["mean"], "latency in part")])
def test_latencies_of_which_some_were_not_judged_are_confirmed_in_part(matched: list[str], said: str) -> None:
    claim = Claim(source="fio", kind="read", test="", latency_ns={"mean": 1e5, "p99": 2e5})
    numbers = {f"{MATCH}{name}": True for name in matched}
    made = Verdict(
        "CONFIRMED",
        "",
        (),
        numbers,
        claim,
        properties=[Property("bytes", "CONFIRMED"), Property("latency", "CONFIRMED")],
    )
    assert explanation_text.by_property(made) == f"By property: CONFIRMED bytes, {said}."


def test_a_verdict_is_plain_json_and_warnings_say_so() -> None:
    notes = [state(Code.NO_RATE, warns=True)]
    made = explanation_text.as_dict(Verdict("CONFIRMED", "", (state(Code.NO_SYNC),), {"seen_bytes": 1}, notes=notes))
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert made["notes"] == ["Warning: It has no rate."]
