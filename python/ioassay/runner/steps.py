"""A trial of several processes: how they are started as one, and what the storage counted for each.

Deliberately not here: running them (`process.sequence`), and which there are (the driver).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay import validation
from ioassay.errors import InputError
from ioassay.process import sequence
from ioassay.roles import Command, EndedStep, Load, Outcome

_DESCRIPTION, RESULTS = "steps.json", "steps-ended.json"
"""In a trial's raw folder: what `process.sequence` was told to run, and what it left."""


def argv(command: Command, load: Load, raw: Path) -> Sequence[str]:
    """What starts a command; where it has steps, their description is written to the raw folder."""
    if not command.steps:
        return command.argv
    counter = load.step_counter
    description = {
        "steps": [list(step.argv) for step in command.steps],
        "names": [step.name for step in command.steps],
        "results": str((raw / RESULTS).absolute()),
        "folder": str(load.path.absolute()) if load.path is not None and load.path.is_dir() else None,
        "cold": command.cold,
        "socket": str(counter.socket) if counter else None,
        "request": counter.request if counter else None,
    }
    (raw / _DESCRIPTION).write_text(json.dumps(description, indent=1))
    return sequence.command((raw / _DESCRIPTION).absolute())


def ended(outcome: Outcome, command: Command, raw: Path) -> Outcome:
    """The outcome, with the steps that ended; none where the sequence was ended before it could say so."""
    found = [
        EndedStep(step.name, int(one["exit_status"]), int(one["stdout_end"]))
        for step, one in zip(command.steps, _results(command, raw).get("ended", ()), strict=False)
    ]
    return dataclasses.replace(outcome, steps=found) if found else outcome


def metrics(command: Command | None, load: Load, raw: Path) -> dict[str, float]:
    """What the storage counted for each step that has a name: `<name>.<metric>`. Steps of one name are one."""
    counter = load.step_counter
    if command is None or counter is None:
        return {}
    found = _results(command, raw)
    answers = [found.get("before"), *(one["counted"] for one in found.get("ended", ()))]
    known: dict[str, float] = {}
    for step, before, after in zip(command.steps, answers, answers[1:], strict=False):
        if step.name and _answered(before) and _answered(after):
            known |= {f"{step.name}.{key}": value for key, value in counter.metrics(before, after).items()}
    return known


def _answered(answer: Any) -> bool:
    return isinstance(answer, dict) and answer.get("ok") is True


def _results(command: Command, raw: Path) -> Mapping[str, Any]:
    if not command.steps:
        return {}
    try:
        return validation.table((raw / RESULTS).read_text(), RESULTS)
    except (OSError, InputError):
        return {}
