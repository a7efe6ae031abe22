"""Attaching and detaching: what it needs, what it leaves behind, who may do it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ioassay import _core
from ioassay.records.observation import Observation

from ..patience import until
from .conftest import FIO

pytestmark = pytest.mark.bpf

WATCH_ONE = """
import json, os, sys
sys.path[:0] = json.loads(sys.argv[1])
from ioassay import _core
from ioassay.records.observation import Observation
reason = _core.witness_capability()
if reason:
    sys.exit(reason)
programs = _core.Witness("syscalls")
ready, go = os.pipe()
child = os.fork()
if not child:
    os.read(ready, 1)
    os.execv("/bin/cat", ["cat", "/etc/hostname"])
programs.follow(child)
os.write(go, b"g")
os.waitpid(child, 0)
print(json.dumps([part["entry"] for part in json.loads(programs.finish())["operations"]]))
"""


def bpf_descriptors(kind: str = "bpf") -> int:
    """How many programs, maps and links this process holds."""
    names = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            names.append(str(descriptor.readlink()))
        except OSError:
            continue  # that of the listing itself
    return sum(kind in name for name in names)


@pytest.mark.parametrize("level", ["block", "syscalls"])
def test_nothing_stays_attached(level: str) -> None:
    programs = _core.Witness(level)
    assert bpf_descriptors("bpf_link") > 0
    programs.finish()
    kept = bpf_descriptors()
    assert bpf_descriptors("bpf_link") == 0 < kept  # what is loaded serves the next one
    with pytest.raises(ValueError, match="finished"):
        programs.finish()
    with pytest.raises(ValueError, match="finished"):
        programs.follow(os.getpid())
    for _ in range(3):
        _core.Witness(level).finish()
        assert bpf_descriptors() == kept
    dropped = _core.Witness(level)
    del dropped
    assert bpf_descriptors() == 0


def loaded() -> set[str]:
    """The kernel's numbers of the programs that this process holds."""
    found = set()
    for name in os.listdir("/proc/self/fdinfo"):
        with suppress(FileNotFoundError):  # that of the listing itself
            lines = Path("/proc/self/fdinfo", name).read_text().splitlines()
            found |= {line.split()[1] for line in lines if line.startswith("prog_id:")}
    return found


def counted(seen: Observation) -> dict[str, object]:
    """All that a command did, without times."""
    paths = {file.id: file.path for file in seen.files}
    return {
        "calls": {name: number for name, number in seen.calls.items() if name != "futex"},
        "errors": seen.call_errors,
        "tasks": (seen.processes, seen.threads, seen.most_alive),
        "operations": sorted((each.entry, each.kind, each.calls.calls, each.calls.bytes) for each in seen.operations),
        # In MiB: whether the file system reads pages of its own tables from the disk is its affair.
        "own": sorted((each.kind, each.calls.bytes >> 20) for each in seen.block if each.own),
        "sessions": sorted(
            (paths[each.file], each.read.calls, each.read.bytes, each.write.bytes, repr(each.read_pattern))
            for each in seen.sessions
        ),
        "cached": sorted((file.path, file.page_cache_bytes or 0) for file in seen.files),
    }


BUSY = """
mkdir many; for n in $(seq 200); do echo $n > many/$n; done; cat many/* data > copy; sync copy; cat absent
dd if=data of=other bs=4k oflag=direct
"""


@pytest.mark.fio
def test_programs_that_serve_again_count_from_nothing(watch: Any, data: Path) -> None:
    exact = ["dd", "if=data", "of=/dev/null", "bs=64k", "iflag=direct", "status=none"]
    watch("syscalls", *exact)  # its pages are in memory from here on
    _core.Witness("syscalls")  # nothing is loaded now
    fresh, programs = counted(watch("syscalls", *exact)), loaded()
    watch("syscalls", "sh", "-c", BUSY)
    for engine in ("libaio", "io_uring"):
        watch("syscalls", *FIO, "--filename=other", f"--ioengine={engine}", "--size=4m", "--rw=randrw")
    assert counted(watch("syscalls", *exact)) == fresh
    assert loaded() == programs


