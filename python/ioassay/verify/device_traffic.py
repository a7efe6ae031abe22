"""What reached the device: all of it, little because memory answered, nothing, later, or more than was claimed.

Calls were counted already and are as claimed. Several claims of one kind share what the device did, since a request
does not say for which call it was made. Bytes are those of the issue side, in the context of the process tree: reads
and direct writes are submitted there, above overlay, btrfs, loop devices and device-mapper too. What others did never
counts for a read. Where others do the work (ELSEWHERE), nothing is judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ioassay.formats import conventions
from ioassay.records.observation import READ, File, Observation, Session
from ioassay.records.record import Claim
from ioassay.verify import tolerances
from ioassay.verify.claim_groups import TRIM, Group, calls_of
from ioassay.verify.evidence import RINGS, Device
from ioassay.verify.operation_counts import Fault
from ioassay.verify.statement import Code, state
from ioassay.verify.verdict import AMPLIFIED, CACHED, DEFERRED, INCOMPLETE, UNSUBSTANTIATED

IN_MEMORY = frozenset({"tmpfs", "ramfs", "hugetlbfs", "devtmpfs"})
_MEMORY_DEVICES = ("zram", "ram")
ELSEWHERE = ("nfs", "cifs", "smb3", "9p", "virtiofs", "ceph", "glusterfs", "fuse", "zfs")
"""How types of filesystems begin whose devices are another machine's, or are used by others than the calls' tasks."""
COMPRESSED = frozenset({"btrfs", "bcachefs", "zfs", "f2fs", "erofs", "squashfs", "ntfs3", "ubifs", "jffs2"})
"""They may store fewer bytes than they give."""
_LEAST_COMPRESSED = 1 / 64
"""Of data, compressed: btrfs stores 4 KiB of 128 at least; a read of less is one of holes."""
_ABOVE_OTHERS = frozenset({"overlay", "ecryptfs"})
"""Their pages belong to inodes of the filesystem below."""
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
        """Mean size of a call."""
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


def judge_device(pool: Pool, jumps: int = 0) -> list[Fault]:
    """At most one fault; a category of true claims for all but direct I/O that no device did.

    `jumps` are calls that are claimed to be random and did not begin where the one before ended.
    """
    if not pool.bytes or pool.kind == TRIM or not pool.storage or pool.is_elsewhere:
        return []
    if memory := pool.in_memory:
        return [Fault(CACHED, "NO-DEVICE-IO", (state(Code.FILE_IN_MEMORY, filesystems=tuple(memory)),))]
    if not pool.is_known:
        return [Fault(INCOMPLETE, "DEVICE-NOT-OBSERVED", (state(Code.DEVICE_UNWATCHED),))] if pool.direct else []
    if pool.direct:
        return _direct(pool)
    if pool.kind == "write":
        return _written(pool)
    return _read(pool, jumps)


def _share(pool: Pool) -> float:
    return pool.reached_bytes / pool.bytes


def _direct(pool: Pool) -> list[Fault]:
    """Requests may be split and merged, and their bytes stay: a direct read has all of its bytes of the device."""
    code = Code.HOLES if pool.kind == "read" else Code.NO_REQUESTS
    without = state(code, calls_bytes=pool.bytes, device_bytes=pool.reached_bytes)
    compressed = pool.kind == "read" and bool(pool.filesystems & COMPRESSED)
    if _share(pool) < (_LEAST_COMPRESSED if compressed else tolerances.of("cached_share")):
        return [Fault(UNSUBSTANTIATED, "NO-DEVICE-IO", (without,))]
    if pool.kind == "read" and pool.watched and pool.filesystems:
        enough = pool.bytes * (1 - tolerances.of("device_share"))
        if pool.reached_bytes < enough:
            return [Fault(INCOMPLETE if compressed else UNSUBSTANTIATED, "NO-DEVICE-IO", (without,))]
        did = max(pool.device.own_bytes, pool.device.process_bytes or 0)
        if did - pool.elsewhere_bytes < enough:
            others = state(Code.DEVICE_FOR_OTHERS, others_bytes=pool.elsewhere_bytes, device_bytes=did)
            return [Fault(INCOMPLETE, "NO-DEVICE-IO", (others,))]
    return _amplified(pool) if pool.kind == "write" else []


def _read(pool: Pool, jumps: int) -> list[Fault]:
    share = _share(pool)
    read = state(Code.READ_SHARE, calls_bytes=pool.bytes, device_bytes=pool.reached_bytes, share=share)
    early = tolerances.of("prefetched_share")
    if pool.prefetched_bytes > pool.bytes * early and share < 1 - early:
        prefetched = state(Code.PREFETCHED, prefetched_bytes=pool.prefetched_bytes)
        return [Fault(CACHED, "PAGE-CACHE", (read, prefetched))]
    if share < tolerances.of("cached_share"):
        if _made_of_nothing(pool):
            return [Fault(CACHED, "NO-DEVICE-IO", (read, state(Code.PAGES_WITHOUT_DEVICE)))]
        return [Fault(CACHED, "PAGE-CACHE", (read, state(Code.PAGE_CACHE)))]
    requests = pool.device.own_requests or 0
    if 0 < requests < jumps * tolerances.of("cached_share") and pool.device.own_bytes >= pool.reached_bytes / 2:
        few = state(Code.FEW_REQUESTS, calls=jumps, requests=requests, device_bytes=pool.device.own_bytes)
        return [Fault(CACHED, "PAGE-CACHE", (few, state(Code.PAGE_CACHE)))]
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
    if pool.cancelled_bytes > pool.bytes * (1 - tolerances.of("cached_share")):
        cancelled = state(Code.CANCELLED, calls_bytes=pool.bytes, cancelled_bytes=pool.cancelled_bytes)
        return [Fault(CACHED, "ABSORBED", (cancelled,))]
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
    told_apart = groups[0].told_apart
    added = _added(files, observation, device)
    prefetched = sum(_before(file, observation) for file in files.values()) if added else 0
    by_operations = sum(part.calls.calls for part in observation.operations if part.kind == "sync")
    watched_syncs = groups[0].told_apart or any(part.kind == "sync" for part in observation.operations)
    return Pool(
        kind=kind,
        bytes=volume,
        operations=operations,
        device=device,
        claims=sum(len(group.claims) for group in groups),
        syncs=(sum(s.sync.calls for s in sessions) or by_operations) if watched_syncs else None,
        page_cache_bytes=None if added is None else sum(added) - prefetched,
        prefetched_bytes=prefetched,
        direct=direct,
        synced=synced.pop() if len(synced) == 1 else None if None in synced else False,
        filesystems=frozenset(file.filesystem for file in files.values() if file.filesystem and told_apart),
        devices=frozenset(file.device for file in files.values() if file.device and told_apart),
        storage=not files or not told_apart or any(f.kind in ("regular", "block") for f in files.values()),
        watched="block" in observation.layers or "record" in observation.layers,
        log=any("log-not-synced" in claim.doubts for group in groups for claim in group.claims),
        elsewhere_bytes=_read_elsewhere(files, observation, device) if told_apart else 0,
        direct_bytes=sum(calls_of(session, kind).bytes for session in sessions if "direct" in session.flags),
        cancelled_bytes=_cancelled(files, observation) if told_apart else 0,
    )


def _added(files: Mapping[int, File], observation: Observation, device: Device) -> list[int] | None:
    """What was read into the page cache for each file; None where that is not known."""
    sessions = [session for session in observation.sessions if session.file in files]
    if not files or any(session.write.calls for session in sessions):
        return None  # pages came in by writes as well
    by_ring = any(part.entry in RINGS and part.kind == READ for part in observation.operations)
    older = any(session.cached_bytes is None for session in sessions)  # without pages of other inodes than the file's
    added = []
    for file in files.values():
        own_inode = file.kind == "regular" and file.filesystem not in _ABOVE_OTHERS
        if file.page_cache_bytes is None or (by_ring and not own_inode):
            return None
        if older and not file.page_cache_bytes and device.own_bytes > tolerances.of("loader_device_bytes"):
            return None
        added.append(file.page_cache_bytes)
    return added


def _before(file: File, observation: Observation) -> int:
    """Of what was read into the page cache for the file, what came before its first read."""
    reading = [session for session in observation.sessions if session.file == file.id and session.read.calls]
    return min((session.cached_bytes or 0 for session in reading), default=0)


def _read_elsewhere(files: Mapping[int, File], observation: Observation, device: Device) -> int:
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
    return sum(others.values()) + sum(session.read.bytes for session in direct)


def _cancelled(files: Mapping[int, File], observation: Observation) -> int:
    """All that was deleted or truncated before its write-back, but for what was written to other files."""
    others = sum(session.write.bytes for session in observation.sessions if session.file not in files)
    return max(int(observation.counters.get("cancelled_write_bytes", 0)) - others, 0)
