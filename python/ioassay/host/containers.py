"""Containers and services by their names: which control group holds the processes of each.

Runtimes name the group after the container's id (docker-<id>.scope, libpod-<id>.scope, cri-containerd-<id>.scope, or
the id alone where the runtime manages groups itself), systemd after the unit. A container's name is in no group; those
of docker and podman are read from their own files. No runtime is asked or started.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ioassay.errors import UsageError
from ioassay.host import cgroup

_OF_CONTAINER = re.compile(
    r"^(?:(?:docker|libpod|cri-containerd|crio|containerd|nerdctl)-)?([0-9a-f]{64})(?:\.scope)?$"
)
_SHORTEST_ID = 4
_DOCKER = "var/lib/docker/containers"
_PODMAN = "var/lib/containers/storage"
_UNITS = ("{}", "{}.service", "{}.scope", "{}.slice", "machine-{}.scope", "lxc.payload.{}")


def group_of(name: str, root: Path = Path("/")) -> Path:
    """The group of a container, by its id, the beginning of it or its name, or of a systemd unit.

    UsageError when there is none with a process in it, or more than one.
    """
    ids = {known for known, names in _names(root).items() if name in names}
    units = {pattern.format(name) for pattern in _UNITS}
    fitting: dict[str, Path] = {}
    for folder in _groups(root):
        match = _OF_CONTAINER.match(folder.name)
        container = match[1] if match else ""
        is_begun = len(name) >= _SHORTEST_ID and container.startswith(name.lower())
        if (folder.name in units or container in ids or is_begun) and any(cgroup.members_of(folder)):
            fitting.setdefault(container or folder.name, folder)
    if len(fitting) > 1:
        raise UsageError(f"--container {name}: more than one fits: {', '.join(sorted(fitting))}; give more of its name")
    if not fitting:
        raise UsageError(
            f"--container {name}: no running container or systemd unit of this id or name has a control group here; "
            f"give its id (docker inspect -f '{{{{.Id}}}}' {name}), --cgroup with its group, or --pid with its process "
            f"(docker inspect -f '{{{{.State.Pid}}}}' {name})"
        )
    return next(iter(fitting.values()))


def group_at(path: str, root: Path = Path("/")) -> Path:
    """The folder of a group: `path` itself, or below a mounted tree as /proc/<pid>/cgroup writes it.

    UsageError when there is none.
    """
    places = [Path(path), *(tree.mount / path.lstrip("/") for tree in _trees(root))]
    for place in places:
        if (place / "cgroup.procs").is_file():
            return place
    raise UsageError(
        f"--cgroup {path}: there is no such control group; those of a process are in /proc/<pid>/cgroup, all of them "
        "below /sys/fs/cgroup"
    )


def _trees(root: Path) -> list[cgroup.Hierarchy]:
    """Of version 2 first: it alone holds every process in a single group."""
    return sorted(cgroup.hierarchies(root), key=lambda tree: -tree.version)


def _groups(root: Path) -> Iterator[Path]:
    for tree in _trees(root):
        for folder, below, _ in os.walk(tree.mount):
            yield from (Path(folder, name) for name in sorted(below))


def _names(root: Path) -> dict[str, set[str]]:
    """Names of the containers of docker and podman, by their ids."""
    found: dict[str, set[str]] = {}
    for path in sorted((root / _DOCKER).glob("*/config.v2.json")):
        table = _json(path)
        if isinstance(table, dict):
            found[path.parent.name] = {str(table.get("Name", "")).lstrip("/")}
    for path in sorted((root / _PODMAN).glob("*-containers/containers.json")):  # by the driver of its storage
        containers = _json(path)
        for each in containers if isinstance(containers, list) else ():
            if isinstance(each, dict) and isinstance(each.get("names"), list):
                found[str(each.get("id"))] = set(map(str, each["names"]))
    return found


def _json(path: Path) -> Any:
    with suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))
    return None
