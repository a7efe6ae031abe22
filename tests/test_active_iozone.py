"""The study `active-iozone` from the command line to its findings: every cell within 1 %, or explained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FACTORS = ["--factor", "target.path=one,two", "--set", "watch.monitors=[]"]


def ioassay(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Run the command in `folder`; its exit code and what --json printed."""
    argv = [sys.executable, "-m", "ioassay", *words, "--json"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    assert done.stdout, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, found


def accountings(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [finding for finding in found["findings"] if finding["question"] == "accountings"]


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.root
@pytest.mark.bpf
@pytest.mark.slow
@pytest.mark.alone
def test_every_cell_of_the_quick_study_is_filled_and_within_1_percent_or_explained(folders: Path) -> None:
    quick = ["--scale", "quick", "--repetitions", "2"]  # two tell what three do of cells: each is judged by itself
    code, found = ioassay(folders, "run", "active-iozone", *quick, *FACTORS)
    told = [finding["statement"] for finding in found["findings"] if finding["question"] == "verdict"]
    assert code == 0, told
    assert found["trials"]["failed"] == 0
    wholes = [one["statistics"] for one in accountings(found) if "within_1_percent" in one["statistics"]]
    assert len(wholes) == 2
    for whole in wholes:
        assert whole["within_1_percent"] + sum(whole["explained"].values()) == whole["cells"], whole
    tables = [one for one in accountings(found) if one["title"].startswith("Claim and kernel")]
    assert len(tables) == 4
    for finding in tables:
        (table,) = finding["tables"]
        assert len(table["columns"]) == 8
        assert all(cell is not None for row in table["rows"] for cell in row)
    assert all(figure["problem"] == "" for figure in found["figures"])
    moved = next(row for row in tables[0]["tables"][0]["rows"] if row[0].startswith("moved"))
    assert dict(zip(tables[0]["tables"][0]["columns"], moved, strict=True))["read"] == 15364


def test_without_a_witness_the_speeds_are_measured_and_claims_are_not_compared(folders: Path) -> None:
    off = ["--set", "watch.twins=false", "--set", "watch.witness=off", "--repetitions", "2"]
    small = ["--set", "size=256KiB", "--factor", "direct=false"]
    code, found = ioassay(folders, "run", "active-iozone-15m", *FACTORS, *off, *small)
    assert code == 0, found
    told = accountings(found)
    assert told[0]["severity"] == "warning"
    assert "compared" in told[1]["title"]


def test_a_folder_that_is_not_there_ends_it_before_the_first_trial_and_is_named(folders: Path) -> None:
    code, found = ioassay(folders, "run", "active-iozone-15m", "--factor", "target.path=one,three")
    assert code == 2
    assert "three: no such folder" in json.dumps(found)
    assert not any((folders / "runs").glob("*")) if (folders / "runs").exists() else True


def test_the_study_of_the_installed_iozone_says_so_where_there_is_none(folders: Path) -> None:
    if any((Path(place) / "iozone").exists() for place in os.environ["PATH"].split(":")):
        pytest.skip("iozone is installed here")
    code, found = ioassay(folders, "run", "active-iozone-binary", *FACTORS)
    assert code != 0
    assert "iozone: not found" in json.dumps(found)
