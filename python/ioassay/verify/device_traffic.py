"""What reached the device: all of it, little because memory answered, nothing, later, or more than was claimed.

Calls were counted already and are as claimed. Several claims of one kind share what the device did, since a request
does not say for which call it was made. Bytes are those of the issue side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ioassay.formats import conventions
from ioassay.records.observation import File, Observation, Session
from ioassay.records.record import Claim
from ioassay.verify import tolerances
from ioassay.verify.claim_groups import TRIM, Group, calls_of
from ioassay.verify.evidence import Device
from ioassay.verify.operation_counts import Fault
from ioassay.verify.statement import Code, state
from ioassay.verify.verdict import AMPLIFIED, CACHED, DEFERRED, INCOMPLETE, UNSUBSTANTIATED

IN_MEMORY = frozenset({"tmpfs", "ramfs", "hugetlbfs", "devtmpfs"})
ELSEWHERE = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "glusterfs", "fuse", "fuse.sshfs"})
"""What they read and write is on no block device of this machine, or not as far as can be seen."""
COMPRESSED = frozenset({"btrfs", "bcachefs", "zfs", "f2fs", "erofs", "squashfs", "ntfs3", "ubifs", "jffs2"})
"""They may store fewer bytes than they give."""
BY_WORKERS = frozenset({"btrfs", "bcachefs", "zfs", "overlay", "ecryptfs", "fuseblk"})
"""They hand requests to threads of the kernel, or lie on another filesystem."""
_PAGE_BYTES = 4096
_JOURNAL_BYTES = 128 * 1024
"""More than this for a synchronisation is not its journal: 4 KiB were measured."""


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
    """Read into the page cache for other files: the device may have done as much for them."""

    @property
    def record_bytes(self) -> float:
        """Mean size of a call."""
        return self.bytes / self.operations if self.operations else 0.0

    @property
    def reached_bytes(self) -> int:
        """What the device surely did for these calls: in their own context, or by those who work for it."""
        own = self.device.own_bytes
        if self.kind == "read" or self.direct:
            own = max(own, self.device.process_bytes or 0)  # of devices without a request queue (zram, brd)
        if self.kind == "read" and not self.direct and self._cache_was_watched(own):
            own = min(own, self.page_cache_bytes or 0)
        by_others = self.device.stacked or bool(self.filesystems & BY_WORKERS)
        return max(own, min(self.device.any_bytes, self.bytes)) if by_others and own < self.bytes else own

    def _cache_was_watched(self, own_bytes: int) -> bool:
        """Pages of block devices and of stacked filesystems belong to another inode than the file's."""
        loaders = tolerances.of("loader_device_bytes")
        return self.page_cache_bytes is not None and (self.page_cache_bytes > 0 or own_bytes <= loaders)


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
    if conventions(claim.source).passes:
        return any(_syncs_inside(session, claim) for session in writing)
    return any(session.sync.calls > session.sync.errors for session in group.sessions)


def _syncs_inside(session: Session, claim: Claim) -> bool:
    """Between the writes; after them only where the claimed interval includes it."""
    if session.sync.calls <= session.sync.errors:
        return False
    if "fsync" in claim.includes:
        return session.sync.last_ns >= session.write.last_ns
    return session.write.first_ns < session.sync.first_ns < session.write.last_ns


def judge_device(pool: Pool, observation: Observation) -> list[Fault]:
    """At most one fault; a category of true claims for all but direct I/O that no device did."""
    if not pool.bytes or pool.kind == TRIM or not pool.storage or pool.filesystems & ELSEWHERE:
        return []
    if memory := sorted(pool.filesystems & IN_MEMORY):
        return [Fault(CACHED, "NO-DEVICE-IO", (state(Code.FILE_IN_MEMORY, filesystems=tuple(memory)),))]
    if not pool.device.known:
        return [Fault(INCOMPLETE, "DEVICE-NOT-OBSERVED", (state(Code.DEVICE_UNWATCHED),))] if pool.direct else []
    if pool.direct:
        return _direct(pool)
    if pool.kind == "write":
        return _written(pool)
    return _read(pool)


