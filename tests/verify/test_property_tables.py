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


def test_the_document_shows_what_each_property_is_judged_by() -> None:
    assert tuple(properties.table()) == properties.PROPERTIES
    held(["property", "stated by", *WATCHED], [
        [name, row.stated_by, *(row.shown_by.get(level, "-") for level in WATCHED)] for name, row in ROWS
    ])  # fmt: skip
    assert {level for _, row in ROWS for level in row.shown_by} <= {*LEVELS, STRACE}


def test_the_document_has_the_reasons_for_each_verdict() -> None:
    rows = []
    for name, row in ROWS:
        told = {verdict: ", ".join(own) for verdict, own in row.outcomes.items()}
        others = "; ".join(f"{verdict}: {text}" for verdict, text in told.items() if verdict not in DENIALS)
        rows.append([name, *(told.get(verdict, "-") for verdict in DENIALS), others or "-"])
    held(["property", *DENIALS, "between CONFIRMED and INCOMPLETE, or PERTURBED"], rows)
    assert {category for _, row in ROWS for category in row.outcomes} <= set(CATEGORIES[1:])


def test_the_document_has_each_tolerance_and_why() -> None:
    held(["name", "value", "why"], [[f"`{name}`", shown(one), one.why] for name, one in tolerances.table().items()])
