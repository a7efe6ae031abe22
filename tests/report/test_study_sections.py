"""Numbers, facts and evidence as the page shows them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ioassay.analysis.descriptive import ConditionMean
from ioassay.narrative.finding import Finding, Table
from ioassay.report import run_facts, study_sections, tables, warnings
from ioassay.store.dataset import Dataset

from ..corpora import cases


@cases("units", "cells")
def test_cells_are_formatted_by_their_metric(case: dict[str, Any]) -> None:
    shown = tables.cell(case.get("value"), case.get("metric", ""))
    assert (shown.text, shown.number) == (case["text"], case.get("number", False))


def test_columns_of_numbers_are_set_to_the_right() -> None:
    shown = tables.shown(Table(["level", "n", "mean"], [["4k", 3, None], [8, 2, 1e6]], ["", "", "read.bw"]))
    assert [column.number for column in shown.columns] == [False, True, True]
    assert [[cell.number for cell in row] for row in shown.rows] == [[False, True, True]] * 2


def row(workload: str, metric: str, mean: float, ci95: tuple[float, float] | None) -> ConditionMean:
    return ConditionMean("jobs", workload, {}, metric, "", mean, mean, ci95, 3)


def test_a_word_in_a_column_of_numbers_stays_a_word() -> None:
    shown = tables.shown(Table(["", "write"], [["claim", 3], ["difference", 0.1], ["verdict", "CONFIRMED-CACHED"]]))
    assert [column.number for column in shown.columns] == [False, True]
    assert [row[1].number for row in shown.rows] == [True, True, False]


def test_trials_whose_twins_count_are_listed_and_not_missing(suite: Dataset, tmp_path: Path) -> None:
    planned = {name: 2 * number for name, number in suite.planned.items()}
    twins = replace(suite, traced=suite.trials.clone(), planned=planned)
    listed = run_facts.trials(twins, tmp_path)
    assert len(listed.rows) == 2 * suite.trials.height
    assert [count["absent"] for count in listed.counts] == [0] * len(suite.studies)
    assert sum(row.point.endswith("under the witness") for row in listed.rows) == suite.trials.height
    assert not [one for one in warnings.alerts(twins, []) if one.code == "trials-absent"]
    assert [one for one in warnings.alerts(replace(twins, traced=None), []) if one.code == "trials-absent"]


def test_trials_that_count_system_calls_are_listed_and_not_missing(suite: Dataset, tmp_path: Path) -> None:
    planned = {name: 2 * number for name, number in suite.planned.items()}
    counting = replace(suite, counting=suite.trials.clone(), planned=planned)
    listed = run_facts.trials(counting, tmp_path)
    assert sum(row.point.endswith("counting system calls") for row in listed.rows) == suite.trials.height
    assert [count["absent"] for count in listed.counts] == [0] * len(suite.studies)
    assert not [one for one in warnings.alerts(counting, []) if one.code == "trials-absent"]


def test_means_stand_side_by_side_where_every_condition_has_them() -> None:
    rows = [row(name, metric, 2e6, (1e6, 3e6)) for name in "ab" for metric in ("read.bw", "write.bw")]
    shown = tables.means(rows)
    assert [column.text for column in shown.columns] == ["Condition", "n", "Read bandwidth", "Write bandwidth"]
    assert shown.rows[0][2] == tables.Cell("2 MB/s", True, "1 to 3 MB/s", 2e6, (1e6, 3e6))


def test_means_stand_below_each_other_where_conditions_have_different_ones() -> None:
    rows = [row("a", "read.bw", 2e6, None), row("b", "write.bw", 2e6, (1e6, 5e6))]
    shown = tables.means(rows)
    names = ["Condition", "Metric", "n", "Value", "Median of the repetitions"]
    assert [column.text for column in shown.columns] == names
    assert [line[3].note for line in shown.rows] == ["no interval", "1 to 5 MB/s"]


def test_facts_of_any_depth_become_rows() -> None:
    host = {
        "cpu": {"model": "X", "turbo": True, "flags": ["a", "b"]},
        "disk": {"size_bytes": 4096, "devices": [{"name": "sda", "queue": {"scheduler": "none"}}]},
        "empty": {},
        "gathered_unix_s": 0.0,
        "schema": 1,
    }
    sections = {section: dict(rows) for section, rows in run_facts.sections(host).items()}
    assert sections["Processor"] == {"model": "X", "turbo": "yes", "flags": "a, b"}
    assert sections["Disk"]["size bytes"] == "4 KiB (4096 bytes)"
    assert sections["Disk"]["devices sda queue scheduler"] == "none"
    assert sections["More"] == {"gathered unix s": "1970-01-01 00:00:00 UTC", "schema": "1"}
    assert "Empty" not in sections


def test_the_machine_is_told_in_one_line() -> None:
    host = {
        "cpu": {"model": "X 9", "cores": 4},
        "kernel": {"name": "Linux", "release": "6.1"},
        "disk": {"mount": {"filesystem": "ext4"}, "devices": [{"name": "sda1"}, {"name": "sda", "model": "Fast"}]},
    }
    assert run_facts.summary(host) == "X 9 · 4 cores · Linux 6.1 · ext4 on Fast sda"
    assert run_facts.summary(host, {"nvmevirt"}) == "X 9 · 4 cores · Linux 6.1 · a drive of NVMeVirt"
    assert run_facts.summary(host, {"virtual", "file"}) == run_facts.summary(host)
    assert run_facts.summary({}) == ""


def test_evidence_is_read_from_the_record_of_a_run_that_was_moved(tmp_path: Path) -> None:
    folder = tmp_path / "trials" / "t1"
    folder.mkdir(parents=True)
    argv = ["fio", "--output=/old place/trials/t1/raw/fio.json", "--aux-path=/old place/trials/t1/raw", "/data/t1/raw"]
    (folder / "record.json").write_text(json.dumps({"command": argv, "raw": ["a b.json"]}))
    found = run_facts.evidence(tmp_path, "t1", tmp_path / "report")
    assert found.command.startswith("fio '--output=/old place/trials/t1/raw/fio.json'")
    assert found.template == "fio --output=RAW/fio.json --aux-path=RAW /data/t1/raw"
    assert found.files == {"a b.json": "../trials/t1/raw/a%20b.json"}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"command": 3, "raw": null}'])
def test_a_record_that_cannot_be_read_is_no_error_here(tmp_path: Path, content: str) -> None:
    folder = tmp_path / "trials" / "t1"
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(content)
    found = run_facts.evidence(tmp_path, "t1", tmp_path)
    assert found.command == ""
    assert found.problem or content.startswith('{"')


def test_a_trial_without_a_folder_has_no_evidence(tmp_path: Path) -> None:
    assert run_facts.evidence(tmp_path, "t1", tmp_path) == run_facts.Evidence()


def test_a_study_that_asks_for_no_conclusion_is_summed_up_by_its_rates(suite: Dataset) -> None:
    rows = [row("4k depth 1", "read.bw", 2e6, (1e6, 3e6))]
    rows += [row("4k depth 1", "read.lat.p99", 2e6, None)]
    told = study_sections.studies(suite, [], rows)[3]
    assert not told.groups
    assert told.summary == ["4k depth 1: read bandwidth 2 MB/s (95 % interval 1 to 3 MB/s)."]


def test_figures_that_are_missing_for_one_reason_are_one_alert() -> None:
    from ioassay.report.figures import Drawn

    def drawn(study: str, name: str, problem: str) -> Drawn:
        return Drawn(study=study, name=name, kind="trend", title="", spec={}, description="", problem=problem)

    found = warnings._missing_figures(
        [drawn("s", "a", "none ran"), drawn("s", "b", "none ran"), drawn("t", "c", "none ran")]
    )
    assert [one.text for one in found] == [
        "2 figures (a, b) have nothing to show: none ran",
        "Figure 'c' has nothing to show: none ran",
    ]


def test_an_alert_that_begins_with_a_key_keeps_it_as_it_is_typed() -> None:
    assert warnings.Alert("c", "run.scheduler = rr:99: runs on 1-3", "", "").sentence.startswith("run.scheduler")
    assert warnings.Alert("c", "the disk is busy", "", "").sentence == "The disk is busy"


def test_warnings_of_a_kind_are_one_with_the_others_below_it(suite: Dataset) -> None:
    texts = ["half 1 differs", "half 2 differs", "half 2 differs"]
    rows = [
        {"trial": f"t{n}", "study": "s", "code": "unsteady", "text": text, "remedy": "run longer"}
        for n, text in enumerate(texts)
    ]
    warned = replace(suite, warnings=pl.DataFrame(rows))
    (alert,) = [one for one in warnings.alerts(warned, []) if one.code == "unsteady"]
    assert (alert.text, alert.scope, alert.others) == (
        "half 2 differs",
        "3 trials of s",
        ["half 1 differs (1 trial of s)"],
    )


def test_the_pages_summary_has_five_sentences_at_most(suite: Dataset) -> None:
    found = [
        Finding(study.name, "conclude", "", "Conclusion", [f"Sentence {n} of {study.name}." for n in range(9)])
        for study in suite.studies
    ]
    shown = study_sections.summary(suite, found, study_sections.studies(suite, found, []))
    said = [sentence for answer in shown for sentence in answer.sentences]
    assert len(said) == 5
    assert [answer.study for answer in shown] == [study.name for study in suite.studies][: len(shown)]
    assert all(answer.sentences[0] == f"Sentence 0 of {answer.study}." for answer in shown)
