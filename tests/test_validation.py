"""Foreign JSON and TOML: what is read, and where a fault is said to be."""

from __future__ import annotations

from typing import Any

import pytest

from ioassay import hints, validation
from ioassay.errors import InputError
from ioassay.validation import Whole

from .corpora import cases

KINDS: dict[str, Any] = {"whole numbers": dict[Whole, int], "lists": dict[str, list[int]], "number": int}


@cases("validation", "faults")
def test_a_fault_of_a_text_is_said_with_its_place(case: dict[str, Any]) -> None:
    if "toml" in case:
        with pytest.raises(ValueError, match=case["place"]):
            validation.toml((case["toml"] + "9" * case.get("nines", 0) + case.get("behind", "")).encode("latin-1"))
    elif "kind" in case:
        for remedy, ending in (((), ""), (("look there",), ".*; look there$")):
            with pytest.raises(InputError, match=case["place"] + ending):
                validation.read(KINDS[case["kind"]], case["json"], "f", *remedy)
    else:
        with pytest.raises(InputError, match=case["place"]):
            validation.table(case["json"], "f")


def test_what_is_just_not_too_deep_or_too_large_is_read() -> None:
    assert validation.table('{"a": 1}', "f") == {"a": 1}
    assert validation.read(Whole, str(2**63 - 1), "f") == 2**63 - 1
    assert validation.read(Any, "[18446744073709551615, -18446744073709551615]", "f") == [2**64 - 1, 1 - 2**64]
    with pytest.raises(ValueError, match="too deep"):
        validation.toml(b"a = " + b"[" * 5000)


def test_values_are_shown_at_a_readable_length() -> None:
    assert hints.shown("a" * 20) == f"'{'a' * 20}'"
    long = hints.shown("a" * 500)
    assert long.endswith("…") and long == f"'{'a' * (len(long) - 2)}…"
    assert (hints.shown(True), hints.shown([1])) == ("true", "[1]")


def test_a_name_that_is_almost_known_is_suggested() -> None:
    assert hints.suggestion("iodepht", ["bs", "iodepth"]) == "did you mean 'iodepth'?"
    assert hints.suggestion("zzz", ["b", "a"]) == "known here: a, b"
