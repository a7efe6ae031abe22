"""Facts about the machine that measures, as a run's host.json stores them. Judges nothing: `ioassay.host.doctor` does.

Everything is read below an injected root; what a machine does not tell is an absent key, never an error. Sections:

    cpu             model, cpus, cores, sockets, numa_nodes, governors, frequency_driver, turbo, idle, mitigations, …
    kernel          release, version, cmdline, hostname       distribution    id, version, name
    memory          total_bytes, available_bytes, swap_…, huge_pages, dirty_…
    virtualisation  vm, container, vendor, product            limits          cpus, memory_bytes, io, affinity
    clock           source, available, ticks_per_s            power           on_battery
    activity        load, uptime_s, steal_share, busy, disk_requests, background
    tools           tool -> version line                      ioassay         version, commit, python
    identity        machine_id
    user            root                                      leftovers       what killed runs left
    witness         bpf, unusable: why BPF programs cannot watch
    perf_events     event -> `available`, or `not available: …` with the reason
    confinement     landlock, abi, gaps: whether the kernel holds trials to what they may write; unusable: why not
    disk            path, mount, size_bytes, free_bytes, devices: from the mounted one down to the drives, each with
                    name, number, kind, size_bytes, model, serial, queue, link, health, …

Serial numbers, the host's name, its machine-id and the kernel's command line are in them, for `doctor`. A run stores
them as `ioassay.host.privacy` publishes them: as keyed hashes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ioassay.errors import InputError, one_line
from ioassay.host import cgroup, disks, perf_events, settings, system
from ioassay.host.machine import Capture, Machine, known
from ioassay.process import supervisor
from ioassay.roles import Tool

__all__ = ["devices", "facts"]

SCHEMA = 1


def facts(
    path: Path | None,
    root: Path = Path("/"),
    *,
    tools: Sequence[Tool] = (),
    capture: Capture | None = None,
    observe_s: float = system.OBSERVE_S,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """All facts, ready for JSON, with those of the disk under `path`, which need not exist, and versions of `tools`.

    Takes `observe_s` seconds to see what else the machine is doing. Commands (lscpu, smartctl, git, …) run on
    the real machine only: below another root `capture` stands in for them.
    """
    if capture is None and root == Path("/"):
        capture = supervisor.capture
    machine = Machine(root, capture)
    cpu = _gathered(lambda: system.cpu(machine))
    under = _gathered(lambda: disks.facts(machine, path.absolute())) if path is not None else {}
    names = [device["name"] for device in under.get("devices", ())]
    hypervisor = cpu.pop("hypervisor_flag", False)
    gathered = {
        "kernel": lambda: system.kernel(machine),
        "identity": lambda: known(
            machine_id=machine.text("etc/machine-id")
        ),  # machine-id(5): no two installations have one
        "distribution": lambda: system.distribution(machine),
        "memory": lambda: system.memory(machine),
        "virtualisation": lambda: system.virtualisation(machine, hypervisor),
        "limits": lambda: system.limits(machine),
        "clock": lambda: system.clock(machine),
        "power": lambda: system.power(machine),
        "activity": lambda: system.activity(machine, names, observe_s, sleep),
        "tools": lambda: system.tools(machine, tools),
        "ioassay": lambda: system.ioassay_itself(machine),
        "witness": lambda: system.witness(machine),
        "confinement": lambda: system.confinement(machine),
        "perf_events": lambda: perf_events.availability() if root == Path("/") else {},
    }
    sections = {
        "cpu": cpu,
        **{name: _gathered(gather) for name, gather in gathered.items()},
        "user": {"root": os.geteuid() == 0},
        "leftovers": [str(left) for left in (*settings.leftovers(root), *cgroup.leftovers(root))],
        "disk": under,
    }
    there = {name: section for name, section in sections.items() if section}
    return {"schema": SCHEMA, "gathered_unix_s": time.time(), **there}


def _gathered(gather: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A section, or why it is not known: another kernel's format of one file costs its facts, and no run."""
    from ioassay import validation

    try:
        found = gather()
        validation.table(json.dumps(found), "it")  # what host.json could not give back is not put into it
        return found
    except (ValueError, LookupError, ArithmeticError, InputError) as error:
        return {"unreadable": one_line(f"{type(error).__name__}: {error}")}


def devices(path: Path | None, root: Path = Path("/")) -> list[str]:
    """Kernel names of the block devices under `path`, from the mounted one down to the drives, for the disk monitor."""
    if path is None:
        return []
    return [device.name for device in disks.chain(Machine(root), path.absolute())]
