"""Cases: the claims that are judged together, what they expect, what was seen of it, and what devices did.

Several claims of one kind share what the device did, since a request does not say for which call it was made. Every
check takes a case alone. Nothing is judged here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ioassay.formats import conventions
from ioassay.records.observation import READ, WRITE, File, Observation, Session
from ioassay.records.record import RANDOM, Claim
from ioassay.verify import tolerances
from ioassay.verify.claim_groups import MAPPED, NULL, Group, calls_of, groups
from ioassay.verify.evidence import BY_NAME, RINGS, SPLICE, VSYNC, Device, Evidence, calls_seen, device_seen
from ioassay.verify.verdict import Amount, Code, Statement, state

IN_MEMORY = frozenset({"tmpfs", "ramfs", "hugetlbfs", "devtmpfs"})
_MEMORY_DEVICES = ("zram", "ram")
ELSEWHERE = ("nfs", "cifs", "smb3", "9p", "virtiofs", "ceph", "glusterfs", "fuse", "zfs")
"""How types of filesystems begin whose devices are another machine's, or are used by others than the calls' tasks."""
COMPRESSED = frozenset({"btrfs", "bcachefs", "zfs", "f2fs", "erofs", "squashfs", "ntfs3", "ubifs", "jffs2"})
"""They may store fewer bytes than they give."""
_ABOVE_OTHERS = frozenset({"overlay", "ecryptfs"})
"""Their pages belong to inodes of the filesystem below."""
LEFT_OUT = {
    "ramp": Code.LEFT_OUT_RAMP,
    "layout": Code.LEFT_OUT_LAYOUT,
    "other-tests": Code.LEFT_OUT_OTHER_TESTS,
    "own-files": Code.LEFT_OUT_OWN_FILES,
    "pre-read": Code.LEFT_OUT_PRE_READ,
}
"""Extra traffic that a tool says it leaves out of its numbers."""
_NOT_AS_CALLS = frozenset({"stdio", SPLICE, VSYNC})


@dataclass(frozen=True)
class Expected:
    """What must have been done for the claims of a group to be true; None for what is not claimed."""

    operations: int | None
    bytes: int | None
    rounded_bytes: float = 0.0
    """Printed in steps of so much."""
    notes: Sequence[Statement] = ()

    @property
    def amount(self) -> Amount:
        return Amount(self.operations, self.bytes)


def expected(group: Group) -> Expected:
    """The sum of the claims, and what is known to come beside them.

    The C library makes calls of its own size for stdio's records, a pipe divides what is spliced, and vsync has one
    call for what lies side by side, so that these are not counted. Nor are the bytes of files that are only created.
    """
    claims, notes = group.claims, []
    operations = total([None if claim.engine in _NOT_AS_CALLS else claim.operations for claim in claims])
    # Without bytes the rate alone is judged.
    volume = total([None if claim.engine in BY_NAME else claim.bytes for claim in claims])
    rounded = sum(claim.rate_unit_bytes for claim in claims if claim.operations is None)
    passes = [(claim, int(claim.primed), claim.silent_passes) for claim in claims]
    beside = sum(primed * (claim.record_bytes or 0) + silent * (claim.bytes or 0) for claim, primed, silent in passes)
    if beside and not group.one_pass:
        also = sum(primed + silent * (claim.operations or 0) for claim, primed, silent in passes)
        operations = None if operations is None else operations + also
        volume = None if volume is None else volume + beside
        notes.append(state(Code.SILENT_PASSES_COUNTED))
    return Expected(operations, volume, rounded if rounded > len(claims) else 0.0, notes)


def total(parts: Sequence[int | None]) -> int | None:
    """Their sum; None where one is not known, or there is none."""
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


@dataclass(frozen=True)
class Pool:
    """All claims of one kind: what calls moved, and what devices did for it."""

    kind: str
    bytes: int
    operations: int
    device: Device
    claims: int
    syncs: int | None
    """None when not watched."""
    page_cache_bytes: int | None
    direct: bool | None
    """How its files were opened, or what all claims say; None when unknown or mixed."""
    synced: bool | None
    """Whether the device must have the writes by the end of what is claimed; None when unknown."""
    filesystems: frozenset[str]
    storage: bool
    """Regular files or block devices; False for pipes and /dev/zero."""
    watched: bool
    """Requests of the block layer were watched."""
    reads_claimed: bool = False
    log: bool = False
    """A log among it is not synchronised."""
    elsewhere_bytes: int = 0
    """Read for other files, into the page cache or past it: the device may have done as much for them."""
    prefetched_bytes: int = 0
    """Read into the page cache for its files by the process tree before it first called for them."""
    direct_bytes: int = 0
    """Of `bytes`, those of files that were opened past the page cache."""
    cancelled_bytes: int = 0
    """At least so much was deleted or truncated before it was written back."""
    devices: frozenset[str] = frozenset()
    """Kernel's names of the block devices of the filesystems, where they are known."""

    @property
    def record_bytes(self) -> float:
        return self.bytes / self.operations if self.operations else 0.0

    @property
    def reached_bytes(self) -> int:
        """What the device surely did for these calls, while they were made."""
        own = self.device.own_bytes
        if self.kind == "read" or self.direct:
            own = max(own, self.device.process_bytes or 0)  # of devices without a request queue (dm, brd)
        if self.kind == "read" and self.page_cache_bytes is not None:
            own = min(own, self.page_cache_bytes + (self.bytes if self.direct else self.direct_bytes))
        return own

    @property
    def share(self) -> float:
        """Of the bytes of the calls, what the device surely did."""
        return self.reached_bytes / self.bytes

    @property
    def is_known(self) -> bool:
        """Whether all that devices did for the calls was seen: others' threads are not, where no account has it."""
        device, by_calls = self.device, self.kind == "read" or self.direct
        unseen = device.stacked and device.process_bytes is None and by_calls and device.own_bytes < self.bytes
        return device.known and not unseen and not self.is_elsewhere

    @property
    def in_memory(self) -> list[str]:
        """Filesystems and devices that are memory."""
        return sorted(self.filesystems & IN_MEMORY) or sorted(
            name for name in self.devices if name.rstrip("0123456789") in _MEMORY_DEVICES
        )

    @property
    def is_elsewhere(self) -> bool:
        """What served the calls cannot be seen."""
        return any(name.startswith(ELSEWHERE) for name in self.filesystems)


