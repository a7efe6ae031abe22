"""Engines: did the bytes go the way into the kernel that is claimed?

Ways are counted for the whole process tree, so that what went one way is at most what was counted of it: less than the
claim's own calls moved cannot all have gone there.
"""

from __future__ import annotations

from collections.abc import Mapping

from ioassay.records.observation import SYSCALLS, Observation
from ioassay.verify import properties, tolerances
from ioassay.verify.claim_groups import MAPPED, Group
from ioassay.verify.evidence import AIO, SPLICE, URING, VSYNC, Evidence, kinds
from ioassay.verify.operation_counts import Expected, leaves_out, unsure
from ioassay.verify.statement import Code, state
from ioassay.verify.verdict import CONFIRMED, CONTRADICTED, INCOMPLETE, NOT_JUDGED, Property

_POSITIONED = frozenset({"pread64", "pwrite64"})
_VECTORS = frozenset({"readv", "writev"})
_POSITIONED_VECTORS = frozenset({"preadv", "pwritev", "preadv2", "pwritev2"})
_PLAIN = frozenset({"read", "write"}) | _POSITIONED | _VECTORS | _POSITIONED_VECTORS
WAYS: Mapping[str, frozenset[str]] = {
    "sync": _PLAIN | {"sendfile", "copy_file_range", "splice"},
    "stdio": _PLAIN,
    "psync": _POSITIONED,
    VSYNC: _VECTORS,
    "pvsync": _POSITIONED_VECTORS,
    "pvsync2": _POSITIONED_VECTORS,
    "posixaio": _PLAIN,
    AIO: frozenset({"aio"}),
    URING: frozenset({"uring"}),
    SPLICE: frozenset({"splice", "vmsplice", "tee"}),
    MAPPED: frozenset(),
}
"""Engine -> names of `Operation.entry`. 'sync' and the C library's own stand for any call that waits."""
_LAYERS = {"aio": "aio", "uring": "uring"}


def judge_engine(group: Group, want: Expected, seen: Evidence, observation: Observation) -> Property | None:
    """None where no engine is named. One that is not in WAYS is not judged."""
    engines = {claim.engine for claim in group.claims}
    if engines == {""}:
        return None
    ways = frozenset[str]().union(*(WAYS.get(name, frozenset()) for name in engines))
    least = min(seen.bytes, want.bytes or seen.bytes) - seen.others_bytes
    if (
        not engines <= WAYS.keys()
        or least <= 0
        or not _watched(ways, observation)
        or _mapped(engines, want, group, seen)
    ):
        return Property(properties.ENGINE, NOT_JUDGED)
    own = [part for part in observation.operations if part.kind in kinds(group.claims[0].kind)]
    moved, any_way = (sum(part.calls.bytes for part in own if part.entry in ways or every) for every in (False, True))
    if moved >= least * (1 - tolerances.of("engine_share")):
        return Property(properties.ENGINE, CONFIRMED)
    if any_way < least:  # operations were not all counted
        return Property(properties.ENGINE, NOT_JUDGED)
    other = state(Code.OTHER_ENGINE, engines=tuple(sorted(engines)), moved_bytes=moved, calls_bytes=seen.bytes)
    if cause := unsure(group, observation):
        return Property(properties.ENGINE, INCOMPLETE, cause[0], (other, cause[1]))
    return Property(properties.ENGINE, CONTRADICTED, "OTHER-ENGINE", (other,))


def _watched(ways: frozenset[str], observation: Observation) -> bool:
    """Whether each of these ways would have been seen."""
    return {_LAYERS.get(entry, SYSCALLS) for entry in ways or {""}} <= set(observation.layers)


def _mapped(engines: set[str], want: Expected, group: Group, seen: Evidence) -> bool:
    """Whether mapped files may have moved it: calls are then those that lay out or check a file."""
    if MAPPED not in engines:
        return False
    return group.claims[0].kind != "read" or leaves_out(group) or seen.bytes < (want.bytes or 0) / 2
