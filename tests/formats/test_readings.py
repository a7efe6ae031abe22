"""What every format's output is read as: the rows of `tests/corpus/formats`, whose README has their words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ioassay import formats
from ioassay.errors import UsageError
from ioassay.store import frames, importer

from ..corpora import CORPUS, cases

TESTS = Path(__file__).parents[1]
TABLES = sorted(path.stem for path in (CORPUS / "formats").glob("*.toml") if path.stem != "imports")
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
FOLDERS = (TESTS / "golden", TESTS / "formats" / "golden", CORPUS / "formats")


def text(made: Any) -> str:
    """A text of a row: its words, a golden file and what becomes of it, or a list of such pieces."""
    if isinstance(made, str):
        return made
    if isinstance(made, list):
        return "".join(map(text, made))
    read = made["text"] if "text" in made else golden(made["file"])
    if "from" in made:
        read = read[read.index(made["from"]) :]
    if "until" in made:
        read = read[: read.index(made["until"])]
    for old, new in made.get("change", ()):
        assert old in read, f"'{old}' is not there to be changed"
        read = read.replace(old, new)
    return read * made.get("times", 1)


def golden(name: str) -> str:
    (path,) = (folder / name for folder in FOLDERS if (folder / name).exists())
    return path.read_text()


def argument(given: Any) -> Any:
    is_text = isinstance(given, dict) or (isinstance(given, list) and any(isinstance(one, dict) for one in given))
    return text(given) if is_text else given


def answer(case: Mapping[str, Any]) -> Any:
    """What the row's function returns for what it is given; `formats.read` where it names none."""
    if "by" in case:
        module, _, name = f"ioassay.formats.{case['by']}".rpartition(".")
        return getattr(import_module(module), name)(*map(argument, case["given"]))
    command = case.get("command", "./bench.sh")
    files = {name: text(made) for name, made in case.get("files", {}).items()}
    argv = command.split() if isinstance(command, str) else command
    return formats.read(argv, text(case.get("output", "")), text(case.get("errors", "")), files)


def differences(found: Any, wanted: Any, place: str = "") -> Iterator[str]:
    """What is not as wanted: of objects the attributes that are named, of tables and lists every part."""
    if isinstance(wanted, dict):
        parts = {str(key): value for key, value in found.items()} if isinstance(found, Mapping) else None
        if parts is not None and not wanted.get("others") and (more := parts.keys() - wanted.keys()):
            yield f"{place}: has {sorted(more)} as well"
        for key in wanted.keys() - {"others"}:
            value = getattr(found, key) if parts is None else parts.get(key, "no such key")
            yield from differences(value, wanted[key], f"{place}.{key}")
    elif isinstance(wanted, list):
        parts_ = sorted(found) if isinstance(found, Set) else list(found)
        if len(parts_) != len(wanted):
            yield f"{place}: has {len(parts_)} parts, not {len(wanted)}: {parts_}"
        for number, pair in enumerate(zip(parts_, wanted, strict=False)):
            yield from differences(*pair, f"{place}[{number}]")
    else:
        value = meant(wanted) if isinstance(wanted, str) and not isinstance(found, str) else wanted
        if found != (pytest.approx(value) if isinstance(value, float) else value):
            yield f"{place}: {found!r}, not {wanted!r}"


def meant(word: str) -> Any:
    """`unknown` is None, and `1.5 MiB` a number; a number that is not whole is compared as a float."""
    if word == "unknown":
        return None
    number, _, unit = word.partition(" ")
    value = float(number) * UNITS[unit]
    return int(value) if value.is_integer() else value


@cases("formats", *TABLES)
def test_outputs_are_read_as_their_rows_say(case: dict[str, Any]) -> None:
    if "refused" in case:
        with pytest.raises(UsageError, match=case["refused"]):
            answer(case)
        return
    found = answer(case)
    wanted = case["claims"] if "claims" in case else case.get("is", ...)
    wrong = [] if wanted is ... else list(differences(found, wanted))
    for number, one in enumerate(found if "each" in case else ()):
        wrong += differences(one, case["each"], f"each[{number}]")
    assert not wrong, "\n".join(wrong)


@cases("formats", "imports")
def test_results_become_the_trials_of_a_run(tmp_path: Path, case: dict[str, Any]) -> None:
    for name, made in case["files"].items():
        (tmp_path / name).write_text(text(made))
    found = frames.load(importer.take_in([tmp_path / name for name in case["files"]], tmp_path / "run"))
    wrong = list(differences(found.studies[0], case["study"]))
    if "trials" in case:
        where, columns = case["trials"].get("where", {}), case["trials"]["columns"]
        trials = found.trials.filter(**where).sort(*columns, maintain_order=True).select(*columns)
        wrong += differences(trials.to_dict(as_series=False), columns)
    if "series" in case:
        wrong += differences(set(found.series["metric"]), case["series"])
    assert not wrong, "\n".join(wrong)