@dataclass(frozen=True)
class Case:
    """Claims that are judged together, with all that they are held against."""

    group: Group
    expected: Expected
    seen: Evidence
    pool: Pool
    observation: Observation
    mapped: Sequence[Claim] = ()
    """Of a claim on mapped files: all on the same, or all of writes, since the dirtied pages of a process are counted
    together."""
    contended: bool = False
    """Other programs used the processors: the tool may have waited for one at any moment."""
    exit_ok: bool = True
    """The command ended as it should."""

    @property
    def claims(self) -> Sequence[Claim]:
        return self.group.claims

    @property
    def claim(self) -> Claim:
        """The first: of its kind are all."""
        return self.group.claims[0]

    @property
    def is_amount_claimed(self) -> bool:
        return self.expected.operations is not None or self.expected.bytes is not None

    @property
    def is_by_device(self) -> bool:
        """Whether only the device can show it, since fewer calls were seen than would."""
        return bool(self.mapped) or self.seen.source == "nothing" or self.seen.bytes < (self.expected.bytes or 0)

    @property
    def is_pattern_claimed(self) -> bool:
        return any(claim.pattern or claim.working_set_bytes is not None for claim in self.claims)

    @property
    def leaves_out(self) -> bool:
        """Whether a tool says that it did more than it reports."""
        return _leaves_out(self.group)

    @cached_property
    def surplus(self) -> tuple[int, int]:
        """Operations and bytes that were seen beyond what was claimed."""
        pairs = ((self.seen.operations, self.expected.operations), (self.seen.bytes, self.expected.bytes))
        operations, volume = (max(there - claimed, 0) if claimed is not None else 0 for there, claimed in pairs)
        return operations, volume

    @cached_property
    def jumps(self) -> int:
        """Reads that are claimed to be random and did not begin where the one before ended; 0 where not known."""
        known = self.group.told_apart and self.claim.kind == READ and {each.pattern for each in self.claims} == {RANDOM}
        parts = [session.read_pattern for session in self.group.sessions] if known else []
        return sum(part.calls - part.sequential for part in parts if part is not None)

    @cached_property
    def unsure(self) -> tuple[str, Statement] | None:
        """Why fewer may have been seen than were made: a reason, and what it rests on."""
        doubts, health = self.claim.doubts, self.observation.health
        in_flight, unmatched = health.get("in_flight", 0), health.get("unmatched", 0)
        unmatched += health.get("in_flight_at_start", 0)
        if outlived := health.get("outlived", 0):
            return "CALLS-UNFINISHED", state(Code.PROCESSES_OUTLIVED, processes=outlived)
        if in_flight or unmatched:
            return "CALLS-UNFINISHED", state(Code.RESULTS_UNSEEN, in_flight=in_flight, unmatched=unmatched)
        if self.group.one_pass and "among-others" in doubts:
            return "SIDES-UNKNOWN", state(Code.OTHER_PROGRAMS)
        if "sides-unknown" in doubts and not self.group.named:
            return "SIDES-UNKNOWN", state(Code.FILES_UNKNOWN)
        return ("SPARSE", state(Code.ZEROS_SKIPPED)) if "sparse" in doubts else None


