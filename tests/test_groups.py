"""Tests that share a costly fixture of their module run in one worker: pytest-xdist knows the group of each."""

import os

import pytest


@pytest.fixture(scope="module")
def costly() -> object:
    return object()


@pytest.mark.usefixtures("costly")
def test_a_test_with_a_fixture_of_its_module_is_in_the_group_of_its_file(request: pytest.FixtureRequest) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ or not request.config.getoption("loadgroup", False):
        return  # one process runs everything
    assert request.node.nodeid.endswith(f"@{request.path}")
