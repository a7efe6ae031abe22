"""Finds studies and reads their files: built-in ones by name, TOML files, suites, plain fio job files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from ioassay import debug_log, pack, validation
from ioassay.errors import StudyError
from ioassay.hints import suggestion
from ioassay.study import relative_levels
from ioassay.study.model import Study, Suite, check_scales, make_study, study_error
from ioassay.validation import shown

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
    """One study's table under its name, and the file that it is of."""
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
