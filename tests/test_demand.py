"""What a trial takes of its host, and what others take of it meanwhile.

A demand is set against what the host has: refused, accepted, or bounded by its own limit of memory. What else used the
machine is told in made-up /proc trees with known ticks, and with a real program beside a trial.
"""

from __future__ import annotations

import math
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay.errors import StudyError
from ioassay.host import interference, system
from ioassay.host.interference import CpuTime, Meter
from ioassay.host.machine import Machine
from ioassay.packs.stress_ng.driver import StressNg
from ioassay.records.observation import READ, WRITE, Calls, Observation, Requests
from ioassay.records.record import Environment, Warning_
from ioassay.roles import DISK, INODES, MEMORY, OF_FREE, OF_STACK, OF_TOTAL, PROCESSES, Consent, Demand, Need
from ioassay.runner import demand, preflight
from ioassay.study.model import Suite, make_study

from .corpora import cases, tree

FakeRoot = Callable[..., Path]
HOST, BOX = tree("demands", "host"), tree("demands", "box")


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

    most = system.memory(host)["total_bytes"]
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
    needs = (Need(MEMORY, math.inf, "x", "params.x"), Need(PROCESSES, 1e9, "x", "params.x"))
    assert demand.check(Demand(needs), None, None, empty) == []


@pytest.mark.stress
def test_preflight_refuses_a_hog_before_anything_runs() -> None:
    params = {"timeout": 1, "stressor": "vm", "vm-bytes": "200%"}
    made = make_study({"name": "s", "title": "S", "driver": "stress_ng", "params": params}, "s.toml")
    benches = preflight.assemble(Suite(name="s", title="S", studies=[made]), Consent())
    preflight.ready_tools(benches)
    with pytest.raises(StudyError, match=r"s: params\.\S+: '\w+' .*takes .*memory.*pathological = true"):
        preflight.examine(benches)


# What else used the machine

HZ = os.sysconf("SC_CLK_TCK")
KERNEL_THREAD = 0x00200000
MIB = 1 << 20


