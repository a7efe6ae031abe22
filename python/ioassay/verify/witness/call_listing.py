"""The calls on files that the witness lists one by one, as `strace -f -y -T` writes them: all in a file, or a sample.

The programs list them as they end (crates/witness). Here is what may be asked for, and what came of it.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ioassay.errors import UsageError
from ioassay.records.observation import BPF, EXPLAIN, SYSCALLS
from ioassay.verify.witness.capability import AUTO

SAMPLE = ""
"""The name of no file: the first and the last calls of each file are kept in memory."""


@dataclass(frozen=True)
class FileCalls:
    """The calls on one file: how many, and of a sample the first and the last of them, a line each."""

    path: str
    """'' for calls on no open file."""
    calls: int
    first: Sequence[str]
    last: Sequence[str]


@dataclass(frozen=True)
class CallListing:
    """The calls on files that were listed, in the order in which they ended."""

    calls: int
    files: Sequence[FileCalls]
    """Of a sample, in the order of their first use; of a listing in a file none."""
    file: Path | None
    """Where all of them are; None of a sample."""
    unlisted: int
    """Calls that found no room and are missing."""

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON-able form."""
        return {**asdict(self), "file": None if self.file is None else str(self.file)}


def destination(calls: str | None, level: str, backend: str, twins: int) -> str | None:
    """The absolute path of the file to list to; SAMPLE for a sample, None for no listing.

    UsageError for what cannot be combined with a listing, and for a path that is no file of an existing folder.
    """
    if calls is None:
        return None
    if level not in (SYSCALLS, EXPLAIN):
        raise UsageError(f"--calls and --level {level}: calls are seen at level {SYSCALLS}")
    if backend not in (AUTO, BPF):
        raise UsageError(f"--calls and --backend {backend}: calls are listed by {BPF}; strace has a listing of its own")
    if twins:
        raise UsageError("--calls and --twins: a listing is of one run; give one of them")
    path = Path(calls).absolute()
    if calls and (path.is_dir() or not path.parent.is_dir()):
        raise UsageError(f"--calls={calls}: not a file in a folder that exists; make the folder first")
    return str(path) if calls else SAMPLE


def taken_from(seen: MutableMapping[str, Any], listing: str | None) -> CallListing | None:
    """The listing to `listing` that the programs added to an observation, which has it no more; None of none."""
    table: Mapping[str, Any] | None = seen.pop("listing", None)
    if table is None:
        return None
    files = [FileCalls(**file) for file in table["files"]]
    return CallListing(table["calls"], files, Path(listing) if listing else None, seen["health"].get("unlisted", 0))
