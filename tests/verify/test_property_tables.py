"""The tables of docs/verdicts.md are those of the code; IOASSAY_UPDATE_GOLDEN=1 writes them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from ioassay.records.observation import BLOCK, COUNTERS, LEVELS, STRACE, SYSCALLS
from ioassay.units import format_ns, format_size
from ioassay.verify import properties, tolerances
from ioassay.verify.verdict import CATEGORIES, CONTRADICTED, INCOMPLETE, UNSUBSTANTIATED

DOCUMENT = Path(__file__).parents[2] / "docs" / "verdicts.md"
DENIALS, WATCHED = (CONTRADICTED, UNSUBSTANTIATED, INCOMPLETE), (SYSCALLS, BLOCK, COUNTERS, STRACE)
ROWS = properties.table().items()
OF_ALL = ("EVENTS-LOST", "PRINTER-UNKNOWN")
"""Reasons for INCOMPLETE that every property has."""
MET = {
    *("cached_share", "amplified", "interval_share", "interval_s", "held_up_s", "latency_share", "latency_ns"),
    *("pattern_share", "working_set_share", "coverage", "lost", "probe_effect"),
}
"""Tolerances that the document shows; verdicts name them."""
FORMS = {"bytes": format_size, "seconds": lambda value: format_ns(value * 1e9), "nanoseconds": format_ns}


def held(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """That the document has this table."""
    lines = (f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
    text, table = DOCUMENT.read_text(), "\n".join(lines)
    begin = re.escape(f"| {' | '.join(head)} |\n")
    if os.environ.get("IOASSAY_UPDATE_GOLDEN"):
        DOCUMENT.write_text(re.sub(rf"{begin}(\|.*\n)*", lambda _: f"{table}\n", text))
    assert f"{table}\n\n" in DOCUMENT.read_text()


def shown(one: tolerances.Tolerance) -> str:
    measure, _, of = one.unit.partition(" ")
    if measure == "share":
        return f"{one.value * 100:g} % {of}"
    return " ".join([FORMS[measure](one.value), of]).strip() if measure in FORMS else f"{one.value:g} {one.unit}"


def merged(rows: Sequence[Sequence[str]], apart: int) -> list[list[str]]:
    """The rows, of which those that differ in the first `apart` cells only stand in one."""
    groups: dict[tuple[str, ...], list[Sequence[str]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[apart:]), []).append(row)
    return [
        [*map(", ".join, zip(*(row[:apart] for row in group), strict=True)), *same] for same, group in groups.items()
    ]


def test_the_document_shows_what_each_property_is_judged_by() -> None:
    assert tuple(properties.table()) == properties.PROPERTIES
    rows = [[name, row.stated_by, *(row.shown_by.get(level, "-") for level in WATCHED)] for name, row in ROWS]
    held(["property", "stated by", *WATCHED], merged(rows, 2))
    assert {level for _, row in ROWS for level in row.shown_by} <= {*LEVELS, STRACE}


def test_the_document_has_the_reasons_for_each_verdict() -> None:
    """Without those that every property can have, which the text below the table names."""
    for reason in OF_ALL:
        assert all(reason in row.outcomes[INCOMPLETE] for _, row in ROWS) and f"`{reason}`" in DOCUMENT.read_text()
    rows = []
    for name, row in ROWS:
        own = {
            verdict: ", ".join(each for each in said if each not in OF_ALL) for verdict, said in row.outcomes.items()
        }
        others = "; ".join(f"{verdict}: {text}" for verdict, text in own.items() if verdict not in DENIALS)
        rows.append([name, *(own.get(verdict) or "-" for verdict in DENIALS), others or "-"])
    held(["property", *DENIALS, "others"], merged(rows, 1))
    assert {category for _, row in ROWS for category in row.outcomes} <= set(CATEGORIES[1:])


def test_the_document_has_the_tolerances_that_users_meet_and_their_purpose() -> None:
    """The purpose is what the reason begins with, up to the measurement behind it."""
    known = tolerances.table().items()
    rows = [(name, shown(one), re.split(r"[:;] | \(", one.why)[0]) for name, one in known if name in MET]
    assert len(rows) == len(MET)
    held(["name", "value", "for"], [[f"`{name}`", value, purpose] for name, value, purpose in rows])
