"""`ioassay witness --pid`, `--cgroup` and `--container`: what runs already is watched, alone or beside a client."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ioassay import units
from ioassay.api import witness_judgement
from ioassay.cli import console
from ioassay.errors import UsageError

if TYPE_CHECKING:
    from ioassay.records.observation import Observation
    from ioassay.verify.witness import Attachment

_MOST_NAMES = 3


@dataclass(frozen=True)
class Choice:
    """What the options name, as they were written."""

    pid: Sequence[str] | None
    cgroup: str | None
    container: str | None
    time: str | None

    @property
    def is_made(self) -> bool:
        return bool(self.pid or self.cgroup or self.container)

    def check(self, command: Sequence[str], twins: int) -> None:
        """UsageError for options that do not go together."""
        if not self.is_made:
            if self.time is not None:
                raise UsageError(
                    "--for is how long running processes are watched; expected --pid, --cgroup or --container"
                )
            if not command:
                raise UsageError("Missing argument 'COMMAND…', or what runs already: --pid, --cgroup or --container")
            return
        if self.cgroup and self.container:
            raise UsageError("--cgroup and --container both name one group; give one of them")
        if twins:
            raise UsageError("--twins repeats a command; what runs already cannot be repeated")
        if command and self.time is not None:
            raise UsageError("--for and a client command: the client's end ends the watch; give one of them")

    def seconds(self) -> float:
        """How long it is to be watched; UsageError when the time is none."""
        if self.time is None:
            return math.inf
        try:
            return units.parse_duration_s(self.time)
        except ValueError as error:
            raise UsageError(f"--for {self.time}: {error}") from None

    def attachment(self, level: str, backend: str, listing: str | None) -> Attachment:
        """What watches them; UsageError and ToolError say what cannot be watched and why."""
        return witness_judgement.attachment_to(self._pids(), self.cgroup, self.container, level, backend, listing)

    def _pids(self) -> list[int]:
        numbers = [text.strip() for texts in self.pid or () for text in texts.split(",")]
        for number in numbers:
            if not (number.isascii() and number.isdecimal() and 0 < int(number) < 1 << 31):
                raise UsageError(
                    f"--pid {number}: not the id of a process; expected a number such as those of: pgrep NAME"
                )
        return list(map(int, numbers))


def note_begin(attached: Attachment, seconds: float) -> None:
    """Say what is watched for how long, while it is."""
    how_long = "until it ends or Ctrl-C" if seconds == math.inf else f"for {units.format_ns(seconds * 1e9)}"
    console.note(f"watching {who(attached)} {how_long}")


def who(attached: Attachment) -> str:
    """'process 123 (redis-server)' or 'the control group …'."""
    running = attached.running
    shown = [f"{pid} ({attached.names.get(pid, '?')})" for pid in running.pids[:_MOST_NAMES]]
    if (more := len(running.pids) - _MOST_NAMES) > 0:
        shown.append(f"{more} more")
    word = "process" if len(running.pids) == 1 else "processes"
    parts = [f"{word} {', '.join(shown)}"] if shown else []
    if running.group is not None:
        names = sorted({name for pid, name in attached.names.items() if pid not in running.pids})
        few = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
        parts.append(f"the control group {running.group} ({few})")
    return " and ".join(parts)


def as_dict(attached: Attachment, client: Sequence[str], seen: Observation) -> dict[str, Any]:
    """For --json: whose I/O was compared with whose claims."""
    group = attached.running.group
    return {
        "pids": list(attached.running.pids),
        "cgroup": None if group is None else str(group),
        "names": {str(pid): name for pid, name in sorted(attached.names.items())},
        "client": list(client),
        "compared": comparison(attached, client),
        "ended": attached.has_ended,
        "in_flight_at_start": seen.health.get("in_flight_at_start", 0),
    }


def comparison(attached: Attachment, client: Sequence[str]) -> str:
    """The sentence on whose I/O was compared with whose claims."""
    if client:
        return f"The claims of {client[0]} were compared with the I/O of {who(attached)}, not with its own."
    until = "until it ended" if attached.has_ended else "and it goes on"
    return f"The I/O is that of {who(attached)}, from the moment of attaching, {until}."


def say(attached: Attachment, client: Sequence[str], seen: Observation) -> int:
    """Whose I/O it was, and what was under way when the watch began; the number of lines."""
    lines = console.wrapped(comparison(attached, client))
    if before := seen.health.get("in_flight_at_start", 0):
        lines += console.wrapped(f"{console.count(before, 'call')} in flight at that moment: in no count.")
    for line in lines:
        console.line(line)
    return len(lines)
