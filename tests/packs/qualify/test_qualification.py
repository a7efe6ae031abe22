"""A qualification: where a drive settles, what its tables hold, and every departure from the specification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ioassay.errors import UsageError
from ioassay.narrative.finding import Finding
from ioassay.narrative.pipeline import analyse_all
from ioassay.packs.qualify.qualification_study import Qualification
from ioassay.packs.qualify.questions.qualification import departures_of
from ioassay.packs.qualify.rounds import rounds
from ioassay.report import figures
from ioassay.store.dataset import Dataset
from ioassay.study import catalog, plan
from ioassay.study.model import Figure, Study, make_study

from ...corpora import cases
from ...lab import Lab
from ...report import charts

HOST = {
    "disk": {
        "devices": [
            {
                "name": "nvme0n1",
                "kind": "disk",
                "model": "Drive 1",
                "identity": "0123456789abcdef",
                "size_bytes": 1 << 30,
                "queue": {"write_cache": "write through", "logical_block_size": 512},
            }
        ]
    },
    "tools": {"fio": "fio-3.33"},
}
CLIFF = (50_000.0, 30_000.0, 12_000.0, 10_000.0, 10_100.0, 9_900.0, 10_000.0, 10_050.0)


def studies() -> dict[str, Study]:
    """Those of the specification, on a whole device that was formatted."""
    found = {}
    for study in catalog.load("qualify").studies:
        target = {"kind": "device", "path": "/dev/nvme0n1", "purge": "format", "prepare": study.target.prepare}
        until = study.until.model_dump(exclude_none=True)
        until |= {"written": 4 << 30} if "written" in until else {}
        found[study.name] = make_study(
            {**study.model_dump(exclude_none=True), "target": target, "until": until}, study.name
        )
    return found


def measured(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
    """A drive whose random 4 KiB writes fall off a cliff, of which a round writes 600 MB."""
    iops = CLIFF[min(repetition, len(CLIFF) - 1)]
    return {
        "total.iops": iops,
        "write.iops": iops,
        "total.bw": iops * 4096.0,
        "write.bytes": 6e8,
        "write.ios": 3.0,
        "write.lat.mean": 4e8 / iops,
        "write.lat.max": 9e9 / iops,
        "read.ios": 1.0,
        "read.lat.mean": 8e8 / iops,
        "read.lat.max": 1e10 / iops,
    }


def run(lab: Lab, only: Callable[[Study], Study] = lambda study: study, number: int = 8) -> Dataset:
    parts = [lab.run(only(study), measured, number) for study in studies().values()]
    return lab.records(*parts, host=HOST)


def findings(records: Dataset) -> dict[str, Finding]:
    return {finding.study: finding for finding in analyse_all(records) if finding.question == "qualification"}


def test_the_first_sentence_says_where_writes_settle_and_where_they_began(lab: Lab) -> None:
    found = findings(run(lab))
    assert str(found["write-saturation"].statements[0]) == "Random 4 KiB writes settle at 10 k IOPS (fresh: 50 k IOPS)."
    assert str(found["write-saturation"].statements[1]) == (
        "The writes come to 4.47 GiB in 8 rounds, 4.5 times the capacity."
    )
    assert [str(one) for one in found["iops"].statements] == [
        "Random 1 MiB reads settle at 10 k IOPS (8 rounds).",
        "Random 64 KiB requests (65 % reads) settle at 10 k IOPS (8 rounds).",
        "Random 4 KiB writes settle at 10 k IOPS (8 rounds).",
    ]


def test_what_is_not_steady_is_said_with_how_far_it_is(lab: Lab) -> None:
    found = findings(run(lab, number=5))["throughput-1m"]
    assert str(found.statements[0]) == (
        "Sequential 1 MiB writes are not in steady state after 5 rounds: at 91.8 MB/s, the last five vary by 178 % and "
        "drift by 178 %."
    )
    assert found.severity == "warning" and not found.statistics["attained"]


def test_tables_average_the_last_five_rounds_and_latencies_are_of_all_requests(lab: Lab) -> None:
    found = findings(run(lab))
    table = found["iops"].tables[0]
    assert table.columns[1:] == ["100/0", "95/5", "65/35", "50/50", "35/65", "5/95", "0/100"]
    assert [row[0] for row in table.rows] == [
        *("1 MiB", "128 KiB", "64 KiB", "32 KiB", "16 KiB", "8 KiB", "4 KiB", "512 B"),
    ]
    assert [cell for row in table.rows for cell in row[1:]] == pytest.approx([sum(CLIFF[3:]) / 5] * 56)
    mean, most = found["latency"].tables[:2]
    assert mean.rows[0][1] == pytest.approx(sum(5e8 / iops for iops in CLIFF[3:]) / 5)
    assert most.rows[0][1] == pytest.approx(1e10 / min(CLIFF[3:]))


def test_a_cell_without_a_value_says_why_and_the_omissions_have_the_reason(lab: Lab) -> None:
    def failing(point: Mapping[str, Any], repetition: int) -> dict[str, float] | None:
        return None if point["bs"] == "512" else measured(point, repetition)

    records = lab.records(lab.run(studies()["iops"], failing, 8), host=HOST)
    found = findings(records)["iops"]
    assert found.tables[0].rows[-1] == ["512 B", *["failed"] * 7]
    assert "the tool crashed" in str(found.omissions[0])


def test_a_run_as_specified_departs_in_nothing(lab: Lab) -> None:
    assert departures_of(run(lab)) == []


def test_every_departure_is_listed_with_the_tests_that_it_is_of(lab: Lab) -> None:
    def other(study: Study) -> Study:
        table = study.model_dump(exclude_none=True)
        if "rwmixread" in study.factors:
            table["factors"] = {"rwmixread": [100, 0, 65], "bs": ["4KiB", "64KiB", "1MiB"]}
        target = {"kind": "file", "path": "x", "size": "2GiB", "purge": "discard", "prepare": 1}
        return make_study({**table, "params": {**study.params, "runtime": "1s"}, "target": target}, study.name)

    found = {str(one.what): len(one.tests) for one in departures_of(run(lab, other, number=4))}
    assert found == {
        "a file in place of a device": 5,
        "a discard in place of a purge": 5,
        "preconditioned 1 time in place of 0": 1,
        "preconditioned 1 time in place of 2": 4,
        "rounds of 1 s in place of 1 min 0 s": 5,
        "2.24 GiB written in place of 8 GiB": 1,
        "no mixes of 95/5, 50/50, 35/65 and 5/95": 1,
        "no blocks of 128 KiB, 32 KiB, 16 KiB, 8 KiB and 512 B": 1,
        "no blocks of 8 KiB and 512 B": 1,
        "no steady state in 4 rounds": 4,
    }


def test_a_test_that_was_not_run_is_a_departure(lab: Lab) -> None:
    records = lab.records(lab.run(studies()["iops"], measured, 8), host=HOST)
    ((tests, what),) = [(one.tests, str(one.what)) for one in departures_of(records)]
    assert what == "a test that was not run" and len(tests) == 4 and "IOPS" not in tests


def test_rounds_run_in_the_order_of_the_specification() -> None:
    order = [trial.point for trial in plan.trials(catalog.load("qualify")) if trial.study == "iops"][:9]
    assert [point["bs"] for point in order[:8]] == ["1MiB", "128KiB", "64KiB", "32KiB", "16KiB", "8KiB", "4KiB", "512"]
    assert [point["rwmixread"] for point in order] == [100] * 8 + [95]


def test_the_figures_show_all_rounds_and_the_window_with_its_lines(lab: Lab) -> None:
    records = run(lab)
    drawn = {
        one.name: one
        for one in (figures.draw(records, study, figure) for study in records.studies for figure in study.figures)
    }
    assert {one.problem for one in drawn.values()} == {""}
    saturation = charts.styled(drawn["wsat_convergence"].spec, "mark")[0]
    places = [row["x"] for row in charts.rows(saturation)]
    assert places == pytest.approx([6e8 * (number + 1) / 2**30 for number in range(8)])
    window = drawn["iops_window"].spec
    heights = {row["line"]: row["y"] for layer in charts.layers(window) for row in charts.rows(layer) if "line" in row}
    assert heights["110 %"] / heights["90 %"] == pytest.approx(1.1 / 0.9, rel=1e-3)
    assert [row["x"] for row in charts.rows(charts.styled(window, "mean")[0])] == [4, 5, 6, 7, 8]


def test_a_window_is_of_one_condition(lab: Lab) -> None:
    records = run(lab)
    (study,) = (study for study in records.studies if study.name == "iops")
    drawn = figures.draw(records, study, Figure(kind="steady_window", name="a", y="total.iops"))
    assert drawn.problem == "56 conditions; choose one with the key `where`"


def test_a_study_without_rounds_has_neither_finding_nor_figure(lab: Lab) -> None:
    study = lab.study(figures=[{"kind": "convergence", "name": "a", "y": "read.bw"}])
    records = lab.records(lab.run(study, lambda point, repetition: {"read.bw": 1e8}, 3))
    assert rounds(records, study) is None and findings(records) == {}
    assert "has no rounds until steady state" in figures.draw(records, study, study.figures[0]).problem


@cases("qualify", "refused")
def test_what_cannot_be_qualified_is_refused(case: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=case["says"]):
        Qualification.of(tmp_path / case.get("path", "test"), **case.get("keys", {}))


def test_a_file_is_four_times_written_and_its_size_is_that_of_the_target(tmp_path: Path) -> None:
    first, *others = Qualification.of(tmp_path / "test", size="256MiB").suite.studies
    assert first.until is not None and first.until.written == 4 * 256 << 20
    assert Qualification.of(tmp_path / "test", size="1MiB", purge="none").left_out[0].code == "not-purged"
    assert first.target.prepare == "none" and {one.target.prepare for one in others} == {2}
