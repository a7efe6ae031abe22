"""Finds studies and reads their files: built-in ones by name, TOML files, suites, plain fio job files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from ioassay import debug_log, pack, validation
from ioassay.errors import StudyError, UsageError
from ioassay.hints import nearest, shown, suggestion
from ioassay.records.record import Warning_
from ioassay.study import relative_levels
from ioassay.study.model import Study, Suite, check_scales, make_study, study_error

Change = Callable[[Mapping[str, Any]], dict[str, Any]]
ChangeAll = Callable[[Sequence[Mapping[str, Any]]], Sequence[dict[str, Any]]]
_TOOLS: dict[str, str] = pack.listed("study_files", {})
ENDINGS = (".toml", *(f".{ending}" for ending in _TOOLS))
_SUITE_KEYS = ("name", "title", "description", "suite", "study", "figures")
_PARTS = ("params", "target", "run", "watch", "analysis", "factors")


def builtin() -> dict[str, Path]:
    """Name -> file of the built-in studies and suites, sorted by name."""
    folder = Path(str(resources.files("ioassay") / "studies"))
    return dict(sorted(({path.stem: path for path in folder.glob("*.toml")} | pack.files("studies")).items()))


def available() -> list[Suite]:
    """The built-in studies and suites; those whose driver belongs to a pack that is not there are left out."""
    found = []
    for name in builtin():
        try:
            found.append(load(name))
        except StudyError as error:
            if error.key != "driver":
                raise
    return found


def load(name: str, change: Change = dict) -> Suite:
    """The suite behind a built-in name, a `.toml` or a `.fio` file; `change` adjusts each study's table first."""
    return load_all(name, lambda tables: list(map(change, tables)))


def load_all(name: str, change: ChangeAll) -> Suite:
    """As `load`; `change` sees the tables of all studies of the suite at once."""
    path = _find(name)
    debug_log.info("study", f"'{name}' is {path}")
    return _suite(_table(path), path, change)


def schema() -> dict[str, Any]:
    """The JSON Schema of a study file, for editors: a study, whose name is by default the file's, or a suite."""

    class StudyFile(Study):
        """A study, or a suite of several."""

        suite: list[str] = Field(default_factory=list)
        """Studies of a suite, in their order: names of built-in ones, or files in the folder of this one."""
        study: list[dict[str, Any]] = Field(default_factory=list)
        """Studies of a suite that are written in the same file."""

    made = StudyFile.model_json_schema()
    del made["required"]
    made["properties"]["study"]["items"] = {"$ref": "#"}
    return made | {"anyOf": [{"required": keys} for keys in (["title", "driver"], ["suite"], ["study"])]}


def from_table(table: Mapping[str, Any], path: Path, change: Change = dict, *, stored: bool = False) -> Suite:
    """The suite of a parsed TOML document; `path` gives its name and the place that relative names start from.

    `stored` is as in `make_study`.
    """
    return _suite(table, path, lambda tables: list(map(change, tables)), stored)


def _suite(table: Mapping[str, Any], path: Path, change: ChangeAll, stored: bool = False) -> Suite:
    name = table.get("name", _name_from(path))
    if "suite" not in table and "study" not in table:
        (study,) = _studies([_named(table, name, path)], change, stored)
        return Suite(name=study.name, title=study.title, description=study.description, studies=[study])
    if unknown := sorted(set(table) - set(_SUITE_KEYS)):
        message = f"unknown key in a suite; it has {', '.join(_SUITE_KEYS)}"
        raise StudyError(message, source=str(path), key=unknown[0])
    members = [_member(member, path) for member in _list(table, "suite", str, path)]
    members += [_named(inline, None, path) for inline in _list(table, "study", dict, path)]
    studies = _studies(members, change, stored)
    try:
        return Suite(
            name=name,
            title=table.get("title", name),
            description=table.get("description", ""),
            studies=studies,
            figures=_list(table, "figures", dict, path),
        )
    except ValidationError as error:
        raise study_error(error, str(path)) from None


def to_table(suite: Suite) -> dict[str, Any]:
    """The resolved suite as a TOML document that `from_table` reads back to an equal suite."""
    studies = [study.model_dump(exclude_none=True, exclude={"scale"}) for study in suite.studies]
    figures = {"figures": [figure.model_dump() for figure in suite.figures]} if suite.figures else {}
    return {"name": suite.name, "title": suite.title, "description": suite.description, "study": studies, **figures}


def _name_from(path: Path) -> str:
    """A file's name as the name of its study: `my disk.toml` is called my-disk."""
    return re.sub(r"[^\w.-]+", "-", path.stem).strip("-.") or "study"


def _named(table: Mapping[str, Any], name: str | None, path: Path) -> tuple[dict[str, Any], Path]:
    named = {**({"name": name} if name else {}), **table}
    for key in _PARTS:
        if not isinstance(named.get(key, {}), Mapping):
            raise StudyError(f"expected a table; found {shown(named[key])}", source=str(path), key=key)
    check_scales(named.get("scale", {}), str(path))
    return named, path


