"""The machine as a whole: processors, kernel, distribution, memory, virtualisation, limits of its control group, clock,
power, versions of tools, and what else it is doing.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import ioassay
from ioassay.host import block_devices, cgroup
from ioassay.host.machine import Machine, known, selected, whole_number
from ioassay.process import landlock, process_table
from ioassay.process.process_table import Status
from ioassay.roles import Tool

_NO_LIMIT_BYTES = 1 << 60
"""Control groups of version 1 say "no limit" with a number near 2^63, rounded down to a page."""
_PACKAGE = Path(__file__).parent.parent
_SIZES = {
    "MemTotal": "total_bytes",
    "MemAvailable": "available_bytes",
    "SwapTotal": "swap_total_bytes",
    "SwapFree": "swap_free_bytes",
}
_PAGING = ("swappiness", "dirty_ratio", "dirty_background_ratio", "dirty_bytes")


def kernel(machine: Machine) -> dict[str, Any]:
    files = {"name": "ostype", "release": "osrelease", "version": "version", "hostname": "hostname"}
    return machine.texts("proc/sys/kernel", **files) | machine.texts("proc", cmdline="cmdline")


def witness(machine: Machine) -> dict[str, Any]:
    """Section `witness`: whether BPF programs can watch what tools do; of the real machine only."""
    if machine.root != Path("/"):
        return {}
    from ioassay import _core

    reason = _core.witness_capability()
    return {"bpf": not reason, **known(unusable=reason or None)}


def confinement(machine: Machine) -> dict[str, Any]:
    """Section `confinement`: whether the kernel can hold a trial's processes to what they may write, and what not.

    Of the real machine only.
    """
    if machine.root != Path("/"):
        return {}
    able = landlock.support()
    return {"landlock": able.abi > 0, **known(abi=able.abi or None, unusable=able.why or None, gaps=list(able.gaps))}


def distribution(machine: Machine) -> dict[str, Any]:
    """Section `distribution`, from os-release(5)."""
    said = machine.fields("etc/os-release", "=") or machine.fields("usr/lib/os-release", "=")
    names = {"id": "ID", "version": "VERSION_ID", "name": "PRETTY_NAME"}
    return {fact: said[name].strip("\"'") for fact, name in names.items() if name in said}


def memory(machine: Machine) -> dict[str, Any]:
    said = {
        name: whole_number(text.removesuffix("kB").strip()) for name, text in machine.fields("proc/meminfo").items()
    }
    sizes = {name: kib * 1024 for line, name in _SIZES.items() if (kib := said.get(line)) is not None}
    pages = machine.texts("sys/kernel/mm/transparent_hugepage", huge_pages="enabled", huge_pages_defrag="defrag")
    chosen = {name: selected(text) for name, text in pages.items()}
    return {**sizes, **chosen, **machine.numbers("proc/sys/vm", **{name: name for name in _PAGING})}


def virtualisation(machine: Machine, hypervisor_flag: bool) -> dict[str, Any]:
    """Section `virtualisation`: `vm` and `container` are absent on bare metal and outside of containers."""
    vm = machine.output("systemd-detect-virt", "--vm") or machine.text("sys/hypervisor/type")
    container = machine.output("systemd-detect-virt", "--container")
    if vm in (None, "none") and hypervisor_flag:
        vm = "unknown"
    kinds = known(vm=None if vm == "none" else vm, container=None if container == "none" else container)
    return kinds | machine.texts("sys/class/dmi/id", vendor="sys_vendor", product="product_name")


def limits(machine: Machine) -> dict[str, Any]:
    """Section `limits`: what control groups and affinity leave of the machine; the tightest of all levels."""
    unified = machine.path("sys/fs/cgroup/cgroup.controllers").exists()
    groups = cgroup.paths_of(machine.root)

    def levels(controller: str) -> list[str]:
        inside = PurePosixPath(groups.get("" if unified else controller, "/").lstrip("/"))
        base = PurePosixPath("sys/fs/cgroup") if unified else PurePosixPath("sys/fs/cgroup", controller)
        return [str(base / level) for level in (inside, *inside.parents)]

    free, cpus, io = [], [], list[str]()
    for folder in levels("pids"):  # what a group's pids.max leaves (cgroup-v1/pids.rst)
        most, taken = (machine.number(f"{folder}/pids.{name}") for name in ("max", "current"))
        free.append(None if most is None else max(most - (taken or 0), 0))
    for folder in levels("cpu"):
        quota, period = (machine.text(f"{folder}/cpu.cfs_{name}_us") or "" for name in ("quota", "period"))
        if unified:
            quota, _, period = (machine.text(f"{folder}/cpu.max") or "max").partition(" ")
            period = period or "100000"
        if quota.isdecimal() and int(quota) and period.isdecimal() and int(period):
            cpus.append(int(quota) / int(period))
    for folder in levels("blkio"):
        io += machine.lines(f"{folder}/io.max") if unified else []
        for file in () if unified else machine.paths(f"{folder}/blkio.throttle.*_device"):
            name = file.name.removeprefix("blkio.throttle.").removesuffix("_device")
            io += [f"{line} ({name})" for line in machine.lines(file)]
    memory_file = "memory.max" if unified else "memory.limit_in_bytes"
    sizes = (machine.number(f"{folder}/{memory_file}") for folder in levels("memory"))
    return known(
        version=2 if unified else 1 if groups else None,
        affinity=machine.fields("proc/self/status").get("Cpus_allowed_list"),
        cpus=min(cpus, default=None),
        memory_bytes=min((size for size in sizes if size is not None and size < _NO_LIMIT_BYTES), default=None),
        processes=min((number for number in free if number is not None), default=None),
        io=io,
    )


def clock(machine: Machine) -> dict[str, Any]:
    folder = "sys/devices/system/clocksource/clocksource0"
    return known(
        source=machine.text(f"{folder}/current_clocksource"),
        available=(machine.text(f"{folder}/available_clocksource") or "").split(),
        ticks_per_s=os.sysconf("SC_CLK_TCK"),
    )


def power(machine: Machine) -> dict[str, Any]:
    """Section `power`: `on_battery` is absent where there is no battery."""
    batteries = [
        machine.text(path / "status")
        for path in machine.paths("sys/class/power_supply/*")
        # Not the battery of a mouse or a headset (sysfs-class-power: scope).
        if machine.text(path / "type") == "Battery" and machine.text(path / "scope") != "Device"
    ]
    return known(on_battery="Discharging" in batteries if batteries else None)


def tools(machine: Machine, wanted: Sequence[Tool]) -> dict[str, str]:
    """Section `tools`: the first line of what each says of its version, for those that are there."""
    said = {tool.executable: machine.output(*tool.version_argv) for tool in wanted}
    return {name: text.strip().splitlines()[0] for name, text in said.items() if text and text.strip()}


def ioassay_itself(machine: Machine, package: Path = _PACKAGE) -> dict[str, Any]:
    """Section `ioassay`; `commit` ends with -dirty when files were changed."""
    checkout = package.parent.parent
    # Only our own checkout: an installed package may lie inside another one.
    is_checkout = (checkout / ".git").exists() and package.parent.name == "python"
    argv = ("git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12", "--match=")
    return known(
        version=ioassay.__version__,
        commit=machine.output(*argv) if is_checkout else None,
        python=platform.python_version(),
    )


CPU = "sys/devices/system/cpu"

_LSCPU = {
    "Model name": "model",
    "Vendor ID": "vendor",
    "Architecture": "architecture",
    "L2 cache": "l2_cache",
    "L3 cache": "l3_cache",
}


def cpu(machine: Machine) -> dict[str, Any]:
    """Section `cpu`: topology from /sys and /proc/cpuinfo; `lscpu` adds names that are not there (ARM models)."""
    info = machine.fields("proc/cpuinfo")
    temperatures_mc = [
        milli
        for zone in machine.paths("sys/class/thermal/thermal_zone[0-9]*")
        if re.search("pkg|cpu|soc", (machine.text(zone / "type") or "").lower())
        and (milli := machine.number(zone / "temp")) is not None
    ]
    flaws = ((path, machine.text(path)) for path in machine.paths(f"{CPU}/vulnerabilities/*"))
    lscpu = dict(_flat(machine.answer("lscpu", "-J").get("lscpu")))
    folders = machine.paths(f"{CPU}/cpu[0-9]*/topology")
    places = [(machine.text(folder / "physical_package_id"), machine.text(folder / "core_id")) for folder in folders]
    cores = len(set(places))
    # How often any package was thermally throttled since boot (x86 only): each core of a package shows its count.
    counts = map(machine.number, machine.paths(f"{CPU}/cpu[0-9]*/thermal_throttle/package_throttle_count"))
    return {name: lscpu[field] for field, name in _LSCPU.items() if field in lscpu} | known(
        model=info.get("model name"),
        vendor=info.get("vendor_id"),
        microcode=info.get("microcode"),
        hypervisor_flag=True if "hypervisor" in info.get("flags", "").split() else None,
        cpus=len(places) or None,
        cores=cores or None,
        sockets=len({package for package, _ in places}) or None,
        threads_per_core=len(places) // cores if cores else None,
        numa_nodes=len(machine.paths("sys/devices/system/node/node[0-9]*")) or None,
        **_clock_control(machine),
        smt=machine.text(f"{CPU}/smt/control"),
        idle=_idle(machine),
        mitigations={path.name: text for path, text in flaws if text and text != "Not affected"},
        throttled=max((count for count in counts if count is not None), default=None),
        temperature_c=max(temperatures_mc) / 1000 if temperatures_mc else None,
    )


def _flat(entries: object) -> Iterator[tuple[str, str]]:
    """util-linux 2.38 prints one flat list, later versions nest `children`."""
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping):
            if isinstance(data := entry.get("data"), str) and data:
                yield str(entry.get("field", "")).rstrip(":"), data
            yield from _flat(entry.get("children"))


def lacks_avx2(root: Path = Path("/")) -> bool:
    """Whether this is an x86 processor without AVX2, which the usual builds of some libraries need."""
    try:
        with (root / "proc/cpuinfo").open() as lines:
            flags = next((line for line in lines if line.startswith("flags")), "avx2")
    except OSError:
        return False
    return "avx2" not in flags.split()


def _clock_control(machine: Machine) -> dict[str, Any]:
    folders = machine.paths(f"{CPU}/cpu[0-9]*/cpufreq")
    governors = Counter(filter(None, (machine.text(folder / "scaling_governor") for folder in folders)))
    # Whether cores may run above their nominal clock (admin-guide/pm/intel_pstate.rst, cpufreq.rst).
    forbidden, allowed = machine.number(f"{CPU}/intel_pstate/no_turbo"), machine.number(f"{CPU}/cpufreq/boost")
    turbo = None if allowed is None else allowed == 1
    found = known(governors=dict(governors), turbo=turbo if forbidden is None else forbidden == 0)
    for one in folders[:1]:
        found |= known(available_governors=(machine.text(one / "scaling_available_governors") or "").split())
        found |= machine.texts(
            one, frequency_driver="scaling_driver", energy_preference="energy_performance_preference"
        )
        found |= machine.numbers(one, min_khz="cpuinfo_min_freq", max_khz="cpuinfo_max_freq")
    return found


def _idle(machine: Machine) -> dict[str, Any]:
    states = [
        {
            **machine.texts(folder, name="name"),
            **machine.numbers(folder, latency_us="latency"),
            "disabled": machine.number(folder / "disable") == 1,
        }
        for folder in machine.paths(f"{CPU}/cpu0/cpuidle/state[0-9]*")
    ]
    return known(
        driver=machine.text(f"{CPU}/cpuidle/current_driver"),
        governor=machine.text(f"{CPU}/cpuidle/current_governor_ro") or machine.text(f"{CPU}/cpuidle/current_governor"),
        states=states,
    )


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


def activity(
    machine: Machine, disks: Sequence[str], observe_s: float = OBSERVE_S, sleep: Callable[[float], None] = time.sleep
) -> dict[str, Any]:
    """Section `activity`: what the machine is doing besides; processes are seen twice, `observe_s` apart.

    `disks` are kernel names whose requests are counted.
    """
    before, requests = process_table.statuses(machine.root), _requests(machine, disks)
    sleep(observe_s)
    after = process_table.statuses(machine.root)
    loads = (machine.text("proc/loadavg") or "").split()
    uptime = (machine.text("proc/uptime") or "").split()
    # Of the processor time that this machine wanted since it started, the hypervisor gave a share to others.
    first = next(iter(machine.lines("proc/stat")), "").split()[1:]
    user, nice, system, _, _, irq, softirq, steal = [*map(int, first), *[0] * 8][:8]
    wanted = user + nice + system + irq + softirq + steal if len(first) >= 8 else 0
    return known(
        load=[float(load) for load in loads[:3]],
        uptime_s=float(uptime[0]) if uptime else None,
        steal_share=round(steal / wanted, 4) if wanted else None,
        observed_s=observe_s,
        busy=_busy(before, after, observe_s),
        disk_requests={name: count - requests.get(name, 0) for name, count in _requests(machine, disks).items()},
        background=sorted(
            {
                process.name
                for pid, process in after.items()
                if process.name in BACKGROUND and _WAITS not in (machine.text(f"proc/{pid}/cmdline") or "")
            }
        ),
    )


def _busy(before: Mapping[int, Status], after: Mapping[int, Status], observe_s: float) -> list[dict[str, Any]]:
    """The busiest processes other than this one; `share` 1.0 is one whole core."""
    per_tick = 1 / os.sysconf("SC_CLK_TCK") / observe_s if observe_s else 0.0
    found: list[tuple[float, int, str]] = []
    for pid, now in after.items():
        then = before.get(pid, now)
        share = (now.user_ticks + now.system_ticks - then.user_ticks - then.system_ticks) * per_tick
        if share >= BUSY_SHARE and pid != os.getpid():
            found.append((share, pid, now.name))
    return [
        {"pid": pid, "name": name, "share": round(share, 2)} for share, pid, name in sorted(found)[: -_MOST - 1 : -1]
    ]


def _requests(machine: Machine, disks: Sequence[str]) -> dict[str, int]:
    """Requests that each disk has completed so far: reads and writes."""
    counted = block_devices.disk_counters(disks, machine.root)
    return {name: of["reads"] + of["writes"] for name, of in counted.items()}
