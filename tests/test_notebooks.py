"""The notebooks run from their first cell to their last, use nothing but the API, and are kept without outputs."""

import ast
from pathlib import Path
from typing import Any

import nbformat
import pytest

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


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.fio
@pytest.mark.root
@EACH_NOTEBOOK
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=560, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert {output.output_type for output in shown} == {"execute_result"}, shown  # nothing is printed
    assert any("application/vnd.vegalite" in kind or kind == "text/html" for output in shown for kind in output.data)


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["block-size", "write-buffer"]
