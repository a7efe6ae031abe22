"""Limits of processor time and memory: a control group of its own for one trial, of version 1 or 2 as the host has it.

A group is made below the runner's own, so that the runner's limits go on to hold; where version 2 forbids that (a
group with processes has no groups with limits below it), beside it. Nothing above it is changed. Its name tells whose
it is, so that `remove_leftovers` knows the groups of killed runs without any list of them.
Sources: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst, Documentation/scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ioassay.errors import ConditionError
from ioassay.host import settings
from ioassay.host.block_devices import text_of
from ioassay.process import supervisor
from ioassay.study.run_conditions import Conditions

_NAME = re.compile(r"^ioassay-(\d+)-(\d+)-\d+$")
_PERIOD_US = 100_000
_PATIENCE_S = 30.0
_CONTROLLERS = ("cpu", "memory")
_MEMORY_FILES = {
    1: {"limit": "memory.limit_in_bytes", "swap": "memory.memsw.limit_in_bytes", "events": "memory.oom_control",
        "peak": "memory.max_usage_in_bytes"},
    2: {"limit": "memory.max", "swap": "memory.swap.max", "events": "memory.events", "peak": "memory.peak"},
}  # fmt: skip
"""Of version 1, swap and memory have a limit together."""
_KEY_OF = {"cpu": "run.cpu_limit", "memory": "run.memory_limit"}


@dataclass(frozen=True)
class Hierarchy:
    """One mounted tree of groups: its version, what it controls, where it is and where in it a process is."""

    version: int
    controllers: frozenset[str]
    """Of version 2: empty, since each group says what the groups below it have."""
    mount: Path
    own: Path


@dataclass
class Group:
    """A trial's groups: one folder for each controller, the same one for both under version 2."""

    folders: Mapping[str, tuple[int, Path]]
    """Controller -> version of its tree, and the folder."""

    def admit(self, pid: int) -> None:
        """Move a process in; what it starts is in it too."""
        for controller, (_, folder) in self.folders.items():
            _write(controller, folder / "cgroup.procs", str(pid))

    def limit(self, wanted: Conditions) -> None:
        """Set the limits. Memory and swap together: a limit that swaps would measure the swap device."""
        if wanted.cpu_limit is not None:
            version, folder = self.folders["cpu"]
            quota_us = round(wanted.cpu_limit * _PERIOD_US)
            if version == 2:
                _write("cpu", folder / "cpu.max", f"{quota_us} {_PERIOD_US}")
            else:
                _write("cpu", folder / "cpu.cfs_period_us", str(_PERIOD_US))
                _write("cpu", folder / "cpu.cfs_quota_us", str(quota_us))
        if wanted.memory_limit is not None:
            version, folder = self.folders["memory"]
            names = _MEMORY_FILES[version]
            _write("memory", folder / names["limit"], str(wanted.memory_limit))
            if (folder / names["swap"]).exists():  # absent in kernels without accounting of swap
                _write("memory", folder / names["swap"], "0" if version == 2 else str(wanted.memory_limit))

    def found(self) -> dict[str, float]:
        """The limits as the kernel has them: processors' worth of time, bytes."""
        limits: dict[str, float] = {}
        for controller, (version, folder) in self.folders.items():
            if controller == "memory":
                limits["memory_limit"] = _number(text_of(folder / _MEMORY_FILES[version]["limit"]))
            elif version == 2:
                quota, period = text_of(folder / "cpu.max").split()
                limits["cpu_limit"] = _number(quota) / float(period)
            else:
                period_us = _number(text_of(folder / "cpu.cfs_period_us"))
                limits["cpu_limit"] = _number(text_of(folder / "cpu.cfs_quota_us")) / period_us
        return limits

    def account(self) -> dict[str, int]:
        """What the limits did: periods and throttled ones, processes that were killed, the most memory held."""
        told: dict[str, int] = {}
        for controller, (version, folder) in self.folders.items():
            if controller == "cpu":
                told |= {key: value for key, value in _table(folder / "cpu.stat").items() if key.startswith("nr_")}
            else:
                names = _MEMORY_FILES[version]
                told["oom_kill"] = _table(folder / names["events"]).get("oom_kill", 0)
                if (folder / names["peak"]).exists():
                    told["peak_bytes"] = int(text_of(folder / names["peak"]))
        return told

    def members(self) -> set[int]:
        return {pid for _, folder in self.folders.values() for pid in members_of(folder)}

    def remove(self) -> None:
        """End what is still in it and remove it, with what the load made below; OSError when it cannot be removed."""
        if left := _cleared({folder for _, folder in self.folders.values()}):
            raise OSError(
                f"{', '.join(map(str, sorted(left)))}: cannot be removed; 'ioassay doctor --restore' tries again"
            )


