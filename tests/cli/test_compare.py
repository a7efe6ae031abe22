"""`ioassay compare`: what the object has, and which runs are no regression."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from .conftest import Ask, ask

STUDY = """
title = "Null"
driver = "null"
repetitions = 2
[params]
metrics = { "read.bw" = SPEED }
noise = NOISE
[factors]
x = [1, 2, 4, 8]
[analysis]
responses = ["read.bw"]
[watch]
monitors = []
"""
QUIET = {"seconds": 1.0, "processors": 2, "own_share": 0.1, "kernel_share": 0.0, "steal_share": 0.0}
"""Of the environment of a trial, but for what others used."""


def run(folder: Path, name: str, speed: str, noise: str = "0.001") -> Path:
    (folder / "null.toml").write_text(STUDY.replace("SPEED", speed).replace("NOISE", noise))
    answer = ask("run", "null.toml", "--set", f"seed={ord(name)}", "--output", name, cwd=folder)
    assert answer.code == 0, answer.err
    return folder / name


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs A and C, which is half as fast."""
    folder = tmp_path_factory.mktemp("work")
    run(folder, "A", "1e8")
    run(folder, "C", "5e7")
    return folder


def test_the_object_is_what_the_page_stores(work: Path) -> None:
    answer = ask("compare", "A", "C", "--output", "json", "--json", cwd=work)
    stored = json.loads((work / "json" / "comparison.json").read_text())
    assert {key: value for key, value in answer.json.items() if key != "report"} == stored


def test_an_interval_beyond_all_measure_is_not_spelled_out(ioassay: Ask, tmp_path: Path) -> None:
    for seed in ("1", "2"):
        run(tmp_path, seed, "1e8", "1.5")
    shown = ioassay("compare", "1", "2", "--output", "page").out
    assert "< 0.001 … > 1000" in shown
    assert not re.search(r"\d{5}\.\d{3}", shown)


def disturbed(run: Path, share: float, to: Path) -> Path:
    """A copy of a run whose machine other programs used for a share of its time."""
    shutil.copytree(run, to, ignore=shutil.ignore_patterns("report"))
    for path in to.glob("trials/*/record.json"):
        record = json.loads(path.read_text())
        record["environment"] = {**QUIET, "others_share": share}
        path.write_text(json.dumps(record))
    return to


def test_a_machine_that_was_not_fit_is_no_regression(work: Path, tmp_path: Path) -> None:
    busy, quiet = (disturbed(work / "C", share, tmp_path / name) for share, name in ((0.6, "busy"), (0.0, "quiet")))
    answer = ask("compare", "A", busy, "--output", tmp_path / "page", "--json", cwd=work)
    assert answer.code == 0, answer.err
    assert (answer.json["outcome"], answer.json["regression"], answer.json["unfit"]) == ("not-comparable", False, ["B"])
    answer = ask("compare", "A", quiet, "--output", tmp_path / "other", "--json", cwd=work)
    assert (answer.code, answer.json["outcome"]) == (1, "slower")
