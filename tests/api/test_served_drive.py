"""`ioassay.serve`: a drive with its addresses, what it counts and how it misbehaves, and nothing that stays behind."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import ioassay as ia
from ioassay.process import process_table

SMALL = {"model": "none", "calibrate": False}
LONG_S = 60


def greeted(path: str) -> bytes:
    """The first bytes of an NBD server."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(LONG_S)
        client.connect(path)
        return client.recv(8)


def test_a_drive_is_there_while_the_context_lasts_and_leaves_nothing() -> None:
    before = set(process_table.children())
    with ia.serve("16MiB", **SMALL) as drive:
        path = drive.addresses["nbd"].partition("socket=")[2]
        assert greeted(path) == b"NBDMAGIC"
        assert drive.size_bytes == 16 << 20 and drive.stats()["reads"]["commands"] == 0
        assert drive.metrics()["drive.read.ios"] == 0.0
        folder = drive.socket.parent
        assert set(process_table.children()) - before
    assert not folder.exists() and set(process_table.children()) == before
    with pytest.raises(ia.InputError, match="no drive answers there"):
        drive.stats()


def test_faults_and_power_cuts_are_the_control_sockets() -> None:
    with ia.serve("16MiB", **SMALL) as drive:
        (number,) = drive.inject(kind="latency", delay="50ms", probability=0.5)
        (other,) = ia.ServedDrive(drive.socket).inject("kind=read-error", "offset=1MiB")
        assert [fault["kind"] for fault in drive.faults()] == ["latency", "read-error"] and other != number
        assert (drive.clear_faults(number), drive.clear_faults()) == (1, 1)
        assert drive.power_cut() == 0
        drive.reset_stats()
        with pytest.raises(ia.UsageError, match="unknown key"):
            drive.inject(kind="latency", dellay="50ms")


def test_what_cannot_be_served_is_refused_before_a_process_is_there() -> None:
    before = set(process_table.children())
    for arguments, message in (
        ({}, "size is None; wanted"),
        ({"size": "16MiB", "policy": "llru"}, "policy"),
        ({"size": "16MiB", "transports": ["udp:1"]}, "transport is 'udp:1'"),
        ({"size": "lots"}, "size"),
        ({"size": "16MiB", "options": {"no_such": 1}}, "no_such"),
    ):
        with pytest.raises((ia.UsageError, ia.ToolError), match=message), ia.serve(**arguments):
            pass
    assert set(process_table.children()) == before


def test_several_drives_are_served_by_one_process_and_one_may_end_before_the_others() -> None:
    before = set(process_table.children())
    with ia.serve("16MiB", **SMALL):
        number_for_one = len(set(process_table.children()) - before)
    tables = [{"size": "16MiB", **SMALL}, {"size": "8MiB", "transport": "nbd:unix:own.sock", **SMALL}]
    with ia.serve_group(tables) as (first, second):
        assert len(set(process_table.children()) - before) == number_for_one
        assert second.addresses["nbd"].endswith(str(Path("own.sock").absolute()))
        assert [drive.size_bytes for drive in (first, second)] == [16 << 20, 8 << 20]
        for drive in (first, second):
            assert greeted(drive.addresses["nbd"].partition("socket=")[2]) == b"NBDMAGIC"
        first.inject(kind="latency", delay="1ms")
        assert (len(first.faults()), len(second.faults())) == (1, 0)
        first.stop()
        assert second.stats()["reads"]["commands"] == 0
        folder = second.socket.parent
    assert not folder.exists() and set(process_table.children()) == before


def test_a_file_of_drives_is_that_of_the_command_line() -> None:
    Path("drives.toml").write_text(
        '[[drive]]\ntransport = "nbd:unix:a.sock"\nsize = "8MiB"\nmodel = "none"\ncalibrate = false\n'
    )
    with ia.serve_group("drives.toml") as (drive,):
        assert drive.size_bytes == 8 << 20 and Path("a.sock").exists()


@pytest.mark.parametrize(
    ("drives", "message"),
    [
        ([], "drives is .*; wanted a list of at least one table"),
        ({"size": "16MiB"}, "wanted a list of at least one table"),
        ([{"size": "16MiB"}, {"sise": "16MiB"}], r"drive\[1\].sise: unknown key; did you mean 'size'"),
        ([{"size": "16MiB"}, {"policy": "lru"}], r"drive\[1\].size: is missing"),
        ("absent.toml", "absent.toml: No such file"),
        ([{"size": "16MiB", "pin": 9999}, {"size": "16MiB"}], r"could not be served: drive\[0\]: pin is 9999"),
    ],
)
def test_a_group_that_cannot_be_served_is_refused_by_drive_and_key(drives: Any, message: str) -> None:
    before = set(process_table.children())
    with pytest.raises((ia.UsageError, ia.ToolError), match=message), ia.serve_group(drives):
        pass
    assert set(process_table.children()) == before


def test_an_error_within_the_context_ends_the_drive() -> None:
    with pytest.raises(ValueError, match="mine"), ia.serve("16MiB", **SMALL) as drive:
        raise ValueError("mine")
    with pytest.raises(ia.InputError):
        drive.stats()


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_program_that_ends_within_the_context_leaves_no_drive_and_no_folder(ending: str) -> None:
    program = f"""
import os, ioassay as ia
with ia.serve("16MiB", model="none", calibrate=False) as drive:
    print(drive.socket, flush=True)
    {ending}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LONG_S)
    folder = Path(done.stdout.strip()).parent
    assert folder.name.startswith("ioassay-served-"), done.stderr
    until_s = time.monotonic() + LONG_S
    while (folder.exists() or serving(folder)) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not folder.exists() and not serving(folder)


def serving(folder: Path) -> list[int]:
    wanted = os.fsencode(str(folder))
    return [pid for pid in process_table.everyone() if wanted in command_line(pid)]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
