"""How memory is used, from /proc/meminfo, and what paging did, from /proc/vmstat.

Sizes are bytes (the kernel's "kB" there are KiB). Only fields that explain an I/O measurement are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ioassay.monitors.field import COUNTER, GAUGE, Field
from ioassay.monitors.procfs import ProcFile
from ioassay.monitors.text_monitor import TextMonitor, Texts

_GAUGES: dict[bytes, tuple[str, str]] = {
    b"MemTotal": ("total_bytes", "that the kernel manages"),
    b"MemFree": ("free_bytes", "used for nothing"),
    b"MemAvailable": ("available_bytes", "could be had without swapping (the kernel's estimate)"),
    b"Buffers": ("buffers_bytes", "page cache of block devices"),
    b"Cached": ("cached_bytes", "page cache of files, tmpfs included"),
    b"Dirty": ("dirty_bytes", "page cache that waits to be written"),
    b"Writeback": ("writeback_bytes", "page cache being written"),
    b"AnonPages": ("anonymous_bytes", "memory of processes that no file backs"),
    b"Mapped": ("mapped_bytes", "files mapped into processes"),
    b"Shmem": ("shared_bytes", "shared memory and tmpfs"),
    b"Slab": ("slab_bytes", "the kernel's own objects"),
    b"SReclaimable": ("slab_reclaimable_bytes", "of these, what could be given back"),
    b"SwapTotal": ("swap_total_bytes", "swap space"),
    b"SwapFree": ("swap_free_bytes", "swap space that is not used"),
}
"""Line of /proc/meminfo -> field and meaning."""

_COUNTERS: dict[bytes, tuple[str, str, str]] = {
    b"pgpgin": ("paged_in_kib", "KiB", "read from block devices"),
    b"pgpgout": ("paged_out_kib", "KiB", "written to block devices"),
    b"pswpin": ("swapped_in_pages", "pages", "read from swap"),
    b"pswpout": ("swapped_out_pages", "pages", "written to swap"),
    b"pgfault": ("faults", "faults", "page faults"),
    b"pgmajfault": ("major_faults", "faults", "page faults that had to read"),
    b"pgscan_kswapd": ("scanned_kswapd_pages", "pages", "looked at by the reclaiming thread"),
    b"pgscan_direct": ("scanned_direct_pages", "pages", "looked at by processes that ran out of memory"),
    b"pgsteal_kswapd": ("reclaimed_kswapd_pages", "pages", "reclaimed by the reclaiming thread"),
    b"pgsteal_direct": ("reclaimed_direct_pages", "pages", "reclaimed by processes that ran out of memory"),
    b"workingset_refault_anon": ("refaulted_anonymous_pages", "pages", "swapped in soon after they were reclaimed"),
    b"workingset_refault_file": ("refaulted_file_pages", "pages", "read again soon after they were reclaimed"),
    b"nr_dirtied": ("dirtied_pages", "pages", "made dirty in the page cache"),
    b"nr_written": ("written_pages", "pages", "written back from the page cache"),
    b"oom_kill": ("oom_kills", "processes", "killed for want of memory"),
}
"""Line of /proc/vmstat -> field, unit and meaning."""

FIELDS: dict[str, Field] = {
    **{name: Field(GAUGE, "bytes", meaning) for name, meaning in _GAUGES.values()},
    **{name: Field(COUNTER, unit, meaning) for name, unit, meaning in _COUNTERS.values()},
}


class MemoryMonitor(TextMonitor):
    """Fields as in FIELDS, those that this kernel has."""

    name = "memory"

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__([ProcFile(root / "proc/meminfo"), ProcFile(root / "proc/vmstat")])

    def parse(self, texts: Texts) -> Mapping[str, float]:
        """One reading of both files."""
        meminfo, vmstat = texts
        reading: dict[str, float] = {}
        for line in meminfo.splitlines():
            key, _, rest = line.partition(b":")
            if gauge := _GAUGES.get(key):
                reading[gauge[0]] = int(rest.split(None, 1)[0]) * 1024
        words = vmstat.split()
        for key, value in zip(words[::2], words[1::2], strict=False):
            if counter := _COUNTERS.get(key):
                reading[counter[0]] = int(value)
        return reading


def make(root: Path, devices: Sequence[str]) -> MemoryMonitor:
    """For `ioassay.monitors.monitor`."""
    return MemoryMonitor(root)
