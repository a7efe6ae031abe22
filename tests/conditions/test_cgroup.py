"""Where a trial's control group is made, under either version and both, and what is written there: on fake trees."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ioassay.errors import ConditionError
from ioassay.host import cgroup
from ioassay.study.run_conditions import Conditions

FakeRoot = Callable[..., Path]
SECOND = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
FIRST = (
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
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


@pytest.mark.usefixtures("removable")
def test_version_2_takes_the_nearest_group_that_gives_its_controllers_on(fake_root: FakeRoot) -> None:
    root = machine(
        fake_root,
        SECOND,
        "0::/user.slice/session.scope\n",
        **{
            "cgroup.subtree_control": "cpu memory pids\n",
            "user.slice/cgroup.subtree_control": "memory cpu\n",
            "user.slice/session.scope/cgroup.subtree_control": "\n",
        },
    )
    group = cgroup.make(BOTH, root)
    (folder,) = groups(root)
    assert folder.parent == root / "sys/fs/cgroup/user.slice"
    assert (folder / "cpu.max").read_text() == "150000 100000"
    assert (folder / "memory.max").read_text() == str(64 << 20)
    assert group.found() == {"cpu_limit": 1.5, "memory_limit": 64 << 20}
    (folder / "memory.events").write_text("low 0\nmax 9\noom 2\noom_kill 1\n")
    (folder / "cpu.stat").write_text("usage_usec 5\nnr_periods 10\nnr_throttled 4\nthrottled_usec 9\n")
    assert group.account() == {"nr_periods": 10, "nr_throttled": 4, "oom_kill": 1}
    group.remove()
    assert groups(root) == []


def test_version_2_without_the_controllers_says_what_gives_them(fake_root: FakeRoot) -> None:
    root = machine(fake_root, SECOND, "0::/\n", **{"cgroup.subtree_control": "memory\n"})
    with pytest.raises(ConditionError, match=r"run.cpu_limit: .*'cpu'.*echo \+cpu > .*/cgroup.subtree_control"):
        cgroup.make(Conditions(cpu_limit=1.0), root)
    assert groups(root) == []


@pytest.mark.usefixtures("removable")
def test_version_1_makes_a_group_below_the_own_one_in_each_tree(fake_root: FakeRoot) -> None:
    own = "4:memory:/box/inner\n1:cpu,cpuacct:/\n"
    root = machine(fake_root, FIRST, own, **{"memory/inner/x": "", "cpu,cpuacct/x": ""})
    group = cgroup.make(BOTH, root)
    cpu, memory = groups(root)
    assert (cpu.parent.name, memory.parent.name) == ("cpu,cpuacct", "inner")
    assert (cpu / "cpu.cfs_quota_us").read_text() == "150000"
    assert (memory / "memory.limit_in_bytes").read_text() == str(64 << 20)
    group.admit(77)
    assert group.members() == {77}
    group.folders = {}
    shutil.rmtree(cpu)
    shutil.rmtree(memory)


@pytest.mark.usefixtures("removable")
def test_a_controller_of_version_1_beside_version_2_is_used_where_it_is(fake_root: FakeRoot) -> None:
    own = "4:memory:/box\n0::/\n"
    second = SECOND.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ")
    root = machine(fake_root, FIRST + second, own, **{"memory/x": "", "unified/cgroup.subtree_control": "cpu\n"})
    group = cgroup.make(BOTH, root)
    assert {name: version for name, (version, _) in group.folders.items()} == {"cpu": 2, "memory": 1}
    assert group.folders["cpu"][1].parent.name == "unified"


def test_a_host_without_control_groups_says_so(fake_root: FakeRoot) -> None:
    root = machine(fake_root, "", "")
    with pytest.raises(ConditionError, match="run.memory_limit: .*no control groups are mounted"):
        cgroup.make(Conditions(memory_limit=2**30), root)


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
