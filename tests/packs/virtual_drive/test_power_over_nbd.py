"""Power cuts over NBD: what was written with FUA or before a flush is there, and of the rest what a drive may keep."""

from __future__ import annotations

import errno
import random
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from .drive_paths import PAGE, ask, power_cut, statistics, until_in_flight
from .drives import PATIENCE_S, POLICIES, served
from .nbd import FLUSH, FUA, TRIM, WRITE, WRITE_ZEROES, Client

PAGES = 2048
SIZE = ("--size", str(PAGES * PAGE), "--no-calibrate", "--transport", "nbd:unix:a")
SLOW = ("--set", "program_us=900000", "--set", "elements=4")
"""A write of `LONG` pages that passes the buffer by is in flight for a minute: as long as a test looks at it."""
LONG = 256


def page_of(value: int) -> bytes:
    return value.to_bytes(2, "little") * (PAGE // 2)


def values(client: Client) -> list[int]:
    """Of each page the value that was written to it; a page that is torn has none."""
    content = client.read(0, PAGES * PAGE)
    found = [int.from_bytes(content[at : at + 2], "little") for at in range(0, len(content), PAGE)]
    assert content == b"".join(map(page_of, found)), "a page is torn"
    return found


@pytest.mark.parametrize(
    ("policy", "backed"),
    [*((policy, False) for policy in POLICIES), *((policy, True) for policy in ("none", "lru", "epo"))],
)
def test_a_cut_leaves_what_a_drive_may_keep(tmp_path: Path, seed: int, policy: str, backed: bool) -> None:
    chance = random.Random(seed)
    words = (*SIZE, "--policy", policy, "--set", "program_us=50", *(() if policy == "none" else ("--buffer", "1MiB")))
    with served(tmp_path, *words, *(("--file", "kept") if backed else ())) as drive:
        before, lost = [0] * PAGES, 0
        for number in range(1, 6):
            with Client(tmp_path / "a") as client:
                sure, maybe = written(client, chance, number)
                told = power_cut(drive)
                client.flush()  # the connection goes on
                after = values(client)
            check(before, after, sure, maybe)
            assert told == sum(after[page] == before[page] != value for page, value in maybe.items())
            assert policy != "none" or told == 0  # all that was answered is in flash
            before, lost = after, lost + told
        counted = statistics(drive)
        assert (counted["power_cuts"], counted["lost_pages"]) == (5, lost)
        assert policy == "none" or lost > 0
        if backed:
            assert drive.end(signal.SIGKILL)[0] == -signal.SIGKILL
            content = (tmp_path / "kept").read_bytes()
            assert content == b"".join(page_of(value) for value in before)


def written(client: Client, chance: random.Random, number: int) -> tuple[dict[int, int], dict[int, int]]:
    """Writes to pages, all different: those that have to be there after a cut, and those that may be, each with its
    value, which no page had before.
    """
    pages = chance.sample(range(PAGES), 100)
    flushed, volatile = dict.fromkeys(pages[:25], 2 * number), dict.fromkeys(pages[25:60], 2 * number + 1)
    through, trimmed = dict.fromkeys(pages[60:85], 2 * number), dict.fromkeys(pages[85:], 0)
    for page, value in flushed.items():
        client.write(page * PAGE, page_of(value))
    client.flush()
    rest = [*volatile.items(), *through.items(), *trimmed.items()]
    chance.shuffle(rest)
    for page, value in rest:
        if page in trimmed:
            client.call(chance.choice((TRIM, WRITE_ZEROES)), page * PAGE, PAGE)
        else:
            client.write(page * PAGE, page_of(value), fua=page in through)
    return flushed | through | trimmed, volatile


def check(before: list[int], after: list[int], sure: dict[int, int], maybe: dict[int, int]) -> None:
    for page, value in enumerate(after):
        if page in sure:
            assert value == sure[page], f"page {page} holds {value}, was durable with {sure[page]}"
        elif page in maybe:
            assert value in (before[page], maybe[page]), f"page {page} holds {value}"
        else:
            assert value == before[page], f"page {page} holds {value}, nobody wrote it"


@pytest.mark.parametrize("policy", ["none", "lru", "epo"])
def test_what_is_in_flight_at_a_cut_is_an_error_and_the_connection_goes_on(tmp_path: Path, policy: str) -> None:
    buffered = range(1000, 1000 + LONG) if policy != "none" else range(0)
    with served(tmp_path, *SIZE, "--policy", policy, *SLOW) as drive, Client(tmp_path / "a") as client:
        if buffered:
            client.write(buffered.start * PAGE, page_of(8) * LONG)
        cookies = [client.submit(WRITE, at * LONG * PAGE, data=page_of(7) * LONG, flags=FUA) for at in range(3)]
        if policy != "none":
            cookies.append(client.submit(FLUSH))
        until_in_flight(drive, len(cookies))
        lost = power_cut(drive)
        assert client.replies() == dict.fromkeys(cookies, errno.ESHUTDOWN)
        check_lost(values(client), dict.fromkeys(range(3 * LONG), 7) | dict.fromkeys(buffered, 8), lost)
        client.write(0, page_of(9), fua=True)
        assert client.read(0, PAGE) == page_of(9)
        counted = statistics(drive)
        assert counted["writes"]["errors"] + counted["flushes"]["errors"] == len(cookies)


@pytest.mark.parametrize("policy", ["none", "lru"])
def test_a_cut_drops_the_connections_with_what_is_in_flight(tmp_path: Path, policy: str) -> None:
    with served(tmp_path, *SIZE, "--policy", policy, *SLOW) as drive:
        with Client(tmp_path / "a") as busy, Client(tmp_path / "a") as idle:
            busy.submit(WRITE, 0, data=page_of(7) * LONG, flags=FUA)
            until_in_flight(drive, 1)
            lost = ask(drive, "power-cut")["lost_pages"]
            for client in (busy, idle):
                with pytest.raises((EOFError, ConnectionError)):
                    client.reply()
        with Client(tmp_path / "a") as again:
            check_lost(values(again), dict.fromkeys(range(LONG), 7), lost)
            again.write(0, page_of(9), fua=True)
        counted = statistics(drive)
        assert (counted["power_cuts"], counted["writes"]["errors"]) == (1, 1)


def check_lost(after: list[int], written: dict[int, int], lost: int) -> None:
    """Of what was in flight a drive may have programmed the first pages: each has its value or is one of the lost."""
    assert 0 < lost == sum(after[page] == 0 for page in written)
    assert all(value in (0, written.get(page, 0)) for page, value in enumerate(after))


def test_qemu_is_told_of_a_cut_and_goes_on(tmp_path: Path) -> None:
    if shutil.which("qemu-io") is None:
        pytest.skip("needs qemu-io (package qemu-utils)")
    with served(tmp_path, *SIZE, *SLOW) as drive:
        argv, pipe = ["qemu-io", "-f", "raw", drive.told["nbd"]], subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True) as qemu:
            try:
                assert qemu.stdin is not None
                qemu.stdin.write(f"aio_write -P 1 0 {LONG * PAGE}\n")
                qemu.stdin.flush()
                until_in_flight(drive, 1)
                lost = power_cut(drive)
                qemu.stdin.write("aio_flush\nread 0 256k\nwrite -f -P 2 1M 4k\nread -P 2 1M 4k\nquit\n")
                said, _ = qemu.communicate(timeout=PATIENCE_S)
            finally:
                qemu.kill()
        assert "aio_write failed: Cannot send after transport endpoint shutdown" in said
        assert said.count("failed") == 1, said
        assert "wrote 4096/4096 bytes at offset 1048576" in said
        with Client(tmp_path / "a") as client:
            assert client.read(2**20, PAGE) == b"\2" * PAGE
            content = client.read(0, LONG * PAGE)
        pages = [content[at : at + PAGE] for at in range(0, len(content), PAGE)]
        assert 0 < lost == pages.count(bytes(PAGE)) == LONG - pages.count(b"\1" * PAGE)
