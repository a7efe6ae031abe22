"""The files that settings are: how one is read and written, and which of them a run wants to have how.

Every path here is the machine's own (`/sys/…`); the root is added when it is touched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ioassay.records.record import Warning_

_CPUFREQ = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq"
_EPP = "energy_performance_preference"

NO_GOVERNOR = Warning_(
    "no-governor",
    "this kernel gives no control over the processors' clock (no cpufreq; usual in virtual machines), "
    "so it may vary during a run",
    "repeat on the bare machine, or set its governor to performance on the host of this virtual machine",
)


@dataclass(frozen=True)
class Knob:
    """One setting and the value that is wanted; `follows` as in `restore.Change`."""

    path: str
    value: str
    follows: bool = False


def present(path: str, root: Path) -> str | None:
    """The value now; of a file that shows its choices, the one in brackets. None when it cannot be read."""
    try:
        text = inside(path, root).read_text(errors="replace").partition("\n")[0].strip()
    except OSError:
        return None
    chosen = re.search(r"\[([^]]*)\]", text)
    return chosen[1] if chosen else text


def put(path: str, value: str, root: Path) -> None:
    """Write a value, in one call, as the kernel wants it; OSError as the kernel gives it. Never creates a file."""
    descriptor = os.open(inside(path, root), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, f"{value}\n".encode())
    finally:
        os.close(descriptor)


def is_writable(path: str, root: Path) -> bool:
    """Whether this user may write it (false for root too where /sys is read-only, as in most containers)."""
    return os.access(inside(path, root), os.W_OK)


def inside(path: str, root: Path) -> Path:
    """A path of the machine below the injected root."""
    return root / path.lstrip("/")


def governor_knobs(governor: str, root: Path) -> Iterator[Knob | Warning_]:
    """The governor of every processor, and what its driver changes along with it; or why it cannot be had."""
    folders = sorted(root.glob(_CPUFREQ.lstrip("/")))
    governors = [folder for folder in folders if (folder / "scaling_governor").exists()]
    if not governors:
        yield NO_GOVERNOR
        return
    offered = (present(_outside(governors[0] / "scaling_available_governors", root), root) or governor).split()
    if governor not in offered:
        yield Warning_(
            "governor-unavailable",
            f"the governor '{governor}' is not among those of this machine: {', '.join(offered)}",
        )
        return
    for folder in governors:
        yield Knob(_outside(folder / "scaling_governor", root), governor)
    # With the governor performance, amd-pstate and intel_pstate set this one to performance too, and amd-pstate
    # leaves it there afterwards (drivers/cpufreq/amd-pstate.c). It can be put back only after the governor was.
    for folder in governors if governor == "performance" else ():
        if (folder / _EPP).exists():
            yield Knob(_outside(folder / _EPP, root), "performance", follows=True)


def scheduler_knobs(schedulers: Mapping[str, str], root: Path) -> Iterator[Knob | Warning_]:
    """The I/O scheduler of each named disk; or why it cannot be had."""
    for disk, scheduler in schedulers.items():
        path = f"/sys/block/{disk.replace('/', '!')}/queue/scheduler"
        offered = _offered(inside(path, root))
        if scheduler in offered:
            yield Knob(path, scheduler)
        else:
            known = ", ".join(offered) or "none: it has no request queue of its own"
            yield Warning_("scheduler-unavailable", f"{disk} has no I/O scheduler '{scheduler}'; it offers {known}")


def _outside(path: Path, root: Path) -> str:
    return f"/{path.relative_to(root)}"


def _offered(file: Path) -> list[str]:
    """The choices that a file shows; none where there is no such file, or none any more."""
    try:
        return file.read_text().replace("[", "").replace("]", "").split()
    except OSError:
        return []
