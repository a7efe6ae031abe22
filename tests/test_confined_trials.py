"""Real tools held to what was approved for their trial: what was overlooked stays whole, all else works as before."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ioassay.api.progress import Progress
from ioassay.drivers import driver
from ioassay.drivers.fio import Fio
from ioassay.drivers.fio.jobfile import job_study
from ioassay.process import landlock, supervisor
from ioassay.process.landlock import Linux
from ioassay.records.record import FAILED, OK, Record
from ioassay.roles import Command, Confinement, Consent, Driver, Load, Rehearsal, Touch
from ioassay.runner import confinement, preflight, run
from ioassay.runner.confinement import CODE, CONFINEMENT
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite, make_study
from ioassay.verify.witness import strace, strace_summary

LoopDevice = Callable[..., Path]
NOTHING = Load("null", None, 0, False)


class Absent(Linux):
    """A kernel without Landlock."""

    def abi(self) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


class Blind(Fio):
    """fio's driver as if it had overlooked every path that its job names."""

    def touches(self, params: Any) -> Sequence[Touch]:
        return ()

    def confinement(self, params: Any) -> Confinement:
        return Confinement()


Recorded = tuple[Record, dict[str, Any]]
"""A trial's record, and its CONFINEMENT."""


def record_of(root: Path, table: dict[str, Any], own: Any = None, consent: Sequence[str] = ()) -> Recorded:
    """The only trial of a study."""
    (recorded,) = records_of(root, table, own, consent)
    return recorded


def records_of(root: Path, table: dict[str, Any], own: Any = None, consent: Sequence[str] = ()) -> list[Recorded]:
    watch = {"monitors": [], "witness": "off", **table.pop("watch", {})}
    made = make_study({"name": "s", "title": "S", **table, "repetitions": 1, "watch": watch}, "s.toml")
    store = RunStore.create(root, Suite(name="s", title="S", studies=[made]), {})
    bench = preflight.Bench(made, own or driver(made.driver), Consent(consent), root.parent)
    preflight.ready_tools([bench])
    run.execute(store, [bench], Progress())
    folders = [(record, store.folder(str(record.trial["id"]))) for record in store.records()]
    return [(record, json.loads((folder / "raw" / CONFINEMENT).read_text())) for record, folder in folders]


