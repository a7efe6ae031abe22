"""The lines that `strace -f -ttt -T -yy -s 0 -o FILE` writes, as calls that ended and tasks that ended.

A call that another task interrupts on the page is written in two halves, which are joined here. What a call means is
not known here (`strace_tree`), but for `close`: the kernel gives the number away when close is entered, so that is
when it is passed on, or a file opened meanwhile under the same number would be closed in its place.
Source: strace(1); what is not documented there was read off strace 6.1's output.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass

_LINE = re.compile(r"(\d{1,10}) +(\d{1,11})\.(\d{1,9}) (.*)", re.DOTALL)
_CALL = re.compile(r"(\w+)\((.*)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_RESULT = re.compile(r"\)\s+= ")
_TOOK = re.compile(r" <(\d{1,11})\.(\d{1,9})>$")
_GONE = re.compile(r"\+\+\+ (exited|killed|superseded) ")
_NEVER_BEGUN = re.compile(r"(?:<\.\.\. )?\?{3,4}(?:\(| resumed>)(?: <unfinished \.\.\.>|\)\s+= \?)")
"""Of a task that was killed at the entry of a call, before strace could read which: the kernel never began it."""
_ENCLOSED = re.compile(r'<(?:[^<>]|<[^<>]*>)*>|"(?:[^"\\]|\\.)*"')
_UNFINISHED = " <unfinished ...>"
_CLOSES = "close"

_DESCRIPTOR = re.compile(r"(-?\d{1,10})(?:<(/(?:[^<>]|<[^<>]*>)*|(?:->|[^<>]|<[^<>]*>)*)>(?:\(deleted\))?)?")
"""A number and what it is open to. In a path strace writes < and > as octal, elsewhere `->` joins two addresses."""
_DEVICE = re.compile(r"<(char|block) (\d+:\d+)>$")
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9a-f]{2}|.)", re.DOTALL)
_BEYOND = 2**64
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f"}


@dataclass(frozen=True, slots=True)
class Call:
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


@dataclass(frozen=True, slots=True)
class Gone:
    """A task ended; `during` is the call that it was in, and that never returned."""

    task: int
    during: Call | None


@dataclass(frozen=True, slots=True)
class Target:
    """What a descriptor is open to, as strace shows it."""

    number: int
    path: str
    """'' where strace could not tell."""
    kind: str
    """'block', 'char', 'pipe', 'socket', 'other' or 'regular' (directories are not told apart)."""
    dev: str
    """Of a device, its own number 'major:minor'."""


class Lines:
    """Fed line by line; keeps the first halves of calls and counts what makes no sense."""

    def __init__(self) -> None:
        self.senseless = 0
        self._open: dict[int, tuple[int, str]] = {}

    def feed(self, line: str) -> Call | Gone | None:
        """What this line ends, if it ends anything."""
        found = _LINE.match(line.rstrip("\n"))
        if found is None:
            self.senseless += bool(line.strip())
            return None
        task, at_ns, text = int(found[1]), nanoseconds(found[2], found[3]), found[4]
        if text.startswith("+++"):
            return self._gone(task, text)
        if text.startswith("---") or _NEVER_BEGUN.match(text):  # a signal
            return None
        if resumed := _RESUMED.match(text):
            return self._resume(task, at_ns, resumed[1], resumed[2])
        if text.endswith(_UNFINISHED):
            return self._begin(task, at_ns, text.removesuffix(_UNFINISHED))
        return self._whole(task, at_ns, text)

    def unfinished(self) -> list[Call]:
        """Calls whose end was never written."""
        halves = (self._never(task, *half) for task, half in self._open.items())
        return [call for call in halves if call is not None]

    def _begin(self, task: int, at_ns: int, text: str) -> Call | None:
        self._open[task] = at_ns, text
        if text.startswith(f"{_CLOSES}("):
            return self._whole(task, at_ns, f"{text}) = 0")
        return None

    def _resume(self, task: int, at_ns: int, name: str, rest: str) -> Call | None:
        entry_ns, half = self._open.pop(task, (at_ns, f"{name}("))
        if name == _CLOSES:
            return None
        # Written of a call that a signal ended for ever: `<... read resumed> <unfinished ...>) = ?`
        return self._whole(task, entry_ns, half + rest.replace(_UNFINISHED, "", 1))

    def _gone(self, task: int, text: str) -> Gone | None:
        if not _GONE.match(text):
            self.senseless += 1
            return None
        half = self._open.pop(task, None)
        return Gone(task, self._never(task, *half) if half else None)

    def _never(self, task: int, entry_ns: int, half: str) -> Call | None:
        found = _CALL.match(half)
        return Call(task, found[1], found[2], "?", entry_ns, 0) if found and found[1] != _CLOSES else None

    def _whole(self, task: int, entry_ns: int, text: str) -> Call | None:
        found = _CALL.match(text)
        end = _result_of(found[2]) if found else None
        if found is None or end is None:
            self.senseless += 1
            return None
        result = found[2][end.end() :]
        took_ns = 0
        if took := _TOOK.search(result):
            took_ns, result = nanoseconds(took[1], took[2]), result[: took.start()]
        return Call(task, found[1], found[2][: end.start()], result, entry_ns, took_ns)


def nanoseconds(seconds: str, fraction: str) -> int:
    """Of decimal text, without a detour over a float, which has no room for today's date in nanoseconds."""
    return int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9])


