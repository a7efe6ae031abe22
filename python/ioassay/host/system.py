"""The machine as a whole: kernel, distribution, memory, virtualisation, limits of its control group, clock, power,
versions of tools.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import ioassay
from ioassay.host.machine import Machine, known, selected, whole_number
from ioassay.process import landlock
from ioassay.roles import Tool

_NO_LIMIT_BYTES = 1 << 60
"""Control groups of version 1 say "no limit" with a number near 2^63, rounded down to a page."""
_PACKAGE = Path(__file__).parent.parent


def kernel(machine: Machine) -> dict[str, Any]:
    """Section `kernel`."""
    return known(
        name=machine.text("proc/sys/kernel/ostype"),
        release=machine.text("proc/sys/kernel/osrelease"),
        version=machine.text("proc/sys/kernel/version"),
        cmdline=machine.text("proc/cmdline"),
        hostname=machine.text("proc/sys/kernel/hostname"),
    )


def identity(machine: Machine) -> dict[str, Any]:
    """Section `identity`: machine-id(5), which differs between any two installations."""
    return known(machine_id=machine.text("etc/machine-id"))


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
    pairs = (line.partition("=") for line in machine.lines("etc/os-release") or machine.lines("usr/lib/os-release"))
    said = {name: value.strip("\"'") for name, _, value in pairs}
    return known(id=said.get("ID"), version=said.get("VERSION_ID"), name=said.get("PRETTY_NAME"))


def memory(machine: Machine) -> dict[str, Any]:
    """Section `memory`; sizes in bytes."""
    said = {}
    for line in machine.lines("proc/meminfo"):
        name, _, value = line.partition(":")
        kib = whole_number(value.removesuffix("kB").strip())
        said[name] = kib * 1024 if kib is not None else None
    pages = "sys/kernel/mm/transparent_hugepage"
    return known(
        total_bytes=said.get("MemTotal"),
        available_bytes=said.get("MemAvailable"),
        swap_total_bytes=said.get("SwapTotal"),
        swap_free_bytes=said.get("SwapFree"),
        huge_pages=selected(machine.text(f"{pages}/enabled")),
        huge_pages_defrag=selected(machine.text(f"{pages}/defrag")),
        swappiness=machine.number("proc/sys/vm/swappiness"),
        dirty_ratio=machine.number("proc/sys/vm/dirty_ratio"),
        dirty_background_ratio=machine.number("proc/sys/vm/dirty_background_ratio"),
        dirty_bytes=machine.number("proc/sys/vm/dirty_bytes"),
    )


def virtualisation(machine: Machine, hypervisor_flag: bool) -> dict[str, Any]:
    """Section `virtualisation`: `vm` and `container` are absent on bare metal and outside of containers."""
    vm = machine.output("systemd-detect-virt", "--vm") or machine.text("sys/hypervisor/type")
    container = machine.output("systemd-detect-virt", "--container")
    if vm in (None, "none") and hypervisor_flag:
        vm = "unknown"
    return known(
        vm=None if vm == "none" else vm,
        container=None if container == "none" else container,
        vendor=machine.text("sys/class/dmi/id/sys_vendor"),
        product=machine.text("sys/class/dmi/id/product_name"),
    )


def limits(machine: Machine) -> dict[str, Any]:
    """Section `limits`: what control groups and affinity leave of the machine; the tightest of all levels."""
    unified = machine.path("sys/fs/cgroup/cgroup.controllers").exists()
    groups = _groups(machine)
    found = _limits_v2(machine, groups.get("", "/")) if unified else _limits_v1(machine, groups)
    affinity = next((line for line in machine.lines("proc/self/status") if line.startswith("Cpus_allowed_list:")), "")
    return known(
        version=2 if unified else 1 if groups else None, affinity=affinity.partition(":")[2].strip() or None
    ) | (known(**found))


def _groups(machine: Machine) -> dict[str, str]:
    """Controller -> path of our group; '' is the unified hierarchy (cgroups(7))."""
    found: dict[str, str] = {}
    for line in machine.lines("proc/self/cgroup"):
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        found |= dict.fromkeys(controllers.split(","), path or "/")
    return found


def _levels(base: str, group: str) -> Iterator[str]:
    """The folders of a group and of all groups above it."""
    inside = PurePosixPath(group.lstrip("/"))
    for level in (inside, *inside.parents):
        yield str(PurePosixPath(base) / level)


def _limits_v2(machine: Machine, group: str) -> dict[str, Any]:
    cpus, memory_bytes, processes, io = [], [], [], []
    for folder in _levels("sys/fs/cgroup", group):
        quota, _, period = (machine.text(f"{folder}/cpu.max") or "max").partition(" ")
        if quota.isdecimal():
            cpus.append(int(quota) / int(period or 100_000))
        memory_bytes.append(machine.number(f"{folder}/memory.max"))
        processes.append(_free_processes(machine, folder))
        io += machine.lines(f"{folder}/io.max")
    return {
        "cpus": min(cpus, default=None),
        "memory_bytes": _least(memory_bytes),
        "processes": _least(processes),
        "io": io,
    }


def _free_processes(machine: Machine, folder: str) -> int | None:
    """What a group's pids.max leaves; None without a limit (cgroup-v1/pids.rst)."""
    most, taken = (machine.number(f"{folder}/pids.{name}") for name in ("max", "current"))
    return None if most is None else max(most - (taken or 0), 0)


