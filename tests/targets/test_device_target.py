"""The device target: writes only what it has claimed, writes nothing when a study only reads."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ioassay.errors import RunError, SafetyRefusal, StudyError
from ioassay.host import block_devices
from ioassay.roles import READ, WRITE, Consent, Load
from ioassay.targets import device_users, fill, occupancy
from ioassay.targets.block_device import DeviceTarget

from ..conftest import loop_on
from .conftest import MIB, command, digest, ignore, make_ext4

pytestmark = pytest.mark.root
TRIAL: Any = None
LOOP_CHANGE_FD = 0x4C06


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., DeviceTarget]]:
    made: list[DeviceTarget] = []

    def build(path: Path, *names: str, **settings: Any) -> DeviceTarget:
        spec = {"kind": "device", "path": str(path), **settings}
        made.append(DeviceTarget(spec, Consent(names), state=tmp_path / "state"))
        return made[-1]

    yield build
    for target in made:
        target.close()


@contextmanager
def unchanged(disk: Path) -> Iterator[None]:
    os.sync()
    before = digest(disk)
    yield
    os.sync()
    assert digest(disk) == before


def test_a_blank_device_is_filled_in_full_and_claimed(loop_device: Callable, make: Callable) -> None:
    disk = loop_device(20 * MIB)
    told: list[tuple[str, float]] = []
    made = make(disk)
    with unchanged(disk):
        made.inspect(WRITE)
    made.prepare(WRITE, lambda text, share: told.append((text, share)))
    sample = occupancy.content(disk)
    assert sample.blank == 0 and sample.places == 20 * MIB // 4096
    assert told[-1] == (f"filling {disk}", 1.0)
    with made.load(TRIAL) as load:
        assert load == Load("device", disk, 20 * MIB, read_only=False)
    with pytest.raises(OSError, match="busy"):
        os.open(disk, os.O_RDONLY | os.O_EXCL)
    made.close()
    made.close()
    os.close(os.open(disk, os.O_RDONLY | os.O_EXCL))


def test_a_study_that_only_reads_writes_and_claims_nothing(loop_device: Callable, make: Callable) -> None:
    disk = loop_device(8 * MIB)
    make_ext4(disk)
    made = make(disk, prepare="fill")
    with unchanged(disk):
        codes = [warning.code for warning in made.inspect(READ)]
        made.prepare(READ, ignore)
        with made.load(TRIAL) as load:
            assert load.read_only
        assert device_users.held() == []
    assert "unwritten-device" in codes


def test_only_the_asked_size_is_filled(loop_device: Callable, make: Callable) -> None:
    disk = loop_device(16 * MIB)
    made = make(disk, size="4MiB")
    made.prepare(WRITE, ignore)
    data = disk.read_bytes()
    assert any(data[: 4 * MIB]) and not any(data[4 * MIB :])
    with made.load(TRIAL) as load:
        assert load.size_bytes == 4 * MIB


def test_a_device_is_filled_as_often_as_a_study_wants_and_no_more(loop_device: Callable, make: Callable) -> None:
    told: list[str] = []
    disk = loop_device(4 * MIB)
    with unchanged(disk):
        make(disk, prepare="none").prepare(WRITE, ignore)
    make(disk, prepare=3).prepare(WRITE, lambda text, share: told.append(text))
    assert told == [f"filling {disk} ({number} of 3)" for number in (1, 2, 3)]
    with unchanged(disk):
        make(disk).prepare(WRITE, ignore)
    make(disk, prepare=4).prepare(WRITE, lambda text, share: told.append(text))
    assert told[3:] == [f"filling {disk} (4 of 4)"]


def test_a_resumed_run_needs_consent_again_but_no_second_fill(loop_device: Callable, make: Callable) -> None:
    disk = loop_device(8 * MIB)
    first = make(disk)
    first.prepare(WRITE, ignore)
    first.close()
    with unchanged(disk):
        with pytest.raises(SafetyRefusal, match=r"no known format.*\n.*--destroy-data=/dev/loop"):
            make(disk).inspect(WRITE)
        make(disk, str(disk)).prepare(WRITE, ignore)


def test_a_discarded_device_is_filled_again(loop_device: Callable, make: Callable) -> None:
    disk = loop_device(8 * MIB)
    first = make(disk)
    first.prepare(WRITE, ignore)
    first.close()
    command("blkdiscard", "--force", disk)
    make(disk).prepare(WRITE, ignore)
    assert occupancy.content(disk).blank == 0


def test_another_medium_under_the_same_number_does_not_inherit_the_fill(
    loop_device: Callable, make: Callable, tmp_path: Path
) -> None:
    disk = loop_device(4 * MIB)
    number = block_devices.number_of(disk)
    assert number is not None
    device = block_devices.device(number)
    assert device is not None
    fill.note(device, device.size_bytes, 1, tmp_path)
    disk.write_bytes(os.urandom(4 * MIB))
    assert fill.times(device, device.size_bytes, tmp_path) == 1
    assert fill.times(dataclasses.replace(device, diskseq=(device.diskseq or 0) + 1), 1, tmp_path) == 0
    assert fill.times(device, device.size_bytes + 1, tmp_path) == 0


def test_consent_destroys(loop_device: Callable, make: Callable) -> None:
    disk = loop_device(16 * MIB)
    make_ext4(disk)
    make(disk, str(disk)).prepare(WRITE, ignore)
    assert occupancy.signatures(disk) == []


def test_what_happens_between_look_and_first_write_is_seen(loop_device: Callable, make: Callable) -> None:
    disk = loop_device(16 * MIB)
    made = make(disk)
    made.inspect(WRITE)
    make_ext4(disk)
    with unchanged(disk), pytest.raises(SafetyRefusal, match="holds ext4"):
        made.prepare(WRITE, ignore)


def test_a_device_that_another_took_first_is_refused(loop_device: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = loop_device(4 * MIB)
    number = block_devices.number_of(disk)
    assert number is not None
    other = os.open(disk, os.O_RDONLY | os.O_EXCL)
    try:
        with pytest.raises(SafetyRefusal, match="just now"):
            device_users.take(number, disk)
    finally:
        os.close(other)
    with pytest.raises(SafetyRefusal, match="another device"):
        device_users.take(block_devices.Number(7, 255), disk)
    assert device_users.held() == []


def test_another_device_behind_the_path_ends_the_run(loop_device: Callable, make: Callable, tmp_path: Path) -> None:
    disk, other, alias = loop_device(4 * MIB), loop_device(4 * MIB), tmp_path / "alias"
    os.mknod(alias, stat.S_IFBLK | 0o600, disk.stat().st_rdev)
    made = make(alias)
    made.prepare(WRITE, ignore)
    assert [warning.code for warning in make(disk).inspect(READ)] == ["loop-device"], "it is full of data"
    alias.unlink()
    os.mknod(alias, stat.S_IFBLK | 0o600, other.stat().st_rdev)
    with pytest.raises(RunError, match=f"another device than before: found {other.name}"), made.load(TRIAL):
        pass
    alias.unlink()
    with pytest.raises(RunError, match="found nothing"), made.load(TRIAL):
        pass


def test_another_medium_in_the_same_drive_ends_the_run(make: Callable, tmp_path: Path) -> None:
    first, second = tmp_path / "first.img", tmp_path / "second.img"
    first.write_bytes(bytes(4 * MIB))
    second.write_bytes(bytes(4 * MIB))
    with loop_on(first, "--read-only") as disk, disk.open("rb") as drive, second.open("rb") as medium:
        made = make(disk)
        made.inspect(READ)
        made.prepare(READ, ignore)
        fcntl.ioctl(drive, LOOP_CHANGE_FD, medium.fileno())
        with pytest.raises(RunError, match="diskseq"), made.load(TRIAL):
            pass


def test_a_device_that_is_too_small_is_a_mistake_in_the_study(loop_device: Callable, make: Callable) -> None:
    disk = loop_device(4 * MIB)
    with pytest.raises(StudyError, match=rf"target\.size: {disk} has 4 MiB \(4194304 bytes\)"):
        make(disk, size="5MiB").inspect(WRITE)


def test_a_drive_without_a_medium_is_named(loop_device: Callable, make: Callable) -> None:
    with pytest.raises(StudyError, match="has no medium"):
        make(loop_device(0)).inspect(WRITE)


@pytest.mark.fio
def test_fio_works_under_our_claim(loop_device: Callable, make: Callable) -> None:
    disk = loop_device(8 * MIB)
    made = make(disk)
    made.prepare(WRITE, ignore)
    with made.load(TRIAL) as load:
        job = ["--rw=randwrite", "--bs=4096", "--size=1048576", "--direct=1", "--ioengine=libaio", "--iodepth=4"]
        before = digest(disk)
        command("fio", "--name=job", f"--filename={load.path}", *job)
        assert digest(disk) != before


def test_a_renewed_device_is_purged_and_written_again_and_a_resumed_one_is_not(
    loop_device: Callable, make: Callable
) -> None:
    disk = loop_device(16 * MIB)
    made = make(disk, purge="discard", prepare=2)
    told: list[str] = []
    made.renew()
    made.prepare(WRITE, lambda text, share: told.append(text))
    assert list(dict.fromkeys(told)) == [
        f"purging {disk} (discard)",
        f"filling {disk} (1 of 2)",
        f"filling {disk} (2 of 2)",
    ]
    told.clear()
    made.prepare(WRITE, lambda text, share: told.append(text))  # as of a run that goes on
    assert told == []
    made.renew()
    made.prepare(WRITE, lambda text, share: told.append(text))
    assert told[0] == f"purging {disk} (discard)"


def test_a_purged_device_that_is_not_filled_is_blank(loop_device: Callable, make: Callable) -> None:
    disk = loop_device(8 * MIB)
    disk.write_bytes(b"x" * (8 * MIB))
    os.sync()
    made = make(disk, str(disk), purge="discard", prepare="none")
    made.renew()
    made.prepare(WRITE, ignore)
    assert not any(disk.read_bytes())


def test_a_purge_that_the_drive_has_not_is_refused_with_what_it_has(loop_device: Callable, make: Callable) -> None:
    disk = loop_device(8 * MIB)
    with pytest.raises(StudyError, match="which needs a whole NVMe namespace; expected one of discard, none"):
        make(disk, purge="format").inspect(WRITE)
