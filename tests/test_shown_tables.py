"""The tables in TOML that documents show: whole studies load, and pieces are keys of what they are pieces of.

A table that begins a study is loaded as `ioassay plan` loads it. Pieces of a study are added to a small one. Faults,
drives and entry points of plugins are read by what reads them. Tables with a title are files of a page's terminals, and
`test_shown_commands.py` uses them.
"""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ioassay import packs
from ioassay.errors import IoassayError
from ioassay.packs.virtual_drive import drive_options
from ioassay.report import figures
from ioassay.roles import Consent
from ioassay.runner import preflight
from ioassay.study import catalog

from .corpora import cases
from .documents import DOCUMENTS, Block, blocks, name_of

TOOLS = {
    "stress_ng": (pytest.mark.stress,),
    "db_bench": (pytest.mark.rocksdb,),
    **dict.fromkeys(("simulate", "filesuite", "null"), ()),
}
"""Driver -> the marker of its tool. All others, and pieces of a study, need fio."""


def marks(block: Block) -> tuple[pytest.MarkDecorator, ...]:
    """What the driver of a table needs."""
    table = tomllib.loads(block.text)
    of_study = not table.keys() & {"fault", "drive", "project"}
    return TOOLS.get(table.get("driver", ""), (pytest.mark.fio,)) if of_study else ()


TABLES = [
    pytest.param(path, block, marks=marks(block), id=f"{name_of(path)}:{block.line}")
    for path in DOCUMENTS
    for block in blocks(path.read_text())
    if block.language == "toml" and not block.title
]
TARGET = {"kind": "file", "path": "data", "size": "1TiB"}
STUDY = {"title": "A piece", "driver": "fio", "target": TARGET}
PROGRAM = {**STUDY, "driver": "command", "params": {"argv": ["true", "{target}"]}}
NAMED = {
    "faults.toml": '[[fault]]\nkind = "read-error"\n',
    "mine.toml": 'title = "Mine"\ndriver = "fio"\ntarget = { kind = "file", path = "data", size = "1GiB" }\n',
}
"""Files that tables name, of readers who have their own."""


def read(block: Block, folder: Path) -> None:
    """Read a table by its keys; StudyError or InputError for what the program would refuse."""
    table = tomllib.loads(block.text)
    path = folder / "table.toml"
    path.write_text(block.text)
    if "fault" in table:
        assert drive_options.read_faults(path)
    elif "project" in table:
        groups = [importlib.import_module(name) for name in table["project"]["entry-points"]]
        assert all(hasattr(group, "REGISTRY") or group is packs for group in groups)
    elif isinstance(table.get("drive"), list):
        assert drive_options.read_drives(path)
    else:
        read_study(table, path)


def read_study(table: Mapping[str, Any], path: Path) -> None:
    if table.keys() & {"driver", "suite"}:
        suite = catalog.load(str(path))
    else:
        small = PROGRAM if "claims" in table.get("params", ()) else STUDY
        params = {**small.get("params", {}), **table.get("params", {})}
        suite = catalog.from_table({**small, **table, "params": params}, path)
    assert suite.title
    benches = preflight.assemble(suite, Consent(exec=True), path.parent)
    preflight.ready_tools(benches)
    for bench in benches:
        figures.check(bench.study)
        trial = next(iter(bench.points()))
        bench.target(trial)
        bench.driver.validate(trial.params, trial.target)


@pytest.mark.parametrize(("path", "block"), TABLES)
def test_a_table_that_a_document_shows_is_read(
    path: Path, block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in NAMED.items():
        Path(name).write_text(text)
    read(block, tmp_path)


@cases("documents", "bad_tables")
def test_a_table_that_would_be_refused_is_found(case: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(IoassayError, match=case["id"]):
        read(Block("toml", "", case["text"], 1), tmp_path)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_no_table_is_shown_without_its_language(path: Path) -> None:
    headed = re.compile(r"^\[\[?[a-z]+\]?\]$", re.M)
    bare = [block.line for block in blocks(path.read_text()) if not block.language and headed.search(block.text)]
    assert not bare, f"{name_of(path)}.md: make it ```toml in lines {bare}"