def cases(claims: Sequence[Claim], observation: Observation, *, contended: bool, exit_ok: bool) -> list[Case]:
    """Every claim in exactly one case, in the order of their first claims."""
    found = groups(claims, observation)
    pools = _pools(found, observation)
    return [
        Case(group, expected(group), calls_seen(group, observation), pools[_pool_key(group)], observation,
             _mapped(group, found), contended, exit_ok)
        for group in found
    ]  # fmt: skip


def _mapped(group: Group, others: Sequence[Group]) -> list[Claim]:
    kind, files = group.claims[0].kind, {file.id for file in group.files}
    if group.claims[0].engine != MAPPED:
        return []
    beside = [one for one in others if one.claims[0].engine == MAPPED]
    if kind == WRITE:
        return [claim for one in beside if one.claims[0].kind != READ for claim in one.claims]
    return [claim for one in beside if files & {file.id for file in one.files} for claim in one.claims]


def _leaves_out(group: Group) -> bool:
    return any(name in LEFT_OUT for claim in group.claims for name in claim.unreported)


def _pool_key(group: Group) -> tuple[str, bool | None]:
    return group.claims[0].kind, is_direct(group)


def _pools(grouped: Sequence[Group], observation: Observation) -> dict[tuple[str, bool | None], Pool]:
    """By kind of claim, and direct or not: what the device did is shared. What direct I/O took, the others lack."""
    members: dict[tuple[str, bool | None], list[Group]] = {}
    for group in grouped:
        members.setdefault(_pool_key(group), []).append(group)
    reads_claimed = any(kind in ("read", "mixed") for kind, _ in members)
    found: dict[tuple[str, bool | None], Pool] = {}
    for kind, direct in sorted(members, key=lambda key: key[1] is not True):
        here = members[kind, direct]
        files = {file.id: file for group in here for file in group.files}
        device = device_seen(replace(here[0], files=list(files.values())), observation)
        moved = [_moved(group, calls_seen(group, observation)) for group in here]
        own_bytes, most = device.own_bytes, sum(volume for _, volume in moved)
        if laid_out := sum(one.write.bytes for group in here for one in (*group.layout, *group.outside)):
            own_bytes = max(own_bytes - laid_out, min(own_bytes, most))
        if direct is True and len([one for one, _ in members if one == kind]) > 1:
            own_bytes = min(own_bytes, most)  # whose the rest was cannot be told
        if direct is not True and (beside := found.get((kind, True))):
            own_bytes = max(own_bytes - beside.bytes, 0)
            if device.process_bytes is not None:
                device = replace(device, process_bytes=max(device.process_bytes - beside.bytes, 0))
        pool = pool_of(here, moved, replace(device, own_bytes=own_bytes), observation, direct)
        found[kind, direct] = replace(pool, reads_claimed=reads_claimed)
    return found


