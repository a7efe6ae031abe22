"""Host facts from a fake root: what is there is read, what is not there is an absent key. And what a host cannot do."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ioassay import drivers, host
from ioassay.errors import ConditionError, ToolError
from ioassay.host import cpus, disks, system
from ioassay.host.machine import Machine
from ioassay.process import landlock
from ioassay.process.landlock import Support
from ioassay.process.supervisor import Captured
from ioassay.roles import Tool
from ioassay.runner import conditions, preflight

from .corpora import cases, files, has, tree

FakeRoot = Callable[..., Path]


def captured(answers: Mapping[str, str]) -> Callable[[Sequence[str]], Captured]:
    """Stands in for commands: by the first word, or by all words."""

    def capture(argv: Sequence[str]) -> Captured:
        said = answers.get(" ".join(argv), answers.get(argv[0]))
        if said is None:
            raise ToolError(f"cannot start '{argv[0]}'")
        return Captured(0, said, "", False)

    return capture


def facts(root: Path, path: Path | None = None, **options: Any) -> dict[str, Any]:
    found = host.facts(path, root, sleep=lambda _: None, **options)
    json.dumps(found)
    return found


def inner(found: Any, key: str) -> Any:
    return found[int(key)] if isinstance(found, list) else found.get(key, {})


@cases("hosts", "facts")
def test_facts_are_what_the_machine_shows(case: dict[str, Any], fake_root: FakeRoot) -> None:
    root = fake_root({**(tree("hosts", case["of"]) if "of" in case else {}), **files(case.get("files", {}))})
    path = Path(case["path"]) if "path" in case else None
    found = facts(root, path, capture=captured(case.get("tools", {})))
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


@pytest.mark.parametrize(
    ("text", "lacks"), [("flags\t\t: fpu avx avx2\n", False), ("flags\t\t: fpu avx\n", True), ("Features: fp\n", False)]
)
def test_an_x86_processor_without_avx2_is_known(fake_root: FakeRoot, text: str, lacks: bool) -> None:
    assert cpus.lacks_avx2(fake_root({"proc/cpuinfo": text})) is lacks


def stat_line(pid: int, name: str, ticks: int) -> str:
    return f"{pid} ({name}) R 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 100 0 0\n"


def test_busy_processes_and_requests_of_others_are_what_changed_while_looking(fake_root: FakeRoot) -> None:
    stack = tree("hosts", "stack")
    root = fake_root(
        {
            **stack,
            "proc/7/stat": stat_line(7, "idle one", 100),
            "proc/8/stat": stat_line(8, "a (b) \x1b[2J", 100),
            "proc/9/stat": stat_line(9, "updatedb", 100),
            "proc/10/stat": stat_line(10, "unattended-upgr", 5),
            "proc/10/cmdline": "/usr/bin/python3\0/usr/share/unattended-upgrade-shutdown\0--wait-for-signal\0",
            "proc/11/stat": stat_line(11, "apt-get", 5),
        }
    )

    def work(seconds: float) -> None:
        assert seconds == 0.5
        (root / "proc/8/stat").write_text(stat_line(8, "a (b) \x1b[2J", 140))
        (root / "proc/9/stat").write_text(stat_line(9, "updatedb", 110))
        (root / "proc/12/").mkdir()
        (root / "proc/12/stat").write_text(stat_line(12, "new", 500))
        stats = str(stack["proc/diskstats"])
        (root / "proc/diskstats").write_text(stats.replace("nvme0n1 100", "nvme0n1 130"))

    found = host.facts(Path("/data"), root, observe_s=0.5, sleep=work)["activity"]
    per_s = os.sysconf("SC_CLK_TCK")
    assert found["busy"] == [
        {"pid": 8, "name": "a (b) ?[2J", "share": round(40 / per_s / 0.5, 2)},
        {"pid": 9, "name": "updatedb", "share": round(10 / per_s / 0.5, 2)},
    ]
    assert found["disk_requests"] == {"nvme0n1": 30, "dm-0": 0}
    assert found["background"] == ["apt-get", "updatedb"]


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


@pytest.mark.parametrize(
    ("runtime", "share"), [("950000\n", 0.95), ("-1\n", 1.0), ("0\n", 0.0), (None, None), ("x\n", None)]
)
def test_the_time_that_the_kernel_keeps_from_real_time_tasks(
    fake_root: FakeRoot, runtime: str | None, share: float | None
) -> None:
    tree = {"proc/sys/kernel/sched_rt_period_us": "1000000\n"}
    root = fake_root(tree if runtime is None else {**tree, "proc/sys/kernel/sched_rt_runtime_us": runtime})
    assert preflight.real_time_share(root) == share


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
