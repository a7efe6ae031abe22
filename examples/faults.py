"""What do ext4, SQLite and RocksDB do on a drive that misbehaves? Each runs on a drive with one fault at a time.

    sudo .venv/bin/python examples/faults.py [RECORDS [FAULT…]]

Without FAULTs, such as 'bit rot', all of them are tried.

Each program writes RECORDS records on a new drive and makes each durable before it goes on. The second half is written
while the drive has a fault; two of the faults end in a power loss. Then the drive is whole again, the file system is
mounted anew, and all records are read and compared. What was reported as written and is missing is lost, and what
differs without an error is wrong. Read faults begin after all records are written and before any is read.

Where a fault has a probability, it strikes other blocks in each run, since programs and kernel do not write in the same
order twice. How many records it concerns varies with that, and so may the outcome.
"""

import ctypes
import ctypes.util
import fcntl
import hashlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from ioassay.packs.virtual_drive import drive_options, serving

DRIVE = ("--size", "128MiB", "--policy", "lru", "--buffer", "2MiB", "--no-calibrate")
SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
"""EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH (fs/ext4/ext4.h): the host goes with the drive."""
JOURNAL_AND_TABLES = "offset=1MiB"
"""The superblock and the group descriptors are spared, so that there is a file system to mount."""
PATIENCE_S = 60


@dataclass(frozen=True)
class Case:
    """A fault, and when it strikes."""

    fault: tuple[str, ...]
    reading: bool = False
    power_loss: bool = False


CASES = {
    "no fault": Case(()),
    "latency of 20 ms": Case(("kind=latency", "delay=20ms", "probability=0.2")),
    "controller reset": Case(("kind=controller-reset", "op=write", "skip=20", "count=1")),
    "write errors": Case(("kind=write-error", "skip=40", "probability=0.2", JOURNAL_AND_TABLES)),
    "flush errors": Case(("kind=flush-error", "skip=10", "count=1")),
    "power loss": Case((), power_loss=True),
    "ignored flushes, power loss": Case(("kind=ignored-flush",), power_loss=True),
    "lost writes": Case(("kind=lost-write", "probability=0.1", JOURNAL_AND_TABLES)),
    "torn writes": Case(("kind=torn-write", "probability=0.1", JOURNAL_AND_TABLES)),
    "read errors": Case(("kind=read-error", "probability=0.1", "scope=page", JOURNAL_AND_TABLES), reading=True),
    "bit rot": Case(("kind=bit-rot", "probability=0.5", "bits=8", JOURNAL_AND_TABLES), reading=True),
}


class Records(Protocol):
    """A program that keeps records by number."""

    def write(self, number: int) -> None:
        """Returns when the record is durable."""

    def read(self, number: int) -> bytes | None:
        """The record, or None if there is none."""

    def close(self) -> None:
        """Ends the program."""


def record(number: int) -> bytes:
    """Content that says whose it is."""
    return hashlib.sha256(b"%d" % number).digest() * 32


class Files:
    """ext4 alone: a file for each record."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, number: int) -> None:
        """A new file, and its folder's entry."""
        with (self._folder / str(number)).open("wb") as file:
            file.write(record(number))
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def read(self, number: int) -> bytes | None:
        """Its content."""
        path = self._folder / str(number)
        return path.read_bytes() if path.exists() else None

    def close(self) -> None:
        """Nothing is open."""


class Rows:
    """SQLite, with a transaction for each record."""

    def __init__(self, folder: Path) -> None:
        self._database = sqlite3.connect(folder / "rows.sqlite", isolation_level=None)
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, content BLOB)")

    def write(self, number: int) -> None:
        """One transaction."""
        self._database.execute("INSERT INTO records VALUES (?, ?)", (number, record(number)))

    def read(self, number: int) -> bytes | None:
        """One row."""
        row = self._database.execute("SELECT content FROM records WHERE number = ?", (number,)).fetchone()
        return row[0] if row else None

    def close(self) -> None:
        """Closes the database."""
        self._database.close()


