"""Tools that lie about how they did it, and honest tools in odd places: what the witness says of each."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from ..conftest import tmpfs
from ..corpora import cases
from .conftest import FIO, Witnessed, cold, whole

pytestmark = [pytest.mark.root, pytest.mark.bpf]

MIB = 1 << 20
LIAR = Path(__file__).parent / "liar.py"
PROPERTIES = ("sync", "direct", "engine", "files")
Case = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path, files: Path, compiled: Callable[..., str]) -> Path:
    """A folder with `data` and `data2`, 16 MiB each and not in the cache, a `link` to the second, and tools."""
    for name in ("data", "data2"):
        (tmp_path / name).hardlink_to(cold(whole(files / name)))
    (tmp_path / "link").symlink_to("data2")
    for name in ("fio", "dd", "iozone", "tool"):
        # The interpreter itself: one of an environment reads its configuration first, which is I/O of the tool.
        python = shlex.join([os.path.realpath(sys.executable), "-I", "-S", str(LIAR), name])
        (tmp_path / name).write_text(f"#!/bin/sh\nexec {python}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "flag_changes").symlink_to(compiled("flag_changes"))
    return tmp_path


def is_one_of(found: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(found, pattern) for pattern in patterns)


def judged(result: dict[str, Any], name: str) -> list[str]:
    """Category and reason of one property, of every claim that states it."""
    listed = [each for verdict in result["verdicts"] for each in verdict["properties"]]
    return [f"{each['category']} {each['reason']}".strip() for each in listed if each["name"] == name]


def compare(case: Case, result: dict[str, Any]) -> None:
    """The verdict is one of those of the row, or at least no accusation; so is each property that it names."""
    found = f"{result['verdict']} {result['reason']}".strip()
    if "verdict" in case:
        may_be = [*case["verdict"], "INCOMPLETE HELD-UP"]  # on a busy machine
        assert is_one_of(found, may_be), (found, result["explanation"], result["verdicts"])
    else:
        assert result["verdict"] not in ("CONTRADICTED", "UNSUBSTANTIATED"), result["verdicts"]
    for name in case.keys() & set(PROPERTIES):
        properties = judged(result, name)
        assert properties and all(is_one_of(each, case[name]) for each in properties), (name, properties)
    assert result["explanation"].endswith(case.get("explanation", ""))
    if "hint" in case:
        assert case["hint"] in "".join([result["explanation"], *result["verdicts"][0]["notes"]])
    assert "level" not in case or "syscalls" not in result["layers"]
    if "paths" in case:
        assert result["claims"][0]["paths"] == case["paths"]


def stated(case: Case) -> dict[str, Any]:
    """The options of `witness` that a row gives."""
    options = {name: case[name] for name in ("level", "backend", "claim_regex") if name in case}
    return {**options, "claims": [case["claim"]] if "claim" in case else []}


def command(case: Case, compiled: Callable[..., str]) -> list[str]:
    words = shlex.split(case["argv"].replace("fio --name=job", shlex.join(FIO)))
    if words[0] == "fio":  # its pages, which may be more than it is to read, are in memory from here on
        subprocess.run(["fio", "--version"], stdout=subprocess.DEVNULL, check=True)
    if "preload" not in case:
        return words
    return ["env", f"LD_PRELOAD={compiled(case['preload'], '-shared', '-fPIC', '-ldl')}", *words]


@cases("deceptions", "synchronisations", "flags", "engines")
def test_how_it_was_done_is_what_the_kernel_saw(
    case: Case, folder: Path, compiled: Callable[..., str], witnessed: Witnessed
) -> None:
    """Synchronisations; flags that an open file has at each call; engines by their way into the kernel."""
    compare(case, witnessed(folder, command(case, compiled), **stated(case)))


@cases("deceptions", "files", "claims")
def test_claims_are_held_against_what_was_done(
    case: Case, folder: Path, compiled: Callable[..., str], witnessed: Witnessed
) -> None:
    """What others read meanwhile may have been what a hole lacks, if it is as much: then nothing is decided."""
    if "kept_mib" in case:
        os.truncate(folder / "data", case["kept_mib"] * MIB)
        os.truncate(folder / "data", 16 * MIB)
    result = witnessed(folder, command(case, compiled), **stated(case))
    others = re.search(r"up to ([\d.]+) MiB were read for other files", result["explanation"])
    if "kept_mib" in case and others is not None and float(others[1]) >= 16 - case["kept_mib"]:
        case = {**case, "verdict": ["INCOMPLETE NO-DEVICE-IO"]}
    compare(case, result)
    merged = [note for verdict in result["verdicts"] for note in verdict["notes"] if "merged" in note]
    assert "kept_mib" not in case or not merged


@cases("deceptions", "places")
def test_no_place_makes_a_liar(case: Case, folder: Path, witnessed: Witnessed) -> None:
    script = case.get("script", case.get("argv"))
    if case.get("in_a_file"):
        (folder / "script").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "script").chmod(0o755)
    argv = ["./script"] if case.get("in_a_file") else shlex.split(script) if "argv" in case else ["sh", "-c", script]
    with tmpfs(folder / "small", 1 << 10):
        result = witnessed(folder, [*(["unshare", "--mount"] if case.get("succeeds") else []), *argv])
    assert result["exit_code"] == 0 or not case.get("succeeds"), result
    compare(case, result)
