"""What watching costs who is watched: the witness's levels, strace, perf and bpftrace on the same loads, interleaved.

    .venv/bin/python benches/witness.py [FOLDER] [--rounds 5] [--peer-rounds 2] [--seconds 0.7] [--quick]

Seven loads on temporary files in FOLDER (default: the working directory): reads of 512 B from the page cache by a loop
of pread64 in C (pread_loop.c, the worst case; in order, and at random, where each call marks another place) and by fio,
a loop of getppid, which the witness counts and nothing more, and direct random reads of 4 KiB by fio's psync, libaio
and io_uring. In each round every tracer watches every load once, in random order. A ratio is that of the operations a
second to the untraced run of the same load and round; the interval is that of the median (order statistics), and added
the processor time that an operation took the load more than untraced (its own getrusage, fio's usr_cpu and sys_cpu).
"own CPU" is the tracer's, and "seen" the least share of the load's operations that the witness counted.
Needs root (BPF, negative nice), fio and cc; strace, perf and bpftrace are left out where they are not installed. perf
and bpftrace see only what the load's process does; tracefs is mounted for them in a mount namespace of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from monitor_cost import median_interval

from ioassay.records.observation import BLOCK, EXPLAIN, OFF, READ, RECORD, SYSCALLS, Observation
from ioassay.verify.witness import watch

CACHED_BYTES, DIRECT_BYTES, MIB = 64 << 20, 256 << 20, 1 << 20
LOOP = "pread64 loop, 512 B cached"
RANDOM_LOOP = "pread64 loop, 512 B cached, random"
CACHED = "fio psync, 512 B cached"
DIRECT = {
    "psync direct 4k": ("--ioengine=psync",),
    "libaio direct 4k qd16": ("--ioengine=libaio", "--iodepth=16"),
    "io_uring direct 4k qd16": ("--ioengine=io_uring", "--iodepth=16"),
}
PLAIN = "getppid loop"
LOOPS = {LOOP: ("512",), RANDOM_LOOP: ("512", "random"), PLAIN: ("0",)}
LOADS = (*LOOPS, CACHED, *DIRECT)
LOOP_ROUNDS = 3
"""Rounds of the loop for one of the others: it is short, and its ratio is to be known to a hundredth."""

COUNT = (
    "tracepoint:raw_syscalls:sys_exit /pid == cpid/ { @calls[args->id] = count(); @bytes[args->id] = sum(args->ret); }"
)
HISTOGRAM = (
    "tracepoint:raw_syscalls:sys_enter /pid == cpid/ { @at[tid] = nsecs; } "
    "tracepoint:raw_syscalls:sys_exit /@at[tid]/ { @ns[args->id] = hist(nsecs - @at[tid]); delete(@at[tid]); }"
)
CALLS = "pread64,io_submit,io_getevents,io_uring_enter"
PEERS: dict[str, Callable[[Sequence[str]], Sequence[str]]] = {
    "strace -f -c": lambda argv: ("strace", "-f", "-c", "-o", "/dev/null", *argv),
    "strace -f -e": lambda argv: ("strace", "-f", "-e", f"trace={CALLS}", "-o", "/dev/null", *argv),
    "perf stat -e": lambda argv: with_tracefs("perf", "stat", "-e", "raw_syscalls:sys_enter", "-o", "/dev/null", *argv),
    "perf trace -s": lambda argv: with_tracefs("perf", "trace", "-s", "-o", "/dev/null", *argv),
    "bpftrace count, sum": lambda argv: bpftrace(COUNT, argv),
    "bpftrace enter, exit, hist": lambda argv: bpftrace(HISTOGRAM, argv),
}
LEVELS = {f"level {level}": level for level in (BLOCK, SYSCALLS, EXPLAIN, RECORD)}
UNTRACED = "untraced"


@dataclass(frozen=True)
class Cell:
    """One run of a load under a tracer."""

    per_s: float
    cpu_us: float
    """Of the load, an operation."""
    other_cpu_s: float
    """Processor time of the whole run that was not the load's: its start, and the tracer."""
    attach_s: float = 0.0
    """From held to let go."""
    seen: float = 1.0
    """Operations that the witness saw, of those that the load reports."""


