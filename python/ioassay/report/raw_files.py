"""What each trial left in the run's folder: its command line and the names of its raw files.

Read from `trials/<id>/record.json`, because the frames of a Dataset hold numbers only. A record that cannot be read
here is shown as such; whether that is an error has been decided when the records were loaded.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

RAW_NAME = "RAW"
"""Stands for a trial's raw folder in command lines that are alike but for it."""


@dataclass(frozen=True)
class Evidence:
    """One trial's command line ('' for none) and its raw files (name -> link from the page)."""

    command: str = ""
    template: str = ""
    """The command with `RAW` for the trial's raw folder: equal for trials that differ only in their files."""
    files: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def read(root: Path, trial: str, out: Path) -> Evidence:
    """The evidence of one trial; links are relative to `out`, where the page will be."""
    folder = root / "trials" / trial
    try:
        record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Evidence()
    except (OSError, ValueError) as error:
        return Evidence(problem=f"record.json cannot be read: {error}")
    if not isinstance(record, dict):
        return Evidence(problem="record.json holds no object")
    raw = folder / "raw"
    files = {str(name): link(raw / str(name), out) for name in _listed(record.get("raw"))}
    argv = [str(word) for word in _listed(record.get("command"))]
    return Evidence(_line(argv), _line(_template(argv, trial)), files)


def _line(argv: Sequence[str]) -> str:
    """As a shell takes it; `&&` stands between the steps of a trial (`roles.Command.of_steps`)."""
    return shlex.join(argv).replace(" '&&' ", " && ")


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _template(argv: Sequence[str], trial: str) -> list[str]:
    """Whatever leads to the trial's raw folder replaced; the run's folder may have been moved since."""
    folder = re.compile(rf"[^=]*/trials/{re.escape(trial)}/raw(?=/|$)")
    return [folder.sub(RAW_NAME, word) for word in argv]


def link(path: Path, out: Path) -> str:
    """A relative link from a page in `out` to `path`, fit for an attribute."""
    return quote(os.path.relpath(path, out))


def run_folder(root: Path) -> str:
    """The run's folder as a word of a shell: as it was given, but of an absolute path, which tells where people keep
    things, the name alone."""
    return shlex.quote(root.resolve().name if root.is_absolute() else str(root))
