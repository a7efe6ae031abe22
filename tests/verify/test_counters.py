"""What the kernel counts anyway: read around a command, of a made-up machine and of this one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import pytest

from ioassay.verify.witness.counters import Counters, below, disk_counters, process_counters

Build = Callable[[Mapping[str, Any]], Path]
MIB = 1 << 20


def io(rchar: int, read_bytes: int) -> str:
    return (
        f"rchar: {rchar}\nwchar: 7\nsyscr: 3\nsyscw: 2\nread_bytes: {read_bytes}\nwrite_bytes: 4096\n"
        "cancelled_write_bytes: 0\n"
    )


def diskstats(**reads: int) -> str:
    """Lines of a kernel of today: each device read so many times, 8 sectors each."""
    lines = (f" 8 0 {name} {n} 1 {8 * n} 5 20 2 160 9 0 11 14 4 0 32 1 6 2" for name, n in reads.items())
    return "\n".join(lines) + "\n"


def device(home: str, number: str) -> dict[str, Any]:
    name = home.rpartition("/")[2]
    there = Path(f"../../devices/{home}")
    return {
        f"sys/devices/{home}/dev": f"{number}\n",
        f"sys/class/block/{name}": there,
        f"sys/dev/block/{number}": Path("../../devices") / home,
    }


STACK: dict[str, Any] = {
    **device("sda", "8:0"),
    **device("sda/sda1", "8:1"),
    "sys/devices/sda/sda1/partition": "1\n",
    **device("sdb", "8:16"),
    **device("md0", "9:0"),
    "sys/devices/md0/slaves/sda1": Path("../../sda/sda1"),
    "sys/devices/md0/slaves/sdb": Path("../../sdb"),
}


def test_growth_between_hold_and_end_is_what_the_command_did(fake_root: Build) -> None:
    root = fake_root({"proc/7/io": io(1, 0), "proc/diskstats": diskstats(vda=100, vdb=5)})
    counters = Counters(["vda"], root)
    counters.begin(7)
    fake_root({"proc/7/io": io(65537, 8192), "proc/diskstats": diskstats(vda=116, vdb=900)})
    counters.end(7)
    found = counters.result(None)
    assert found["why"] == ""
    assert found["counters"]["rchar"] == 65536 and found["counters"]["read_bytes"] == 8192
    assert list(found["disks"]) == ["vda"]
    assert found["disks"]["vda"] == {
        **dict.fromkeys(("read_merges", "writes", "write_merges", "write_bytes", "discards", "flushes"), 0),
        "reads": 16,
        "read_bytes": 16 * 4096,
    }


def test_an_account_that_cannot_be_read_leaves_rusage_and_says_so(fake_root: Build) -> None:
    counters = Counters((), fake_root({"proc/7/io": "nonsense\n"}))
    counters.begin(7)
    counters.end(7)
    seen = counters.observation("syscalls", "no BPF here", getrusage(RUSAGE_SELF))
    assert (seen.backend, list(seen.layers), seen.asked) == ("counters", ["counters"], "syscalls")
    assert seen.why.startswith("no BPF here; /proc/7/io cannot be read (it has no rchar)")
    assert "rchar" not in seen.counters and seen.counters["minor_faults"] > 0
    gone = Counters((), fake_root({}))
    gone.end(8)
    assert "No such file" in gone.result(None)["why"]


def test_what_outlived_the_command_is_said(fake_root: Build) -> None:
    counters = Counters((), fake_root({"proc/7/io": io(0, 0)}))
    counters.begin(7)
    counters.end(7)
    assert counters.result(None, adopted=(11, 12))["why"].startswith("2 processes outlived the command")
    assert counters.result(None, adopted=(11,))["why"].startswith("1 process outlived the command: what it did")


def test_devices_below_are_counted_too(fake_root: Build) -> None:
    root = fake_root(STACK)
    assert sorted(below(["md0"], root)) == ["md0", "sda", "sda1", "sdb"]
    assert below(["sda1"], root) == ["sda1", "sda"]
    assert below([], root) == []
    assert below(["nowhere"], root) == ["nowhere"]


def test_a_device_that_went_or_came_again_has_no_counters(fake_root: Build) -> None:
    root = fake_root({"proc/7/io": io(0, 0), "proc/diskstats": diskstats(loop0=50, loop1=5)})
    counters = Counters(["loop0", "loop1", "loop2"], root)
    counters.begin(7)
    fake_root({"proc/diskstats": diskstats(loop0=3)})
    counters.end(7)
    assert counters.result(None)["disks"] == {}


def test_columns_that_an_old_kernel_lacks_are_zero(fake_root: Build) -> None:
    root = fake_root({"proc/diskstats": "8 0 sda 1 2 3 4 5 6 7 8 9 10 11\nshort\n8 1 sda1\n"})
    found = disk_counters(["sda"], root)["sda"]
    assert (found["reads"], found["read_bytes"], found["write_bytes"]) == (1, 3 * 512, 7 * 512)
    assert (found["discards"], found["flushes"]) == (0, 0)


def test_an_account_that_misses_a_field_is_none() -> None:
    with pytest.raises(ValueError, match="cancelled_write_bytes"):
        process_counters("\n".join(io(1, 1).splitlines()[:-1]))


@pytest.mark.parametrize("depth", [0, 2])
def test_children_that_were_waited_for_are_in_the_account(tmp_path: Path, depth: int) -> None:
    writes = f"open({str(tmp_path / 'data')!r}, 'wb').write(bytes({MIB}))"
    for _ in range(depth):
        writes = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {writes!r}])"
    counters = Counters()
    wait_end, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(wait_end, 1)
        os.execv(sys.executable, [sys.executable, "-SIc", writes])
    try:
        counters.begin(pid)
        os.write(go, b"g")
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        counters.end(pid)
    finally:
        usage = os.wait4(pid, 0)[2]
        os.close(wait_end)
        os.close(go)
    found = counters.result(usage)["counters"]
    assert MIB <= found["wchar"] < MIB + 65536
    assert found["minor_faults"] > 0
