"""Engines: did the bytes go the way into the kernel that is claimed?

Ways are counted for the whole process tree, so that what went one way is at most what was counted of it: less than the
claim's own calls moved cannot all have gone there.
"""

from __future__ import annotations

from collections.abc import Mapping

from ioassay.records.observation import SYSCALLS
from ioassay.verify import tolerances
from ioassay.verify.case import Case
from ioassay.verify.claim_groups import MAPPED
from ioassay.verify.evidence import AIO, SPLICE, URING, VSYNC, kinds
from ioassay.verify.statement import Code, state
from ioassay.verify.verdict import CONTRADICTED, INCOMPLETE, Fault, Finding

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


def judge_engine(case: Case) -> Finding | None:
    """None where no engine is named. One that is not in WAYS is not judged."""
    seen, layers = case.seen, set(case.observation.layers)
    engines = {claim.engine for claim in case.claims}
    if engines == {""}:
        return None
    ways = frozenset[str]().union(*(WAYS.get(name, frozenset()) for name in engines))
    # What is left out, or was done by others, may have gone another way.
    if case.expected.bytes is None and (case.leaves_out or seen.others_bytes):
        return Finding(judged=False)
    least = min(seen.bytes, case.expected.bytes or seen.bytes) - seen.others_bytes
    watched = {_LAYERS.get(entry, SYSCALLS) for entry in ways or {""}} <= layers
    if not engines <= WAYS.keys() or least <= 0 or not watched or (MAPPED in engines and _may_be_mapped(case)):
        return Finding(judged=False)
    own = [part for part in case.observation.operations if part.kind in kinds(case.claim.kind)]
    moved, any_way = (sum(part.calls.bytes for part in own if part.entry in ways or every) for every in (False, True))
    if moved >= least * (1 - tolerances.of("engine_share")):
        return Finding()
    if any_way < least:  # operations were not all counted
        return Finding(judged=False)
    other = state(Code.OTHER_ENGINE, engines=tuple(sorted(engines)), moved_bytes=moved, calls_bytes=seen.bytes)
    if case.unsure:
        return Finding([Fault(INCOMPLETE, case.unsure[0], (other, case.unsure[1]))])
    return Finding([Fault(CONTRADICTED, "OTHER-ENGINE", (other,))])


def _may_be_mapped(case: Case) -> bool:
    """Whether mapped files may have moved it: calls are then those that lay out or check a file."""
    return case.claim.kind != "read" or case.leaves_out or case.seen.bytes < (case.expected.bytes or 0) / 2