def _limits_v1(machine: Machine, groups: dict[str, str]) -> dict[str, Any]:
    cpus, memory_bytes, io = [], [], []
    for folder in _levels("sys/fs/cgroup/cpu", groups.get("cpu", "/")):
        quota, period = machine.number(f"{folder}/cpu.cfs_quota_us"), machine.number(f"{folder}/cpu.cfs_period_us")
        if quota is not None and quota > 0 and period:
            cpus.append(quota / period)
    for folder in _levels("sys/fs/cgroup/memory", groups.get("memory", "/")):
        memory_bytes.append(machine.number(f"{folder}/memory.limit_in_bytes"))
    for folder in _levels("sys/fs/cgroup/blkio", groups.get("blkio", "/")):
        for file in machine.paths(f"{folder}/blkio.throttle.*_device"):
            what = re.sub(r"blkio\.throttle\.(.*)_device", r"\1", file.name)
            io += [f"{line} ({what})" for line in machine.lines(file)]
    pids = [_free_processes(machine, folder) for folder in _levels("sys/fs/cgroup/pids", groups.get("pids", "/"))]
    return {
        "cpus": min(cpus, default=None),
        "memory_bytes": _least(memory_bytes),
        "processes": _least(pids),
        "io": io,
    }


def _least(sizes_bytes: list[int | None]) -> int | None:
    return min((size for size in sizes_bytes if size is not None and size < _NO_LIMIT_BYTES), default=None)


def clock(machine: Machine) -> dict[str, Any]:
    """Section `clock`."""
    folder = "sys/devices/system/clocksource/clocksource0"
    return known(
        source=machine.text(f"{folder}/current_clocksource"),
        available=(machine.text(f"{folder}/available_clocksource") or "").split(),
        ticks_per_s=os.sysconf("SC_CLK_TCK"),
    )


def power(machine: Machine) -> dict[str, Any]:
    """Section `power`: `on_battery` is absent where there is no battery."""
    supplies = [(machine.text(path / "type"), path) for path in machine.paths("sys/class/power_supply/*")]
    batteries = [
        machine.text(path / "status") for kind, path in supplies if kind == "Battery" and _is_ours(machine, path)
    ]
    return known(on_battery="Discharging" in batteries if batteries else None)


def _is_ours(machine: Machine, supply: Path) -> bool:
    """Not the battery of a mouse or a headset (sysfs-class-power: scope)."""
    return machine.text(supply / "scope") != "Device"


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
