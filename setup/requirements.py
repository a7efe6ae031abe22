"""Prints what pip has to install, one requirement a line: `python setup/requirements.py run|check|package`.

`run` is what ./ioassay needs and what builds it, `check` adds the tools of ./check and what its tests need. The
versions are not here: constraints.txt pins them. On x86 processors without AVX2 it is the build of polars that runs
there. `package` is what a package of Debian has in it, for any x86 processor.
"""

import platform
import sys
import tomllib
from pathlib import Path

pyproject = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
project = pyproject["project"]
if sys.argv[1:] == ["package"]:
    print(*project["dependencies"], *project["optional-dependencies"]["compat"], sep="\n")
    sys.exit()
print(*pyproject["build-system"]["requires"], *project["dependencies"], sep="\n")
processor = Path("/proc/cpuinfo")
if platform.machine() == "x86_64" and processor.exists() and "avx2" not in processor.read_text().split():
    print(*project["optional-dependencies"]["compat"], sep="\n")
if sys.argv[1:] == ["check"]:
    for extra in ("cluster", "dev", "release", "site"):
        print(*project["optional-dependencies"][extra], sep="\n")
