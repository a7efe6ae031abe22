"""`ioassay witness --calls`: calls on files as strace shows them, a sample on the terminal or all in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay.cli import console
from ioassay.errors import UsageError

if TYPE_CHECKING:
    from ioassay.verify.witness import Observed

_MOST_FILES = 12


def target(calls: str | None, level: str, backend: str, twins: int) -> str | None:
    """The file to list to, whole; '' for a sample, None for no listing. UsageError says what does not go together."""
    from ioassay.records.observation import BPF, SYSCALLS
    from ioassay.verify.witness.capability import AUTO

    if calls is None:
        return None
    if level != SYSCALLS:
        raise UsageError(f"--calls and --level {level}: calls are seen at level {SYSCALLS}")
    if backend not in (AUTO, BPF):
        raise UsageError(f"--calls and --backend {backend}: calls are listed by {BPF}; strace has a listing of its own")
    if twins:
        raise UsageError("--calls and --twins: a listing is of one run; give one of them")
    path = Path(calls).absolute()
    if calls and (path.is_dir() or not path.parent.is_dir()):
        raise UsageError(f"--calls={calls}: not a file in a folder that exists; make the folder first")
    return str(path) if calls else ""


def as_dict(watched: Observed, listing: str) -> dict[str, Any]:
    """For --json: how many calls were listed of how many, and the sample."""
    listed = watched.listed or {"calls": 0, "files": []}
    return {"file": listing or None, **listed, "unlisted": _unlisted(watched)}


def say(watched: Observed, listing: str) -> None:
    """Where the listing is, or the sample itself."""
    if watched.listed is None:
        console.note("warning: calls could not be listed; the reason stands above")
        return
    calls, unlisted = watched.listed["calls"], _unlisted(watched)
    missing = f"; {unlisted:,} found no room and are missing" if unlisted else ""
    if listing:
        console.line(f"\n{console.count(calls, 'call')} on files listed in {listing}{missing}")
        return
    files = watched.listed["files"]
    shown = sum(len(each["first"]) + len(each["last"]) for each in _busiest(files))
    console.line(f"\nCalls on files, {shown:,} of {calls:,} (--calls=FILE lists all){missing}:")
    for each in _busiest(files):
        _say_file(each)
    if (more := len(files) - len(_busiest(files))) > 0:
        console.line(f"and {console.count(more, 'more file')}, of the system or with fewer calls")


def _say_file(each: Mapping[str, Any]) -> None:
    console.line(f"{each['path'] or 'of no open file'}: {console.count(each['calls'], 'call')}")
    skipped = each["calls"] - len(each["first"]) - len(each["last"])
    for line in (*each["first"], *([f"… {skipped:,} more"] if skipped else []), *each["last"]):
        console.line(f"    {line}")


def _busiest(files: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The files with the most calls, in the order of their first use; the system's where there are no others."""
    from ioassay.verify.claim_groups import is_of_system

    of_interest = [each for each in files if each["path"] and not is_of_system(each["path"])] or files
    most = {each["path"] for each in sorted(of_interest, key=lambda each: -each["calls"])[:_MOST_FILES]}
    return [each for each in files if each["path"] in most]


def _unlisted(watched: Observed) -> int:
    return watched.seen.health.get("unlisted", 0) if watched.seen is not None else 0
