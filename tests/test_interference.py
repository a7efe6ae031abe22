"""What else used the machine: made-up /proc trees with known ticks, and a real program beside a trial."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from ioassay.host import interference
from ioassay.host.interference import CpuTime, Meter
from ioassay.host.machine import Machine
from ioassay.records.environment import Environment
from ioassay.records.observation import READ, WRITE, Calls, Observation, Requests

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

    def machine(self) -> Machine:
        return Machine(self.root)


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    return Proc(tmp_path, monkeypatch)


def test_time_is_divided_among_the_trial_others_the_kernel_and_the_hypervisor(proc: Proc) -> None:
    proc.process(50, "busy", 7.0)
    proc.process(51, "renamed (x) ", 1.0)
    proc.process(60, "kworker/0:1", 3.0, parent=2, flags=KERNEL_THREAD)
    proc.process(os.getpid(), "lab", 0.0)
    proc.process(70, "server of the lab", 0.0, parent=os.getpid())
    proc.write()
    meter = Meter(proc.machine())
    meter.begin()
    proc.process(50, "busy", 7.0 + 4.0)
    proc.process(51, "another name", 1.0 + 1.0)
    proc.process(60, "kworker/0:1-events", 3.0 + 0.5, parent=2, flags=KERNEL_THREAD)
    proc.process(70, "server of the lab", 2.0, parent=os.getpid())
    proc.process(80, "born meanwhile", 0.5, start=9)
    proc.now_s += 10.0
    own_s, gone_s = 6.0, 3.0
    proc.ticks |= {"user": own_s + gone_s + 4.0 + 1.0 + 0.5 + 2.0 + 0.5, "irq": 1.5, "steal": 1.0, "idle": 0.5}
    proc.pressure_us = 2.5e6
    proc.write()
    found = meter.end(CpuTime(own_s))
    assert found is not None
    assert (found.seconds, found.processors) == (pytest.approx(10), 2)
    assert found.own_share == pytest.approx(own_s / 20)
    assert found.others_share == pytest.approx((4.0 + 1.0 + 0.5 + gone_s) / 20)  # what ended meanwhile is in it
    assert found.kernel_share == pytest.approx((0.5 + 1.5) / 20)
    assert found.steal_share == pytest.approx(1.0 / 20)
    assert found.idle_share == pytest.approx(0.5 / 20)
    assert found.pressure == {"cpu": pytest.approx(0.25)}
    assert [(program.name, program.share) for program in found.programs][:2] == [
        ("busy", pytest.approx(0.2)),
        ("another name", pytest.approx(0.05)),
    ]
    assert found.others_share_before is None


def test_a_number_that_was_given_again_starts_from_nothing(proc: Proc) -> None:
    proc.process(50, "old", 100.0, start=5)
    proc.write()
    meter = Meter(proc.machine())
    meter.begin()
    proc.process(50, "new", 1.0, start=900)
    proc.now_s += 10.0
    proc.ticks["user"] = 1.0
    proc.write()
    found = meter.end(CpuTime())
    assert found is not None and found.others_share == pytest.approx(1 / 20)


def test_ticks_that_were_sampled_otherwise_are_no_program(proc: Proc) -> None:
    """The trial's time is exact, that of /proc/stat is counted in ticks."""
    meter = Meter(proc.machine())
    meter.begin()
    proc.now_s += 1.0
    proc.ticks["user"] = 0.5 + 3 / HZ
    proc.write()
    found = meter.end(CpuTime(0.5))
    assert found is not None and found.others_share == 0


def test_the_pause_before_a_trial_is_known_from_the_second_on(proc: Proc) -> None:
    meter = Meter(proc.machine())
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


def test_servers_that_were_named_are_no_other_programs(proc: Proc) -> None:
    """As the kernel has their names: 15 characters; with what they started."""
    for pid, name, parent in ((50, "a-storage-serve", 1), (51, "its worker", 50), (52, "busy", 1)):
        proc.process(pid, name, 0.0, parent=parent)
    proc.write()
    meter = Meter(proc.machine(), servers=["a-storage-server-with-a-long-name"])
    meter.begin()
    for pid, name, parent in ((50, "a-storage-serve", 1), (51, "its worker", 50), (52, "busy", 1)):
        proc.process(pid, name, 2.0, parent=parent)
    proc.now_s += 10.0
    proc.ticks["user"] = 6.0
    proc.write()
    found = meter.end(CpuTime())
    assert found is not None and found.others_share == pytest.approx(2 / 20)
    assert [program.name for program in found.programs] == ["busy"]


