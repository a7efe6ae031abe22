"""Is this host fit to measure? Checks over host facts; each finding carries the command that fixes it.

Pure: facts in, warnings out. A run stores its facts, so an old run can be diagnosed anew with better checks. Gathering
facts is `ioassay.host`. To add a check: its row in CHECKS, its words in doctor.toml, its case in tests/corpus/hosts/,
its line in docs/doctor.md, which says what each spoils.
"""

from __future__ import annotations

import re
import shlex
import string
import tomllib
from collections.abc import Callable, Mapping, Sequence
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
"""Of the load average (proc_loadavg(5)), which also counts tasks that wait for disks."""
_TURBO = {True: {"off": 1, "file": "intel_pstate/no_turbo"}, False: {"off": 0, "file": "cpufreq/boost"}}
"""Whether the driver is Intel's -> what turns turbo off."""
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
    found, texts = [], tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    for code, check in CHECKS.items():
        if (values := check(facts)) is not None:
            values, words = {**common, **values}, texts[code]
            remedies = [_FORM.format(words["remedy"], **values, name=name) for name in values.get("names", [""])]
            found.append(Warning_(code, _FORM.format(words["text"], **values), "; ".join(dict.fromkeys(remedies))))
    return found


class _Form(string.Formatter):
    """Words with values; `{free:size}` is a number of bytes."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return units.format_size(value) if format_spec == "size" else str(super().format_field(value, format_spec))


_FORM = _Form()


def fact(facts: Facts, place: str) -> Any:
    """The value at `cpu.turbo`; None where any of it is absent."""
    here: Any = facts
    for key in place.split("."):
        if not isinstance(here, Mapping) or key not in here:
            return None
        here = here[key]
    return here


# What rows of CHECKS are made of


def _of(bad: Callable[..., object], *places: str) -> Check:
    """A check of the facts at some places, which `bad` gets in their order; one at `place?` may be unknown (None).

    `bad` returns the values for the words, or whether the first fact is bad, which is their `value` then.
    """

    def check(facts: Facts) -> Values:
        known = {place: fact(facts, place.rstrip("?")) for place in places}
        if any(value is None and not place.endswith("?") for place, value in known.items()):
            return None
        if not (found := bad(*known.values())):
            return None
        return found if isinstance(found, Mapping) else {"value": next(iter(known.values()))}

    return check


def _devices(seen: Callable[[Facts], object], *, drives: bool = True) -> Check:
    """A check of each drive, or of each device from the mounted one down: `seen` says what is wrong with one.

    One of which it says no words, but True, is named.
    """

    def check(facts: Facts) -> Values:
        devices = _drives(facts) if drives else fact(facts, "disk.devices") or ()
        bad = {_name(device): words for device in devices if (words := seen(device))}
        said = ", ".join(words if isinstance(words, str) else name for name, words in bad.items())
        return {"seen": said, "names": [name.replace("/", "!") for name in bad]} if bad else None

    return check


def _drives(facts: Facts) -> Sequence[Facts]:
    """The drives at the bottom of the block devices under the path."""
    return [device for device in fact(facts, "disk.devices") or () if device.get("kind") == "disk"]


def _name(device: Facts) -> str:
    return str(device.get("name"))


# The disk under the path


def _compressing(kind: str, options: Sequence[str] | None, path: str) -> object:
    given = [f" ({name})" for name in options or () if name.startswith("compress")]
    command = "zfs set compression=off DATASET" if kind == "zfs" else f"chattr +m {shlex.quote(path)}"
    compresses = kind == "zfs" or (given and kind in ("btrfs", "f2fs", "bcachefs"))
    return compresses and {"kind": kind, "option": "".join(given[:1]), "command": command}


def _scheduler(facts: Facts) -> Values:
    """A scheduler that costs more than it gives (block/…-iosched in the kernel's documentation)."""
    seen, commands = [], []
    for drive in _drives(facts):
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


def _slow_link(facts: Facts) -> Values:
    seen = []
    for drive in _drives(facts):
        speed, most = (
            float(number[0]) if (number := re.match(r"\d+(\.\d+)?", str(fact(drive, place) or ""))) else 0.0
            for place in ("link.speed", "link.max_speed")
        )
        width, widest = fact(drive, "link.width"), fact(drive, "link.max_width")
        if (speed and most and speed < most) or (width and widest and width < widest):
            seen.append(f"{drive['name']} runs at {speed:g} GT/s x{width}, and could at {most:g} GT/s x{widest}")
    return {"seen": "; ".join(seen)} if seen else None


def _misaligned(facts: Facts) -> Values:
    block_bytes = max((fact(drive, "queue.physical_block_size") or 0 for drive in _drives(facts)), default=0)
    bad = [
        _name(device) for device in fact(facts, "disk.devices") or ()
        if device.get("alignment_offset_bytes") or (block_bytes and device.get("start_bytes", 0) % block_bytes)
    ]  # fmt: skip
    return {"seen": ", ".join(bad), "block_bytes": block_bytes} if bad else None


def _disk_in_use(seconds: float, requests: Mapping[str, int]) -> object:
    """Somebody else's requests to the same disk, while this program only looked."""
    rates = {name: count / seconds for name, count in requests.items() if seconds}
    busy = [f"{name} ({rate:.0f}/s)" for name, rate in rates.items() if rate >= _OTHERS_REQUESTS_PER_S]
    return busy and {"seen": ", ".join(busy)}


# The machine as a whole


def _leftovers(files: Sequence[str], root: bool | None) -> object:
    by_root = root is False and any(file.startswith(("/run/", "/sys/")) for file in files)
    groups = [file for file in files if file.startswith("/sys/fs/cgroup/")]
    settings = [file for file in files if file not in groups]
    parts = [f"host settings changed: {', '.join(settings)}"] if settings else []
    parts += [f"control groups behind, which the next run removes: {', '.join(groups)}"] if groups else []
    command = RESTORE_COMMAND.replace("ioassay", AS_ROOT, 1) if by_root else RESTORE_COMMAND
    return files and {"what": ", and ".join(parts), "command": command}


def _background(names: Sequence[str]) -> object:
    units_of_them = (_STOPS.get(name) or _STOPS.get(name.partition(".")[0]) for name in names)
    services = " ".join(dict.fromkeys(filter(None, units_of_them)))
    command = f"sudo systemctl stop {services}, or wait" if services else "wait until they have ended"
    return names and {"seen": ", ".join(names), "command": command}


def _busy_processes(busy: Sequence[Facts]) -> object:
    seen = ", ".join(f"{process['name']} ({process['pid']}, {process['share']:.0%} of a core)" for process in busy)
    is_much = sum(process["share"] for process in busy) >= _BUSY_CORES
    return is_much and {"seen": seen, "pids": ",".join(str(process["pid"]) for process in busy)}


def _cpu_affinity(allowed: str, cpus: int) -> object:
    spans = [part.split("-") for part in allowed.split(",") if re.fullmatch(r"\d+(-\d+)?", part)]  # as in 0-3,8
    number = sum(int(span[-1]) - int(span[0]) + 1 for span in spans)
    return allowed and number < cpus and {"allowed": allowed, "cpus": cpus, "last": cpus - 1}


def _governor(governors: Mapping[str, int]) -> object:
    others = {name: count for name, count in governors.items() if name != "performance"}
    seen = ", ".join(f"{name} on {count} of {sum(governors.values())} processors" for name, count in others.items())
    return others and {"seen": seen}


def _deep_idle(states: Sequence[Facts]) -> object:
    deep = [state for state in states if not state.get("disabled") and state.get("latency_us", 0) >= _DEEP_US]
    seen = ", ".join(f"{state.get('name')} ({state['latency_us']} µs)" for state in deep)
    return deep and {"seen": seen, "deep_us": _DEEP_US}


def _slow_clock(source: str, available: Sequence[str] | None) -> object:
    better = [name for name in available or () if name not in _SLOW_CLOCKS]
    file = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    command = f"echo {better[0]} | sudo tee {file}" if better else "boot with tsc=reliable where it is"
    return source in _SLOW_CLOCKS and {"source": source, "command": command}


def _no_witness(reason: str, root: bool | None) -> object:
    withheld = re.findall(r"CAP_(\w+)", reason) if root else []  # by a container
    if withheld:
        # What follows in the reason is the remedy of a user.
        return {"reason": reason.partition(": ")[0], "command": process_capabilities.of_container(*withheld)}
    return reason and {"reason": reason, "command": f"{AS_ROOT} …, or see {document('backends')}"}


CHECKS: dict[str, Check] = {
    "leftover-restore-file": _of(_leftovers, "leftovers", "user.root?"),
    "memory-filesystem": _of(_MEMORY.__contains__, "disk.mount.filesystem"),
    "overlay-filesystem": _of(("overlay", "aufs").__contains__, "disk.mount.filesystem"),
    "network-filesystem": _of(_NETWORK.__contains__, "disk.mount.filesystem"),
    "compressing-filesystem": _of(_compressing, "disk.mount.filesystem", "disk.mount.options?", "disk.path?"),
    "low-free-space": _of(
        lambda free, kind: free < LEAST_FREE_BYTES and kind not in _MEMORY, "disk.free_bytes", "disk.mount.filesystem?"
    ),
    "disk-nearly-full": _of(
        lambda free, size, devices: devices and size and free < LEAST_FREE_SHARE * size and {"share": free / size},
        *("disk.free_bytes", "disk.size_bytes", "disk.devices"),
    ),
    "drive-failing": _devices(
        lambda drive: (
            fact(drive, "health.passed") is False
            or fact(drive, "health.critical_warning")
            or fact(drive, "health.media_errors")
        )
    ),
    "drive-hot": _devices(
        lambda drive: (
            f"{_name(drive)} {now_c} °C"
            if (now_c := fact(drive, "health.temperature_c"))
            and now_c >= (_HOT_NVME_C if _name(drive).startswith("nvme") else _HOT_C)
            else ""
        )
    ),
    "slow-link": _slow_link,
    "misaligned-partition": _misaligned,
    "raid-working": _devices(
        lambda device: f"{_name(device)} ({device['sync_action']})" if device.get("sync_action") in _WORKING else "",
        drives=False,
    ),
    "disk-in-use": _of(_disk_in_use, "activity.observed_s", "activity.disk_requests"),
    "background-services": _of(_background, "activity.background"),
    "busy-processes": _of(_busy_processes, "activity.busy"),
    "high-load": _of(
        lambda load, cpus: (
            cpus
            and load[0] > (most := max(1.0, _LOAD_PER_CPU * cpus))
            and {"load": load[0], "cpus": cpus, "most": most}
        ),
        *("activity.load", "cpu.cpus"),
    ),
    "steal-time": _of(lambda share: share >= _STEAL_SHARE, "activity.steal_share"),
    "virtual-machine": _of(
        lambda vm, product: vm and {"seen": f"{vm}, {product}" if product else vm},
        *("virtualisation.vm", "virtualisation.product?"),
    ),
    "cpu-limit": _of(
        lambda limit, cpus: (cpus is None or limit < cpus) and {"limit": limit, "of": f" of {cpus}" if cpus else ""},
        *("limits.cpus", "cpu.cpus?"),
    ),
    "cpu-affinity": _of(_cpu_affinity, "limits.affinity", "cpu.cpus"),
    "memory-limit": _of(
        lambda limit, total: total is None or limit < total, "limits.memory_bytes", "memory.total_bytes?"
    ),
    "io-limit": _of(lambda limits: limits and {"seen": "; ".join(limits)}, "limits.io"),
    "governor-not-performance": _of(_governor, "cpu.governors"),
    "no-governor": _of(
        lambda cpus, governors: governors is None and {"text": NO_GOVERNOR.text, "remedy": NO_GOVERNOR.remedy},
        *("cpu.cpus", "cpu.governors?"),
    ),
    "turbo-on": _of(
        lambda is_on, driver: is_on and _TURBO[str(driver).startswith("intel_")],
        *("cpu.turbo", "cpu.frequency_driver?"),
    ),
    "deep-idle-states": _of(_deep_idle, "cpu.idle.states"),
    "cpu-throttled": _of(
        lambda times, now_c: times and {"times": times, "now": "" if now_c is None else f", now {now_c:.0f} °C"},
        *("cpu.throttled", "cpu.temperature_c?"),
    ),
    "on-battery": _of(bool, "power.on_battery"),
    "slow-clock-source": _of(_slow_clock, "clock.source", "clock.available?"),
    "swap-in-use": _of(
        lambda total, free: total and total - free >= _SWAP_BYTES and {"used": total - free},
        *("memory.swap_total_bytes", "memory.swap_free_bytes"),
    ),
    "low-memory": _of(
        lambda available, total: available < _FREE_MEMORY_SHARE * total and {"available": available, "total": total},
        *("memory.available_bytes", "memory.total_bytes"),
    ),
    "huge-pages-always": _of("always".__eq__, "memory.huge_pages"),
    "scheduler": _scheduler,
    "read-ahead": _devices(
        lambda drive: (
            f"{kib} KiB on {_name(drive)}"
            if (kib := fact(drive, "queue.read_ahead_kb")) is not None and kib not in _READ_AHEAD_KB
            else ""
        )
    ),
    "write-back-cache": _devices(lambda drive: fact(drive, "queue.write_cache") == "write back"),
    "access-times": _of(
        lambda options, devices: devices and {"noatime", "relatime", "ro"}.isdisjoint(options),
        *("disk.mount.options", "disk.devices"),
    ),
    "discard-on-delete": _of({"discard", "discard=sync"}.intersection, "disk.mount.options"),
    "layered-device": _devices(
        lambda device: (
            f"{_name(device)} ({_LAYERS.get(kind, kind)})"
            if (kind := device.get("kind")) not in ("disk", "partition", None)
            else ""
        ),
        drives=False,
    ),
    "old-kernel": _of(
        lambda release: (
            (found := re.match(r"(\d+)\.(\d+)", release))
            and (int(found[1]), int(found[2])) < OLDEST_KERNEL
            and {"release": release, "oldest": ".".join(map(str, OLDEST_KERNEL))}
        ),
        "kernel.release",
    ),
    "not-root": _of(lambda root: root is False, "user.root"),
    "no-witness": _of(_no_witness, "witness.unusable", "user.root?"),
    "no-confinement": _of(bool, "confinement.unusable"),
}
"""Code -> check, in the order in which they are shown: what makes a measurement meaningless first."""
