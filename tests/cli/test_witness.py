"""ioassay witness and ioassay record: who may use them, whom they watch, and listings that are those of others.

What they print and keep, and their exit statuses, are rows of tests/corpus/commands. Verdicts: tests/verify.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ioassay.store import packed_page

from ..patience import PATIENCE_S, until
from .command_server import CommandServer
from .conftest import ask, is_alive, start

DAEMON = "setsid sh -c 'echo $$ > daemon; exec sleep {lives_s}' & while [ ! -s daemon ]; do sleep 0.01; done; {then}"
"""A command that goes on only when its daemon has left the process group, or it would be ended with the group."""

MIB = 1 << 20
BLOCK = 4096
READS = 500


def python(program: str) -> list[str]:
    return [sys.executable, "-SIc", program]


@pytest.mark.root
def test_a_user_without_privileges_gets_what_the_counters_can_say(as_nobody: CommandServer, open_folder: Path) -> None:
    (open_folder / "data").write_bytes(os.urandom(MIB))
    environment = {**os.environ, "HOME": str(open_folder)}
    words = ["witness", "--json", "--", "dd", "if=data", "of=/dev/null", "bs=4k"]
    code, out, err = as_nobody.run(words, open_folder, environment, PATIENCE_S)
    assert code == 0, err
    found = json.loads(out)
    assert (found["backend"], found["asked"]) == ("counters", "syscalls")
    assert "CAP_BPF" in found["why"] and "CAP_PERFMON" in found["why"]
    assert found["counters"]["rchar"] >= MIB
    assert found["verdict"] in ("CONFIRMED", "CONFIRMED-CACHED", "INCOMPLETE")
    words = ["record", "--json", "-o", "t.csv", "--", "touch", "ran"]
    code, out, _ = as_nobody.run(words, open_folder, environment, PATIENCE_S)
    assert code == 1 and "CAP_BPF" in json.loads(out)["error"]
    assert os.listdir(open_folder) == ["data"], "nothing runs"


@pytest.mark.root
def test_a_run_of_somebody_else_is_told_so(as_nobody: CommandServer, finished_run: Path) -> None:
    code, _, err = as_nobody.run(["report", str(finished_run)], Path("/"), os.environ, PATIENCE_S)
    assert code in (1, 2) and "Permission denied" in err and "Traceback" not in err


def direct_reads(step: int) -> list[str]:
    """A program that reads every `step`-th block of `data`, each by one direct request."""
    script = f"""
import mmap, os
buffer = mmap.mmap(-1, {BLOCK})
f = os.open("data", os.O_RDONLY | os.O_DIRECT)
for number in range({READS}):
    os.preadv(f, [buffer], number * {step * BLOCK})
"""
    return python(script)


@pytest.mark.root
@pytest.mark.bpf
def test_each_request_is_recorded_in_order_and_those_of_other_devices_are_not(tmp_path: Path) -> None:
    with (tmp_path / "data").open("wb") as file:
        file.write(os.urandom(READS * BLOCK * 2))
        os.fsync(file.fileno())
    done = ask("record", "--json", "-o", "trace.csv", "--", *direct_reads(2), cwd=tmp_path).json
    assert (done["dropped"], done["lost"], done["to"]) == (0, 0, "csv")
    with (tmp_path / "trace.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == done["changes"]["given"]
    times = [int(row["time_ns"]) for row in rows]
    assert times == sorted(times) and times[0] == 0
    reads = [row for row in rows if row["kind"] == "read" and int(row["length_bytes"]) == BLOCK]
    assert len(reads) >= READS
    steps = [int(b["offset_bytes"]) - int(a["offset_bytes"]) for a, b in itertools.pairwise(reads)]
    assert steps.count(2 * BLOCK) >= READS * 0.9, "reads of every second block of a file that lies in few extents"
    everybody = ask("record", "--json", "--all", "-o", "all.csv", "--", *direct_reads(1), cwd=tmp_path).json
    assert everybody["changes"]["seen"] >= READS
    device = next(name for name in os.listdir("/sys/class/block") if name.startswith("loop"))
    words = ("record", "--json", "--device", device, "-o", "none.csv", "--", *direct_reads(1))
    assert ask(*words, cwd=tmp_path).json["changes"]["given"] == 0


LYING_FIO = """
import json, subprocess, sys
code = subprocess.call(["{fio}", *sys.argv[1:]])
for result in (word.partition("=")[2] for word in sys.argv if word.startswith("--output=")):
    text = open(result).read()
    table = json.loads(text[text.index("{{"):])
    for job in table["jobs"]:
        for key in ("io_bytes", "io_kbytes", "bw", "bw_bytes", "iops", "total_ios"):
            job["read"][key] *= 2
    open(result, "w").write(json.dumps(table))
