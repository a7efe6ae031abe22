"""What a trial is expected to cost: seconds, bytes written, and when to give up waiting. Rough on purpose.

Assumptions are for a slow disk where a limit is needed (the timeout) and for a common one where a guess is.
"""

from __future__ import annotations

from collections.abc import Sequence

from ioassay.packs.fio.driver.section import ELSEWHERE, Section
from ioassay.roles import Estimate

_COMMON_BYTES_PER_S = 200e6
_SLOW_BYTES_PER_S = 1e6
"""A hard disk with small random requests."""
_FIO_ITSELF_S = 0.25
_MARGIN_S = 60.0
_AVERAGED = {"write_bw_log": 1, "write_iops_log": 1, "write_lat_log": 3}
"""Lines of a request in each log: write_lat_log makes three."""
_LOGS = {**_AVERAGED, "write_iolog": 1}
_LOG_LINE_BYTES = 40
"""Such as `59873, 1234567, 1, 4096, 1073741824, 0`."""
SERVED_S = 0.3
"""A virtual drive is started for each trial, and ended."""
NONE = Estimate(0.0, 0)
"""Of a trial that is skipped before anything is started."""


def estimate(stages: Sequence[Sequence[Section]], loaded_bytes: int | None) -> Estimate:
    """Cost of jobs that run in `stages`, one after the other; `loaded_bytes` is the size of their target if known."""
    jobs = [job for stage in stages for job in stage]
    seconds = _staged_s(stages, loaded_bytes, _COMMON_BYTES_PER_S)
    written = [_written_bytes(job, loaded_bytes) for job in jobs]
    known = [volume for volume in written if volume is not None]
    logged_bytes = sum(_logged_bytes(job, loaded_bytes) for job in jobs)
    volume = sum(known) if len(known) == len(written) else None
    return Estimate(seconds + _FIO_ITSELF_S, volume, recorded_bytes=logged_bytes)


def timeout_s(stages: Sequence[Sequence[Section]], loaded_bytes: int | None) -> float:
    """When a trial is taken to hang: twice its time on a slow disk, and a minute."""
    return 2 * _staged_s(stages, loaded_bytes, _SLOW_BYTES_PER_S) + _MARGIN_S


def _staged_s(stages: Sequence[Sequence[Section]], loaded_bytes: int | None, bytes_per_s: float) -> float:
    """The longest job of each stage, added up."""
    return sum(max((_seconds(job, loaded_bytes, bytes_per_s) for job in stage), default=0.0) for stage in stages)


def _seconds(job: Section, loaded_bytes: int | None, bytes_per_s: float) -> float:
    waiting_s = job.seconds("startdelay") + job.seconds("ramp_time")
    runtime_s = job.seconds("runtime")
    if job.time_based:
        return waiting_s + runtime_s * max(job.number("loops", 1), 1)
    volume = _volume_bytes(job, loaded_bytes)
    if volume is None:
        return waiting_s + runtime_s
    moving_s = volume / (bytes_per_s * (10 if job.engine in ELSEWHERE else 1))
    return waiting_s + (min(moving_s, runtime_s) if runtime_s else moving_s)


def _volume_bytes(job: Section, loaded_bytes: int | None) -> int | None:
    """What all clones of a job move when nothing but their size ends them."""
    size = job.bytes("io_size") or job.bytes("size") or loaded_bytes
    return None if size is None else size * job.numjobs * max(job.number("loops", 1), 1)


def _logged_bytes(job: Section, loaded_bytes: int | None) -> int:
    """What logs of single requests take; 0 where a time ends the job, or where fio averages over a window."""
    volume, smallest = _volume_bytes(job, loaded_bytes), min(job.block_sizes_bytes(), default=0)
    if job.time_based or volume is None or not smallest:
        return 0
    averaged = job.number("log_avg_msec", 0) > 0
    lines = sum(each for name, each in _LOGS.items() if name in job.options and not (averaged and name in _AVERAGED))
    return volume // smallest * lines * _LOG_LINE_BYTES


def _written_bytes(job: Section, loaded_bytes: int | None) -> int | None:
    if not job.writes or job.engine in ELSEWHERE or not job.directions & {"write"}:
        return 0
    volume = _volume_bytes(job, loaded_bytes)
    if job.time_based or volume is None:
        return None
    return round(volume * (job.write_share if "read" in job.directions else 1.0))
