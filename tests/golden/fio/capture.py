"""Captures the golden outputs of the installed fio: `python tests/golden/fio/capture.py FOLDER`, as root.

Each case becomes a folder with the job file, what fio wrote (fio.json, stdout, stderr, logs) and `case.json`: the
parameters and how the process ended. Nothing is edited, but that the folder's own path is written as /golden. Needs
loop devices; makes and removes its own files, mounts and devices below a temporary folder.

`capture_clients.py` beside it captures those of `fio --client`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ioassay.drivers.fio import Fio
from ioassay.process import supervisor
from ioassay.roles import Load, Trial

MIB = 2**20
QUICK = {"runtime": "150ms", "bs": "4KiB"}
FILE_CASES: dict[str, dict[str, Any]] = {
    "read": {**QUICK, "rw": "read", "ioengine": "psync", "direct": 1, "bs": "64KiB"},
    "write": {**QUICK, "rw": "write", "ioengine": "libaio", "direct": 1, "iodepth": 4},
    "randrw-2-jobs": {
        "rw": "randrw",
        "ioengine": "libaio",
        "direct": 1,
        "bs": "16KiB",
        "runtime": "1s",
        "numjobs": 2,
        "logs": ["bw", "iops", "lat", "clat", "slat"],
    },
    "reads-only-mix": {**QUICK, "rw": "rw", "rwmixwrite": 0, "direct": 1},
    "io-uring": {**QUICK, "rw": "randread", "ioengine": "io_uring", "direct": 1, "iodepth": 8},
    "mmap": {**QUICK, "rw": "randread", "ioengine": "mmap", "bs": "64KiB"},
    "steady-state": {**QUICK, "rw": "randread", "direct": 1, "runtime": "3s", "ss": "iops:0.0001%", "ss_dur": "2s"},
    "by-size": {"rw": "read", "bs": "1MiB", "direct": 1},
}
TWO_SECTIONS = """\
; two jobs, one after the other
[global]
filename=testfile
size=16m
direct=1
runtime=150ms
time_based

[sequential]
rw=read
bs=128k

[random]
stonewall
rw=randread
bs=4k
"""


def capture(folder: Path, name: str, params: dict[str, Any], load: Load, work: Path, end_after_s: float = 0) -> None:
    """Run one case and keep what it left. `end_after_s` kills fio (params rw=read) or ends it politely."""
    raw = work / name
    raw.mkdir()
    trial = Trial(name, "golden", "fio", {}, params, {}, {}, 0, 1, 0)
    command = Fio().command(trial, load, raw)
    for file, text in command.files.items():
        (raw / file).write_text(text)
    timers: list[threading.Timer] = []

    def start_timer(pid: int) -> None:
        number = signal.SIGKILL if name == "killed" else signal.SIGTERM
        if end_after_s:
            timers.append(threading.Timer(end_after_s, lambda: os.kill(pid, number)))
            timers[0].start()

    outcome = supervisor.run(
        command.argv, stdout=raw / "stdout", stderr=raw / "stderr", timeout_s=30, cwd=command.cwd, on_held=start_timer
    )
    for timer in timers:
        timer.join()
    ended = {key: value for key, value in dataclasses.asdict(outcome).items() if key not in ("stdout", "stderr")}
    (raw / "case.json").write_text(json.dumps({"params": params, "outcome": ended}, indent=1) + "\n")
    keep(raw, folder / name, work)


def keep(raw: Path, to: Path, work: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for path in sorted(raw.iterdir()):
        (to / path.name).write_text(path.read_text().replace(str(work), "/golden"))


@contextlib.contextmanager
def loop_device(backing: Path) -> Iterator[Path]:
    done = subprocess.run(["losetup", "--find", "--show", backing], check=True, capture_output=True, text=True)
    try:
        yield Path(done.stdout.strip())
    finally:
        subprocess.run(["losetup", "--detach", done.stdout.strip()], check=True)


@contextlib.contextmanager
def mounted(device: Path, at: Path) -> Iterator[None]:
    at.mkdir()
    subprocess.run(["mount", device, at], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", at], check=True)


def other_format(folder: Path, name: str, flags: Sequence[str], work: Path) -> None:
    """Another format of fio's, of the job file of randrw-2-jobs without its logs."""
    lines = (folder / "randrw-2-jobs" / "job.fio").read_text().replace("/golden", str(work)).splitlines()
    job = work / f"{name}.fio"
    job.write_text("\n".join(line for line in lines if "_log" not in line) + "\n")
    done = subprocess.run(["fio", *flags, "--eta=never", job], check=True, capture_output=True, text=True, cwd=work)
    (folder / f"{name}.txt").write_text(done.stdout)


def main(folder: Path, work: Path) -> None:
    testfile = work / "testfile"
    testfile.write_bytes(os.urandom(16 * MIB))
    load = Load("file", testfile, 16 * MIB, False)
    for name, params in FILE_CASES.items():
        capture(folder, name, params, load, work)
    capture(folder, "null-engine", {**QUICK, "ioengine": "null", "rw": "randread"}, Load("null", None, 0, True), work)
    capture(folder, "two-sections", {"job": TWO_SECTIONS, "job_path": str(work / "my.fio")}, load, work)
    bad = TWO_SECTIONS.replace("bs=4k", "bss=4k")
    capture(folder, "bad-option", {"job": bad, "job_path": str(work / "my.fio")}, load, work)
    long = {**QUICK, "rw": "read", "runtime": "20s"}
    capture(folder, "killed", long, load, work, end_after_s=0.4)
    capture(folder, "terminated", long, load, work, end_after_s=0.8)
    missing = Load("file", work / "missing", 16 * MIB, True)
    capture(folder, "read-only-missing", {**QUICK, "rw": "read"}, missing, work)
    for version in (3, 4, 5):
        flags = ["--output-format=terse", f"--terse-version={version}"]
        other_format(folder, f"terse-{version}", flags, work)
    other_format(folder, "normal", ["--output-format=normal"], work)
    backing = work / "backing"
    with backing.open("wb") as file:
        file.truncate(8 * MIB)
    with loop_device(backing) as device:
        whole = Load("device", device, 8 * MIB, False)
        capture(folder, "trim", {"rw": "randtrim", "bs": "64KiB", "direct": 1}, whole, work)
        capture(folder, "einval", {**QUICK, "rw": "read", "bs": "1000", "direct": 1}, whole, work)
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        with mounted(device, work / "mount"):
            capture(folder, "mounted", {**QUICK, "rw": "write", "direct": 1}, whole, work)
            full = Load("file", work / "mount" / "file", 16 * MIB, False)
            capture(folder, "no-space", {"rw": "write", "bs": "64KiB", "direct": 1}, full, work)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(sys.argv[1]).absolute(), Path(place).resolve())
