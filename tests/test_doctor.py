"""Each check of the doctor on a fake machine: a healthy one has no findings, one defect gives exactly its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ioassay import host
from ioassay.host import doctor
from ioassay.process.supervisor import Captured

from .corpora import cases, files, rows, tree

FakeRoot = Callable[..., Path]
HEALTHY = tree("hosts", "healthy")
TOOLS = {
    "fio": "fio-3.33",
    "smartctl": json.dumps({"smart_status": {"passed": True}, "temperature": {"current": 41}}),
    "systemd-detect-virt": "none",
}


def examined(root: Path, tools: Mapping[str, str], later: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The facts of a fake machine, as root sees it, with plenty of space; `later` happens while it is observed."""

    def capture(argv: Sequence[str]) -> Captured:
        return Captured(0, tools.get(" ".join(argv), tools.get(argv[0], "")), "", False)

    def sleep(_: float) -> None:
        for name, text in (later or {}).items():
            (root / name).write_text(text)

    found = host.facts(Path("/"), root, capture=capture, observe_s=1.0, sleep=sleep)
    found["user"]["root"] = True
    found["witness"], found["confinement"] = {"bpf": True}, {"landlock": True}
    found["disk"] |= {"free_bytes": 500 << 30, "size_bytes": 1000 << 30}
    return found


def change(facts: dict[str, Any], dotted: str, value: Any) -> None:
    *sections, key = dotted.split(".")
    for section in sections:
        facts = facts[section]
    facts[key] = value


def test_a_healthy_machine_has_no_findings(fake_root: FakeRoot) -> None:
    assert doctor.diagnose(examined(fake_root(HEALTHY), TOOLS)) == []


@cases("hosts", "defects")
def test_a_defect_gives_its_own_finding_with_value_and_remedy(case: dict[str, Any], fake_root: FakeRoot) -> None:
    root = fake_root(HEALTHY)
    for name in case.get("without", ()):
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    fake_root(files(case.get("files", {})))
    facts = examined(root, {**TOOLS, **case.get("tools", {})}, case.get("later"))
    for dotted, value in case.get("facts", {}).items():
        change(facts, dotted, value)
    (found,) = doctor.diagnose(facts)
    assert found.code == case.get("code", case["id"])
    assert [piece for piece in case["text"] if piece not in found.text] == []
    assert case["remedy"] in found.remedy


def test_every_check_has_a_defect_here_and_a_line_in_the_document() -> None:
    assert {case.get("code", case["id"]) for case in rows("hosts", "defects")} == set(doctor.CHECKS)
    page = (Path(__file__).parents[1] / "docs/doctor.md").read_text()
    assert [code for code in doctor.CHECKS if f"`{code}`" not in page] == []


@pytest.mark.parametrize(
    "facts", [{}, {"cpu": None}, {"disk": {}}, {"disk": {"devices": [{}]}}, {"limits": {"io": []}}]
)
def test_absent_facts_give_no_findings(facts: Mapping[str, Any]) -> None:
    assert doctor.diagnose(facts) == []


def test_findings_of_stored_facts_are_those_of_the_day(fake_root: FakeRoot) -> None:
    facts = examined(fake_root({**HEALTHY, "proc/loadavg": "9.0 1 1 1/1 1\n"}), TOOLS)
    assert doctor.diagnose(json.loads(json.dumps(facts))) == doctor.diagnose(facts)


@cases("hosts", "schedulers")
def test_the_scheduler_is_judged_by_the_kind_of_drive(case: dict[str, Any]) -> None:
    queue = {
        "scheduler": case["scheduler"].partition("[")[2].partition("]")[0],
        "schedulers": case["scheduler"].replace("[", "").replace("]", "").split(),
        "rotational": case["rotational"],
    }
    facts = {"disk": {"devices": [{"name": case["disk"], "kind": "disk", "queue": queue}]}}
    found = [warning for warning in doctor.diagnose(facts) if warning.code == "scheduler"]
    assert [f"wanted {case.get('wanted')}" in warning.text for warning in found] == [True] * ("wanted" in case)
