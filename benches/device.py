"""The served drive: its speed beside that of other servers of memory, its precision, and what it takes.

    .venv/bin/python benches/device.py [--rounds 5] [--seconds 0.4] [--size 1GiB] [--only PART] [--quick]

Speed: a drive that answers at once (model none), all its transports served from one process; random pages of 4 KiB at
depth 1 and 32. Beside it are nbdkit's memory plugin, nbdfuse, qemu-storage-daemon (NBD and FUSE), SPDK's nvmf_tgt and
tmpfs with loop, as far as they are installed (device_peers.py). Sockets are loaded by the drive's own client, which
batches and spins, whoever serves them; files and devices by fio (psync at depth 1, io_uring at 32). All storage is
written throughout before. The arms take turns in random order within each round; a ratio is that of a way to its peer
in the same round.

Time: a drive whose reads take 100 µs, started and calibrated anew in each round; what clients see at depth 1, and
what the drive itself counted meanwhile.
CPU: all transports loaded at once, and the processor time of the drive. Memory: a drive with model, buffer and
connections that is written throughout twice, its largest resident size less that of a drive of 16 MiB that is new;
and what clients add that send writes of 32 MiB without their last byte. Drives: one drive with one thread, and two
with two, all of one client each; a ratio is that of a round.

On a shared machine all of it runs at the highest priority, since a client that spins and loses its processor says
nothing. A loop device over FUSE does not: its kernel thread needs a processor beside the drive. Needs root, cargo, fio
and nbdkit. Processes, loop devices and files are gone at the end and after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from device_peers import peers
from device_ways import (
    WARM_S,
    Drive,
    Run,
    Way,
    argv_of,
    build,
    cpu_s,
    drive,
    drives,
    ended,
    fill,
    fio_nbd,
    first_in_line,
    loop,
    memory_bytes,
    run,
    run_together,
    tmpfs_file,
    unfinished_write,
)
from monitor_cost import median_interval

from ioassay import units
from ioassay.packs.virtual_drive import serving

DEPTHS = (1, 32)
DIRECTIONS = ("read", "write")
CLIENTS = 60
WANTED = {("NVMe/TCP", 1): 75_000, ("NVMe/TCP", 32): 600_000, ("FUSE", 32): 400_000,
          ("vfio-user", 1): 300_000}  # fmt: skip
"""Reads a second."""
WANTED_RATIO = {("NBD, Unix socket", 32): 2, ("NBD, TCP", 32): 2}
"""To its peer; of other ways over NBD, 1."""
READ_US = 100
SLOW = ("--model", "reference", "--set", f"read_us={READ_US}", "--set", "transfer_us_per_byte=0",
        "--set", "channel_us_per_sector=0")  # fmt: skip
FAST = ("--model", "reference", "--policy", "epo", *(
    word for name in ("read_us", "program_us", "erase_us", "transfer_us_per_byte", "channel_us_per_sector")
    for word in ("--set", f"{name}=0.1" if name == "program_us" else f"{name}=0")
))  # fmt: skip

Round = Mapping[tuple[str, int, str], Run]
"""Way, depth and direction -> what it did."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.4, help="of one load")
    parser.add_argument("--size", default="1GiB")
    parser.add_argument("--only", choices=("speed", "time", "cpu", "memory", "drives"))
    parser.add_argument("--quick", action="store_true", help="one round of short loads")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.2
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    build()
    print(f"load of the machine at the beginning {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors", flush=True)
    with first_in_line(), tempfile.TemporaryDirectory(prefix="device-") as folder:
        for name, part in (
            ("speed", speed),
            ("time", precision),
            ("cpu", processor),
            ("memory", memory),
            ("drives", threads),
        ):
            if options.only in (None, name):
                part(Path(folder), options)
    print(f"\nload of the machine at the end {os.getloadavg()[0]:.1f}")


def speed(folder: Path, options: argparse.Namespace) -> None:
    chance = random.Random(options.seed)
    with ExitStack() as stack:
        served = stack.enter_context(drive(folder, options.size, "--model", "none"))
        ways = served.ways()
        fill_file(served)
        file = Path(served.told["fuse"])
        ways.append(stack.enter_context(loop("FUSE, loop *", file, "tmpfs, loop", needs_kernel_threads=True)))
        others = peers(stack, folder, options.size)
        others.append(stack.enter_context(loop("tmpfs, loop", stack.enter_context(tmpfs_file(options.size)))))
        ways += others
        rounds, gauges_ms = [], []
        for _ in range(options.rounds):
            gauges_ms.append(gauge_ms())
            rounds.append(one_round(ways, options.seconds, chance))
    say_speed(ways, rounds, options)
    print("* at usual priority: else the loop's kernel thread waits for the drive, which polls before it")
    print(f"before each round the same arithmetic took {min(gauges_ms):.0f} to {max(gauges_ms):.0f} ms of a processor")


