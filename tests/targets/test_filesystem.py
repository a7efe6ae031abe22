"""What a file system does to a measurement is said before, and it is not filled: neither by files nor by a tool."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioassay.errors import StudyError
from ioassay.roles import Footprint
from ioassay.targets import filesystem
from ioassay.targets.filesystem import Room
from ioassay.targets.job_guard import Reserve

from ..corpora import cases
from .conftest import MIB

GIB = 1 << 30
Build = Callable[[Mapping[str, Any]], Path]


def mounted(kind: str, source: str = "x", options: str = "rw") -> Mapping[str, str]:
    return {
        "proc/self/mountinfo": f"20 1 0:9 / / rw - ext4 /dev/x rw\n21 20 0:9 / /there rw - {kind} {source} {options}\n"
    }


@cases("targets", "filesystems")
def test_a_suspicious_file_system_is_named_with_a_way_out(fake_root: Build, case: dict[str, Any]) -> None:
    mount = mounted(case["kind"], options=case["options"])
    (found,) = filesystem.warnings(Path("/there/testfile"), fake_root(mount))
    assert found.code == case["code"] and f"/there/testfile lies on /there ({case['kind']})" in found.text
    assert found.remedy


@pytest.mark.parametrize(
    ("kind", "options"), [("ext4", "rw"), ("btrfs", "rw"), ("btrfs", "rw,compress=no"), ("xfs", "")]
)
def test_a_plain_file_system_is_not_suspicious(fake_root: Build, kind: str, options: str) -> None:
    assert filesystem.warnings(Path("/there/testfile"), fake_root(mounted(kind, options=options))) == []


def test_refused_direct_io_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_root: Build) -> None:
    def refuse(*_: object) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(filesystem.os, "open", refuse)
    found = filesystem.warnings(tmp_path / "testfile", fake_root(mounted("ext4")))
    assert [warning.code for warning in found] == ["no-direct-io"]
    monkeypatch.undo()
    assert filesystem.direct_io(Path("/proc/self/status")) is False
    assert list(tmp_path.glob("*")) == [tmp_path / "fake_root"], "the question leaves no file"


def test_a_memory_file_system_has_no_more_room_than_memory(fake_root: Build, tmp_path: Path) -> None:
    tree = {
        "proc/self/mountinfo": f"20 1 0:9 / {tmp_path} rw - tmpfs x rw\n",
        "proc/meminfo": "MemAvailable: 1024 kB\n",
    }
    assert filesystem.room(tmp_path, fake_root(tree)).free_bytes == 1 << 20


@pytest.mark.parametrize(
    ("size_bytes", "margin_bytes"),
    [(1 << 30, 64 << 20), (100 << 30, 5 << 30), (252 << 30, 8 << 30), (16 << 40, 8 << 30)],
)
def test_a_twentieth_is_left_alone_but_never_more_than_8_gib(
    fake_root: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size_bytes: int, margin_bytes: int
) -> None:
    facts = SimpleNamespace(f_blocks=size_bytes // 4096, f_frsize=4096, f_bavail=3 << 18)
    monkeypatch.setattr(filesystem.os, "statvfs", lambda _: facts)
    assert filesystem.room(tmp_path, fake_root(mounted("ext4"))) == Room(3 << 30, margin_bytes)


@pytest.mark.usefixtures("any_room")
def test_no_room_names_size_room_and_remedy(fake_root: Build, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"does not fit: .*reserved; expected at most .*--set target\.path"):
        filesystem.require_room(tmp_path / "testfile", 1 << 62)
    filesystem.require_room(tmp_path / "testfile", 4096)


# Room


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Says how much room there is from now on: what is free, and the margin."""

    def say(free_bytes: int, margin_bytes: int) -> None:
        monkeypatch.setattr(filesystem, "room", lambda *_: Room(free_bytes, margin_bytes))
        monkeypatch.setattr(os, "statvfs", lambda *_: SimpleNamespace(f_bavail=free_bytes, f_frsize=1, f_blocks=GIB))

    return say