def _moved(group: Group, seen: Evidence) -> tuple[int, int]:
    """Operations and bytes that devices should have done: what is claimed where others are among what was seen.

    What a tool does and leaves out of its numbers (a ramp) is done by devices as well.
    """
    claimed = expected(group)
    if group.claims[0].engine == NULL:
        return 0, 0
    if _leaves_out(group) and seen.bytes > (claimed.bytes or 0):
        return seen.operations, seen.bytes
    operations = claimed.operations if seen.source != "files" and claimed.operations else seen.operations
    volume = claimed.bytes if seen.source != "files" and claimed.bytes else seen.bytes
    return operations, volume or claimed.bytes or 0


def is_direct(group: Group) -> bool | None:
    """From the flags of its sessions that moved something; else as claimed."""
    kind = group.claims[0].kind
    opened = {"direct" in session.flags for session in group.sessions if calls_of(session, kind).calls}
    if len(opened) == 1:
        return opened.pop()
    said = {claim.direct for claim in group.claims}
    return said.pop() if not opened and len(said) == 1 else None


def is_synced(group: Group) -> bool | None:
    """Whether a synchronisation lies inside the claimed interval."""
    claim = group.claims[0]
    claimed = any("fsync" in one.includes or "end-fsync" in one.unreported or one.syncs for one in group.claims)
    writing = [session for session in group.sessions if session.write.calls]
    if writing and all(one.synchronous_writes >= one.write.calls - one.write.errors for one in writing):
        return True
    if not group.told_apart or not writing:
        return True if claimed else None if not group.told_apart else False
    synced = [session for session in group.sessions if session.sync.calls > session.sync.errors]
    if not conventions(claim.source).passes:
        return bool(synced)
    # Between the writes; after them only where the claimed interval includes it.
    inside = (
        one.sync.last_ns >= one.write.last_ns
        if "fsync" in claim.includes
        else one.write.first_ns < one.sync.first_ns < one.write.last_ns
        for one in synced
        if one.write.calls
    )
    return any(inside)


