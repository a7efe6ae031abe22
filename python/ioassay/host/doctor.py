"""Is this host fit to measure? Checks over host facts; each finding carries the command that fixes it.

Pure: facts in, warnings out. A run stores its facts, so an old run can be diagnosed anew with better checks. Gathering
facts is `ioassay.host`. To add a check: its row in CHECKS, its case in tests/corpus/hosts/, its line in docs/doctor.md,
which says what each spoils.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from ioassay import units
from ioassay.hints import document
from ioassay.host import process_capabilities
from ioassay.host.settings import AS_ROOT, NO_GOVERNOR, RESTORE_COMMAND
from ioassay.records.record import Warning_

__all__ = ["CHECKS", "diagnose"]

Facts = Mapping[str, Any]
Said = tuple[str, str] | None
"""What a check says: text with the value seen, and the remedy; None when all is well or nothing is known."""

LEAST_FREE_BYTES = 2 << 30
LEAST_FREE_SHARE = 0.10
"""Drives and file systems slow down when they are nearly full: both look for free places."""
OLDEST_KERNEL = (5, 10)
"""Flush counters in /proc/diskstats came with 5.5, a mature io_uring with 5.10 (which Debian 11 has)."""

_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
_NETWORK = (
    "nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "fuse.ceph", "fuse.sshfs", "fuse.glusterfs", "fuse.s3fs",
    "glusterfs", "lustre", "afs", "gfs2", "ocfs2", "beegfs",
)  # fmt: skip
_LAYERS = {"crypt": "encryption", "lvm": "LVM", "loop": "a loop device", "zram": "memory (zram)", "ram": "memory",
           "nbd": "the network (nbd)", "mpath": "multipath"}  # fmt: skip
_READ_AHEAD_KB = range(1, 1025)
_OTHERS_REQUESTS_PER_S = 20
_HOT_NVME_C, _HOT_C = 70, 55
_WORKING = ("resync", "recover", "check", "repair", "reshape")
_LOAD_PER_CPU = 0.25
_BUSY_CORES = 0.25
_STEAL_SHARE = 0.01
_SWAP_BYTES = 16 << 20
_FREE_MEMORY_SHARE = 0.05
_DEEP_US = 50
"""Waking up from a state this deep takes as long as a read from a fast drive."""
_SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "xen", "refined-jiffies")
"""Clock sources that cannot be read without a system call or a slow device: each time stamp costs microseconds."""
_CPU = "/sys/devices/system/cpu"
_OUTSIDE = "run outside of it, or raise its limit"

_STOPS = {
    "fstrim": "fstrim.service",
    "updatedb": "updatedb.service mlocate.service plocate-updatedb.service",
    "mandb": "man-db.service",
    "apt": "apt-daily.service apt-daily-upgrade.service",
    "apt-get": "apt-daily.service apt-daily-upgrade.service",
    "apt.systemd.dai": "apt-daily.service apt-daily-upgrade.service",
    "unattended-upgr": "unattended-upgrades.service apt-daily-upgrade.service",
    "e2scrub": "e2scrub_all.service",
    "xfs_scrub": "xfs_scrub_all.service",
    "checkarray": "mdcheck_start.service",
}
"""Program -> units of systemd that start it."""


def diagnose(facts: Facts) -> list[Warning_]:
    """All that on this host could spoil a measurement, by facts of `ioassay.host.facts` (of today or of an old run)."""
    found = ((code, check(facts)) for code, check in CHECKS.items())
    return [Warning_(code, *said) for code, said in found if said is not None]


def fact(facts: Facts, place: str) -> Any:
    """The value at `cpu.turbo`; None where any of it is absent."""
    here: Any = facts
    for key in place.split("."):
        if not isinstance(here, Mapping) or key not in here:
            return None
        here = here[key]
    return here


# What rows of CHECKS are made of


def _value(place: str, bad: Callable[[Any], object], text: str, remedy: str) -> Callable[[Facts], Said]:
    """A check of one fact; its words may have `{value}`, and `{point}` and `{source}` of the mount."""

    def check(facts: Facts) -> Said:
        value = fact(facts, place)
        if value is None or not bad(value):
            return None
        words = {"value": value, "point": _mount_point(facts), "source": fact(facts, "disk.mount.source")}
        return text.format(**words), remedy.format(**words)

    return check


def _among(names: Container[str]) -> Callable[[Any], bool]:
    return lambda value: value in names


def _devices(seen: Callable[[Facts], str], text: str, remedy: str, *, drives: bool = True) -> Callable[[Facts], Said]:
    """A check of each drive, or of each device from the mounted one down: `seen` says what is wrong with one, or ''.

    `{seen}` in the text has all of these. A remedy with `{name}` is a command for each.
    """

    def check(facts: Facts) -> Said:
        bad = [(device, words) for device in _block_devices(facts, drives=drives) if (words := seen(device))]
        if not bad:
            return None
        names = [str(device.get("name")).replace("/", "!") for device, _ in bad]
        commands = [remedy.format(name=name) for name in names] if "{name}" in remedy else [remedy]
        return text.format(seen=", ".join(words for _, words in bad)), "; ".join(commands)

    return check


def _block_devices(facts: Facts, *, drives: bool) -> Sequence[Facts]:
    """The block devices under the path, from the mounted one down to the drives; or the drives at the bottom alone."""
    devices = fact(facts, "disk.devices") or ()
    return [device for device in devices if device.get("kind") == "disk"] if drives else devices


def _name(device: Facts) -> str:
    return str(device.get("name"))


def _mount_point(facts: Facts) -> str:
    """Where the file system is mounted, as it may stand in a shell command."""
    return shlex.quote(str(fact(facts, "disk.mount.point") or ""))


# The disk under the path


def _low_free_space(facts: Facts) -> Said:
    free = fact(facts, "disk.free_bytes")
    if free is None or free >= LEAST_FREE_BYTES or fact(facts, "disk.mount.filesystem") in _MEMORY:
        return None
    return (
        f"only {units.format_size(free)} are free on {_mount_point(facts)}",
        "free some space, or make the test file smaller: ioassay run STUDY --set target.size=256MiB",
    )


def _nearly_full(facts: Facts) -> Said:
    free, size, point = fact(facts, "disk.free_bytes"), fact(facts, "disk.size_bytes"), _mount_point(facts)
    if free is None or not size or free >= LEAST_FREE_SHARE * size or not _block_devices(facts, drives=False):
        return None
    return (
        f"{point} is nearly full ({free / size:.1%} free); drives and file systems are slower then",
        f"free some space, then tell the drive: sudo fstrim --verbose {point}",
    )


def _compressing(facts: Facts) -> Said:
    kind = fact(facts, "disk.mount.filesystem")
    given = [f" ({name})" for name in fact(facts, "disk.mount.options") or () if name.startswith("compress")]
    if kind != "zfs" and not (given and kind in ("btrfs", "f2fs", "bcachefs")):
        return None
    text = f"{_mount_point(facts)} ({kind}) may compress what is written{''.join(given[:1])}"
    path = shlex.quote(str(fact(facts, "disk.path")))
    return text, "zfs set compression=off DATASET" if kind == "zfs" else f"chattr +m {path}"


def _access_times(facts: Facts) -> Said:
    options, point = fact(facts, "disk.mount.options") or (), _mount_point(facts)
    if fact(facts, "disk.mount") is None or not _block_devices(facts, drives=False):
        return None
    if {"noatime", "relatime", "ro"} & {*options}:
        return None
    text = f"{point} is mounted strictatime: every read also writes the time of access"
    return text, f"sudo mount -o remount,relatime {point}"


def _scheduler(facts: Facts) -> Said:
    """A scheduler that costs more than it gives (block/…-iosched in the kernel's documentation)."""
    bad = [(drive, better) for drive in _block_devices(facts, drives=True) if (better := _better_scheduler(drive))]
    if not bad:
        return None
    seen = ", ".join(
        f"{drive['name']} uses {fact(drive, 'queue.scheduler')}, expected {better}" for drive, better in bad
    )
    remedy = "; ".join(f"echo {better} | sudo tee /sys/block/{drive['name']}/queue/scheduler" for drive, better in bad)
    return f"the I/O scheduler does not fit the drive: {seen}", remedy


def _better_scheduler(drive: Facts) -> str | None:
    name, used, rotational = _name(drive), fact(drive, "queue.scheduler"), fact(drive, "queue.rotational")
    if name.startswith("nvme"):
        better = "none" if used not in ("none", "kyber") else None
    elif rotational is False:
        better = "none" if used == "bfq" else None
    else:  # a virtual disk calls itself rotational whatever it is
        better = "mq-deadline" if rotational and used == "none" and not name.startswith(("vd", "xvd")) else None
    return better if better in (fact(drive, "queue.schedulers") or ()) else None


def _read_ahead(drive: Facts) -> str:
    kib = fact(drive, "queue.read_ahead_kb")
    return "" if kib is None or kib in _READ_AHEAD_KB else f"{kib} KiB on {drive['name']}"


def _raid_at_work(device: Facts) -> str:
    action = device.get("sync_action")
    return f"{_name(device)} ({action})" if action in _WORKING else ""


def _failing(drive: Facts) -> str:
    health = fact(drive, "health") or {}
    bad = health.get("passed") is False or health.get("critical_warning") or health.get("media_errors")
    return _name(drive) if bad else ""


def _hot(drive: Facts) -> str:
    limit_c = _HOT_NVME_C if _name(drive).startswith("nvme") else _HOT_C
    now_c = fact(drive, "health.temperature_c")
    return f"{drive['name']} {now_c} °C" if (now_c or 0) >= limit_c else ""


def _slow_link(facts: Facts) -> Said:
    seen = []
    for drive in _block_devices(facts, drives=True):
        speed, most = (
            float(number[0]) if (number := re.match(r"\d+(\.\d+)?", str(fact(drive, place) or ""))) else 0.0
            for place in ("link.speed", "link.max_speed")
        )
        width, widest = fact(drive, "link.width"), fact(drive, "link.max_width")
        if (speed and most and speed < most) or (width and widest and width < widest):
            seen.append(f"{drive['name']} runs at {speed:g} GT/s x{width}, and could at {most:g} GT/s x{widest}")
    return (f"the PCI Express link is slower than the drive: {'; '.join(seen)}", "use another slot") if seen else None


def _misaligned(facts: Facts) -> Said:
    sizes = [fact(drive, "queue.physical_block_size") or 0 for drive in _block_devices(facts, drives=True)]
    block_bytes = max(sizes, default=0)
    bad = [
        _name(device) for device in _block_devices(facts, drives=False)
        if device.get("alignment_offset_bytes") or (block_bytes and device.get("start_bytes", 0) % block_bytes)
    ]  # fmt: skip
    text = f"{', '.join(bad)} does not start at a physical block of {block_bytes} bytes: writes become reads and writes"
    return (text, "make the partition anew, aligned: parted --align optimal") if bad else None


def _layer(device: Facts) -> str:
    kind = device.get("kind")
    return "" if kind in ("disk", "partition", None) else f"{device['name']} ({_LAYERS.get(str(kind), kind)})"


def _disk_in_use(facts: Facts) -> Said:
    """Somebody else's requests to the same disk, while this program only looked."""
    seconds, requests = fact(facts, "activity.observed_s"), fact(facts, "activity.disk_requests") or {}
    rates = {name: count / seconds for name, count in requests.items() if seconds}
    busy = [f"{name} ({rate:.0f}/s)" for name, rate in rates.items() if rate >= _OTHERS_REQUESTS_PER_S]
    text = f"others are using the disk: requests to {', '.join(busy)}"
    return (text, "sudo iotop --only (apt-get install iotop)") if busy else None


# The machine as a whole


def _leftovers(facts: Facts) -> Said:
    files = fact(facts, "leftovers") or ()
    if not files:
        return None
    by_root = any(file.startswith(("/run/", "/sys/")) for file in files) and fact(facts, "user.root") is False
    remedy = RESTORE_COMMAND.replace("ioassay", AS_ROOT, 1) if by_root else RESTORE_COMMAND
    groups = [file for file in files if file.startswith("/sys/fs/cgroup/")]
    settings = [file for file in files if file not in groups]
    parts = [f"host settings changed: {', '.join(settings)}"] if settings else []
    parts += [f"control groups behind, which the next run removes: {', '.join(groups)}"] if groups else []
    return f"a run that was killed left {', and '.join(parts)}", remedy


def _background(facts: Facts) -> Said:
    found = fact(facts, "activity.background") or ()
    if not found:
        return None
    units_of_them = (_STOPS.get(name) or _STOPS.get(name.partition(".")[0]) for name in found)
    services = " ".join(dict.fromkeys(filter(None, units_of_them)))
    remedy = f"sudo systemctl stop {services}, or wait" if services else "wait until they have ended"
    return f"programs that use disks are running: {', '.join(found)}", remedy


def _busy_processes(facts: Facts) -> Said:
    busy = fact(facts, "activity.busy") or ()
    if sum(process["share"] for process in busy) < _BUSY_CORES:
        return None
    seen = ", ".join(f"{process['name']} ({process['pid']}, {process['share']:.0%} of a core)" for process in busy)
    pids = ",".join(str(process["pid"]) for process in busy)
    return f"other processes are busy: {seen}", f"ps -o pid,user,pcpu,args --pid {pids} shows them: stop them or wait"


def _high_load(facts: Facts) -> Said:
    """Load average against the number of processors (proc_loadavg(5)); it also counts tasks that wait for disks."""
    load, cpus = fact(facts, "activity.load"), fact(facts, "cpu.cpus")
    most = max(1.0, _LOAD_PER_CPU * (cpus or 0))
    if not load or not cpus or load[0] <= most:
        return None
    text = f"the load was {load[0]:.2f} over the last minute, on {cpus} processors; expected less than {most:.2g}"
    return text, "ps -eo pid,user,pcpu,stat,args --sort=-pcpu | head"


def _virtual_machine(facts: Facts) -> Said:
    vm, product = fact(facts, "virtualisation.vm"), fact(facts, "virtualisation.product")
    text = (
        f"this is a virtual machine ({vm}{f', {product}' if product else ''}): others may share its processors and its "
        "disk, whose cache on the host answers before the drive does"
    )
    return (text, "repeat the run at another time and compare: ioassay compare RUN RUN") if vm else None


def _cpu_limit(facts: Facts) -> Said:
    limit, cpus = fact(facts, "limits.cpus"), fact(facts, "cpu.cpus")
    if limit is None or (cpus is not None and limit >= cpus):
        return None
    of = f" of {cpus}" if cpus is not None else ""
    text = f"this control group may use {limit:g}{of} processors, and is stopped for a while when it used them up"
    return text, f"{_OUTSIDE} (docker update --cpus, systemctl set-property … CPUQuota=)"


def _memory_limit(facts: Facts) -> Said:
    limit, total = fact(facts, "limits.memory_bytes"), fact(facts, "memory.total_bytes")
    if limit is None or (total is not None and limit >= total):
        return None
    text = f"this control group may use {units.format_size(limit)} of memory, page cache included"
    return text, f"{_OUTSIDE} (docker update --memory, systemctl set-property … MemoryMax=)"


def _cpu_affinity(facts: Facts) -> Said:
    allowed, cpus = fact(facts, "limits.affinity"), fact(facts, "cpu.cpus")
    if not allowed or not cpus:
        return None
    spans = [part.split("-") for part in allowed.split(",") if re.fullmatch(r"\d+(-\d+)?", part)]  # as in 0-3,8
    if sum(int(span[-1]) - int(span[0]) + 1 for span in spans) >= cpus:
        return None
    return f"this process may use processors {allowed} only, of {cpus}", f"taskset --cpu-list 0-{cpus - 1} ioassay …"


def _governor(facts: Facts) -> Said:
    governors = fact(facts, "cpu.governors") or {}
    others = {name: count for name, count in governors.items() if name != "performance"}
    seen = ", ".join(f"{name} on {count} of {sum(governors.values())} processors" for name, count in others.items())
    text = f"the clock governor is {seen}; expected performance (a run sets it itself where it may, and puts it back)"
    return (text, f"echo performance | sudo tee {_CPU}/cpu*/cpufreq/scaling_governor") if others else None


def _no_governor(facts: Facts) -> Said:
    if fact(facts, "cpu.cpus") is None or fact(facts, "cpu.governors") is not None:
        return None
    return NO_GOVERNOR.text, NO_GOVERNOR.remedy


def _turbo(facts: Facts) -> Said:
    intel = str(fact(facts, "cpu.frequency_driver") or "").startswith("intel_")
    remedy = f"echo 1 | sudo tee {_CPU}/intel_pstate/no_turbo" if intel else f"echo 0 | sudo tee {_CPU}/cpufreq/boost"
    text = "turbo is on: the clock depends on heat and on the load of other cores, which adds noise"
    return (text, remedy) if fact(facts, "cpu.turbo") else None


def _deep_idle(facts: Facts) -> Said:
    states = [state for state in fact(facts, "cpu.idle.states") or () if not state.get("disabled")]
    deep = [state for state in states if state.get("latency_us", 0) >= _DEEP_US]
    seen = ", ".join(f"{state.get('name')} ({state['latency_us']} µs)" for state in deep)
    text = f"idle processors may fall into deep sleep: {seen} to wake up, which adds to latencies at low queue depth"
    remedy = f"sudo cpupower idle-set --disable-by-latency {_DEEP_US} (apt-get install linux-cpupower)"
    return (text, remedy) if deep else None


def _throttled(facts: Facts) -> Said:
    times, now_c = fact(facts, "cpu.throttled"), fact(facts, "cpu.temperature_c")
    seen = f", now {now_c:.0f} °C" if now_c is not None else ""
    text = f"processors were slowed down for heat {times} times since the machine started{seen}"
    return (text, "improve the cooling") if times else None


def _slow_clock(facts: Facts) -> Said:
    source = fact(facts, "clock.source")
    if source not in _SLOW_CLOCKS:
        return None
    better = [name for name in fact(facts, "clock.available") or () if name not in _SLOW_CLOCKS]
    file = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    return (
        f"the clock source is {source}: each reading of the time costs about a microsecond, in every latency",
        f"echo {better[0]} | sudo tee {file}" if better else "boot with tsc=reliable where it is",
    )


def _swap_in_use(facts: Facts) -> Said:
    total, free = fact(facts, "memory.swap_total_bytes"), fact(facts, "memory.swap_free_bytes")
    if not total or free is None or total - free < _SWAP_BYTES:
        return None
    used = units.format_size(total - free)
    return f"{used} of swap are in use and may be read back meanwhile", "sudo swapoff --all && sudo swapon --all"


def _low_memory(facts: Facts) -> Said:
    total, available = fact(facts, "memory.total_bytes"), fact(facts, "memory.available_bytes")
    if not total or available is None or available >= _FREE_MEMORY_SHARE * total:
        return None
    seen = f"{units.format_size(available)} of {units.format_size(total)}"
    return f"only {seen} of memory are available", "ps -eo pid,user,rss,args --sort=-rss | head"


def _old_kernel(facts: Facts) -> Said:
    release = str(fact(facts, "kernel.release") or "")
    found = re.match(r"(\d+)\.(\d+)", release)
    if found is None or (int(found[1]), int(found[2])) >= OLDEST_KERNEL:
        return None
    oldest = ".".join(map(str, OLDEST_KERNEL))
    return f"the kernel is {release}; expected {oldest} or newer (io_uring, flush counters)", "boot a newer kernel"


def _no_witness(facts: Facts) -> Said:
    reason = fact(facts, "witness.unusable")
    if not reason:
        return None
    withheld = re.findall(r"CAP_(\w+)", reason) if fact(facts, "user.root") else []  # by a container
    if withheld:
        reason = reason.partition(": ")[0]  # what follows is the remedy of a user
    return (
        f"what tools claim can only be set against the kernel's totals, since BPF programs cannot watch: {reason}",
        process_capabilities.of_container(*withheld) if withheld else f"{AS_ROOT} …, or see {document('backends')}",
    )


CHECKS: dict[str, Callable[[Facts], Said]] = {
    "leftover-restore-file": _leftovers,
    "memory-filesystem": _value(
        "disk.mount.filesystem",
        _among(_MEMORY),
        "{point} is {value}: memory, not a disk",
        "name a path on a disk; they are: findmnt --real",
    ),
    "overlay-filesystem": _value(
        "disk.mount.filesystem",
        _among(("overlay", "aufs")),
        "{point} is a container's layered file system, which copies files at their first write",
        "give the container a volume and name that: docker run --volume /data:/data …",
    ),
    "network-filesystem": _value(
        "disk.mount.filesystem",
        _among(_NETWORK),
        "{point} is {value} from {source}: the network and the server's cache are measured too",
        "name a path on a local disk; they are: findmnt --real",
    ),
    "compressing-filesystem": _compressing,
    "low-free-space": _low_free_space,
    "disk-nearly-full": _nearly_full,
    "drive-failing": _devices(_failing, "the drive reports trouble: {seen}", "sudo smartctl --all /dev/{name}"),
    "drive-hot": _devices(
        _hot,
        "the drive is hot and may slow itself down: {seen}",
        "let it cool between trials: ioassay run STUDY --set run.cooldown=30s",
    ),
    "slow-link": _slow_link,
    "misaligned-partition": _misaligned,
    "raid-working": _devices(
        _raid_at_work,
        "an array is working on itself: {seen}",
        "echo idle | sudo tee /sys/block/{name}/md/sync_action",
        drives=False,
    ),
    "disk-in-use": _disk_in_use,
    "background-services": _background,
    "busy-processes": _busy_processes,
    "high-load": _high_load,
    "steal-time": _value(
        "activity.steal_share",
        lambda share: share >= _STEAL_SHARE,
        "the hypervisor withheld {value:.1%} of the processor time that this machine wanted since it started",
        "use a machine with dedicated processors, or repeat at another time",
    ),
    "virtual-machine": _virtual_machine,
    "cpu-limit": _cpu_limit,
    "cpu-affinity": _cpu_affinity,
    "memory-limit": _memory_limit,
    "io-limit": lambda facts: (
        (
            f"a control group limits I/O: {'; '.join(limits)}: the limit would be measured, not the disk",
            "run outside of the container or the slice, or lift its limit (io.max)",
        )
        if (limits := fact(facts, "limits.io"))
        else None
    ),
    "governor-not-performance": _governor,
    "no-governor": _no_governor,
    "turbo-on": _turbo,
    "deep-idle-states": _deep_idle,
    "cpu-throttled": _throttled,
    "on-battery": _value("power.on_battery", bool, "the machine runs on battery", "connect the power supply"),
    "slow-clock-source": _slow_clock,
    "swap-in-use": _swap_in_use,
    "low-memory": _low_memory,
    "huge-pages-always": _value(
        "memory.huge_pages",
        _among(("always",)),
        "transparent huge pages are 'always': the kernel moves memory about while a benchmark runs; expected madvise",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    ),
    "scheduler": _scheduler,
    "read-ahead": _devices(
        _read_ahead,
        "read-ahead is {seen}; usual is 128 KiB. It changes buffered sequential reads, not direct ones",
        "echo 128 | sudo tee /sys/block/{name}/queue/read_ahead_kb",
    ),
    "write-back-cache": _devices(
        lambda drive: _name(drive) if fact(drive, "queue.write_cache") == "write back" else "",
        "{seen} has a write-back cache: short bursts of writes are answered from it, before they are durable",
        "to measure durable writes: ioassay run STUDY --set params.fsync=1",
    ),
    "access-times": _access_times,
    "discard-on-delete": _value(
        "disk.mount.options",
        {"discard", "discard=sync"}.intersection,
        "{point} is mounted with 'discard': deleting a file keeps the drive busy afterwards",
        "sudo mount -o remount,nodiscard {point} (and fstrim.timer instead)",
    ),
    "layered-device": _devices(
        _layer,
        "between the path and the drive lies {seen}: it is measured too",
        "name a path on the drive itself",
        drives=False,
    ),
    "old-kernel": _old_kernel,
    "not-root": _value(
        "user.root",
        lambda root: root is False,
        "this user is not root: the governor cannot be set, caches cannot be dropped, and drives do not tell their "
        "health",
        f"{AS_ROOT} …",
    ),
    "no-witness": _no_witness,
    "no-confinement": _value(
        "confinement.unusable",
        bool,
        "the kernel cannot hold a trial's processes to what they may write, so only the checks before a run do: "
        "{value}",
        f"see {document('safety')}",
    ),
}
"""Code -> check, in the order in which they are shown: what makes a measurement meaningless first."""
