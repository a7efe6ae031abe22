"""Each pack is one folder and one line: without them, the rest starts, lists what it has, and measures."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ioassay import pack
from ioassay.packs import PACKS

from .documents import ROOT

PACKAGE = ROOT / "python" / "ioassay"
STUDY = 'title = "Null"\ndriver = "null"\nrepetitions = 2\n[factors]\nx = [1, 2]\n'
LISTS = """
import json
import ioassay
from ioassay import cli, pack, drivers, formats, monitors, targets, analysis
from ioassay.report import figures
from ioassay.runner import executors
from ioassay.formats import result_entry
rooms = [drivers, formats, monitors, targets, analysis, figures, result_entry, executors]
of = [room.REGISTRY for room in rooms]
lists = {group: pack.listed(group, {}) for one in pack.built_in().values() for group in one.lists}
lists |= {one.group: {name: str(one.load(name)) for name in one} for one in of}
lists["commands"] = {name: str(cli.named(name)) for name in cli.COMMANDS}
lists["api"] = {name: str(getattr(ioassay, name)) for name in ioassay.__all__}
print(json.dumps(lists))
"""


@pytest.fixture(params=PACKS)
def removed(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The name of a pack that is not in the copy of the package in `tmp_path`."""
    return remove(request.param, tmp_path)


def remove(name: str, tmp_path: Path) -> str:
    shutil.copytree(PACKAGE, tmp_path / "ioassay", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(tmp_path / "ioassay" / "packs" / name)
    line = tmp_path / "ioassay" / "packs" / "__init__.py"
    line.write_text(re.sub(rf'"{name}",?\s*', "", line.read_text()))
    return name


def python(tmp_path: Path, *words: str, status: int = 0) -> str:
    """What it prints; on standard error where it is to fail."""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def test_without_a_pack_the_rest_starts_lists_and_measures(removed: str, tmp_path: Path) -> None:
    lists = json.loads(python(tmp_path, "-c", LISTS))
    for group, entries in pack.built_in()[removed].lists.items():
        assert not entries.keys() & lists.get(group, {}).keys()
    named = [row["name"] for row in json.loads(python(tmp_path, "-m", "ioassay", "studies", "--json"))["studies"]]
    own = {path.stem for path in (PACKAGE / "packs" / removed / "studies").glob("*.toml")}
    assert named and not own & {*named}
    (tmp_path / "null.toml").write_text(STUDY)
    said = json.loads(python(tmp_path, "-m", "ioassay", "run", "null.toml", "--output", "run", "--json"))
    assert said["trials"]["ok"] == 4
    assert (tmp_path / "run" / "report" / "index.html").exists()


@pytest.mark.parametrize(
    ("name", "words", "wanted"),
    [
        ("live", ["run", "null.toml", "--output", "run", "--live"], "--live needs the pack 'live'"),
        ("strace", ["witness", "--backend", "strace", "--", "touch", "run"], "expected auto, bpf, counters\n"),
    ],
)
def test_an_option_of_a_pack_that_is_not_there_is_refused_before_anything_is_done(
    name: str, words: list[str], wanted: str, tmp_path: Path
) -> None:
    remove(name, tmp_path)
    (tmp_path / "null.toml").write_text(STUDY)
    said = python(tmp_path, "-m", "ioassay", *words, status=2)
    assert wanted in said and not (tmp_path / "run").exists()
