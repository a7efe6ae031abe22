"""Control groups that a user names: by a path, or by the container or the unit whose processes are in them.

Containers and services are known by their groups: runtimes name these after the container's id (docker-<id>.scope,
libpod-<id>.scope, cri-containerd-<id>.scope, or the id alone where the runtime manages groups itself), systemd after
the unit. A container's name is in no group; those of docker and podman are read from their own files. No runtime is
asked or started.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from ioassay.errors import UsageError
from ioassay.host.cgroup import Hierarchy, hierarchies, members_of

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
    below = (Path(at, name) for tree in _trees(root) for at, names, _ in os.walk(tree.mount) for name in sorted(names))
    for folder in below:
        match = _OF_CONTAINER.match(folder.name)
        container = match[1] if match else ""
        is_begun = len(name) >= _SHORTEST_ID and container.startswith(name.lower())
        if (folder.name in units or container in ids or is_begun) and any(members_of(folder)):
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
    for place in (Path(path), *(tree.mount / path.lstrip("/") for tree in _trees(root))):
        if (place / "cgroup.procs").is_file():
            return place
    raise UsageError(
        f"--cgroup {path}: there is no such control group; those of a process are in /proc/<pid>/cgroup, all of them "
        "below /sys/fs/cgroup"
    )


def _trees(root: Path) -> list[Hierarchy]:
    """Of version 2 first: it alone holds every process in a single group."""
    return sorted(hierarchies(root), key=lambda tree: -tree.version)


def _names(root: Path) -> dict[str, set[str]]:
    """Names of the containers of docker (a file each) and of podman (a file for each storage driver), by their ids."""
    found: dict[str, set[str]] = {}
    of_docker = (root / _DOCKER).glob("*/config.v2.json")
    for path in (*sorted(of_docker), *sorted((root / _PODMAN).glob("*-containers/containers.json"))):
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(table, dict):
            table = [{"id": path.parent.name, "names": [str(table.get("Name", "")).lstrip("/")]}]
        for each in table if isinstance(table, list) else ():
            if isinstance(each, dict) and isinstance(each.get("names"), list):
                found[str(each.get("id"))] = set(map(str, each["names"]))
    return found
