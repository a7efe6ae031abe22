"""What a trial takes is set against what the host has: refused, accepted, or bounded by its own limit of memory."""

from __future__ import annotations

import math
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay.drivers.stress_ng import StressNg
from ioassay.errors import StudyError
from ioassay.host import capacity, system
from ioassay.host.machine import Machine
from ioassay.records.record import Warning_
from ioassay.roles import DISK, INODES, MEMORY, OF_FREE, OF_STACK, OF_TOTAL, PROCESSES, Consent, Demand, Need
from ioassay.runner import demand, preflight
from ioassay.study.model import Suite, make_study

from .corpora import cases

FakeRoot = Callable[..., Path]
GIB = 2**30
HOST = {
    "proc/meminfo": f"MemTotal: {16 << 20} kB\nMemAvailable: {10 << 20} kB\n",
    "proc/loadavg": "0.1 0.1 0.1 2/768 4242\n",
    "proc/sys/kernel/pid_max": "32768\n",
    "proc/sys/kernel/threads-max": "100000\n",
    "proc/sys/kernel/pty/max": "4096\n",
    "proc/sys/kernel/pty/nr": "6\n",
    "proc/sys/fs/file-max": "400000\n",
    "proc/sys/fs/file-nr": "1000\t0\t400000\n",
    "proc/sys/vm/max_map_count": "65530\n",
    "proc/self/status": "Name:\tx\n",
    "proc/self/cgroup": "0::/box\n",
    "sys/fs/cgroup/cgroup.controllers": "memory pids\n",
}


BOX = {
    "sys/fs/cgroup/memory.max": "max\n",
    "sys/fs/cgroup/box/memory.max": f"{2 * GIB}\n",
    "sys/fs/cgroup/box/pids.max": "600\n",
    "sys/fs/cgroup/box/pids.current": "36\n",
}


@pytest.fixture
def host(fake_root: FakeRoot) -> Machine:
    """16 GiB of memory of which 10 are available, 32000 free process numbers."""
    return Machine(fake_root(HOST))


@cases("demands", "stressors")
def test_a_stressor_is_judged_by_what_it_takes(
    case: dict[str, Any], fake_root: FakeRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checked(**more: Any) -> list[Warning_]:
        wanted = StressNg().estimate({"timeout": 1, **case["params"], **more}, {}).demand
        return demand.check(wanted, case.get("memory_limit"), None, host)

    host = Machine(fake_root({**HOST, **(BOX if case.get("box") else {})}))
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_NPROCESSORS_CONF": 64}[name])
    if "refused" in case:
        with pytest.raises(StudyError) as caught:
            checked()
        assert caught.value.key == f"params.{case['refused']}"
        assert case["words"] in str(caught.value)
        assert "memory_limit" in case or checked(pathological=True) == []
        return
    found = checked()
    assert [warning.code for warning in found] == ([case["warning"]] if "warning" in case else [])
    for warning in found:
        assert warning.text.endswith("is 256 MiB: the kernel will end its processes, and the trial will be failed")


def test_free_processes_are_those_that_the_control_group_has_left(fake_root: FakeRoot) -> None:
    assert system.limits(Machine(fake_root({**HOST, **BOX})))["processes"] == 564


def test_shares_are_of_all_memory_and_of_what_is_free_on_the_disk(host: Machine, tmp_path: Path) -> None:
    def check(*needs: Need) -> list[Warning_]:
        return demand.check(Demand(needs, "x = true"), None, tmp_path, Machine())

    most = capacity.total_memory_bytes(host)
    assert demand._amount(Need(MEMORY, 0.5, "", "", of=OF_TOTAL), None, host) == most / 2
    check(Need(DISK, 0.001, "hdd", "params.hdd-bytes", of=OF_FREE))
    with pytest.raises(
        StudyError, match="hdd takes .* of disk space; this host has .*free on .*accept the harm with x"
    ):
        check(Need(DISK, 1.0, "hdd", "params.hdd-bytes", of=OF_FREE))
    with pytest.raises(StudyError, match="dirdeep takes inodes without end"):
        check(Need(INODES, math.inf, "dirdeep", "params.stressor"))


def test_a_stack_grows_to_its_limit(host: Machine) -> None:
    soft_bytes, hard_bytes = resource.getrlimit(resource.RLIMIT_STACK)
    try:
        resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, hard_bytes))
        assert demand._amount(Need(MEMORY, 2, "", "", of=OF_STACK), None, host) == 16 << 20
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft_bytes, hard_bytes))


def test_what_nobody_knows_of_the_host_refuses_nothing(fake_root: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    empty = Machine(fake_root({"proc/self/status": "", "sys/fs/cgroup/cgroup.controllers": ""}))
    assert demand.check(Demand((Need(MEMORY, math.inf, "x", "params.x"), Need(PROCESSES, 1e9, "x", "params.x"))), None,
                        None, empty) == []  # fmt: skip


@pytest.mark.stress
@pytest.mark.parametrize(
    "params", [{"stressor": "vm", "vm-bytes": "200%"}, {"stressor": "brk"}, {"stressor": "bigheap"}]
)
def test_preflight_refuses_a_hog_before_anything_runs(params: dict[str, Any]) -> None:
    made = make_study({"name": "s", "title": "S", "driver": "stress_ng", "params": {"timeout": 1, **params}}, "s.toml")
    benches = preflight.assemble(Suite(name="s", title="S", studies=[made]), Consent())
    preflight.ready_tools(benches)
    with pytest.raises(StudyError, match=r"s: params\.\S+: '\w+' .*takes .*memory.*pathological = true"):
        preflight.examine(benches)
