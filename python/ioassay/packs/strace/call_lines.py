"""The lines that `strace -f -ttt -T -yy -s 0 -o FILE` writes, as calls that ended and tasks that ended.

A call that another task interrupts on the page is written in two halves, which are joined here. What a call means is
not known here (`process_tree`), but for `close`: the kernel gives the number away when close is entered, so that is
when it is passed on, or a file opened meanwhile under the same number would be closed in its place.
Source: strace(1); what is not documented there was read off strace 6.1's output.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_LINE = re.compile(r"(\d{1,10}) +(\d{1,11})\.(\d{1,9}) (.*)", re.DOTALL)
_CALL = re.compile(r"(\w+)\((.*)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_RESULT = re.compile(r"\)\s+= ")
_TOOK = re.compile(r" <(\d{1,11})\.(\d{1,9})>$")
_GONE = re.compile(r"\+\+\+ (exited|killed|superseded) ")
_UNCOUNTED = re.compile(r"---|(?:<\.\.\. )?\?{3,4}(?:\(| resumed>)(?: <unfinished \.\.\.>|\)\s+= \?)")
"""A signal, or a call of a task that was killed at its entry, before strace could read which: the kernel never began
it."""
_ENCLOSED = re.compile(r'<(?:[^<>]|<[^<>]*>)*>|"(?:[^"\\]|\\.)*"')
_UNFINISHED = " <unfinished ...>"
_CLOSES = "close"

_DESCRIPTOR = re.compile(r"(-?\d{1,10})(?![\dx])(?:<(/(?:[^<>]|<[^<>]*>)*|(?:->|[^<>]|<[^<>]*>)*)>(?:\(deleted\))?)?")
"""A number and what it is open to. In a path strace writes < and > as octal, elsewhere `->` joins two addresses."""
_DEVICE = re.compile(r"<(char|block) (\d+:\d+)>$")
_SOCKETS = ("socket", "TCP", "UDP", "UNIX", "NETLINK", "RAW", "PING")
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9a-f]{2}|.)", re.DOTALL)
_BEYOND = 2**64
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f"}


class Call(NamedTuple):
    """One system call. `result` is '?' when it did not return; `took_ns` then is 0."""

    task: int
    name: str
    arguments: str
    result: str
    entry_ns: int
    took_ns: int

    @property
    def returned(self) -> int | None:
        """What it returned; the negative of 1 for an error; None where it never did, or is entered again."""
        word = next(iter(self.result.split(maxsplit=1)), "?").partition("<")[0]
        try:
            number = int(word, 0)
        except ValueError:
            return None
        return number if abs(number) < _BEYOND else None

    @property
    def exit_ns(self) -> int:
        return self.entry_ns + self.took_ns


class Gone(NamedTuple):
    """A task ended."""

    task: int


class Lines:
    """Makes events of lines, and counts those that make no sense. `epoch_ns` is subtracted from the stamps."""

    def __init__(self, epoch_ns: int = 0) -> None:
        self.senseless = 0
        self._epoch_ns = epoch_ns

    def events(self, lines: Iterable[str]) -> Iterator[Call | Gone]:
        """What the lines end, in their order; calls that never returned come before the end of their task."""
        halves: dict[int, tuple[int, str]] = {}
        for line in lines:
            found = _LINE.match(line.rstrip("\n"))
            if found is None:
                self.senseless += bool(line.strip())
                continue
            task, at_ns, text = int(found[1]), _nanoseconds(found[2], found[3]) - self._epoch_ns, found[4]
            if _GONE.match(text):
                if task in halves:
                    yield from self._unreturned(task, *halves.pop(task))
                yield Gone(task)
            elif _UNCOUNTED.match(text):
                continue
            elif resumed := _RESUMED.match(text):
                entry_ns, half = halves.pop(task, (at_ns, f"{resumed[1]}("))
                # Written of a call that a signal ended for ever: `<... read resumed> <unfinished ...>) = ?`
                if resumed[1] != _CLOSES:
                    yield from self._call(task, entry_ns, half + resumed[2].replace(_UNFINISHED, "", 1))
            elif text.endswith(_UNFINISHED):
                halves[task] = at_ns, (half := text.removesuffix(_UNFINISHED))
                if half.startswith(f"{_CLOSES}("):
                    yield from self._call(task, at_ns, f"{half}) = 0")
            else:
                yield from self._call(task, at_ns, text)
        for task, unfinished in halves.items():
            yield from self._unreturned(task, *unfinished)

    def _unreturned(self, task: int, entry_ns: int, half: str) -> Iterator[Call]:
        return self._call(task, entry_ns, f"{half}) = ?") if not half.startswith(f"{_CLOSES}(") else iter(())

    def _call(self, task: int, entry_ns: int, text: str) -> Iterator[Call]:
        found = _CALL.match(text)
        end = _result_of(found[2]) if found else None
        if found is None or end is None:
            self.senseless += 1
            return
        result, took_ns = found[2][end.end() :], 0
        if took := _TOOK.search(result):
            took_ns, result = _nanoseconds(took[1], took[2]), result[: took.start()]
        yield Call(task, found[1], found[2][: end.start()], result, entry_ns, took_ns)


def _nanoseconds(seconds: str, fraction: str) -> int:
    """Of decimal text, without a detour over a float, which has no room for today's date in nanoseconds."""
    return int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9])


def _result_of(text: str) -> re.Match[str] | None:
    """Where the arguments end: the first `) = ` outside of quotes and of what a descriptor is open to."""
    ends = list(_RESULT.finditer(text))
    for end in ends:
        plain = _ENCLOSED.sub("", re.sub(r"<<|->|=>", "", text[: end.start()])) if len(ends) > 1 else ""
        if not any(sign in plain for sign in '"<>'):
            return end
    return None


class Target(NamedTuple):
    """What a descriptor is open to, as strace shows it."""

    number: int
    path: str
    """'' where strace could not tell."""
    kind: str
    """'block', 'char', 'pipe', 'socket', 'other' or 'regular' (directories are not told apart)."""
    dev: str
    """Of a device, its own number 'major:minor'."""
    rest: str
    """The text that follows."""


def target(text: str) -> Target | None:
    """The descriptor that `text` begins with; None when it begins with something else."""
    found = _DESCRIPTOR.match(text)
    if found is None:
        return None
    number, shown, rest = int(found[1]), found[2] or "", text[found.end() :]
    if device := _DEVICE.search(shown):
        return Target(number, unescaped(shown[: device.start()]), device[1], device[2], rest)
    if shown.startswith("/"):
        return Target(number, unescaped(shown), "regular", "", rest)
    kind = "pipe" if shown.startswith("pipe:") else "socket" if shown.startswith(_SOCKETS) else "other"
    return Target(number, shown, kind, "", rest)


def unescaped(text: str) -> str:
    """A path as the file system has it."""
    return os.fsdecode(_ESCAPE.sub(_byte, os.fsencode(text))) if "\\" in text else text


def _byte(found: re.Match[bytes]) -> bytes:
    code = found[1]
    if code[:1].isdigit():
        return bytes([int(code, 8) & 0xFF])
    if code[:1] == b"x" and len(code) == 3:
        return bytes([int(code[1:], 16)])
    return _LETTERS.get(code, code)
