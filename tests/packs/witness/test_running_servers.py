"""ioassay witness --pid and --cgroup: servers that run already, alone and as the other end of a client."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ...cli.conftest import ask, command
from ...patience import until

pytestmark = [pytest.mark.bpf, pytest.mark.root]

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
    process = subprocess.Popen([sys.executable, "-SIc", SERVER], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def test_a_clients_claims_are_held_against_the_servers_calls(server: subprocess.Popen[str], tmp_path: Path) -> None:
    truth, lie = (f"kind=read,ops={number},bytes={number * 4096},path={tmp_path / 'data'}" for number in (100, 5000))
    for claim, verdict, code in ((truth, "CONFIRMED", 0), (lie, "CONTRADICTED", 4)):
        words = ("--pid", server.pid, "--claim", claim, "--", sys.executable, "-SIc", CLIENT)
        answer = ask("witness", "--json", *words, cwd=tmp_path)
        found = answer.json
        assert answer.code == code and found["verdict"].startswith(verdict)
        assert (found["ops"]["read"], found["bytes"]["read"], found["ops"]["write"]) == (100, 100 * 4096, 0)
        assert found["attached"]["pids"] == [server.pid]
        assert found["attached"]["compared"].startswith(f"The claims of {sys.executable} were compared with the I/O of")
    assert server.poll() is None


def test_the_watch_ends_by_its_time(server: subprocess.Popen[str], tmp_path: Path) -> None:
    found = ask("witness", "--json", "--pid", server.pid, "--for", "300ms", cwd=tmp_path).json
    assert found["seconds"] >= 0.3 and not found["attached"]["ended"]


@contextmanager
def begun(folder: Path, *words: object) -> Iterator[subprocess.Popen[str]]:
    """A watch that has said what it watches."""
    argv = command("witness", *words)
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
        assert watch.stderr is not None
        assert "watching process" in watch.stderr.readline()
        yield watch


def test_the_watch_ends_by_a_signal(server: subprocess.Popen[str], tmp_path: Path) -> None:
    with begun(tmp_path, "--pid", server.pid) as watch:
        watch.send_signal(signal.SIGINT)
        out, err = watch.communicate(timeout=240)
    assert watch.returncode == 0, err
    assert "and it goes on" in out
    assert server.poll() is None


def test_the_watch_ends_with_the_server(server: subprocess.Popen[str], tmp_path: Path) -> None:
    with begun(tmp_path, "--json", "--pid", server.pid) as watch:
        server.kill()
        out, _ = watch.communicate(timeout=240)
    assert watch.returncode == 0
    assert json.loads(out)["attached"]["ended"]


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
            listens = re.compile(rf" 00010000 .* {re.escape(str(tmp_path))}/fio$", re.M)  # __SO_ACCEPTON
            until(lambda: server.poll() is not None or listens.search(Path("/proc/net/unix").read_text()))
            yield server.pid, ["fio", f"--client={address}", str(job), "--output-format=json"]
        finally:
            os.killpg(server.pid, signal.SIGKILL)


@pytest.mark.fio
def test_fios_client_claims_and_its_server_is_watched(fio_server: tuple[int, list[str]], tmp_path: Path) -> None:
    pid, client = fio_server
    found = ask("witness", "--json", "--pid", pid, "--", *client, cwd=tmp_path).json
    assert (found["claim"]["source"], found["claim"]["operations"], found["ops"]["read"]) == ("fio", 256, 256)
    assert found["verdict"].startswith("CONFIRMED")
    found = ask("witness", "--json", "--", *client, cwd=tmp_path).json  # not judged by its own calls
    assert (found["verdict"], found["reason"]) == ("UNSUPPORTED", "LOAD-OF-SERVERS")
    assert found["claim"]["servers"] == [str(tmp_path / "fio")]
    answer = ask("record", "-o", "trace.csv", "--", *client, cwd=tmp_path)
    assert answer.code == 0, answer
    assert f"load is made by {tmp_path / 'fio'}; record the requests of this host with --all" in answer.err
