"""The machine as facts are read from it: files below an injected root, and short commands where those are allowed.

What is not there, or may not be read, is None: another kernel or a container has other files, and that is no error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ioassay.errors import InputError, ToolError
from ioassay.process.supervisor import Captured

Capture = Callable[[Sequence[str]], Captured]


@dataclass(frozen=True)
class Machine:
    """`root` is where /proc, /sys, /etc and /dev are; `capture` runs a command, None means that none is run."""

    root: Path = Path("/")
    capture: Capture | None = None

    def text(self, path: str | Path) -> str | None:
        """The stripped text of a file; None when it cannot be read or is empty."""
        try:
            return self.path(path).read_text(errors="replace").strip() or None
        except OSError:
            return None

    def lines(self, path: str | Path) -> list[str]:
        return (self.text(path) or "").splitlines()

    def number(self, path: str | Path) -> int | None:
        return whole_number(self.text(path))

    def texts(self, folder: str | Path, **files: str) -> dict[str, Any]:
        """The texts of files in a folder, by the names of the facts that they are; those that are known."""
        return known(**{fact: self.text(Path(folder, file)) for fact, file in files.items()})

    def numbers(self, folder: str | Path, **files: str) -> dict[str, Any]:
        """As `texts`, of whole numbers."""
        return known(**{fact: self.number(Path(folder, file)) for fact, file in files.items()})

    def fields(self, path: str | Path, separator: str = ":") -> dict[str, str]:
        """A file of lines `name: value`; of several lines with one name, the first."""
        pairs = (line.partition(separator) for line in reversed(self.lines(path)))
        return {name.strip(): value.strip() for name, _, value in pairs}

    def paths(self, pattern: str) -> list[Path]:
        """What matches a glob pattern below the root, cpu2 before cpu10."""
        return sorted(
            self.root.glob(pattern.lstrip("/")),
            key=lambda path: [
                (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", str(path))
            ],
        )

    def path(self, path: str | Path) -> Path:
        inside = Path(path)
        return inside if inside.is_relative_to(self.root) else self.root / str(inside).lstrip("/")

    def answer(self, *argv: str) -> dict[str, Any]:
        """The JSON object that a command printed; empty when it printed none."""
        from ioassay import validation

        try:
            return validation.table(self.output(*argv) or "{}", argv[0])
        except InputError:
            return {}

    def output(self, *argv: str) -> str | None:
        """What a command printed; None when it is not there, hung, or failed without printing."""
        if self.capture is None:
            return None
        try:
            captured = self.capture(argv)
        except ToolError:
            return None
        return None if captured.timed_out else captured.stdout.strip() or None


def whole_number(text: str | None) -> int | None:
    """`12` -> 12; None for anything that is no whole number."""
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def known(**facts: Any) -> dict[str, Any]:
    """The facts that are known: None and empty containers are left out."""
    return {name: value for name, value in facts.items() if value is not None and value != {} and value != []}


def section(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object below a key of a tool's answer; empty where there is none."""
    found = table.get(name)
    return found if isinstance(found, Mapping) else {}


def selected(text: str | None) -> str | None:
    """The choice that a file of /sys shows in brackets: `none [mq-deadline] bfq` -> `mq-deadline`."""
    found = re.search(r"\[([^]]*)\]", text or "")
    return found[1] if found else text


def choices(text: str | None) -> list[str]:
    """All that such a file offers, brackets removed."""
    return (text or "").replace("[", "").replace("]", "").split()
