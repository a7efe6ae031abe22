"""Is this host fit to measure? Checks over host facts; each finding carries the command that fixes it.

Pure: facts in, warnings out. A run stores its facts, so an old run can be diagnosed anew with better checks. Gathering
facts is `ioassay.host`. To add a check: its row in CHECKS, its words in doctor.toml, its case in tests/corpus/hosts/,
its line in docs/doctor.md, which says what each spoils.
"""

from __future__ import annotations

import functools
import re
import shlex
import tomllib
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay import units
from ioassay.hints import document
from ioassay.host import process_capabilities
from ioassay.host.settings import AS_ROOT, NO_GOVERNOR, RESTORE_COMMAND
from ioassay.records.record import Warning_

__all__ = ["CHECKS", "diagnose"]

Facts = Mapping[str, Any]
Values = Mapping[str, Any] | None
"""What a check found, for its words; None when all is well or nothing is known."""
Check = Callable[[Facts], Values]

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
    mount = fact(facts, "disk.mount") or {}
    common = {"point": shlex.quote(str(mount.get("point") or "")), "source": mount.get("source")}
    common |= {"as_root": AS_ROOT, "safety": document("safety")}
    found = []
    for code, check in CHECKS.items():
        if (values := check(facts)) is not None:
            values, words = {**common, **values}, _words()[code]
            remedies = [words["remedy"].format(**values, name=name) for name in values.get("names", [""])]
            found.append(Warning_(code, words["text"].format(**values), "; ".join(dict.fromkeys(remedies))))
    return found


@functools.cache
def _words() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def fact(facts: Facts, place: str) -> Any:
    """The value at `cpu.turbo`; None where any of it is absent."""
    here: Any = facts
    for key in place.split("."):
        if not isinstance(here, Mapping) or key not in here:
            return None
        here = here[key]
    return here


# What rows of CHECKS are made of


def _value(place: str, bad: Callable[[Any], object]) -> Check:
    """A check of one fact, which is the `value`."""

    def check(facts: Facts) -> Values:
        value = fact(facts, place)
        return None if value is None or not bad(value) else {"value": value}

    return check


def _among(names: Container[str]) -> Callable[[Any], bool]:
    return lambda value: value in names


def _devices(seen: Callable[[Facts], str], *, drives: bool = True) -> Check:
    """A check of each drive, or of each device from the mounted one down: `seen` says what is wrong with one, or ''."""

    def check(facts: Facts) -> Values:
        bad = {_name(device): words for device in _block_devices(facts, drives=drives) if (words := seen(device))}
        names = [name.replace("/", "!") for name in bad]
        return {"seen": ", ".join(bad.values()), "names": names} if bad else None

    return check


def _block_devices(facts: Facts, *, drives: bool) -> Sequence[Facts]:
    """The block devices under the path, from the mounted one down to the drives; or the drives at the bottom alone."""
    devices = fact(facts, "disk.devices") or ()
    return [device for device in devices if device.get("kind") == "disk"] if drives else devices


def _name(device: Facts) -> str:
    return str(device.get("name"))


# The disk under the path


def _low_free_space(facts: Facts) -> Values:
    free = fact(facts, "disk.free_bytes")
    if free is None or free >= LEAST_FREE_BYTES or fact(facts, "disk.mount.filesystem") in _MEMORY:
        return None
    return {"free": units.format_size(free)}


def _nearly_full(facts: Facts) -> Values:
    free, size = fact(facts, "disk.free_bytes"), fact(facts, "disk.size_bytes")
    if free is None or not size or free >= LEAST_FREE_SHARE * size or not _block_devices(facts, drives=False):
        return None
    return {"share": free / size}


def _compressing(facts: Facts) -> Values:
    kind = fact(facts, "disk.mount.filesystem")
    given = [f" ({name})" for name in fact(facts, "disk.mount.options") or () if name.startswith("compress")]
    if kind != "zfs" and not (given and kind in ("btrfs", "f2fs", "bcachefs")):
        return None
    path = shlex.quote(str(fact(facts, "disk.path")))
    command = "zfs set compression=off DATASET" if kind == "zfs" else f"chattr +m {path}"
    return {"kind": kind, "option": "".join(given[:1]), "command": command}


