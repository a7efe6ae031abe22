"""One command under the witness: which backend is chosen, what is said when it is not the best, and what it tells."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import pytest

from ioassay import _core
from ioassay.errors import ToolError, UsageError
from ioassay.host import block_devices, process_capabilities
from ioassay.verify import witness
from ioassay.verify.witness import single_command
from ioassay.verify.witness.observed_command import Counters, best, bpf_unusable, process_counters, with_filesystems

from .conftest import table

WRITES = "import os; f = os.open('data', os.O_WRONLY | os.O_CREAT); [os.write(f, bytes(4096)) for _ in range(100)]"


def watch(folder: Path, level: str, *argv: str, **options: Any) -> witness.Observed:
    return witness.watch(argv or (sys.executable, "-SIc", WRITES), level, folder, **options)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_nothing_is_seen_where_nothing_is_to_be_watched(tmp_path: Path) -> None:
    assert watch(tmp_path, "off").seen is None


def test_counters_see_what_the_kernel_counts_anyway(tmp_path: Path) -> None:
    watched = watch(tmp_path, "counters")
    seen = watched.seen
    assert seen is not None and watched.outcome.exit_code == 0
    assert (seen.backend, list(seen.layers), seen.why) == ("counters", ["counters"], "")
    assert seen.counters["wchar"] >= 409600
    assert seen.kernel == os.uname().release
    assert 0 < seen.held_ns < seen.ended_ns


def test_without_bpf_counters_watch_and_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "witness_capability", lambda: "BPF is forbidden here", raising=False)
    seen = watch(tmp_path, "syscalls").seen
    assert seen is not None and seen.backend == "counters" and seen.asked == "syscalls"
    assert "BPF is forbidden here" in seen.why
    with pytest.raises(ToolError, match="BPF is forbidden here"):
        watch(tmp_path, "syscalls", backend="bpf")


def test_programs_that_cannot_be_attached_after_all_leave_the_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refused:
        def __init__(self, *_: object, **__: object) -> None:
            raise OSError("the verifier said no")

    monkeypatch.setattr(_core, "witness_capability", lambda: "", raising=False)
    monkeypatch.setattr(_core, "Witness", Refused, raising=False)
    seen = watch(tmp_path, "block").seen
    assert seen is not None and seen.backend == "counters"
    assert "the verifier said no" in seen.why


def test_a_command_that_does_not_exist_is_a_tool_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no-such-program"):
        watch(tmp_path, "counters", "no-such-program")


def test_files_are_told_with_the_filesystem_that_is_mounted() -> None:
    from ioassay.records.observation import File

    status = Path("/proc/self/mountinfo").stat()
    number = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    [known, unknown] = with_filesystems(
        [File(0, number, 1, "/proc/x", "regular"), File(1, "999:1", 1, "/x", "regular")]
    )
    assert (known.filesystem, unknown.filesystem) == ("proc", "")


def test_paths_are_guessed_from_a_command_line(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    argv = ["dd", "if=data", f"of={tmp_path}/new", "bs=4k", "--output", "/no/such/place", "-f", str(tmp_path), "\0"]
    assert set(map(str, single_command.paths_in(argv))) == {"data", f"{tmp_path}/new", str(tmp_path)}


# Which backend is chosen


@pytest.fixture
def bpf(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let BPF be unusable for a reason; '' makes it usable."""
    return lambda reason: monkeypatch.setattr(_core, "witness_capability", lambda: reason, raising=False)


@table(
    "backends",
    "bpf_where_it_works",
    "counters_where_bpf_does_not_work",
    "strace_only_by_name",
    "counters_by_name_say_what_they_leave_out",
    "what_cannot_be_had_by_name",
    "what_does_not_exist",
)
def test_the_backend_of_a_level(
    bpf: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, asked: Any, unusable: str | None,
    no_strace: str | None, backend: str | None, why: str | None, refused: str | None,
) -> None:  # fmt: skip
    """`why` is what is said, or with … before it a part of that; `refused` a part of what an error says."""
    bpf(unusable or "")
    monkeypatch.setattr("ioassay.packs.strace.observer.unusable", lambda: no_strace or "")
    if refused is not None:
        with pytest.raises(UsageError if unusable is None and no_strace is None else ToolError, match=refused):
            best(*asked)
        return
    choice = best(*asked)
    assert choice.backend == backend
    assert choice.why == why if not why or why[0] != "…" else why[1:] in choice.why


