"""`ioassay witness --calls`: calls on files as strace shows them, a sample on the terminal or all in a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ioassay.cli import console
from ioassay.verify.claim_groups import is_of_system

if TYPE_CHECKING:
    from ioassay.verify.witness.observed_command import CallListing, FileCalls

_MOST_FILES = 12


def say(listing: CallListing | None) -> None:
    """Where the listing is, or the sample itself."""
    if listing is None:
        console.note("warning: calls could not be listed; the reason stands above")
        return
    missing = f"; {listing.unlisted:,} found no room and are missing" if listing.unlisted else ""
    if listing.file is not None:
        console.line(f"\n{console.count(listing.calls, 'call')} on files listed in {listing.file}{missing}")
        return
    busiest = _busiest(listing.files)
    shown = sum(len(each.first) + len(each.last) for each in busiest)
    console.line(f"\nCalls on files, {shown:,} of {listing.calls:,} (--calls=FILE lists all){missing}:")
    for each in busiest:
        _say_file(each)
    if (more := len(listing.files) - len(busiest)) > 0:
        console.line(f"and {console.count(more, 'more file')}, of the system or with fewer calls")


def _say_file(each: FileCalls) -> None:
    console.line(f"{each.path or 'of no open file'}: {console.count(each.calls, 'call')}")
    skipped = each.calls - len(each.first) - len(each.last)
    for line in (*each.first, *([f"… {skipped:,} more"] if skipped else []), *each.last):
        console.line(f"    {line}")


def _busiest(files: Sequence[FileCalls]) -> list[FileCalls]:
    """The files with the most calls, in the order of their first use; the system's where there are no others."""
    of_interest = [each for each in files if each.path and not is_of_system(each.path)] or files
    most = {each.path for each in sorted(of_interest, key=lambda each: -each.calls)[:_MOST_FILES]}
    return [each for each in files if each.path in most]
