"""A served drive's backing file: what is in it after the end, whichever it was, and what a drive says when it fails."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay.virtual_drive import control

from ..virtual_drive.nbd import FLUSH, WRITE, Client
from .drives import PATIENCE_S, Drive, served, typed

PAGE = 4096
PAGES = 1024
SIZE_BYTES = PAGES * PAGE
NBD = ("--no-calibrate", "--transport", "nbd:unix:a")
KEPT = (*NBD, "--file", "kept")
NEW = (*KEPT, "--size", str(SIZE_BYTES))
QUICK = ("--set", "program_us=50", "--buffer", "512KiB")
DRIVES = {
    "no model": ("--model", "none"),
    "no buffer": ("--set", "program_us=50"),
    "lru": ("--policy", "lru", *QUICK),
    "epo": ("--policy", "epo", *QUICK),
}


def stats(drive: Drive) -> dict[str, Any]:
    found: dict[str, Any] = control.ask(Path(drive.told["stats"]), "stats")["stats"]
    return found


def refused(folder: Path, *words: str) -> str:
    """What is said of a drive that cannot be."""
    done = typed(folder, "serve", *words)
    assert (done.returncode, done.stdout) == (2, ""), (words, done)
    return done.stderr


def page_of(value: int) -> bytes:
    return value.to_bytes(2, "little") * (PAGE // 2)


class Known:
    """Of each page the values that it may have after a kill: the one that was durable last, and those written since."""

    def __init__(self, *, at_once: bool) -> None:
        self.values = [[0] for _ in range(PAGES)]
        self._at_once = at_once
        self._answered: set[int] = set()
        self._value = 0

    def next(self, page: int) -> bytes:
        self._value += 1
        self.values[page].append(self._value)
        return page_of(self._value)

    def answered(self, page: int, *, fua: bool) -> None:
        if fua or self._at_once:
            self.values[page] = self.values[page][-1:]
        else:
            self._answered.add(page)

    def flushed(self) -> None:
        for page in self._answered:
            self.values[page] = self.values[page][-1:]
        self._answered.clear()

    def settle(self, client: Client) -> None:
        """What is there now is allowed, and from now on it is what there is."""
        for page, values in enumerate(self.values):
            content = client.read(page * PAGE, PAGE)
            found = int.from_bytes(content[:2], "little")
            assert content == page_of(found), f"page {page} is torn"
            assert found in values, f"page {page} holds {found}, allowed {values}"
            self.values[page] = [found]
        self._answered.clear()


@pytest.mark.parametrize("name", DRIVES)
def test_what_was_flushed_is_there_after_kills(tmp_path: Path, name: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    known = Known(at_once=name in ("no model", "no buffer"))
    words: tuple[str, ...] = NEW
    for _ in range(4):
        with served(tmp_path, *words, *DRIVES[name]) as drive, Client(tmp_path / "a") as client:
            known.settle(client)
            for _ in range(300):
                write(client, known, chance)
            for _ in range(16):  # it dies at work
                page = chance.randrange(PAGES)
                client.submit(WRITE, page * PAGE, data=known.next(page))
            client.submit(FLUSH)
            assert drive.end(signal.SIGKILL)[0] == -signal.SIGKILL
        words = KEPT  # with the size that it has, over the sockets that are left
    with served(tmp_path, *words, *DRIVES[name]), Client(tmp_path / "a") as client:
        assert client.size_bytes == SIZE_BYTES
        known.settle(client)


@pytest.mark.parametrize("name", DRIVES)
def test_an_image_that_others_copied_and_flushed_is_there_after_a_kill(tmp_path: Path, name: str) -> None:
    if shutil.which("nbdcopy") is None:
        pytest.skip("needs nbdcopy (package libnbd-bin)")
    (tmp_path / "image").write_bytes(os.urandom(SIZE_BYTES))
    with served(tmp_path, *NEW, *DRIVES[name]) as drive:
        nbdcopy("--connections=4", "--flush", tmp_path / "image", drive.told["nbd"])
        assert drive.end(signal.SIGKILL)[0] == -signal.SIGKILL
    with served(tmp_path, *KEPT, *DRIVES[name]) as drive:
        nbdcopy("--connections=4", drive.told["nbd"], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "image").read_bytes()


def nbdcopy(*words: object) -> None:
    done = subprocess.run(["nbdcopy", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr


def write(client: Client, known: Known, chance: random.Random) -> None:
    page, fua = chance.randrange(PAGES), chance.random() < 0.1
    client.write(page * PAGE, known.next(page), fua=fua)
    known.answered(page, fua=fua)
    if chance.random() < 0.05:
        client.flush()
        known.flushed()


@pytest.mark.parametrize("name", DRIVES)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_after_a_clean_end_all_is_there(tmp_path: Path, name: str, number: signal.Signals) -> None:
    with served(tmp_path, *NEW, *DRIVES[name]) as drive, Client(tmp_path / "a") as client:
        for page in range(300):
            client.write(page * PAGE, page_of(page + 1))
        assert drive.end(number) == (0, "")
    content = (tmp_path / "kept").read_bytes()
    assert content == b"".join(page_of(page + 1) for page in range(300)) + bytes((PAGES - 300) * PAGE)
    assert sorted(os.listdir(tmp_path)) == ["kept"]


def test_a_backing_file_that_does_not_fit_is_told(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(bytes(SIZE_BYTES))
    (tmp_path / "odd").write_bytes(bytes(1000))
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "read").write_bytes(b"x" * SIZE_BYTES)
    for words, said in [
        (("--file", "kept", "--size", "1MiB"), f"has {SIZE_BYTES} bytes, wanted 1048576: leave the size out"),
        (("--file", "kept", "--size", "8MiB"), f"has {SIZE_BYTES} bytes, wanted 8388608: leave the size out"),
        (("--file", "odd"), "size is 1000, wanted whole blocks of 512"),
        (("--file", "empty"), "is empty, wanted one that holds a drive, or a size"),
        (("--file", "new"), "wanted a size to make it"),
        (("--file", "new", "--read-only", "--size", "1MiB"), "backing file"),
        (("--file", "folder", "--size", "1MiB"), "folder"),
        (("--file", "none/new", "--size", "1MiB"), "none"),
    ]:
        answer = refused(tmp_path, *NBD, *words)
        assert said in answer, (words, answer)
    assert sorted(os.listdir(tmp_path)) == ["empty", "folder", "kept", "odd", "read"]
    assert (tmp_path / "empty").stat().st_size == 0


def test_a_backing_file_has_one_drive_that_writes_or_many_that_read(tmp_path: Path) -> None:
    with served(tmp_path, *NEW) as drive, Client(tmp_path / "a") as client:
        client.write(0, page_of(5), fua=True)
        for words in ((), ("--read-only",)):
            answer = refused(tmp_path, "--transport", "nbd:unix:b", "--file", "kept", *words)
            assert "is served by another process; wanted a file of its own" in answer
        assert client.read(0, PAGE) == page_of(5)
        assert drive.end() == (0, "")
    reads = ("--no-calibrate", "--file", "kept", "--read-only", "--transport")
    with served(tmp_path, *reads, "nbd:unix:a") as drive, served(tmp_path, *reads, "nbd:unix:b"):
        for name in ("a", "b"):
            with Client(tmp_path / name) as client:
                assert client.read(0, PAGE) == page_of(5)
                with pytest.raises(OSError, match="not permitted"):
                    client.write(0, page_of(6))
        assert drive.told["read_only"]
    assert (tmp_path / "kept").read_bytes()[:PAGE] == page_of(5)


def fio(folder: Path, *options: str) -> tuple[int, str]:
    """The job's error, and all that fio said; its nbd engine ignores SIGTERM, so one that hangs is killed."""
    argv = ["fio", "--name=job", "--output-format=json", "--eta=never", "--thread", *options]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
    (job,) = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]  # what its engine says comes first
    return job["error"], done.stdout + done.stderr


