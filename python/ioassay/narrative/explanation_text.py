"""The sentences of verdicts: what each category means, and the explanation and the notes of one verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ioassay.narrative.say import Say, say, templates
from ioassay.verify.statement import Amount, Statement
from ioassay.verify.verdict import NOT_JUDGED, Verdict, rank


def meaning(category: str) -> str:
    """What a verdict of this category means."""
    return templates("explanation")[category]


def sentence(statement: Statement) -> Say:
    """One sentence, or two; a warning says that it is one."""
    own = Say(f"explanation.{statement.code}", {name: _typed(value) for name, value in statement.values})
    return say("explanation.warning", text=own) if statement.warns else own


def text(statements: Sequence[Statement]) -> str:
    """The sentences of an explanation."""
    return " ".join(str(sentence(statement)) for statement in statements)


def by_property(verdict: Verdict) -> str:
    """'By property: CONFIRMED operations, bytes; not judged pattern.'; '' where nothing could be judged."""
    names: dict[str, list[str]] = {}
    for each in sorted(verdict.properties, key=rank, reverse=True):
        names.setdefault(each.category, []).append(each.name)
    parts = [f"{category.replace(NOT_JUDGED, 'not judged')} {', '.join(among)}" for category, among in names.items()]
    return f"By property: {'; '.join(parts)}." if parts else ""


def as_dict(verdict: Verdict) -> dict[str, Any]:
    """The verdict as JSON, with its sentences."""
    return {
        **{name: getattr(verdict, name) for name in ("category", "reason")},
        "explanation": text(verdict.explanation),
        "numbers": dict(verdict.numbers),
        "claim": asdict(verdict.claim) if verdict.claim else None,
        "notes": [str(sentence(note)) for note in verdict.notes],
        "severity": verdict.severity,
        "properties": [
            {"name": each.name, "category": each.category, "reason": each.reason, "explanation": text(each.statements)}
            for each in verdict.properties
        ],
    }


def _typed(value: object) -> object:
    """A value of a statement as one that a sentence takes."""
    if isinstance(value, Statement):
        return sentence(value)
    if isinstance(value, tuple):
        return [_typed(part) for part in value]
    if not isinstance(value, Amount):
        return value
    numbers = {"operations": value.operations, "bytes": value.bytes}
    parts = [say(f"explanation.{name}", number=number) for name, number in numbers.items() if number is not None]
    place = f"amount_{value.source}"
    return say(f"explanation.{place if place in templates('explanation') else 'amount'}", parts=parts)
