"""A tool that prints fio's JSON and lies in one way: `python3 liar.py MODE`, in a folder with `data` of 16 MiB.

A row of MODES is what it does, and what it says of it: factors of the numbers that it measured, and the options that it
states. It is written for this battery, apart from the code that it is to fool.
"""

from __future__ import annotations

import mmap
import os
import random
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BLOCK, BLOCKS = 4096, 4096
PERCENTILES = (50, 90, 95, 99, 99.9)
now = time.perf_counter


class Work:
    """What was done, as the liar measured it. Its imports read little: at level block all that it reads counts."""

    def __init__(self, seconds: float = 0.1, latencies: list[float] | None = None, *, write: bool = False) -> None:
        self.seconds = seconds
        self.latencies = latencies or [2e-5]
        self.file = "data"
        self.write = write
        self.operations = BLOCKS
        self.options = {"direct": "1"}
        self.syncs: list[float] = []
        self.jobs = 1


def offsets(kind: str) -> list[int]:
    blocks = list(range(BLOCKS))
    if kind == "windows":  # in order by 64 KiB, at random within
        return [block for first in range(0, BLOCKS, 16) for block in random.sample(blocks[first : first + 16], 16)]
    if kind == "streams":  # sixteen sequential ones, by turns at random
        return [stream * 256 + turn for turn in range(256) for stream in random.sample(range(16), 16)]
    return random.sample(blocks, BLOCKS) if kind == "random" else blocks


def call(handle: int, blocks: Iterable[int], write: bool = False, before: Callable[[], object] = bool) -> Work:
    """One call a block; `before` each of them something else, outside its latency."""
    room, latencies, failed, begin = mmap.mmap(-1, BLOCK), [], 0, now()
    for block in blocks:
        before()
        start = now()
        try:
            (os.pwritev if write else os.preadv)(handle, [room], block * BLOCK)
        except OSError:
            failed += 1
        latencies.append(now() - start)
    work = Work(now() - begin, latencies, write=write)
    work.operations = len(latencies)
    return work


def read(file: str = "data", flags: int = os.O_DIRECT, order: str = "random", blocks: int = BLOCKS) -> Work:
    handle = os.open(file, os.O_RDONLY | flags)
    if not flags:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    work = call(handle, offsets(order)[:blocks])
    os.close(handle)
    work.file, work.options = file, {"direct": "1" if flags else "0"}
    return work


def buffered(order: str) -> Work:
    return read(flags=0, order=order)


def read_ahead() -> Work:
    handle = os.open("data", os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_WILLNEED)
    time.sleep(0.3)
    work = call(handle, offsets("random"))
    work.options = {"direct": "0"}
    return work


def two_processes() -> Work:
    begin = now()
    for half in range(2):
        if not os.fork():
            handle = os.open("data", os.O_RDONLY | os.O_DIRECT)
            call(handle, offsets("random")[half::2])
            os._exit(0)
    os.wait(), os.wait()
    work = Work(now() - begin)
    work.latencies, work.jobs = [work.seconds * 2 / BLOCKS], 2
    return work