@pytest.mark.root
@pytest.mark.fio
@pytest.mark.parametrize("name", DRIVES)
def test_a_full_disk_is_a_full_drive_until_there_is_room(
    tmp_path: Path, name: str, small_disk: Callable[..., Path], more_room: Callable[[Path, int], None]
) -> None:
    disk = small_disk(4096)
    words = (*NBD, "--file", str(disk / "kept"), "--size", "16MiB", *DRIVES[name])
    with served(tmp_path, *words) as drive, Client(tmp_path / "a") as client:
        assert [one["kind"] for one in drive.told["warnings"]] == ["disk-may-fill"]
        client.write(0, page_of(1))
        client.flush()
        over = ("--ioengine=nbd", f"--uri={drive.told['nbd']}", "--bs=64k")
        error, said = fio(tmp_path, *over, "--rw=write", "--size=8m", "--offset=1m", "--fsync=8", "--iodepth=4")
        buffered = "--policy" in words  # a flush reports it; fio 3.33 ignores errors of a flush, fio 3.39 does not
        assert error in ({0, errno.ENOSPC} if buffered else {errno.ENOSPC}), (error, said[:500])
        counted = stats(drive)
        assert counted["flushes" if buffered else "writes"]["errors"] > 0
        # Nobody else is harmed: what is there is read, and written where there is room.
        assert client.read(0, PAGE) == page_of(1)
        assert fio(tmp_path, *over, "--rw=randread", "--size=1m", "--iodepth=4")[0] == 0
        with pytest.raises(OSError, match="No space left"):
            client.flush()
        more_room(disk, 65536)
        client.write(0, page_of(2))
        client.flush()
        assert fio(tmp_path, *over, "--rw=write", "--size=8m", "--offset=1m", "--verify=crc32c")[0] == 0
        code, said = drive.end()
        assert (code, "the disk is full" in said) == (0, False)
    assert (disk / "kept").read_bytes()[:PAGE] == page_of(2)


