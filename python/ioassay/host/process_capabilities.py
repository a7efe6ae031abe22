"""The capabilities of this process (capabilities(7)), and what gives it one that it lacks.

A user gets them by sudo. A container withholds them from its root as well, and from what its users start as root:
they are not in its bounding set, and only an option of the engine adds them. Nothing is raised or dropped here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SYS_ADMIN, PERFMON, BPF = "SYS_ADMIN", "PERFMON", "BPF"
_NUMBERS: Mapping[str, int] = {SYS_ADMIN: 21, PERFMON: 38, BPF: 39}  # include/uapi/linux/capability.h
_FUSE = "--device=/dev/fuse --cap-add=SYS_ADMIN"
_STATUS = "proc/self/status"
_EFFECTIVE, _BOUNDING = "CapEff:", "CapBnd:"


def is_held(name: str, root: Path = Path("/"), among: str = _EFFECTIVE) -> bool:
    """Whether this process has it; also where the kernel does not say."""
    try:
        lines = (root / _STATUS).read_text().splitlines()
        mask = next(int(line.removeprefix(among), 16) for line in lines if line.startswith(among))
    except (OSError, ValueError, StopIteration):
        return True
    return bool(mask >> _NUMBERS[name] & 1)


def is_withheld(name: str, root: Path = Path("/")) -> bool:
    """Whether no program that is started here can have it, root's included."""
    return not is_held(name, root, _BOUNDING)


def remedy(*names: str, options: str = "", root: Path = Path("/")) -> str:
    """What gives this process the capabilities that it lacks; `options` are those of the engine, by default of them."""
    if os.geteuid() and not any(is_withheld(name, root) for name in names):
        return "run as root (with sudo)"
    return of_container(*names, options=options)


def of_container(*names: str, options: str = "") -> str:
    """What gives capabilities to a container that withholds them."""
    needed = " and ".join(f"CAP_{name}" for name in names)
    given = options or " ".join(f"--cap-add={name}" for name in names)
    return f"start the container with {given} (docker or podman run); it withholds {needed}"


def fuse_obstacle(root: Path = Path("/")) -> str:
    """What lets a container mount by FUSE; '' where nothing keeps it from that."""
    return of_container(SYS_ADMIN, options=_FUSE) if is_withheld(SYS_ADMIN, root) else ""
