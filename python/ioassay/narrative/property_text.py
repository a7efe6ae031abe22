"""The tables of docs/verdicts.md: what shows each property of a claim at each level, and what it can come to."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.narrative.say import templates
from ioassay.records.observation import BLOCK, COUNTERS, STRACE, SYSCALLS
from ioassay.verify.properties import EVIDENCE, OUTCOMES, PROPERTIES
from ioassay.verify.verdict import CONFIRMED, CONTRADICTED, INCOMPLETE, UNSUBSTANTIATED

_LEVELS = (SYSCALLS, BLOCK, COUNTERS, STRACE)
_DENIALS = (CONTRADICTED, UNSUBSTANTIATED, INCOMPLETE)


def evidence_table() -> str:
    """Property by level, in Markdown."""
    words = {"-": "-", **templates("property")}
    rows = [[name, words[name], *(words[EVIDENCE[name].get(level, "-")] for level in _LEVELS)] for name in PROPERTIES]
    return _markdown(["property", "stated by", *_LEVELS], rows)


def outcome_table() -> str:
    """Property by verdict, with the reasons, in Markdown."""
    rows = []
    for name in PROPERTIES:
        reasons = {category: ", ".join(found) or "-" for category, found in OUTCOMES[name].items()}
        others = [f"{category}: {found}" for category, found in reasons.items() if category not in _DENIALS]
        rows.append([name, *(reasons.get(category, "-") for category in _DENIALS), "; ".join(others) or "-"])
    return _markdown(["property", *_DENIALS, f"between {CONFIRMED} and {INCOMPLETE}, or PERTURBED"], rows)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