Rounds = Mapping[str, Sequence[Mapping[str, Cell]]]
"""Load -> rounds, each with the cell of a tracer."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="where the files are made")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer-rounds", type=int, default=2, help="rounds with strace, perf and bpftrace")
    parser.add_argument("--seconds", type=float, default=0.7, help="of one run")
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.rounds = options.peer_rounds = 1
    with suppress(PermissionError):
        os.nice(-20 - os.nice(0))
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="witness-") as folder:
        bench = PreparedStudy(Path(folder), options.seconds)
        found = rounds_of(bench, options, random.Random(options.seed))
    say(found)


def rounds_of(bench: PreparedStudy, options: argparse.Namespace, chance: random.Random) -> Rounds:
    """Every load under every tracer that is installed, in rounds after one that warms up."""
    peers = [name for name, wrap in PEERS.items() if shutil.which(wrap(())[0]) and shutil.which(name.split()[0])]
    for load in LOADS:
        bench.run(load, UNTRACED)
    found: dict[str, list[dict[str, Cell]]] = defaultdict(list)
    for nth in range(options.rounds):
        for load in chance.sample([*LOADS, *[LOOP] * (LOOP_ROUNDS - 1)], len(LOADS) + LOOP_ROUNDS - 1):
            with_peers = nth < options.peer_rounds and sum(1 for one in found[load] if len(one) > 4) <= nth
            tracers = [UNTRACED, *LEVELS, *(peers if with_peers else ())]
            found[load].append({tracer: bench.run(load, tracer) for tracer in chance.sample(tracers, len(tracers))})
    return found


class PreparedStudy:
    """The files, the compiled loop, and one run of a load."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder = folder
        self._seconds = seconds
        self._loop = folder / "pread_loop"
        subprocess.run(["cc", "-O2", "-o", self._loop, Path(__file__).with_name("pread_loop.c")], check=True)
        self._cached = made_file(folder / "cached", CACHED_BYTES)
        self._direct = made_file(folder / "direct", DIRECT_BYTES)

    def run(self, load: str, tracer: str) -> Cell:
        """One run of `load` under `tracer`."""
        argv = self._argv(load)
        wrapped = PEERS[tracer](argv) if tracer in PEERS else argv
        with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
            folder = Path(name)
            watched = watch(wrapped, LEVELS.get(tracer, OFF), folder)
            outcome = watched.outcome
            if outcome.exit_code != 0:
                raise SystemExit(f"{load}, {tracer}: {(folder / 'stderr').read_text()[:2000]}")
            text = (folder / "stdout").read_text()
        assert outcome.usage is not None
        used_s = outcome.usage.ru_utime + outcome.usage.ru_stime
        return cell(*(of_loop(text) if load in LOOPS else of_fio(text)), used_s, load, watched.seen)

    def _argv(self, load: str) -> Sequence[str]:
        if load in LOOPS:
            record, *order = LOOPS[load]
            return (str(self._loop), str(self._cached), record, f"{self._seconds:g}", *order)
        fio = ("fio", "--name=load", "--thread", "--time_based", f"--runtime={self._seconds * 1000:g}ms",
               "--output-format=json")  # fmt: skip
        if load == CACHED:
            return (*fio, f"--filename={self._cached}", "--rw=read", "--bs=512", "--ioengine=psync", "--invalidate=0",
                    "--gtod_reduce=1")  # fmt: skip
        return (*fio, f"--filename={self._direct}", "--rw=randread", "--bs=4k", "--direct=1", "--norandommap",
                *DIRECT[load])  # fmt: skip


