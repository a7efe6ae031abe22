"""Where a trial's control group is made, under either version and both, and what is written there: on fake trees."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import cases, files

from ioassay.errors import ConditionError
from ioassay.host import cgroup
from ioassay.study.run_conditions import Conditions

FakeRoot = Callable[..., Path]
SECOND = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
FIRST = (
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
LIMITS = ("cpu.max", "memory.max", "cpu.cfs_quota_us", "memory.limit_in_bytes")
BOTH = Conditions(cpu_limit=1.5, memory_limit=64 << 20)


@pytest.fixture
def removable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake group's files do not go with it by themselves."""
    monkeypatch.setattr(cgroup, "_removed", lambda folder: shutil.rmtree(folder, ignore_errors=True) is None)


def machine(fake_root: FakeRoot, mountinfo: str, own: str, **files: str | None) -> Path:
    known = {"proc/self/mountinfo": mountinfo, "proc/self/cgroup": own, "proc/sys/kernel/random/boot_id": "boot\n"}
    known[f"proc/{os.getpid()}/stat"] = f"{os.getpid()} (x) S {' '.join(map(str, range(4, 53)))}\n"
    return fake_root({**known, **{f"sys/fs/cgroup/{name}": text for name, text in files.items()}})


def groups(root: Path) -> list[Path]:
    return sorted(root.glob("sys/**/ioassay-*"))


@cases("conditions", "groups")
@pytest.mark.usefixtures("removable")
def test_groups(fake_root: FakeRoot, case: dict[str, Any]) -> None:
    root = machine(fake_root, case["mountinfo"], case["own"], **files(case.get("files", {})))
    wanted = Conditions(**case["wanted"])
    if "refused" in case:
        with pytest.raises(ConditionError, match=case["refused"]):
            cgroup.make(wanted, root)
        assert groups(root) == []
        return
    group = cgroup.make(wanted, root)
    base = root / "sys/fs/cgroup"
    written = {str(folder.parent.relative_to(base) / file): folder / file for folder in groups(root) for file in LIMITS}
    assert {name: path.read_text() for name, path in written.items() if path.exists()} == case["written"]
    assert {name: version for name, (version, _) in group.folders.items()} == case["versions"]
    assert group.found() == case["wanted"]
    for folder in groups(root):
        for name, text in case.get("counts", {}).items():
            (folder / name).write_text(text)
    assert group.account() == case.get("account", {"oom_kill": 0})
    group.remove()
    assert groups(root) == []


@pytest.mark.usefixtures("removable")
def test_a_process_is_admitted_to_every_tree_of_version_1(fake_root: FakeRoot) -> None:
    root = machine(fake_root, FIRST, "4:memory:/box\n1:cpu,cpuacct:/\n", **{"memory/x": "", "cpu,cpuacct/x": ""})
    group = cgroup.make(BOTH, root)
    group.admit(77)
    assert group.members() == {77}
    group.folders = {}  # nobody is ended


@pytest.mark.usefixtures("removable")
def test_groups_of_runs_that_are_gone_are_removed_and_others_are_left(fake_root: FakeRoot) -> None:
    root = machine(fake_root, SECOND, "0::/\n", **{"cgroup.subtree_control": "cpu memory\n"})
    mine = next(iter(cgroup.make(BOTH, root).folders.values()))[1]
    gone = root / "sys/fs/cgroup/a.slice/ioassay-999999999-12-34"
    for folder in (gone, root / "sys/fs/cgroup/ioassay-like"):
        folder.mkdir(parents=True)
    assert cgroup.leftovers(root) == [gone]
    (said,) = cgroup.remove_leftovers(root)
    assert said == f"{gone}: the group of a run that was killed, removed"
    assert [path.name for path in groups(root)] == sorted([mine.name, "ioassay-like"])