def _access_times(facts: Facts) -> Values:
    options = fact(facts, "disk.mount.options") or ()
    if fact(facts, "disk.mount") is None or not _block_devices(facts, drives=False):
        return None
    return None if {"noatime", "relatime", "ro"} & {*options} else {}


def _scheduler(facts: Facts) -> Values:
    """A scheduler that costs more than it gives (block/…-iosched in the kernel's documentation)."""
    seen, commands = [], []
    for drive in _block_devices(facts, drives=True):
        name, used, rotational = _name(drive), fact(drive, "queue.scheduler"), fact(drive, "queue.rotational")
        if name.startswith("nvme"):
            better = "none" if used not in ("none", "kyber") else None
        elif rotational is False:
            better = "none" if used == "bfq" else None
        else:  # a virtual disk calls itself rotational whatever it is
            better = "mq-deadline" if rotational and used == "none" and not name.startswith(("vd", "xvd")) else None
        if better in (fact(drive, "queue.schedulers") or ()):
            seen.append(f"{name} uses {used}, expected {better}")
            commands.append(f"echo {better} | sudo tee /sys/block/{name}/queue/scheduler")
    return {"seen": ", ".join(seen), "command": "; ".join(commands)} if seen else None


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


def _slow_link(facts: Facts) -> Values:
    seen = []
    for drive in _block_devices(facts, drives=True):
        speed, most = (
            float(number[0]) if (number := re.match(r"\d+(\.\d+)?", str(fact(drive, place) or ""))) else 0.0
            for place in ("link.speed", "link.max_speed")
        )
        width, widest = fact(drive, "link.width"), fact(drive, "link.max_width")
        if (speed and most and speed < most) or (width and widest and width < widest):
            seen.append(f"{drive['name']} runs at {speed:g} GT/s x{width}, and could at {most:g} GT/s x{widest}")
    return {"seen": "; ".join(seen)} if seen else None


def _misaligned(facts: Facts) -> Values:
    sizes = [fact(drive, "queue.physical_block_size") or 0 for drive in _block_devices(facts, drives=True)]
    block_bytes = max(sizes, default=0)
    bad = [
        _name(device) for device in _block_devices(facts, drives=False)
        if device.get("alignment_offset_bytes") or (block_bytes and device.get("start_bytes", 0) % block_bytes)
    ]  # fmt: skip
    return {"seen": ", ".join(bad), "block_bytes": block_bytes} if bad else None


def _layer(device: Facts) -> str:
    kind = device.get("kind")
    return "" if kind in ("disk", "partition", None) else f"{device['name']} ({_LAYERS.get(str(kind), kind)})"


def _disk_in_use(facts: Facts) -> Values:
    """Somebody else's requests to the same disk, while this program only looked."""
    seconds, requests = fact(facts, "activity.observed_s"), fact(facts, "activity.disk_requests") or {}
    rates = {name: count / seconds for name, count in requests.items() if seconds}
    busy = [f"{name} ({rate:.0f}/s)" for name, rate in rates.items() if rate >= _OTHERS_REQUESTS_PER_S]
    return {"seen": ", ".join(busy)} if busy else None


# The machine as a whole


def _leftovers(facts: Facts) -> Values:
    files = fact(facts, "leftovers") or ()
    if not files:
        return None
    by_root = any(file.startswith(("/run/", "/sys/")) for file in files) and fact(facts, "user.root") is False
    groups = [file for file in files if file.startswith("/sys/fs/cgroup/")]
    settings = [file for file in files if file not in groups]
    parts = [f"host settings changed: {', '.join(settings)}"] if settings else []
    parts += [f"control groups behind, which the next run removes: {', '.join(groups)}"] if groups else []
    command = RESTORE_COMMAND.replace("ioassay", AS_ROOT, 1) if by_root else RESTORE_COMMAND
    return {"what": ", and ".join(parts), "command": command}


