"""`ioassay device` as it is typed: a drive that real programs use, asked, cut off and ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ioassay.cli import device_top

from .drives import COMMAND, PATIENCE_S, served, typed


def _mounts() -> set[Path]:
    return {Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()}


# What it says, and how it ends


@pytest.mark.fio
def test_a_line_of_json_says_where_it_is_and_sigterm_ends_it(tmp_path: Path) -> None:
    ways = "nbd:unix:drive.sock,nvme-tcp:127.0.0.1:0"
    words = ("--size", "1GiB", "--transport", ways, "--model", "thesis", "--policy", "epo", "--no-calibrate")
    with served(tmp_path, *words) as drive:
        assert drive.told["nbd"] == f"nbd+unix:///?socket={tmp_path}/drive.sock"
        assert drive.told["nvme_tcp"].startswith("127.0.0.1:")
        assert drive.told["nqn"].startswith("nqn.")
        assert (tmp_path / "drive.sock").stat().st_mode & 0o777 == 0o600
        assert Path(drive.told["stats"]).stat().st_mode & 0o777 == 0o600
        code, said = drive.end()
        assert (code, said) == (0, "")
    assert not (tmp_path / "drive.sock").exists()
    assert not Path(drive.told["stats"]).parent.exists()


def test_vfio_user_is_served_at_a_socket_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    socket = tmp_path / "d" / "cntrl"
    with served(tmp_path, "--size", "16MiB", "--transport", "vfio-user:d", "--no-calibrate") as drive:
        assert drive.told["vfio_user"] == str(socket)
        assert socket.stat().st_mode & 0o777 == 0o600
        assert [way["transport"] for way in drive.told["ways"]] == ["vfio-user"]
        assert drive.end() == (0, "")
    assert not socket.exists()


# Power


def test_a_power_cut_takes_what_was_not_flushed(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root to mount a file without fusermount3")
    words = ("--size", "16MiB", "--transport", "fuse:drive", "--policy", "lru", "--buffer", "1MiB", "--no-calibrate")
    with served(tmp_path, *words) as drive:
        descriptor = os.open(tmp_path / "drive", os.O_RDWR)
        try:
            os.pwrite(descriptor, b"f" * 65536, 0)
            os.fsync(descriptor)
            os.pwrite(descriptor, b"u" * 65536, 2**20)
            assert drive.ask("power-cut") == {"lost_pages": 16}
            assert os.pread(descriptor, 65536, 0) == b"f" * 65536
            assert os.pread(descriptor, 65536, 2**20) == bytes(65536)
        finally:
            os.close(descriptor)
        assert drive.ask("stats")["power_cuts"] == 1


def test_what_was_flushed_survives_a_kill(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root to mount a file without fusermount3")
    words = ("--size", "16MiB", "--transport", "fuse:drive", "--file", "kept", "--no-calibrate")
    with served(tmp_path, *words) as drive:
        descriptor = os.open(tmp_path / "drive", os.O_RDWR)
        os.pwrite(descriptor, b"kept" * 1024, 8192)
        os.fsync(descriptor)
        assert drive.end(signal.SIGKILL)[0] == -signal.SIGKILL
        with suppress(OSError):  # nobody is there who could answer
            os.close(descriptor)
        deadline_s = time.monotonic() + PATIENCE_S
        while (tmp_path / "drive") in _mounts() and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert (tmp_path / "drive") not in _mounts()
    with served(tmp_path, *words) as drive:
        assert (tmp_path / "drive").stat().st_size == 16 * 2**20
        with (tmp_path / "drive").open("rb") as file:
            file.seek(8192)
            assert file.read(4096) == b"kept" * 1024
        assert drive.end()[0] == 0


@pytest.mark.root
@pytest.mark.fio
def test_a_full_disk_under_the_backing_file_is_an_error_of_the_drive_and_told_at_its_end(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(disk)], check=True)
    try:
        words = ("--size", "16MiB", "--transport", "nbd:unix:a,fuse:drive", "--file", "disk/back", "--no-calibrate")
        with served(tmp_path, *words) as drive:
            assert [one["kind"] for one in drive.told["warnings"]] == ["disk-may-fill"]
            with (tmp_path / "drive").open("r+b", buffering=0) as file:
                file.write(os.urandom(8 * 2**20))
                with pytest.raises(OSError, match="No space left"):
                    os.fsync(file.fileno())
            assert drive.ask("stats")["flushes"]["errors"] == 1
            code, said = drive.end()
            assert code == 1
            assert "disk/back: the disk is full: what was written last is not in it" in said
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# Two drives, and other users


def test_what_a_drive_has_no_other_drive_takes(tmp_path: Path) -> None:
    small = ("--size", "1MiB", "--no-calibrate")
    words = (*small, "--transport", "nbd:unix:a,nvme-tcp:127.0.0.1:0", "--file", "kept", "--stats", "st")
    with served(tmp_path, *words) as drive:
        for taken in (
            ("--transport", "nbd:unix:a"),
            ("--transport", f"nvme-tcp:{drive.told['nvme_tcp']}"),
            ("--transport", "nbd:unix:b", "--stats", "st"),
            ("--transport", "nbd:unix:b", "--file", "kept"),
        ):
            done = typed(tmp_path, "serve", *small, *taken)
            assert done.returncode == 2, done.stderr
            assert "is taken by a program" in done.stderr or "is served by another process" in done.stderr
        assert drive.ask("stats")["size_bytes"] == 2**20
        with served(tmp_path, *small, "--transport", "nbd:unix:b") as other:
            assert other.ask("stats")["size_bytes"] == 2**20


def test_nothing_listens_beyond_this_machine(tmp_path: Path) -> None:
    ways = "nbd:tcp:127.0.0.1:0,nvme-tcp:[::1]:0"
    with served(tmp_path, "--size", "1MiB", "--no-calibrate", "--transport", ways) as drive:
        own = {str(entry.readlink()) for entry in Path(f"/proc/{drive.process.pid}/fd").iterdir()}
        places = []
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                columns = line.split()
                if f"socket:[{columns[9]}]" in own:
                    places.append(columns[1].rpartition(":")[0])
        assert sorted(places) == ["00000000000000000000000001000000", "0100007F"]


@pytest.mark.root
@pytest.mark.skipif(shutil.which("fusermount3") is None, reason="fusermount3 is not installed (package fuse3)")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_user_without_rights_has_a_drive_too(end: signal.Signals, nobody: list[str]) -> None:
    """In a folder that such a user can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="dv-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        words = ("--size", "16MiB", "--transport", "fuse:drive,nbd:unix:a", "--file", "kept", "--no-calibrate")
        with served(folder, *words, "--stats", "st", before=nobody) as drive:
            write = ["dd", "if=/dev/zero", "of=drive", "bs=64k", "count=4", "conv=fsync,notrunc", "status=none"]
            subprocess.run([*nobody, *write], cwd=folder, check=True)
            assert drive.ask("stats")["writes"]["bytes"] == 2**18
            assert drive.end(end)[0] == (0 if end == signal.SIGTERM else -end)
        deadline_s = time.monotonic() + PATIENCE_S
        while folder / "drive" in _mounts() and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert folder / "drive" not in _mounts()


