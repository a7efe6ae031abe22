"""The few sentences that answer for a run: which findings are chosen, and what is left where room is short."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ioassay.narrative.finding import Answer, Finding, answers, fitted
from ioassay.narrative.say import say

STUDIES: Any = [SimpleNamespace(name="a", title="Which size?"), SimpleNamespace(name="b", title="")]


def finding(study: str, question: str, *statements: str, **parts: Any) -> Finding:
    return Finding(study, question, "", f"Title of {question}", statements, **parts)


def test_the_most_telling_question_of_each_study_answers() -> None:
    found = answers(
        STUDIES,
        [
            finding("a", "effect", "Never shown."),
            finding("a", "choice", "Not shown beside a conclusion."),
            finding("a", "conclude", "It rises.", "It rises by 3.5 MB/s at 4k."),
            finding("b", "choice", "B is best."),
        ],
    )
    assert found == [
        Answer("a", "Which size?", ["It rises.", "It rises by 3.5 MB/s at 4k."]),
        Answer("b", "b", ["B is best."]),
    ]


def test_each_finding_of_the_question_says_its_first_sentence_before_any_says_more() -> None:
    group = [finding("a", "reductions", f"{name} is lowest.", f"More of {name}.") for name in ("X", "Y")]
    assert answers(STUDIES, group)[0].sentences == ["X is lowest.", "Y is lowest.", "More of X.", "More of Y."]


def test_an_overview_answers_instead_of_the_studies() -> None:
    found = answers(STUDIES, [finding("a", "conclude", "A."), finding("", "peaks", "All peak at 4.")])
    assert found == [Answer("", "Title of peaks", ["All peak at 4."])]


def test_what_is_withheld_is_said_once_where_nothing_else_is_known() -> None:
    withheld = finding("a", "conclude", "Withheld.", withheld="Unfit.")
    assert answers(STUDIES, [withheld]) == [Answer("", "", [str(say("conclude.nothing"))])]
    found = answers(STUDIES, [withheld, finding("b", "conclude", "Known.")])
    assert [one.sentences for one in found] == [["Withheld."], ["Known."]]


def test_a_run_without_such_findings_has_no_answer() -> None:
    assert answers(STUDIES, [finding("a", "effect", "No answer.")]) == []


@pytest.mark.parametrize(
    ("room", "expected"),
    [(9, ["aaa", "bb"]), (4, ["aa", "bb"]), (3, ["a", "bb"]), (2, ["a", "b"]), (1, ["a"]), (0, ["a"])],
)
def test_room_is_shared_evenly(room: int, expected: list[str]) -> None:
    assert ["".join(topic) for topic in fitted(["aaa", "bb"], room, lambda _: 1)] == expected


def test_a_note_on_what_is_left_out_takes_room_too() -> None:
    assert fitted([["a"], ["b"], ["c"]], 2, lambda _: 1, rest=1) == [["a"]]
    assert fitted([], 2, lambda _: 1, rest=1) == []
