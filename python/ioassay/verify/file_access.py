"""Files and how they were opened: were the claim's own files used, and past the page cache where that is claimed?

Flags are those of the open file, as fcntl(2) sets them. Older observations have those of the beginning only: then pages
that came into the cache, or a device that did nothing, decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ioassay.records.observation import Session
from ioassay.verify import tolerances
from ioassay.verify.case import Case
from ioassay.verify.claim_groups import calls_of
from ioassay.verify.evidence import BY_NAME
from ioassay.verify.statement import Code, state
from ioassay.verify.verdict import CONTRADICTED, INCOMPLETE, UNSUBSTANTIATED, Fault, Finding

_OVERFLOWED = Finding([Fault(INCOMPLETE, "EVENTS-LOST", (state(Code.TOO_MANY_FILES),))])
"""Not without a judgement: else opening files until the tables are full would hide how it was done."""


def judge_files(case: Case) -> Finding | None:
    """None where no file is named.

    The words of a tool's own arguments are its files; a name that a parser derives from others may be wrong.
    """
    group = case.group
    if not any(claim.paths for claim in case.claims):
        return None
    if group.overflowed:
        return _OVERFLOWED
    if not group.told_apart or case.claim.engine in BY_NAME:
        return Finding(judged=False)
    return Finding([] if group.named or not group.missing else [_not_opened(case)])


def _not_opened(case: Case) -> Fault:
    group = case.group
    missing = state(Code.FILES_NOT_OPENED, files=tuple(group.missing[:3]))
    moved = sum(calls_of(session, case.claim.kind).bytes for session in group.others or group.sessions)
    elsewhere = state(Code.OTHER_FILES, moved_bytes=moved)
    if group.files:  # judged by these, since the names may be wrong
        return Fault(INCOMPLETE, "OTHER-FILES", (missing, elsewhere))
    if not moved or moved < sum(claim.bytes or 0 for claim in case.claims) / 2:
        return Fault(UNSUBSTANTIATED, "NOTHING-SEEN", (missing,))
    return Fault(CONTRADICTED, "OTHER-FILES", (missing, elsewhere))


def judge_direct(case: Case) -> Finding | None:
    """None where direct I/O is not claimed. A file may be opened both ways: enough must have gone past the cache."""
    claims = [claim for claim in case.claims if claim.direct]
    if not claims:
        return None
    if case.group.overflowed:
        return _OVERFLOWED
    kind = claims[0].kind
    used = [session for session in case.group.sessions if calls_of(session, kind).bytes]
    if not case.group.told_apart or not used:
        return Finding(judged=False)
    through = _buffered(used, kind, len(claims))
    buffered = sum(calls_of(session, kind).bytes for session in through)
    direct = sum(calls_of(session, kind).bytes for session in used) - buffered
    volumes = [claim.bytes for claim in claims if claim.bytes is not None]
    if len(volumes) < len(claims) < len(case.claims):  # what the others moved is not known apart
        return Finding(judged=False)
    enough = not buffered or (len(volumes) == len(claims) and direct >= sum(volumes))
    return Finding([] if enough else [_not_direct(case, through, buffered)])


def _not_direct(case: Case, through: Sequence[Session], buffered: int) -> Fault:
    """Of sessions that moved `buffered` bytes through the page cache."""
    seen, opened = case.observation, state(Code.NOT_DIRECT, calls_bytes=buffered)
    if case.unsure:
        return Fault(INCOMPLETE, case.unsure[0], (opened, case.unsure[1]))
    if not seen.flags_followed and (not seen.calls or seen.calls.get("fcntl")):
        numbers = {session.file for session in through}
        added = sum(file.page_cache_bytes or 0 for file in case.group.files if file.id in numbers)
        pool, share = case.pool, tolerances.of("cached_share")
        did = max(pool.device.own_bytes, pool.device.process_bytes or 0)
        may_have = not pool.is_known or pool.in_memory or did >= buffered * share  # or no device had to
        if added < buffered * share and may_have:
            return Fault(INCOMPLETE, "NOT-DIRECT", (opened, state(Code.FLAGS_MAY_CHANGE)))
    return Fault(CONTRADICTED, "NOT-DIRECT", (opened,))


def _buffered(sessions: Sequence[Session], kind: str, runs: int) -> list[Session]:
    """Those that went through the page cache.

    dd clears O_DIRECT for its last block where that is a part of one. So for each of `runs`, a single call that moves
    less than a direct one did is left out, and no more: they could be half of all.
    """
    records: dict[int, float] = defaultdict(float)
    for session in sessions:
        calls = calls_of(session, kind)
        if "direct" in session.flags:
            records[session.file] = max(records[session.file], calls.bytes / calls.calls)
    through = [session for session in sessions if "direct" not in session.flags]
    moved = [(session, calls_of(session, kind)) for session in through]
    rest = [session for session, calls in moved if calls.calls > 1 or calls.bytes >= records[session.file]]
    return rest if len(through) - len(rest) <= runs else through
