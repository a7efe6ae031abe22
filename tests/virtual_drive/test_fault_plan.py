"""Faults as people write them: what the core is told, and what is refused by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay.errors import InputError, IoassayError, UsageError
from ioassay.virtual_drive import fault_plan

PLAN = """
[[fault]]
kind = "read-error"
op = ["read"]
offset = "64MiB"
length = "1MiB"
probability = 0.01
scope = "page"
seed = 7
count = 3

[[fault]]
kind = "latency"
delay = "50ms"
after = "2s"
for = "500ms"
every = 10

[[fault]]
kind = "throttle"
rate = "100MB/s"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "faults.toml"
    path.write_text(text)
    return path


def test_a_file_has_sizes_durations_and_rates_with_their_units(tmp_path: Path) -> None:
    assert fault_plan.read(written(tmp_path, PLAN)) == [
        {
            "kind": "read-error",
            "op": ["read"],
            "offset_bytes": 64 << 20,
            "length_bytes": 1 << 20,
            "probability": 0.01,
            "scope": "page",
            "seed": 7,
            "count": 3,
        },
        {"kind": "latency", "delay_us": 50_000, "after_us": 2_000_000, "for_us": 500_000, "every_us": 10_000_000},
        {"kind": "throttle", "bytes_per_s": 100_000_000},
    ]


def test_words_are_files_or_one_fault(tmp_path: Path) -> None:
    path = written(tmp_path, '[[fault]]\nkind = "stuck"\n')
    words = ["kind=bit-rot", str(path), "bits=3", "op=read", "after=1.5"]
    assert fault_plan.of_words(words) == [
        {"kind": "stuck"},
        {"kind": "bit-rot", "bits": 3, "op": ["read"], "after_us": 1_500_000},
    ]
    assert fault_plan.of_words(["kind=stuck", "op=read,flush"])[0]["op"] == ["read", "flush"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no fault"),
        ("fault = 3", "has no fault"),
        ("fault = []", "has no fault"),
        ("x = 1", "x: unknown key; wanted tables"),
        ("[[fault]", "line 1"),
        ("[[fault]]\ncount = 1", r"fault\[0\]\.kind: is missing"),
        ('[[fault]]\nkind = "stuk"', r"fault\[0\]\.kind: .*stuck.*found 'stuk'"),
        ('[[fault]]\nkind = "stuck"\noffest = 1', r"fault\[0\]\.offest: unknown key; .*offset"),
        ('[[fault]]\nkind = "stuck"\noffset_bytes = 1', r"offset_bytes: unknown key"),
        ('[[fault]]\nkind = "stuck"\noffset = -1', r"fault\[0\]\.offset"),
        ('[[fault]]\nkind = "stuck"\noffset = true', "not a size"),
        ('[[fault]]\nkind = "stuck"\nafter = "soon"', "not a duration"),
        ('[[fault]]\nkind = "stuck"\nafter = [1]', "not a duration"),
        ('[[fault]]\nkind = "stuck"\nprobability = nan', r"fault\[0\]\.probability"),
        ('[[fault]]\nkind = "stuck"\nop = "swim"', r"fault\[0\]\.op"),
        ('[[fault]]\nkind = "throttle"\nrate = "fast"', "not a size"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        fault_plan.read(written(tmp_path, text))
    assert str(tmp_path / "faults.toml") in str(raised.value)


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        (["there-is-none.toml"], InputError, "there-is-none.toml: No such file"),
        (["kind=stuck", "kind=worn"], UsageError, "sets kind a second time, after stuck"),
        (["kind=stuck", "colour=red"], UsageError, "colour: unknown key"),
        (["delay=1s"], UsageError, "kind: is missing"),
    ],
)
def test_words_that_are_wrong_are_named(words: list[str], kind: type[IoassayError], said: str) -> None:
    with pytest.raises(kind, match=said):
        fault_plan.of_words(words)


def test_every_key_and_kind_is_in_the_documentation() -> None:
    text = (Path(__file__).parent.parent.parent / "docs" / "faults.md").read_text()
    kinds = fault_plan.Fault.model_fields["kind"].annotation.__args__  # type: ignore[union-attr]
    assert [name for name in (*kinds, *fault_plan.NAMES) if f"`{name}`" not in text] == []
