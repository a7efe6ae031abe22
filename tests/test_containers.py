"""Control groups of containers and services by their names, in a small fake of /sys and /proc."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ioassay.errors import UsageError
from ioassay.host import containers

ID = "4f1c" + "0" * 60
OTHER = "4f1d" + "1" * 60
THIRD = "ab" * 32


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host with docker, podman and systemd, whose groups are mounted at /sys/fs/cgroup."""
    proc = tmp_path / "proc/self"
    proc.mkdir(parents=True)
    (proc / "cgroup").write_text("0::/\n")
    (proc / "mountinfo").write_text("30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    groups = {
        f"system.slice/docker-{ID}.scope": "100\n",
        f"docker/{OTHER}": "200\n",
        f"machine.slice/libpod-{THIRD}.scope/container": "300\n",
        f"machine.slice/libpod-conmon-{THIRD}.scope": "301\n",
        "system.slice/redis-server.service": "400\n",
        "system.slice/ended.service": "",
    }
    for name, pids in groups.items():
        folder = tmp_path / "sys/fs/cgroup" / name
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text(pids)
    docker = tmp_path / "var/lib/docker/containers" / ID
    docker.mkdir(parents=True)
    (docker / "config.v2.json").write_text(json.dumps({"Name": "/cache"}))
    for driver, number, called in (("overlay", THIRD, "store"), ("vfs", OTHER, "plain")):
        podman = tmp_path / "var/lib/containers/storage" / f"{driver}-containers"
        podman.mkdir(parents=True)
        (podman / "containers.json").write_text(json.dumps([{"id": number, "names": [called]}]))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("cache", f"system.slice/docker-{ID}.scope"),
        (ID, f"system.slice/docker-{ID}.scope"),
        ("4f1d1", f"docker/{OTHER}"),
        ("store", f"machine.slice/libpod-{THIRD}.scope"),
        ("plain", f"docker/{OTHER}"),
        ("ABAB", f"machine.slice/libpod-{THIRD}.scope"),
        ("redis-server", "system.slice/redis-server.service"),
        ("redis-server.service", "system.slice/redis-server.service"),
        ("system.slice", "system.slice"),
    ],
)
def test_a_name_leads_to_its_group(root: Path, name: str, group: str) -> None:
    assert containers.group_of(name, root) == root / "sys/fs/cgroup" / group


@pytest.mark.parametrize(
    ("name", "why"),
    [("4f1", "no running container"), ("4f1c1", "give its id"), ("ended", "--pid"), ("nobody", "docker inspect")],
)
def test_a_name_without_a_group_is_refused_with_the_remedy(root: Path, name: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        containers.group_of(name, root)


def test_a_name_of_two_is_refused(root: Path) -> None:
    twin = root / "sys/fs/cgroup/docker" / ("4f1c1" + "2" * 59)
    twin.mkdir()
    (twin / "cgroup.procs").write_text("500\n")
    with pytest.raises(UsageError, match="more than one fits"):
        containers.group_of("4f1c", root)


def test_a_path_is_one_of_sysfs_or_of_proc(root: Path) -> None:
    folder = root / "sys/fs/cgroup/system.slice"
    for path in (str(folder), "/system.slice", "system.slice"):
        (folder / "cgroup.procs").touch()
        assert containers.group_at(path, root) == folder
    with pytest.raises(UsageError, match="no such control group"):
        containers.group_at("/user.slice", root)
