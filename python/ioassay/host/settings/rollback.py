"""Puts back what one restore file says, as far as it is still ours to put back.

A setting that another living run wants too stays as that run wants it: it knows the original value and comes last.
A setting whose value is no longer the one we set was changed by somebody else meanwhile: it is left, and that is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ioassay.host.settings import tunables
from ioassay.host.settings.restore_file import Change, RestoreFile

RESTORED = "restored"
ALREADY = "already"
HELD = "held"
CHANGED = "changed"
GONE = "gone"
REFUSED = "refused"
REBOOTED = "rebooted"
UNREADABLE = "unreadable"

_SAID = {
    RESTORED: "put back to '{old}'",
    ALREADY: "is '{old}' already",
    HELD: "left at '{present}': another run that is still going on wants it, and will put '{old}' back",
    CHANGED: "left at '{present}': somebody changed it after it was set to '{new}' (it was '{old}' before)",
    GONE: "is not there any more (it was '{old}')",
    REFUSED: "could not be put back to '{old}': {reason}",
    REBOOTED: "was reset by a reboot (it was '{old}')",
    UNREADABLE: "is no restore file that can be read; nothing was put back from it",
}


@dataclass(frozen=True)
class Restored:
    """What became of one setting. `action` is one of the words above."""

    path: str
    action: str
    old: str = ""
    new: str = ""
    present: str = ""
    reason: str = ""

    def text(self, path: str = "") -> str:
        """One sentence, about `path` instead of this one's where it stands for several."""
        return f"{path or self.path}: " + _SAID[self.action].format(**vars(self))


def put_back(file: RestoreFile, others: Sequence[RestoreFile], root: Path, force: bool = False) -> list[Restored]:
    """Put back every change of `file`; `others` are the restore files of the runs that still live, oldest first.

    `force`: also where somebody changed the value since.
    """
    return [_put_back(change, others, root, force) for change in file.changes]


def _put_back(change: Change, others: Sequence[RestoreFile], root: Path, force: bool) -> Restored:
    present = tunables.present(change.path, root)
    if present is None:
        return _restored(change, GONE)
    wanted = change.old
    holder = next((held for other in reversed(others) if (held := other.change_of(change.path))), None)
    if holder is not None:
        if holder.new in (present, change.new):
            return _restored(change, HELD, present)
        wanted = holder.new
    if present == wanted:
        return _restored(change, ALREADY, present)
    if present != change.new and not force:
        return _restored(change, CHANGED, present)
    try:
        tunables.put(change.path, wanted, root)
    except OSError as error:
        return _restored(change, REFUSED, present, error.strerror or str(error))
    return _restored(change, RESTORED if holder is None else HELD, wanted)


def _restored(change: Change, action: str, present: str = "", reason: str = "") -> Restored:
    return Restored(change.path, action, change.old, change.new, present, reason)


def sentences(restored: Iterable[Restored]) -> list[str]:
    """One sentence for each kind of outcome: the same setting of 64 processors is one, not 64."""
    groups: dict[str, list[Restored]] = {}
    for one in restored:
        pattern = re.sub(r"\d+", "*", one.path)
        groups.setdefault(one.text(pattern), []).append(one)
    return [group[0].text() if len(group) == 1 else f"{text} ({len(group)} files)" for text, group in groups.items()]