def job_table(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(folder)
    return {
        key: value for key, value in job_study(text, folder / "j.fio").items() if key not in ("figures", "analysis")
    }


@pytest.mark.fio
@pytest.mark.landlock
@pytest.mark.parametrize(
    "options",
    [
        "rw=write\nsize=4k",
        "rw=randrw\nsize=64k\nioengine=libaio\niodepth=4",
        "rw=write\nsize=4k\nioengine=mmap",
        "rw=write\nsize=4k\nioengine=io_uring",
        "rw=read\nsize=4k\nunlink=1",
        "rw=write\nsize=4k\nioengine=ftruncate",
    ],
)
def test_fio_cannot_change_a_file_that_was_overlooked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    others = tmp_path / "others"
    others.mkdir()
    precious = others / "precious"
    precious.write_bytes(b"precious" * 1024)
    before = precious.stat()
    table = job_table(tmp_path, f"[a]\nfilename={precious}\n{options}\n", monkeypatch)
    record, document = record_of(tmp_path / "run", table, Blind())
    assert document["confined"]
    assert precious.read_bytes() == b"precious" * 1024
    assert (precious.stat().st_mtime_ns, precious.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert os.listdir(others) == ["precious"]
    if "unlink" not in options:  # fio does not look whether that succeeds
        assert record.status == FAILED
        assert os.strerror(errno.EACCES) in record.reason and CONFINEMENT in record.reason


@pytest.mark.fio
@pytest.mark.landlock
def test_fio_can_make_no_file_and_no_folder_where_none_was_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tmp_path / "others"
    others.mkdir()
    text = f"[a]\nrw=write\nsize=4k\nfilename={others}/new/file\n[b]\nrw=write\nsize=4k\nfilename={others}/file\n"
    record, _ = record_of(tmp_path / "run", job_table(tmp_path, text, monkeypatch), Blind())
    assert record.status == FAILED
    assert os.listdir(others) == []


@pytest.mark.fio
@pytest.mark.root
@pytest.mark.landlock
@pytest.mark.parametrize("pattern", ["write", "randtrim"])
def test_fio_cannot_change_a_device_that_was_overlooked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop_device: LoopDevice, pattern: str
) -> None:
    device = loop_device(1 << 20)
    device.write_bytes(b"precious" * (1 << 17))
    table = job_table(tmp_path, f"[a]\nfilename={device}\nrw={pattern}\nsize=64k\n", monkeypatch)
    record, _ = record_of(tmp_path / "run", table, Blind())
    assert record.status == FAILED
    assert device.read_bytes() == b"precious" * (1 << 17)


GOOD_JOB = """[global]
size=64k
bs=4k
thread=0
[several]
rw=randrw
filename=one:two
[again]
stonewall
rw=write
size=128k
filename=one
[read-anew]
stonewall
rw=read
filename=three
[folders]
stonewall
rw=write
directory=made/here
filename_format=job-$jobnum/file-$filenum
nrfiles=2
numjobs=2
[unlinked]
stonewall
rw=write
filename=four
unlink=1
[each]
stonewall
rw=write
loops=2
filename=five
unlink_each_loop=1
[mapped]
stonewall
rw=randwrite
ioengine=mmap
filename=six
[buffers]
stonewall
rw=write
filename=seven
mem=mmap:buffers
[shared-buffers]
stonewall
rw=write
filename=seven
mem=mmapshared:buffers-too
[verified]
stonewall
rw=write
filename=eight
verify=crc32c
verify_state_save=1
[logged]
stonewall
rw=write
filename=nine
write_bw_log=bw
write_lat_log
[direct]
stonewall
rw=randwrite
ioengine=io_uring
filename=ten
[there]
stonewall
rw=write
filename=there
[sink]
stonewall
rw=write
filename=/dev/null
[replaced]
stonewall
ioengine=filecreate
rw=write
fallocate=none
filesize=4k
nrfiles=4
directory=files
"""


@pytest.mark.fio
@pytest.mark.landlock
def test_everything_that_a_job_may_do_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("made/here", "files"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("there", "buffers-too"):  # fio makes no file for mmapshared long enough (alloc_mem_mmap in memory.c)
        (tmp_path / name).write_bytes(bytes(65536))
    consent = [str(tmp_path / "there"), str(tmp_path / "buffers-too")]
    record, document = record_of(tmp_path / "run", job_table(tmp_path, GOOD_JOB, monkeypatch), consent=consent)
    assert (record.status, record.reason) == (OK, "")
    assert document["confined"] and CODE not in {warning.code for warning in record.warnings}
    names = {path.name for path in tmp_path.iterdir()}
    assert {"one", "two", "three", "six", "seven", "eight", "nine", "ten", "made", "files", "buffers-too"} <= names
    assert not {"four", "buffers"} & names  # fio makes the fifth again for its second loop
    assert (tmp_path / "made" / "here" / "job-1" / "file-1").stat().st_size == 65536 // 2
    assert any(name.startswith("bw_bw") for name in record.raw)
    assert any("verify.state" in name for name in record.raw)


@pytest.mark.fio
@pytest.mark.root
@pytest.mark.landlock
@pytest.mark.parametrize("pattern", ["randread", "randwrite", "trim"])
def test_a_device_is_loaded_as_before(tmp_path: Path, loop_device: LoopDevice, pattern: str) -> None:
    device = loop_device(1 << 20)
    target = {"kind": "device", "path": str(device), "prepare": "none"}
    params = {"rw": pattern, "bs": "4k", "ioengine": "libaio", "direct": 1, "size": "1m"}
    record, document = record_of(tmp_path / "run", {"driver": "fio", "target": target, "params": params})
    assert (record.status, record.reason) == (OK, "")
    assert document["may_change"][str(device)] == ["ioctl" if pattern == "randread" else "write"]


@pytest.mark.fio
@pytest.mark.landlock
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_file_is_loaded_as_before(tmp_path: Path, kind: str) -> None:
    target = {"kind": kind, "path": str(tmp_path / "file" if kind == "file" else tmp_path), "size": "1MiB"}
    params = {"rw": "randrw", "bs": "4k", "logs": ["bw", "lat"]}
    record, document = record_of(tmp_path / "run", {"driver": "fio", "target": target, "params": params})
    assert (record.status, record.reason) == (OK, "")
    assert document["confined"]
    assert str(tmp_path) not in document["may_change"]


@pytest.mark.landlock
@pytest.mark.parametrize("params", [{"threads": 2}, {"cache": "drop"}, {"direct": True}])
def test_file_tests_run_confined(tmp_path: Path, params: dict[str, Any]) -> None:
    table = {"driver": "filesuite", "target": {"kind": "folder", "path": str(tmp_path)}}
    params = {"tests": "write,read,random", "size": "1MiB", "record": "64KiB", **params}
    record, document = record_of(tmp_path / "run", {**table, "params": params})
    assert (record.status, record.reason) == (OK, "")
    assert document["confined"]


@pytest.mark.rocksdb
@pytest.mark.landlock
def test_a_database_is_loaded_confined(tmp_path: Path) -> None:
    table = {"driver": "db_bench", "target": {"kind": "folder", "path": str(tmp_path)}}
    params = {"benchmarks": "fillrandom,compact,overwrite,readrandom", "num": 20000, "write_buffer_size": 65536}
    record, document = record_of(tmp_path / "run", {**table, "params": params})
    assert (record.status, record.reason) == (OK, "")
    assert document["confined"]


@pytest.mark.stress
def test_stressors_are_not_confined_and_their_records_say_so(tmp_path: Path) -> None:
    record, document = record_of(tmp_path / "run", {"driver": "stress_ng", "params": {"stressor": "cpu", "timeout": 1}})
    assert record.status == OK
    assert not document["confined"]
    assert [warning.code for warning in record.warnings if warning.code == CODE] == [CODE]


@pytest.mark.strace
@pytest.mark.landlock
@pytest.mark.parametrize("wrap", [strace.wrap, strace_summary.wrap])
def test_a_tool_under_strace_is_confined_and_strace_writes_its_own_output(
    tmp_path: Path, wrap: Callable[[Sequence[str], Path], list[str]]
) -> None:
    raw, precious = tmp_path / "raw", tmp_path / "precious"
    raw.mkdir()
    with confinement.spread(NOTHING, (), raw, Confinement(), [strace.PROGRAM]) as net:
        outcome = supervisor.run(
            wrap(["sh", "-c", f"echo x > {precious}"], raw / "calls"),
            stdout=raw / "stdout",
            stderr=raw / "stderr",
            timeout_s=60,
            confine=net.ruleset,
        )
    assert outcome.exit_code and not precious.exists()
    assert (raw / "calls").stat().st_size > 0


@pytest.mark.fio
@pytest.mark.strace
@pytest.mark.landlock
def test_trials_that_have_their_calls_counted_are_confined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys.modules["ioassay.verify.witness.observed_command"], "counter", lambda: ("strace", "by this test")
    )
    target = {"kind": "file", "path": str(tmp_path / "file"), "size": "1MiB"}
    params = {"rw": "randwrite", "bs": "64k", "ioengine": "psync"}
    table = {"driver": "fio", "target": target, "params": params, "watch": {"calls": True}}
    found = records_of(tmp_path / "run", table)
    assert [record.status for record, _ in found] == [OK] * 2
    assert all(document["confined"] for _, document in found)
    assert sum("summary.strace" in record.raw for record, _ in found) == 1


@pytest.mark.fio
@pytest.mark.root
@pytest.mark.landlock
def test_conditions_are_set_on_a_confined_child(tmp_path: Path) -> None:
    target = {"kind": "file", "path": str(tmp_path / "file"), "size": "1MiB"}
    table = {"driver": "fio", "target": target, "params": {"rw": "randwrite"}, "run": {"nice": 5, "scheduler": "batch"}}
    record, document = record_of(tmp_path / "run", table)
    assert (record.status, record.reason) == (OK, "")
    assert document["confined"]
    (conditions,) = (tmp_path / "run").glob("trials/*/raw/conditions.json")
    assert json.loads(conditions.read_text())["took_effect"]["nice"] == 5


class Stubborn:
    """A kernel that makes rulesets and lets nobody enter them."""

    def __init__(self) -> None:
        self._real = Linux()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def restrict(self, ruleset: int, no_new_privs: bool) -> int:
        return errno.E2BIG


@pytest.mark.fio
@pytest.mark.landlock
@pytest.mark.parametrize("kernel", [Absent, Stubborn])
def test_a_trial_that_cannot_be_confined_runs_and_its_record_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: type
) -> None:
    monkeypatch.setattr(landlock, "Linux", kernel)
    target = {"kind": "file", "path": str(tmp_path / "file"), "size": "1MiB"}
    record, document = record_of(
        tmp_path / "run", {"driver": "fio", "target": target, "params": {"rw": "randwrite", "size": "64k"}}
    )
    assert record.status == OK
    assert not document["confined"]
    (warning,) = (warning for warning in record.warnings if warning.code == CODE)
    assert ("5.13" if kernel is Absent else os.strerror(errno.E2BIG)) in warning.text


