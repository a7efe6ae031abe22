"""Values that a shell can be offered for options and arguments: studies, runs, drives, metrics and the like.

Each function takes the text before the cursor, and what the command line gives already. It returns names, or a mapping
from names to what they mean. It reads tables and the heads of files only: an answer takes less than a tenth of a
second, so nothing here validates, or imports before it is asked. What cannot be read offers nothing, and the shell
completes file names.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ioassay import metrics, pack
from ioassay.cli.syntax import Completer, Given, meanings

_PACKAGE = Path(__file__).parent.parent
_RUNS = "runs"
"""Where runs go by default."""
_STUDY_FILES = (".toml", *(f".{ending}" for ending in pack.listed("study_files", {})))
_HEAD_BYTES = 4096
"""Of a file, what is searched for its title: a study begins with it."""


def words(*names: str) -> Completer:
    return lambda text, given: names


def listed(names: Completer) -> Completer:
    """Offers names for the last part of a list with commas."""

    def completer(text: str, given: Given) -> dict[str, str]:
        before, comma, last = text.rpartition(",")
        used, known = before.split(","), meanings(names(last, given))
        return {f"{before}{comma}{name}": about for name, about in known.items() if name not in used}

    return completer


def assigned(
    values: Mapping[str, Iterable[str]], text: str, given: Given, about: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Offers `KEY=`, with what the keys are `about`, and behind it a list of the key's values."""
    key, equals, value = text.partition("=")
    if not equals:
        return {f"{key}=": (about or {}).get(key, "") for key in values}
    known = listed(lambda _text, _given: values.get(key, ()))(value, given)
    return {f"{key}={each}": meaning for each, meaning in meanings(known).items()}


def studies(text: str, given: Given) -> dict[str, str]:
    """The built-in studies, and the study files of this folder, with their titles."""
    own = sorted(path for path in Path().iterdir() if path.suffix in _STUDY_FILES)
    return {**_described("studies", "title"), **{path.name: _head(path, "title") for path in own}}


def drives(text: str, given: Given) -> dict[str, str]:
    return _described("simulation/drives", "about")


def policies(text: str, given: Given) -> dict[str, str]:
    """The write buffers of the simulated drive, and none."""
    from ioassay.simulation.options import policy_meanings

    return policy_meanings()


def of_simulation(text: str, given: Given) -> dict[str, str]:
    """The options of the simulated drive, and the values of those that have names."""
    from ioassay.simulation.options import OPTIONS

    known = {option.name: list(option.choices) for option in OPTIONS}
    about = {option.name: option.about for option in OPTIONS}
    return assigned({**known, "policy": policies(text, given)}, text, given, about)


def runs(text: str, given: Given) -> dict[str, str]:
    """The folders of runs beside the one that is begun, newest first, with the time at which they began and the title.

    By default those below ./runs.
    """
    folder = Path(text).parent if "/" in text else Path(_RUNS)
    found = [path for path in folder.iterdir() if (path / "plan.jsonl").is_file()] if folder.is_dir() else []
    prefix = text.rpartition("/")[0] or ("" if text.startswith("/") else _RUNS)
    return {f"{prefix}/{path.name}": _run(path) for path in sorted(found, reverse=True)}


def _run(folder: Path) -> str:
    """When a run began, and what it is about."""
    began = time.localtime((folder / "plan.jsonl").stat().st_mtime)
    return ", ".join(filter(None, (time.strftime("%Y-%m-%d %H:%M", began), _head(folder / "study.toml", "title"))))


def scales(text: str, given: Given) -> list[str]:
    """The scales of the study that is named, and the study as it is."""
    return list(dict.fromkeys(["full", *(name for table in _tables(given) for name in _keys(table, "scale"))]))


def settings(text: str, given: Given) -> dict[str, str]:
    """What --set can set in the study that is named: its parameters, and keys of its parts."""
    from ioassay.targets import TARGETS

    known: dict[str, Iterable[str]] = {"seed": [], "repetitions": []}
    for table in _tables(given):
        varied = _keys(table, "factors")
        known |= {name: _levels(table, name) for name in _keys(table, "params") if name not in varied}
        known |= {f"{part}.{name}": [] for part in ("target", "run") for name in _keys(table, part)}
        known["target.kind"] = list(TARGETS)
    return assigned({**known, **_of_simulation(given, known)}, text, given)


