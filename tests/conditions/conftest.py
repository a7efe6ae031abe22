"""What conditions this machine allows, and a program that wants more memory than any."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ioassay.errors import ConditionError
from ioassay.host import cgroup
from ioassay.runner import conditions

HOG = "held = []\nwhile True: held.append(b'x' * (4 << 20))"


def allowed_here(**wanted: Any) -> conditions.Conditions:
    """The conditions; where they are refused, the test is skipped."""
    made = conditions.Conditions(**wanted)
    try:
        conditions.rehearse(made)
    except ConditionError as error:
        pytest.skip(f"not allowed here: {error}")
    return made


@pytest.fixture
def other_group() -> Iterator[cgroup.Group]:
    """A group of little memory that is not the trial's: somebody else's limit, or in small the whole host."""
    group = cgroup.make(allowed_here(memory_limit=64 << 20))
    yield group
    group.remove()


def members(group: cgroup.Group) -> list[str]:
    """The files by which a process moves itself into the group."""
    return [str(folder / "cgroup.procs") for _, folder in group.folders.values()]