@pytest.mark.fio
@pytest.mark.landlock
@pytest.mark.parametrize(
    "line",
    ["description=".ljust(8191, "x") + "filename={}", "filename={}\ndescription=x\x0bioengine=null"],
    ids=["behind a long line", "behind a vertical tab"],
)
def test_a_job_that_hides_its_path_from_the_reader_writes_nothing(tmp_path: Path, line: str) -> None:
    """Whichever net catches it."""
    precious, folder = tmp_path / "others" / "precious", tmp_path / "job"
    precious.parent.mkdir()
    precious.write_bytes(b"precious" * 1024)
    folder.mkdir()
    (folder / "j.fio").write_text(f"[a]\nsize=4k\nrw=write\n{line.format(precious)}\n")
    words = ["run", "j.fio", "--repetitions", "1", "--output", str(tmp_path / "run")]
    argv = [sys.executable, "-m", "ioassay", *words]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=250)
    assert precious.read_bytes() == b"precious" * 1024
    assert done.returncode != 0, done.stdout


class Rehearsed(Driver):
    """A driver whose tool writes while it is only asked how it reads its parameters."""

    def __init__(self, place: Path) -> None:
        self.place, self.said = place, ""

    def rehearsal(self, params: Any, folder: Path) -> Rehearsal | None:
        line = f"echo x > {self.place}; cat job; echo y > beside"
        return Rehearsal(Command(["sh", "-c", line], 60, files={"job": "text"}, cwd=folder), "reading", self.confirm)

    def confirm(self, said: str, complaints: str) -> Sequence[Any]:
        self.said = said
        assert complaints.count("Permission denied") == 1
        return ()


@pytest.mark.landlock
def test_a_tool_that_is_asked_how_it_reads_its_parameters_writes_nothing_elsewhere(tmp_path: Path) -> None:
    tool = Rehearsed(tmp_path / "precious")  # type: ignore[abstract]
    made = make_study({"name": "s", "title": "S", "driver": "null"}, "s.toml")
    assert preflight.rehearse(preflight.Bench(made, tool, Consent()), {}) == ()
    assert tool.said == "text"
    assert not (tmp_path / "precious").exists()
