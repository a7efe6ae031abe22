"""What a reader may wonder about in a claim that is true, in a fixed order.

Loader and layout traffic first, then priming reads and silent passes, the cache, read-ahead, merges, write-back,
pre-flushes, the journal, what the tool's ring does, discards; at last what could not be watched or judged.
"""

from __future__ import annotations

from ioassay.records.observation import Observation
from ioassay.verify import tolerances
from ioassay.verify.claim_groups import Group, calls_of
from ioassay.verify.device_traffic import Pool, is_direct
from ioassay.verify.evidence import URING, Evidence
from ioassay.verify.operation_counts import Expected, left_out, surplus
from ioassay.verify.statement import Amount, Code, Statement, state


def notes(group: Group, want: Expected, seen: Evidence, pool: Pool, observation: Observation) -> list[Statement]:
    """All that apply."""
    more = left_out(group.claims) if surplus(want, seen) != (0, 0) else []
    found = [*want.notes, *_traffic(group, want, seen), *_passes(group), *more]
    return [*found, *_opened(group), *_device(pool), *_limits(group, seen, observation)]


def _traffic(group: Group, want: Expected, seen: Evidence) -> list[Statement]:
    operations, volume = surplus(want, seen)
    found = []
    if seen.source != "files" and (operations or volume) and volume <= seen.others_bytes:
        extra = Amount(operations if want.operations is not None else None, volume)
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


def _passes(group: Group) -> list[Statement]:
    if not group.one_pass:
        return []
    claim = group.claims[0]
    primed = [state(Code.PRIMING_READ)] if claim.primed else []
    return [*primed, *([state(Code.SILENT_PASSES, passes=claim.silent_passes + 1)] if claim.silent_passes else ())]


def _opened(group: Group) -> list[Statement]:
    claim = group.claims[0]
    opened = [session for session in group.sessions if calls_of(session, claim.kind).calls]
    return [state(Code.DIRECT_UNCLAIMED)] if opened and claim.direct is False and is_direct(group) else []


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
    device, requests, found = pool.device, pool.device.own_requests, []
    if requests and pool.operations and device.own_bytes and requests < pool.operations * 0.999:
        code = None
        whole = device.own_bytes >= pool.bytes * (1 - tolerances.of("device_share"))  # merges change no bytes
        if pool.direct and not whole:
            pass
        elif device.merges:
            code = Code.REQUESTS_MERGED
        elif pool.direct:
            code = Code.CALLS_MERGED
        elif pool.kind == "read" and pool.reached_bytes >= pool.bytes / 2:
            code = Code.READ_AHEAD
        elif pool.kind == "write" and pool.synced:
            code = Code.WRITE_BACK_GATHERED
        if code:
            found.append(state(code, merges=device.merges, requests=requests, own_bytes=device.own_bytes))
    if pool.kind == "write" and pool.watched and pool.syncs and device.own_bytes:
        extra = device.own_bytes - pool.bytes
        if 0 < extra <= pool.bytes * tolerances.of("amplified"):
            found.append(state(Code.JOURNAL_BYTES, extra_bytes=extra))
        if (requests or 0) > pool.operations:
            found.append(
                state(
                    Code.FLUSHES,
                    requests=requests,
                    flushes=device.flushes,
                    writes=pool.operations,
                    syncs=pool.syncs,
                )
            )
    return found


def _limits(group: Group, seen: Evidence, observation: Observation) -> list[Statement]:
    found = [state(Code.RING_CALLS)] if group.claims[0].engine == URING else []
    if group.one_pass is False and len(group.claims) > 1:
        found.append(state(Code.SUMMED, claims=len(group.claims)))
    if missed := observation.health.get("missed", 0):
        issued = sum(part.calls.calls for part in observation.block)
        found.append(state(Code.COMPLETIONS_MISSED, missed=missed, issued=issued))
    if not {"block", "record"} & set(observation.layers):
        found.append(state(Code.REQUESTS_UNWATCHED))
    if observation.why:
        found.append(state(Code.LESS_WATCHED, why=observation.why))
    return found
