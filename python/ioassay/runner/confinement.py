"""What one trial's processes may change: the second net under the checks that read what a tool is asked to do.

The first net judges paths before a tool runs. This one has the kernel hold the tool to them: the target, the trial's
raw folder, the paths that its parameters name for writing, and what its driver needs as well. Reading is free.
A file that is there gets a rule of its own, so that its neighbours stay closed. Where a tool makes or replaces a file
by itself, Landlock can only open the whole folder (docs/safety.md). A trial that is not confined bears a warning, and
the raw folder of every trial has CONFINEMENT.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioassay import debug_log
from ioassay.process import landlock
from ioassay.process.landlock import FILE, FOLDER, IOCTL_DEV, LAYOUT, MAKE_SYM, Linux, Rule, Ruleset
from ioassay.records.record import Warning_
from ioassay.roles import WRITE, Confinement, Load, Touch

CONFINEMENT = "confinement.json"
"""In a trial's raw folder: whether its processes were confined, and to what."""
CODE = "unconfined"
SINKS = tuple(Path("/dev", name) for name in ("null", "zero", "full"))
"""Devices that hold nothing, open to every tool."""
_FOLDER_MODE = 0o700
"""fio makes the folders of its files so (create_work_dirs in filesetup.c)."""
_RAW = FOLDER & ~MAKE_SYM
"""The lab writes files there too, and must not be led elsewhere."""
_RIGHTS = {
    FILE: "write",
    FOLDER: "everything below",
    _RAW: "everything below but symbolic links",
    LAYOUT: "make, write, remove files below",
    IOCTL_DEV: "ioctl",
}


@dataclass
class Net:
    """One trial's confinement. `ruleset` is None where there is none, and `why` says why not."""

    ruleset: Ruleset | None = None
    why: str = ""
    rules: Sequence[Rule] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the tool gets in addition to its own."""

    def refused(self, why: str) -> None:
        """The kernel made the ruleset and did not let the held child enter it."""
        if self.ruleset is not None and why:
            self.ruleset, self.why = None, f"the kernel did not let the tool enter its ruleset: {why}"

    @property
    def warnings(self) -> list[Warning_]:
        text = f"the trial's processes were not confined to what they may write: {self.why}"
        return [Warning_(CODE, text)] if self.why else []

    @property
    def document(self) -> dict[str, Any]:
        if self.ruleset is None:
            return {"confined": False, "why": self.why}
        granted = {rule.path for rule in self.ruleset.granted}
        paths: dict[str, list[str]] = {}
        for rule in self.rules:
            if rule.path in granted:
                paths.setdefault(str(rule.path), []).append(_RIGHTS[rule.rights])
        return {"confined": True, "landlock_abi": self.ruleset.abi, "may_change": paths}


@contextmanager
def spread(
    load: Load,
    touches: Iterable[Touch],
    raw: Path,
    needs: Confinement,
    programs: Iterable[str],
    kernel: Linux | None = None,
) -> Iterator[Net]:
    """The net of one trial, whose tool is started as `programs`. Files that it only writes are there before it runs:
    those that were made for it here, and that it did not take for its own, are gone in the end.
    """
    raw, touches, layouts = raw.absolute(), list(touches), frozenset(needs.layouts)
    with ExitStack() as stack:
        net = Net(why=_obstacle(needs, programs, kernel))
        if not net.why:
            for path in (touch.path for touch in touches if touch.access == WRITE):
                _prepare(stack, path, path in layouts)
            rules = [Rule(raw, _RAW), *(Rule(path, FILE) for path in SINKS)]
            if load.path is not None:  # a device that is only read answers ioctl calls: fio asks it for its size
                of_file = IOCTL_DEV if load.read_only else FILE
                rules.append(Rule(load.path, FOLDER if load.path.is_dir() else of_file))
            for path, access in ((touch.path, touch.access) for touch in touches):
                # fio opens a character device for writing also where it reads (generic_open_file in filesetup.c).
                if path.is_char_device() or (access == WRITE and not path.is_dir()):
                    rules.append(Rule(path, FILE))
                elif path.is_block_device():
                    rules.append(Rule(path, IOCTL_DEV))
                if access == WRITE and path in layouts and not (path.is_block_device() or path.is_char_device()):
                    # Where the path is a link, that is replaced by a file, or what it leads to is made.
                    rules += [Rule(place, LAYOUT) for place in (path.parent.resolve(), path.resolve().parent)]
            rules += [Rule(path, FOLDER if path.is_dir() else FILE) for path in needs.host]
            rules = list(dict.fromkeys(rules))
            try:
                ruleset = stack.enter_context(Ruleset(rules, kernel))
                net = Net(ruleset, rules=rules, environment={"TMPDIR": str(raw)})
            except OSError as error:
                net = Net(why=landlock.reason(error))
        debug_log.debug("confinement", f"{len(net.rules)} rules of Landlock" if net.ruleset else f"none: {net.why}")
        yield net


def _obstacle(needs: Confinement, programs: Iterable[str], kernel: Linux | None) -> str:
    """Why a trial cannot be confined; '' where it can."""
    if needs.waiver:
        return needs.waiver
    able = landlock.support(kernel)
    if not able.abi:
        return able.why
    if landlock.needs_no_new_privs() and (own := next(filter(landlock.gains_privileges, programs), "")):
        text = f"'{own}' is setuid or has file capabilities, and a confined program of a user loses these"
        return f"{text}; run ioassay as root to have both"
    return ""


def _prepare(stack: ExitStack, path: Path, is_layout: bool) -> None:
    """Make what a rule can be put on: the folders of a file that is to be made, as fio would, or the file itself.

    Where that fails, the tool fails at the same, and says so.
    """
    with suppress(OSError):
        if is_layout:
            for folder in reversed([place for place in path.parents if not place.exists()]):
                folder.mkdir(mode=_FOLDER_MODE)
            return
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        identity = os.fstat(handle)
        os.close(handle)

        def remove() -> None:
            """A tool may not remove it, such as the buffers of `mem=mmap:/path`, which fio unlinks."""
            with suppress(OSError):
                now = path.lstat()
                if (now.st_dev, now.st_ino) == (identity.st_dev, identity.st_ino):
                    path.unlink()

        stack.callback(remove)
