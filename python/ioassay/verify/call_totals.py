"""Calls and bytes by class, of the files that claims are about: what is shown beside a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.records.observation import READ, SYNC, WRITE, Calls, Observation
from ioassay.records.record import Claim
from ioassay.verify.claim_groups import KEYS, groups

_ANY = (Claim("user", READ), Claim("user", WRITE))
"""Claims that name nothing, for the files that are not the program's own."""


def classes(claims: Sequence[Claim], observation: Observation) -> dict[str, Calls]:
    """READ, WRITE and SYNC -> the calls on the files that the claims name, or that are no program's own.

    Where calls were not told apart by file, of all files; where calls were not watched, what was seen of them.
    """
    of_files = [claim for claim in claims if claim.kind != KEYS]
    found = groups(of_files or _ANY, observation)
    if not all(group.told_apart for group in found):
        return {kind: _of_all(kind, observation) for kind in (READ, WRITE, SYNC)}
    files = {file.id for group in found for file in group.files}
    total = dict.fromkeys((READ, WRITE, SYNC), Calls())
    for session in observation.sessions:
        if session.file in files:
            for kind in total:
                total[kind] = total[kind].plus(getattr(session, kind))
    return total


def _of_all(kind: str, observation: Observation) -> Calls:
    total = Calls()
    for operation in observation.operations:
        if operation.kind == kind:
            total = total.plus(operation.calls)
    return total
