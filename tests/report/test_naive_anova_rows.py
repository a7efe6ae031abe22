"""The naive analyses of variance beside the one that counts."""

from __future__ import annotations

from ioassay.narrative.finding import Finding
from ioassay.report import study_sections

ONE_WAY = {"f": 1912.2, "p": 0.0, "df_between": 4, "df_within": 946}
AMONG = {"naive_different": 16, "corrected_different": 12, "conditions": 18}
BETWEEN = {
    "risk": 0.05,
    "all_samples": ONE_WAY,
    "per_repetition": [{**ONE_WAY, "p": 0.01}, {**ONE_WAY, "p": 0.2}],
    "repetitions": {**ONE_WAY, "df_within": 45, "p": 0.2},
    "repetitions_welch": {"f": 1.5, "p": 0.24, "df_between": 4, "df_within": 21.91},
}


def finding(question: str, statistics: dict) -> Finding:
    return Finding("jobs", question, "read.bw", "", "", statistics=statistics)


def test_what_each_analysis_says_stands_in_one_row() -> None:
    shown = study_sections.table([finding("stability", AMONG), finding("effect", BETWEEN)])
    assert shown is not None
    (row,) = shown.rows
    assert [cell.text for cell in row] == [
        "Read bandwidth",
        "16 of 18 conditions",
        "12 of 18 conditions",
        "p < 0.0001",
        "1 of 2 repetitions",
        "p = 0.24",
    ]
    assert (row[3].note, row[5].note) == ("F(4, 946) = 1910", "Welch F(4, 21.9) = 1.5")


def test_what_was_not_analysed_is_a_dash_and_a_test_that_does_not_exist_says_why() -> None:
    alone = {**BETWEEN, "repetitions": {"reason": "one repetition"}, "repetitions_welch": {"reason": "none"}}
    (row,) = study_sections.table([finding("effect", alone)]).rows  # type: ignore[union-attr]
    assert [cell.text for cell in row][1:3] == ["–", "–"]
    assert (row[5].text, row[5].note) == ("not tested", "one repetition")


def test_without_logs_there_is_no_table() -> None:
    assert study_sections.table([finding("describe", {})]) is None
