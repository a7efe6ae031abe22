"""The tables of docs/verdicts.md are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay.narrative import property_text
from ioassay.records.observation import LEVELS, STRACE
from ioassay.verify.properties import EVIDENCE, OUTCOMES, PROPERTIES
from ioassay.verify.verdict import CATEGORIES

VERDICTS = Path(__file__).parents[2] / "docs" / "verdicts.md"


@pytest.mark.parametrize("table", [property_text.evidence_table, property_text.outcome_table])
def test_the_document_shows_the_tables_of_the_code(table: object) -> None:
    made = table()  # type: ignore[operator]
    assert made in VERDICTS.read_text(), f"docs/verdicts.md has another table; wanted\n{made}"


def test_every_property_has_its_rows() -> None:
    assert tuple(EVIDENCE) == tuple(OUTCOMES) == PROPERTIES
    assert {level for levels in EVIDENCE.values() for level in levels} <= {*LEVELS, STRACE}
    assert {category for outcomes in OUTCOMES.values() for category in outcomes} <= set(CATEGORIES[1:])