def test_a_process_that_lives_on_is_not_followed_by_the_next_witness(watch: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    os.mkfifo(tmp_path / "gone")
    daemon = "setsid sh -c 'echo > lives; read word < go; /bin/true; /bin/true; echo > gone' &"
    watch("syscalls", "sh", "-c", f"{daemon} while [ ! -e lives ]; do sleep 0.01; done", spare_daemons=True)
    programs = loaded()
    seen = watch("syscalls", "sh", "-c", "echo > go; read word < gone")
    assert (seen.processes, seen.calls["exit_group"]) == (1, 1)
    assert not programs & loaded()  # those that follow the daemon are gone


def test_a_child_takes_none_of_its_parents_programs(watch: Any) -> None:
    watch("syscalls", "true")
    programs = loaded()
    child = os.fork()
    if not child:
        try:
            _core.Witness("syscalls").finish()
            os._exit(bool(programs & loaded()))
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert loaded() == programs


def test_programs_that_are_being_loaded_serve_the_next_witness_and_no_child() -> None:
    witness = _core.Witness("syscalls")
    number = len(loaded())
    del witness  # nothing is loaded now
    _core.witness_prepare("syscalls")
    child = os.fork()
    if not child:
        try:
            os._exit(not _core.Witness("syscalls").finish())
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    until(lambda: len(loaded()) == number)
    programs = loaded()
    witness = _core.Witness("syscalls")
    assert loaded() == programs
    assert json.loads(witness.finish())["cost"]["cpu_s"] > 0


def test_two_may_watch_at_once() -> None:
    first, second = _core.Witness("syscalls"), _core.Witness("block")
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    first.follow(child.pid)
    child.communicate(b"some text")
    seen, other = json.loads(first.finish()), json.loads(second.finish())
    assert seen["processes"] == 1 and other["processes"] == 0
    assert [part["calls"]["bytes"] for part in seen["operations"] if part["entry"] == "write"] == [9]


def test_a_process_that_is_not_there_cannot_be_followed() -> None:
    programs = _core.Witness("block")
    child = subprocess.Popen(["/bin/true"])
    child.wait()
    with pytest.raises(OSError, match=f"process {child.pid} cannot be followed"):
        programs.follow(child.pid)


def test_levels_are_checked() -> None:
    with pytest.raises(ValueError, match="'counters' is nothing to watch"):
        _core.Witness("counters")


def watch(nobody: Sequence[str], *capabilities: str) -> subprocess.CompletedProcess[str]:
    """WATCH_ONE as another user with some capabilities only."""
    held = ",".join(["-all", *(f"+{name}" for name in capabilities)])
    argv = [*nobody[:-1], f"--inh-caps={held}", f"--ambient-caps={held}"]
    paths = json.dumps([path for path in sys.path if path])
    return subprocess.run([*argv, sys.executable, "-c", WATCH_ONE, paths], capture_output=True, text=True, check=False)


@pytest.mark.root
def test_two_capabilities_suffice(nobody: list[str]) -> None:
    done = watch(nobody, "bpf", "perfmon")
    assert done.returncode == 0, done.stderr
    assert "read" in json.loads(done.stdout.splitlines()[-1])  # before it stands what cat said


@pytest.mark.root
@pytest.mark.parametrize(("held", "missing"), [([], "CAP_PERFMON and CAP_BPF"), (["bpf"], "CAP_PERFMON")])
def test_a_missing_capability_is_named(held: list[str], missing: str, nobody: list[str]) -> None:
    done = watch(nobody, *held)
    assert done.returncode == 1
    assert done.stderr.strip().endswith(f"missing {missing}: run as root, or give the process these capabilities")


def test_a_dropped_recorder_ends(tmp_path: Path) -> None:
    before, descriptors = threads(), bpf_descriptors()
    programs = _core.Witness("record", tmp_path / "requests.bin")
    writers = threads() - before
    assert len(writers) == 1
    del programs
    until(lambda: not writers & threads())  # a disk under load can hold the thread in its last write
    assert bpf_descriptors() == descriptors


def threads() -> set[str]:
    """The threads of this process."""
    return set(os.listdir("/proc/self/task"))


SYNCED = """
import os
descriptor = os.open("mounted/file", os.O_RDWR | os.O_CREAT)
for number in range(200):
    os.pwrite(descriptor, b"x" * 4096, number * 4096)
    os.fsync(descriptor)
"""


@pytest.mark.root
def test_a_request_that_flushes_around_its_data_is_one(watch: Any, loop_device: Any, tmp_path: Path) -> None:
    """A disk with a volatile cache and without FUA: the journal's requests complete twice."""
    disk, place = loop_device(64 << 20), tmp_path / "mounted"
    place.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-F", str(disk)], check=True)
    subprocess.run(["mount", str(disk), str(place)], check=True)
    try:
        seen = watch("block", sys.executable, "-c", SYNCED)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)  # somebody may just look at it
    assert seen.health["unmatched"] < 20  # of 200, each of which completes twice
