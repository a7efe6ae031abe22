"""Prints what pip has to install, one requirement a line: `python setup/requirements.py run|check`.

`run` is what ./ioassay needs and what builds it, `check` adds the tools of ./check. The versions are not here:
constraints.txt pins them.
"""

import sys
import tomllib
from pathlib import Path

pyproject = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
project = pyproject["project"]
print(*pyproject["build-system"]["requires"], *project["dependencies"], sep="\n")
if sys.argv[1:] == ["check"]:
    print(*project["optional-dependencies"]["dev"], sep="\n")
