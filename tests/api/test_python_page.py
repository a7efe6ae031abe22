"""docs/python.md: its code runs as it stands, in one program, and prints what stands below it. The code of other pages
runs, too.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = DOCS / "python.md"
BLOCK = re.compile(r"```python\n((?:(?!```)[^\n]*\n)*)```\n((?:\n(?:    [^\n]*\n)+)?)")
MARK = "--- block"


def blocks(page: Path = PAGE) -> list[tuple[str, str]]:
    """Each block of code, and the indented output below it ('' where none is shown)."""
    found = BLOCK.findall(page.read_text())
    return [
        (code, "".join(line[4:] + "\n" for line in output.strip("\n").split("\n") if line)) for code, output in found
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.fio
def test_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    shown = blocks()
    program = "".join(f"{code}\nprint({MARK!r})\n" for code, _ in shown)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=560)
    assert done.returncode == 0, done.stderr[-3000:]
    printed = done.stdout.split(f"{MARK}\n")
    assert len(printed) == len(shown) + 1 and not done.stderr
    for (code, wanted), said in zip(shown, printed, strict=False):
        assert not wanted or said == wanted, code
    assert (tmp_path / "runs" / "reads" / "report" / "index.html").is_file()


@pytest.mark.parametrize("name", ["simulator", "workloads"])
def test_the_code_of_another_page_runs(name: str, tmp_path: Path) -> None:
    program = "\n".join(code for code, _ in blocks(DOCS / f"{name}.md"))
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert program and done.returncode == 0, done.stderr[-3000:]


def test_most_blocks_show_what_they_print() -> None:
    assert sum(bool(output) for _, output in blocks()) >= len(blocks()) // 2
