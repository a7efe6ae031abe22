"""Latencies that cannot be: a part of a request's time that took longer than the whole.

fio 3.33 does not see when the kernel's thread takes a request from the ring (io_uring with sqthread_poll): its
completion latencies are then hours, in a run of a second, and submission latencies are missing. The total is right.
What the tool wrote stays in the trial's raw output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ioassay.drivers.fio.fio_results import Direction, Latency, Results
from ioassay.records.record import Warning_

_ROOM = 2.0
"""Maxima of parts and whole are of different clocks' readings; what is wrong is so by orders of magnitude."""


def without_impossible(results: Results) -> tuple[Results, list[Warning_]]:
    """The results without such latencies, and a warning that says which."""
    gone: dict[str, None] = {}
    jobs = []
    for job in results.jobs:
        kept: dict[str, Direction] = {}
        for name, direction in job.directions.items():
            bad = _impossible(direction.latencies)
            gone |= dict.fromkeys(bad)
            left = {kind: latency for kind, latency in direction.latencies.items() if kind not in bad}
            kept[name] = replace(direction, latencies=left)
        jobs.append(replace(job, directions=kept))
    if not gone:
        return results, []
    text = f"fio's {' and '.join(gone)} is longer than requests took as a whole, so it is left out"
    remedy = "use the total latency (lat); with sqthread_poll fio cannot tell submission from completion"
    return replace(results, jobs=jobs), [Warning_("impossible-latency", text, remedy)]


def _impossible(latencies: Mapping[str, Latency]) -> list[str]:
    whole = latencies.get("lat")
    if whole is None:
        return []
    return [kind for kind in ("slat", "clat") if kind in latencies and latencies[kind].max_ns > _ROOM * whole.max_ns]