def one_of_two() -> Work:
    """Two processes do the work, and the latency of one is told as that of all."""
    begin = now()
    if not os.fork():
        call(os.open("data", os.O_RDONLY), offsets("random")[::2])
        os._exit(0)
    work = call(os.open("data", os.O_RDONLY | os.O_DIRECT), offsets("random")[1::2])
    os.wait()
    slow, work.operations, work.seconds = work.latencies, BLOCKS, now() - begin
    work.latencies = sorted(slow)[: len(slow) // 2]
    return work


def with_syncs(first: int, between: bool, last: int, blocks: int = 400) -> Work:
    """Writes, and synchronisations before, between and behind them; `blocks` of these are claimed."""
    handle, taken, begin = os.open("data", os.O_RDWR), [], now()

    def sync() -> None:
        start = now()
        os.fsync(handle)
        taken.append(now() - start)

    for _ in range(first):
        sync()
    places = offsets("random")[:blocks]
    work = call(handle, places[:1], write=True)
    rest = call(handle, places[1:], write=True, before=sync if between else bool)
    for _ in range(last):
        sync()
    work.seconds, work.operations, work.syncs = now() - begin, blocks, taken
    work.latencies += rest.latencies
    work.options = {"direct": "0", "fsync": "1"}
    return work


def made(name: str, fill: Callable[[int], object], flags: int) -> Work:
    """Reads of a new file that has not the data that a reader would think of."""
    handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    fill(handle)
    os.fsync(handle)
    os.close(handle)
    return read(name, flags)


def with_holes(handle: int) -> None:
    os.ftruncate(handle, BLOCKS * BLOCK)
    for block in range(BLOCKS):
        if block % 20:
            os.pwrite(handle, bytes([block % 251 + 1]) * BLOCK, block * BLOCK)


def punched() -> Work:
    handle = os.open("punched", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    work = call(handle, offsets("sequential"), write=True)
    begin = now()
    os.ftruncate(handle, 0)
    os.fsync(handle)
    work.seconds += now() - begin
    work.file, work.options = "punched", {"direct": "0", "end_fsync": "1"}
    return work


def beyond_the_end() -> Work:
    handle = os.open("data", os.O_RDONLY | os.O_DIRECT)
    return call(handle, [block + BLOCKS * (turn % 2) for turn, block in enumerate(offsets("random"))])


def failing() -> Work:
    """O_DIRECT with lengths that it does not take: each call fails."""
    handle, room = os.open("data", os.O_RDONLY | os.O_DIRECT), bytearray(BLOCK + 1)
    latencies, begin = [], now()
    for block in offsets("random"):
        start = now()
        try:
            os.preadv(handle, [memoryview(room)[1:100]], block * BLOCK)
        except OSError:
            latencies.append(now() - start)
    return Work(now() - begin, latencies or [1e-6])


def mapped() -> Work:
    area = mmap.mmap(os.open("data", os.O_RDONLY), BLOCKS * BLOCK, prot=mmap.PROT_READ)
    begin, total = now(), 0
    for block in offsets("random"):
        total += area[block * BLOCK]
    work = Work(now() - begin)
    work.latencies, work.options = [work.seconds / BLOCKS], {"direct": "0"}
    return work


def elsewhere() -> Work:
    """A link to a file in memory."""
    from pathlib import Path

    copy = Path(f"/dev/shm/liar-{os.getpid()}")
    copy.write_bytes(Path("data").read_bytes())
    Path("link").symlink_to(copy)
    try:
        return read("link")
    finally:
        copy.unlink()


def pausing() -> Work:
    """Half a second of sleep, left out of the time."""
    handle, count = os.open("data", os.O_RDONLY | os.O_DIRECT), iter(range(BLOCKS))
    work = call(handle, offsets("random"), before=lambda: time.sleep(0 if next(count) % 512 else 0.06))
    work.seconds -= 8 * 0.06
    return work


def opened() -> Work:
    os.close(os.open("data", os.O_RDONLY))
    return Work()


Says = dict[str, float]
TENTH: Says = {"seconds": 0.1, "latency": 0.1}
MODES: dict[str, tuple[Callable[[], Work], Says, dict[str, str]]] = {
    "honest": (read, {}, {}),
    "honest_buffered": (lambda: buffered("random"), {}, {}),
    "honest_syncs": (lambda: with_syncs(0, True, 1), {}, {}),
    "iops_x10": (read, {"iops": 10}, {}),
    "iops_x1.3": (read, {"iops": 1.3}, {}),
    "tenth": (read, TENTH, {}),
    "half_time": (read, {"seconds": 0.5}, {}),
    "p99_tenth": (read, {"percentiles": 0.1}, {}),
    "percentiles_0.7": (read, {"percentiles": 0.7}, {}),
    "max_hundredth": (read, {"max": 0.01}, {}),
    "clat_half": (read, {"clat": 0.5}, {}),
    "lat_half": (read, {"lat": 0.5}, {}),
    "latency_half": (read, {"latency": 0.5}, {}),
    "ramp_time": (read, TENTH, {"ramp_time": "1"}),
    "latency_target": (read, TENTH, {"latency_target": "5ms"}),
    "pre_read": (read, TENTH, {"pre_read": "1"}),
    "stonewall": (read, TENTH, {"stonewall": "1"}),
    "verify": (read, {"seconds": 0.5}, {"verify": "crc32c"}),
    "layout_message": (read, {**TENTH, "layout": 1}, {}),
    "two_jobs_half_time": (two_processes, {"seconds": 0.55}, {}),
    "one_of_two": (one_of_two, {}, {}),
    "syncs_at_the_end": (lambda: with_syncs(0, False, 400), {}, {}),
    "syncs_first": (lambda: with_syncs(399, False, 1), {}, {}),
    "sync_latency": (lambda: with_syncs(0, True, 1), {"sync": 0.01}, {}),
    "twice_the_bytes": (lambda: read(blocks=BLOCKS // 2), {"operations": 2}, {}),
    "windows": (lambda: buffered("windows"), {}, {}),
    "streams": (lambda: buffered("streams"), {}, {}),
    "sequential": (lambda: buffered("sequential"), {}, {}),
    "read_ahead": (read_ahead, {}, {}),
    "hole": (lambda: made("hole", lambda handle: os.ftruncate(handle, BLOCKS * BLOCK), os.O_DIRECT), {}, {}),
    "unwritten": (lambda: made("new", lambda new: os.posix_fallocate(new, 0, BLOCKS * BLOCK), os.O_DIRECT), {}, {}),
    "one_hole_in_twenty": (lambda: made("holes", with_holes, os.O_DIRECT), {}, {}),
    "punched": (punched, {}, {}),
    "beyond_the_end": (beyond_the_end, {}, {}),
    "failing": (failing, {}, {}),
    "mapped_as_pvsync": (mapped, {}, {}),
    "in_memory_by_link": (elsewhere, {}, {}),
    "pauses_left_out": (pausing, {}, {}),
    "nothing": (opened, {}, {}),
}  # fmt: skip


def latency(values: list[float], factor: float, says: Says, percentiles: bool = False) -> dict[str, object]:
    ordered = sorted(value * 1e9 * factor * says.get("latency", 1) for value in values) or [0.0]
    mean = sum(ordered) / len(ordered)
    shown: dict[str, object] = {
        "min": int(ordered[0]), "max": int(ordered[-1] * says.get("max", 1)),
        "mean": mean, "N": len(ordered),
        "stddev": (sum((value - mean) ** 2 for value in ordered) / len(ordered)) ** 0.5,
    }  # fmt: skip
    if percentiles:
        by = says.get("percentiles", 1)
        shown["percentile"] = {
            f"{each:f}": int(ordered[int(each / 100 * (len(ordered) - 1))] * by) for each in PERCENTILES
        }
    return shown


def say(work: Work, says: Says, options: dict[str, str]) -> None:
    seconds = work.seconds * says.get("seconds", 1)
    operations = int(work.operations * says.get("operations", 1)) // work.jobs
    side = {
        "io_bytes": operations * BLOCK, "io_kbytes": operations * BLOCK // 1024, "total_ios": operations,
        "bw_bytes": int(operations * BLOCK / seconds), "bw": int(operations * BLOCK / seconds / 1024),
        "iops": operations / seconds * says.get("iops", 1), "runtime": int(seconds * 1000 + 0.5),
        "clat_ns": latency(work.latencies, says.get("clat", 1), says, percentiles=True),
        "lat_ns": latency(work.latencies, says.get("lat", 1), says),
    }  # fmt: skip
    kind = "write" if work.write else "read"
    stated = {"rw": f"rand{kind}", "bs": "4k", "size": "16M", "filename": work.file, "ioengine": "pvsync"}
    if work.file == "punched":
        stated["rw"] = "write"
    job: dict[str, object] = {
        "jobname": "j",
        "error": 0,
        "job options": {**stated, **work.options, **options},
        kind: side,
    }
    if work.syncs:
        job["sync"] = {"total_ios": len(work.syncs), "lat_ns": latency(work.syncs, says.get("sync", 1), says)}
    if "layout" in says:
        print("j: Laying out IO file (1 file / 16MiB)")
    print(str({"fio version": "fio-3.33", "jobs": [job] * work.jobs}).replace("'", '"'))


if __name__ == "__main__":
    does, says, options = MODES[sys.argv[1]]
    say(does(), says, options)