def factors(text: str, given: Given) -> dict[str, str]:
    """What --factor can vary in the study that is named: its factors with their levels, and its parameters."""
    known: dict[str, list[str]] = {}
    for table in _tables(given):
        for name in (*_keys(table, "factors"), *_keys(table, "params")):
            known[name] = list(dict.fromkeys([*known.get(name, []), *_levels(table, name)]))
    return assigned({**known, **_of_simulation(given, known)}, text, given)


def axes(text: str, given: Given) -> Iterator[str]:
    """The factors of the study that is named, with `=`."""
    return iter(dict.fromkeys(f"{name}=" for table in _tables(given) for name in _keys(table, "factors")))


def responses(text: str, given: Given) -> dict[str, str]:
    """The metrics that the study answers, and those of most drivers, with their units."""
    own = [str(name) for table in _tables(given) for name in _list(table.get("analysis"), "responses")]
    about = dict.fromkeys((*own, *metrics.USUAL), "")  # nothing of a driver that is not imported for this
    for name in filter(metrics.known, about):
        known = metrics.metric(name)
        about[name] = f"{known.label} ({known.unit})" if known.unit else known.label
    return about


def executors(text: str, given: Given) -> Iterator[str]:
    """The kinds of executors, and the keys that one may have."""
    from ioassay.runner import executors as known

    return known.offers(text)


def _described(list_: str, key: str) -> dict[str, str]:
    """The names of a list that is a folder of TOML files, with the value that each has of a key."""
    own = {path.stem: path for path in (_PACKAGE / list_).glob("*.toml")} | pack.files(list_)
    return {name: _head(path, key) for name, path in sorted(own.items())}


def _head(path: Path, key: str) -> str:
    """The text of a key at the head of a TOML file, read as a line, since parsing all studies takes too long."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES).decode(errors="replace")
    except OSError:
        return ""
    found = re.search(rf'^{key} *= *"([^"\\]*)"', head, re.MULTILINE)
    return found[1] if found else ""


def _tables(given: Given) -> list[dict[str, Any]]:
    """The table of the study that is named, or those of the studies of a suite."""
    name = str(given["study"][-1]) if given.get("study") else ""
    table = _table(name, Path()) if name else {}
    members = [_table(str(each), _file(name, Path()).parent) for each in _list(table, "suite")]
    return [table, *members, *(each for each in _list(table, "study") if isinstance(each, dict))] if table else []


def _table(name: str, folder: Path) -> dict[str, Any]:
    """What a study file holds; nothing where it cannot be read."""
    import tomllib

    path = _file(name, folder)
    try:
        return tomllib.loads(path.read_text()) if path.suffix == ".toml" else {}
    except (OSError, ValueError, RecursionError):
        return {}


def _file(name: str, folder: Path) -> Path:
    """Where a study is: the file of that name, or the built-in study."""
    if name.endswith(_STUDY_FILES):
        return folder / name
    return pack.files("studies").get(name, _PACKAGE / "studies" / f"{name}.toml")


def _keys(table: Mapping[str, Any], part: str) -> list[str]:
    found = table.get(part)
    return list(found) if isinstance(found, dict) else []


def _list(table: Any, key: str) -> list[Any]:
    found = table.get(key) if isinstance(table, dict) else None
    return found if isinstance(found, list) else []


def _levels(table: Mapping[str, Any], name: str) -> list[str]:
    """The levels of a factor that are a word or a number."""
    return [str(level) for level in _list(table.get("factors"), name) if isinstance(level, str | int | float)]


def _of_simulation(given: Given, known: Mapping[str, Iterable[str]]) -> dict[str, dict[str, str]]:
    """The drives and policies of studies that simulate, behind the levels that they have."""
    if not any(table.get("driver") == "simulate" for table in _tables(given)):
        return {}
    named = {"drive": drives("", given), "policy": policies("", given)}
    return {key: {**dict.fromkeys(known.get(key, []), ""), **values} for key, values in named.items()}
