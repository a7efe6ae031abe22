"""What the block layer counted for chosen devices, from /proc/diskstats (Documentation/admin-guide/iostats.rst).

All fields raw. A sector is 512 bytes here whatever the device's own sector size. Times of requests that overlap add
up, so `read_ms` may grow faster than the clock; `io_ms` cannot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ioassay.monitors.field import COUNTER, GAUGE, Field
from ioassay.monitors.procfs import ProcFile
from ioassay.monitors.text_monitor import TextMonitor, Texts

_SECTORS = "sectors of 512 bytes"
FIELDS: dict[str, Field] = {
    "reads": Field(COUNTER, "requests", "reads completed"),
    "reads_merged": Field(COUNTER, "requests", "reads merged into others"),
    "read_sectors": Field(COUNTER, _SECTORS, "volume read"),
    "read_ms": Field(COUNTER, "ms", "time of all reads, summed"),
    "writes": Field(COUNTER, "requests", "writes completed"),
    "writes_merged": Field(COUNTER, "requests", "writes merged into others"),
    "write_sectors": Field(COUNTER, _SECTORS, "volume written"),
    "write_ms": Field(COUNTER, "ms", "time of all writes, summed"),
    "in_flight": Field(GAUGE, "requests", "requests issued and not completed"),
    "io_ms": Field(COUNTER, "ms", "time with at least one request in flight"),
    "weighted_io_ms": Field(COUNTER, "ms", "time with requests in flight, times their number"),
    "discards": Field(COUNTER, "requests", "discards completed (kernel 4.18)"),
    "discards_merged": Field(COUNTER, "requests", "discards merged into others"),
    "discard_sectors": Field(COUNTER, _SECTORS, "volume discarded"),
    "discard_ms": Field(COUNTER, "ms", "time of all discards, summed"),
    "flushes": Field(COUNTER, "requests", "cache flushes completed (kernel 5.5)"),
    "flush_ms": Field(COUNTER, "ms", "time of all flushes, summed"),
}
"""In the order of /proc/diskstats after major, minor and name."""

_OFTEN_UNUSED = (b"loop", b"ram", b"nbd")


class DiskMonitor(TextMonitor):
    """Fields `<device>.<field>`, for the named devices, or for all, loop devices and their like once used."""

    name = "disk"
    remedy = "name block devices as /proc/diskstats lists them"

    def __init__(self, devices: Sequence[str] = (), root: Path = Path("/")) -> None:
        super().__init__([ProcFile(root / "proc/diskstats")])
        self._wanted = frozenset(device.encode() for device in devices)
        self._names: dict[bytes, tuple[str, ...]] = {}

    def parse(self, texts: Texts) -> Mapping[str, float]:
        """One reading; a device that was unplugged is simply not in it."""
        reading: dict[str, float] = {}
        for line in texts[0].splitlines():
            columns = line.split()
            if len(columns) < 14 or not self._is_wanted(columns):
                continue
            reading.update(zip(self._names_of(columns[2]), map(int, columns[3:]), strict=False))
        return reading

    def _is_wanted(self, columns: Sequence[bytes]) -> bool:
        if self._wanted:
            return columns[2] in self._wanted
        # A disk that idles yet may begin: without a reading of zero its first requests would have nothing to be
        # subtracted from. Of loop devices and their like dozens may lie about unused.
        return not columns[2].startswith(_OFTEN_UNUSED) or any(column != b"0" for column in columns[3:])

    def _names_of(self, device: bytes) -> tuple[str, ...]:
        if device not in self._names:
            self._names[device] = tuple(f"{device.decode()}.{field}" for field in FIELDS)
        return self._names[device]


def make(root: Path, devices: Sequence[str]) -> DiskMonitor:
    """For `ioassay.monitors.monitor`."""
    return DiskMonitor(devices, root)
