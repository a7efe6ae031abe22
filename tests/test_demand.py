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
PER_SECOND = {"timeout": 1}


@pytest.fixture
def host(fake_root: FakeRoot) -> Machine:
    """16 GiB of memory of which 10 are available, 32000 free process numbers."""
    return Machine(fake_root(HOST))


def checked(host: Machine, params: dict[str, Any], memory_limit: int | None = None) -> list[Warning_]:
    wanted = StressNg().estimate({**PER_SECOND, **params}, {}).demand
    return demand.check(wanted, memory_limit, None, host)


def refused(host: Machine, params: dict[str, Any], memory_limit: int | None = None) -> StudyError:
    with pytest.raises(StudyError) as caught:
        checked(host, params, memory_limit)
    return caught.value


@pytest.mark.parametrize(
    ("params", "key", "words"),
    [
        ({"stressor": "vm", "vm-bytes": "200%"}, "vm-bytes", "takes 32 GiB of memory; this host has 10 GiB (MemAvail"),
        ({"stressor": "vm", "vm-bytes": "9.5G"}, None, ""),  # stress-ng reads 9 GiB
        (
            {"stressor": "vm", "vm-bytes": "10g"},
            "vm-bytes",
            "a trial may take 9 GiB: lower vm-bytes, or let the kernel",
        ),
        ({"stressor": "vm", "vm-bytes": "10GiB"}, "vm-bytes", "(vm-bytes = 10G) takes 10 GiB"),
        ({"stressor": "vm", "vm-bytes": "2G", "workers": 8}, None, ""),  # divided among the workers
        ({"stressor": "vm", "maximize": True}, None, ""),
        ({"stressor": "memrate", "memrate-bytes": "2G", "workers": 8}, "memrate-bytes", "takes 16 GiB"),
        ({"stressor": "shm", "shm-bytes": "512M"}, "shm-bytes", "takes 16 GiB"),
        ({"stressor": "shm", "shm-bytes": "64M", "shm-objs": 8}, None, ""),
        ({"stressor": "matrix-3d", "matrix-3d-size": 1024}, "matrix-3d-size", "takes 16 GiB"),
        ({"stressor": "matrix-3d", "maximize": True}, "stressor", "takes 16 GiB"),
        ({"stressor": "brk"}, "stressor", "'brk' takes memory without end"),
        ({"stressor": "bigheap"}, "stressor", "run.memory_limit = '9216MiB' or less, or accept the harm with patholog"),
        ({"stressor": "dev-shm"}, "stressor", "takes memory without end"),
        ({"stressor": "oom-pipe"}, "stressor", "takes memory without end"),
        ({"stressor": "fork", "fork-max": 16000}, "fork-max", "takes 16000 processes; this host has 32000 (kernel.pid"),
        ({"stressor": "fork", "fork-max": 1000, "workers": 16}, "fork-max", "lower fork-max or workers"),
        ({"stressor": "fork", "fork-max": 1000}, None, ""),
        ({"stressor": "vforkmany"}, "stressor", "takes processes without end"),
        ({"stressor": "zombie"}, "stressor", "takes 8192 processes"),
        ({"stressor": "zombie", "zombie-max": 4000}, None, ""),
        ({"stressor": "cpu", "workers": 4096}, "workers", "(4096 workers) takes 16 GiB"),
        ({"stressor": "pty"}, "stressor", "65536 pseudoterminals; this host has 4090 (kernel.pty.max)"),
        ({"stressor": "open", "workers": 8}, "stressor", "524288 open files; this host has 399000 (fs.file-max)"),
        ({"stressor": "open", "workers": 8, "open-max": "10%"}, None, ""),
        ({"stressor": "newer", "newer-bytes": "64G"}, "newer-bytes", "takes 64 GiB of memory"),
        ({"stressor": "cache"}, None, ""),
        ({"stressor": "pipeherd", "workers": 16}, None, ""),
        ({"stressor": "zlib"}, None, ""),
    ],
)
def test_a_stressor_is_judged_by_what_it_takes(
    host: Machine, params: dict[str, Any], key: str | None, words: str
) -> None:
    if key is None:
        assert checked(host, params) == []
        return
    error = refused(host, params)
    assert error.key == f"params.{key}"
    assert words in str(error)
    assert checked(host, {**params, "pathological": True}) == []


@pytest.mark.parametrize("stressor", ["brk", "bigheap", "dev-shm", "env", "mmaphuge", "oom-pipe"])
def test_a_limit_of_memory_makes_an_endless_stressor_harmless_and_says_how_it_ends(
    host: Machine, stressor: str
) -> None:
    (warning,) = checked(host, {"stressor": stressor}, 256 << 20)
    assert warning.code == "memory-limit-too-small"
    assert warning.text.endswith("is 256 MiB: the kernel will end its processes, and the trial will be failed")


def test_a_limit_of_memory_that_the_host_has_not_bounds_nothing(host: Machine) -> None:
    refused(host, {"stressor": "bigheap"}, 12 * GIB)
    refused(host, {"stressor": "vm", "vm-bytes": "100%"}, 12 * GIB)


def test_a_limit_of_memory_bounds_no_processes(host: Machine) -> None:
    assert "processes" in str(refused(host, {"stressor": "vforkmany"}, GIB))


def test_no_workers_are_one_on_each_processor_that_is_configured(
    host: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_NPROCESSORS_CONF": 64}[name])
    assert "(fork-max = 200, 64 workers) takes 12800" in str(
        refused(host, {"stressor": "fork", "fork-max": 200, "workers": 0})
    )


def test_the_tightest_limit_counts(fake_root: FakeRoot) -> None:
    limits = {
        "sys/fs/cgroup/memory.max": "max\n",
        "sys/fs/cgroup/box/memory.max": f"{2 * GIB}\n",
        "sys/fs/cgroup/box/pids.max": "600\n",
        "sys/fs/cgroup/box/pids.current": "36\n",
    }
    machine = Machine(fake_root({**HOST, **limits}))
    assert system.limits(machine)["processes"] == 564
    assert "2 GiB (the limit of this control group)" in str(refused(machine, {"stressor": "vm", "vm-bytes": "3G"}))
    words = "takes 600 processes; this host has 564 (pids.max of this control group), and a trial may take 500"
    assert words in str(refused(machine, {"stressor": "pthread", "pthread-max": 600}))


def test_a_group_of_version_1_may_limit_processes_too(fake_root: FakeRoot) -> None:
    group = {"proc/self/cgroup": "5:pids:/a\n", "sys/fs/cgroup/pids/a/pids.max": "99\n"}
    tree = {key: text for key, text in HOST.items() if "controllers" not in key}
    machine = Machine(fake_root({**tree, **group, "sys/fs/cgroup/pids/a/pids.current": "9\n"}))
    assert system.limits(machine)["processes"] == 90


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