@pytest.mark.root
@pytest.mark.fio
def test_a_full_disk_is_an_error_of_the_drives_file_too(tmp_path: Path, small_disk: Callable[..., Path]) -> None:
    disk = small_disk(2048)
    words = ("--no-calibrate", "--transport", "fuse:drive", "--file", str(disk / "kept"), "--size", "8MiB")
    with served(tmp_path, *words) as drive:
        options = ("--ioengine=psync", "--filename=drive", "--rw=write", "--bs=64k", "--size=8m")
        error, said = fio(tmp_path, *options)
        assert error == errno.ENOSPC, (error, said[:500])
        assert stats(drive)["writes"]["errors"] == 1
        code, said = drive.end()
        assert (code, "the disk is full" in said) == (1, True)


@pytest.mark.root
@pytest.mark.fio
def test_a_file_that_can_only_be_read_is_a_drive_that_can_only_be_read(
    tmp_path: Path, small_disk: Callable[..., Path]
) -> None:
    disk = small_disk(8192)
    (disk / "kept").write_bytes(page_of(3) * PAGES)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    words = (*NBD[:-1], "nbd:unix:a,fuse:drive", "--file", str(disk / "kept"))
    answer = refused(tmp_path, *words)
    assert "Read-only file system" in answer and "wanted a file that can be written, or a drive that" in answer
    with served(tmp_path, *words, "--read-only") as drive, Client(tmp_path / "a") as client:
        for way in (("--ioengine=nbd", f"--uri={drive.told['nbd']}"), ("--ioengine=psync", "--filename=drive")):
            options = (*way, "--bs=4k", "--size=64k")
            assert fio(tmp_path, *options, "--rw=read")[0] == 0
            error, said = fio(tmp_path, *options, "--rw=write")
            assert error in (errno.EROFS, errno.EPERM), said
        assert client.read(0, PAGE) == page_of(3)
        client.flush()  # nothing to do
        assert drive.end() == (0, "")


def test_a_backing_file_that_somebody_truncates_is_an_error_and_no_crash(tmp_path: Path) -> None:
    with served(tmp_path, *NEW) as drive, Client(tmp_path / "a") as client:
        os.truncate(tmp_path / "kept", PAGE)
        with pytest.raises(OSError, match="Input/output error"):
            client.read(SIZE_BYTES // 2, PAGE)
        assert client.read(0, PAGE) == bytes(PAGE)
        client.write(0, page_of(4), fua=True)
        assert client.read(0, PAGE) == page_of(4)
        assert stats(drive)["reads"]["errors"] == 1
        assert drive.end() == (0, "")