def _cleared(folders: Iterable[Path]) -> list[Path]:
    """End what is in groups and remove them; those that are still there after a while."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while (left := [folder for folder in folders if not _removed(folder)]) and time.monotonic() < deadline_s:
        supervisor.end_processes({pid for folder in left for pid in members_of(folder)})
        time.sleep(0.02)
    return left


def make(wanted: Conditions, root: Path = Path("/")) -> Group:
    """A new group with the limits that are asked for; ConditionError says what this host does not allow."""
    needed = [name for name, limit in zip(_CONTROLLERS, (wanted.cpu_limit, wanted.memory_limit), strict=True) if limit]
    remove_leftovers(root)
    owner = settings.this_process(root)
    name = f"ioassay-{owner.pid}-{owner.start_ticks}-{time.monotonic_ns()}"
    places = {controller: _place(controller, needed, root) for controller in needed}
    group = Group({controller: (version, parent / name) for controller, (version, parent) in places.items()})
    try:
        for controller, (_, folder) in group.folders.items():
            try:
                folder.mkdir(exist_ok=True)
            except OSError as error:
                raise _denied(controller, f"{folder.parent}: {error.strerror}") from None
        group.limit(wanted)
    except BaseException:
        group.remove()
        raise
    return group


def groups_of(pid: int | str, root: Path = Path("/")) -> dict[str, tuple[int, Path, Path]]:
    """Controller -> version of its tree, the process's own group in it, and where the tree is mounted.

    Groups that cannot be seen from here are left out.
    """
    found: dict[str, tuple[int, Path, Path]] = {}
    for tree in hierarchies(root, pid):
        if tree.version == 1:
            found |= dict.fromkeys(tree.controllers, (1, tree.own, tree.mount))
        else:
            given = text_of(tree.own / "cgroup.controllers").split()
            found = dict.fromkeys(given, (2, tree.own, tree.mount)) | found
    return found


def is_ours(folder: Path) -> bool:
    return _NAME.match(folder.name) is not None


def remove_leftovers(root: Path = Path("/")) -> list[str]:
    """Remove the groups of runs that are gone; a sentence for each."""
    said = []
    for folder in leftovers(root):
        # What is still in one is not ended: where process numbers are of another namespace, the run may live after all.
        left = "" if _removed(folder) else f"with processes still in it: {sorted(members_of(folder))}"
        said.append(f"{folder}: the group of a run that was killed, {left or 'removed'}")
    return said


def leftovers(root: Path = Path("/")) -> list[Path]:
    """Groups whose run is gone, wherever in the mounted trees."""
    return [folder for folder, owner in _groups(root) if not settings.is_alive(owner, root)]


def remove_of(owner: settings.Owner, root: Path = Path("/")) -> None:
    """Remove the groups of one run, with the processes in them, once it was killed: nobody else knows it as well."""
    _cleared([folder for folder, of in _groups(root) if of == owner])


def _groups(root: Path) -> Iterator[tuple[Path, settings.Owner]]:
    boot_id = settings.this_process(root).boot_id
    mounts = {tree.mount for tree in hierarchies(root) if tree.version == 2 or tree.controllers & {*_CONTROLLERS}}
    for mount in sorted(mounts):
        for folder, below, _ in os.walk(mount):
            named = [(name, match) for name in below if (match := _NAME.match(name))]
            for name, match in named:
                below.remove(name)
                yield Path(folder, name), settings.Owner(int(match[1]), int(match[2]), boot_id)


def _place(controller: str, needed: list[str], root: Path) -> tuple[int, Path]:
    trees = hierarchies(root)
    if tree := next((tree for tree in trees if controller in tree.controllers), None):
        return 1, tree.own
    tree = next((tree for tree in trees if tree.version == 2), None)
    if tree is None:
        raise _denied(controller, "no control groups are mounted")
    of_second = {name for name in needed if not any(name in other.controllers for other in trees)}
    given = []
    for folder in (tree.own, *tree.own.parents):
        if of_second <= set(text_of(folder / "cgroup.subtree_control").split()):
            given.append(folder)
        if folder == tree.mount:
            break
    if not given:
        why = f"no group from {tree.own} up has it in subtree_control"
        raise _denied(controller, f"{why}; as root: echo +{controller} > {tree.mount}/cgroup.subtree_control")
    return 2, next((folder for folder in given if os.access(folder, os.W_OK)), given[0])


def _denied(controller: str, why: str) -> ConditionError:
    remedy = "run as root (with sudo) where the cgroup controllers 'cpu' and 'memory' are given on"
    return ConditionError(
        f"{_KEY_OF[controller]}: no group with the controller '{controller}' can be made: {why}; {remedy}"
    )


def hierarchies(root: Path, pid: int | str = "self") -> list[Hierarchy]:
    """Return the mounted trees in which a process's group can be seen (proc_pid_mountinfo(5), cgroups(7))."""
    own, found = paths_of(root, pid), []
    for line in text_of(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        if len(place := before.split()[3:5]) < 2 or (kind := after.partition(" ")[0]) not in ("cgroup", "cgroup2"):
            continue
        options = after.rpartition(" ")[2]
        top, mount = (re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text) for text in place)
        of_mount = frozenset([""] if kind == "cgroup2" else options.split(",")) & own.keys()
        path = next((own[name] for name in of_mount), None)
        # A group outside of the own namespace is shown with '..': it cannot be seen from here.
        if path is not None and ".." not in Path(path).parts and Path(path).is_relative_to(top):
            here, version = root / mount.lstrip("/"), 2 if kind == "cgroup2" else 1
            found.append(Hierarchy(version, of_mount - {""}, here, here / Path(path).relative_to(top)))
    return found