def _studies(members: Sequence[tuple[dict[str, Any], Path]], change: ChangeAll, stored: bool) -> list[Study]:
    from ioassay import drivers

    changed = change([table for table, _ in members])
    sources = [str(path) for _, path in members]
    if not stored:  # a stored study has the numbers of the machine that it was planned on
        read = [relative_levels.resolved(table, source) for table, source in zip(changed, sources, strict=True)]
        changed = relative_levels.with_stand_ins(read, sources)
    studies = [make_study(table, source, stored=stored) for table, source in zip(changed, sources, strict=True)]
    if not stored:
        for study, source in zip(studies, sources, strict=True):
            if why := drivers.REGISTRY.refusal(study.driver):  # a study that cannot run is none
                raise StudyError(why, source=f"{source}: {study.name}" if len(studies) > 1 else source, key="driver")
    return studies


def _member(name: str, suite_path: Path) -> tuple[dict[str, Any], Path]:
    beside = suite_path.parent / name
    try:
        path = beside if os.path.isfile(beside) else _find(name)  # noqa: PTH113
        table = _table(path)
    except StudyError as error:
        raise StudyError(str(error), source=str(suite_path), key="suite") from None
    if "suite" in table or "study" in table:
        raise StudyError(f"'{name}' is a suite; expected studies", source=str(suite_path), key="suite")
    return _named(table, table.get("name", _name_from(path)), path)


def _list(table: Mapping[str, Any], key: str, kind: type, path: Path) -> list[Any]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(item, kind) for item in found):
        wanted = "a list of names" if kind is str else f"[[{key}]] tables"
        raise StudyError(f"is {shown(found)}; expected {wanted}", source=str(path), key=key)
    return found


def _find(name: str) -> Path:
    known = builtin()
    path = Path(name)
    if path.suffix in ENDINGS or "/" in name:
        if os.path.isdir(name):  # noqa: PTH112 (pathlib raises where the system will not take the name)
            raise StudyError(f"'{name}' is a folder; expected a .toml study or a .fio job file")
        if not os.path.exists(name):  # noqa: PTH110
            raise StudyError(f"'{name}': no such study file; {_beside(path)}")
        if path.suffix not in ENDINGS:
            raise StudyError(f"'{name}' is neither a .toml study nor a .fio job file by its name")
        return path
    if name in known:
        return known[name]
    if os.path.isfile(path):  # noqa: PTH113
        raise StudyError(f"'{name}' is neither a .toml study nor a .fio job file by its name")
    others = f"known: {', '.join(known)}, or a .toml or .fio file"
    raise StudyError(f"no study called '{name}'; {suggestion(name, known, others)}")


def _beside(missing: Path) -> str:
    """What the folder of a missing file has instead."""
    if not os.path.isdir(missing.parent):  # noqa: PTH112
        return f"there is no folder {missing.parent}"
    there = sorted(path.name for path in missing.parent.iterdir() if path.suffix in ENDINGS)
    near = suggestion(missing.name, there, "'ioassay studies' lists the built-in ones")
    return near.replace("mean '", f"mean '{missing.parent}/") if missing.parent != Path() else near


def _table(path: Path) -> dict[str, Any]:
    """What a file says, one of TOML or of a tool whose own files are studies."""
    if module := _TOOLS.get(path.suffix.removeprefix(".")):
        table: dict[str, Any] = import_module(module).study_table(path)
        return table
    try:
        return validation.toml(path.read_bytes())
    except OSError as error:
        raise StudyError(f"cannot be read: {error.strerror}", source=str(path)) from None
    except ValueError as error:
        raise StudyError(f"is not TOML: {error}", source=str(path)) from None


# What the command line changes in a study's table before it is validated

FULL = "full"
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
        takes = takes if any(takes) else [True] * len(results)  # each says why not
        left_out += _left_out(f"--set {assignment}", "it is varied there", results, takes)
        taking = zip(results, takes, strict=True)
        results = [with_setting(table, assignment) if take else table for table, take in taking]
    for assignment in factors:
        name, _ = _split(assignment, "--factor")
        takes = [name in table.get("factors", {}) for table in results]
        if not any(takes) and len(results) > 1:
            known = dict.fromkeys(factor for table in results for factor in table.get("factors", {}))
            raise UsageError(
                f"--factor {assignment}: none of the {len(results)} studies has a factor '{name}'; they have: "
                f"{', '.join(known) or 'none'}. To add a factor, name one study instead of the suite"
                f"{nearest(name, known)}"
            )
        takes = takes if any(takes) else [True]  # a study that is alone is given it
        left_out += _left_out(f"--factor {assignment}", "no such factor there", results, takes)
        taking = zip(results, takes, strict=True)
        results = [with_factor(table, assignment) if take else table for table, take in taking]
    if repetitions is not None:
        fixed = {"repetitions": repetitions}
        results = [{key: value for key, value in table.items() if key != "until"} | fixed for table in results]
    return results, left_out


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
