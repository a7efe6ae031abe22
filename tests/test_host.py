"""The host from a fake root: its facts, what the doctor says of them, and families of devices.

What is there is read, and what is not there is an absent key. A healthy machine has no findings; one defect gives
exactly its own.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ioassay import drivers, host
from ioassay.errors import ConditionError, ToolError
from ioassay.host import block_devices, disks, doctor, system
from ioassay.host.block_devices import Number
from ioassay.host.machine import Machine
from ioassay.process import landlock
from ioassay.process.landlock import Support
from ioassay.process.supervisor import Captured
from ioassay.roles import Tool
from ioassay.runner import conditions, preflight

from .corpora import cases, files, has, rows, tree

FakeRoot = Callable[..., Path]


def captured(answers: Mapping[str, str], otherwise: str | None = None) -> Callable[[Sequence[str]], Captured]:
    """Stands in for commands: by the first word, or by all words."""

    def capture(argv: Sequence[str]) -> Captured:
        said = answers.get(" ".join(argv), answers.get(argv[0], otherwise))
        if said is None:
            raise ToolError(f"cannot start '{argv[0]}'")
        return Captured(0, said, "", False)

    return capture


def facts(root: Path, path: Path | None = None, **options: Any) -> dict[str, Any]:
    found = host.facts(path, root, **{"sleep": lambda _: None, **options})
    json.dumps(found)
    return found


def inner(found: Any, key: str) -> Any:
    return found[int(key)] if isinstance(found, list) else found.get(key, {})


@cases("hosts", "facts")
def test_facts_are_what_the_machine_shows(case: dict[str, Any], fake_root: FakeRoot) -> None:
    root = fake_root({**(tree("hosts", case["of"]) if "of" in case else {}), **files(case.get("files", {}))})
    path = Path(case["path"]) if "path" in case else None
    options = {"observe_s": 0.5, "sleep": lambda _: fake_root(files(case["later"]))} if "later" in case else {}
    found = facts(root, path, capture=captured(case.get("tools", {})), **options)
    assert has(found, case.get("facts", {}))
    for dotted in case.get("lacks", ()):
        *sections, key = dotted.split(".")
        assert key not in functools.reduce(inner, sections, found)
    if "names" in case:
        assert host.devices(path, root) == case["names"]


def test_a_mount_has_its_options_and_the_space_that_is_free(fake_root: FakeRoot) -> None:
    disk = facts(fake_root(tree("hosts", "stack")), Path("/data/here"))["disk"]
    assert {"noatime", "discard"} <= set(disk["mount"]["options"])
    assert 0 < disk["free_bytes"] <= disk["size_bytes"]
    assert host.devices(None) == []


def test_an_empty_machine_has_few_facts_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_bytes(b"\xff\xfe MemTotal\nMemAvailable: many kB\n")
    found = facts(tmp_path, Path("/nowhere/at/all"), capture=captured({}))
    assert set(found) == {"schema", "gathered_unix_s", "clock", "activity", "ioassay", "user", "disk"}
    assert found["user"] == {"root": os.geteuid() == 0}


@cases("hosts", "readings")
def test_single_facts_are_read_or_unknown(case: dict[str, Any], fake_root: FakeRoot) -> None:
    root = fake_root(case["files"])
    assert system.lacks_avx2(root) is case.get("lacks_avx2", False)
    assert preflight.real_time_share(root) == case.get("real_time_share")


def test_a_virtual_disk_is_not_asked_for_its_health() -> None:
    class Vda:
        name = "vda"
        folder = Path("/nowhere")

    able = captured({"smartctl": json.dumps({"smart_status": {"passed": True}})})
    assert disks.health(Machine(capture=able), Vda()) == {}  # type: ignore[arg-type]


def test_versions_of_tools_are_those_that_are_there(fake_root: FakeRoot) -> None:
    root = fake_root({})
    wanted = [Tool("fio", ["fio", "--version"], (3,), "fio"), Tool("iozone", ["iozone", "-v"], (3,), "iozone3")]
    assert facts(root, tools=wanted, capture=captured({"fio": "\nfio-3.33\nmore"}))["tools"] == {"fio": "fio-3.33"}
    assert "tools" not in facts(root, capture=captured({"fio": "fio-3.33"}))


def test_the_commit_is_that_of_our_checkout_only(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "checkout/python/ioassay", tmp_path / "site-packages/ioassay"
    (tmp_path / "checkout/.git").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    machine = Machine(tmp_path, captured({"git": "0123456789ab-dirty\n"}))
    assert system.ioassay_itself(machine, ours)["commit"] == "0123456789ab-dirty"
    assert "commit" not in system.ioassay_itself(machine, theirs)


def test_whether_trials_can_be_confined_is_a_fact_of_this_machine_and_of_no_other(
    fake_root: FakeRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "confinement" not in host.facts(None, fake_root({}), observe_s=0)
    for able, wanted in (
        (Support(7), {"landlock": True, "abi": 7}),
        (Support(3), {"landlock": True, "abi": 3, "gaps": ["ioctl calls on devices"]}),
        (Support(0, "it is off"), {"landlock": False, "unusable": "it is off"}),
    ):
        monkeypatch.setattr(landlock, "support", lambda able=able: able)
        assert system.confinement(Machine()) == wanted


def test_facts_of_this_machine_can_be_stored(tmp_path: Path) -> None:
    found = host.facts(tmp_path, observe_s=0.01)
    assert json.loads(json.dumps(found)) == found
    assert found["cpu"]["cpus"] >= 1
    assert found["disk"]["mount"]["point"]


@pytest.mark.root
def test_a_real_loop_device_is_found_with_what_it_lies_on(
    loop_device: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = loop_device(8 << 20)
    found = host.facts(device, observe_s=0.0)["disk"]
    assert found["devices"][0]["name"] == device.name
    assert found["devices"][0]["kind"] == "loop"
    assert found["devices"][0]["size_bytes"] == 8 << 20
    assert "mount" not in found
    assert [one["name"] for one in found["devices"][1:]] == host.devices(tmp_path)
    monkeypatch.chdir(device.parent)
    assert host.devices(Path(device.name)) == host.devices(device)


def test_what_the_kernel_refuses_is_said_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def rehearse(wanted: conditions.Conditions) -> list[object]:
        if wanted.limits:
            raise ConditionError(f"{wanted.text}: not here")
        return []

    monkeypatch.setattr(conditions, "rehearse", rehearse)
    said = [warning.text for warning in preflight.refused_conditions()]
    assert said == ["run.cpu_limit = 0.5: not here", f"run.memory_limit = {2**26}: not here"]


@pytest.mark.stress
def test_a_host_with_one_processor_is_told_which_trials_it_will_skip() -> None:
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [min(usable)])
    try:
        said = [warning.text for warning in preflight.skipped_trials("subsystem-cpu")]
    finally:
        os.sched_setaffinity(0, usable)
    wanted = "subsystem-cpu-policy: run.scheduler = fifo:99: under a real-time policy one processor is left"
    assert any(text.startswith(wanted) for text in said)


def test_the_tool_of_each_driver_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert preflight.skipped_trials("subsystem-pipe") == []
    missing = {warning.text: warning.remedy for warning in preflight.missing_tools()}
    assert missing["driver stress_ng: no stress-ng here"] == "apt-get install stress-ng"
    assert len(missing) == len(drivers.tools())
    for tool in drivers.tools().values():
        (tmp_path / tool.executable).touch(0o755)
    assert preflight.missing_tools() == []


# What the doctor says

HEALTHY = tree("hosts", "healthy")
TOOLS = {
    "fio": "fio-3.33",
    "smartctl": json.dumps({"smart_status": {"passed": True}, "temperature": {"current": 41}}),
    "systemd-detect-virt": "none",
}


def examined(root: Path, tools: Mapping[str, str], later: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The facts of a fake machine, as root sees it, with plenty of space; `later` happens while it is observed."""

    def sleep(_: float) -> None:
        for name, text in (later or {}).items():
            (root / name).write_text(text)

    found = host.facts(Path("/"), root, capture=captured(tools, ""), observe_s=1.0, sleep=sleep)
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
    assert doctor.diagnose(json.loads(json.dumps(facts))) == [found], "stored facts give the same"
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


