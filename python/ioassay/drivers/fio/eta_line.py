"""Reads the status lines that a running fio writes about once a second (`--eta=always`): rates of the latest interval.

fio computes them in a thread of its main process from counters that its jobs keep anyway (`calc_thread_status` in
eta.c). `--status-interval` is deliberately not used: its values are means since the start, it makes each job stop for
getrusage(2), it changes the run times of running jobs in place while it prints (`__show_running_run_stats` in stat.c),
and it adds whole documents to the file of the results.
"""

from __future__ import annotations

import math
import re

from ioassay.roles import Rates

_PREFIXES = "kMGTPE"
_NUMBER = re.compile(r"[rwt]=([\d.]+)([kKMGTPE]?)(i?)(B/s|bit/s|)")
_LISTS = re.compile(r"\]\[((?:[rwt]=[^,\]]+,?)+)\]\[((?:[rwt]=[^,\] ]+,?)+) IOPS\]\[eta ")


def rates(output: str) -> Rates | None:
    """The rates of the last status that is complete, directions together.

    `Jobs: 1 (f=1): [m(1)][50.0%][r=3015MiB/s,w=31MiB/s][r=772k,w=8k IOPS][eta 00m:03s]\\r`. A line that is as complete
    and has no rates is that of jobs that did nothing. None before fio knows how long it will run: in its first three
    seconds.
    """
    lines = output.replace("\n", "\r").split("\r")[:-1]  # the rest is still being written
    last = next((line for line in reversed(lines) if line), "")
    if lists := _LISTS.search(last):
        return Rates(iops=_sum(lists[2]), bytes_per_s=_sum(lists[1]))
    return Rates(0.0, 0.0) if re.search(r"%\]\[eta ", last) else None


def _sum(numbers: str) -> float:
    return math.fsum(
        float(digits)
        * (1024 if binary else 1000) ** (_PREFIXES.index(prefix.replace("K", "k")) + 1 if prefix else 0)
        / (8 if unit == "bit/s" else 1)
        for digits, prefix, binary, unit in _NUMBER.findall(numbers)
    )
