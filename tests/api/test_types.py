"""Type checkers see the whole API: mypy --strict over a program that uses all of it, where no value may be Any."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ioassay

ROOT = Path(__file__).parent.parent.parent
PROGRAM = Path(__file__).parent / "typed_program.py"
NOT_CALLED = {
    *("BrokenPlugin", "Contradicted", "ConditionError", "Interrupted", "RunError", "SafetyRefusal", "StartError"),
    "ToolError",
}
"""Classes of errors like those that it catches."""


def checked(*files: Path) -> subprocess.CompletedProcess[str]:
    """As a user would check it: by the installed package, without the settings of this repository."""
    options = ["--strict", "--config-file", "", "--cache-dir", str(ROOT / ".mypy_cache" / "programs")]
    command = [sys.executable, "-m", "mypy", *options, *map(str, files)]
    return subprocess.run(command, cwd=PROGRAM.parent, capture_output=True, text=True, timeout=280)


@pytest.mark.slow
def test_a_program_that_uses_the_whole_api_is_typed(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import ioassay as ia\n\nia.open(1)\nia.Study(drivr='null')\nia.compare('a', 'b').verdit\n")
    done = checked(PROGRAM, wrong)
    errors = re.findall(r"(\w+\.py):(\d+): error", done.stdout)
    assert errors and {name for name, _ in errors} == {"wrong.py"}, done.stdout + done.stderr
    assert {int(line) for _, line in errors} == {3, 4, 5}


def test_the_program_uses_every_name() -> None:
    used = set(re.findall(r"\bia\.(\w+)", PROGRAM.read_text()))
    assert set(ioassay._MODULES) - NOT_CALLED <= used