@cases("hosts", "schedulers")
def test_the_scheduler_is_judged_by_the_kind_of_drive(case: dict[str, Any]) -> None:
    queue = {
        "scheduler": case["scheduler"].partition("[")[2].partition("]")[0],
        "schedulers": case["scheduler"].replace("[", "").replace("]", "").split(),
        "rotational": case["rotational"],
    }
    facts = {"disk": {"devices": [{"name": case["disk"], "kind": "disk", "queue": queue}]}}
    found = [warning for warning in doctor.diagnose(facts) if warning.code == "scheduler"]
    assert [f"expected {case.get('wanted')}" in warning.text for warning in found] == [True] * ("wanted" in case)


# The family of a device

Tree = dict[str, Any]
(LAPTOP,) = rows("block_devices", "laptop")


def sysfs(case: Tree) -> Tree:
    """The files and links of the disks of a case, with their partitions and what is built on them."""
    tree: Tree = files(case.get("files", {}))
    for name, given in case["disks"].items():
        about = {"size": "2048", "ro": "0"} | {key: text for key, text in given.items() if isinstance(text, str)}
        tree |= folder(name, about.pop("number"), about) | {f"sys/block/{name}": Path(f"../devices/{name}")}
        for index, number in enumerate(given.get("partitions", ()), 1):
            tree |= folder(f"{name}/{name}{index}", number, {"size": "1024", "partition": str(index)})
    for upper, lower in case.get("built", {}).items():
        for below in lower:
            ups = "../" * (2 + below.count("/"))
            tree[f"sys/devices/{below}/holders/{upper}"] = Path(f"{ups}{upper}")
            tree[f"sys/devices/{upper}/slaves/{below.split('/')[-1]}"] = Path(f"../../{below}")
    return tree


