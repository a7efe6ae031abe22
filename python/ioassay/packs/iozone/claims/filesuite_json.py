"""The JSON of `ioassay filesuite`, and its claims: each pass, in the order in which they were done.

Its text for people is rounded and not read. Passes have the names that IOzone's claims have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from ioassay import validation
from ioassay.errors import InputError
from ioassay.formats import Conventions
from ioassay.formats.text_rules import Tool
from ioassay.packs.iozone.claims.iozone_claims import PATTERNS
from ioassay.records.record import Claim
from ioassay.validation import LARGEST, Amount, Count, Whole

_ENGINES = {6: "stdio", 7: "stdio", 9: "psync", 10: "psync", 11: "pvsync", 12: "pvsync"}
"""How a test reaches the kernel; all others by read and write."""
_CLOCK_STEP_S = 1e-9
_INCOMPLETE = "is it whole, and as filesuite wrote it?"


@dataclass(frozen=True)
class Pass:
    """One pass of one worker, as far as it is read; `nanoseconds` is None where the pass has no result."""

    test: int
    name: str
    kind: str
    file_bytes: Whole
    asked_file_bytes: Whole
    record_bytes: Whole
    path: str
    status: str
    reason: str | None
    operations: Count
    bytes: Whole
    nanoseconds: Annotated[int, Field(ge=1, le=LARGEST)] | None
    includes: list[str]
    errors: Count
    direct: bool
    primed: bool
    silent_passes: Count
    prepared: bool
    resident_share: Amount | None
    mapped: bool = False


@dataclass(frozen=True)
class Group:
    """The same pass of all workers; without numbers where one of them has no result."""

    name: str
    span_ns: Whole | None = None
    bytes: Whole | None = None
    operations: Count | None = None


@dataclass(frozen=True)
class Report:
    """The look at a whole file after all passes."""

    differing_records: Count
    reason: str | None


@dataclass(frozen=True)
class Document:
    """What filesuite prints with --json."""

    passes: list[Pass]
    groups: list[Group]
    checked: list[Report]


_BEGINNING = re.compile(r'\{\s{0,8}"schema": \d{1,4},\s{0,8}"tool": "ioassay filesuite"')


def claims(document: Document) -> list[Claim]:
    """The claims of its document, failed passes left out."""
    return [_claim(each, each.nanoseconds) for each in document.passes if each.status == "ok" and each.nanoseconds]


def _claim(done: Pass, took_ns: int) -> Claim:
    seconds = took_ns / 1e9
    return Claim(
        source="filesuite",
        kind=done.kind,
        test=done.name.replace("_", "-"),
        operations=done.operations,
        bytes=done.bytes,
        seconds=seconds,
        rate_bytes_per_s=done.bytes / seconds,
        clock_step_s=_CLOCK_STEP_S,
        errors=done.errors,
        engine="mmap" if done.mapped else _ENGINES.get(done.test, "sync"),
        direct=done.direct,
        paths=(done.path,),
        paths_stated=True,
        file_bytes=done.file_bytes,
        record_bytes=done.record_bytes,
        pattern=PATTERNS.get(done.test, ""),
        includes=tuple(done.includes),
        primed=done.primed,
        silent_passes=done.silent_passes,
        unreported=("layout",) if done.prepared else (),
    )


def _of_text(text: str, words: Sequence[str]) -> list[Claim]:
    """The claims of its JSON; InputError when that is cut or was never asked for."""
    beginning = _BEGINNING.search(text)
    if beginning is None:
        raise InputError("filesuite's claims are read from its JSON: give it --json")
    document = validation.extent(text, beginning.start())
    return claims(validation.read(Document, document, "filesuite's output", _INCOMPLETE))


CLAIMS = Tool(
    "filesuite",  # never its program, which is ioassay or a Python; its output knows its name
    sign=_BEGINNING.search,
    claims=_of_text,
    missing="",
    silent=lambda text, words: True,
    CONVENTIONS=Conventions(passes=True, tests_are_work=True),
)
