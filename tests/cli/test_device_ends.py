"""How a served drive begins to be told of, and all the ways in which it ends: nothing is left of it, and no traces."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ..virtual_drive.nbd import WRITE, Client
from .drives import COMMAND, PATIENCE_S

WAYS = ("--transport", "nbd:unix:a,nvme-tcp:127.0.0.1:0")
BACKED = (*WAYS, "--size", "4MiB", "--file", "kept", "--policy", "lru", "--buffer", "1MiB", "--no-calibrate")
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([*sys.argv[1:], "--with-parent", str(__import__("os").getpid())], stdout=subprocess.PIPE)
sys.stdout.write(child.stdout.readline().decode())
sys.stdout.write(f"{child.pid}\\n")
sys.stdout.flush()
time.sleep(600)
"""


def started(folder: Path, *words: str, **options: Any) -> subprocess.Popen[str]:
    """A drive whose temporary files are in the folder, too."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen([*COMMAND, "serve", *words], cwd=folder, env=environment, **pipes)


def ended(drive: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, said = drive.communicate(timeout=PATIENCE_S)
    finally:
        drive.kill()
    return drive.returncode, out, said


def until(true: Callable[[], Any]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < give_up_s, "it does not happen"
        time.sleep(0.02)


def free_port() -> int:
    """One that nobody has, and that nobody is given who asks for any (ip_local_port_range begins at 32768)."""
    while True:
        port = random.randrange(20000, 32768)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@pytest.fixture
def of_a_terminal() -> Iterator[None]:
    """SIGHUP has its usual action in what is started, also where the tests themselves run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("of_a_terminal")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_one_line_of_json_says_that_it_is_ready_and_a_signal_ends_it(tmp_path: Path, number: signal.Signals) -> None:
    """As docs/virtual-drive.md has it, with what is measured at the start."""
    port = free_port()
    words = ("--size", "1GiB", "--transport", f"nbd:unix:{tmp_path}/a,nvme-tcp:127.0.0.1:{port}")
    drive = started(tmp_path, *words, "--model", "thesis", "--policy", "epo", "--json")
    assert drive.stdout is not None
    line = drive.stdout.readline()
    told = json.loads(line)
    assert told["nbd"] == f"nbd+unix:///?socket={tmp_path}/a"
    assert told["nvme_tcp"] == f"127.0.0.1:{port}"
    assert told["nqn"].startswith("nqn.")
    assert Path(told["stats"]).is_socket()
    assert (told["size_bytes"], told["model"], told["policy"]) == (2**30, "thesis", "epo")
    with Client(tmp_path / "a") as client, socket.create_connection(("127.0.0.1", port)):
        client.write(0, b"x" * 4096, fua=True)
        drive.send_signal(number)
        code, more, said = ended(drive)
    assert (code, more) == (0, "")
    assert all(part.startswith("warning: ") for part in said.splitlines()), said  # of a machine that is slow
    assert os.listdir(tmp_path) == []


