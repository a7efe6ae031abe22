"""Ways to storage in memory for device.py: drives and loop devices that come and go, and loads on them.

What was measured is returned; nothing is judged or printed here. Each context ends what it started: by its process,
its loop device, its file.
"""

from __future__ import annotations

import itertools
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from battery.storage import NO_LOOP, Storage, made

from ioassay import units

PAGE_BYTES = 4096
PATIENCE_S = 60.0
WARM_S = 0.2
LOAD = Path(__file__).parent.parent / "target/release/examples/load"
FIO = ("fio", "--name=load", f"--bs={PAGE_BYTES}", "--norandommap", "--time_based", "--thread", "--direct=1",
       "--lat_percentiles=1", f"--ramp_time={WARM_S * 1000:.0f}ms", "--output-format=json")  # fmt: skip
AUTOGROUP = Path("/proc/self/autogroup")
NUMBERS = itertools.count()
DIRECT_LOOP = Storage(('losetup --find --show --direct-io=on "$FILE"',), (NO_LOOP,))


@dataclass(frozen=True)
class Way:
    """Storage, and how it is loaded: over a socket by the drive's own client, else by fio."""

    name: str
    place: str
    """nbd:…, nvme-tcp:… or vfio-user:… as the client wants it, or a file or device."""
    peer: str = ""
    """What it is compared with."""
    needs_kernel_threads: bool = False
    """Which find no processor beside a drive and a load of the highest priority: they are as all others meanwhile."""
    stopped: int = 0
    """Process of a server that polls for ever: it is continued (SIGCONT) for its own loads alone."""

    @property
    def is_socket(self) -> bool:
        return self.place.startswith(("nbd:", "nvme-tcp:", "vfio-user:"))

    @property
    def always_spins(self) -> bool:
        return self.place.startswith("vfio-user:")


@dataclass(frozen=True)
class Run:
    """One load."""

    per_s: float
    p50_ns: float


@dataclass(frozen=True)
class Drive:
    """A drive that is served."""

    process: subprocess.Popen[str]
    told: dict[str, Any]

    @property
    def stats(self) -> Path:
        return Path(self.told["stats"])

    def ways(self) -> list[Way]:
        """Those that it was asked for, beside their peers."""
        unix, tcp = (way["address"] for way in self.told["ways"] if way["transport"] == "nbd")
        return [
            Way("NBD, Unix socket", f"nbd:unix:{unix.partition('socket=')[2]}", "nbdkit, Unix socket"),
            Way("NBD, TCP", f"nbd:{tcp.partition('://')[2]}", "nbdkit, TCP"),
            Way("NVMe/TCP", f"nvme-tcp:{self.told['nvme_tcp']},nqn={self.told['nqn']}", "nvmf_tgt, TCP"),
            Way("vfio-user", f"vfio-user:{self.told['vfio_user']}"),
            Way("FUSE", self.told["fuse"], "nbdfuse"),
        ]


def build() -> None:
    """The client that batches."""
    argv = ["cargo", "build", "--release", "--quiet", "-p", "ioassay-device", "--example", "load"]
    subprocess.run(argv, check=True, cwd=Path(__file__).parent.parent)


