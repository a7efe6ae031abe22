"""ioassay witness --pid and --cgroup: servers that run already, alone and as the other end of a client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.bpf, pytest.mark.root]

IOASSAY = [sys.executable, "-m", "ioassay", "witness"]
SERVER = """
import os, socket
data = os.open("data", os.O_RDONLY)
listening = socket.socket(socket.AF_UNIX)
listening.bind("socket")
listening.listen()
print("ready", flush=True)
while True:
    connection, _ = listening.accept()
    while request := connection.recv(4):
        connection.sendall(os.pread(data, 4096, int.from_bytes(request, "big")))
    connection.close()
"""
CLIENT = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect("socket")
for place in range(100):
    connection.sendall((place * 4096).to_bytes(4, "big"))
    left = 4096
    while left:
        left -= len(connection.recv(left))
open("own", "wb").write(bytes(1 << 20))
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A server that reads 4 KiB of `data` for each request of a client."""
    (tmp_path / "data").write_bytes(bytes(100 * 4096))
    process = subprocess.Popen([sys.executable, "-c", SERVER], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def result(folder: Path, *words: str, code: int = 0) -> dict[str, Any]:
    done = subprocess.run([*IOASSAY, "--json", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    table: dict[str, Any] = json.loads(done.stdout)
    return table


@pytest.mark.parametrize(("operations", "verdict", "code"), [(100, "CONFIRMED", 0), (5000, "CONTRADICTED", 4)])
def test_a_clients_claim_is_held_against_the_servers_calls(
    server: subprocess.Popen[str], tmp_path: Path, operations: int, verdict: str, code: int
) -> None:
    claim = f"kind=read,ops={operations},bytes={operations * 4096},path={tmp_path / 'data'}"
    words = ("--pid", str(server.pid), "--claim", claim, "--", sys.executable, "-c", CLIENT)
    found = result(tmp_path, *words, code=code)
    assert found["verdict"].startswith(verdict)
    assert (found["ops"]["read"], found["bytes"]["read"], found["ops"]["write"]) == (100, 100 * 4096, 0)
    assert found["attached"]["pids"] == [server.pid]
    assert found["attached"]["compared"].startswith(f"The claims of {sys.executable} were compared with the I/O of")
    assert server.poll() is None


def test_the_watch_ends_by_its_time_and_by_a_signal(server: subprocess.Popen[str], tmp_path: Path) -> None:
    found = result(tmp_path, "--pid", str(server.pid), "--for", "300ms")
    assert 0.3 <= found["seconds"] < 5
    watch = subprocess.Popen(
        [*IOASSAY, "--pid", str(server.pid)], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert watch.stderr is not None
    assert f"watching process {server.pid}" in watch.stderr.readline()
    watch.send_signal(signal.SIGINT)
    out, err = watch.communicate(timeout=30)
    assert watch.returncode == 0, err
    assert "and it goes on" in out
    assert server.poll() is None


def test_the_watch_ends_with_the_server(server: subprocess.Popen[str], tmp_path: Path) -> None:
    watch = subprocess.Popen(
        [*IOASSAY, "--json", "--pid", str(server.pid)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watch.stderr is not None
    assert "watching" in watch.stderr.readline()
    server.kill()
    out, _ = watch.communicate(timeout=30)
    assert watch.returncode == 0
    assert json.loads(out)["attached"]["ended"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--for", "1s"), "wanted --pid"),
        ((), "Missing argument"),
        (("--pid", "x"), "not the id of a process"),
        (("--pid", "1", "--twins", "2"), "cannot be repeated"),
        (("--cgroup", "a", "--container", "b"), "give one of them"),
        (("--pid", "1", "--for", "1s", "--", "true"), "the client's end"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    done = subprocess.run([*IOASSAY, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert why in done.stderr


@pytest.fixture
def fio_server(tmp_path: Path) -> Iterator[tuple[int, list[str]]]:
    """A server of fio's at a Unix socket, its process, and a client that has it read 1 MiB."""
    (tmp_path / "data").write_bytes(bytes(1 << 20))
    job = tmp_path / "job.fio"
    job.write_text(f"[j]\nfilename={tmp_path / 'data'}\nrw=randread\nbs=4k\nsize=1m\nioengine=psync\n")
    address = f"sock:{tmp_path / 'fio'}"
    with subprocess.Popen(
        ["fio", f"--server={address}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as server:
        try:
            while not (tmp_path / "fio").exists():
                assert server.poll() is None
                time.sleep(0.01)
            yield server.pid, ["fio", f"--client={address}", str(job), "--output-format=json"]
        finally:
            os.killpg(server.pid, signal.SIGKILL)


@pytest.mark.fio
def test_fios_client_claims_and_its_server_is_watched(fio_server: tuple[int, list[str]], tmp_path: Path) -> None:
    pid, client = fio_server
    found = result(tmp_path, "--pid", str(pid), "--", *client)
    assert (found["claim"]["source"], found["claim"]["operations"], found["ops"]["read"]) == ("fio", 256, 256)
    assert found["verdict"].startswith("CONFIRMED")


@pytest.mark.fio
def test_fios_client_alone_is_not_judged_by_its_own_calls(fio_server: tuple[int, list[str]], tmp_path: Path) -> None:
    _, client = fio_server
    found = result(tmp_path, "--", *client)
    assert (found["verdict"], found["reason"]) == ("UNSUPPORTED", "LOAD-OF-SERVERS")
    assert found["claim"]["servers"] == [str(tmp_path / "fio")]


@pytest.mark.fio
def test_a_recording_without_requests_names_the_servers(fio_server: tuple[int, list[str]], tmp_path: Path) -> None:
    _, client = fio_server
    recording = [sys.executable, "-m", "ioassay", "record", "-o", "trace.csv", "--", *client]
    done = subprocess.run(recording, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"its load is made by {tmp_path / 'fio'}; record the requests of this host with --all" in done.stderr
