"""More than the witness keeps apart: counts stay exact, memory is bounded, and what is not kept is said."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ioassay as ia
from ioassay.formats import stated_claim
from ioassay.verify.judge import judge

from .conftest import Witnessed

pytestmark = [pytest.mark.root, pytest.mark.bpf]

MOST_SESSIONS = MOST_FILES = 32_768
OPENED = 40_000
MOST_MIB = 400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").write_bytes(os.urandom(1 << 20))
    return tmp_path


def calls(result: dict[str, Any], entry: str) -> dict[str, Any]:
    (found,) = [each["calls"] for each in result["operations"] if each["entry"] == entry]
    return dict(found)


def test_a_file_that_is_opened_too_often_to_keep_each_session(
    folder: Path, compiled: Any, witnessed: Witnessed
) -> None:
    claim = f"kind=write,ops={OPENED},bytes={OPENED * 512},path=data"
    result = witnessed(folder, [compiled("many_opens"), "data", "512"], claims=[claim])
    assert calls(result, "pwrite64")["calls"] == OPENED
    assert result["health"]["untracked_sessions"] >= OPENED - MOST_SESSIONS
    (verdict,) = result["verdicts"]
    assert {each["name"]: each["reason"] for each in verdict["properties"]}["files"] == "EVENTS-LOST"
    assert result["verdict"] == "INCOMPLETE"


@pytest.fixture
def in_memory_folder() -> Iterator[Path]:
    """A folder that is gone after the test: so many files on a disk take longer to remove than to make."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="witness-") as name:
        yield Path(name)


def test_more_files_than_are_kept_apart(
    folder: Path, in_memory_folder: Path, compiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens, claim = [compiled("many_opens"), f"{in_memory_folder}/%d"], "kind=write,ops={0},bytes={0}"
    monkeypatch.chdir(folder)
    found = ia.witness([*opens, "1"], claims=[claim.format(OPENED)])
    result = found.as_dict()
    assert calls(result, "pwrite64")["bytes"] == OPENED
    assert result["health"]["untracked_files"] >= OPENED - MOST_FILES
    assert result["verdict"] not in ("CONTRADICTED", "UNSUBSTANTIATED"), result["verdicts"]
    (lying,) = judge([stated_claim.parse(claim.format(2 * OPENED))], found.seen)
    assert lying.category == "CONTRADICTED"
    small = ["witness", "--json", "--claim", claim.format(9), "--exit-verdict", "never", "--", *opens, "0"]
    with (folder / "out").open("w+") as out:
        process = subprocess.Popen([sys.executable, "-m", "ioassay", *small], stdout=out)
        most_kib = 0  # not that of wait4(2), which begins with what this process has
        while process.poll() is None:
            peak = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
            most_kib = max(most_kib, int(peak[1]) if peak else 0)
            time.sleep(0.01)
    assert process.returncode == 0 and 0 < most_kib < MOST_MIB * 1024
    unknown = json.loads((folder / "out").read_text())
    assert unknown["verdict"] != "CONFIRMED" and "use the level syscalls" not in json.dumps(unknown["verdicts"])


def test_two_hundred_threads_at_once(folder: Path, compiled: Any, witnessed: Witnessed) -> None:
    program = compiled("two_hundred_threads", "-pthread")
    result = witnessed(folder, [program], claims=["ops=100000,bytes=51200000,path=data"])
    assert (result["verdict"], result["lost"]) == ("CONFIRMED-CACHED", 0), result["verdicts"]
    assert result["threads"] == 200


def test_a_tree_that_forks_faster_than_it_reaps(folder: Path, compiled: Any, witnessed: Witnessed) -> None:
    result = witnessed(folder, [compiled("many_forks")])
    assert (result["processes"], result["lost"]) == (1 + 2 * 600, 0)
    assert result["calls"]["exit_group"] >= 1 + 600  # a grandchild may outlive the command, and is ended with it
