"""What the kernel tells of the whole machine in files of /proc and /sys: one row with its fields for each monitor.

Raw numbers: shares and rates need two readings and are an analysis's business. Only fields that explain an I/O
measurement are kept. Of lines by position, the fields are in the order of the line. A core, device or interface that
went away is simply not in a reading, nor is what this kernel lacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ioassay.monitors.text_monitor import COUNTER, GAUGE, Field, SensorFile, TextKind, TextMonitor, Texts


class NullMonitor:
    """Counts its own readings: it tests the sampler and measures what sampling itself costs."""

    name = "null"
    FIELDS: Mapping[str, Field] = {"readings": Field(COUNTER, "readings", "how often this monitor was read")}
    _readings = 0

    @classmethod
    def make(cls, root: Path, devices: Sequence[str]) -> NullMonitor:
        return cls()

    def read(self) -> Mapping[str, float]:
        self._readings += 1
        return {"readings": self._readings}


# CPU time of all cores and of each by state, and the scheduler's counters (proc_stat(5)). Fields `all.<state>`,
# `cpu<N>.<state>`, `<kind>.softirqs`, and the machine-wide ones without a dot. A tick is 1/sysconf(SC_CLK_TCK) s: the
# host facts have clock.ticks_per_s. `guest` time is also counted in `user`, and `guest_nice` in `nice`, so a total must
# leave these two out

_CPU_LINES = {
    b"ctxt": "context_switches",
    b"intr": "interrupts",
    b"softirq": "softirqs",
    b"processes": "forks",
    b"procs_running": "running",
    b"procs_blocked": "blocked",
}
CPU_COLUMNS = 10
"""Number of the first fields, which are columns of a line of a core."""
_SOFTIRQS = tuple(
    f"{kind}.softirqs"
    for kind in ("hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu")
)
"""In the order of the line `softirq` (include/linux/interrupt.h)."""


def _cpu(monitor: TextMonitor, texts: Texts) -> Mapping[str, float]:
    reading: dict[str, float] = {}
    for line in texts[0].splitlines():
        key, _, rest = line.partition(b" ")
        if key.startswith(b"cpu"):
            names = monitor.names_of(b"all" if key == b"cpu" else key)
            reading.update(zip(names, map(int, rest.split()[:CPU_COLUMNS]), strict=False))
        elif name := _CPU_LINES.get(key):
            # `intr` goes on with one number an interrupt line: thousands on large machines. The first is the sum.
            reading[name] = int(rest.split(b" ", 1)[0])
            if key == b"softirq":
                reading.update(zip(_SOFTIRQS, map(int, rest.split()[1:]), strict=False))
    return reading


CPU = TextKind(
    "cpu",
    {
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
    },
    ("proc/stat",),
    _cpu,
)


# What the block layer counted, from /proc/diskstats (Documentation/admin-guide/iostats.rst). Fields `<device>.<field>`
# of the named devices, or of all, loop devices and their like once used. A sector is 512 bytes here whatever the
# device's own sector size. Times of requests that overlap add up, so `read_ms` may grow faster than the clock; `io_ms`
# cannot

_OFTEN_UNUSED = (b"loop", b"ram", b"nbd")


def _disk(monitor: TextMonitor, texts: Texts) -> Mapping[str, float]:
    reading: dict[str, float] = {}
    for columns in map(bytes.split, texts[0].splitlines()):
        if len(columns) < 14:
            continue
        device, counts = columns[2], columns[3:]
        # A disk that idles yet may begin: without a reading of zero its first requests would have nothing to be
        # subtracted from. Of loop devices and their like dozens may lie about unused.
        used = not device.startswith(_OFTEN_UNUSED) or any(count != b"0" for count in counts)
        if device in monitor.devices if monitor.devices else used:
            reading.update(zip(monitor.names_of(device), map(int, counts), strict=False))
    return reading


DISK = TextKind(
    "disk",
    {
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
    },
    ("proc/diskstats",),
    _disk,
    remedy="name block devices as /proc/diskstats lists them",
)


# How memory is used, from /proc/meminfo, and what paging did, from /proc/vmstat

_SIZES = {
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
_EVENTS = {
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


def _memory(monitor: TextMonitor, texts: Texts) -> Mapping[str, float]:
    """Of both files; "kB" in /proc/meminfo are KiB."""
    reading: dict[str, float] = {}
    for line in texts[0].splitlines():
        key, _, rest = line.partition(b":")
        if size := _SIZES.get(key):
            reading[size[0]] = int(rest.split(None, 1)[0]) * 1024
    words = texts[1].split()
    for key, value in zip(words[::2], words[1::2], strict=False):
        if event := _EVENTS.get(key):
            reading[event[0]] = int(value)
    return reading


MEMORY = TextKind(
    "memory",
    {
        **{name: Field(GAUGE, "bytes", meaning) for name, meaning in _SIZES.values()},
        **{name: Field(COUNTER, unit, meaning) for name, unit, meaning in _EVENTS.values()},
    },
    ("proc/meminfo", "proc/vmstat"),
    _memory,
)


# What each interface of this network namespace sent and received, from /proc/net/dev (proc_pid_net(5)). Fields
# `<interface>.<field>`; the name of a VLAN's interface has a dot itself (`eth0.100.rx_bytes`)

_NET_COLUMNS, _NET_UNUSED = 16, (5, 6, 15)
"""Unused are those of frame errors and of compressed packets, received and sent."""


def _net(monitor: TextMonitor, texts: Texts) -> Mapping[str, float]:
    reading: dict[str, float] = {}
    for line in texts[0].splitlines()[2:]:
        # From the right: an alias such as eth0:1 has a colon in its name.
        interface, _, rest = line.rpartition(b":")
        columns = rest.split()
        if len(columns) == _NET_COLUMNS:
            values = (int(column) for place, column in enumerate(columns) if place not in _NET_UNUSED)
            reading.update(zip(monitor.names_of(interface.strip()), values, strict=True))
    return reading


NET = TextKind(
    "net",
    {
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
    },
    ("proc/net/dev",),
    _net,
)


# How long tasks waited for processor, memory or I/O, from /proc/pressure (Documentation/accounting/psi.rst). Fields
# `<resource>.<some or full>_<avg10 or total>`. `some`: at least one task waited; `full`: all that could have run did. A
# kernel without it has no fields here; `texts` fails when it was booted with psi=0

_RESOURCES = ("cpu", "io", "memory", "irq")


def _pressure(monitor: TextMonitor, texts: Texts) -> Mapping[str, float]:
    reading: dict[str, float] = {}
    for resource, text in zip(_RESOURCES, texts, strict=True):
        for line in text.decode().splitlines():
            scope, *pairs = line.split()
            values = dict(pair.split("=", 1) for pair in pairs)
            reading[f"{resource}.{scope}_avg10"] = float(values["avg10"])
            reading[f"{resource}.{scope}_total"] = int(values["total"])
    return reading


PRESSURE = TextKind(
    "pressure",
    {
        "some_avg10": Field(GAUGE, "%", "share of the last ten seconds in which some task waited"),
        "some_total": Field(COUNTER, "µs", "time in which some task waited"),
        "full_avg10": Field(GAUGE, "%", "share of the last ten seconds in which all tasks waited"),
        "full_total": Field(COUNTER, "µs", "time in which all tasks waited"),
    },
    tuple(f"proc/pressure/{resource}" for resource in _RESOURCES),
    _pressure,
    remedy="boot the kernel with psi=1",
)


# How many tasks there are and how many want a processor, from /proc/loadavg (proc_loadavg(5)). Context switches,
# interrupts, forks, and the tasks that run or wait at the moment come with the monitor `cpu`: they stand in the file
# that it reads anyway. How long tasks waited for a processor is that of `pressure`


def _scheduler(monitor: TextMonitor, texts: Texts) -> Mapping[str, float]:
    """`0.20 0.18 0.12 1/80 11206`."""
    columns = texts[0].split()
    if len(columns) < 4:
        return {}
    loads = [float(column) for column in columns[:3]]
    return dict(zip(SCHEDULER.FIELDS, [*loads, *map(int, columns[3].split(b"/"))], strict=True))


SCHEDULER = TextKind(
    "scheduler",
    {
        "load1": Field(GAUGE, "tasks", "that ran, could run or waited for I/O, averaged over a minute, falling off"),
        "load5": Field(GAUGE, "tasks", "the same over five minutes"),
        "load15": Field(GAUGE, "tasks", "the same over fifteen minutes"),
        "runnable": Field(GAUGE, "tasks", "that run or could run"),
        "tasks": Field(GAUGE, "tasks", "that exist, threads counted"),
    },
    ("proc/loadavg",),
    _scheduler,
)


# Sensors in /sys, each a file of its own: clocks of cores and temperatures. Sources:
# Documentation/hwmon/sysfs-interface.rst, Documentation/driver-api/thermal/sysfs-api.rst

_OF_CORE = {"frequency_khz": "cpufreq/scaling_cur_freq", "throttles": "thermal_throttle/core_throttle_count"}


def _clocks(root: Path) -> Mapping[str, Path]:
    files: dict[Path, tuple[str, Path]] = {}
    for core in _numbered(root / "sys/devices/system/cpu", "cpu"):
        for field, place in _OF_CORE.items():
            if (path := core / place).exists():
                files.setdefault(path.resolve(), (f"{core.name}.{field}", path))
    return dict(files.values())


FREQUENCY = TextKind(
    "frequency",
    {
        "frequency_khz": Field(GAUGE, "kHz", "clock of the core, as the driver last knew it"),
        "throttles": Field(COUNTER, "events", "how often the core was slowed because it was too hot"),
    },
    sensors=_clocks,
)
"""How fast each core is clocked, from cpufreq, and how often heat slowed it, from its throttle counters (x86).

