"""Control groups of containers and services by their names, in a small fake of /sys and /proc."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from ioassay.errors import UsageError
from ioassay.host import containers

from .corpora import CORPUS, cases, files


@pytest.fixture
def root(fake_root: Callable[..., Path]) -> Path:
    return fake_root(files(tomllib.loads((CORPUS / "hosts" / "containers.toml").read_text())["files"]))


@cases("hosts", "containers")
def test_a_name_leads_to_its_group_or_is_refused_with_the_remedy(root: Path, case: dict[str, str]) -> None:
    if "group" in case:
        assert containers.group_of(case["id"], root) == root / "sys/fs/cgroup" / case["group"]
    else:
        with pytest.raises(UsageError, match=case["says"]):
            containers.group_of(case["id"], root)


def test_a_name_of_two_is_refused(root: Path) -> None:
    twin = root / "sys/fs/cgroup/docker" / ("4f1c1" + "2" * 59)
    twin.mkdir()
    (twin / "cgroup.procs").write_text("500\n")
    with pytest.raises(UsageError, match="more than one fits"):
        containers.group_of("4f1c", root)


def test_a_path_is_one_of_sysfs_or_of_proc(root: Path) -> None:
    folder = root / "sys/fs/cgroup/system.slice"
    for path in (str(folder), "/system.slice", "system.slice"):
        assert containers.group_at(path, root) == folder
    with pytest.raises(UsageError, match="no such control group"):
        containers.group_at("/user.slice", root)
