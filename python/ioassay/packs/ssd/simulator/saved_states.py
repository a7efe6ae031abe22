"""Saved states of simulations: which options a state has, and which others a simulation from it may have.

The core writes and reads the state itself. Its file begins with a text of ours: the options that were given, and the
trace. Nothing is simulated here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ioassay import _core
from ioassay.errors import UsageError
from ioassay.simulation.options import (
    BUFFER,
    CONTROLLER,
    DRIVE,
    NAMES,
    NONE,
    OPTIONS,
    PRECONDITION,
    known,
    read,
)


def label(options: Mapping[str, Any], trace: Mapping[str, Any]) -> str:
    """The text of a state: the options that were given, and the trace that was simulated."""
    return json.dumps({"options": dict(options), "trace": _identity(trace)})


def options_of(path: str | Path, given: Mapping[str, Any], *, resume: bool) -> dict[str, Any]:
    """The options of a simulation that begins with the state in `path`: those of the state, and those `given`.

    Options of the drive are the state's; with a buffer that was used, so are those of the buffer; to resume a run, all
    are. Raises UsageError, which names the option that differs, InputError for a file that is no state.
    """
    saved = _label(path)["options"]
    if not resume and (share := given.get(PRECONDITION)) and float(share):
        raise UsageError(f"precondition is {share}, and {path} is the state of a drive already; expected one of both")
    merged = {**saved, **given}
    if not resume:
        merged.pop(PRECONDITION, None)
    used = _value(saved, "policy") != NONE
    for option in OPTIONS:
        fixed = resume or option.group in (DRIVE, CONTROLLER) or (option.group == BUFFER and used)
        if fixed and option.group != PRECONDITION and _value(saved, option.name) != _value(merged, option.name):
            was, name = saved.get(option.name, option.default), option.name.replace("_", "-")
            raise UsageError(f"{name} is {given[option.name]}, and the state in {path} is of a drive with {name} {was}")
    return merged


def check_trace(path: str | Path, trace: Mapping[str, Any]) -> None:
    """UsageError where a run cannot continue over `trace`, because another trace was simulated."""
    saved, wanted = _label(path)["trace"], json.loads(json.dumps(_identity(trace)))
    if saved != wanted:
        raise UsageError(
            f"the run in {path} is of the trace {_shown(saved)}, expected the same and not {_shown(wanted)}"
        )


def _label(path: str | Path) -> dict[str, Any]:
    try:
        text = _core.state_label(path)
    except _core.CoreError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    # The checksum is of what follows this text.
    if not isinstance(found, dict) or not all(isinstance(found.get(part), dict) for part in ("options", "trace")):
        raise UsageError(f"{path}: the saved state is damaged: its text has no options and no trace")
    return found


def _value(options: Mapping[str, Any], name: str) -> Any:
    option = known(name)
    return read(option, options.get(name, NAMES[name].default))


def _identity(trace: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a trace the same, however much of it is simulated: file or recipe, and how it is read and prepared."""
    kept = {name: value for name, value in trace.items() if name not in ("cache", "progress")}
    if "path" in kept and kept["path"] != "-":
        kept["path"] = str(Path(kept["path"]).resolve())
    kept["prepare"] = {name: value for name, value in kept.get("prepare", {}).items() if name != "first"}
    return kept


def _shown(identity: Mapping[str, Any]) -> str:
    name = identity.get("path", "that was made")
    rest = {key: value for key, value in identity.items() if key != "path" and value}
    return f"{name} {json.dumps(rest)}" if rest else str(name)