def target(text: str) -> Target | None:
    """The descriptor that `text` begins with; None when it begins with something else."""
    found = _DESCRIPTOR.match(text)
    return _target(int(found[1]), found[2] or "") if found else None


def after_target(text: str) -> str:
    """What comes behind the descriptor that `text` begins with."""
    found = _DESCRIPTOR.match(text)
    return text[found.end() :] if found else text


def unescaped(text: str) -> str:
    """A path as the file system has it."""
    if "\\" not in text:
        return text
    return os.fsdecode(_ESCAPE.sub(_byte, os.fsencode(text)))


def _byte(found: re.Match[bytes]) -> bytes:
    code = found[1]
    if code[:1].isdigit():
        return bytes([int(code, 8) & 0xFF])
    if code[:1] == b"x" and len(code) == 3:
        return bytes([int(code[1:], 16)])
    return _LETTERS.get(code, code)


def _target(number: int, shown: str) -> Target:
    if device := _DEVICE.search(shown):
        return Target(number, unescaped(shown[: device.start()]), device[1], device[2])
    if shown.startswith("/"):
        return Target(number, unescaped(shown), "regular", "")
    word = shown.partition(":")[0]
    socket = word.startswith(("socket", "TCP", "UDP", "UNIX", "NETLINK", "RAW", "PING"))
    return Target(number, shown, "pipe" if word == "pipe" else "socket" if socket else "other", "")


def _result_of(text: str) -> re.Match[str] | None:
    """Where the arguments end: the first `) = ` outside of quotes and of what a descriptor is open to."""
    ends = list(_RESULT.finditer(text))
    return next((end for end in ends if len(ends) == 1 or _balanced(text[: end.start()])), None)


def _balanced(text: str) -> bool:
    plain = _ENCLOSED.sub("", re.sub(r"<<|->|=>", "", text))
    return not any(sign in plain for sign in '"<>')


_NUMBERED = re.compile(r"syscall_(0x[0-9a-f]+)")
_RESTORES = "rt_sigreturn"
"""What it returns is the result of the call that a signal interrupted."""


class ByName:
    """Fed with what `Lines` gives."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    def see(self, event: Call | Gone) -> None:
        """One call that ended, or that its task never came back from."""
        call = event.during if isinstance(event, Gone) else event
        if call is None:
            return
        name = _NUMBERED.sub(lambda found: f"syscall_{int(found[1], 16) & 0xFFFFFFFF}", call.name)
        self.calls[name] += 1
        if (call.returned or 0) < 0 and name != _RESTORES:
            self.errors[name] += 1
