"""Is this host fit to measure? Checks over host facts; each finding carries the command that fixes it.

Pure: facts in, warnings out. A run stores its facts, so an old run can be diagnosed anew with better checks.
Gathering facts is `ioassay.host`. To add a check: a small function in processor.py, system.py or storage.py, its line
in CHECKS, its tests, its line in docs/doctor.md.
"""

from __future__ import annotations

from collections.abc import Callable

from ioassay.doctor import processor, storage, system
from ioassay.doctor.look import Facts, Said
from ioassay.record import Warning_

__all__ = ["CHECKS", "diagnose"]

CHECKS: dict[str, Callable[[Facts], Said]] = {
    "leftover-restore-file": system.leftover_restore_file,
    "missing-tool": system.missing_tool,
    "memory-filesystem": storage.memory_filesystem,
    "overlay-filesystem": storage.overlay_filesystem,
    "network-filesystem": storage.network_filesystem,
    "compressing-filesystem": storage.compressing_filesystem,
    "low-free-space": storage.low_free_space,
    "disk-nearly-full": storage.nearly_full,
    "drive-failing": storage.drive_failing,
    "drive-hot": storage.drive_hot,
    "slow-link": storage.slow_link,
    "misaligned-partition": storage.misaligned,
    "raid-working": storage.raid_working,
    "disk-in-use": storage.disk_in_use,
    "background-services": system.background,
    "busy-processes": system.busy_processes,
    "high-load": system.high_load,
    "steal-time": system.steal_time,
    "virtual-machine": system.virtual_machine,
    "cpu-limit": system.cpu_limit,
    "cpu-affinity": system.cpu_affinity,
    "memory-limit": system.memory_limit,
    "io-limit": system.io_limit,
    "governor-not-performance": processor.governor,
    "no-governor": processor.no_governor,
    "turbo-on": processor.turbo,
    "deep-idle-states": processor.deep_idle,
    "cpu-throttled": processor.throttled,
    "on-battery": processor.on_battery,
    "slow-clock-source": system.slow_clock,
    "swap-in-use": system.swap_in_use,
    "low-memory": system.low_memory,
    "huge-pages-always": system.huge_pages,
    "scheduler": storage.scheduler,
    "read-ahead": storage.read_ahead,
    "write-back-cache": storage.write_back_cache,
    "access-times": storage.access_times,
    "discard-on-delete": storage.discard_on_delete,
    "layered-device": storage.layers,
    "old-kernel": system.old_kernel,
    "not-root": system.not_root,
    "no-witness": system.no_witness,
    "no-confinement": system.no_confinement,
}
"""Code -> check, in the order in which they are shown: what makes a measurement meaningless first."""


def diagnose(facts: Facts) -> list[Warning_]:
    """All that on this host could spoil a measurement, by facts of `ioassay.host.facts` (of today or of an old run)."""
    found = ((code, check(facts)) for code, check in CHECKS.items())
    return [Warning_(code, *said) for code, said in found if said is not None]