def test_files_that_fit_one_by_one_have_to_fit_together(free: Any, tmp_path: Path) -> None:
    free(GIB, 100 * MIB)
    first, second = Footprint(tmp_path / "first", 500 * MIB), Footprint(tmp_path / "second", 500 * MIB)
    filesystem.require_total_room([first])
    filesystem.require_total_room([second])
    with pytest.raises(StudyError) as refused:
        filesystem.require_total_room([first, second])
    said = str(refused.value)
    assert f"{first.path} of 500 MiB and 1 more would take 1000 MiB of the file system of {tmp_path}" in said
    assert "1 GiB are free and 100 MiB of them are reserved; expected at most 924 MiB" in said


def test_what_a_file_holds_already_counts_as_free(free: Any, tmp_path: Path) -> None:
    free(100 * MIB, 100 * MIB)
    there = tmp_path / "there"
    there.write_bytes(os.urandom(MIB))
    os.sync()
    held_bytes = there.stat().st_blocks * 512
    assert held_bytes >= MIB
    filesystem.require_total_room([Footprint(there, MIB)])
    with pytest.raises(StudyError, match="expected at most 0 B"):
        filesystem.require_total_room([Footprint(there, held_bytes + 1)])


def test_folders_of_trials_take_their_room_one_after_the_other(free: Any, tmp_path: Path) -> None:
    free(GIB, 100 * MIB)
    trials = [Footprint(tmp_path / name, 600 * MIB, lasting=False) for name in ("a", "b")]
    filesystem.require_total_room([*trials, Footprint(tmp_path / "c", 300 * MIB)])
    with pytest.raises(StudyError, match="would take 1 GiB"):
        filesystem.require_total_room([*trials, Footprint(tmp_path / "c", 424 * MIB)])


def test_a_size_that_is_not_known_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=f"how large {tmp_path}/x becomes is computed by the tool"):
        filesystem.require_total_room([Footprint(tmp_path / "x", None)])


def test_a_folder_that_is_made_later_lies_where_its_parents_do(free: Any, tmp_path: Path) -> None:
    assert filesystem.existing_folder(tmp_path / "not" / "yet" / "there") == tmp_path
    free(GIB, 100 * MIB)
    with pytest.raises(StudyError, match=f"the file system of {tmp_path}:"):
        filesystem.require_total_room([Footprint(tmp_path / "not" / "yet", GIB)])


def test_records_may_take_half_of_a_file_system_that_is_full_already(free: Any, tmp_path: Path) -> None:
    free(40 * MIB, 64 * MIB)
    filesystem.require_record_room(tmp_path / "run", 20 * MIB)
    with pytest.raises(StudyError, match=r"would take about 21 MiB .* expected at most 20 MiB: average the logs"):
        filesystem.require_record_room(tmp_path / "run", 21 * MIB)
    free(GIB, 64 * MIB)
    filesystem.require_record_room(tmp_path / "run", GIB - 64 * MIB)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_the_room_is_looked_at_once_a_second(free: Any, tmp_path: Path) -> None:
    clock = Clock()
    free(GIB, 100 * MIB)
    lack = Reserve(clock).watch([tmp_path / "file"])
    assert lack() == ""
    free(75 * MIB - 1, 100 * MIB)
    clock.now_s = 0.9
    assert lack() == ""
    clock.now_s = 1.0
    assert lack().startswith(f"the file system of {tmp_path} has 75 MiB free, and the last 75 MiB are reserved")
    clock.now_s = 2.0
    free(75 * MIB, 100 * MIB)
    assert lack() == ""


def test_what_is_left_alone_does_not_shrink_from_trial_to_trial(free: Any, tmp_path: Path) -> None:
    free(40 * MIB, 64 * MIB)
    reserve = Reserve(Clock())
    assert reserve.watch([tmp_path / "file"])() == ""
    free(29 * MIB, 64 * MIB)
    assert "the last 30 MiB are reserved" in reserve.watch([tmp_path / "file"])()


def test_a_file_system_that_gives_no_sizes_is_not_taken_for_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda *_: SimpleNamespace(f_bavail=0, f_frsize=4096, f_blocks=0))
    filesystem.require_total_room([Footprint(tmp_path / "x", GIB)])
    assert Reserve().watch([tmp_path / "x"])() == ""


def test_a_folder_that_goes_during_a_trial_is_no_reason_to_end_it(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    lack = Reserve().watch([folder / "x"])
    folder.rmdir()
    assert lack() == ""
