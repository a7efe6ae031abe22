"""The tables of docs/verdicts.md are those of the code."""

from __future__ import annotations

from pathlib import Path

from ioassay.records.observation import BLOCK, COUNTERS, LEVELS, STRACE, SYSCALLS
from ioassay.verify.properties import EVIDENCE, OUTCOMES, PROPERTIES
from ioassay.verify.verdict import CATEGORIES, CONTRADICTED, INCOMPLETE, UNSUBSTANTIATED

DENIALS = (CONTRADICTED, UNSUBSTANTIATED, INCOMPLETE)


def shown(*head: str) -> dict[str, list[str]]:
    """Property -> the other cells of its row, in the table with this head."""
    text = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text()
    lines = text.split(f"| {' | '.join(head)} |", 1)[1].split("\n\n")[0].splitlines()[2:]
    return {name: cells for name, *cells in (line.strip("| ").split(" | ") for line in lines)}


def test_a_word_stands_for_each_basis_at_the_levels_that_show_a_property() -> None:
    levels = (SYSCALLS, BLOCK, COUNTERS, STRACE)
    table = shown("property", "stated by", *levels)
    assert tuple(table) == tuple(EVIDENCE) == PROPERTIES
    pairs = {pair for name in table for pair in zip(table[name][1:], map(EVIDENCE[name].get, levels), strict=True)}
    assert len({word for word, _ in pairs}) == len({basis for _, basis in pairs}) == len(pairs)
    assert {level for own in EVIDENCE.values() for level in own} <= {*LEVELS, STRACE}


def test_the_document_has_the_reasons_for_each_verdict() -> None:
    reasons = {name: {verdict: ", ".join(own) for verdict, own in OUTCOMES[name].items()} for name in PROPERTIES}
    assert shown("property", *DENIALS, "between CONFIRMED and INCOMPLETE, or PERTURBED") == {
        name: [
            *(own.get(verdict, "-") for verdict in DENIALS),
            "; ".join(f"{verdict}: {text}" for verdict, text in own.items() if verdict not in DENIALS) or "-",
        ]
        for name, own in reasons.items()
    }
    assert {category for own in OUTCOMES.values() for category in own} <= set(CATEGORIES[1:])
