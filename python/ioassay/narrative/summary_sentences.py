"""The few sentences of a summary: what a study comes to, responses that behave alike told together.

Intervals and tests are left to the conclusion, whose sentences these shorten; nothing here is decided anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ioassay.analysis.effects.block_size_mix import Mix
from ioassay.analysis.effects.response_shape import Shape
from ioassay.analysis.measurements.cells import Cells
from ioassay.narrative import phrases, sentences
from ioassay.stats.ratio_of_means import Ratio

MOST = 4
"""More than this is not a summary; what is left out stands in the conclusion."""


@dataclass
class Summary:
    """Topics in the order in which they came up: quantity and factor -> response -> its parts_said."""

    _peaks: list[str] = field(default_factory=list)
    _lost: list[str] = field(default_factory=list)
    _shapes: dict[tuple[str, str], dict[str, dict[str, list[str]]]] = field(default_factory=dict)
    _pairs: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    _whole: list[str] = field(default_factory=list)

    def peak(self, told: str) -> None:
        """Where the best lies, in one place: what a study of peaks is about, so it comes first."""
        self._peaks.append(told)

    def lost(self, told: Sequence[str]) -> None:
        """What was not measured, and why: said whatever else there is to say."""
        self._lost += told

    def shape(self, part: Cells, curve: Shape) -> None:
        """A response over an ordered factor, in one place."""
        topic = self._shapes.setdefault((_quantity(part.response), curve.factor), {})
        parts_said = topic.setdefault(part.response, {})
        where = phrases.levels(part.where())
        ends = sentences.shape_ends(part, curve)
        parts_said.setdefault(sentences.shape_phrase(curve), []).append(
            f"{ends} {phrases.beside_text(where)}" if where else ends
        )

    def pair(self, found: Cells, factor: str, ratio: Ratio) -> None:
        """Two levels against each other."""
        alike, apart = self._pairs.setdefault(phrases.both(factor, *found.factors[factor]), ([], []))
        if sentences.alike(ratio):
            alike.append(phrases.inside(found.response))
        else:
            apart.append(sentences.average_sentence(found, factor, ratio))

    def mix(self, seen: str, one: Mix) -> None:
        """A mix of sizes: its mean beside those of its parts, and what mixing costs. Bandwidths only."""
        if isinstance(one.predicted, Ratio):
            self._whole.append(f"{seen} {phrases.capital(sentences.prediction(one.predicted))}")

    def whole(self, sentence: str) -> None:
        """A sentence that is short enough as it is."""
        self._whole.append(sentence)

    def told(self, conclusion: list[str]) -> list[str]:
        """At most `MOST` beside what was not measured; the first of the conclusion where no topic was told."""
        shapes = [_joined(topic) for topic in self._shapes.values()]
        pairs = [part for both, found in self._pairs.items() for part in _pair(both, *found)]
        return [*([*self._peaks, *shapes, *pairs, *self._whole] or conclusion)[:MOST], *self._lost]


def _quantity(response: str) -> str:
    return response.partition(".")[2]


def _joined(topic: dict[str, dict[str, list[str]]]) -> str:
    clauses: list[str] = []
    told: set[str] = set()
    for response, parts_said in topic.items():
        name = phrases.inside(response) if clauses else phrases.name(response)
        parts = [
            f"{'likewise' if phrase in told else phrase}, {' and '.join(dict.fromkeys(ends))}"
            for phrase, ends in parts_said.items()
        ]
        told.update(parts_said)
        clauses.append(f"{name} {_turn(list(parts_said)).join(parts)}")
    return f"{'; '.join(clauses)}."


def _turn(parts_said: list[str]) -> str:
    """`but` between parts_said that say something else; what rises and what tends to rise do not."""
    alike = any(all(f" {way}" in f" {phrase}" for phrase in parts_said) for way in ("rise", "fall"))
    return ", and " if alike else ", but "


def _pair(both: str, alike: list[str], apart: list[str]) -> list[str]:
    if not alike:
        return apart
    told = f"On average, no difference between {both} can be seen in {phrases.listed(alike)}."
    return [*apart, told]
