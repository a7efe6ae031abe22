"""Control groups of containers and services, below a fake root."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ioassay.errors import UsageError
from ioassay.packs.witness.attachment import group_at, group_of

from ...corpora import cases, tree


@pytest.fixture
def root(fake_root: Callable[..., Path]) -> Path:
    return fake_root(tree("hosts", "control_groups"))


@cases("hosts", "containers")
def test_a_name_leads_to_its_group_or_is_refused_with_the_remedy(root: Path, case: dict[str, str]) -> None:
    if "group" in case:
        assert group_of(case["id"], root) == root / "sys/fs/cgroup" / case["group"]
    else:
        with pytest.raises(UsageError, match=case["says"]):
            group_of(case["id"], root)


def test_a_path_is_one_of_sysfs_or_of_proc(root: Path) -> None:
    folder = root / "sys/fs/cgroup/system.slice"
    for path in (str(folder), "/system.slice", "system.slice"):
        assert group_at(path, root) == folder
    with pytest.raises(UsageError, match="no such control group"):
        group_at("/user.slice", root)
