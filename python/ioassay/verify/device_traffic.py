"""What reached the device: all of it, little because memory answered, nothing, later, or more than was claimed.

Calls were counted already and are as claimed. Several claims of one kind share what the device did, since a request
does not say for which call it was made. Bytes are those of the issue side, in the context of the process tree: reads
and direct writes are submitted there, above overlay, btrfs, loop devices and device-mapper too. What others did never
counts for a read. Where others do the work (ELSEWHERE), nothing is judged.
"""

from __future__ import annotations

from ioassay.records.observation import Calls
from ioassay.verify import tolerances
from ioassay.verify.case import COMPRESSED, Case, Pool
from ioassay.verify.claim_groups import TRIM
from ioassay.verify.evidence import skipped
from ioassay.verify.verdict import AMPLIFIED, CACHED, DEFERRED, INCOMPLETE, UNSUBSTANTIATED, Code, Fault, Finding, state

_LEAST_COMPRESSED = 1 / 64
"""Of data, compressed: btrfs stores 4 KiB of 128 at least; a read of less is one of holes."""
_PAGE_BYTES = 4096
_JOURNAL_BYTES = 128 * 1024
"""More than this for a synchronisation is not its journal: 4 KiB were measured."""


def judge_device(case: Case) -> Finding | None:
    """At most one fault; a category of true claims for all but direct I/O that no device did.

    None where there is no device to do it.
    """
    pool = case.pool
    written_bytes = sum(session.write.bytes for session in case.group.sessions)
    few = written_bytes < case.seen.bytes * tolerances.of("cached_share")
    if few and skipped(case.group, Calls(bytes=written_bytes)):
        return Finding([Fault(CACHED, "SPARSE", (state(Code.ZEROS_COUNTED, written_bytes=written_bytes),))])
    if not pool.bytes or not pool.storage or pool.kind == TRIM:
        return None
    if (memory := pool.in_memory) and not pool.is_elsewhere:
        return Finding([Fault(CACHED, "NO-DEVICE-IO", (state(Code.FILE_IN_MEMORY, filesystems=tuple(memory)),))])
    if not pool.is_known:
        unwatched = Fault(INCOMPLETE, "DEVICE-NOT-OBSERVED", (state(Code.DEVICE_UNWATCHED),))
        return Finding([unwatched] if pool.direct and not pool.is_elsewhere else [], judged=False)
    if pool.direct:
        return Finding(_direct(pool))
    return Finding(_written(pool) if pool.kind == "write" else _read(pool, case.jumps))


def _direct(pool: Pool) -> list[Fault]:
    """Requests may be split and merged, and their bytes stay: a direct read has all of its bytes of the device."""
    code = Code.HOLES if pool.kind == "read" and pool.filesystems else Code.NO_REQUESTS
    without = state(code, calls_bytes=pool.bytes, device_bytes=pool.reached_bytes)
    compressed = pool.kind == "read" and bool(pool.filesystems & COMPRESSED)
    if pool.share < (_LEAST_COMPRESSED if compressed else tolerances.of("cached_share")):
        if not pool.filesystems:
            return [Fault(INCOMPLETE, "NO-DEVICE-IO", (without, state(Code.FILESYSTEM_UNKNOWN)))]
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
    share = pool.share
    read = state(Code.READ_SHARE, calls_bytes=pool.bytes, device_bytes=pool.reached_bytes, share=share)
    early = tolerances.of("prefetched_share")
    if pool.prefetched_bytes > pool.bytes * early and share < 1 - early:
        prefetched = state(Code.PREFETCHED, prefetched_bytes=pool.prefetched_bytes)
        return [Fault(CACHED, "PAGE-CACHE", (read, prefetched))]
    if share < tolerances.of("cached_share"):
        added = pool.page_cache_bytes or 0  # pages came into the cache without the device: holes
        if added >= pool.bytes / 2 and pool.device.own_bytes <= tolerances.of("device_bytes"):
            return [Fault(CACHED, "NO-DEVICE-IO", (read, state(Code.PAGES_WITHOUT_DEVICE)))]
        return [Fault(CACHED, "PAGE-CACHE", (read, state(Code.PAGE_CACHE)))]
    requests = pool.device.own_requests or 0
    if 0 < requests < jumps * tolerances.of("cached_share") and pool.device.own_bytes >= pool.reached_bytes / 2:
        few = state(Code.FEW_REQUESTS, calls=jumps, requests=requests, device_bytes=pool.device.own_bytes)
        return [Fault(CACHED, "PAGE-CACHE", (few, state(Code.PAGE_CACHE)))]
    extra = tolerances.of("loader_device_bytes" if pool.page_cache_bytes is None else "device_bytes")
    if pool.reached_bytes <= pool.bytes * (1 + tolerances.of("amplified")) + extra:
        return []
    more = state(Code.READ_MORE, calls_bytes=pool.bytes, device_bytes=pool.reached_bytes)
    small = pool.record_bytes < _PAGE_BYTES
    why = state(Code.WHOLE_PAGES if small else Code.READ_AHEAD_EXTRA)
    return [Fault(AMPLIFIED, "PAGE-SIZE" if small else "READ-AHEAD", (more, why))]


def _written(pool: Pool) -> list[Fault]:
    enough = pool.bytes * (1 - tolerances.of("device_share"))
    device = pool.device
    own = device.own_bytes if pool.watched else 0
    by_anyone = device.any_bytes if pool.watched else max(device.any_bytes - own, 0)
    if pool.synced is False or (own < enough and not pool.synced):
        statements = [state(Code.WRITTEN if pool.log else Code.WRITTEN_TO_CACHE, calls_bytes=pool.bytes)]
        if pool.watched:
            code = Code.DEVICE_RECEIVED_WITH_OTHERS if by_anyone > own else Code.DEVICE_RECEIVED
            statements.append(state(code, own_bytes=own, others_bytes=by_anyone - own))
        why = Code.NO_SYNC if pool.synced is None or not pool.syncs else Code.SYNC_OUTSIDE
        why = Code.LOG_NOT_SYNCED if pool.log else why
        return [Fault(DEFERRED, why.upper().replace("_", "-"), (*statements, state(why)))]
    if pool.watched and max(own, by_anyone) < pool.bytes * tolerances.of("cached_share"):
        absorbed = state(Code.ABSORBED, calls_bytes=pool.bytes, device_bytes=max(own, by_anyone))
        return [Fault(CACHED, "ABSORBED", (absorbed,))]
    if pool.cancelled_bytes > pool.bytes * (1 - tolerances.of("cached_share")):
        cancelled = state(Code.CANCELLED, calls_bytes=pool.bytes, cancelled_bytes=pool.cancelled_bytes)
        return [Fault(CACHED, "ABSORBED", (cancelled,))]
    return _amplified(pool)


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