def _background(facts: Facts) -> Values:
    names = fact(facts, "activity.background") or ()
    units_of_them = (_STOPS.get(name) or _STOPS.get(name.partition(".")[0]) for name in names)
    services = " ".join(dict.fromkeys(filter(None, units_of_them)))
    command = f"sudo systemctl stop {services}, or wait" if services else "wait until they have ended"
    return {"seen": ", ".join(names), "command": command} if names else None


def _busy_processes(facts: Facts) -> Values:
    busy = fact(facts, "activity.busy") or ()
    if sum(process["share"] for process in busy) < _BUSY_CORES:
        return None
    seen = ", ".join(f"{process['name']} ({process['pid']}, {process['share']:.0%} of a core)" for process in busy)
    return {"seen": seen, "pids": ",".join(str(process["pid"]) for process in busy)}


def _high_load(facts: Facts) -> Values:
    """Load average against the number of processors (proc_loadavg(5)); it also counts tasks that wait for disks."""
    load, cpus = fact(facts, "activity.load"), fact(facts, "cpu.cpus")
    most = max(1.0, _LOAD_PER_CPU * (cpus or 0))
    return {"load": load[0], "cpus": cpus, "most": most} if load and cpus and load[0] > most else None


def _virtual_machine(facts: Facts) -> Values:
    vm, product = fact(facts, "virtualisation.vm"), fact(facts, "virtualisation.product")
    return {"seen": f"{vm}, {product}" if product else vm} if vm else None


def _cpu_limit(facts: Facts) -> Values:
    limit, cpus = fact(facts, "limits.cpus"), fact(facts, "cpu.cpus")
    if limit is None or (cpus is not None and limit >= cpus):
        return None
    return {"limit": limit, "of": f" of {cpus}" if cpus is not None else ""}


def _memory_limit(facts: Facts) -> Values:
    limit, total = fact(facts, "limits.memory_bytes"), fact(facts, "memory.total_bytes")
    if limit is None or (total is not None and limit >= total):
        return None
    return {"limit": units.format_size(limit)}


def _cpu_affinity(facts: Facts) -> Values:
    allowed, cpus = fact(facts, "limits.affinity"), fact(facts, "cpu.cpus")
    if not allowed or not cpus:
        return None
    spans = [part.split("-") for part in allowed.split(",") if re.fullmatch(r"\d+(-\d+)?", part)]  # as in 0-3,8
    number = sum(int(span[-1]) - int(span[0]) + 1 for span in spans)
    return {"allowed": allowed, "cpus": cpus, "last": cpus - 1} if number < cpus else None


def _governor(facts: Facts) -> Values:
    governors = fact(facts, "cpu.governors") or {}
    others = {name: count for name, count in governors.items() if name != "performance"}
    seen = ", ".join(f"{name} on {count} of {sum(governors.values())} processors" for name, count in others.items())
    return {"seen": seen} if others else None


def _no_governor(facts: Facts) -> Values:
    if fact(facts, "cpu.cpus") is None or fact(facts, "cpu.governors") is not None:
        return None
    return {"text": NO_GOVERNOR.text, "remedy": NO_GOVERNOR.remedy}


def _turbo(facts: Facts) -> Values:
    intel = str(fact(facts, "cpu.frequency_driver") or "").startswith("intel_")
    off = {"off": 1, "file": "intel_pstate/no_turbo"} if intel else {"off": 0, "file": "cpufreq/boost"}
    return off if fact(facts, "cpu.turbo") else None


def _deep_idle(facts: Facts) -> Values:
    states = [state for state in fact(facts, "cpu.idle.states") or () if not state.get("disabled")]
    deep = [state for state in states if state.get("latency_us", 0) >= _DEEP_US]
    seen = ", ".join(f"{state.get('name')} ({state['latency_us']} µs)" for state in deep)
    return {"seen": seen, "deep_us": _DEEP_US} if deep else None


def _throttled(facts: Facts) -> Values:
    times, now_c = fact(facts, "cpu.throttled"), fact(facts, "cpu.temperature_c")
    return {"times": times, "now": f", now {now_c:.0f} °C" if now_c is not None else ""} if times else None