sys.exit(code)
"""
STUDY = """
title = "A study"
driver = "fio"
[target]
kind = "file"
path = "t.dat"
size = "4MiB"
[params]
rw = "randread"
bs = "4k"
direct = 1
[watch]
witness = "{level}"
"""


@pytest.mark.root
@pytest.mark.bpf
@pytest.mark.fio
@pytest.mark.parametrize("level", ["block", "syscalls"])
def test_a_study_whose_tool_lies_ends_with_4_and_says_so_in_its_report(level: str, tmp_path: Path) -> None:
    lying = tmp_path / "bin" / "fio"
    lying.parent.mkdir()
    (source := tmp_path / "lying.py").write_text(LYING_FIO.format(fio=shutil.which("fio")))
    # A path with spaces cannot stand behind `#!`, and this Python's may have some.
    lying.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(source))} "$@"\n')
    lying.chmod(0o755)
    (tmp_path / "s.toml").write_text(STUDY.format(level=level))
    assert ask("run", "s.toml", "--output", "honest", cwd=tmp_path).code == 0
    path = f"{lying.parent}:{os.environ['PATH']}"
    answer = ask("run", "--json", "s.toml", "--output", "lying", cwd=tmp_path, env={"PATH": path})
    found = answer.json
    assert answer.code == 4, found["findings"]
    assert found["trials"]["ok"] == 1
    [verdict] = [finding for finding in found["findings"] if finding["question"] == "verdict"]
    assert verdict["statistics"]["contradicted"] == 1
    assert "CONTRADICTED" in verdict["statement"]
    page = (tmp_path / found["report"]).read_text()
    assert "1 is contradicted." in page  # without opening anything
    assert "CONTRADICTED" in packed_page.unpacked(page)


def test_a_daemon_survives_the_end_of_its_command_and_makes_nothing_a_lie(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(MIB))
    script = DAEMON.format(lives_s=300, then="cat data > /dev/null")
    argv = ["--level", "counters", "--claim", "bytes=64MiB", "--", "sh", "-c", script]
    found = ask("witness", "--json", *argv, cwd=tmp_path).json
    assert "outlived the command" in found["why"] and found["verdict"] == "INCOMPLETE", found["explanation"]
    survived = int((tmp_path / "daemon").read_text())
    assert is_alive(survived)
    os.kill(survived, signal.SIGKILL)


def test_a_daemon_ends_with_an_interrupted_command(tmp_path: Path) -> None:
    """A shell that starts a child at this moment may survive the signal: it has become another program by then."""
    script = DAEMON.format(lives_s=300, then="echo > waits; exec sleep 300")
    with start("witness", "--level", "counters", "--", "sh", "-c", script, cwd=tmp_path, of_its_own=True) as running:
        until(lambda: running.has_ended() or (tmp_path / "waits").exists())
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130
    assert not is_alive(int((tmp_path / "daemon").read_text()))


WORK = """
import os
data = os.open("data", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
for place in range(20):
    os.pwrite(data, bytes(4096), place * 4096)
os.fsync(data)
for place in (7, 3, 19, 0):
    os.pread(data, 512, place * 512)
os.lseek(data, -8192, os.SEEK_END)
os.read(data, 4096)
os.preadv(data, [bytearray(100), bytearray(200)], 64)
copy = os.open("copy", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_DSYNC, 0o600)
os.write(copy, bytes(10))
os.dup2(copy, 99)
os.fdatasync(99)
os.close(99)
os.close(copy)
try:
    os.open("absent", os.O_RDONLY)
except FileNotFoundError:
    pass
if not os.fork():
    os.pread(data, 1, 5)
    os.close(data)
    os._exit(0)
os.wait()
os.close(data)
"""
TRACED = "pread64,pwrite64,read,write,preadv2,fsync,fdatasync,lseek,openat,close,dup2"
_LINE = re.compile(r"^(?:\[pid +)?(\d+)\]? +(\w+)\((.*)\) += (.*) <\d+\.\d{6}>$")


def comparable(text: str, folder: Path) -> list[tuple[str, str, str]]:
    """Name, arguments and result of each call on files in `folder`, without the data."""
    found = []
    for line in text.splitlines():
        line = re.sub(r"AT_FDCWD<[^>]*>", "AT_FDCWD", line)
        if (match := _LINE.match(line)) and (str(folder) in line or '"absent"' in line):
            arguments = re.sub(r'(, )(?:".*"(?:\.\.\.)?|…|\[.*\])(, )', r"\1…\2", match[3], count=1)
            if match[2] == "openat":
                arguments = match[3]
            if match[2] == "preadv2":
                arguments = arguments.removesuffix(", 0")  # the flags, which are not listed
            found.append((match[2], arguments, match[4]))
    return found


@pytest.mark.bpf
@pytest.mark.root
@pytest.mark.strace
def test_the_listing_of_calls_is_straces(tmp_path: Path) -> None:
    strace, listing, folder = tmp_path / "strace.txt", tmp_path / "calls.txt", tmp_path / "work"
    folder.mkdir()
    traced = ["strace", "-f", "-y", "-T", "-o", str(strace), "-e", f"trace={TRACED}", *python(WORK)]
    subprocess.run(traced, cwd=folder, check=True)
    for path in folder.iterdir():
        path.unlink()
    answer = ask("witness", "--json", f"--calls={listing}", "--", *python(WORK), cwd=folder)
    wanted, listed = (comparable(path.read_text(), folder) for path in (strace, listing))
    assert len(wanted) > 35
    assert listed == wanted
    told = answer.json["listing"]
    assert (told["file"], told["unlisted"]) == (str(listing), 0)
    assert told["calls"] == len(listing.read_text().splitlines())
