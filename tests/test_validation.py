"""Foreign JSON and TOML: what is read, and where a fault is said to be."""

from __future__ import annotations

from typing import Any

import pytest

from ioassay import validation
from ioassay.errors import InputError
from ioassay.validation import Whole


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"a = 1\nb = '\xff'\n", "line 2 is no UTF-8"),
        (b"a = 1\n\nc = " + b"9" * 5000, "line 3 has a number that is too long"),
        (b"a = " + b"9" * 5000 + b"\nb = 1\n", "line 1 has a number that is too long"),
        (b"\n\nc = " + b"9" * 5000, "line 3 has a number that is too long"),
        (b"a = " + b"[" * 5000, "too deep"),
        (b"a = 1\nb = \n", "line 2"),
    ],
)
def test_faults_of_toml_name_their_line(text: bytes, place: str) -> None:
    with pytest.raises(ValueError, match=place):
        validation.toml(text)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (dict[Whole, int], '{"x": 1}', "f: x: wanted"),
        (dict[str, list[int]], '{"x": [1, "2"]}', r"f: x\[1\]: wanted"),
        (int, '"x"', "f: it: wanted"),
        (int, "{", "f: is corrupted"),
    ],
)
def test_faults_of_json_name_their_place(kind: Any, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        validation.read(kind, text, "f")
    with pytest.raises(InputError, match="; look there$"):
        validation.read(kind, text, "f", "look there")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": [1, 18446744073709551616]}', r"a\[1\]"),
        ("-18446744073709551616", "it"),
        ('{"a": {"b": 1e1000}}', r"a\.b"),
    ],
)
def test_numbers_beyond_64_bits_are_refused_with_their_place(text: str, place: str) -> None:
    with pytest.raises(InputError, match=f"f: {place} is .*; wanted a number of at most 64 bits"):
        validation.table(text, "f")
    assert validation.read(Any, "[18446744073709551615, -18446744073709551615]", "f") == [2**64 - 1, 1 - 2**64]


def test_a_table_is_an_object() -> None:
    assert validation.table('{"a": 1}', "f") == {"a": 1}
    with pytest.raises(InputError, match=r"f: is \[1\]; wanted an object"):
        validation.table("[1]", "f")


def test_values_are_shown_at_a_readable_length() -> None:
    assert validation.shown("a" * 20) == f"'{'a' * 20}'"
    long = validation.shown("a" * 500)
    assert long.endswith("…") and long == f"'{'a' * (len(long) - 2)}…"
    assert (validation.shown(True), validation.shown([1])) == ("true", "[1]")


def test_a_name_that_is_almost_known_is_suggested() -> None:
    assert validation.suggestion("iodepht", ["bs", "iodepth"]) == "did you mean 'iodepth'?"
    assert validation.suggestion("zzz", ["b", "a"]) == "known here: a, b"
