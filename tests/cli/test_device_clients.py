"""Clients of a served drive that vanish, and more of them than there is room for: nobody else notices."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ioassay.virtual_drive import control

from ..virtual_drive.nbd import READ, WRITE, Client
from .drives import PATIENCE_S, Drive, served

MIB = 2**20
PAGE = 4096
CONNECTIONS = 64
"""Of NBD at a time: docs/transports.md."""


def stats(drive: Drive) -> dict[str, Any]:
    found: dict[str, Any] = control.ask(Path(drive.told["stats"]), "stats")["stats"]
    return found


def until(true: Callable[[], Any]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < give_up_s, "it does not happen"
        time.sleep(0.01)


def begun(folder: Path, drive: Drive, name: str, *options: str) -> subprocess.Popen[str]:
    argv = [
        "fio",
        f"--name={name}",
        "--ioengine=nbd",
        f"--uri={drive.told['nbd']}",
        "--rw=randwrite",
        "--eta=never",
        "--thread",
    ]
    argv += ["--output-format=json", f"--output={name}.json", *options]
    return subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True, text=True)


@pytest.mark.fio
@pytest.mark.parametrize("policy", ["none", "epo"])
def test_a_client_that_is_killed_with_requests_in_flight_harms_nobody(tmp_path: Path, policy: str) -> None:
    words = ("--size", "64MiB", "--transport", "nbd:unix:a", "--policy", policy, "--no-calibrate")
    with served(tmp_path, *words) as drive, ExitStack() as stack:
        verify = ("--bs=4k", "--size=16m", "--iodepth=8", "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=32")
        other = stack.enter_context(begun(tmp_path, drive, "other", *verify))
        stack.callback(other.kill)
        for number in range(3):
            until(lambda: stats(drive)["ways"][0]["connections"] <= 1)
            options = ("--bs=64k", "--offset=32m", "--size=32m", "--iodepth=64", "--time_based", "--runtime=600")
            with begun(tmp_path, drive, f"victim{number}", *options) as victim:
                try:
                    until(lambda: stats(drive)["depth_now"] > 16)  # the other one has at most 8
                finally:
                    victim.send_signal(signal.SIGKILL)
        assert other.wait(2 * PATIENCE_S) == 0
        said = (tmp_path / "other.json").read_text()
        (job,) = json.loads(said[said.index("{") :])["jobs"]
        assert (job["error"], job["write"]["io_bytes"], job["read"]["io_bytes"]) == (0, 16 * MIB, 16 * MIB)
        until(lambda: stats(drive)["depth_now"] == stats(drive)["ways"][0]["connections"] == 0)
        found = stats(drive)
        assert found["reads"]["errors"] == found["writes"]["errors"] == 0
        assert drive.end() == (0, "")


def test_clients_that_go_in_the_middle_of_anything_harm_nobody(tmp_path: Path) -> None:
    slow = ("--set", "program_us=100000", "--set", "elements=4")
    words = ("--size", "8MiB", "--transport", "nbd:unix:a", "--no-calibrate", *slow)
    with served(tmp_path, *words) as drive, Client(tmp_path / "a") as client:
        cookie = client.submit(READ, 0, PAGE)
        for said in (b"", b"NBD", b"\0" * 4, b"\xff" * 64, b"IHAVEOPT" + b"\xff" * 8):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(str(tmp_path / "a"))
                stranger.sendall(said)
        with Client(tmp_path / "a") as goes:
            goes.submit(WRITE, MIB, data=b"g" * (MIB // 2))  # 3 s of work
            goes.submit(READ, 0, 4 * MIB)  # whose answer nobody takes
            until(lambda: stats(drive)["depth_now"] > 0)
        assert client.reply() == (cookie, 0, bytes(PAGE))
        until(lambda: stats(drive)["ways"][0]["connections"] <= 2)
        assert client.read(MIB // 2, PAGE) == bytes(PAGE)
        assert drive.end() == (0, "")  # with work in flight


def test_more_connections_than_there_is_room_for_are_closed_until_there_is(tmp_path: Path) -> None:
    words = ("--size", "1MiB", "--transport", "nbd:unix:a", "--model", "none", "--no-calibrate")
    with served(tmp_path, *words) as drive, ExitStack() as stack:
        clients = [stack.enter_context(Client(tmp_path / "a")) for _ in range(CONNECTIONS)]
        assert stats(drive)["ways"][0]["connections"] == CONNECTIONS
        for _ in range(3):
            with pytest.raises((EOFError, OSError)):
                Client(tmp_path / "a")
        for number, client in enumerate(clients):
            client.write(number * PAGE, bytes([number]) * PAGE)
        for number, client in enumerate(clients):
            assert client.read((CONNECTIONS - 1 - number) * PAGE, PAGE) == bytes([CONNECTIONS - 1 - number]) * PAGE
        clients.pop().__exit__()
        until(lambda: stats(drive)["ways"][0]["connections"] == CONNECTIONS - 1)
        with Client(tmp_path / "a") as client:
            assert client.read(PAGE, PAGE) == b"\1" * PAGE
        assert drive.end() == (0, "")


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_clients_that_send_or_take_half_of_much_take_no_more_memory_than_was_told(tmp_path: Path) -> None:
    """Writes of 32 MiB without their last byte, and reads of 32 MiB that nobody takes."""
    words = ("--size", "64MiB", "--transport", "nbd:unix:a", "--model", "none", "--no-calibrate")
    with served(tmp_path, *words) as drive, ExitStack() as stack:
        other = stack.enter_context(Client(tmp_path / "a"))
        before_bytes = _resident_bytes(drive.process.pid)
        clients = [stack.enter_context(Client(tmp_path / "a")) for _ in range(CONNECTIONS - 1)]
        unfinished = Client.request(WRITE, 0, 32 * MIB) + bytes(32 * MIB - 1)
        most_bytes = 0
        for number, client in enumerate(clients):
            client.send_some(unfinished if number % 2 else Client.request(READ, 0, 32 * MIB))
            other.write(number * PAGE, b"\1" * PAGE)  # who asks for little is not kept waiting
            most_bytes = max(most_bytes, _resident_bytes(drive.process.pid) - before_bytes)
        assert 32 * MIB < most_bytes < drive.told["memory_bytes"] < 256 * MIB
        assert stats(drive)["ways"][0]["connections"] == CONNECTIONS
        assert drive.end() == (0, "")