def _share(pool: Pool) -> float:
    return pool.reached_bytes / pool.bytes


def _direct(pool: Pool) -> list[Fault]:
    """Requests may be split and merged, and their bytes stay: a direct read has all of its bytes of the device."""
    code = Code.HOLES if pool.kind == "read" else Code.NO_REQUESTS
    without = state(code, calls_bytes=pool.bytes, device_bytes=pool.reached_bytes)
    if _share(pool) < tolerances.of("cached_share"):
        return [Fault(UNSUBSTANTIATED, "NO-DEVICE-IO", (without,))]
    if pool.kind == "read" and pool.watched and pool.filesystems:
        enough = pool.bytes * (1 - tolerances.of("device_share"))
        if pool.reached_bytes < enough:
            compressed = pool.filesystems & COMPRESSED
            return [Fault(INCOMPLETE if compressed else UNSUBSTANTIATED, "NO-DEVICE-IO", (without,))]
        if pool.reached_bytes - pool.elsewhere_bytes < enough:
            others = state(Code.DEVICE_FOR_OTHERS, others_bytes=pool.elsewhere_bytes, device_bytes=pool.reached_bytes)
            return [Fault(INCOMPLETE, "NO-DEVICE-IO", (others,))]
    return _amplified(pool) if pool.kind == "write" else []


def _read(pool: Pool) -> list[Fault]:
    share = _share(pool)
    if share < tolerances.of("cached_share"):
        read = state(Code.READ_SHARE, calls_bytes=pool.bytes, device_bytes=pool.reached_bytes, share=share)
        if _made_of_nothing(pool):
            return [Fault(CACHED, "NO-DEVICE-IO", (read, state(Code.PAGES_WITHOUT_DEVICE)))]
        return [Fault(CACHED, "PAGE-CACHE", (read, state(Code.PAGE_CACHE)))]
    extra = tolerances.of("device_bytes")
    if pool.page_cache_bytes is None:
        extra = tolerances.of("loader_device_bytes")
    if pool.reached_bytes <= pool.bytes * (1 + tolerances.of("amplified")) + extra:
        return []
    more = state(Code.READ_MORE, calls_bytes=pool.bytes, device_bytes=pool.reached_bytes)
    if pool.record_bytes < _PAGE_BYTES:
        return [Fault(AMPLIFIED, "PAGE-SIZE", (more, state(Code.WHOLE_PAGES)))]
    return [Fault(AMPLIFIED, "READ-AHEAD", (more, state(Code.READ_AHEAD_EXTRA)))]


def _made_of_nothing(pool: Pool) -> bool:
    """Pages came into the cache without the device: holes."""
    added = pool.page_cache_bytes
    return added is not None and added >= pool.bytes / 2 and pool.device.own_bytes <= tolerances.of("device_bytes")


def _written(pool: Pool) -> list[Fault]:
    enough = pool.bytes * (1 - tolerances.of("device_share"))
    device = pool.device
    own = device.own_bytes if pool.watched else 0
    by_anyone = device.any_bytes if pool.watched else max(device.any_bytes - own, 0)
    if pool.synced is False or (own < enough and not pool.synced):
        return [_deferred(pool, own, by_anyone)]
    if pool.watched and max(own, by_anyone) < pool.bytes * tolerances.of("cached_share"):
        absorbed = state(Code.ABSORBED, calls_bytes=pool.bytes, device_bytes=max(own, by_anyone))
        return [Fault(CACHED, "ABSORBED", (absorbed,))]
    return _amplified(pool)


def _deferred(pool: Pool, own: int, by_anyone: int) -> Fault:
    statements = [state(Code.WRITTEN if pool.log else Code.WRITTEN_TO_CACHE, calls_bytes=pool.bytes)]
    if pool.watched:
        code = Code.DEVICE_RECEIVED_WITH_OTHERS if by_anyone > own else Code.DEVICE_RECEIVED
        statements.append(state(code, own_bytes=own, others_bytes=by_anyone - own))
    if pool.log:
        why = Code.LOG_NOT_SYNCED
    else:
        why = Code.NO_SYNC if pool.synced is None or not pool.syncs else Code.SYNC_OUTSIDE
    return Fault(DEFERRED, why.upper().replace("_", "-"), (*statements, state(why)))


