"""What is said of hosts, one golden text an outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from ioassay.narrative import finding, pipeline
from ioassay.narrative.finding import Finding
from ioassay.packs.hosts.questions import hosts_text
from ioassay.records.record import Environment, Program
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

from ...narrative import golden

TWENTY = [f"n{number:02}" for number in range(20)]
BUSY = Environment(1.0, 4, 0.2, 0.4, 0.0, 0.0, programs=(Program("rsync", 0.4),))
QUIET = Environment(1.0, 4, 0.2, 0.0, 0.0, 0.0)


def run(
    lab: Any,
    hosts: Sequence[str],
    speeds: Mapping[str, float] | None = None,
    *,
    repetitions: int = 5,
    together: bool = False,
    fails: Any = lambda *_: False,
    factors: Mapping[str, Sequence[Any]] | None = None,
    late_ns: float = 4e5,
    scatter: float = 0.02,
    busy: str = "",
    questions: Sequence[str] = ("hosts", "clients"),
) -> tuple[Dataset, Study]:
    rng = np.random.default_rng(1)
    names = ["read.iops", "read.lat.p99"]
    run = {"hosts": list(hosts), "together": together}
    study = lab.study(
        "fleet", responses=names, run=run, repetitions=repetitions, factors=factors, questions=list(questions)
    )

    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, Any] | None:
        if fails(point, repetition):
            return None
        speed = (speeds or {}).get(point["host"], 1.0) * rng.lognormal(0, scatter)
        values_ns = np.round(rng.lognormal(np.log(1e5 / speed), 0.3, 2000), -2).astype(int)
        return {
            "read.iops": 1e4 * speed,
            "read.lat.p99": float(np.quantile(values_ns, 0.99)),
            "start.late": late_ns * (point["host"] == hosts[-1]),
            "start.uncertainty": 1e5,
            "_hist": [("read", "lat", *np.unique(values_ns, return_counts=True))],
            "_environment": BUSY if point["host"] == busy else QUIET,
        }

    return lab.records(lab.run(study, measure, repetitions)), study


def said(records: Dataset, study: Study) -> list[Finding]:
    return hosts_text.analyse(records, study)


CASES: dict[str, dict[str, Any]] = {
    "hosts_one_slow_of_twenty": {"hosts": TWENTY, "speeds": {"n07": 0.85}},
    "hosts_none_slow": {"hosts": TWENTY, "scatter": 0.1},
    "hosts_all_equal": {"hosts": ["a", "b", "c"], "scatter": 0.002},
    "hosts_several_slow": {"hosts": TWENTY, "speeds": {f"n0{place}": 0.4 + place / 20 for place in range(6)}},
    "hosts_one_fast": {"hosts": TWENTY, "speeds": {"n03": 2.5}},
    "hosts_half_slow": {"hosts": ["a", "b", "c", "d"], "speeds": {"b": 0.7, "c": 0.7}},
    "hosts_one_apart": {"hosts": TWENTY, "speeds": {"n07": 0.5, "n11": 0.9}, "repetitions": 3},
    "hosts_several_apart": {"hosts": TWENTY, "speeds": {"n07": 0.5, "n11": 0.5}, "repetitions": 3, "scatter": 0.05},
    "hosts_two_apart": {"hosts": ["a", "b"], "speeds": {"b": 0.5}, "factors": {"bs": [4096, 8192]}, "repetitions": 2},
    "hosts_two": {"hosts": ["a", "b"], "speeds": {"b": 0.8}},
    "hosts_two_undecided": {"hosts": ["a", "b"], "scatter": 0.1},
    "hosts_once": {"hosts": ["a", "b", "c"], "repetitions": 1},
    "hosts_one_ended": {
        "hosts": ["a", "b", "c", "d"],
        "factors": {"bs": ["4KiB", "64KiB"]},
        "fails": lambda point, repetition: point["host"] == "d" and repetition > 1,
    },
    "hosts_one_without_a_good_trial": {
        "hosts": ["a", "b", "c"],
        "together": True,
        "fails": lambda point, _: point["host"] == "c",
    },
    "hosts_all_failed": {"hosts": TWENTY, "fails": lambda *_: True},
    "hosts_many_ended": {"hosts": TWENTY, "fails": lambda point, repetition: point["host"] < "n07" and repetition > 2},
    "hosts_one_disturbed": {"hosts": TWENTY[:6], "speeds": {"n03": 0.7}, "busy": "n03"},
    "hosts_together": {"hosts": ["a", "b", "c"], "speeds": {"c": 0.7}, "together": True},
    "hosts_together_in_part": {
        "hosts": ["a", "b", "c"],
        "together": True,
        "late_ns": 4e8,
        "factors": {"bs": ["4KiB", "16KiB", "64KiB"]},
        "fails": lambda point, repetition: (
            (repetition == 2 and point["host"] == "a") or point == {"host": "c", "bs": "64KiB"}
        ),
    },
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_of_hosts(lab: Any, name: str) -> None:
    golden.check(name, said(*run(lab, **CASES[name])))


def test_points_of_other_responses_have_a_table_of_their_own(lab: Any) -> None:
    study = lab.study(
        case=[{"name": "reads", "rw": "read"}, {"name": "writes", "rw": "write"}, {"name": "more", "rw": "randread"}],
        responses=["read.iops", "write.iops"],
        run={"hosts": ["a", "b"], "together": True},
        repetitions=2,
    )

    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        return {"write.iops" if point["case"] == "writes" else "read.iops": 100.0 + repetition}

    (finding,) = said(lab.records(lab.run(study, measure, 2)), study)
    *_, reads, writes = finding.tables
    assert [row[:2] for row in reads.rows] == [
        [case, host] for case in ("reads", "more") for host in ("a", "b", "all hosts")
    ]
    assert (reads.columns[3], writes.columns[3]) == ("Read IOPS", "Write IOPS")
    assert [row[3] for row in writes.rows] == [100.5, 100.5, 201.0]


def test_the_answer_of_a_run_begins_with_the_hosts_and_goes_on_with_its_own(lab: Any) -> None:
    records, study = run(lab, ["a", "b", "c"], {"c": 0.7}, factors={"bs": ["4KiB", "64KiB"]}, questions=())
    findings = pipeline.analyse_all(records)
    (answer,) = finding.answers([study], findings)
    assert answer.sentences[0].startswith("Host c is slow in read IOPS")
    assert any("block size" in sentence or "4 KiB" in sentence for sentence in answer.sentences)
    said = [finding for finding in findings if finding.question in ("effect", "peak", "conclude", "regression")]
    assert said and not any(finding.statistics.get("factor") == "host" for finding in said)


def test_a_disturbed_host_withholds_nothing_unless_half_of_all_are(lab: Any) -> None:
    one = pipeline.analyse_all(run(lab, ["a", "b", "c"], {"c": 0.7}, busy="b")[0])
    assert not any(finding.withheld for finding in one)
    half = pipeline.analyse_all(run(lab, ["a", "b"], {"b": 0.7}, busy="b")[0])
    (hosts,) = [finding for finding in half if finding.question == "hosts"]
    assert hosts.withheld and not hosts.tables
