"""The answer of a run in a few sentences: what a command ends with, and the page begins with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ioassay.narrative.finding import Finding
    from ioassay.study.model import Study

QUESTIONS = ("tuned", "reductions", "load", "conclude", "choice", "database", "accountings", "costs", "unclaimed")
"""Those that can answer for a study, the most telling first."""
OVERVIEWS = ("peaks", "choices")
"""Those that answer for all studies of a run, better than one after the other."""
NOTHING = "No conclusion is drawn from these trials; their numbers are in the report."
MEANS = "Means with 95 % intervals."
"""What is said below a table of them."""
_Part = TypeVar("_Part")


@dataclass(frozen=True)
class Answer:
    """What answers for a study; for the whole run where `study` is ''."""

    study: str
    title: str
    sentences: Sequence[str]


def answers(studies: Sequence[Study], findings: Sequence[Finding]) -> list[Answer]:
    """What answers for the run, or for each of its studies; none where nothing does."""
    titles = {study.name: study.title or study.name for study in studies}
    chosen = [[finding] for finding in findings if finding.question in OVERVIEWS]
    for study in titles if not chosen else ():
        own = [finding for finding in findings if finding.study == study]
        by_question = [[finding for finding in own if finding.question == question] for question in QUESTIONS]
        group = [finding for finding in own if finding.leads]
        group += next((found for found in by_question if found), [])
        chosen += [group] if group else []
    if chosen and all(finding.withheld for group in chosen for finding in group):
        return [Answer("", "", [NOTHING])]
    found = []
    for group in chosen:
        # The first statement of each finding, then what else they say; nothing of those that are withheld.
        known = [one for one in group if one.statements and not one.withheld] or group[:1]
        said = [[*map(str, one.statements)] for one in known]
        sentences = [*(first for first, *_ in said), *(sentence for _, *others in said for sentence in others)]
        found.append(Answer(group[0].study, titles.get(group[0].study, group[0].title), sentences))
    return found


def is_answer(finding: Finding) -> bool:
    """Whether it answers for a study or for the run."""
    return finding.leads or finding.question in (*QUESTIONS, *OVERVIEWS)


def premises(findings: Sequence[Finding]) -> list[str]:
    """What holds for all that is said of a run, sentences for the first line of it. They are never withheld."""
    return list(dict.fromkeys(text for one in findings for text in map(str, one.premises)))


def fitted(
    topics: Sequence[Sequence[_Part]], room: int, height: Callable[[_Part], int], rest: int = 0
) -> list[list[_Part]]:
    """The first parts of the topics, as evenly as there is room for, then the first topics; at least one part.

    `rest` is the height of what will be said of topics that are left out.
    """
    shown = [list(topic) for topic in topics]

    def taken() -> int:
        return sum(height(part) for topic in shown for part in topic) + (rest if len(shown) < len(topics) else 0)

    while taken() > room and any(len(topic) > 1 for topic in shown):
        max((topic for topic in shown if len(topic) > 1), key=lambda topic: sum(map(height, topic))).pop()
    while taken() > room and len(shown) > 1:
        shown.pop()
    return shown