def paths_of(root: Path, pid: int | str = "self") -> dict[str, str]:
    """Controller -> path of a process's group in its tree; '' is the tree of version 2 (cgroups(7))."""
    lines = (line.split(":", 2) for line in text_of(root / f"proc/{pid}/cgroup").splitlines())
    return {name: words[2] for words in lines if len(words) == 3 for name in words[1].split(",")}


def _removed(folder: Path) -> bool:
    """Remove a group and those below it, the lowest first; whether it is gone."""
    for below, _, _ in os.walk(folder, topdown=False):
        with suppress(OSError):
            Path(below).rmdir()  # its files are the kernel's, and go with it
    return not folder.exists()


def members_of(folder: Path) -> Iterator[int]:
    """The processes of a group and of all groups below it."""
    for below, _, _ in os.walk(folder):
        yield from map(int, text_of(Path(below, "cgroup.procs")).split())


def _write(controller: str, path: Path, value: str) -> None:
    try:
        path.write_text(value)
    except OSError as error:
        raise _denied(controller, f"{path}: {error.strerror} when '{value}' was written") from None


def _number(text: str) -> float:
    return float("inf") if text.strip() in ("max", "-1") else float(text or "nan")


def _table(path: Path) -> dict[str, int]:
    lines = (line.split() for line in text_of(path).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 2}
