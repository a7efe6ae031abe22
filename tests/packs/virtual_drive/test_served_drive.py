"""`ioassay.serve`: a drive with its addresses, what it counts and how it misbehaves, and nothing that stays behind."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import ioassay as ia
from ioassay.process import process_table

from ...api.conftest import own_children as own_children
from ...api.conftest import own_folder as own_folder
from ...patience import PATIENCE_S, until

SMALL = {"model": "none", "calibrate": False}
pytestmark = pytest.mark.usefixtures("own_children")


def greets(drive: ia.ServedDrive) -> bool:
    """Whether an NBD server answers there."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_S)
        client.connect(drive.addresses["nbd"].partition("socket=")[2])
        return client.recv(8) == b"NBDMAGIC"


def serving(folder: Path) -> list[int]:
    """The processes that serve the drives whose control sockets lie there."""
    wanted = os.fsencode(str(folder))
    return [pid for pid in process_table.everyone() if wanted in command_line(pid)]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_drive_is_there_while_the_context_lasts_and_leaves_nothing() -> None:
    with pytest.raises(ValueError, match="mine"), ia.serve("16MiB", **SMALL) as drive:
        assert greets(drive) and drive.size_bytes == 16 << 20 and drive.stats()["reads"]["commands"] == 0
        assert drive.metrics()["drive.read.ios"] == 0.0
        raise ValueError("mine")
    assert not drive.socket.parent.exists() and not serving(drive.socket.parent)
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


def test_several_drives_are_served_by_one_process_and_one_may_end_before_the_others() -> None:
    with ia.serve("16MiB", **SMALL) as alone:
        number_for_one = len(serving(alone.socket.parent))
    tables = [{"size": "16MiB", **SMALL}, {"size": "8MiB", "transport": "nbd:unix:own.sock", **SMALL}]
    with ia.serve_group(tables) as (first, second):
        folder = second.socket.parent
        assert len(serving(folder)) == number_for_one > 0
        assert second.addresses["nbd"].endswith(str(Path("own.sock").absolute()))
        assert [(drive.size_bytes, greets(drive)) for drive in (first, second)] == [(16 << 20, True), (8 << 20, True)]
        first.inject(kind="latency", delay="1ms")
        assert (len(first.faults()), len(second.faults())) == (1, 0)
        first.stop()
        assert second.stats()["reads"]["commands"] == 0
    assert not folder.exists()
    Path("drives.toml").write_text(
        '[[drive]]\ntransport = "nbd:unix:a.sock"\nsize = "8MiB"\nmodel = "none"\ncalibrate = false\n'
    )
    with ia.serve_group("drives.toml") as (drive,):
        assert drive.size_bytes == 8 << 20 and Path("a.sock").exists()


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_program_that_ends_within_the_context_leaves_no_drive_and_no_folder(ending: str) -> None:
    program = f"""
import os, ioassay as ia
with ia.serve("16MiB", model="none", calibrate=False) as drive:
    print(drive.socket, flush=True)
    {ending}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    folder = Path(done.stdout.strip()).parent
    assert folder.name.startswith("ioassay-served-"), done.stderr
    until(lambda: not folder.exists() and not serving(folder))