def test_capabilities_that_are_missing_are_named_with_the_way_to_grant_them(
    bpf: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bpf("missing CAP_PERFMON: run as root, or give the process these capabilities")
    monkeypatch.setattr(process_capabilities, "is_withheld", lambda name: False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    said = (
        "missing CAP_PERFMON: run as root, or give the process these capabilities ('ioassay help backends' shows how)"
    )
    assert bpf_unusable() == said
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert bpf_unusable().startswith("missing CAP_PERFMON: start the container with --cap-add=PERFMON (docker or")


def test_a_build_without_programs_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(_core, "witness_capability", raising=False)
    assert "no witness: it is of another version" in bpf_unusable()


# What the kernel counts anyway: read around a command, of a made-up machine and of this one


Build = Callable[[Mapping[str, Any]], Path]
MIB = 1 << 20


def io(rchar: int, read_bytes: int) -> str:
    fixed = "wchar: 7\nsyscr: 3\nsyscw: 2\nwrite_bytes: 4096\ncancelled_write_bytes: 0\n"
    return f"rchar: {rchar}\nread_bytes: {read_bytes}\n{fixed}"


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


def counted(fake_root: Build, disks: Sequence[str], before: dict[str, Any], after: dict[str, Any]) -> Counters:
    """What was counted around process 7, where files of / changed."""
    counters = Counters(disks, fake_root(before))
    counters.begin(7)
    fake_root(after)
    counters.end(7)
    return counters


def test_growth_between_hold_and_end_is_what_the_command_did(fake_root: Build) -> None:
    before = {"proc/7/io": io(1, 0), "proc/diskstats": diskstats(vda=100, vdb=5)}
    after = {"proc/7/io": io(65537, 8192), "proc/diskstats": diskstats(vda=116, vdb=900)}
    counters = counted(fake_root, ["vda"], before, after)
    found = counters.result(None)
    assert found["why"] == ""
    assert found["counters"]["rchar"] == 65536 and found["counters"]["read_bytes"] == 8192
    assert list(found["disks"]) == ["vda"]
    none = dict.fromkeys(("read_merges", "writes", "write_merges", "write_bytes", "discards", "flushes"), 0)
    assert found["disks"]["vda"] == {**none, "reads": 16, "read_bytes": 16 * 4096}


def test_an_account_that_cannot_be_read_leaves_rusage_and_says_so(fake_root: Build) -> None:
    counters = counted(fake_root, (), {"proc/7/io": "nonsense\n"}, {})
    found = counters.result(getrusage(RUSAGE_SELF))
    assert found["why"].startswith("/proc/7/io cannot be read (it has no rchar)")
    assert "rchar" not in found["counters"] and found["counters"]["minor_faults"] > 0
    gone = Counters((), fake_root({}))
    gone.end(8)
    assert "No such file" in gone.result(None)["why"]


def test_what_outlived_the_command_is_said(fake_root: Build) -> None:
    counters = counted(fake_root, (), {"proc/7/io": io(0, 0)}, {})
    assert counters.result(None, adopted=(11, 12))["why"].startswith("2 processes outlived the command")
    assert counters.result(None, adopted=(11,))["why"].startswith("1 process outlived the command: what it did")


def test_devices_below_are_counted_too(fake_root: Build) -> None:
    root = fake_root(STACK)
    assert sorted(block_devices.below(["md0"], root)) == ["md0", "sda", "sda1", "sdb"]
    assert block_devices.below(["sda1"], root) == ["sda1", "sda"]
    assert block_devices.below([], root) == []
    assert block_devices.below(["nowhere"], root) == ["nowhere"]


def test_a_device_that_went_or_came_again_has_no_counters(fake_root: Build) -> None:
    before = {"proc/7/io": io(0, 0), "proc/diskstats": diskstats(loop0=50, loop1=5)}
    after = {"proc/diskstats": diskstats(loop0=3)}
    counters = counted(fake_root, ["loop0", "loop1", "loop2"], before, after)
    assert counters.result(None)["disks"] == {}


def test_columns_that_an_old_kernel_lacks_are_zero(fake_root: Build) -> None:
    root = fake_root({"proc/diskstats": "8 0 sda 1 2 3 4 5 6 7 8 9 10 11\nshort\n8 1 sda1\n"})
    found = block_devices.disk_counters(["sda"], root)["sda"]
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
