"""What a reader may wonder about in a claim that is true, in a fixed order.

Loader and layout traffic first, then priming reads and silent passes, the cache, read-ahead, merges, write-back,
pre-flushes, the journal, what the tool's ring does, discards; at last what could not be watched or judged.
"""

from __future__ import annotations

from ioassay.verify import tolerances
from ioassay.verify.case import LEFT_OUT, Case, Pool, is_direct
from ioassay.verify.claim_groups import calls_of
from ioassay.verify.evidence import URING
from ioassay.verify.statement import Amount, Code, Statement, state


def notes(case: Case) -> list[Statement]:
    """All that apply."""
    names = dict.fromkeys(name for claim in case.claims for name in claim.unreported if name in LEFT_OUT)
    left_out = [state(LEFT_OUT[name]) for name in names] if case.surplus != (0, 0) else []
    found = [*case.expected.notes, *_traffic(case), *_passes(case), *left_out]
    opened = any(calls_of(session, case.claim.kind).calls for session in case.group.sessions)
    unclaimed = opened and case.claim.direct is False and is_direct(case.group)
    found += [state(Code.DIRECT_UNCLAIMED)] if unclaimed else []
    return [*found, *_device(case.pool), *_limits(case)]


def _traffic(case: Case) -> list[Statement]:
    (operations, volume), group, seen = case.surplus, case.group, case.seen
    found = []
    if seen.source != "files" and (operations or volume) and volume <= seen.others_bytes:
        extra = Amount(operations if case.expected.operations is not None else None, volume)
        found.append(state(Code.OTHER_TRAFFIC, extra=extra))
    if seen.source == "files" and operations and not volume and operations <= seen.calls.short:
        found.append(state(Code.END_OF_FILE, calls=operations))
    if group.layout:
        found.append(state(Code.LAYOUT, written_bytes=sum(session.write.bytes for session in group.layout)))
    if seen.calls.errors:
        found.append(state(Code.CALLS_FAILED, errors=seen.calls.errors))
    if group.missing and group.named:
        found.append(state(Code.FILES_NOT_OPENED, files=tuple(group.missing[:3])))
    return found


def _passes(case: Case) -> list[Statement]:
    if not case.group.one_pass:
        return []
    primed, passes = case.claim.primed, case.claim.silent_passes
    silent = [state(Code.SILENT_PASSES, passes=passes + 1)] if passes else []
    return [*([state(Code.PRIMING_READ)] if primed else []), *silent]


def _device(pool: Pool) -> list[Statement]:
    device = pool.device
    found: list[Statement] = []
    if not device.known or not pool.bytes:
        return found
    if pool.claims > 1:
        found.append(state(Code.DEVICE_SHARED, claims=pool.claims))
    if pool.is_elsewhere:
        found.append(state(Code.OTHER_MACHINE))
    found += _requests(pool)
    own = device.own_bytes
    if pool.kind == "write" and pool.watched and pool.synced and own < pool.bytes * (1 - tolerances.of("device_share")):
        found.append(state(Code.KERNEL_WRITE_BACK, own_bytes=own))
    if device.virtual:
        found.append(state(Code.VIRTUAL_DEVICE, devices=tuple(device.virtual)))
    if device.discards and pool.kind == "write":
        found.append(state(Code.DISCARDED, requests=device.discards))
    return found


def _requests(pool: Pool) -> list[Statement]:
    """Fewer or more requests than calls."""
    device, requests, found = pool.device, pool.device.own_requests or 0, []
    if requests and device.own_bytes and requests < pool.operations * 0.999 and (code := _gathered(pool)):
        found.append(state(code, merges=device.merges, requests=requests, own_bytes=device.own_bytes))
    if pool.kind == "write" and pool.watched and pool.syncs and device.own_bytes:
        extra = device.own_bytes - pool.bytes
        if 0 < extra <= pool.bytes * tolerances.of("amplified"):
            found.append(state(Code.JOURNAL_BYTES, extra_bytes=extra))
        if requests > pool.operations:
            flushed = {"flushes": device.flushes, "writes": pool.operations, "syncs": pool.syncs}
            found.append(Statement(Code.FLUSHES, (("requests", requests), *flushed.items())))
    return found


def _gathered(pool: Pool) -> Code | None:
    """Why there were fewer requests than calls."""
    if pool.direct and pool.device.own_bytes < pool.bytes * (1 - tolerances.of("device_share")):
        return None  # merges change no bytes
    if pool.device.merges:
        return Code.REQUESTS_MERGED
    if pool.direct:
        return Code.CALLS_MERGED
    if pool.kind == "read" and pool.reached_bytes >= pool.bytes / 2:
        return Code.READ_AHEAD
    return Code.WRITE_BACK_GATHERED if pool.kind == "write" and pool.synced else None


def _limits(case: Case) -> list[Statement]:
    watched = case.observation
    found = [state(Code.RING_CALLS)] if case.claim.engine == URING else []
    if not case.group.one_pass and len(case.claims) > 1:
        found.append(state(Code.SUMMED, claims=len(case.claims)))
    if missed := watched.health.get("missed", 0):
        issued = sum(part.calls.calls for part in watched.block)
        found.append(state(Code.COMPLETIONS_MISSED, missed=missed, issued=issued))
    if not {"block", "record"} & set(watched.layers):
        found.append(state(Code.REQUESTS_UNWATCHED))
    if watched.why:
        found.append(state(Code.LESS_WATCHED, why=watched.why))
    return found