def made_file(path: Path, size_bytes: int) -> Path:
    with path.open("wb") as file:
        for _ in range(size_bytes // MIB):
            file.write(os.urandom(MIB))
        file.flush()
        os.fsync(file.fileno())
    return path


def of_loop(text: str) -> tuple[int, float, float]:
    """Operations, seconds, seconds of processor time."""
    calls, ns, cpu_us = map(int, next(line for line in text.splitlines() if line[:1].isdigit()).split())
    return calls, ns / 1e9, cpu_us / 1e6


def of_fio(text: str) -> tuple[int, float, float]:
    job = json.JSONDecoder().raw_decode(text[text.index("{\n") :])[0]["jobs"][0]
    seconds = job["job_runtime"] / 1e3
    return job["read"]["total_ios"], job["read"]["runtime"] / 1e3, (job["usr_cpu"] + job["sys_cpu"]) / 100 * seconds


def cell(operations: int, seconds: float, cpu_s: float, used_s: float, load: str, seen: Observation | None) -> Cell:
    other_s = used_s - cpu_s
    if seen is None:
        return Cell(operations / seconds, cpu_s / operations * 1e6, other_s)
    if seen.backend != "bpf":
        raise SystemExit(f"the witness cannot be measured here: {seen.why}")
    counted = operations_seen(load, seen)
    return Cell(
        operations / seconds,
        cpu_s / operations * 1e6,
        other_s + seen.cost["cpu_s"],
        seen.cost["attach_s"],
        counted / operations if counted is not None else 1.0,
    )


def operations_seen(load: str, seen: Observation) -> int | None:
    """None where the level does not see the load's operations. Block requests are those of fio's own start as well."""
    if load == PLAIN:
        return seen.calls.get("getppid")
    entry = {"libaio": "aio", "io_uring": "uring"}.get(load.split()[0], "pread64")
    calls = sum(one.calls.calls for one in seen.operations if (one.entry, one.kind) == (entry, READ))
    requests = sum(one.calls.calls for one in seen.block if one.own and one.kind == READ)
    return calls or (requests if load in DIRECT else None)


def bpftrace(script: str, argv: Sequence[str]) -> Sequence[str]:
    """bpftrace 0.17 wants the whole path of the program, and a command without quoted blanks."""
    program = " ".join((shutil.which(argv[0]) or argv[0], *argv[1:])) if argv else ""
    return with_tracefs("bpftrace", "-e", script, "-c", program)


def with_tracefs(*argv: str) -> Sequence[str]:
    mounted = "mount -t debugfs none /sys/kernel/debug; mount -t tracefs none /sys/kernel/debug/tracing"
    return ("unshare", "--mount", "sh", "-c", f'{mounted}; exec "$@"', "sh", *argv)


def say(found: Rounds) -> None:
    tracers = [UNTRACED, *LEVELS, *(name for name in PEERS if any(name in one for one in found[LOOP]))]
    for load in LOADS:
        rounds = found[load]
        base = [one[UNTRACED] for one in rounds]
        print(f"\n{load}: {len(rounds)} rounds; untraced {statistics.median(one.per_s for one in base):,.0f} a second, "
              f"{statistics.median(one.cpu_us for one in base):.2f} µs of processor time each")  # fmt: skip
        print(f"  {'':28s}{'ratio':>6s}  {'interval':>17s}  {'added µs':>8s}  {'own CPU s':>9s}  seen")
        for tracer in tracers[1:]:
            print(f"  {tracer:28s}{line([one for one in rounds if tracer in one], tracer)}")
    say_attach([one for rounds in found.values() for one in rounds])


def line(rounds: Sequence[Mapping[str, Cell]], tracer: str) -> str:
    pairs = [(one[tracer], one[UNTRACED]) for one in rounds]
    ratios = [traced.per_s / base.per_s for traced, base in pairs]
    low, high, _ = median_interval(ratios)
    added_us = statistics.median(traced.cpu_us - base.cpu_us for traced, base in pairs)
    own_s = statistics.median(traced.other_cpu_s - base.other_cpu_s for traced, base in pairs)
    seen = f"{min(one.seen for one, _ in pairs):.4f}" if tracer in LEVELS else ""
    return f"{statistics.median(ratios):6.3f}  ({low:6.3f} … {high:6.3f})  {added_us:+8.2f}  {own_s:9.2f}  {seen}"


def say_attach(rounds: Sequence[Mapping[str, Cell]]) -> None:
    print("\nfrom held to let go, of all loads")
    for tracer in LEVELS:
        taken_s = [one[tracer].attach_s for one in rounds]
        print(f"  {tracer:28s}{statistics.median(taken_s) * 1e3:5.0f} ms, at most {max(taken_s) * 1e3:.0f}")


if __name__ == "__main__":
    main()