def folder(home: str, number: str, about: Mapping[str, str]) -> Tree:
    """A device as sysfs shows it: its folder, and the links that lead to it."""
    link = Path(f"../../devices/{home}")
    tree: Tree = {f"sys/devices/{home}/{key}": f"{text}\n" for key, text in {"dev": number, **about}.items()}
    return tree | {f"sys/class/block/{home.split('/')[-1]}": link, f"sys/dev/block/{number}": link}


def test_a_device_is_what_sysfs_says(fake_root: FakeRoot) -> None:
    root = fake_root(sysfs(LAPTOP))
    whole, part = block_devices.device(Number(8, 0), root), block_devices.device(Number(8, 2), root)
    assert whole is not None and part is not None
    assert (whole.name, whole.size_bytes, whole.partition, whole.diskseq) == ("sda", 4096 * 512, 0, 7)
    assert (part.name, part.partition, part.diskseq) == ("sda2", 2, 7), "the medium is its disk's"
    assert block_devices.disk_of(part) == whole == block_devices.disk_of(whole)
    assert block_devices.device(Number(9, 9), root) is None and block_devices.named("sdz", root) is None


@cases("block_devices", "families")
def test_the_family_of_a_device_is_what_shares_its_bytes_and_what_lies_beside_it(
    case: dict[str, Any], fake_root: FakeRoot
) -> None:
    root = fake_root(sysfs(LAPTOP if case.get("laptop") else case))
    target = block_devices.named(case["of"], root)
    assert target is not None
    found = block_devices.family(target, root)
    assert found[0].device == target
    for overlaps, wanted in ((True, case["overlaps"]), (False, case["beside"])):
        assert {one.device.name: one.role.format(via=one.via) for one in found if one.overlaps == overlaps} == wanted
    if "loops" in case:
        assert [loop.device.name for loop in block_devices.loops(root)] == case["loops"]


def test_an_empty_system_has_no_devices(tmp_path: Path) -> None:
    assert block_devices.loops(tmp_path) == [] and list(block_devices.disks(tmp_path)) == []


def test_a_file_is_no_device() -> None:
    assert block_devices.number_of(Path(__file__)) is None
    assert block_devices.number_of(Path("/nowhere")) is None and block_devices.file_id(Path("/nowhere")) is None
    assert block_devices.file_id(Path(__file__)) is not None
    with pytest.raises(ValueError):
        Number.parse("8")


@pytest.mark.root
def test_a_device_is_its_number_under_any_name(tmp_path: Path) -> None:
    node = tmp_path / "any name"
    os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(8, 300))
    (tmp_path / "link").symlink_to(node)
    assert block_devices.number_of(tmp_path / "link") == Number(8, 300)


@pytest.mark.root
def test_a_real_loop_device_knows_its_file_after_it_lost_its_name(loop_device: FakeRoot, tmp_path: Path) -> None:
    backing = tmp_path / "disk.img"
    backing.write_bytes(bytes(1 << 20))
    identity = block_devices.file_id(backing)
    node = loop_device(backing=backing)
    backing.rename(tmp_path / "hidden")
    loop = next(loop for loop in block_devices.loops() if loop.device.name == node.name)
    assert loop.file == identity and loop.block is None
    (tmp_path / "hidden").unlink()
    loop = next(loop for loop in block_devices.loops() if loop.device.name == node.name)
    assert loop.file == identity and loop.backing.endswith("(deleted)")
