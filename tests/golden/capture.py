"""Captures golden outputs of installed tools: `python tests/golden/capture.py FOLDER [TOOL…]`, as root.

captures.toml has the cases. What each prints is in `FOLDER/<tool>/<version>/`, unedited, but for the names of its
working folder (/golden), of the host and of the kernel; standard error, where there is any, in `*.err`, and then of an
empty output no file. A tool that Debian has not, or not in this version, was built from its source and put first by
`IOASSAY_GOLDEN_PATH`: elbencho, sysbench 0.4, 0.5 and 1.1, stress-ng 0.13, LevelDB's db_bench (without its `*.err`).
Outputs of vdbench are written after its documentation, in `documented`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

TOOLS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("captures.toml").read_text())
_FIRST = os.environ.get("IOASSAY_GOLDEN_PATH", "/usr/local/sbin")
ENVIRONMENT = {"LC_ALL": "C", "PATH": f"{_FIRST}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games"}


def capture(tool: str, into: Path, work: Path) -> None:
    """Every case of a tool, in one shell."""
    table = TOOLS[tool]
    shown = subprocess.run(["sh", "-c", table["version"]], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    version = re.search(r"\d+(\.\d+)+[\w-]*", shown.stdout + shown.stderr)
    assert version, f"{tool} does not say its version"
    folder = into / table.get("tool", tool) / version[0] / table.get("folder", "")
    folder.mkdir(parents=True, exist_ok=True)
    lines = [table.get("before", "")]
    lines += [
        f"{{ {command}\n}} >'{work}.{name}.txt' 2>'{work}.{name}.err'" for name, command in table["cases"].items()
    ]
    script = "\n".join([*lines, table.get("after", "")])
    subprocess.run(["bash", "-c", script], cwd=work, env=ENVIRONMENT, check=False)
    for name in table["cases"]:
        out, err = (neutral(Path(f"{work}.{name}.{suffix}").read_text(), work) for suffix in ("txt", "err"))
        if out or not err:
            (folder / (name if "." in name else f"{name}.txt")).write_text(out)
        if err:
            (folder / f"{name}.err").write_text(err)


def neutral(text: str, work: Path) -> str:
    """Without the names of the folder, the host and the kernel."""
    of = os.uname()
    for name, instead in ((str(work), "/golden"), (of.release, "kernel"), (of.version, "version")):
        text = text.replace(name, instead)
    return text.replace(f"name: {of.nodename}\n", "name: host\n")


def main(into: Path, tools: list[str]) -> None:
    for tool in tools or list(TOOLS):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
            work = Path(place).resolve() / "work"
            work.mkdir(mode=0o777)
            work.parent.chmod(0o755)
            work.chmod(0o777)
            (work / "data").write_bytes(os.urandom(2**20))
            capture(tool, into, work)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2:])