class Keys:
    """RocksDB with synchronous writes, by its C interface (rocksdb/c.h)."""

    def __init__(self, folder: Path) -> None:
        self._of = ctypes.CDLL(ctypes.util.find_library("rocksdb"))
        for name in ("options_create", "writeoptions_create", "readoptions_create", "open", "get"):
            getattr(self._of, f"rocksdb_{name}").restype = ctypes.c_void_p
        options = ctypes.c_void_p(self._of.rocksdb_options_create())
        self._of.rocksdb_options_set_create_if_missing(options, ctypes.c_ubyte(1))
        self._of.rocksdb_options_set_write_buffer_size(options, ctypes.c_size_t(64 << 10))
        self._writing = ctypes.c_void_p(self._of.rocksdb_writeoptions_create())
        self._of.rocksdb_writeoptions_set_sync(self._writing, ctypes.c_ubyte(1))
        self._reading = ctypes.c_void_p(self._of.rocksdb_readoptions_create())
        self._database = ctypes.c_void_p(self._checked(self._of.rocksdb_open, options, str(folder / "keys").encode()))

    def write(self, number: int) -> None:
        """One key."""
        key, value = b"%08d" % number, record(number)
        lengths = ctypes.c_size_t(len(key)), ctypes.c_size_t(len(value))
        self._checked(self._of.rocksdb_put, self._database, self._writing, key, lengths[0], value, lengths[1])

    def read(self, number: int) -> bytes | None:
        """One key's value."""
        key, length = b"%08d" % number, ctypes.c_size_t()
        words = (self._database, self._reading, key, ctypes.c_size_t(len(key)), ctypes.byref(length))
        found = self._checked(self._of.rocksdb_get, *words)
        if not found:
            return None
        value = ctypes.string_at(found, length.value)
        self._of.rocksdb_free(ctypes.c_void_p(found))
        return value

    def close(self) -> None:
        """Closes the database."""
        self._of.rocksdb_close(self._database)

    def _checked(self, function: Callable[..., int], *words: object) -> int:
        error = ctypes.c_char_p()
        answer = function(*words, ctypes.byref(error))
        if error.value is not None:
            raise OSError(error.value.decode(errors="replace"))
        return answer


Program = Callable[[Path], Records]
PROGRAMS: dict[str, Program] = {"ext4": Files, "SQLite": Rows, "RocksDB": Keys}
ERRORS = (OSError, sqlite3.Error)


def run(*argv: object) -> str:
    """The output of a command; OSError if it fails."""
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True)
    if done.returncode:
        raise OSError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"{argv[0]} failed")
    return done.stdout


@contextmanager
def served(folder: Path) -> Iterator[Path]:
    """A new drive with an ext4, as the file `drive` in the folder; its control socket."""
    argv = [sys.executable, "-m", "ioassay", "device", "serve", "--json", "--with-parent", str(os.getpid())]
    argv += ["--transport", "fuse:drive", "--stats", "socket", *DRIVE]
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE) as drive:
        try:
            if drive.stdout is None or not drive.stdout.readline():
                raise OSError("the drive is not served")
            run("mkfs.ext4", "-q", "-F", folder / "drive")
            yield folder / "socket"
        finally:
            drive.terminate()
            try:
                drive.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                drive.kill()


@contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    """The file system. What it can no longer write is dropped with it."""
    point = folder / "mounted"
    point.mkdir(exist_ok=True)
    loop = run("losetup", "--find", "--show", "--direct-io=on", folder / "drive").strip()
    try:
        run("mount", "-t", "ext4", loop, point)
        try:
            yield point
        finally:
            run("umount", point)
    finally:
        run("losetup", "--detach", loop)


def lose_power(socket: Path, point: Path) -> None:
    """The drive loses power, and its host as well."""
    descriptor = os.open(point, os.O_RDONLY)
    try:
        serving.ask(socket, "power-cut")
        fcntl.ioctl(descriptor, SHUTDOWN, NO_LOG_FLUSH.to_bytes(4, sys.byteorder))
    finally:
        os.close(descriptor)


def work(name: str, folder: Path, what: str, numbers: range) -> None:
    """What a process of a program does: it prints a line for each record, or an error. It may die at any point."""
    try:
        with closing(PROGRAMS[name](folder)) as records:
            for number in numbers:
                if what == "write" and number == len(numbers) // 2:
                    print("half", flush=True)
                    sys.stdin.readline()
                try:
                    print(
                        number, written(records, number) if what == "write" else compared(records, number), flush=True
                    )
                except ERRORS as error:
                    print(number, f"error {error}", flush=True)
    except ERRORS as error:
        print("-", f"error {error}", flush=True)