@pytest.mark.root
def test_a_user_without_rights_is_told_what_he_needs(nobody: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="dv-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        argv = [*nobody, *COMMAND, "serve", "--size", "1MiB", "--no-calibrate", "--transport"]
        for way, path, said in [
            ("fuse:drive", "/nowhere", "Debian has it in the package fuse3"),
            ("nbd:unix:/a", os.environ["PATH"], "Permission denied"),
        ]:
            environment = {**os.environ, "PATH": path}
            done = subprocess.run(
                [*argv, way], cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
            )
            assert (done.returncode, said in done.stderr) == (2, True), done.stderr
        assert os.listdir(folder) == []


# Watching


def test_all_that_a_drive_tells_is_in_its_document(tmp_path: Path) -> None:
    document = (Path(__file__).parents[2] / "docs/virtual-drive.md").read_text()
    words = ("--size", "1MiB", "--transport", "nbd:unix:a,nvme-tcp:127.0.0.1:0", "--policy", "lru", "--no-calibrate")
    with served(tmp_path, *words) as drive:
        counted = drive.ask("stats")
        assert {key for told in (drive.told, counted) for key in keys(told) if f"`{key}`" not in document} == set()


def keys(told: Any) -> Iterator[str]:
    """Those of a JSON value, at any depth."""
    for one in told.values() if isinstance(told, dict) else told if isinstance(told, list) else ():
        yield from keys(one)
    yield from told if isinstance(told, dict) else ()


def test_top_ends_with_its_drive(tmp_path: Path) -> None:
    with served(tmp_path, "--size", "1MiB", "--transport", "nbd:unix:a", "--no-calibrate") as drive:
        argv = [*COMMAND, "top", drive.told["stats"], "--interval", "0.1"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as top:
            assert top.stdout is not None and "r/s" in top.stdout.readline()
            drive.end()
            shown, said = top.communicate(timeout=PATIENCE_S)
            assert (top.returncode, shown.splitlines()[-1], said) == (0, "the drive has ended", "")


@pytest.mark.parametrize(("words", "code"), [((), 0), (("-n", "1000"), 130)])
def test_top_ends_by_ctrl_c_unless_rows_are_missing(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    with served(tmp_path, "--size", "1MiB", "--transport", "nbd:unix:a", "--no-calibrate") as drive:
        argv = [*COMMAND, "top", drive.told["stats"], "--interval", "0.1", *words]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as top:
            assert top.stdout is not None and "r/s" in top.stdout.readline()
            top.send_signal(signal.SIGINT)
            _, said = top.communicate(timeout=PATIENCE_S)
            assert (top.returncode, said) == (code, "ioassay: interrupted\n" if code else "")


def test_top_has_a_row_for_each_interval(tmp_path: Path) -> None:
    with served(tmp_path, "--size", "1MiB", "--transport", "nbd:unix:a", "--no-calibrate") as drive:
        done = typed(tmp_path, "top", drive.told["stats"], "-n", "2", "--interval", "0.1")
        assert done.returncode == 0, done.stderr
        head, *rows = done.stdout.splitlines()
        assert "r/s" in head and len(rows) == 2
        assert {len(line) for line in (head, *rows)} == {79}, "a terminal has 80 columns"
        lines = typed(
            tmp_path, "top", drive.told["stats"], "-n", "2", "--interval", "0.1", "--json"
        ).stdout.splitlines()
        assert [json.loads(line)["size_bytes"] for line in lines] == [2**20] * 2
        stopped = typed(tmp_path, "stop", drive.told["stats"], "--json")
        assert (stopped.returncode, json.loads(stopped.stdout)) == (0, {"stopped": drive.told["stats"]})
        assert drive.process.wait(PATIENCE_S) == 0


def test_a_row_tells_of_its_interval_alone() -> None:
    def seen(served_s: float, reads: int, late: list[list[int]], **more: Any) -> dict[str, Any]:
        one = {"commands": 0, "bytes": 0, "latency_ns": {"buckets": []}}
        read = {"commands": reads, "bytes": 4096 * reads, "latency_ns": {"buckets": late}}
        told = {"served_s": served_s, "counted_s": served_s, "reads": read, "writes": one, "late_ns": {"buckets": late}}
        return {**told, "depth_now": 3, "buffer": {"held_pages": 12_345, "capacity_pages": 20_000}, **more}

    first, second = seen(1, 100, [[50_000, 100]]), seen(3, 102, [[50_000, 100], [900_000, 2]])
    gaps = {4: "900 µs", 5: "-", 6: "3", 7: "12.3 k", 8: "900 µs"}
    assert device_top.row(first, second) == ["1", "0", "4.1 kB/s", "0 B/s", *gaps.values()]
    assert device_top.row(second, seen(5, 102, second["late_ns"]["buckets"]))[4] == "-"
    assert device_top.row(first, seen(5, 102, [], buffer={"held_pages": 0, "capacity_pages": 0}))[7] == "-"
    anew = seen(9, 4, [[10_000, 4]], counted_s=2)
    assert device_top.row(second, anew)[:5] == ["2", "0", "8.19 kB/s", "0 B/s", "10 µs"], "counting began anew"


def test_a_drive_that_was_stopped_has_written_everything(tmp_path: Path) -> None:
    words = ("--size", "64MiB", "--transport", "nbd:unix:a", "--no-calibrate", "--file", "kept")
    with served(tmp_path, *words) as drive:
        assert typed(tmp_path, "stop", drive.told["stats"]).returncode == 0
        assert not Path(drive.told["stats"]).exists()
        with served(tmp_path, *words) as again:
            assert again.told["size_bytes"] == 64 << 20


def test_a_drive_without_buffer_is_not_said_to_have_one(tmp_path: Path) -> None:
    for policy, has_one in (("none", False), ("lru", True)):
        words = ("--size", "1MiB", "--transport", "nbd:unix:a", "--no-calibrate", "--policy", policy)
        with served(tmp_path, *words) as drive:
            assert ("buffer" in typed(tmp_path, "stats", drive.told["stats"]).stdout.split()) == has_one
