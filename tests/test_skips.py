"""IOASSAY_REQUIRE: where a machine promises what tests need, a skip is a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SKIPPING = """
import pytest

@pytest.mark.fio
def test_that_needs_fio():
    pytest.skip("fio is broken here")

def test_that_needs_a_loop_device(loop_device):
    pytest.skip("no loop device")

def test_that_needs_nothing():
    pass

@pytest.mark.fio
@pytest.mark.xfail(reason="known")
def test_that_is_known_to_fail():
    assert False
"""


def outcomes(folder: Path, required: str) -> str:
    """The closing line of pytest over SKIPPING, under the fixtures of this project."""
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    (folder / "test_skipping.py").write_text(SKIPPING)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n fio\n root\n browser\n slow\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--quiet", "--tb=short", str(folder)]
    environment = {**os.environ, "IOASSAY_REQUIRE": required}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)
    return done.stdout


@pytest.mark.parametrize(
    ("required", "closing"),
    [
        ("root,browser", "1 passed, 2 skipped, 1 xfailed"),
        ("fio", "1 failed, 1 passed, 1 skipped, 1 xfailed"),
        ("fio, loop", "2 failed, 1 passed, 1 xfailed"),
        ("all", "2 failed, 1 passed, 1 xfailed"),
    ],
)
def test_a_skip_fails_exactly_where_its_need_is_required(tmp_path: Path, required: str, closing: str) -> None:
    said = outcomes(tmp_path, required)
    assert closing in said
    promised = "IOASSAY_REQUIRE names fio, so this may not be skipped: Skipped: fio is broken here"
    assert (promised in said) == ("fio" in required)