def gauge_ms(steps: int = 2_000_000) -> float:
    """What a processor is worth just now: on a virtual machine others may share its core."""
    began_s = time.thread_time()
    sum(at * at for at in range(steps))
    return (time.thread_time() - began_s) * 1000


def one_round(ways: Sequence[Way], seconds: float, chance: random.Random) -> Round:
    arms = [(way, depth, direction) for way in ways for depth in DEPTHS for direction in DIRECTIONS]
    chance.shuffle(arms)
    return {(way.name, depth, direction): run(way, depth, direction, seconds) for way, depth, direction in arms}


def say_speed(ways: Sequence[Way], rounds: Sequence[Round], options: argparse.Namespace) -> None:
    print(f"\nmodel none, {options.size}, 4 KiB at random: medians of {len(rounds)} rounds of {options.seconds:g} s")
    names = {way.name for way in ways}
    for depth in DEPTHS:
        print(f"\ndepth {depth:<14d}   {'reads a second':>27s}  {'p50 µs':>7s}  {'of its peer':>33s}  {'wanted':>8s}"
              f"   {'writes a second':>15s}  {'of peer':>7s}")  # fmt: skip
        for way in ways:
            reads, writes = ([one[way.name, depth, direction] for one in rounds] for direction in DIRECTIONS)
            rates = sorted(one.per_s for one in reads)
            p50_us = statistics.median(one.p50_ns for one in reads) / 1000
            peer = way.peer if way.peer in names else ""
            text = f"{way.name:20s}   {statistics.median(rates):8,.0f} ({rates[0]:7,.0f} … {rates[-1]:7,.0f})"
            text += f"  {p50_us:7.1f}  {beside(way, peer, depth, 'read', rounds):>33s}  {wanted(way, depth):>8s}"
            text += f"   {statistics.median(one.per_s for one in writes):15,.0f}"
            print(f"{text}  {beside(way, peer, depth, 'write', rounds)[:5]:>7s}", flush=True)


def wanted(way: Way, depth: int) -> str:
    if (way.name, depth) in WANTED:
        return f"{WANTED[way.name, depth]:,d}"
    return f"ratio {WANTED_RATIO.get((way.name, depth), 1)}" if way.name.startswith("NBD") else ""


def beside(way: Way, peer: str, depth: int, direction: str, rounds: Sequence[Round]) -> str:
    """The ratio, its range, and to whom."""
    if not peer:
        return ""
    ratios = [one[way.name, depth, direction].per_s / one[peer, depth, direction].per_s for one in rounds]
    low, high, _ = median_interval(ratios)
    return f"{statistics.median(ratios):5.2f} ({low:5.2f} … {high:5.2f}) {peer.partition(',')[0]:>9s}"


def precision(folder: Path, options: argparse.Namespace) -> None:
    """What a read of 100 µs takes by each client's clock, and by the drive's."""
    found: dict[str, list[tuple[Run, Mapping[str, float], float]]] = {}
    for _ in range(options.rounds):
        with drive(folder, options.size, *SLOW) as served:
            for name, measure in clients(served, options.seconds).items():
                serving.ask(served.stats, "reset-stats")
                seen = measure()
                counted = serving.ask(served.stats, "stats")["stats"]
                found.setdefault(name, []).append((seen, counted["late_ns"], counted["reads"]["latency_ns"]["p50"]))
    say_precision(found)


def say_precision(found: Mapping[str, Sequence[tuple[Run, Mapping[str, float], float]]]) -> None:
    count = len(next(iter(found.values())))
    print(
        f"\nreads of {READ_US} µs at depth 1: medians of {count} drives, each calibrated anew;"
        " wanted: 5 µs or less, 1.5 over vfio-user"
    )
    print(f"{'':26s}  {f'client: p50 - {READ_US} µs':30s}   drive: late p50      p90   arrival to answer p50")
    for name, rounds in found.items():
        errors = sorted(seen.p50_ns / 1000 - READ_US for seen, _, _ in rounds)
        late, late_p90 = (statistics.median(one[key] for _, one, _ in rounds) / 1000 for key in ("p50", "p90"))
        inside = statistics.median(one for _, _, one in rounds) / 1000
        text = f"{name:26s}  {statistics.median(errors):+7.1f} µs ({errors[0]:+6.1f} … {errors[-1]:+6.1f})"
        print(f"{text}  {late:15.1f} µs{late_p90:6.1f} µs  {inside:19.1f} µs", flush=True)


