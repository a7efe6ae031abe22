"""What the processors are and how they are set: model, topology, clock governor, turbo, idle states, mitigations.

Topology comes from /sys and /proc/cpuinfo; `lscpu` adds names that the kernel does not spell out (ARM models).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ioassay.host.machine import Machine, known, whole_number

CPU = "sys/devices/system/cpu"

_LSCPU = {
    "Model name": "model",
    "Vendor ID": "vendor",
    "Architecture": "architecture",
    "L2 cache": "l2_cache",
    "L3 cache": "l3_cache",
}


def facts(machine: Machine) -> dict[str, Any]:
    """Section `cpu`; see `ioassay.host`."""
    return _lscpu(machine) | known(
        model=_cpuinfo(machine, "model name"),
        vendor=_cpuinfo(machine, "vendor_id"),
        microcode=_cpuinfo(machine, "microcode"),
        hypervisor_flag=True if "hypervisor" in (_cpuinfo(machine, "flags") or "").split() else None,
        **_topology(machine),
        **_clock_control(machine),
        smt=machine.text(f"{CPU}/smt/control"),
        idle=_idle(machine),
        mitigations=_mitigations(machine),
        throttled=_throttled(machine),
        temperature_c=_temperature_c(machine),
    )


def _lscpu(machine: Machine) -> dict[str, Any]:
    said = dict(_flat(machine.answer("lscpu", "-J").get("lscpu")))
    return {name: said[field] for field, name in _LSCPU.items() if field in said}


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


def _cpuinfo(machine: Machine, key: str) -> str | None:
    for line in machine.lines("proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None


def _topology(machine: Machine) -> dict[str, Any]:
    places = []
    for folder in machine.paths(f"{CPU}/cpu[0-9]*/topology"):
        places.append((machine.text(folder / "physical_package_id"), machine.text(folder / "core_id")))
    cores = len(set(places))
    return known(
        cpus=len(places) or None,
        cores=cores or None,
        sockets=len({package for package, _ in places}) or None,
        threads_per_core=len(places) // cores if cores else None,
        numa_nodes=len(machine.paths("sys/devices/system/node/node[0-9]*")) or None,
    )


def _clock_control(machine: Machine) -> dict[str, Any]:
    governors = Counter(filter(None, map(machine.text, machine.paths(f"{CPU}/cpu[0-9]*/cpufreq/scaling_governor"))))
    one = next(iter(machine.paths(f"{CPU}/cpu[0-9]*/cpufreq")), None)
    if one is None:
        return known(turbo=_turbo(machine))
    return known(
        governors=dict(governors),
        available_governors=(machine.text(one / "scaling_available_governors") or "").split(),
        frequency_driver=machine.text(one / "scaling_driver"),
        min_khz=machine.number(one / "cpuinfo_min_freq"),
        max_khz=machine.number(one / "cpuinfo_max_freq"),
        energy_preference=machine.text(one / "energy_performance_preference"),
        turbo=_turbo(machine),
    )


def _turbo(machine: Machine) -> bool | None:
    """Whether cores may run above their nominal clock (admin-guide/pm/intel_pstate.rst, cpufreq.rst)."""
    forbidden = machine.number(f"{CPU}/intel_pstate/no_turbo")
    if forbidden is not None:
        return forbidden == 0
    allowed = machine.number(f"{CPU}/cpufreq/boost")
    return None if allowed is None else allowed == 1


def _idle(machine: Machine) -> dict[str, Any]:
    states = [
        known(
            name=machine.text(folder / "name"),
            latency_us=machine.number(folder / "latency"),
            disabled=machine.number(folder / "disable") == 1,
        )
        for folder in machine.paths(f"{CPU}/cpu0/cpuidle/state[0-9]*")
    ]
    return known(
        driver=machine.text(f"{CPU}/cpuidle/current_driver"),
        governor=machine.text(f"{CPU}/cpuidle/current_governor_ro") or machine.text(f"{CPU}/cpuidle/current_governor"),
        states=states,
    )


def _mitigations(machine: Machine) -> dict[str, str]:
    """Of the flaws that this processor has: what is done about them."""
    said = {path.name: machine.text(path) for path in machine.paths(f"{CPU}/vulnerabilities/*")}
    return {name: text for name, text in said.items() if text and text != "Not affected"}


def _throttled(machine: Machine) -> int | None:
    """How often any package was slowed down for heat since boot (x86 only)."""
    counts = map(machine.number, machine.paths(f"{CPU}/cpu[0-9]*/thermal_throttle/package_throttle_count"))
    # Each core of a package shows the package's count.
    return max((count for count in counts if count is not None), default=None)


def _temperature_c(machine: Machine) -> float | None:
    """The hottest sensor of those that are the processor's."""
    found = []
    for zone in machine.paths("sys/class/thermal/thermal_zone[0-9]*"):
        kind, milli = (machine.text(zone / "type") or "").lower(), whole_number(machine.text(zone / "temp"))
        if milli is not None and ("pkg" in kind or "cpu" in kind or "soc" in kind):
            found.append(milli / 1000)
    return max(found, default=None)
