"""The machine that these tests pretend to run on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ioassay.host import privacy
from ioassay.host.privacy import Secret

sys.path.insert(0, str(Path(__file__).parent))  # importmode=importlib leaves a test's own folder out

import secretive


@pytest.fixture
def host(fake_root: Callable[..., Path]) -> Path:
    return fake_root(secretive.TREE)


@pytest.fixture
def known(host: Path) -> list[Secret]:
    return privacy.of_host(host)