@contextmanager
def first_in_line() -> Iterator[None]:
    """Before other programs of the machine, as far as the system allows: servers and clients all spin here."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    group = AUTOGROUP.read_text().split()[-1] if AUTOGROUP.exists() else ""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        if group:
            AUTOGROUP.write_text("-20")  # sched(7): within a session nice says nothing to other sessions
    except OSError:
        pass
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)
        if group:
            AUTOGROUP.write_text(group)


@contextmanager
def as_all_others() -> Iterator[None]:
    """What `first_in_line` did to the session does not hold meanwhile."""
    group = AUTOGROUP.read_text().split()[-1] if AUTOGROUP.exists() else ""
    try:
        if group:
            AUTOGROUP.write_text("0")
        yield
    finally:
        if group:
            AUTOGROUP.write_text(group)


@contextmanager
def drive(folder: Path, size: str, *options: str) -> Iterator[Drive]:
    """A drive with all transports, served by a process of its own."""
    tcp = [f"127.0.0.1:{port}" for port in free_ports(2)]
    ways = f"nbd:unix:{folder / 'nbd'},nbd:tcp:{tcp[0]},nvme-tcp:{tcp[1]},fuse:{folder / 'drive'}"
    ways += f",vfio-user:{folder / 'cntrl'}"
    argv = [sys.executable, "-m", "ioassay", "device", "serve", "--json", "--size", size, "--transport", ways]
    with ended(subprocess.Popen([*argv, *options], stdout=subprocess.PIPE, text=True, process_group=0)) as process:
        line = first_line(process)
        if not line.startswith('{"'):
            raise SystemExit("the drive does not serve")  # it has said why
        yield Drive(process, json.loads(line))


@contextmanager
def drives(folder: Path, size: str, count: int) -> Iterator[list[Way]]:
    """Drives of one process that answer at once, each served by a thread: over NVMe/TCP."""
    ports = free_ports(count)
    config = folder / f"{count}-drives.toml"
    table = '[[drive]]\nsize = "{}"\nmodel = "none"\ncalibrate = false\ntransport = "nvme-tcp:127.0.0.1:{}"\n'
    config.write_text("".join(table.format(size, port) for port in ports))
    argv = [sys.executable, "-m", "ioassay", "device", "serve", "--json", "--config", str(config)]
    with ended(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, process_group=0)) as process:
        told = [json.loads(first_line(process))]
        assert process.stdout is not None
        told += [json.loads(process.stdout.readline()) for _ in range(count - 1)]
        names = (f"nvme-tcp:{one['nvme_tcp']},nqn={one['nqn']}" for one in told)
        yield [Way(f"drive {number}", place) for number, place in enumerate(names)]


def run_together(ways: Sequence[Way], depth: int, seconds: float) -> float:
    """Reads a second of all ways, each with a client of its own, at once."""
    argvs = [argv_of(way, depth, "read", seconds) for way in ways]
    loads = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for argv in argvs]
    return sum(outcome(load.communicate()[0], "read").per_s for load in loads)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        line = process.stdout.readline() if selector.select(PATIENCE_S) else ""
    if not line:
        raise SystemExit("the drive was not ready in time")
    return line


def size_of(size: str) -> str:
    """As nbdkit's option; fio's is the same with dashes before."""
    return f"size={units.parse_size(size)}"


@contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    """SIGTERM at the end, and SIGKILL for one that does not go."""
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def tmpfs_file(size: str) -> Iterator[Path]:
    """A file in memory that is written throughout."""
    path = Path(f"/dev/shm/device-bench-{os.getpid()}-{next(NUMBERS)}")
    try:
        fill("--ioengine=psync", f"--filename={path}", f"--{size_of(size)}", "--direct=0")
        yield path
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def loop(name: str, file: Path, peer: str = "", *, needs_kernel_threads: bool = False) -> Iterator[Way]:
    with made(DIRECT_LOOP, FILE=str(file)) as device:
        yield Way(name, device, peer, needs_kernel_threads)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def fill(*options: str) -> None:
    argv = ["fio", "--name=fill", "--rw=write", "--bs=1M", "--thread", "--direct=1", *options]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def argv_of(way: Way, depth: int, direction: str, seconds: float, *, sleeps: bool = False) -> Sequence[str]:
    """Random pages of one way. A file or device is loaded by fio: psync at depth 1, io_uring beyond."""
    if way.is_socket:
        reads_percent, waiting = "100" if direction == "read" else "0", "sleeps" if sleeps else "spins"
        return (str(LOAD), way.place, str(depth), f"{seconds * 1000:.0f}", str(PAGE_BYTES), reads_percent, waiting)
    batch = ("--ioengine=io_uring", f"--iodepth={depth}") if depth > 1 else ("--ioengine=psync",)
    return (*FIO, f"--filename={way.place}", f"--rw=rand{direction}", f"--runtime={seconds * 1000:.0f}ms", *batch)


def run(way: Way, depth: int, direction: str, seconds: float, *, sleeps: bool = False) -> Run:
    """What it did once client and server have a processor each: a server that slept may begin on the client's."""
    argv = argv_of(way, depth, direction, seconds, sleeps=sleeps)
    with continued(way.stopped), as_all_others() if way.needs_kernel_threads else nullcontext():
        if way.is_socket:
            subprocess.run(argv_of(way, depth, direction, WARM_S, sleeps=sleeps), check=True, stdout=subprocess.DEVNULL)
        return outcome(subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout, direction)


@contextmanager
def continued(process: int) -> Iterator[None]:
    """A stopped process runs meanwhile, if there is one."""
    if not process:
        yield
        return
    os.kill(process, signal.SIGCONT)
    try:
        yield
    finally:
        os.kill(process, signal.SIGSTOP)


def fio_nbd(uri: str, seconds: float) -> Run:
    """fio's own client of NBD, which sleeps, at depth 1."""
    argv = (*FIO, "--ioengine=nbd", f"--uri={uri}", "--rw=randread", f"--runtime={seconds * 1000:.0f}ms")
    return outcome(subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout, "read")


def outcome(text: str, direction: str) -> Run:
    if not text.startswith('{"'):
        told = json.JSONDecoder().raw_decode(text[text.index("{\n") :])[0]["jobs"][0][direction]
        return Run(told["iops"], told["lat_ns"]["percentile"]["50.000000"])
    told = json.loads(text)
    return Run(told["iops"], told["p50_ns"])


def cpu_s(pid: int) -> dict[int, float]:
    """Thread -> processor time so far."""
    times = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        words = (task / "stat").read_text().rpartition(")")[2].split()
        times[int(task.name)] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return times


def memory_bytes(pid: int, key: str) -> int:
    """VmRSS or VmHWM (proc_pid_status(5))."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


@contextmanager
def unfinished_write(served: Drive) -> Iterator[None]:
    """An NBD client that sends as much as is taken of a write of 32 MiB, and never its last byte."""
    length = 32 << 20
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(served.told["nbd"].partition("socket=")[2])
        go = struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 1, 0)
        client.sendall(go + struct.pack(">IHHQQI", 0x25609513, 0, 1, 0, 0, length))
        client.settimeout(0.1)
        with suppress(TimeoutError):
            client.sendall(bytes(length - 1))
        yield
