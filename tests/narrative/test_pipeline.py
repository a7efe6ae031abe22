"""All questions over all studies, degenerate ones included; nothing crashes and everything is plain JSON."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ioassay.analysis import ANALYSES, OVERALL
from ioassay.analysis.descriptive import headline
from ioassay.errors import StudyError
from ioassay.narrative import NARRATORS
from ioassay.narrative.pipeline import analyse_all
from ioassay.pack import built_in
from ioassay.records.record import Environment
from ioassay.store.dataset import Dataset


def test_every_question_has_its_words() -> None:
    own = {name for pack in built_in().values() for name in pack.lists.get("analyses", ())}
    assert [*NARRATORS] == [name for name in (*ANALYSES, *OVERALL) if name not in own]


def full(lab: Any, repetitions: int = 4) -> Dataset:
    rng = np.random.default_rng(1)
    first = lab.study(
        "first", factors={"rw": ["rw", "randrw"], "mix": [0, 25, 50, 100]}, responses=["read.bw", "write.bw"]
    )
    second = lab.study("second", case=[{"name": "a", "bs": "4KiB"}, {"name": "b", "bs": "8KiB"}], responses=[])

    def measure(point: Any, _: int) -> dict[str, Any]:
        share = point.get("mix", 40) / 100
        found: dict[str, Any] = {}
        if share < 1:
            found["read.bw"] = 1e8 * (1 - share) * rng.lognormal(0, 0.02)
        if share > 0:
            found["write.bw"] = 1e8 * share * rng.lognormal(0, 0.02)
        found["_series"] = {name: value * rng.lognormal(0, 0.05, 30) for name, value in found.items()}
        found["_hist"] = [("read", kind, [1000, 2000, 9000], [50, 40, 10]) for kind in ("lat", "clat", "slat")]
        return found

    parts = lab.run(first, measure, repetitions), lab.run(second, measure, repetitions, first_order=100)
    return lab.records(*parts, host={"virtualisation": {"vm": "kvm"}})


def plain(findings: Any) -> str:
    return json.dumps([finding.as_dict() for finding in findings], allow_nan=False)


def test_every_question_is_answered_in_report_order(lab: Any) -> None:
    found = analyse_all(full(lab))
    assert list(dict.fromkeys(finding.study for finding in found)) == ["first", "second"]
    order = [finding.question for finding in found if finding.study == "first"]
    # Of simulations, choices, passes over a file, searches, hosts, replays, drives qualified or learned, calls.
    apart = {
        "reductions",
        "choice",
        "costs",
        "conditions",
        "database",
        "drive",
        "accountings",
        "tuned",
        "calls",
        "hosts",
        "load",
        "limits",
        "lateness",
        "qualification",
        "twin",
    }
    assert list(dict.fromkeys(order)) == [question for question in ANALYSES if question not in apart]
    assert {finding.severity for finding in found} <= {"info", "warning"}
    assert "NaN" not in plain(found)


def test_tables_are_rectangular_and_statements_are_sentences(lab: Any) -> None:
    for finding in analyse_all(full(lab)):
        assert finding.statement.rstrip(")").endswith(".") and finding.title, finding.title
        assert "  " not in finding.statement and "None" not in finding.statement, finding.statement
        for table in finding.tables:
            assert {len(row) for row in table.rows} == {len(table.columns)}, finding.title
            assert len(table.metrics) in (0, len(table.columns))


def test_the_same_records_give_the_same_findings(lab: Any) -> None:
    assert plain(analyse_all(full(lab))) == plain(analyse_all(full(lab)))


def with_questions(records: Dataset, questions: list[str]) -> Dataset:
    first, *others = records.studies
    analysis = first.analysis.model_copy(update={"questions": questions})
    return replace(records, studies=[first.model_copy(update={"analysis": analysis}), *others])


def test_only_the_questions_asked_are_answered(lab: Any) -> None:
    records = with_questions(full(lab), ["caveats", "describe"])
    found = [finding.question for finding in analyse_all(records) if finding.study == "first"]
    assert list(dict.fromkeys(found)) == ["verdict", "describe", "caveats"]  # the first is asked always


def test_an_unknown_question_names_the_known_ones(lab: Any) -> None:
    records = with_questions(full(lab), ["describe", "prophesy"])
    with pytest.raises(StudyError, match=r"first: analysis\.questions.*'prophesy'.*describe"):
        analyse_all(records)


def test_every_listed_question_has_its_function() -> None:
    for module in ANALYSES.values():
        assert callable(importlib.import_module(module).analyse)


@pytest.mark.parametrize("repetitions", [1, 2, 3])
def test_few_repetitions_lose_no_report(lab: Any, repetitions: int) -> None:
    found = analyse_all(full(lab, repetitions))
    assert any(finding.question == "conclude" for finding in found)
    plain(found)


@pytest.mark.parametrize(
    "value",
    [
        lambda point, repetition: None,
        lambda point, repetition: {"read.bw": 5.0},
        lambda point, repetition: {"read.bw": 0.0},
        lambda point, repetition: {"read.bw": float(repetition)},
        lambda point, repetition: {"read.bw": -3.0 + repetition},
        lambda point, repetition: {"read.bw": float("inf") if repetition else 1.0},
        lambda point, repetition: {"read.bw": float("nan")},
        lambda point, repetition: {"read.bw": 1e-300 * (1 + repetition)},
        lambda point, repetition: {"read.bw": 1e300 * (1 + 0.01 * repetition)},
        lambda point, repetition: None if point["n"] == 2 else {"read.bw": 9.0 + repetition},
        lambda point, repetition: {"write.bw": 1.0},
        lambda point, repetition: {"read.bw": 7.0 + repetition} if repetition < point["n"] else None,
        lambda point, repetition: {"read.bw": 7.0 + repetition, "_series": {"read.bw": [4.0] * 40}},
        lambda point, repetition: {"read.bw": 7.0 + repetition, "_series": {"read.bw": [4.0]}},
        lambda point, repetition: {"read.bw": 7.0, "_hist": [("read", "lat", [5], [1])]},
        lambda point, repetition: {"read.bw": 7.0, "_hist": [("read", "lat", [5], [0])]},
    ],
    ids=lambda _: "",
)
@pytest.mark.filterwarnings("error")
def test_degenerate_data_are_answered_in_words(lab: Any, value: Any) -> None:
    study = lab.study(factors={"n": [1, 2, 4], "rw": ["rw", "randrw"]})
    plain(analyse_all(lab.records(lab.run(study, value, 4))))


def test_a_study_that_never_ran_has_nothing_to_say(lab: Any) -> None:
    ran, never = lab.study("ran"), lab.study("never", factors={"bs": ["4k"]})
    records = lab.records(lab.run(ran, lambda *_: {"read.bw": 1.0}, 2))
    object.__setattr__(records, "studies", [ran, never])
    assert {finding.study for finding in analyse_all(records)} == {"ran"}


def test_bounds_of_headline_rows_are_above_nothing(lab: Any) -> None:
    study = lab.study(factors={"bs": ["4KiB"]}, responses=["read.lat.p99"])
    values = [1e5, 1e5, 5e6]
    records = lab.records(lab.run(study, lambda _, r: {"read.lat.p99": values[r]}, 3))
    (row,) = headline(records, [study])
    assert 0 < row.ci95[0] < row.mean < row.ci95[1]


def test_a_table_of_all_studies_leaves_out_those_of_which_nothing_is_concluded(lab: Any) -> None:
    levels, busy = [1, 2, 4], Environment(1.0, 2, 0.1, 0.9, 0.0, 0.0, 0.0)
    studies = [lab.study(name, factors={"numjobs": levels}, lead="peak") for name in ("loud", "first", "second")]

    def measure(point: Any, repetition: int) -> dict[str, Any]:
        return {"read.bw": 1e8 * point["numjobs"] * (1 + 0.01 * repetition)}

    parts = [lab.run(one, measure, 4, first_order=100 * place) for place, one in enumerate(studies)]
    records = lab.records(*parts)
    loud = records.trials.filter(study="loud")["trial"]
    records = replace(records, environments=dict.fromkeys(loud, busy))
    (finding,) = [one for one in analyse_all(records) if one.question == "peaks"]
    assert [row[0] for table in finding.tables for row in table.rows] == ["first", "second"]
    assert "not quiet enough for a conclusion of loud" in finding.statement and not finding.withheld
    everything = replace(records, environments=dict.fromkeys(records.trials["trial"], busy))
    (finding,) = [one for one in analyse_all(everything) if one.question == "peaks"]
    assert finding.withheld and not finding.tables
