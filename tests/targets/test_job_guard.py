"""A job's own paths are safe while it runs and known afterwards, however it ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ioassay.errors import SafetyRefusal
from ioassay.roles import READ, WRITE, Consent, Touch
from ioassay.targets import device_users, safety
from ioassay.targets.job_guard import guarded

from .conftest import MIB, digest


def test_files_that_a_job_makes_are_known_afterwards(tmp_path: Path) -> None:
    made, read = tmp_path / "made", tmp_path / "letter"
    read.write_text("Dear sister,")
    touches = [Touch(made, WRITE), Touch(read, READ), Touch(made, WRITE)]
    for _ in range(2):
        with guarded(touches, Consent()):
            made.unlink(missing_ok=True)
            made.write_bytes(os.urandom(4096))
    assert sorted(tmp_path.iterdir()) == [read, made]
    with pytest.raises(SafetyRefusal, match="letter exists"):
        safety.inspect_path(read, WRITE, Consent())


@pytest.mark.parametrize("end", ["an error", "a kill"])
def test_a_job_that_does_not_end_well_leaves_its_files_known(tmp_path: Path, end: str) -> None:
    path = tmp_path / "made"
    child = os.fork()
    if child == 0:
        with suppress(KeyboardInterrupt), guarded([Touch(path, WRITE)], Consent()):
            path.write_bytes(b"x")
            if end == "an error":
                raise KeyboardInterrupt
            os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
    safety.inspect_path(path, WRITE, Consent())


def test_a_file_that_a_job_did_not_make_leaves_nothing(tmp_path: Path) -> None:
    with guarded([Touch(tmp_path / "made", WRITE)], Consent()):
        pass
    assert list(tmp_path.iterdir()) == []


def test_one_bad_path_stops_all(tmp_path: Path) -> None:
    letter = tmp_path / "letter"
    letter.write_text("Dear sister,")
    touches = [Touch(tmp_path / "made", WRITE), Touch(letter, WRITE)]
    with pytest.raises(SafetyRefusal), guarded(touches, Consent()):
        pytest.fail("entered")
    assert list(tmp_path.iterdir()) == [letter]


def test_a_path_that_leads_elsewhere_between_trials_is_refused(tmp_path: Path) -> None:
    letter, name = tmp_path / "letter", tmp_path / "name"
    letter.write_text("Dear sister,")
    name.symlink_to(tmp_path / "made")
    touches = [Touch(name, WRITE)]
    with guarded(touches, Consent()) as guard:
        guard.require_same(touches)
        (tmp_path / "made").write_bytes(b"x")
        guard.require_same(touches)  # what the job made is its own
        name.unlink()
        name.symlink_to(letter)
        with pytest.raises(SafetyRefusal, match="leads to something else"):
            guard.require_same(touches)
    assert os.listxattr(letter) == []
    made = tmp_path / "another"
    with guarded([Touch(made, WRITE)], Consent()) as guard:
        with pytest.raises(SafetyRefusal, match="did not name it"):
            guard.require_same([Touch(tmp_path / "later", WRITE)])
        letter.rename(made)  # somebody puts it in the place of the job's
        with pytest.raises(SafetyRefusal, match="something else"):
            guard.require_same([Touch(made, WRITE)])


@pytest.mark.root
def test_a_device_that_a_job_writes_is_claimed_and_stays_its_own(loop_device: Callable) -> None:
    disk = loop_device(4 * MIB)
    with guarded([Touch(disk, WRITE)], Consent()):
        assert len(device_users.held()) == 1
        disk.write_bytes(os.urandom(4 * MIB))
        safety.inspect_path(disk, WRITE, Consent())
    assert device_users.held() == []
    before = digest(disk)
    with pytest.raises(SafetyRefusal, match="no known format"), guarded([Touch(disk, WRITE)], Consent()):
        pytest.fail("entered")
    assert digest(disk) == before
