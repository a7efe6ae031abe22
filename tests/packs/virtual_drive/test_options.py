"""What people write about a served drive, in words and in files, as the core takes it: rows of tests/corpus/drives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay.errors import InputError, IoassayError, UsageError
from ioassay.packs.virtual_drive import drive_options

from ...corpora import cases, has


def state(given: Any) -> list[object]:
    """The share that is preconditioned, whether the drive is used, and the share that the core is told."""
    told = drive_options.described({}, precondition=given)["precondition"]
    return [drive_options.preconditioned(given), drive_options.is_used(given), told]


def described(given: dict[str, Any]) -> dict[str, object]:
    given = dict(given)
    if "backing_file" in given:
        given["backing_file"] = Path(given["backing_file"])
    return drive_options.described(given.pop("of_model"), pin=None, **given)


READERS: dict[str, Callable[[Any], object]] = {
    "drives": lambda text: drive_options.read_drives(written("drives.toml", text)),
    "faults": lambda text: drive_options.read_faults(written("read.toml", text)),
    "words of a fault": drive_options.faults_of_words,
    "options": lambda given: drive_options.described({}, **given),
    "described": described,
    "model": drive_options.described,
    "transports": drive_options.transports,
    "settings": drive_options.settings,
    "together": lambda given: drive_options.together(*given),
    "state": state,
    "unused": lambda given: drive_options.unused(*given),
    "unbuffered": drive_options.unbuffered,
    "zones": drive_options.zones,
}


def written(name: str, text: str) -> Path:
    path = Path.cwd() / name
    path.write_text(text)
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it is written: with a folder, and a file of faults that others may name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    written("faults.toml", '[[fault]]\nkind = "stuck"\nnamespace = 2\n')
    return tmp_path


@cases("drives", "descriptions")
def test_what_is_written_is_what_the_core_is_told(folder: Path, case: dict[str, Any]) -> None:
    found, wanted = (
        READERS[case["of"]](case["given"]),
        json.loads(json.dumps(case["wanted"]).replace("FOLDER", str(folder))),
    )
    if case["of"] == "drives":  # of a drive with a profile the rest is that of the profile
        assert isinstance(found, list)
        assert found[0] == wanted[0] and has(found[1:], wanted[1:])
    elif case["of"] == "unused":
        assert isinstance(found, str)
        assert found.startswith(wanted) and bool(found) == bool(wanted)
    else:
        assert found == wanted


@cases("drives", "refusals")
def test_what_cannot_be_is_told(case: dict[str, Any]) -> None:
    of_file = case["of"] in ("drives", "faults") or case["given"] == ["there-is-none.toml"]
    kind: type[IoassayError] = InputError if of_file else UsageError
    with pytest.raises(kind) as refused:
        READERS[case["of"]](case["given"])
    assert case["said"] in str(refused.value)
    assert case["of"] != "faults" or str(Path.cwd() / "read.toml") in str(refused.value)


def test_a_file_that_cannot_be_read_is_told() -> None:
    with pytest.raises(InputError, match="No such file or directory; expected a file with drives"):
        drive_options.read_drives(Path("none"))
    with pytest.raises(InputError, match="has more than 1 MiB"):
        drive_options.read_drives(written("long", "#" * (2**20 + 1)))


def test_every_key_and_kind_of_a_fault_is_in_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs" / "faults.md").read_text()
    kinds = drive_options.Fault.model_fields["kind"].annotation.__args__  # type: ignore[union-attr]
    assert [
        name for name in (*kinds, *drive_options.keys(drive_options.Fault).values()) if f"`{name}`" not in text
    ] == []
