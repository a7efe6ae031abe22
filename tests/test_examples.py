"""Every study loads and would run here but for its disk, programs and notebooks run; each has its line in README.md.

Notebooks run from their first cell to their last, use nothing but the API, and are kept without outputs.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.formatters import DisplayFormatter

from ioassay.report import figures
from ioassay.roles import Consent
from ioassay.runner import preflight
from ioassay.study import catalog, plan

from .cli.command_server import CommandServer
from .corpora import THOROUGH

EXAMPLES = Path(__file__).parent.parent / "examples"
STUDIES = sorted([*EXAMPLES.glob("*.toml"), *EXAMPLES.glob("*.fio")])
_DATABASE = (pytest.mark.root, pytest.mark.rocksdb, pytest.mark.slow)
MARKS = {"rocksdb_loop.py": _DATABASE, "faults.py": _DATABASE}
PROGRAMS = [pytest.param(path, marks=MARKS.get(path.name, ())) for path in sorted(EXAMPLES.glob("*.py"))]
SAYS = {"rocksdb_loop.py": "measured: the means are in", "faults.py": "\nbit rot "}
FAULTS = () if THOROUGH else ("no fault", "power loss", "bit rot")
SMALL = {"rocksdb_loop.py": ("1400",), "faults.py": ("30", *FAULTS)}
"""Each of its operations is synchronised, which takes milliseconds where processors are busy."""


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_an_example_is_a_study_and_has_its_line(path: Path) -> None:
    suite = catalog.load(str(path))
    assert sum(plan.count(suite).values()) > 0
    for study in suite.studies:
        figures.check(study)
    assert f"[{path.name}]({path.name})" in (EXAMPLES / "README.md").read_text()


@pytest.mark.fio
@pytest.mark.parametrize("path", [path for path in STUDIES if path.name != "device.toml"], ids=lambda path: path.name)
def test_an_example_would_run_here(path: Path, tmp_path: Path) -> None:
    benches = preflight.assemble(catalog.load(str(path)), Consent(exec=path.name == "command.toml"), tmp_path)
    preflight.ready_tools(benches)
    found = {warning.code for warning in preflight.examine(benches)}
    assert not {"response-unknown", "iodepth-ignored"} & found


@pytest.mark.fio
@pytest.mark.root
@pytest.mark.slow
def test_faults_of_a_drive_are_a_factor(tmp_path: Path) -> None:
    words = ["run", str(EXAMPLES / "misbehaving-drive.toml"), "--scale", "quick", "--repetitions", "1"]
    words += ["--set", "runtime=1500ms"]
    with closing(CommandServer()) as server:
        words += ["--output", str(tmp_path / "run"), "--json"]
        code, said, errors = server.run(words, EXAMPLES.parent, os.environ, 500)
    assert code == 0, errors
    records = [json.loads(path.read_text()) for path in (tmp_path / "run").glob("trials/*/record.json")]
    assert len(records) == 4 and {record["status"] for record in records} == {"ok"}
    struck = [record["metrics"].get("drive.faults") for record in records]
    plans = [str(record["trial"]["point"]["target.faults"]) for record in records]
    assert [count is None for count in struck] == [plan == "none" for plan in plans]
    # It is hot in half of each second, of which a run of 1500 ms has one whole.
    hot = [count for count, plan in zip(struck, plans, strict=True) if "hot" in plan]
    assert all(count > 0 for count in hot), "any read of a hot drive is slower"
    assert "faults-injected" in said


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_program_runs_and_has_its_line(path: Path, tmp_path: Path) -> None:
    if path.name in MARKS and (os.geteuid() or shutil.which("db_bench") is None):
        pytest.skip("needs root and db_bench (package rocksdb-tools)")
    command = [sys.executable, str(path), *SMALL.get(path.name, ("20000",))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0 and len(done.stdout.splitlines()) > 1, done.stderr
    assert SAYS.get(path.name, "") in done.stdout, done.stderr
    assert f"[{path.name}]({path.name})" in (EXAMPLES / "README.md").read_text()


# Notebooks

NOTEBOOKS = sorted(EXAMPLES.glob("notebooks/*.ipynb"))
ALLOWED = {"ioassay", "polars"}
EACH_NOTEBOOK = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path) -> list[Any]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


@EACH_NOTEBOOK
def test_a_notebook_is_kept_without_outputs_and_has_its_line(path: Path) -> None:
    assert all(not cell.outputs and cell.execution_count is None for cell in cells(path))
    assert f"[{path.name}](notebooks/{path.name})" in (EXAMPLES / "README.md").read_text()


@EACH_NOTEBOOK
def test_a_notebook_uses_the_api_and_nothing_below_it(path: Path) -> None:
    for node in ast.walk(ast.parse("\n".join(cell.source for cell in cells(path)))):
        if isinstance(node, ast.Import):
            assert {alias.name for alias in node.names} <= ALLOWED
        elif isinstance(node, ast.ImportFrom):
            assert (node.module, [alias.name for alias in node.names]) == ("ioassay", ["traces"])


def shown(path: Path) -> Iterator[Any]:
    """What its cells show: run in this process, and for a tenth of a second what is measured for a second."""
    names: dict[str, Any] = {}
    for cell in cells(path):
        body = ast.parse(cell.source.replace('"runtime": "1s"', '"runtime": "100ms"')).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), path.name, "exec"), names)
        if isinstance(last, ast.Expr):
            yield eval(compile(ast.Expression(last.value), path.name, "eval"), names)


@pytest.mark.fio
@pytest.mark.root
@EACH_NOTEBOOK
def test_a_notebook_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    kinds = {kind for value in shown(path) for kind in DisplayFormatter().format(value)[0]}
    assert capsys.readouterr().out == ""
    assert any("application/vnd.vegalite" in kind or kind == "text/html" for kind in kinds)
