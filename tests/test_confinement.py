"""What a trial may change: the rules that follow from its target, its touches and its driver."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import cases

from ioassay.drivers import DRIVERS, driver
from ioassay.drivers.fio import Fio
from ioassay.process import landlock
from ioassay.process.landlock import FILE, FOLDER, IOCTL_DEV, LAYOUT, MAKE_SYM, Linux
from ioassay.roles import READ, WRITE, Confinement, Load, Touch
from ioassay.runner import confinement
from ioassay.runner.confinement import CODE, SINKS, Net

NOTHING = Load("null", None, 0, False)


class Absent(Linux):
    """A kernel without Landlock."""

    def abi(self) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def spread(
    raw: Path, load: Load = NOTHING, touches: Sequence[Touch] = (), beside: Confinement | None = None, **changes: Any
) -> AbstractContextManager[Net]:
    raw.mkdir(exist_ok=True)
    programs = changes.pop("programs", ["true"])
    return confinement.spread(load, touches, raw, beside or Confinement(), programs, **changes)


def rights(net: Net) -> dict[Path, int]:
    """What is granted beside the raw folder and the sinks."""
    assert net.ruleset is not None
    found: dict[Path, int] = {}
    for rule in net.rules:
        if rule.path not in SINKS and rule.path.name != "raw":
            found[rule.path] = found.get(rule.path, 0) | rule.rights
    return found


# The rules


@pytest.mark.landlock
def test_a_target_is_opened_as_far_as_it_is_loaded(tmp_path: Path) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.touch()
    folder.mkdir()
    for path, read_only, wanted in ((file, False, FILE), (file, True, IOCTL_DEV), (folder, False, FOLDER)):
        with spread(tmp_path / "raw", Load("any", path, 1, read_only)) as net:
            assert rights(net) == {path: wanted}
    with spread(tmp_path / "raw") as net:
        assert rights(net) == {}
        assert net.environment == {"TMPDIR": str(tmp_path / "raw")}
        assert net.warnings == []


@pytest.mark.landlock
def test_the_raw_folder_takes_no_links_that_would_lead_the_lab_elsewhere(tmp_path: Path) -> None:
    with spread(tmp_path / "raw") as net:
        (raw,) = (rule for rule in net.rules if rule.path == tmp_path / "raw")
    assert not raw.rights & MAKE_SYM


@pytest.mark.landlock
def test_a_file_that_is_only_written_leaves_its_folder_closed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with spread(tmp_path / "raw", touches=[Touch(file, WRITE), Touch(tmp_path / "read", READ)]) as net:
        assert rights(net) == {file: FILE}


@pytest.mark.landlock
def test_a_file_that_is_laid_out_opens_its_folder_which_is_made(tmp_path: Path) -> None:
    file = tmp_path / "new" / "deep" / "file"
    with spread(tmp_path / "raw", touches=[Touch(file, WRITE)], beside=Confinement(layouts=[file])) as net:
        assert rights(net) == {file: FILE, file.parent: LAYOUT}
        assert file.parent.is_dir() and not file.exists()
        assert net.document["may_change"][str(file.parent)] == ["make, write, remove files below"]
        assert str(file) not in net.document["may_change"]


@pytest.mark.landlock
def test_a_link_that_is_laid_out_opens_both_folders(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    link = tmp_path / "here" / "link"
    link.parent.mkdir()
    link.symlink_to(there / "file")
    with spread(tmp_path / "raw", touches=[Touch(link, WRITE)], beside=Confinement(layouts=[link])) as net:
        assert rights(net) == {link: FILE, link.parent: LAYOUT, there: LAYOUT}


@pytest.mark.landlock
def test_a_file_of_buffers_is_made_beforehand_and_removed_unless_the_tool_replaced_it(tmp_path: Path) -> None:
    buffers, kept = tmp_path / "buffers", tmp_path / "kept"
    kept.touch()
    with spread(tmp_path / "raw", touches=[Touch(buffers, WRITE), Touch(kept, WRITE)]) as net:
        assert rights(net) == {buffers: FILE, kept: FILE}
        assert buffers.exists()
    assert not buffers.exists()
    assert kept.exists()
    with spread(tmp_path / "raw", touches=[Touch(buffers, WRITE)]):
        kept.replace(buffers)
    assert buffers.exists()


@pytest.mark.landlock
def test_files_of_the_host_are_opened_where_a_driver_says_so(tmp_path: Path) -> None:
    caches = Path("/proc/sys/vm/drop_caches")
    assert driver("filesuite").confinement({"cache": "drop-all"}).host == [caches]
    assert driver("filesuite").confinement({"cache": "drop"}).host == []
    with spread(tmp_path / "raw", beside=Confinement(host=[caches, tmp_path])) as net:
        assert rights(net) == {caches: FILE, tmp_path: FOLDER}


# What is not confined is said


def test_a_waiver_is_a_warning_with_its_reason(tmp_path: Path) -> None:
    with spread(tmp_path / "raw", beside=Confinement(waiver="it mounts")) as net:
        assert net.ruleset is None
        assert net.document == {"confined": False, "why": "it mounts"}
        (warning,) = net.warnings
        assert warning.code == CODE and "it mounts" in warning.text


def test_a_kernel_without_landlock_is_a_warning_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    touch = [Touch(file, WRITE)]
    with spread(tmp_path / "raw", touches=touch, kernel=Absent()) as net:
        assert net.ruleset is None and net.environment == {}
        assert not file.exists()
        assert "5.13" in net.warnings[0].text


def test_a_refusal_by_the_kernel_of_the_held_child_is_a_warning(tmp_path: Path) -> None:
    net = Net(ruleset=object())  # type: ignore[arg-type]
    net.refused("")
    assert net.warnings == []
    net.refused("Argument list too long")
    assert net.ruleset is None
    assert "Argument list too long" in net.warnings[0].text


@pytest.mark.landlock
def test_a_program_of_a_user_that_would_lose_its_privileges_is_not_confined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o4755)
    with spread(tmp_path / "raw", programs=[str(program)]) as net:
        assert (net.ruleset is None) == landlock.needs_no_new_privs()
    monkeypatch.setattr(landlock, "needs_no_new_privs", lambda: True)
    with spread(tmp_path / "raw", programs=["true", str(program)]) as net:
        assert str(program) in net.warnings[0].text
    with spread(tmp_path / "raw", programs=["true"]) as net:
        assert net.ruleset is not None


def test_which_drivers_are_never_confined() -> None:
    params = {"stress_ng": {"stressor": "cpu"}, "db_bench": {"benchmarks": "fillseq"}}
    waived = [name for name in DRIVERS if driver(name).confinement(params.get(name, {})).waiver]
    assert waived == ["stress_ng"]


# Which files fio makes, replaces and removes


def of_job(text: str, folder: Path) -> Confinement:
    return Fio().confinement({"job": text, "job_path": str(folder / "j.fio"), "job_folder": str(folder)})


@cases("confinement", "jobs")
def test_a_job_opens_the_folder_only_for_files_that_it_lays_out_or_removes(
    case: dict[str, Any], tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.write_bytes(bytes(4096))
    found = of_job(f"[a]\nfilename={there}\n{case['options']}\n", tmp_path)
    if "waiver" in case:
        assert case["waiver"] in found.waiver
        return
    assert (found.waiver, list(found.layouts)) == ("", [there] if case["layouts"] else [])
    assert [str(path) for path in found.host] == case.get("host", [])


def test_a_missing_file_is_laid_out_and_a_file_of_buffers_never(tmp_path: Path) -> None:
    text = "[a]\nrw=write\nsize=4k\nfilename=x:y\nmem=mmap:buffers\n"
    assert of_job(text, tmp_path).layouts == [tmp_path / "x", tmp_path / "y"]
