"""What the command line changes in a study's table before it is validated: scale, --set, --factor, --repetitions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.errors import UsageError

FULL = "full"
_PARTS = ("params", "target", "run", "watch", "analysis", "factors")
_TOP = ("title", "description", "seed", "repetitions")
_TEXTS = ("title", "description")


def scaled(table: Mapping[str, Any], scale: str) -> dict[str, Any]:
    """The table at a named scale; `full` is the table as it is. A study without that scale is left alone.

    The scales are valid (`study.check_scales`).
    """
    result = dict(table)
    scales = result.pop("scale", {})
    if scale == FULL or not isinstance(scales, Mapping):
        return result
    change = scales.get(scale, {})
    for part in ("params", "target", "factors", "run"):
        if part in change:
            result[part] = {**result.get(part, {}), **change[part]}
    for key, other in (("repetitions", "until"), ("until", "repetitions")):
        if key in change:
            result.pop(other, None)
            result[key] = change[key]
    return result


def with_repetitions(table: Mapping[str, Any], repetitions: int) -> dict[str, Any]:
    """The table with a fixed number of repetitions in place of its own number or `until`."""
    result = {key: value for key, value in table.items() if key != "until"}
    return {**result, "repetitions": repetitions}


def with_setting(table: Mapping[str, Any], assignment: str) -> dict[str, Any]:
    """The table with `key=value` set: `runtime=5s` and `params.runtime=5s` mean the same; `target.path=…`, `seed=…`."""
    key, value = _split(assignment, "--set")
    part, _, name = key.partition(".")
    if not name:
        part, name = ("", key) if key in _TOP else ("params", key)
    if not part:
        return {**table, name: assignment.partition("=")[2] if name in _TEXTS else value}
    if part not in _PARTS:
        raise UsageError(f"--set {assignment}: unknown part '{part}'; wanted one of {', '.join(_PARTS)}")
    _require_unvaried(table, name if part == "params" else f"{part}.{name}", assignment)
    return {**table, part: {**table.get(part, {}), name: value}}


def _require_unvaried(table: Mapping[str, Any], name: str, assignment: str) -> None:
    """What factors and cases set at each point cannot be set for all of them: it would change nothing."""
    study = str(table.get("name", "the study"))
    if name in table.get("factors", {}):
        value = assignment.partition("=")[2]
        raise UsageError(f"--set {assignment}: '{name}' is a factor of {study}; wanted --factor {name}={value}")
    cases = table.get("case", [])
    if isinstance(cases, list) and any(isinstance(case, Mapping) and name in case for case in cases):
        raise UsageError(f"--set {assignment}: the cases of {study} set '{name}' themselves; wanted another study")


def with_factor(table: Mapping[str, Any], assignment: str) -> dict[str, Any]:
    """The table with a factor added or its levels replaced: `bs=4k,16k`."""
    key, _ = _split(assignment, "--factor")
    levels = [_value(level.strip()) for level in assignment.partition("=")[2].split(",") if level.strip()]
    if not levels:
        raise UsageError(f"--factor {assignment}: has no levels; wanted for example {key}=4k,16k")
    return {**table, "factors": {**table.get("factors", {}), key: levels}}


def adjusted(
    table: Mapping[str, Any],
    *,
    scale: str = FULL,
    settings: Sequence[str] = (),
    factors: Sequence[str] = (),
    repetitions: int | None = None,
) -> dict[str, Any]:
    """All changes in their order: the scale first, so that what the user names wins."""
    result = scaled(table, scale)
    for assignment in settings:
        result = with_setting(result, assignment)
    for assignment in factors:
        result = with_factor(result, assignment)
    return result if repetitions is None else with_repetitions(result, repetitions)


def _split(assignment: str, option: str) -> tuple[str, Any]:
    key, equals, value = assignment.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{option} {assignment}: wanted key=value")
    return key.strip(), _value(value.strip())


def _value(text: str) -> Any:
    """Numbers, true and false, lists in JSON; everything else is the text itself."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return text if isinstance(value, dict) or value is None else value
