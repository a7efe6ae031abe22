"""What the command line changes in a study's table before it is validated: scale, --set, --factor, --repetitions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ioassay.errors import UsageError
from ioassay.hints import nearest
from ioassay.records.record import Warning_

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
    for part in ("params", "target", "factors", "run", "watch"):
        if part in change:
            result[part] = {**result.get(part, {}), **change[part]}
    for key, other in (("repetitions", "until"), ("until", "repetitions")):
        if key in change:
            result.pop(other, None)
            result[key] = change[key]
    return result


def with_setting(table: Mapping[str, Any], assignment: str) -> dict[str, Any]:
    """The table with `key=value` set: `runtime=5s` and `params.runtime=5s` mean the same; `target.path=…`, `seed=…`."""
    key, value = _split(assignment, "--set")
    part, _, name = key.partition(".")
    if not name:
        part, name = ("", key) if key in _TOP else ("params", key)
    if not part:
        return {**table, name: assignment.partition("=")[2] if name in _TEXTS else value}
    if part not in _PARTS:
        wanted = f"expected one of {', '.join(_PARTS)}{nearest(part, _PARTS)}"
        raise UsageError(f"--set {assignment}: unknown part '{part}'; {wanted}")
    if varied := _varied(table, assignment):
        raise UsageError(varied)
    return {**table, part: {**table.get(part, {}), name: value}}


def _varied(table: Mapping[str, Any], assignment: str) -> str:
    """Why a setting would change nothing, because factors or cases set it at each point; else empty."""
    key, equals, value = assignment.partition("=")
    name = key.strip().removeprefix("params.")
    study = str(table.get("name", "the study"))
    if name in table.get("factors", {}):
        return f"--set {assignment}: '{name}' is a factor of {study}; expected --factor {name}{equals}{value}"
    cases = table.get("case", [])
    if isinstance(cases, list) and any(isinstance(case, Mapping) and name in case for case in cases):
        return f"--set {assignment}: the cases of {study} set '{name}' themselves; expected another study"
    return ""


def with_factor(table: Mapping[str, Any], assignment: str) -> dict[str, Any]:
    """The table with a factor added or its levels replaced: `bs=4k,16k`."""
    key, _ = _split(assignment, "--factor")
    levels = [_value(level.strip()) for level in assignment.partition("=")[2].split(",") if level.strip()]
    if not levels:
        raise UsageError(f"--factor {assignment}: has no levels; expected for example {key}=4k,16k")
    return {**table, "factors": {**table.get("factors", {}), key: levels}}


def adjusted_all(
    tables: Sequence[Mapping[str, Any]],
    *,
    scale: str = FULL,
    settings: Sequence[str] = (),
    factors: Sequence[str] = (),
    repetitions: int | None = None,
) -> tuple[list[dict[str, Any]], list[Warning_]]:
    """All changes to the studies of a suite in their order, the scale first, so that what the user names wins.

    With a warning for each change that not all studies take: of several studies, those take a factor's levels that have
    the factor, and those a setting in which it is none. UsageError where no study takes a change.
    """
    results, left_out = [scaled(table, scale) for table in tables], []
    for assignment in settings:
        takes = [not _varied(table, assignment) for table in results]
        if any(takes):
            left_out += _left_out(f"--set {assignment}", "it is varied there", results, takes)
        else:
            takes = [True] * len(results)  # each says why not
        results = _changed(with_setting, assignment, results, takes)
    for assignment in factors:
        takes = _with_its_factor(results, assignment)
        left_out += _left_out(f"--factor {assignment}", "no such factor there", results, takes)
        results = _changed(with_factor, assignment, results, takes)
    if repetitions is not None:
        fixed = {"repetitions": repetitions}
        results = [{key: value for key, value in table.items() if key != "until"} | fixed for table in results]
    return results, left_out


def _changed(
    change: Callable[[Mapping[str, Any], str], dict[str, Any]],
    assignment: str,
    tables: Sequence[dict[str, Any]],
    takes: Sequence[bool],
) -> list[dict[str, Any]]:
    return [change(table, assignment) if take else table for table, take in zip(tables, takes, strict=True)]


def _with_its_factor(tables: Sequence[Mapping[str, Any]], assignment: str) -> list[bool]:
    """Which studies have the factor; one that is alone is given it. UsageError where none of several has it."""
    name, _ = _split(assignment, "--factor")
    found = [name in table.get("factors", {}) for table in tables]
    if len(tables) == 1 or any(found):
        return found if len(tables) > 1 else [True]
    known = dict.fromkeys(factor for table in tables for factor in table.get("factors", {}))
    raise UsageError(
        f"--factor {assignment}: none of the {len(tables)} studies has a factor '{name}'; they have: "
        f"{', '.join(known) or 'none'}. To add a factor, name one study instead of the suite{nearest(name, known)}"
    )


def _left_out(option: str, why: str, tables: Sequence[Mapping[str, Any]], takes: Sequence[bool]) -> list[Warning_]:
    others = [str(table.get("name", "?")) for table, take in zip(tables, takes, strict=True) if not take]
    text = f"{option}: changes nothing in {', '.join(others)}: {why}"
    return [Warning_("change-left-out", text)] if others else []


def _split(assignment: str, option: str) -> tuple[str, Any]:
    key, equals, value = assignment.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{option} {assignment}: expected key=value")
    return key.strip(), _value(value.strip())


def _value(text: str) -> Any:
    """Numbers, true and false, lists in JSON; everything else is the text itself."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return text if isinstance(value, dict) or value is None else value