def clients(served: Drive, seconds: float) -> dict[str, Callable[[], Run]]:
    """What loads a drive at depth 1: clients that spin where they can, and clients that sleep."""
    found: dict[str, Callable[[], Run]] = {}
    for way in served.ways():
        found[way.name] = partial(run, way, 1, "read", seconds)
    for way in served.ways():
        if way.is_socket and not way.always_spins:
            found[f"{way.name}, sleeping"] = partial(run, way, 1, "read", seconds, sleeps=True)
    found["fio's nbd, Unix socket"] = partial(fio_nbd, served.told["nbd"], seconds)
    return found


def processor(folder: Path, options: argparse.Namespace, depth: int = 8) -> None:
    """All transports at once."""
    seconds = 6 * options.seconds
    with drive(folder, options.size, "--model", "none") as served, ExitStack() as stack:
        pid = served.process.pid
        fill_file(served)
        for way in served.ways():
            argv = argv_of(way, depth, "read", seconds * 2)
            stack.enter_context(ended(subprocess.Popen(argv, stdout=subprocess.DEVNULL, process_group=0)))
        time.sleep(seconds / 4)
        serving.ask(served.stats, "reset-stats")
        before, began_s = cpu_s(pid), time.monotonic()
        time.sleep(seconds)
        after, took_s = cpu_s(pid), time.monotonic() - began_s
        reads = serving.ask(served.stats, "stats")["stats"]["reads"]["commands"]
    used = sorted(((after[task] - before.get(task, 0.0)) / took_s for task in after), reverse=True)
    print(f"\nall transports at once, depth {depth} each: {reads / took_s:,.0f} reads a second; of processors the"
          f" drive used {sum(used):.2f}, {used[0]:.2f} in one of its {len(used)} threads", flush=True)  # fmt: skip


def memory(folder: Path, options: argparse.Namespace) -> None:
    """Of a drive with all there is in it."""
    with drive(folder, "16MiB", "--model", "none") as served:
        own_bytes = memory_bytes(served.process.pid, "VmRSS")
    with drive(folder, options.size, *FAST, "--no-calibrate") as served:
        for _ in range(2):
            fill_file(served)
        for way in served.ways():
            run(way, DEPTHS[-1], "write", options.seconds)
        counted = serving.ask(served.stats, "stats")["stats"]
        peak_bytes, size_bytes = memory_bytes(served.process.pid, "VmHWM"), served.told["size_bytes"]
    pages = counted["buffer"]["capacity_pages"]
    print(f"\nwritten throughout twice, then at random by all transports, with a buffer of {pages:,d} pages:"
          f" {(peak_bytes - own_bytes) / size_bytes - 1:+.2%} of {units.format_size(size_bytes)}"
          f" beside it, at most; wanted: 5 % (the process itself: {units.format_size(own_bytes)},"
          f" peak {units.format_size(peak_bytes)})", flush=True)  # fmt: skip
    with drive(folder, "16MiB", "--model", "none", "--no-calibrate") as served, ExitStack() as stack:
        own_bytes = memory_bytes(served.process.pid, "VmRSS")
        for _ in range(CLIENTS):
            stack.enter_context(unfinished_write(served))
        time.sleep(5 * options.seconds)
        more_bytes = memory_bytes(served.process.pid, "VmHWM") - own_bytes
    added, most = units.format_size(more_bytes), units.format_size(served.told["memory_bytes"])
    print(f"{CLIENTS} NBD clients with unfinished writes of 32 MiB take {added}; told: at most {most}")


def threads(folder: Path, options: argparse.Namespace) -> None:
    """Of one drive with one thread against two with two, with as many clients."""
    depth, rounds = DEPTHS[-1], []
    with ExitStack() as stack:
        one = stack.enter_context(drives(folder, "64MiB", 1))
        two = stack.enter_context(drives(folder, "64MiB", 2))
        for ways in (one, two):
            run_together(ways, depth, WARM_S)
        for _ in range(options.rounds):
            rounds.append([run_together(ways, depth, options.seconds) for ways in (one, two)])
    of_one, of_two = (statistics.median(each) for each in zip(*rounds, strict=True))
    ratio = statistics.median([both / alone for alone, both in rounds])
    print(f"\nNVMe/TCP at depth {depth}: one drive with one thread {of_one:,.0f} reads a second, two drives with two"
          f" threads {of_two:,.0f} together: {ratio:.2f} times as many; with their clients two take four processors of"
          f" the {os.cpu_count()} here", flush=True)  # fmt: skip


def fill_file(served: Drive) -> None:
    fill("--ioengine=psync", f"--filename={served.told['fuse']}", f"--size={served.told['size_bytes']}")


if __name__ == "__main__":
    main()
