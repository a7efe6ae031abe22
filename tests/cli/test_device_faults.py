"""Drives that misbehave on request, as their clients see them."""

from __future__ import annotations

import errno
import json
import subprocess
import time
from pathlib import Path

import pytest

from ..virtual_drive.nbd import READ, Client
from .drives import PATIENCE_S, Drive, served, typed

QUIET = ("--size", "16MiB", "--model", "none", "--no-calibrate", "--transport", "nbd:unix:a")


def fault(drive: Drive, what: str, *words: str) -> subprocess.CompletedProcess[str]:
    return typed(Path.cwd(), "fault", what, drive.told["stats"], *words)


def injected(drive: Drive, *words: str) -> int:
    done = fault(drive, "inject", *words, "--json")
    assert done.returncode == 0, done.stderr
    (number,) = json.loads(done.stdout)["armed"]
    return int(number)


def test_a_plan_is_in_force_from_the_beginning(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('[[fault]]\nkind = "read-error"\noffset = "1MiB"\nlength = 4096\n[[fault]]\nkind = "flush-error"\n')
    with served(tmp_path, *QUIET, "--faults", str(plan)) as drive, Client(tmp_path / "a") as client:
        assert drive.told["faults"] == 2
        client.write(1 << 20, b"x" * 4096)
        assert client.read(0, 4096) == bytes(4096)
        for call in (lambda: client.read(1 << 20, 512), client.flush):
            with pytest.raises(OSError) as raised:
                call()
            assert raised.value.errno == errno.EIO
        counted = drive.ask("stats")
        assert counted["faults_fired"] == 2 and counted["reads"]["errors"] == 1
        assert [(one["kind"], one["fired"]) for one in counted["faults"]] == [("read-error", 1), ("flush-error", 1)]
        shown = typed(tmp_path, "stats", drive.told["stats"]).stdout
        assert "faults    2 faults armed; struck 2 times" in shown


def test_a_drive_misbehaves_from_now_on_and_no_longer(tmp_path: Path) -> None:
    with served(tmp_path, *QUIET) as drive, Client(tmp_path / "a") as client:
        number = injected(drive, "kind=read-error", "offset=4KiB", "length=4KiB", "probability=0.5", "scope=page")
        assert injected(drive, "kind=stuck", "op=read", "offset=8KiB") == number + 1
        shown = fault(drive, "list").stdout
        assert "4 KiB at 4 KiB; 50 % of pages" in shown and "read; from 8 KiB" in shown
        client.submit(READ, 8192, 512)
        time.sleep(0.1)
        with Client(tmp_path / "a") as other:
            assert other.read(0, 512) == bytes(512)  # what it concerns alone is stuck
        assert drive.ask("stats")["depth_now"] == 1
        done = fault(drive, "clear", str(number + 1))
        assert (done.returncode, done.stdout) == (0, "cleared 1 fault\n")
        assert client.replies() == {1: 0}
        assert fault(drive, "clear").stdout == "cleared 1 fault\n"
        assert fault(drive, "list").stdout == "no faults\n"
        assert client.read(4096, 4096) == bytes(4096)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("kind=read-error", "op=write"), 'op is "write", wanted "read"'),
        (("kind=read-error", "offset=1GiB"), "offset is 1073741824, wanted less than the drive's size"),
        (("kind=latency",), "delay is 0, wanted at least a microsecond"),
        (("kind=nonsense",), "kind"),
        (("no-such-file",), "no-such-file: No such file"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    with served(tmp_path, *QUIET) as drive:
        done = fault(drive, "inject", *words)
        assert done.returncode != 0 and said in done.stderr and len(done.stderr.splitlines()) == 1
        assert "Traceback" not in done.stderr
        for number in ("7", "x", "-1", "99999999999999999999"):
            assert fault(drive, "clear", "--", number).returncode == 2
        assert drive.ask("stats")["faults"] == []


def test_a_reset_ends_connections_and_a_lost_link_comes_back(tmp_path: Path) -> None:
    with served(tmp_path, *QUIET) as drive:
        with Client(tmp_path / "a") as client:
            client.write(0, b"x" * 4096)
            injected(drive, "kind=controller-reset", "op=read", "skip=1", "count=1")
            assert client.read(0, 512) == b"x" * 512
            with pytest.raises((EOFError, ConnectionError)):
                client.read(0, 512)
        with Client(tmp_path / "a") as client:
            assert client.read(0, 512) == b"x" * 512  # a reset is no power loss
            injected(drive, "kind=link-loss", "down=1s")
            with pytest.raises((EOFError, ConnectionError)):
                while True:
                    client.read(0, 512)
        began, tries = time.monotonic(), 0
        while True:
            tries += 1
            try:
                with Client(tmp_path / "a") as client:
                    assert client.read(0, 512) == b"x" * 512
                    break
            except (EOFError, ConnectionError):
                assert time.monotonic() - began < PATIENCE_S
                time.sleep(0.05)
        assert tries > 1 and drive.ask("stats")["faults_fired"] == 2


def test_a_plan_that_does_not_suit_the_drive_is_refused_before_it_serves(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    for text, said in (('[[fault]]\nkind = "stuck"\noffset = "1GiB"', "offset is"), ("[[fault]]\nkind = 3", "kind")):
        plan.write_text(text)
        done = typed(tmp_path, "serve", *QUIET, "--faults", str(plan))
        assert done.returncode == 2 and said in done.stderr and done.stdout == ""