def test_bytes_of_a_server_of_the_measurement_are_not_others(proc: Proc) -> None:
    account = proc.root / "proc" / "50" / "io"
    meter = Meter(proc.machine(), servers=["nbdkit"])
    for moved in (1 * MIB, 5 * MIB):
        proc.process(50, "nbdkit", 0.0)
        proc.write()
        account.write_text(f"rchar: 1\nread_bytes: {moved}\nwrite_bytes: 0\ncancelled_write_bytes: 0\n")
        meter.begin() if moved == MIB else meter.end(CpuTime())
    assert meter.device_shares(observation(0, 8 * MIB, 0, 0)) == {"sda": pytest.approx(0.5)}


def test_where_kernel_threads_are_hidden_their_time_is_not_that_of_programs(proc: Proc) -> None:
    """In a container /proc/stat counts the whole host, of which only the container's processes can be seen."""
    for kernel_thread, share in ((True, 5.0 - 1.0), (False, 2.0)):
        proc.processes.clear()
        proc.ticks = dict.fromkeys(proc.ticks, 0.0)
        if kernel_thread:
            proc.process(60, "kworker/0:1", 0.0, parent=2, flags=KERNEL_THREAD)
        proc.write()
        meter = Meter(proc.machine())
        meter.begin()
        if kernel_thread:
            proc.process(60, "kworker/0:1", 1.0, parent=2, flags=KERNEL_THREAD)
        proc.now_s += 10.0
        proc.ticks |= {"user": 1.0 + 2.0, "system": 0.5 + 3.0}
        proc.write()
        found = meter.end(CpuTime(1.0, 0.5))
        assert found is not None and found.others_share == pytest.approx(share / 20)


def test_a_pinned_trial_is_judged_by_its_own_processors(proc: Proc) -> None:
    for of_second, own_s, expected in (
        ({"user": 9.0}, 4.0, (0.4, 0.5)),  # its processor is shared
        ({"user": 4.0}, 4.0, (0.4, 0.0)),  # the other programs were elsewhere
        ({"user": 9.9}, 4.0, (0.4, 0.5)),  # no more than other programs used in all
    ):
        proc.processes.clear()
        proc.ticks, proc.of_second = dict.fromkeys(proc.ticks, 0.0), {}
        proc.write()
        meter = Meter(proc.machine())
        meter.begin(processors={1})
        proc.process(50, "busy", 5.0, start=9)
        proc.now_s += 10.0
        proc.ticks["user"], proc.of_second = own_s + 5.0, of_second
        proc.write()
        found = meter.end(CpuTime(own_s))
        assert found is not None and found.processors == 1
        assert (found.own_share, found.others_share) == (pytest.approx(expected[0]), pytest.approx(expected[1]))


def test_without_a_beginning_there_is_nothing_to_say(proc: Proc) -> None:
    assert Meter(proc.machine()).end(CpuTime(1.0)) is None


def observation(own_read: int, read: int, own_write: int, write: int, account: int = 0) -> Observation:
    requests = [
        Requests("8:0", "sda", True, READ, Calls(calls=1, bytes=own_read)),
        Requests("8:0", "sda", False, READ, Calls(calls=1, bytes=read - own_read)),
        Requests("8:0", "sda", True, WRITE, Calls(calls=1, bytes=own_write)),
    ]
    counted = {"sda": {"read_bytes": read, "write_bytes": write}}
    return Observation("bpf", "block", (), block=requests, disks=counted, counters={"write_bytes": account})


@pytest.mark.parametrize(
    ("seen", "share"),
    [
        (observation(10 * MIB, 10 * MIB, 0, 0), 0.0),
        (observation(6 * MIB, 8 * MIB, 0, 0), 0.25),
        (observation(0, 0, 1 * MIB, 4 * MIB), 0.75),
        (observation(0, 0, 1 * MIB, 4 * MIB, account=4 * MIB), 0.0),  # written back in the kernel's name
        (observation(2 * MIB, 2 * MIB, 2 * MIB, 6 * MIB), 0.5),
    ],
)
def test_bytes_of_a_device_that_the_trial_did_not_move_are_others(seen: Observation, share: float) -> None:
    assert Meter().device_shares(seen) == {"sda": pytest.approx(share)}


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
        for _ in range(60):  # on a busy machine it may have to wait for a processor
            meter.begin()
            time.sleep(0.5)
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
