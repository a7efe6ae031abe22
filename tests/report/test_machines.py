"""The machines that measured a run: what they have alike once, what they differ in as a table."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))  # importmode=importlib leaves it out

from ioassay import report
from ioassay.narrative.pipeline import analyse_all
from ioassay.packs.comparison import comparison_text
from ioassay.packs.comparison.run_comparison import compare
from ioassay.report import run_facts
from ioassay.store import packed_page
from ioassay.store.dataset import Dataset
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite
from lab import Lab


def facts(cpus: int, **more: Any) -> dict[str, Any]:
    return {
        "cpu": {"model": "Example CPU", "cpus": cpus},
        "memory": {"total_bytes": 64 << 30},
        "disk": {"mount": {"filesystem": "xfs"}, "devices": [{"name": "nvme0n1", "model": "Fast"}]},
        "tools": {"fio": "fio-3.33"},
        **more,
    }


def fleet(hosts: dict[str, dict[str, Any]]) -> Dataset:
    lab = Lab()
    study = lab.study(run={"hosts": list(hosts)}, responses=["read.bw"], repetitions=3, questions=["hosts"])
    records = lab.records(lab.run(study, lambda _, repetition: {"read.bw": 1e8 + repetition}, 3))
    return replace(records, host={"cpu": {"model": "Desk", "cpus": 2}, "hosts": hosts})


def test_facts_that_all_have_stand_once_and_others_by_host() -> None:
    known = run_facts.fleet(fleet({"a": facts(8), "b": facts(16), "c": facts(8)}))
    assert known is not None and known.table is not None
    assert dict(known.alike) == {
        "Processor": "Example CPU",
        "Memory": "64 GiB",
        "File system": "xfs",
        "Drive": "Fast",
        "fio": "fio-3.33",
    }
    assert [[cell.text for cell in row] for row in known.table.rows] == [["a", "8"], ["b", "16"], ["c", "8"]]


def test_a_host_that_never_answered_has_no_facts() -> None:
    known = run_facts.fleet(fleet({"a": facts(8), "b": {}}))
    assert known is not None and known.table is not None
    assert {cell.text for cell in known.table.rows[1][1:]} == {"–"}


def test_equal_hosts_need_no_table_and_one_machine_no_fleet() -> None:
    records = fleet({"a": facts(8), "b": facts(8)})
    known = run_facts.fleet(records)
    assert known is not None and known.table is None
    assert run_facts.machines(records).startswith("Hosts a and b · Example CPU")
    alone = Lab().study()
    assert run_facts.fleet(Lab().records(Lab().run(alone, lambda *_: {"read.bw": 1.0}))) is None


def test_the_line_of_many_hosts_counts_them_and_says_of_drives_only_what_all_have() -> None:
    other = facts(8, disk={"mount": {"filesystem": "xfs"}, "devices": [{"name": "sda"}]})
    line = run_facts.machines(fleet({**{f"n{number}": facts(8) for number in range(5)}, "n5": other}))
    assert line == "6 hosts · Example CPU"
    same = run_facts.machines(fleet({"a": facts(8), "b": facts(16)}))
    assert same == "Hosts a and b · Example CPU · xfs on Fast nvme0n1"


def test_facts_in_common_are_those_of_all_that_measured() -> None:
    records = fleet({"a": facts(8), "b": facts(16)})
    machine = records.machine(records.studies[0])
    assert machine["cpu"] == {"model": "Example CPU"}
    assert machine["memory"] == {"total_bytes": 64 << 30}


def test_a_run_keeps_the_facts_of_its_hosts(tmp_path: Path) -> None:
    study = Lab().study(run={"hosts": ["a", "b"]})
    raw = facts(8, kernel={"release": "6.1", "hostname": "krypton-7"})
    store = RunStore.create(
        tmp_path / "run", Suite(name="s", title="S", studies=[study]), {**facts(2), "hosts": {"a": raw}}
    )
    assert "krypton-7" not in (store.root / "host.json").read_text()
    assert store.host()["hosts"]["a"]["cpu"]["cpus"] == 8


def test_the_page_shows_the_hosts_and_answers_with_them(tmp_path: Path) -> None:
    records = fleet({"a": facts(8), "b": facts(16)})
    report.build(records, analyse_all(records), tmp_path, title="Fleet")
    page = packed_page.unpacked((tmp_path / "index.html").read_text())
    assert "Facts in which the hosts differ" in page
    assert "Both hosts have alike:" in page
    assert "Desk" in page  # of the machine that started the run, in the fold
    assert page.index("Neither host is slow") < page.index('id="host"')


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"a": facts(8), "b": facts(4)}, "host b: cpu.governors is ['performance'] in A and not set in B"),
        ({"c": facts(8)}, "hosts: A was measured on hosts a and b and B on host c"),
    ],
)
def test_a_comparison_names_the_host_that_differs(others: dict[str, Any], said: str) -> None:
    governed = facts(8, cpu={"model": "Example CPU", "governors": ["performance"]})
    comparison = compare(fleet({"a": facts(8), "b": governed}), fleet(others))
    assert said in comparison_text.as_dict(comparison)["warnings"]
