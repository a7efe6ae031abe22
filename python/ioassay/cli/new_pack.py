"""ioassay new-pack: a package with a driver, its tests and a study, to be made that of a tool."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from ioassay import drivers
from ioassay.cli import console, options, syntax
from ioassay.errors import UsageError

PLACES = ("", "", "", "src/ioassay_{}/", "src/ioassay_{}/", "tests/")
FILES = ("pyproject.toml", "README.md", "study.toml", "__init__.py", "driver.py", "test_yourtool.py")
"""Of the template in `testing/new_pack`, and the folders that they are written to."""


def new_pack(
    name: Annotated[str, syntax.argument("NAME", "Of the tool: lower case letters, digits and _.")],
    output: Annotated[Path | None, syntax.option("DIR", "The folder to write; by default ioassay-NAME.")] = None,
    json: options.Json = False,
) -> None:
    """Write a package for another tool: a driver, its tests and a study.

    The package is complete and runs dd; make it that of your tool. See also: ioassay help plugins

    Example: ioassay new-pack sieve
    """
    if not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise UsageError(f"NAME is '{name}'; expected lower case letters, digits and _, and a letter first")
    if name in drivers.DRIVERS:
        raise UsageError(f"NAME is '{name}', which ioassay has a driver for; choose another")
    folder = output or Path(f"ioassay-{name}")
    if folder.exists():
        raise UsageError(f"{folder} exists already; expected a new folder")
    template = Path(__file__).parent.parent / "testing" / "new_pack"  # importing testing takes pytest
    camel = "".join(part.capitalize() for part in name.split("_"))
    written = [
        folder / place.format(name) / file.replace("yourtool", name) for place, file in zip(PLACES, FILES, strict=True)
    ]
    for path, file in zip(written, FILES, strict=True):
        text = (template / f"{file}.txt").read_text().replace("Yourtool", camel).replace("yourtool", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shown = [str(path) for path in written]
    then = f"edit {shown[4]}, then: pip install --editable {folder}; ioassay run {shown[2]}"
    console.answer(
        lambda: {"folder": str(folder), "files": shown},
        lambda: console.lines((f"written: {', '.join(shown)}", then)),
    )