Fields `cpu<N>.<field>`; cores that share one clock (a cpufreq policy) have it under the first of them. /proc/cpuinfo is
left alone: without cpufreq its MHz is the rate of the time stamp counter, whatever the core does.
"""


def _temperatures(root: Path) -> Mapping[str, Path]:
    found: dict[str, Path] = {}

    def add(name: str, path: Path) -> None:
        """Under a name of letters, digits and underscores; the second of two alike gets a number (two NVMe drives)."""
        plain = re.sub(r"\W+", "_", name.lower()).strip("_")
        alike = sum(1 for known in found if re.fullmatch(rf"{plain}(_\d+)?", known))
        found[f"{plain}_{alike + 1}" if plain in found else plain] = path

    for chip in _numbered(root / "sys/class/hwmon", "hwmon"):
        name = _text(chip / "name") or chip.name
        for path in sorted(chip.glob("temp*_input")) if name != "drivetemp" else ():
            sensor = path.name.removesuffix("_input")
            add(f"{name}_{_text(chip / f'{sensor}_label') or sensor}", path)
    for zone in _numbered(root / "sys/class/thermal", "thermal_zone"):
        add(f"zone{zone.name.removeprefix('thermal_zone')}_{_text(zone / 'type')}", zone / "temp")
    return {f"{name}.temperature_mc": path for name, path in found.items()}


THERMAL = TextKind(
    "thermal",
    {"temperature_mc": Field(GAUGE, "m°C", "thousandths of a degree Celsius")},
    sensors=_temperatures,
    least_pause_s=1.0,
)
"""Temperatures, from the hardware monitoring chips (hwmon) and the thermal zones.

Fields `<chip>_<sensor>.temperature_mc`, as in `coretemp_package_id_0`, `nvme_composite`, `zone0_acpitz`. Sensors are
asked once a second at most: reading one may wake a core (coretemp) or send a command to a drive (nvme, which the kernel
itself limits to one a second). The sensors of SATA disks (drivetemp) are left alone: each reading is a command that
waits in line with the very requests that are measured.
"""


def _numbered(folder: Path, prefix: str) -> Iterator[Path]:
    paths = [path for path in folder.glob(f"{prefix}*") if path.name.removeprefix(prefix).isdecimal()]
    return iter(sorted(paths, key=lambda path: int(path.name.removeprefix(prefix))))


def _text(path: Path) -> str:
    return SensorFile(path).read().decode(errors="replace").strip()
