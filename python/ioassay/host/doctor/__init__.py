"""Is this host fit to measure? Checks over host facts; each finding carries the command that fixes it.

Pure: facts in, warnings out. A run stores its facts, so an old run can be diagnosed anew with better checks.
Gathering facts is `ioassay.host`. To add a check: a small function in system_checks.py or storage_checks.py, its line
in CHECKS, its tests, its line in docs/doctor.md.
"""

from __future__ import annotations

from collections.abc import Callable

from ioassay.host.doctor import storage_checks, system_checks
from ioassay.host.doctor.fact_lookup import Facts, Said
from ioassay.records.record import Warning_

__all__ = ["CHECKS", "diagnose"]

CHECKS: dict[str, Callable[[Facts], Said]] = {
    "leftover-restore-file": system_checks.leftover_restore_file,
    "memory-filesystem": storage_checks.memory_filesystem,
    "overlay-filesystem": storage_checks.overlay_filesystem,
    "network-filesystem": storage_checks.network_filesystem,
    "compressing-filesystem": storage_checks.compressing_filesystem,
    "low-free-space": storage_checks.low_free_space,
    "disk-nearly-full": storage_checks.nearly_full,
    "drive-failing": storage_checks.drive_failing,
    "drive-hot": storage_checks.drive_hot,
    "slow-link": storage_checks.slow_link,
    "misaligned-partition": storage_checks.misaligned,
    "raid-working": storage_checks.raid_working,
    "disk-in-use": storage_checks.disk_in_use,
    "background-services": system_checks.background,
    "busy-processes": system_checks.busy_processes,
    "high-load": system_checks.high_load,
    "steal-time": system_checks.steal_time,
    "virtual-machine": system_checks.virtual_machine,
    "cpu-limit": system_checks.cpu_limit,
    "cpu-affinity": system_checks.cpu_affinity,
    "memory-limit": system_checks.memory_limit,
    "io-limit": system_checks.io_limit,
    "governor-not-performance": system_checks.governor,
    "no-governor": system_checks.no_governor,
    "turbo-on": system_checks.turbo,
    "deep-idle-states": system_checks.deep_idle,
    "cpu-throttled": system_checks.throttled,
    "on-battery": system_checks.on_battery,
    "slow-clock-source": system_checks.slow_clock,
    "swap-in-use": system_checks.swap_in_use,
    "low-memory": system_checks.low_memory,
    "huge-pages-always": system_checks.huge_pages,
    "scheduler": storage_checks.scheduler,
    "read-ahead": storage_checks.read_ahead,
    "write-back-cache": storage_checks.write_back_cache,
    "access-times": storage_checks.access_times,
    "discard-on-delete": storage_checks.discard_on_delete,
    "layered-device": storage_checks.layers,
    "old-kernel": system_checks.old_kernel,
    "not-root": system_checks.not_root,
    "no-witness": system_checks.no_witness,
    "no-confinement": system_checks.no_confinement,
}
"""Code -> check, in the order in which they are shown: what makes a measurement meaningless first."""


def diagnose(facts: Facts) -> list[Warning_]:
    """All that on this host could spoil a measurement, by facts of `ioassay.host.facts` (of today or of an old run)."""
    found = ((code, check(facts)) for code, check in CHECKS.items())
    return [Warning_(code, *said) for code, said in found if said is not None]
