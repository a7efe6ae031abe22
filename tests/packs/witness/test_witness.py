"""ioassay witness: who may use it, whom it watches, and listings that are those of others.

What they print and keep, and their exit statuses, are rows of tests/corpus/commands. Verdicts: tests/verify.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ...cli.command_server import CommandServer
from ...cli.conftest import ask, is_alive, start
from ...patience import PATIENCE_S, until

DAEMON = "setsid sh -c 'echo $$ > daemon; exec sleep {lives_s}' & while [ ! -s daemon ]; do sleep 0.01; done; {then}"
"""A command that goes on only when its daemon has left the process group, or it would be ended with the group."""

MIB = 1 << 20


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