class Proc:
    """A made-up machine with two processors, whose clock is ours."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.now_s, self.ticks = root, 100.0, dict.fromkeys(("user", "system", "idle", "irq", "steal"), 0.0)
        self.pressure_us = 0.0
        self.of_second: dict[str, float] = {}
        """What the second processor did of `ticks`."""
        self.processes: dict[int, tuple[str, int, int, float, int]] = {}
        monkeypatch.setattr(interference.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(interference.os, "times", lambda: os.times_result((0.0,) * 5))
        self.write()

    def process(self, pid: int, name: str, cpu_s: float, *, parent: int = 1, flags: int = 0, start: int = 5) -> None:
        self.processes[pid] = (name, parent, flags, cpu_s, start)

    def write(self) -> None:
        ticks = {name: int(seconds * HZ) for name, seconds in self.ticks.items()}
        proc = self.root / "proc"
        (proc / "pressure").mkdir(parents=True, exist_ok=True)
        line = "{} 0 {} {} 0 {} 0 {} 0 0"
        all_of_it = line.format(*ticks.values())
        second = {name: int(self.of_second.get(name, 0.0) * HZ) for name in ticks}
        first = {name: number - second[name] for name, number in ticks.items()}
        each = [line.format(*part.values()) for part in (first, second)]
        (proc / "stat").write_text(f"cpu  {all_of_it}\ncpu0 {each[0]}\ncpu1 {each[1]}\nintr 0\n")
        (proc / "pressure" / "cpu").write_text(f"some avg10=0 avg60=0 avg300=0 total={int(self.pressure_us)}\n")
        for old in proc.glob("[0-9]*"):
            shutil.rmtree(old)
        for pid, (name, parent, flags, cpu_s, start) in self.processes.items():
            (proc / str(pid)).mkdir()
            columns = ["S", parent, 0, 0, 0, 0, flags, 0, 0, 0, 0, int(cpu_s * HZ), *[0] * 7, start, 0]
            (proc / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(map(str, columns))}\n")


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    return Proc(tmp_path, monkeypatch)


@cases("interference", "shares")
def test_time_is_divided_among_the_trial_others_the_kernel_and_the_hypervisor(case: dict[str, Any], proc: Proc) -> None:
    def process(one: dict[str, Any], name: str, cpu_s: float, start: int) -> None:
        parent = one.get("of", 1) or os.getpid()
        flags = KERNEL_THREAD if one.get("kernel") else 0
        proc.process(one["id"] or os.getpid(), name, cpu_s, parent=parent, flags=flags, start=start)

    processes = case.get("processes", ())
    for one in processes:
        if "before" in one:
            process(one, one["name"], one["before"], 5)
    proc.write()
    meter = Meter(Machine(proc.root), servers=case.get("servers", ()))
    meter.begin(processors=set(case["pinned"])) if "pinned" in case else meter.begin()
    for one in processes:
        process(one, one.get("renamed", one["name"]), one["after"], one.get("start", 5 if "before" in one else 9))
    proc.now_s += 10.0
    proc.ticks |= case["ticks"]
    proc.of_second = case.get("second", {})
    proc.pressure_us = case.get("pressure_s", 0) * 1e6
    proc.write()
    found = meter.end(CpuTime(*case.get("own", (0, 0))))
    assert found is not None
    assert (found.seconds, found.processors) == (pytest.approx(10), len(case.get("pinned", (0, 1))))
    for kind, seconds in case["found"].items():
        assert getattr(found, f"{kind}_share") == pytest.approx(seconds / 10 / found.processors), kind
    shares = [(program.name, program.share) for program in found.programs]
    wanted = [(name, pytest.approx(seconds / 20)) for name, seconds in case.get("programs", {}).items()]
    assert shares[: len(wanted)] == wanted
    assert found.pressure["cpu"] == pytest.approx(case.get("pressure_s", 0) / 10)
    assert found.others_share_before is None


def test_the_pause_before_a_trial_is_known_from_the_second_on(proc: Proc) -> None:
    meter = Meter(Machine(proc.root))
    meter.begin()
    proc.now_s += 1.0
    meter.end(CpuTime())
    proc.now_s += 2.0
    proc.process(50, "updatedb", 1.0, start=9)
    proc.ticks["user"] = 1.0
    proc.write()
    meter.begin()
    proc.now_s += 1.0
    found = meter.end(CpuTime())
    assert found is not None
    assert (found.others_share_before, found.others_share) == (pytest.approx(1 / 4), 0)


def test_bytes_of_a_server_of_the_measurement_are_not_others(proc: Proc) -> None:
    account = proc.root / "proc" / "50" / "io"
    meter = Meter(Machine(proc.root), servers=["nbdkit"])
    for moved in (1 * MIB, 5 * MIB):
        proc.process(50, "nbdkit", 0.0)
        proc.write()
        account.write_text(f"rchar: 1\nread_bytes: {moved}\nwrite_bytes: 0\ncancelled_write_bytes: 0\n")
        meter.begin() if moved == MIB else meter.end(CpuTime())
    assert meter.device_shares(observation(0, 8 * MIB, 0, 0)) == {"sda": pytest.approx(0.5)}


def test_without_a_beginning_there_is_nothing_to_say(proc: Proc) -> None:
    assert Meter(Machine(proc.root)).end(CpuTime(1.0)) is None


def observation(own_read: int, read: int, own_write: int, write: int, account: int = 0) -> Observation:
    requests = [
        Requests("8:0", "sda", True, READ, Calls(calls=1, bytes=own_read)),
        Requests("8:0", "sda", False, READ, Calls(calls=1, bytes=read - own_read)),
        Requests("8:0", "sda", True, WRITE, Calls(calls=1, bytes=own_write)),
    ]
    counted = {"sda": {"read_bytes": read, "write_bytes": write}}
    return Observation("bpf", "block", (), block=requests, disks=counted, counters={"write_bytes": account})


@cases("demands", "device_shares")
def test_bytes_of_a_device_that_the_trial_did_not_move_are_others(case: dict[str, Any]) -> None:
    seen = observation(*(mib * MIB for mib in case["moved_mib"]))
    assert Meter().device_shares(seen) == {"sda": pytest.approx(case["share"])}


def test_a_device_that_moved_next_to_nothing_is_not_judged() -> None:
    assert Meter().device_shares(observation(0, MIB - 1, 0, 0)) == {}
    assert Meter().device_shares(Observation("counters", "counters", ())) == {}


def test_a_program_that_computes_during_a_trial_is_seen_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interference, "_MOST", 1000)  # other tests may be busier
    meter = Meter()
    starter = subprocess.Popen(["sh", "-c", "while :; do :; done & echo $!"], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    orphan = int(starter.stdout.readline())  # its parent ends: it belongs to nobody here
    try:
        starter.wait()
        for _ in range(600):  # on a busy machine it may have to wait for a processor
            meter.begin()
            time.sleep(0.2)
            found = meter.end(CpuTime())
            assert found is not None
            if (seen := _share_of(orphan, found)) is not None:
                break
    finally:
        os.kill(orphan, 9)
    assert seen is not None and 0 < seen <= found.others_share <= 1


def _share_of(pid: int, found: Environment) -> float | None:
    """The share of the programs that are called as that process is."""
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    return next((program.share for program in found.programs if program.name == name), None)
