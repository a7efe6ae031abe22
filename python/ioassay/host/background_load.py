"""What the machine is doing besides: load, busy processes, others' requests to the disk, background services.

Processes are seen twice, `observe_s` apart.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from ioassay.host.machine import Machine, known
from ioassay.process import process_table

OBSERVE_S = 0.2
BUSY_SHARE = 0.05
_MOST = 5

BACKGROUND = (
    "fstrim", "updatedb", "updatedb.mlocat", "updatedb.plocat", "mandb", "apt-get", "apt", "apt.systemd.dai", "dpkg",
    "unattended-upgr", "dnf", "rpm", "zypper", "pacman", "snapd-auto", "e2scrub", "xfs_scrub", "checkarray", "rsync",
    "borg", "restic", "duplicity", "clamscan", "aide", "tracker-extract", "baloo_file_extr", "mkfs.ext4", "badblocks",
    "shred", "dd",
)  # fmt: skip
"""Names (15 characters, as the kernel keeps them) of programs that use disks by themselves or for long."""

_WAITS = "--wait-for-signal"
"""Debian's unattended-upgrade-shutdown runs always and does nothing; it has the name of the one that works."""


def facts(
    machine: Machine,
    disks: Sequence[str],
    observe_s: float = OBSERVE_S,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Section `activity`; `disks` are kernel names whose requests are counted."""
    before = _processes(machine), _requests(machine, disks)
    sleep(observe_s)
    after = _processes(machine), _requests(machine, disks)
    loads = (machine.text("proc/loadavg") or "").split()
    uptime = (machine.text("proc/uptime") or "").split()
    return known(
        load=[float(load) for load in loads[:3]],
        uptime_s=float(uptime[0]) if uptime else None,
        steal_share=_steal_share(machine),
        observed_s=observe_s,
        busy=_busy(before[0], after[0], observe_s),
        disk_requests={name: count - before[1].get(name, 0) for name, count in after[1].items()},
        background=_background(machine, after[0]),
    )


def _processes(machine: Machine) -> dict[int, tuple[str, int]]:
    """Process -> name and ticks of processor time it used."""
    statuses = process_table.statuses(machine.root)
    return {pid: (status.name, status.user_ticks + status.system_ticks) for pid, status in statuses.items()}


def _busy(
    before: dict[int, tuple[str, int]], after: dict[int, tuple[str, int]], observe_s: float
) -> list[dict[str, Any]]:
    """The busiest processes other than this one; `share` 1.0 is one whole core."""
    per_tick = 1 / os.sysconf("SC_CLK_TCK") / observe_s if observe_s else 0.0
    found: list[tuple[float, int, str]] = []
    for pid, (name, ticks) in after.items():
        share = (ticks - before.get(pid, (name, ticks))[1]) * per_tick
        if share >= BUSY_SHARE and pid != os.getpid():
            found.append((share, pid, name))
    return [
        {"pid": pid, "name": name, "share": round(share, 2)} for share, pid, name in sorted(found)[: -_MOST - 1 : -1]
    ]


def _requests(machine: Machine, disks: Sequence[str]) -> dict[str, int]:
    """Requests that each disk has completed so far: reads and writes."""
    found = {}
    for line in machine.lines("proc/diskstats"):
        columns = line.split()
        if len(columns) > 7 and columns[2] in disks:
            found[columns[2]] = int(columns[3]) + int(columns[7])
    return found


def _background(machine: Machine, processes: dict[int, tuple[str, int]]) -> list[str]:
    found = {name for pid, (name, _) in processes.items() if name in BACKGROUND and not _waits(machine, pid)}
    return sorted(found)


def _waits(machine: Machine, pid: int) -> bool:
    return _WAITS in (machine.text(f"proc/{pid}/cmdline") or "")


def _steal_share(machine: Machine) -> float | None:
    """Of the processor time that this machine wanted since it started, the share that the hypervisor gave to others."""
    for line in machine.lines("proc/stat")[:1]:
        ticks = [int(column) for column in line.split()[1:]]
        if len(ticks) >= 8:
            user, nice, system, _idle, _iowait, irq, softirq, steal = ticks[:8]
            wanted = user + nice + system + irq + softirq + steal
            return round(steal / wanted, 4) if wanted else None
    return None
