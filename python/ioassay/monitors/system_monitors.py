"""What the kernel counts for the whole machine in files of /proc: one class with its table of fields for each.

Raw numbers: shares and rates need two readings and are an analysis's business. Of lines by position, the table is in
the order of the line. Only fields that explain an I/O measurement are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import ClassVar, Self

from ioassay.monitors.text_monitor import COUNTER, GAUGE, Field, ListedMonitor, TextMonitor, Texts


class NullMonitor(ListedMonitor):
    """Counts its own readings: it tests the sampler and measures what sampling itself costs."""

    name = "null"
    FIELDS: ClassVar[Mapping[str, Field]] = {"readings": Field(COUNTER, "readings", "how often this monitor was read")}
    _readings = 0

    def read(self) -> Mapping[str, float]:
        """The number of this reading, from 1."""
        self._readings += 1
        return {"readings": self._readings}


class CpuMonitor(TextMonitor):
    """CPU time of all cores and of each by state, and the scheduler's counters (proc_stat(5)).

    Fields `all.<state>`, `cpu<N>.<state>`, `<kind>.softirqs`, and the machine-wide ones without a dot. A tick is
    1/sysconf(SC_CLK_TCK) s: the host facts have clock.ticks_per_s. `guest` time is also counted in `user`, and
    `guest_nice` in `nice`, so a total must leave these two out.
    """

    name = "cpu"
    paths = ("proc/stat",)
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "user": Field(COUNTER, "ticks", "in user mode"),
        "nice": Field(COUNTER, "ticks", "in user mode at low priority"),
        "system": Field(COUNTER, "ticks", "in the kernel"),
        "idle": Field(COUNTER, "ticks", "nothing to do"),
        "iowait": Field(COUNTER, "ticks", "idle while a task that last ran here waits for I/O"),
        "irq": Field(COUNTER, "ticks", "serving interrupts"),
        "softirq": Field(COUNTER, "ticks", "serving soft interrupts"),
        "steal": Field(COUNTER, "ticks", "taken by the hypervisor for others"),
        "guest": Field(COUNTER, "ticks", "running a guest (also in user)"),
        "guest_nice": Field(COUNTER, "ticks", "running a guest at low priority (also in nice)"),
        "context_switches": Field(COUNTER, "switches", "context switches of all cores"),
        "interrupts": Field(COUNTER, "interrupts", "interrupts served by all cores"),
        "softirqs": Field(COUNTER, "interrupts", "soft interrupts served by all cores, all together and of each kind"),
        "forks": Field(COUNTER, "tasks", "processes and threads created"),
        "running": Field(GAUGE, "tasks", "tasks that run or could run"),
        "blocked": Field(GAUGE, "tasks", "tasks that wait for I/O"),
    }
    columns = tuple(islice(FIELDS, 10))
    _LINES: ClassVar = {
        b"ctxt": "context_switches",
        b"intr": "interrupts",
        b"softirq": "softirqs",
        b"processes": "forks",
        b"procs_running": "running",
        b"procs_blocked": "blocked",
    }
    _KINDS = ("hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu")
    """Of soft interrupts, in the order of the line `softirq` (include/linux/interrupt.h)."""
    _SOFTIRQS = tuple(f"{kind}.softirqs" for kind in _KINDS)

    def parse(self, texts: Texts) -> Mapping[str, float]:
        """One reading; a core that went offline is simply not in it."""
        reading: dict[str, float] = {}
        for line in texts[0].splitlines():
            key, _, rest = line.partition(b" ")
            if key.startswith(b"cpu"):
                names = self.names_of(b"all" if key == b"cpu" else key)
                reading.update(zip(names, map(int, rest.split()), strict=False))
            elif name := self._LINES.get(key):
                # `intr` goes on with one number an interrupt line: thousands on large machines. The first is the sum.
                reading[name] = int(rest.split(b" ", 1)[0])
                if key == b"softirq":
                    reading.update(zip(self._SOFTIRQS, map(int, rest.split()[1:]), strict=False))
        return reading


class DiskMonitor(TextMonitor):
    """What the block layer counted, from /proc/diskstats (Documentation/admin-guide/iostats.rst).

    Fields `<device>.<field>` of the named devices, or of all, loop devices and their like once used. A sector is 512
    bytes here whatever the device's own sector size. Times of requests that overlap add up, so `read_ms` may grow
    faster than the clock; `io_ms` cannot.
    """

    name = "disk"
    remedy = "name block devices as /proc/diskstats lists them"
    paths = ("proc/diskstats",)
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "reads": Field(COUNTER, "requests", "reads completed"),
        "reads_merged": Field(COUNTER, "requests", "reads merged into others"),
        "read_sectors": Field(COUNTER, "sectors of 512 bytes", "volume read"),
        "read_ms": Field(COUNTER, "ms", "time of all reads, summed"),
        "writes": Field(COUNTER, "requests", "writes completed"),
        "writes_merged": Field(COUNTER, "requests", "writes merged into others"),
        "write_sectors": Field(COUNTER, "sectors of 512 bytes", "volume written"),
        "write_ms": Field(COUNTER, "ms", "time of all writes, summed"),
        "in_flight": Field(GAUGE, "requests", "requests issued and not completed"),
        "io_ms": Field(COUNTER, "ms", "time with at least one request in flight"),
        "weighted_io_ms": Field(COUNTER, "ms", "time with requests in flight, times their number"),
        "discards": Field(COUNTER, "requests", "discards completed (kernel 4.18)"),
        "discards_merged": Field(COUNTER, "requests", "discards merged into others"),
        "discard_sectors": Field(COUNTER, "sectors of 512 bytes", "volume discarded"),
        "discard_ms": Field(COUNTER, "ms", "time of all discards, summed"),
        "flushes": Field(COUNTER, "requests", "cache flushes completed (kernel 5.5)"),
        "flush_ms": Field(COUNTER, "ms", "time of all flushes, summed"),
    }
    _OFTEN_UNUSED = (b"loop", b"ram", b"nbd")

    def __init__(self, root: Path = Path("/"), devices: Sequence[str] = ()) -> None:
        super().__init__(root)
        self._devices = frozenset(device.encode() for device in devices)

    @classmethod
    def make(cls, root: Path, devices: Sequence[str]) -> Self:
        return cls(root, devices)

    def parse(self, texts: Texts) -> Mapping[str, float]:
        """One reading; a device that was unplugged is simply not in it."""
        reading: dict[str, float] = {}
        for line in texts[0].splitlines():
            columns = line.split()
            if len(columns) >= 14 and self._is_watched(columns[2], columns[3:]):
                reading.update(zip(self.names_of(columns[2]), map(int, columns[3:]), strict=False))
        return reading

    def _is_watched(self, device: bytes, counts: Sequence[bytes]) -> bool:
        if self._devices:
            return device in self._devices
        # A disk that idles yet may begin: without a reading of zero its first requests would have nothing to be
        # subtracted from. Of loop devices and their like dozens may lie about unused.
        return not device.startswith(self._OFTEN_UNUSED) or any(count != b"0" for count in counts)


class MemoryMonitor(TextMonitor):
    """How memory is used, from /proc/meminfo, and what paging did, from /proc/vmstat: fields that this kernel has."""

    name = "memory"
    paths = ("proc/meminfo", "proc/vmstat")
    _SIZES: ClassVar[Mapping[bytes, tuple[str, str]]] = {
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
    _EVENTS: ClassVar[Mapping[bytes, tuple[str, str, str]]] = {
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
    FIELDS: ClassVar[Mapping[str, Field]] = {
        **{name: Field(GAUGE, "bytes", meaning) for name, meaning in _SIZES.values()},
        **{name: Field(COUNTER, unit, meaning) for name, unit, meaning in _EVENTS.values()},
    }

    def parse(self, texts: Texts) -> Mapping[str, float]:
        """One reading of both files; "kB" in /proc/meminfo are KiB."""
        reading: dict[str, float] = {}
        for line in texts[0].splitlines():
            key, _, rest = line.partition(b":")
            if size := self._SIZES.get(key):
                reading[size[0]] = int(rest.split(None, 1)[0]) * 1024
        words = texts[1].split()
        for key, value in zip(words[::2], words[1::2], strict=False):
            if event := self._EVENTS.get(key):
                reading[event[0]] = int(value)
        return reading


class NetMonitor(TextMonitor):
    """What each interface of this network namespace sent and received, from /proc/net/dev (proc_pid_net(5)).

    Fields `<interface>.<field>`; the name of a VLAN's interface has a dot itself (`eth0.100.rx_bytes`).
    """

    name = "net"
    paths = ("proc/net/dev",)
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "rx_bytes": Field(COUNTER, "bytes", "received"),
        "rx_packets": Field(COUNTER, "packets", "received"),
        "rx_errors": Field(COUNTER, "packets", "received broken"),
        "rx_dropped": Field(COUNTER, "packets", "received and dropped"),
        "rx_fifo_errors": Field(COUNTER, "packets", "lost because the receive queue was full"),
        "rx_multicast": Field(COUNTER, "packets", "received that went to a group"),
        "tx_bytes": Field(COUNTER, "bytes", "sent"),
        "tx_packets": Field(COUNTER, "packets", "sent"),
        "tx_errors": Field(COUNTER, "packets", "that could not be sent"),
        "tx_dropped": Field(COUNTER, "packets", "dropped instead of sent"),
        "tx_fifo_errors": Field(COUNTER, "packets", "lost because the send queue was full"),
        "tx_collisions": Field(COUNTER, "packets", "that collided on the wire"),
        "tx_carrier_errors": Field(COUNTER, "packets", "lost for want of a carrier"),
    }
    _COLUMNS, _UNUSED = 16, (5, 6, 15)
    """Of frame errors and of compressed packets, received and sent."""

    def parse(self, texts: Texts) -> Mapping[str, float]:
        """One reading; an interface that went away is simply not in it."""
        reading: dict[str, float] = {}
        for line in texts[0].splitlines()[2:]:
            # From the right: an alias such as eth0:1 has a colon in its name.
            interface, _, rest = line.rpartition(b":")
            columns = rest.split()
            if len(columns) == self._COLUMNS:
                values = (int(column) for place, column in enumerate(columns) if place not in self._UNUSED)
                reading.update(zip(self.names_of(interface.strip()), values, strict=True))
        return reading


class PressureMonitor(TextMonitor):
    """How long tasks waited for processor, memory or I/O, from /proc/pressure (Documentation/accounting/psi.rst).

    Fields `<resource>.<some or full>_<avg10 or total>`. `some`: at least one task waited; `full`: all that could have
    run did. A kernel without it has no fields here; `texts` fails when it was booted with psi=0.
    """

    name = "pressure"
    remedy = "boot the kernel with psi=1"
    RESOURCES = ("cpu", "io", "memory", "irq")
    paths = tuple(f"proc/pressure/{resource}" for resource in RESOURCES)
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "some_avg10": Field(GAUGE, "%", "share of the last ten seconds in which some task waited"),
        "some_total": Field(COUNTER, "µs", "time in which some task waited"),
        "full_avg10": Field(GAUGE, "%", "share of the last ten seconds in which all tasks waited"),
        "full_total": Field(COUNTER, "µs", "time in which all tasks waited"),
    }

    def parse(self, texts: Texts) -> Mapping[str, float]:
        """One reading of all four; what this kernel lacks is not in it."""
        reading: dict[str, float] = {}
        for resource, text in zip(self.RESOURCES, texts, strict=True):
            for line in text.decode().splitlines():
                scope, *pairs = line.split()
                values = dict(pair.split("=", 1) for pair in pairs)
                reading[f"{resource}.{scope}_avg10"] = float(values["avg10"])
                reading[f"{resource}.{scope}_total"] = int(values["total"])
        return reading


class SchedulerMonitor(TextMonitor):
    """How many tasks there are and how many want a processor, from /proc/loadavg (proc_loadavg(5)).

    Context switches, interrupts, forks, and the tasks that run or wait at the moment come with the monitor `cpu`: they
    stand in the file that it reads anyway. How long tasks waited for a processor is `pressure`'s.
    """

    name = "scheduler"
    paths = ("proc/loadavg",)
    FIELDS: ClassVar[Mapping[str, Field]] = {
        "load1": Field(GAUGE, "tasks", "that ran, could run or waited for I/O, averaged over a minute, falling off"),
        "load5": Field(GAUGE, "tasks", "the same over five minutes"),
        "load15": Field(GAUGE, "tasks", "the same over fifteen minutes"),
        "runnable": Field(GAUGE, "tasks", "that run or could run"),
        "tasks": Field(GAUGE, "tasks", "that exist, threads counted"),
    }

    def parse(self, texts: Texts) -> Mapping[str, float]:
        """One reading: `0.20 0.18 0.12 1/80 11206`."""
        columns = texts[0].split()
        if len(columns) < 4:
            return {}
        loads = [float(column) for column in columns[:3]]
        return dict(zip(self.FIELDS, [*loads, *map(int, columns[3].split(b"/"))], strict=True))
