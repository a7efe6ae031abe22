"""The notebooks run from their first cell to their last, use nothing but the API, and are kept without outputs."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.formatters import DisplayFormatter

NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples" / "notebooks").glob("*.ipynb"))
ALLOWED = {"ioassay", "polars"}
EACH_NOTEBOOK = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path) -> list[Any]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


@EACH_NOTEBOOK
def test_a_notebook_is_kept_without_outputs_and_has_its_line(path: Path) -> None:
    assert all(not cell.outputs and cell.execution_count is None for cell in cells(path))
    readme = path.parent.parent / "README.md"
    assert f"[{path.name}](notebooks/{path.name})" in readme.read_text()


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


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["block-size", "write-buffer"]
