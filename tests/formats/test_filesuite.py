"""What `ioassay filesuite` claims, read from its own JSON."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ioassay import formats
from ioassay.errors import InputError

ARGV = [
    sys.executable,
    "-m",
    "ioassay",
    "filesuite",
    "-i",
    "0",
    "-i",
    "1",
    "-i",
    "3",
    "-s",
    "64k",
    "-r",
    "4k",
    "--json",
]


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("filesuite")
    return subprocess.run(ARGV, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_each_pass_is_a_claim_in_its_order(output: str) -> None:
    found = formats.read(ARGV, f"something before\n{output}\nsomething after")
    assert [claim.test for claim in found] == ["write", "rewrite", "read", "reread", "backward-read"]
    assert {(claim.source, claim.operations, claim.bytes) for claim in found} == {("filesuite", 16, 65536)}
    assert [claim.kind for claim in found] == ["write", "write", "read", "read", "read"]
    assert [claim.primed for claim in found] == [False, False, True, True, False]
    assert [claim.silent_passes for claim in found] == [0, 0, 0, 0, 1]
    assert all(
        claim.seconds and claim.rate_bytes_per_s == claim.bytes / claim.seconds for claim in found if claim.bytes
    )


def test_output_that_was_cut_is_said_to_be_broken(output: str) -> None:
    for length in range(60, len(output) - 2, len(output) // 50):
        with pytest.raises(InputError, match="is it whole"):
            formats.read(ARGV, output[:length])


def test_its_text_for_people_is_not_read() -> None:
    with pytest.raises(InputError, match="--json"):
        formats.read(["filesuite"], "file  record  pass")
