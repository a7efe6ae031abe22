"""What each access path costs: the parts add up to the claimed latency, and the setting is what was loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ioassay.narrative import finding
from ioassay.narrative.pipeline import analyse_all
from ioassay.narrative.say import say
from ioassay.packs.virtual_drive.questions import path_costs
from ioassay.packs.virtual_drive.questions.path_costs import Cost, PathCosts, Setting
from ioassay.records.record import Environment
from ioassay.study.model import Study

from ...narrative import golden

VIRTUAL = {"kind": "virtual", "size": 2**28}
CASES = [
    {"name": "psync", "ioengine": "psync", "target.form": "kernel"},
    {"name": "libaio", "ioengine": "libaio", "target.form": "kernel"},
    {"name": "spdk", "ioengine": "spdk_bdev", "target.ways": ["nvme-tcp"]},
]
OF_CASE: Mapping[str, Mapping[str, float]] = {
    "psync": {"read.lat.mean": 30e3, "read.clat.mean": 30e3, "drive.floor": 9e3, "drive.block_device": 0.0},
    "libaio": {
        "read.lat.mean": 36e3,
        "read.slat.mean": 2e3,
        "read.clat.mean": 34e3,
        "drive.floor": 9e3,
        "drive.block_device": 0.0,
    },
    "spdk": {
        "read.lat.mean": 14e3,
        "read.slat.mean": 0.5e3,
        "read.clat.mean": 13.5e3,
        "drive.floor": 10e3,
        "drive.block_device": 0.0,
    },
}


def study(lab: Any, name: str = "access-paths-jobs", **keys: Any) -> Study:
    keys = {"target": VIRTUAL, "case": CASES, "factors": {"rw": ["randread"], "numjobs": [1, 4]}, **keys}
    made: Study = lab.study(name, lead="choice", responses=["total.iops"], **keys)
    return made


def measured(point: Mapping[str, Any], repetition: int) -> dict[str, Any]:
    of_case = OF_CASE[point["case"]]
    iops = 1e9 / of_case["read.lat.mean"] * (1 + 0.001 * repetition)
    return {
        "total.iops": iops,
        "total.runtime": 10.0,
        "read.ios": 10 * iops,
        "context_switches": 20 * iops,
        "cpu.per_io": 4e3,
        "drive.cpu": 100.0,
        "drive.read.ios": 10 * iops,
        "drive.read.lat.mean": 2e3,
        **of_case,
    }


def answer(lab: Any, of: Study, measure: Any = measured) -> PathCosts:
    (one,) = path_costs.path_costs(lab.records(lab.run(of, measure, 2)), of)
    return one


def cost(one: PathCosts, case: str) -> Cost:
    return next(cost for cost in one.costs if cost.point["case"] == case)


def test_parts_add_up_to_the_latency_that_is_claimed(lab: Any) -> None:
    one = answer(lab, study(lab))
    assert cost(one, "libaio").parts() == {"submission": 2e3, "device": 2e3, "transport": 9e3, "completion": 23e3}
    assert cost(one, "spdk").parts() == {"submission": 500.0, "device": 2e3, "transport": 10e3, "completion": 1500.0}
    assert all(sum(each.parts().values()) == pytest.approx(each.total_ns) for each in one.costs)


def test_an_engine_that_waits_has_no_submission_of_its_own(lab: Any) -> None:
    psync = cost(answer(lab, study(lab)), "psync")
    assert psync.submission_ns is None and psync.completion_ns == 19e3


@pytest.mark.parametrize("part", ["drive.floor", "read.slat.mean"])
def test_a_part_that_one_repetition_lacks_is_in_the_completion_of_all(lab: Any, part: str) -> None:
    def once(point: Mapping[str, Any], repetition: int) -> dict[str, Any]:
        found = measured(point, repetition)
        return found if repetition else {**found, part: None}

    libaio = cost(answer(lab, study(lab), once), "libaio")
    assert {"drive.floor": libaio.transport_ns, "read.slat.mean": libaio.submission_ns}[part] is None
    assert sum(libaio.parts().values()) == pytest.approx(libaio.total_ns)


def test_processor_time_and_context_switches_are_those_of_a_request(lab: Any) -> None:
    spdk = cost(answer(lab, study(lab)), "spdk")
    assert spdk.client_ns == 4e3 and spdk.switches == pytest.approx(2.0)
    assert spdk.server_ns == pytest.approx(14e3, rel=0.01), "the drive polls: all of its processor"


def test_reads_and_writes_weigh_by_their_number(lab: Any) -> None:
    def mixed(point: Mapping[str, Any], repetition: int) -> dict[str, Any]:
        found = measured(point, repetition)
        writes = {"write.ios": 3 * found["read.ios"], "drive.write.ios": 3 * found["read.ios"]}
        times = {"write.lat.mean": 50e3, "write.slat.mean": 2e3, "drive.write.lat.mean": 6e3}
        return {**found, **writes, **times}

    libaio = cost(answer(lab, study(lab), mixed), "libaio")
    assert libaio.total_ns == pytest.approx(46.5e3) and libaio.device_ns == pytest.approx(5e3)


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        ({"drive.floor": 50e3}, {"submission": 2e3, "device": 2e3, "transport": 32e3, "completion": 0.0}),
        ({"drive.read.lat.mean": 50e3}, {"submission": 2e3, "device": 34e3, "transport": 0.0, "completion": 0.0}),
        ({"read.slat.mean": 50e3}, {"submission": 36e3, "device": 0.0, "transport": 0.0, "completion": 0.0}),
        ({"drive.floor": None}, {"submission": 2e3, "device": 2e3, "completion": 32e3}),
    ],
)
def test_what_overlaps_is_counted_once(lab: Any, changed: Mapping[str, Any], parts: Mapping[str, float]) -> None:
    one = answer(lab, study(lab), lambda point, repetition: {**measured(point, repetition), **changed})
    assert cost(one, "libaio").parts() == parts


def test_nothing_is_taken_apart_where_the_drive_counted_other_requests(lab: Any) -> None:
    def other(point: Mapping[str, Any], repetition: int) -> dict[str, Any]:
        found = measured(point, repetition)
        return {**found, "drive.read.ios": found["read.ios"] * (1.01 if point["case"] == "spdk" else 1.0)}

    one = answer(lab, study(lab), other)
    assert {str(each.point["case"]) for each in one.costs} == {"psync", "libaio"}
    assert len(one.uncounted) == 2 and all("spdk" in label for label in one.uncounted)
    told = path_costs.finding(one)
    assert "Nothing is taken apart where the drive did not count" in told.statement


@pytest.mark.parametrize(
    ("target", "blocks", "setting"),
    [
        (VIRTUAL, 1.0, Setting.SUBSYSTEM),
        (VIRTUAL, 0.0, Setting.TRANSPORTS),
        (
            {"kind": "nvmevirt", "module": "n.ko", "memmap_start": 1, "memmap_size": 1, "cpus": [0, 1]},
            1.0,
            Setting.NVMEVIRT,
        ),
    ],
)
def test_the_setting_is_what_the_kernels_engines_loaded(
    lab: Any, target: Mapping[str, Any], blocks: float, setting: Setting
) -> None:
    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, Any]:
        return {**measured(point, repetition), "drive.block_device": blocks if point["case"] != "spdk" else 0.0}

    of = study(lab, target=target)
    assert answer(lab, of, measure).setting == setting


def test_a_study_of_something_else_has_no_costs(lab: Any) -> None:
    for of in (study(lab, target={"kind": "file", "path": "x", "size": 2**20}), study(lab, case=[])):
        made = lab.records(lab.run(of, lambda point, repetition: measured({"case": "psync"}, repetition), 2))
        assert path_costs.path_costs(made, of) == []


def test_sentences(lab: Any) -> None:
    of = study(lab)
    golden.check("costs", [path_costs.finding(answer(lab, of))])
    assert len({str(say(one.code)) for one in Setting}) == len(Setting)


def test_the_setting_is_the_first_line_and_published_results_stand_beside_ours(lab: Any) -> None:
    findings = analyse_all(lab.records(lab.run(study(lab), measured, 2)))
    assert finding.premises(findings) == [str(say(Setting.TRANSPORTS.code))]
    (together,) = [one for one in findings if one.question == "choices"]
    assert list(together.tables[1].columns)[:2] == ["Published, on another machine", "IOPS there"]
    assert together.tables[1].rows == [
        ["spdk, random reads, 1 job", "586 k IOPS", "71.5 k IOPS", "1.44 µs", "13.5 µs"],
        ["spdk, random reads, 4 jobs", "1.06 M IOPS", "71.5 k IOPS", "3.4 µs", "13.5 µs"],
        ["libaio, random reads, 1 job", "thousands of IOPS", "27.8 k IOPS", "–", "34 µs"],
        ["io_uring", "thousands of IOPS", "–", "–", "–"],
    ]


def test_a_starved_machine_has_its_setting_and_numbers_and_no_winner(lab: Any) -> None:
    busy = Environment(
        seconds=1.0, processors=2, own_share=0.1, others_share=0.9, kernel_share=0.0, steal_share=0.0, idle_share=0.0
    )
    made = lab.run(study(lab), lambda point, repetition: {**measured(point, repetition), "_environment": busy}, 2)
    findings = analyse_all(lab.records(made))
    assert finding.premises(findings) == [str(say(Setting.TRANSPORTS.code))]
    judged = [one for one in findings if one.question in ("choice", "choices", "conclude")]
    assert judged and all(one.withheld for one in judged)
    assert all(table.observed for one in judged for table in one.tables)
    assert all("spdk" not in one.statement for one in judged)
    (reason,) = [one for one in findings if one.question == "conditions"]
    assert "Other programs" in reason.statement
    (table,) = [one.tables[0] for one in judged if one.question == "choices"]
    assert table.columns[0] == "Published, on another machine"
