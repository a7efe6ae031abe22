"""How large a job file's files may become is known before fio makes them: set against what the real fio leaves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ioassay.drivers.fio import Fio
from ioassay.errors import StudyError
from ioassay.roles import WRITE

MIB = 1 << 20


def sizes(text: str, folder: Path) -> dict[str, int | None]:
    """Path below `folder` -> what it may grow to, of those that are written."""
    found = Fio().touches({"job": text, "job_path": str(folder / "my.fio"), "job_folder": str(folder)})
    return {str(touch.path.relative_to(folder)): touch.size_bytes for touch in found if touch.access == WRITE}


JOBS = {
    "size": "rw=write\nsize=1m",
    "several files": "rw=write\nsize=1m\nnrfiles=4",
    "a size that does not divide": "rw=write\nsize=1030k\nnrfiles=4\nbs=4k",
    "clones": "rw=write\nsize=1m\nnumjobs=3",
    "clones of several files": "rw=randwrite\nsize=1m\nnumjobs=2\nnrfiles=2",
    "named files": "rw=write\nsize=1m\nfilename=x:y",
    "nrfiles of a named file": "rw=write\nsize=1m\nfilename=x\nnrfiles=4",
    "shared by clones": "rw=write\nsize=1m\nfilename=x\nnumjobs=3",
    "offset": "rw=write\nsize=1m\noffset=1m",
    "offset increment": "rw=write\nsize=1m\noffset_increment=1m\nnumjobs=3\nfilename=x",
    "file size": "rw=write\nfilesize=100k\nsize=50k",
    "a range of file sizes": "rw=write\nfilesize=64k-256k\nnrfiles=4",
    "more I/O than size": "rw=write\nsize=1m\nio_size=4m",
    "loops": "rw=write\nsize=1m\nloops=3",
    "laid out for reading": "rw=read\nsize=1m",
    "all of a file that is there": "rw=write\nfilename=there\nsize=100%",
    "half of a file that is there": "rw=write\nfilename=there\nsize=50%",
    "longer than the file that is there": "rw=write\nfilename=there\nsize=3m",
    "two directories": "rw=write\ndirectory=d:e\nnumjobs=2\nsize=1m",
    "two directories for three": "rw=write\ndirectory=d:e\nnumjobs=3\nsize=1m",
    "two directories for one": "rw=write\ndirectory=d:e\nsize=1m\nnrfiles=2",
    "empty files": "ioengine=filecreate\nnrfiles=4\nfilesize=4k",
    "allocated only": "ioengine=falloc\nrw=write\nsize=1m",
    "strided zones": "rw=write\nzonemode=strided\nzonesize=64k\nzonerange=256k\nsize=1m",
    "buffers in a file": "rw=write\nsize=1m\nmem=mmap:buffers\nbs=64k\niodepth=4",
    "created on open": "rw=write\nsize=1m\ncreate_on_open=1",
    "a replayed log": "read_iolog=log",
}
NOT_EXACT = ("a range of file sizes", "buffers in a file", "a size that does not divide")


@pytest.mark.fio
@pytest.mark.parametrize("name", JOBS)
def test_what_fio_leaves_is_no_larger_than_was_said(name: str, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "e").mkdir()
    (tmp_path / "there").write_bytes(bytes(2 * MIB))
    log = "fio version 2 iolog\nthere add\nnew add\nthere open\nnew open\n"
    log += "there write 3145728 4096\nnew write 8192 4096\nthere close\nnew close\n"
    (tmp_path / "log").write_text(log)
    text = f"[a]\n{JOBS[name]}\n"
    (tmp_path / "my.fio").write_text(text)
    said = sizes(text, tmp_path)
    done = subprocess.run(["fio", "my.fio", "--thread"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    left = {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    known = {tmp_path / path for path in said}
    made = {path: size for path, size in left.items() if path in known}
    assert made.keys() == known or "directories" in name or name == "buffers in a file"  # fio removes those
    assert sum(made.values()) <= sum(size or 0 for size in said.values())
    if "directories" not in name:
        assert all(size <= (said[str(path.relative_to(tmp_path))] or 0) for path, size in made.items())
    if name not in NOT_EXACT:
        assert sum(made.values()) == sum(size or 0 for size in said.values())


@pytest.mark.parametrize("size", ["1k*$ncpus", "200%", "3z\nzonemode=strided\nzonesize=1m"])
def test_a_size_that_only_fio_knows_is_not_guessed(size: str, tmp_path: Path) -> None:
    assert sizes(f"[a]\nrw=write\nsize={size}\n", tmp_path) == {"a.0.0": None}


def test_a_replay_of_a_binary_trace_into_a_file_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "trace.bin").write_bytes(b"\x07\x74\x61\x65\xff")
    assert sizes("[a]\nread_iolog=trace.bin\nreplay_redirect=copy\n", tmp_path) == {"copy": None}


def test_a_device_takes_no_room() -> None:
    text = "[a]\nrw=write\nfilename=/dev/null\nsize=1g\n[b]\nrw=write\nioengine=null\nsize=1g\n"
    found = Fio().touches({"job": text, "job_path": "/nowhere/my.fio"})
    assert [(str(touch.path), touch.access) for touch in found] == [("/dev/null", WRITE)]


def test_the_largest_of_all_jobs_counts(tmp_path: Path) -> None:
    text = "[global]\nfilename=x\nrw=write\n[a]\nsize=1m\n[b]\nsize=3m\n[c]\nsize=2m\n"
    assert sizes(text, tmp_path) == {"x": 3 * MIB}
    assert sizes(f"{text}[d]\nsize=1k*$ncpus\n", tmp_path) == {"x": None}


@pytest.mark.parametrize("option", ["fill_device", "fill_fs", "file_append"])
def test_a_file_without_an_end_is_refused(option: str, tmp_path: Path) -> None:
    params = {"job": f"[a]\nrw=write\nsize=1m\n{option}=1\n", "job_path": str(tmp_path / "my.fio")}
    with pytest.raises(StudyError, match=rf"\[a\] fi\w+ lets {tmp_path}/a\.0\.0 grow .*; remove it"):
        Fio().validate(params, {})
    Fio().validate({**params, "job": params["job"].replace(f"{option}=1", f"{option}=0")}, {})


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ("write_bw_log=x", 1),
        ("write_bw_log=x\nwrite_lat_log=x\nwrite_iops_log=x", 5),
        ("write_lat_log=x\nlog_avg_msec=100", 0),
        ("write_iolog=x", 1),
        ("write_bw_log=x\ntime_based=1\nruntime=5", 0),
        ("", 0),
    ],
)
def test_logs_of_single_requests_are_estimated(options: str, lines: int, tmp_path: Path) -> None:
    text = f"[a]\nrw=write\nbs=4k\nsize=40m\n{options}\n"
    found = Fio().estimate({"job": text, "job_path": str(tmp_path / "my.fio")}, {})
    assert found.recorded_bytes == 40 * MIB // 4096 * lines * 40