def _amplified(pool: Pool) -> list[Fault]:
    own = pool.device.own_bytes
    if not pool.watched or own <= pool.bytes * (1 + tolerances.of("amplified")) + tolerances.of("device_bytes"):
        return []
    more = state(Code.WROTE_MORE, calls_bytes=pool.bytes, device_bytes=own)
    if pool.record_bytes < _PAGE_BYTES:
        read = pool.device.read_bytes if not pool.reads_claimed else 0
        first = [state(Code.READ_FIRST, read_bytes=read)] if read else []
        return [Fault(AMPLIFIED, "READ-MODIFY-WRITE", (more, *first, state(Code.READ_MODIFY_WRITE)))]
    if pool.syncs and (own - pool.bytes) / pool.syncs <= _JOURNAL_BYTES:
        journal = state(Code.JOURNAL, each_bytes=(own - pool.bytes) / pool.syncs, syncs=pool.syncs)
        return [Fault(AMPLIFIED, "JOURNAL", (more, journal))]
    return [Fault(AMPLIFIED, "METADATA", (more, state(Code.METADATA)))]


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
    kind = groups[0].claims[0].kind
    files = {file.id: file for group in groups for file in group.files}
    laid_out = {id(session) for group in groups for session in group.layout}
    sessions = [s for s in observation.sessions if s.file in files and id(s) not in laid_out]
    sessions = sessions if groups[0].told_apart else []
    if direct is not None:
        sessions = [s for s in sessions if ("direct" in s.flags) == direct]
    operations, volume = (sum(pair[at] for pair in moved) for at in (0, 1))
    if sessions:
        total = [calls_of(session, kind) for session in sessions]
        operations, volume = sum(part.calls for part in total), sum(part.bytes for part in total)
        volume = volume or sum(pair[1] for pair in moved)
    synced = {is_synced(group) for group in groups}
    added = [file.page_cache_bytes for file in files.values()]
    if any(session.write.calls for session in observation.sessions if session.file in files):
        added = []  # pages came in by writes as well
    by_operations = sum(part.calls.calls for part in observation.operations if part.kind == "sync")
    watched_syncs = groups[0].told_apart or any(part.kind == "sync" for part in observation.operations)
    return Pool(
        kind=kind,
        bytes=volume,
        operations=operations,
        device=device,
        claims=sum(len(group.claims) for group in groups),
        syncs=(sum(s.sync.calls for s in sessions) or by_operations) if watched_syncs else None,
        page_cache_bytes=sum(part for part in added if part is not None) if added and None not in added else None,
        direct=direct,
        synced=synced.pop() if len(synced) == 1 else None if None in synced else False,
        filesystems=frozenset(file.filesystem for file in files.values() if file.filesystem)
        if groups[0].told_apart
        else frozenset(),
        storage=not files or not groups[0].told_apart or any(f.kind in ("regular", "block") for f in files.values()),
        watched="block" in observation.layers or "record" in observation.layers,
        log=any("log-not-synced" in claim.doubts for group in groups for claim in group.claims),
        elsewhere_bytes=_read_elsewhere(files, observation) if groups[0].told_apart else 0,
    )


def _read_elsewhere(files: Mapping[int, File], observation: Observation) -> int:
    """Pages of other files on the same filesystem, which its device must have been read for."""
    devices = {file.dev for file in files.values()}
    written = {session.file for session in observation.sessions if session.write.calls}
    without = IN_MEMORY | ELSEWHERE | COMPRESSED | BY_WORKERS | {""}
    return sum(
        file.page_cache_bytes or 0
        for file in observation.files
        if file.id not in files and file.dev in devices and file.id not in written and file.filesystem not in without
    )
