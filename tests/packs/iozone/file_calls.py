"""The calls on one file that strace recorded, pass by pass, as runs of equal steps: for goldens, and what is compared.

    python tests/packs/iozone/file_calls.py IOZONE FOLDER   records the cases below with an IOzone, numbers alone

A line of a pass is `call size first step count`: count calls of that size, the first at one offset, each a step further
than the last. `lseek+read` is a read after a seek to its place. What follows the last transfer or seek is left out: it
is outside the timed interval unless flags include it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SINGLE = (
    *("write", "rewrite", "read", "reread", "random_read", "random_write", "backward_read", "backward_read silent"),
    *(
        "record_rewrite",
        "stride_read",
        "fwrite",
        "frewrite",
        "fread",
        "freread",
        "pwrite",
        "repwrite",
        "pread",
        "repread",
    ),
)
_ALL = ("-i0", "-i1", "-i2", "-i3", "-i4", "-i5", "-i6", "-i7", "-i9", "-i10", "-E")
_SEQUENTIAL = ("-i0", "-i1")
CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "512k-64k": ((*_ALL, "-s512k", "-r64k"), SINGLE),
    "1m-4k": ((*_ALL, "-s1m", "-r4k"), SINGLE),
    "1000k-64k": ((*_ALL, "-s1000k", "-r64k"), SINGLE),
    "stride-3": (("-i0", "-i5", "-j3", "-s100k", "-r4k"), ("write", "rewrite", "stride_read")),
    "jitter": ((*_SEQUENTIAL, "-K", "-s808k", "-r4k"), SINGLE[:4]),
    "mapped": (("-i0", "-i1", "-i2", "-i3", "-i4", "-i5", "-B", "-s512k", "-r64k"), SINGLE[:10]),
    "mapped-async": ((*_SEQUENTIAL, "-B", "-D", "-s512k", "-r64k"), SINGLE[:4]),
    "mapped-sync": ((*_SEQUENTIAL, "-B", "-G", "-e", "-s512k", "-r64k"), SINGLE[:4]),
    "worker": (
        (*_ALL, "-t1", "-x", "-s100k", "-r4k"),
        (
            *("write", "rewrite", "read", "reread", "backward_read", "stride_read", "random_read", "random_write"),
            *("pwrite", "pread", "fwrite", "fread"),
        ),
    ),
}
"""The words for IOzone, and the passes in the order in which it makes them."""
TRACED = "trace=open,openat,creat,close,read,write,lseek,fsync,pread64,pwrite64,mmap,msync"
_MOVES = ("read", "write", "pread64", "pwrite64", "msync_async", "msync_sync", "lseek")


@dataclass
class Session:
    """One open file, from its open to its close."""

    place: int = 0
    mapped_at: int | None = None
    calls: list[tuple[str, int, int]] = field(default_factory=list)
    """Name, size, offset; the offset of a seek is where it went, or -1."""

    def lines(self) -> list[str]:
        """Its calls as runs of equal steps, up to the last that moves data or the offset."""
        last = max((place for place, (name, *_) in enumerate(self.calls) if name in _MOVES), default=-1)
        runs: list[list[int | str]] = []
        for name, size, offset in _joined_seeks(self.calls[: last + 1]):
            run = runs[-1] if runs else None
            if run and run[:2] == [name, size]:
                step = offset - int(run[2]) - int(run[3]) * (int(run[4]) - 1)
                if run[4] == 1 or step == run[3]:
                    run[3:] = [step, int(run[4]) + 1]
                    continue
            runs.append([name, size, offset, 0, 1])
        return [" ".join(map(str, run)) for run in runs]


def _joined_seeks(calls: Sequence[tuple[str, int, int]]) -> Iterator[tuple[str, int, int]]:
    place = 0
    while place < len(calls):
        name, size, offset = calls[place]
        after = calls[place + 1] if place + 1 < len(calls) else None
        if name == "lseek" and after and after[0] in ("read", "write") and after[2] == offset:
            yield f"lseek+{after[0]}", after[1], offset
            place += 2
        else:
            yield name, size, offset
            place += 1


def whole_lines(lines: Iterable[str]) -> list[str]:
    """The lines without the thread's number; calls that strace wrote in two parts stand where they ended."""
    begun: dict[str, str] = {}
    whole = []
    for line in lines:
        thread, rest = line.split(None, 1)
        if rest.endswith("<unfinished ...>"):
            begun[thread] = rest.removesuffix(" <unfinished ...>")
        elif resumed := re.match(r"<\.\.\. \w+ resumed>(.*)", rest):
            whole.append(begun.pop(thread, "") + resumed[1])
        else:
            whole.append(rest)
    return whole


def sessions(trace: str, name: str) -> list[Session]:
    """The sessions of the file called `name` in which something was moved or mapped."""
    made: list[Session] = []
    opened: dict[int, Session] = {}
    for line in whole_lines(trace.splitlines()):
        call = re.match(r"(\w+)\((.*)\) += (-?\w+)", line)
        if call is None:
            continue
        function, arguments, result = call[1], call[2], int(call[3], 0)
        if function in ("open", "openat", "creat"):
            opened.pop(result, None)
            if f'"{name}"' in arguments and result >= 0:
                made.append(opened.setdefault(result, Session()))
        elif function == "msync":
            _add_msync(made, arguments)
        else:
            _add(opened, function, arguments, result)
    return [one for one in made if one.mapped_at is not None or {name for name, *_ in one.calls} & set(_MOVES)]


def _add(opened: dict[int, Session], function: str, arguments: str, result: int) -> None:
    words = [word.strip() for word in arguments.split(", ")]
    number = words[4] if function == "mmap" else words[0]
    session = opened.get(int(number)) if number.isdigit() else None
    if session is None:
        return
    if function == "mmap":
        session.mapped_at = result
    elif function == "close":
        session.calls.append(("close", 0, 0))
        del opened[int(number)]
    elif function == "lseek":
        session.place = result if result >= 0 else session.place
        session.calls.append(("lseek", 0, max(result, -1)))
    elif function in ("read", "write"):
        session.calls.append((function, result, session.place))
        session.place += result
    else:
        session.calls.append((function, max(result, 0), int(words[-1]) if function.startswith("p") else 0))


def _add_msync(made: Sequence[Session], arguments: str) -> None:
    start, length, flag = arguments.split(", ")
    mapped = [one for one in made if one.mapped_at is not None]
    if mapped:
        offset = int(start, 16) - (mapped[-1].mapped_at or 0)
        mapped[-1].calls.append((f"msync_{flag[3:].lower()}", int(length), offset))


def golden(path: Path) -> dict[str, list[str]]:
    """The passes of a golden file, each with its lines."""
    passes: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in path.read_text().splitlines():
        if line.startswith("["):
            lines = passes.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return passes


def record(program: str, folder: Path) -> None:
    """Run all cases under strace, in an empty current folder."""
    for name, (words, passes) in CASES.items():
        file = ["-F" if "-t1" in words else "-f", "measured"]
        command = ["strace", "-f", "-qq", "-o", "trace", "-e", TRACED, program, *words, *file]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = sessions(Path("trace").read_text(), "measured")
        if len(found) != len(passes):
            raise SystemExit(f"{name}: {len(found)} sessions, expected {len(passes)}")
        text = [f"# iozone {' '.join(words)}"]
        for title, session in zip(passes, found, strict=True):
            text += [f"[{title}]", *session.lines()]
        (folder / f"calls-{name}.txt").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    record(sys.argv[1], Path(sys.argv[2]))
