"""A few damaged files through the real command line: exit status 2, the file's name, and no traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..cli.conftest import ask
from ..corpora import cases, golden, text


def refused(named: str, *argv: object, cwd: Path) -> None:
    answer = ask(*argv, cwd=cwd)
    assert (answer.code, named in answer.err) == (2, True), answer.err


@cases("readers", "commands")
def test_a_damaged_file_is_refused(tmp_path: Path, case: dict[str, Any]) -> None:
    for name, made in case["files"].items():
        (tmp_path / name).write_text(text(made))
    refused(case["named"], *case["ask"].split(), cwd=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == case["files"].keys()


def test_a_damaged_file_of_a_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(golden("fio/3.33/read/fio.json"))
    assert ask("import", "good.json", "--output", "run", cwd=tmp_path).code == 0
    (record,) = (tmp_path / "run" / "trials").glob("*/record.json")
    whole = record.read_text()
    table = json.loads(whole)
    table["trial"]["point"]["x"] = 10**30
    record.write_text(json.dumps(table))
    for argv in (("report", "run"), ("compare", "run", "run"), ("sql", "run", "SELECT 1")):
        refused("record.json: trial", *argv, cwd=tmp_path)
    record.write_text(whole)
    parquet = record.with_name("hist.parquet")
    parquet.write_bytes(parquet.read_bytes()[:-40] + b"\xff" * 40)
    refused("hist.parquet", "report", "run", cwd=tmp_path)