def pool_of(
    groups: Sequence[Group],
    moved: Sequence[tuple[int, int]],
    device: Device,
    observation: Observation,
    direct: bool | None,
) -> Pool:
    """All groups of one kind that are `direct` or not; None where that is not known.

    `moved` are the operations and bytes of each that count where files are not known.
    """
    kind, told_apart = groups[0].claims[0].kind, groups[0].told_apart
    files = {file.id: file for group in groups for file in group.files}
    known = list(files.values()) if told_apart else []
    outside = [session for group in groups for session in group.outside]
    others = {id(session) for group in groups for session in (*group.layout, *group.outside)}
    sessions = [s for s in observation.sessions if told_apart and s.file in files and id(s) not in others]
    if direct is not None:
        sessions = [s for s in sessions if ("direct" in s.flags) == direct]
    operations, volume = (sum(pair[at] for pair in moved) for at in (0, 1))
    if sessions:
        total = [calls_of(session, kind) for session in sessions]
        operations, volume = sum(part.calls for part in total), sum(part.bytes for part in total) or volume
    synced = {is_synced(group) for group in groups}
    added, prefetched = _added(files, observation, device, outside)
    # All that was deleted or truncated before its write-back, but for what was written to other files.
    others_bytes = sum(session.write.bytes for session in observation.sessions if session.file not in files)
    cancelled_bytes = max(int(observation.counters.get("cancelled_write_bytes", 0)) - others_bytes, 0)
    sync_calls = [part.calls.calls for part in observation.operations if part.kind == "sync"]
    syncs = sum(session.sync.calls for session in sessions) or sum(sync_calls)
    return Pool(
        kind=kind,
        bytes=volume,
        operations=operations,
        device=device,
        claims=sum(len(group.claims) for group in groups),
        syncs=syncs if told_apart or sync_calls else None,
        page_cache_bytes=added,
        prefetched_bytes=prefetched,
        direct=direct,
        synced=synced.pop() if len(synced) == 1 else None if None in synced else False,
        filesystems=frozenset(file.filesystem for file in known if file.filesystem),
        devices=frozenset(file.device for file in known if file.device),
        storage=not known or any(file.kind in ("regular", "block") for file in known),
        watched="block" in observation.layers or "record" in observation.layers,
        log=any("log-not-synced" in claim.doubts for group in groups for claim in group.claims),
        elsewhere_bytes=_read_elsewhere(files, observation, device, outside) if told_apart else 0,
        direct_bytes=sum(calls_of(session, kind).bytes for session in sessions if "direct" in session.flags),
        cancelled_bytes=cancelled_bytes if told_apart else 0,
    )


def _added(
    files: Mapping[int, File], observation: Observation, device: Device, outside: Sequence[Session]
) -> tuple[int | None, int]:
    """What was read into the page cache for the files by all sessions but those `outside`, and before these sessions;
    None if not known."""
    sessions = [session for session in observation.sessions if session.file in files]
    if not files or any(session.write.calls for session in sessions):
        return None, 0  # pages came in by writes as well
    by_ring = any(part.entry in RINGS and part.kind == READ for part in observation.operations)
    older = any(session.cached_bytes is None for session in sessions)  # without pages of other inodes than the file's
    added = before = 0
    for file in files.values():
        own_inode = file.kind == "regular" and file.filesystem not in _ABOVE_OTHERS
        if file.page_cache_bytes is None or (by_ring and not own_inode):
            return None, 0
        if older and not file.page_cache_bytes and device.own_bytes > tolerances.of("loader_device_bytes"):
            return None, 0
        reading = [session for session in sessions if session.file == file.id and session.read.calls]
        own = [session for session in reading if session not in outside]
        last_ns = max((session.read.last_ns for session in own), default=0)
        later = [session.cached_bytes for session in reading if session.read.first_ns > last_ns]
        added += min([file.page_cache_bytes, *(part for part in later if part is not None)])
        before += min((session.cached_bytes or 0 for session in own), default=0)
    return max(added - before, 0), before


def _read_elsewhere(
    files: Mapping[int, File], observation: Observation, device: Device, outside: Sequence[Session]
) -> int:
    """What its device must have done for other files, or any device where all that the process read is known."""
    devices = {file.dev for file in files.values()} if device.process_bytes is None else set()
    written = {session.file for session in observation.sessions if session.write.calls}
    without = IN_MEMORY | (COMPRESSED - {"btrfs"}) | {""}
    others = {
        file.id: 0 if file.id in written else file.page_cache_bytes or 0
        for file in observation.files
        if file.id not in files and (not devices or file.dev in devices)
        if file.filesystem not in without and not file.filesystem.startswith(ELSEWHERE)
    }
    direct = [session for session in observation.sessions if session.file in others and "direct" in session.flags]
    added = {file.id: file.page_cache_bytes or 0 for file in files.values()}
    again = [min(one.read.bytes, math.inf if "direct" in one.flags else added[one.file]) for one in outside]
    return sum(others.values()) + sum(session.read.bytes for session in direct) + int(sum(again))