def written(records: Records, number: int) -> str:
    """Writes one record."""
    records.write(number)
    return "written"


def compared(records: Records, number: int) -> str:
    """Reads one record."""
    content = records.read(number)
    return "lost" if content is None else "there" if content == record(number) else "wrong"


@dataclass
class Report:
    """What a process reported of each record, and the first error."""

    records: dict[int, str]
    error: str


def report_of(name: str, point: Path, what: str, count: int, at_half: Callable[[], object] = bool) -> Report:
    """Runs a process of a program."""
    argv = [sys.executable, __file__, what, name, str(point), str(count)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    report = Report({}, "")
    with subprocess.Popen(argv, text=True, **pipes) as process:  # type: ignore[call-overload]
        for line in process.stdout:
            if line == "half\n":
                at_half()
                process.stdin.write("\n")
                process.stdin.flush()
                continue
            number, state, *words = line.split()
            if number != "-":
                report.records[int(number)] = state
            report.error = report.error or " ".join(words)
        last = process.stderr.read().strip().splitlines()
    if process.returncode:
        report.error = last[-1] if last else f"ended by signal {-process.returncode}"
    return report


def write(name: str, socket: Path, folder: Path, case: Case, count: int) -> Report:
    """Writes the records, the second half of them while the drive has its fault."""

    def strike() -> None:
        if case.fault and not case.reading:
            serving.ask(socket, "fault-inject", faults=drive_options.faults_of_words(case.fault))

    report = Report({}, "")
    try:
        with mounted(folder) as point:
            report = report_of(name, point, "write", count, strike)
            if case.power_loss:
                lose_power(socket, point)
            serving.ask(socket, "fault-clear")
    except OSError as error:
        report.error = report.error or str(error)
    return report


def read(name: str, folder: Path, count: int) -> Report:
    """Reads the records of a file system that is mounted anew."""
    try:
        with mounted(folder) as point:
            return report_of(name, point, "read", count)
    except OSError as error:
        return Report({}, str(error))


def outcome(name: str, case: Case, count: int) -> tuple[str, str]:
    """What a program did with a fault, in a few words; and the first error that it reported."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        with served(folder) as socket:
            first = write(name, socket, folder, case, count)
            if case.reading:
                serving.ask(socket, "fault-inject", faults=drive_options.faults_of_words(case.fault))
            second = read(name, folder, count)
            serving.ask(socket, "fault-clear")
    done = [number for number, state in first.records.items() if state == "written"]
    words = [f"{len(done)} written"] if len(done) < count else []
    found = [second.records.get(number, "error") for number in done]
    for state, what in (("error", "unreadable"), ("lost", "LOST"), ("wrong", "WRONG")):
        words += [f"{found.count(state)} {what}"] if state in found else []
    return ", ".join(words) or "all there", first.error or second.error


def main() -> None:
    """See above."""
    if sys.argv[1:2] in (["write"], ["read"]):
        what, name, folder, number = sys.argv[1:]
        work(name, Path(folder), what, range(int(number)))
        return
    if os.geteuid():
        sys.exit("examples/faults.py mounts file systems: run it as root")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    missing = [] if ctypes.util.find_library("rocksdb") else ["RocksDB"]
    programs = [name for name in PROGRAMS if name not in missing]
    print(
        f"{count} records of 1 KiB each, all to be durable" + "".join(f"; {name} is not installed" for name in missing)
    )
    print(f"{'fault':28}" + "".join(f"{name:32}" for name in programs))
    errors = []
    for fault, case in ((fault, CASES[fault]) for fault in sys.argv[2:] or CASES):
        cells = [outcome(name, case, count) for name in programs]
        print(f"{fault:28}" + "".join(f"{words:32}" for words, _ in cells), flush=True)
        errors += [f"{name}, {fault}: {said}" for name, (_, said) in zip(programs, cells, strict=True) if said]
    print("\nThe first errors:", *errors, sep="\n  ")


if __name__ == "__main__":
    main()
