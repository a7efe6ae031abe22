"""Sentences that explain what a reader may wonder about in a claim that is true, in a fixed order.

Loader and layout traffic first, then priming reads and silent passes, the cache, read-ahead, merges, write-back,
pre-flushes, the journal, what the tool's ring does, discards; at last what could not be watched or judged.
"""

from __future__ import annotations

from ioassay.records.observation import Observation
from ioassay.units import format_size
from ioassay.verify import tolerances
from ioassay.verify.claim_groups import Group, calls_of
from ioassay.verify.device_traffic import ELSEWHERE, Pool, is_direct
from ioassay.verify.evidence import URING, Evidence
from ioassay.verify.operation_counts import Expected, left_out, surplus


def notes(group: Group, want: Expected, seen: Evidence, pool: Pool, observation: Observation) -> list[str]:
    """All that apply."""
    found = [*want.notes, *_traffic(group, want, seen), *_passes(group), *left_out_if_more(group, want, seen)]
    return [*found, *_opened(group), *_device(pool), *_ring(group, pool), *_limits(group, seen, observation)]


def left_out_if_more(group: Group, want: Expected, seen: Evidence) -> list[str]:
    """Ramp and layout, where they show."""
    return left_out(group.claims) if surplus(want, seen) != (0, 0) else []


def _traffic(group: Group, want: Expected, seen: Evidence) -> list[str]:
    operations, volume = surplus(want, seen)
    found = []
    if seen.source != "files" and (operations or volume) and volume <= seen.others_bytes:
        beside = f"{operations} calls and {format_size(volume)}" if want.operations is not None else format_size(volume)
        found.append(f"Beside the claim {beside} were seen: loaders, settings and printed results.")
    if seen.source == "files" and operations and not volume and operations <= seen.calls.short:
        calls = "1 more call" if operations == 1 else f"{operations} more calls"
        found.append(f"The end of the file was found by {calls}, which moved nothing.")
    if group.layout:
        volume = sum(session.write.bytes for session in group.layout)
        found.append(f"{format_size(volume)} were written to lay out its files; they are left out here.")
    if seen.calls.errors:
        found.append(f"{seen.calls.errors} of its calls failed.")
    if group.missing and group.named:
        found.append(f"It names {', '.join(group.missing[:3])} as well, which nobody opened.")
    return found


def _passes(group: Group) -> list[str]:
    if not group.one_pass:
        return []
    claim, found = group.claims[0], []
    if claim.primed:
        found.append("One record is read before the tool's clock starts (a priming read); it is left out here.")
    if claim.silent_passes:
        found.append(
            f"The tool makes {claim.silent_passes + 1} passes and reports the first; the other is left out here."
        )
    return found


def _opened(group: Group) -> list[str]:
    claim = group.claims[0]
    opened = [session for session in group.sessions if calls_of(session, claim.kind).calls]
    if not opened or claim.direct is None or is_direct(group) in (claim.direct, None):
        return []
    if claim.direct:
        return ["Warning: direct I/O was claimed, and its files were opened without O_DIRECT."]
    return ["Its files were opened with O_DIRECT, though it says that they were not."]


def _device(pool: Pool) -> list[str]:
    device = pool.device
    found: list[str] = []
    if not device.known or not pool.bytes:
        return found
    if pool.claims > 1:
        found.append(f"What the device did is judged for all {pool.claims} claims of this kind together.")
    if pool.filesystems & ELSEWHERE:
        found.append("Its files are on no block device of this machine: what answered was not seen.")
    found += _requests(pool)
    own = device.own_bytes
    if pool.kind == "write" and pool.watched and pool.synced and own < pool.bytes * (1 - tolerances.of("device_share")):
        found.append(
            f"{format_size(own)} were written in the command's own context; the rest by the kernel's write-back, "
            "which writes for everyone."
        )
    if device.stacked and own < pool.bytes <= device.any_bytes:
        found.append("A stacked device (loop, device-mapper) lies below: requests of its own threads are counted in.")
    if device.virtual:
        found.append(
            f"{' and '.join(device.virtual)} is no drive: a file or memory answered its requests, perhaps from a cache."
        )
    if device.discards and pool.kind == "write":
        found.append(f"Freed blocks were discarded as well (requests: {device.discards}).")
    return found


def _requests(pool: Pool) -> list[str]:
    """Fewer or more requests than calls."""
    device, requests, found = pool.device, pool.device.own_requests, []
    if requests and pool.operations and device.own_bytes:
        fewer = requests < pool.operations * 0.999
        if fewer and device.merges:
            found.append(f"{device.merges} requests were merged: {requests} moved {format_size(device.own_bytes)}.")
        elif fewer and pool.direct:
            found.append(f"Calls were merged: {requests} requests moved {format_size(device.own_bytes)}.")
        elif fewer and pool.kind == "read" and pool.reached_bytes >= pool.bytes / 2:
            found.append(f"Read-ahead: {requests} large requests brought {format_size(device.own_bytes)} in.")
        elif fewer and pool.kind == "write" and pool.synced:
            found.append(f"Write-back gathered pages: {requests} requests wrote {format_size(device.own_bytes)}.")
    if pool.kind == "write" and pool.watched and pool.syncs and device.own_bytes:
        extra = device.own_bytes - pool.bytes
        if 0 < extra <= pool.bytes * tolerances.of("amplified"):
            found.append(f"{format_size(extra)} more than claimed were written: journal and metadata.")
        if (requests or 0) > pool.operations:
            flushes = f" and {device.flushes} flushes" if device.flushes else ""
            found.append(
                f"{requests} requests{flushes} were made for {pool.operations} writes and {pool.syncs} "
                "synchronisations: each of these adds the journal's and empty pre-flushes."
            )
    return found


def _ring(group: Group, pool: Pool) -> list[str]:
    if group.claims[0].engine != URING:
        return []
    return ["With io_uring the number of system calls says nothing of the number of operations."]


def _limits(group: Group, seen: Evidence, observation: Observation) -> list[str]:
    found = []
    if group.one_pass is False and len(group.claims) > 1:
        found.append(f"{len(group.claims)} claims were judged by their sum.")
    if missed := observation.health.get("missed", 0):
        issued = sum(part.calls.calls for part in observation.block)
        share = f" of {issued}" if issued else ""
        found.append(
            f"Of {missed}{share} block requests the end was not seen; that touches their latencies, not the counts."
        )
    if not {"block", "record"} & set(observation.layers):
        found.append("Requests of the block layer were not watched one by one.")
    if observation.why:
        found.append(f"Watched less than asked for: {observation.why}.")
    return found