def test_a_drive_ends_with_its_parent_and_keeps_what_it_has(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", PARENT, *COMMAND, "serve", *BACKED, "--json"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None
            assert json.loads(parent.stdout.readline())["nbd"]
            child = int(parent.stdout.readline())
            with Client(tmp_path / "a") as client:
                client.write(8192, b"k" * 4096)  # in the buffer
        finally:
            parent.kill()
    until(lambda: not alive(child))
    assert os.listdir(tmp_path) == ["kept"]
    assert (tmp_path / "kept").read_bytes()[8192:12288] == b"k" * 4096


def alive(pid: int) -> bool:
    """Whether it is there, and no zombie that nobody waits for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_drive_whose_parent_is_gone_already_does_not_begin(tmp_path: Path) -> None:
    code, out, _ = ended(started(tmp_path, *BACKED, "--with-parent", str(os.getppid())))
    assert code != 0 and out == ""
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("form", [("--json",), ()], ids=["json", "text"])
def test_a_drive_of_which_nobody_can_be_told_ends(tmp_path: Path, form: tuple[str, ...]) -> None:
    """Whoever was to read that it is ready is gone: without its address nobody would find it, or end it."""
    out, into = os.pipe()
    os.close(out)
    drive = started(tmp_path, *BACKED, *form, stdout=into)
    os.close(into)
    _, said = drive.communicate(timeout=PATIENCE_S)
    assert (drive.returncode, said) == (1, "ioassay: the reader of the output is gone, and the rest of it is lost\n")
    assert os.listdir(tmp_path) == ["kept"]


def test_a_drive_serves_on_when_nobody_reads_on(tmp_path: Path) -> None:
    drive = started(tmp_path, *BACKED, "--json")
    assert drive.stdout is not None and drive.stderr is not None
    drive.stdout.readline()
    drive.stdout.close()
    with Client(tmp_path / "a") as client:
        client.write(0, b"y" * 4096)
        assert client.read(0, 4096) == b"y" * 4096
    drive.terminate()
    assert (drive.wait(PATIENCE_S), drive.stderr.read()) == (0, "")
    assert os.listdir(tmp_path) == ["kept"]


def test_a_drive_without_any_output_is_served(tmp_path: Path) -> None:
    argv = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "serve", *BACKED, "--json"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as drive:
        try:
            until(lambda: drive.poll() is not None or list(tmp_path.glob("ioassay-device-*/stats")))
            drive.terminate()
            _, said = drive.communicate(timeout=PATIENCE_S)
        finally:
            drive.kill()
    assert drive.returncode in (1, 130)  # or before it served; 1, since nobody was told where
    assert "Traceback" not in said
    assert os.listdir(tmp_path) == ["kept"]


@pytest.mark.parametrize("steps", range(6))
def test_a_drive_that_is_ended_while_it_begins_leaves_nothing(tmp_path: Path, steps: int) -> None:
    """At whichever instant that is: no time is asserted, and what it says depends on it."""
    drive = started(tmp_path, *BACKED, "--json")
    if steps:  # it has a handler of its own
        until(lambda: drive.poll() is not None or "ioassay-device" in "".join(os.listdir(tmp_path)))
    time.sleep(steps * 0.003)
    drive.terminate()
    code, out, said = ended(drive)
    assert code in (0, 130) if steps else code in (0, 130, -signal.SIGTERM)
    assert "Traceback" not in said
    if out:
        json.loads(out)
    assert set(os.listdir(tmp_path)) <= {"kept"}


def test_nohup_keeps_a_drive(tmp_path: Path) -> None:
    if shutil.which("nohup") is None:
        pytest.skip("needs nohup (package coreutils)")
    argv = ["nohup", *COMMAND, "serve", *BACKED, "--json"]
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(argv, cwd=tmp_path, text=True, **pipes) as drive:
        try:
            assert drive.stdout is not None
            drive.stdout.readline()
            drive.send_signal(signal.SIGHUP)
            with Client(tmp_path / "a") as client:
                client.submit(WRITE, 0, data=b"z" * 4096)
                assert client.reply()[1] == 0
            drive.terminate()
            code, _, said = ended(drive)
        finally:
            drive.kill()
    assert (code, "Traceback" in said) == (0, False)


def test_the_next_drive_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    for way in ("a", "b"):
        drive = started(tmp_path, "--transport", f"nbd:unix:{way}", "--size", "4MiB", "--no-calibrate", "--json")
        assert drive.stdout is not None
        told = json.loads(drive.stdout.readline())
        assert list(tmp_path.glob("ioassay-device-*")) == [Path(told["stats"]).parent]
        drive.kill()
        ended(drive)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    restore = [*COMMAND[:-1], "doctor", "--restore", "--json"]
    said = subprocess.run(restore, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert [text for text in json.loads(said.stdout)["restored"] if str(Path(told["stats"]).parent) in text]
    assert not list(tmp_path.glob("ioassay-device-*"))
