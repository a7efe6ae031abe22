"""What fio wrote to a served drive is there: crc32c of every block, by every path, under every policy, jobs at once.

One drive is reached by NBD, as a file (FUSE) and as a loop device on that, by all of them at the same time, each job in
a region of its own, with trims between. Then every region is read again by another path than the one that wrote it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .conftest import Answer, ask
from .drives import PATIENCE_S, POLICIES, Drive, served

pytestmark = [pytest.mark.fio, pytest.mark.root]
MIB = 2**20
REGION_BYTES = 2 * MIB
JOBS = 2
"""Of each section, beside those of all others."""
MIXED = "bssplit=512/10:4k/50:12k/15:16k/15:64k/10"
QUICK = ("--set", "program_us=20", "--set", "erase_us=50", "--no-calibrate")
BUFFER = ("--buffer", "2MiB")
FILE = "filename=drive"
LOOP = "filename=${LOOP}"
NBD = "uri=${NBD}"
PATHS = {
    "psync": ("ioengine=psync", FILE),
    "libaio": ("ioengine=libaio", FILE),
    "uring": ("ioengine=io_uring", FILE),
    "fixed": ("ioengine=io_uring", "fixedbufs=1", "registerfiles=1", "end_fsync=0", FILE),  # fio 3.39: EINVAL
    "nbd": ("ioengine=nbd", NBD),
    "loop": ("ioengine=libaio", LOOP),
    "nbd-trim": ("ioengine=nbd", NBD),
    "loop-trim": ("ioengine=psync", LOOP),
}
OTHERS = dict(zip(PATHS, [*list(PATHS.values())[4:], *list(PATHS.values())[:4]], strict=True))
"""Each section's region by another path: the file's by NBD and the loop device, and theirs by the file."""


def section(number: int, name: str, way: tuple[str, ...]) -> str:
    """A trim is followed by a write of the same block: with one request at a time, as fio 3.33 pairs them."""
    trims = name.endswith("-trim")
    pattern = ["rw=trimwrite", "bs=4k", "iodepth=1"] if trims else ["rw=randwrite", MIXED, "iodepth=8"]
    return "\n".join([f"[{name}]", *pattern, *way, f"offset={number * JOBS * REGION_BYTES}"])


def job_file(ways: Mapping[str, tuple[str, ...]], *options: str) -> str:
    """The same seeds each time, so that what was written is known to who only verifies."""
    common = [f"numjobs={JOBS}", f"offset_increment={REGION_BYTES}", f"size={REGION_BYTES}", "direct=1"]
    common += ["verify=crc32c", "verify_fatal=1", "randrepeat=1", "allrandrepeat=1", *options]
    return "\n".join(["[global]", *common, *(section(at, *one) for at, one in enumerate(ways.items()))]) + "\n"


def typed(folder: Path, *words: str) -> Answer:
    answer = ask(*words, cwd=folder, within_s=240)
    assert answer.code == 0, answer.err
    return answer


def fio(folder: Path, text: str, drive: Drive, loop: str) -> list[dict[str, Any]]:
    """Its jobs; fio's nbd engine ignores SIGTERM, so a hanging one is killed."""
    (folder / "job.fio").write_text(text)
    environment = {"NBD": drive.told["nbd"], "LOOP": loop, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    argv = ["fio", "--output-format=json", "--output=fio.json", "--eta=never", "job.fio"]
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
    said = (folder / "fio.json").read_text()
    assert done.returncode == 0, said[:2000] + done.stdout[-2000:] + done.stderr
    jobs: list[dict[str, Any]] = json.loads(said[said.index("{") :])["jobs"]  # what its engines say comes first
    assert [job["error"] for job in jobs] == [0] * len(jobs)
    return jobs


def volumes(jobs: list[dict[str, Any]], direction: str) -> list[int]:
    return [job[direction]["io_bytes"] for job in jobs]


@contextmanager
def looped(file: Path) -> Iterator[str]:
    """A loop device on a drive's file, without the page cache between."""
    attach = ["losetup", "--find", "--show", "--direct-io=on", str(file)]
    device = subprocess.run(attach, capture_output=True, text=True, check=True).stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
        backing = Path("/sys/block", Path(device).name, "loop/backing_file")
        deadline_s = time.monotonic() + PATIENCE_S
        while backing.exists() and time.monotonic() < deadline_s:
            time.sleep(0.01)  # somebody else looks at it: it goes with its last user


def test_every_policy_is_verified(tmp_path: Path) -> None:
    known = typed(tmp_path, "simulate", "--list-policies", "--json").json["policies"]
    assert {each["name"] for each in known} == set(POLICIES)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_was_written_by_any_path_is_there_by_any_path(tmp_path: Path, policy: str) -> None:
    ways = ("--size", "32MiB", "--transport", "nbd:unix:a,fuse:drive", "--policy", policy)
    ways += () if policy == "none" else BUFFER
    with served(tmp_path, *ways, *QUICK) as drive, looped(tmp_path / "drive") as loop:
        written = fio(tmp_path, job_file(PATHS, "do_verify=1", "verify_backlog=64", "end_fsync=1"), drive, loop)
        whole = [REGION_BYTES] * JOBS * len(PATHS)
        assert volumes(written, "write") == volumes(written, "read") == whole
        assert volumes(written, "trim") == [REGION_BYTES * job["jobname"].endswith("-trim") for job in written]
        found = fio(tmp_path, job_file(OTHERS, "verify_only=1"), drive, loop)
        assert volumes(found, "read") == whole
        counted = drive.ask("stats")  # it has seen no write of the second run, which fio 3.33 reports without doing any
        assert [counted[kind]["errors"] for kind in ("reads", "writes", "trims", "flushes")] == [0] * 4
        assert counted["writes"]["bytes"] == sum(whole)
        assert counted["trims"]["bytes"] == sum(volumes(written, "trim"))
        cached = 2 * JOBS * REGION_BYTES  # fio opens what it trims without O_DIRECT, whatever `direct` says
        assert counted["reads"]["bytes"] >= 2 * sum(whole) - cached


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_written_is_there_when_its_backing_file_is_served_again(tmp_path: Path, end: signal.Signals) -> None:
    ways = ("--size", "32MiB", "--transport", "nbd:unix:a,fuse:drive", "--file", "kept", "--policy", "epo", *BUFFER)
    flushed = {name: way for name, way in PATHS.items() if not name.endswith("-trim") and name != "fixed"}
    with served(tmp_path, *ways, *QUICK) as drive:
        with looped(tmp_path / "drive") as loop:
            fio(tmp_path, job_file(flushed, "do_verify=0", "end_fsync=1"), drive, loop)
        assert drive.end(end)[0] == (0 if end == signal.SIGTERM else -end)
    by_another = {name: OTHERS[name] for name in flushed}
    with served(tmp_path, *ways, *QUICK) as drive, looped(tmp_path / "drive") as loop:
        found = fio(tmp_path, job_file(by_another, "verify_only=1"), drive, loop)
        assert volumes(found, "read") == [REGION_BYTES] * JOBS * len(flushed)


def test_a_block_that_is_not_what_was_written_is_told(tmp_path: Path) -> None:
    with served(tmp_path, "--size", "4MiB", "--transport", "nbd:unix:a,fuse:drive", *QUICK) as drive:
        one = {"psync": PATHS["psync"]}
        fio(tmp_path, job_file(one, "do_verify=0"), drive, "")
        with (tmp_path / "drive").open("r+b") as file:
            file.seek(MIB + 100)
            file.write(b"something else")
        with pytest.raises(AssertionError, match="verify"):
            fio(tmp_path, job_file({"psync": PATHS["nbd"]}, "verify_only=1"), drive, "")


STUDY = """
title = "Verified"
driver = "fio"
repetitions = 1
[target]
kind = "virtual"
size = "16MiB"
policy = "epo"
buffer = "1MiB"
program_us = 20
calibrate = false
[params]
rw = "randwrite"
bssplit = "512/10:4k/50:16k/30:64k/10"
direct = 1
iodepth = 8
numjobs = 2
size = "4MiB"
offset_increment = "4MiB"
verify = "crc32c"
do_verify = 1
[[case]]
name = "psync"
ioengine = "psync"
[[case]]
name = "libaio"
ioengine = "libaio"
[[case]]
name = "io_uring"
ioengine = "io_uring"
[[case]]
name = "nbd"
ioengine = "nbd"
[[case]]
name = "loop device"
ioengine = "libaio"
"target.form" = "device"
[[case]]
name = "file system"
ioengine = "io_uring"
"target.form" = "folder"
[watch]
monitors = []
witness = "off"
"""


def test_a_study_verifies_what_it_writes(tmp_path: Path) -> None:
    (tmp_path / "verified.toml").write_text(STUDY)
    typed(tmp_path, "run", "verified.toml", "--output", "run")
    records = [json.loads(path.read_text()) for path in (tmp_path / "run/trials").glob("*/record.json")]
    assert sorted(record["trial"]["point"]["case"] for record in records) == sorted(
        ["psync", "libaio", "io_uring", "nbd", "loop device", "file system"]
    )
    for record in records:
        assert (record["status"], record["reason"]) == ("ok", "")
        assert record["metrics"]["write.bytes"] == record["metrics"]["read.bytes"] == 8 * MIB
        assert record["metrics"]["drive.read.bytes"] >= 8 * MIB
        assert record["metrics"]["drive.errors"] == 0