def _slow_clock(facts: Facts) -> Values:
    source = fact(facts, "clock.source")
    better = [name for name in fact(facts, "clock.available") or () if name not in _SLOW_CLOCKS]
    file = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    command = f"echo {better[0]} | sudo tee {file}" if better else "boot with tsc=reliable where it is"
    return {"source": source, "command": command} if source in _SLOW_CLOCKS else None


def _swap_in_use(facts: Facts) -> Values:
    total, free = fact(facts, "memory.swap_total_bytes"), fact(facts, "memory.swap_free_bytes")
    if not total or free is None or total - free < _SWAP_BYTES:
        return None
    return {"used": units.format_size(total - free)}


def _low_memory(facts: Facts) -> Values:
    total, available = fact(facts, "memory.total_bytes"), fact(facts, "memory.available_bytes")
    if not total or available is None or available >= _FREE_MEMORY_SHARE * total:
        return None
    return {"available": units.format_size(available), "total": units.format_size(total)}


def _old_kernel(facts: Facts) -> Values:
    release = str(fact(facts, "kernel.release") or "")
    found = re.match(r"(\d+)\.(\d+)", release)
    if found is None or (int(found[1]), int(found[2])) >= OLDEST_KERNEL:
        return None
    return {"release": release, "oldest": ".".join(map(str, OLDEST_KERNEL))}


def _no_witness(facts: Facts) -> Values:
    reason = fact(facts, "witness.unusable")
    if not reason:
        return None
    withheld = re.findall(r"CAP_(\w+)", reason) if fact(facts, "user.root") else []  # by a container
    if withheld:
        # What follows in the reason is the remedy of a user.
        return {"reason": reason.partition(": ")[0], "command": process_capabilities.of_container(*withheld)}
    return {"reason": reason, "command": f"{AS_ROOT} …, or see {document('backends')}"}


def _io_limit(facts: Facts) -> Values:
    limits = fact(facts, "limits.io")
    return {"seen": "; ".join(limits)} if limits else None


CHECKS: dict[str, Check] = {
    "leftover-restore-file": _leftovers,
    "memory-filesystem": _value("disk.mount.filesystem", _among(_MEMORY)),
    "overlay-filesystem": _value("disk.mount.filesystem", _among(("overlay", "aufs"))),
    "network-filesystem": _value("disk.mount.filesystem", _among(_NETWORK)),
    "compressing-filesystem": _compressing,
    "low-free-space": _low_free_space,
    "disk-nearly-full": _nearly_full,
    "drive-failing": _devices(_failing),
    "drive-hot": _devices(_hot),
    "slow-link": _slow_link,
    "misaligned-partition": _misaligned,
    "raid-working": _devices(_raid_at_work, drives=False),
    "disk-in-use": _disk_in_use,
    "background-services": _background,
    "busy-processes": _busy_processes,
    "high-load": _high_load,
    "steal-time": _value("activity.steal_share", lambda share: share >= _STEAL_SHARE),
    "virtual-machine": _virtual_machine,
    "cpu-limit": _cpu_limit,
    "cpu-affinity": _cpu_affinity,
    "memory-limit": _memory_limit,
    "io-limit": _io_limit,
    "governor-not-performance": _governor,
    "no-governor": _no_governor,
    "turbo-on": _turbo,
    "deep-idle-states": _deep_idle,
    "cpu-throttled": _throttled,
    "on-battery": _value("power.on_battery", bool),
    "slow-clock-source": _slow_clock,
    "swap-in-use": _swap_in_use,
    "low-memory": _low_memory,
    "huge-pages-always": _value("memory.huge_pages", _among(("always",))),
    "scheduler": _scheduler,
    "read-ahead": _devices(_read_ahead),
    "write-back-cache": _devices(
        lambda drive: _name(drive) if fact(drive, "queue.write_cache") == "write back" else ""
    ),
    "access-times": _access_times,
    "discard-on-delete": _value("disk.mount.options", {"discard", "discard=sync"}.intersection),
    "layered-device": _devices(_layer, drives=False),
    "old-kernel": _old_kernel,
    "not-root": _value("user.root", lambda root: root is False),
    "no-witness": _no_witness,
    "no-confinement": _value("confinement.unusable", bool),
}
"""Code -> check, in the order in which they are shown: what makes a measurement meaningless first."""
