"""Drives that cannot be served: each refusal names the thing, what it is and what was wanted, and leaves nothing.

Most are rows of tests/corpus/commands/device.toml; here are those for which a test must do more than ask.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ..virtual_drive.nbd import Client
from .drives import COMMAND, PATIENCE_S, served, typed

SMALL = ("--no-calibrate", "--size", "1MiB")
NBD = (*SMALL, "--transport", "nbd:unix:a")
LONGEST = 107
"""Bytes of the path of a Unix socket: unix(7)."""
Case = tuple[tuple[str, ...], tuple[str, ...]]
"""Words of the command line, and what is in the one line that is said."""


def refused(folder: Path, words: tuple[str, ...]) -> str:
    done = typed(folder, "serve", *words, TMPDIR=str(folder))
    assert (done.returncode, done.stdout) == (2, ""), (words, done)
    return done.stderr


def check(folder: Path, cases: list[Case]) -> None:
    """Nothing is left of any of them, and each says what it is to say, in one line."""
    before = sorted(os.listdir(folder))
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda case: refused(folder, case[0]), cases))
    for (words, parts), answer in zip(cases, answers, strict=True):
        assert [part for part in parts if part not in answer] == [], (words, answer)
        assert answer.startswith("ioassay: ") and answer.count("\n") == 1, answer
    assert sorted(os.listdir(folder)) == before


def test_a_path_that_no_socket_may_have(tmp_path: Path) -> None:
    long = "x" * (LONGEST - len(os.fsencode(tmp_path)))  # with the slash before it one byte too many
    too_long = (f"has {LONGEST + 1} bytes, wanted at most {LONGEST}", "choose a shorter one")
    check(
        tmp_path,
        [
            ((*SMALL, "--transport", f"nbd:unix:{long}"), (f"nbd:unix:{long}: the path", *too_long)),
            ((*NBD, "--stats", long), ("stats: the path", *too_long)),
            ((*SMALL, "--transport", f"vfio-user:{long}"), (f"vfio-user:{long}: the path", *too_long)),
        ],
    )


def test_the_longest_path_that_a_socket_may_have_is_served(tmp_path: Path) -> None:
    name = "x" * (LONGEST - 1 - len(os.fsencode(tmp_path)))
    words = ("--no-calibrate", "--size", "1MiB", "--transport", f"nbd:unix:{name}")
    with served(tmp_path, *words), Client(tmp_path / name) as client:
        assert client.size_bytes == 2**20


def test_a_place_that_another_program_has(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as port, socket.socket(socket.AF_UNIX) as listens:
        address = f"127.0.0.1:{port.getsockname()[1]}"
        listens.bind(str(tmp_path / "live"))
        listens.listen()
        taken = ("is taken by a program that listens there: end it, or choose another place",)
        check(
            tmp_path,
            [
                ((*SMALL, "--transport", f"nbd:tcp:{address}"), (address, *taken)),
                ((*SMALL, "--transport", f"nvme-tcp:{address}"), (address, *taken)),
                ((*SMALL, "--transport", "nbd:unix:live"), ("/live", *taken)),
                ((*NBD, "--stats", "live"), ("/live", *taken)),
                # What was made before the one that is refused is gone, too.
                ((*NBD, "--file", "new", "--transport", f"nvme-tcp:{address}"), (address, *taken)),
            ],
        )


def test_what_a_killed_drive_left_is_taken(tmp_path: Path) -> None:
    words = (*NBD, "--stats", "st")
    with served(tmp_path, *words) as drive:
        drive.end(signal.SIGKILL)
    assert sorted(os.listdir(tmp_path)) == ["a", "st"]
    with served(tmp_path, *words) as drive, Client(tmp_path / "a") as client:
        assert client.size_bytes == drive.ask("stats")["size_bytes"] == 2**20
        assert drive.end() == (0, "")
    assert os.listdir(tmp_path) == []


@pytest.mark.root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv (package util-linux)")
def test_a_port_of_root_and_a_file_of_others_are_told_to_other_users(nobody: list[str]) -> None:
    """In a folder that such a user can reach, which those of pytest are not."""
    first = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    if first < 2:
        pytest.skip("every port is everybody's here (net.ipv4.ip_unprivileged_port_start)")
    port = min(first, 1024) - 1
    with tempfile.TemporaryDirectory(prefix="dr-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "kept").write_bytes(bytes(2**20))
        (folder / "kept").chmod(0o444)
        for words, said in [
            ((*SMALL, "--transport", f"nvme-tcp:127.0.0.1:{port}"), f"127.0.0.1:{port} is a port at which only root"),
            ((*NBD, "--file", "kept"), "wanted a file that can be written, or a drive that is read only"),
        ]:
            done = subprocess.run(
                [*nobody, *COMMAND, "serve", *words], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S
            )
            assert (done.returncode, said in done.stderr) == (2, True), done.stderr
        assert os.listdir(folder) == ["kept"]
