"""Nothing is written to a disk that is in use or holds something, by whatever name it is given.

Every refusal is asked for twice, of `inspect_path` (paths in a job file) and of the device target, with consent and
without; the bytes are compared before and after.
"""

from __future__ import annotations

import os
import shutil
import stat
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ioassay.errors import SafetyRefusal
from ioassay.host import block_devices
from ioassay.roles import READ, WRITE, Consent
from ioassay.targets import device_locks, safety, target

from .conftest import MIB, command, digest, make_ext4

pytestmark = pytest.mark.root
SYSTEM_DISK = Path("/dev/vda")


def ignore(text: str, share: float) -> None:
    pass


def refusal(path: Path | str, backing: Path, *names: str) -> str:
    """The message of the refusal to write to `path`; asserts that both ways refuse and that no byte changes."""
    consent = Consent(names)
    os.sync()
    before = digest(backing)
    with pytest.raises(SafetyRefusal) as first:
        safety.inspect_path(Path(path), WRITE, consent)
    for step in ("inspect", "prepare"):
        made = target({"kind": "device", "path": str(path)}, consent)
        with pytest.raises(SafetyRefusal) as again:
            made.inspect(WRITE) if step == "inspect" else made.prepare(WRITE, ignore)
        made.close()
        assert str(again.value) == str(first.value)
    os.sync()
    assert digest(backing) == before
    assert first.value.exit_code == 3
    return str(first.value)


def own_name(device: Path) -> str:
    return f"--destroy-data={device}"


def backing_of(device: Path) -> Path:
    return Path(Path("/sys/block", device.name, "loop/backing_file").read_text().strip())


@pytest.fixture
def mounted(parted: Callable, mount: Callable) -> tuple[Path, Path, Path]:
    """A disk, its mounted partition and the mount point."""
    disk, (part,) = parted(1)
    make_ext4(part)
    return disk, part, mount(part)


def test_a_mounted_partition_is_refused_by_its_exact_name(mounted: tuple) -> None:
    disk, part, point = mounted
    message = refusal(part, backing_of(disk))
    assert f"{part} (ext4, label data) is mounted on {point} in this namespace" in message
    assert own_name(part) in message


def test_consent_does_not_cover_a_mount(mounted: tuple) -> None:
    disk, part, point = mounted
    message = refusal(part, backing_of(disk), str(part))
    assert f"umount {point}" in message


def test_a_whole_disk_is_refused_for_its_mounted_partition(mounted: tuple) -> None:
    disk, part, point = mounted
    message = refusal(disk, backing_of(disk), str(disk))
    assert f"{part} (ext4, label data), a partition of {disk.name}, is mounted on {point}" in message
    assert "MBR partition table" in message


def test_a_symbolic_link_is_followed(mounted: tuple, tmp_path: Path) -> None:
    disk, part, point = mounted
    for name, goal in (("link", part), ("second", Path("link")), ("whole", disk)):
        (tmp_path / name).symlink_to(goal)
    for name in ("link", "second", "whole"):
        assert f"is mounted on {point}" in refusal(tmp_path / name, backing_of(disk))


def test_a_relative_path_is_followed(mounted: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, part, point = mounted
    monkeypatch.chdir("/dev")
    assert f"is mounted on {point}" in refusal(part.name, backing_of(disk))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "down").mkdir()
    assert f"is mounted on {point}" in refusal(f"down/../{os.path.relpath(part, tmp_path)}", backing_of(disk))


def test_a_node_made_by_mknod_is_the_device(mounted: tuple, tmp_path: Path) -> None:
    disk, part, point = mounted
    for real in (disk, part):
        alias = tmp_path / f"alias-{real.name}"
        os.mknod(alias, stat.S_IFBLK | 0o600, real.stat().st_rdev)
        message = refusal(alias, backing_of(disk), str(real))
        assert f"is mounted on {point}" in message and f"/dev/{part.name}" in message


def test_links_in_dev_block_and_by_id_are_followed(mounted: tuple, tmp_path: Path) -> None:
    disk, part, point = mounted
    number = block_devices.number_of(part)
    folder = tmp_path / "dev/disk/by-id"
    folder.mkdir(parents=True)
    for name in (str(number), "ata-DISK_123-part1"):
        (folder / name).symlink_to(os.path.relpath(part, folder))
        assert f"is mounted on {point}" in refusal(folder / name, backing_of(disk))


def test_another_partition_of_a_mounted_disk_needs_consent(parted: Callable, mount: Callable) -> None:
    disk, (first, second) = parted(2)
    make_ext4(first)
    point = mount(first)
    message = refusal(second, backing_of(disk))
    assert f"{first} (ext4, label data), a partition of {disk.name}, is mounted on {point}" in message
    assert own_name(second) in message
    assert own_name(disk) in refusal(disk, backing_of(disk), str(second))
    warnings = safety.inspect_path(second, WRITE, Consent((str(second),)))
    assert "device-shared" in [warning.code for warning in warnings]


def test_a_whole_disk_file_system_is_found_from_a_stale_partition(parted: Callable, mount: Callable) -> None:
    disk, (part,) = parted(1)
    command("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,nodiscard", disk)
    point = mount(disk)
    message = refusal(part, backing_of(disk), str(part))
    assert f"the disk of {part.name}, is mounted on {point}" in message


def test_a_second_loop_device_over_the_same_file_is_the_same_data(mounted: tuple, loop_device: Callable) -> None:
    disk, part, point = mounted
    twin = loop_device(backing=backing_of(disk))
    message = refusal(twin, backing_of(disk), str(twin))
    assert f"{part} (ext4, label data), a partition of {disk.name}, is mounted on {point}" in message
    assert f"{disk} is another way to the data of {twin.name}" in message


def test_a_loop_device_over_a_device_is_that_device(mounted: tuple, loop_device: Callable) -> None:
    disk, _part, point = mounted
    above = loop_device(backing=disk)
    try:
        message = refusal(above, backing_of(disk), str(above))
        assert f"is mounted on {point}" in message
        assert f"loop device {above} lies over {disk.name}" in refusal(disk, backing_of(disk), str(disk))
    finally:
        command("losetup", "--detach", above)  # before the one beneath it


def test_a_mount_in_another_namespace_is_found(loop_device: Callable, tmp_path: Path) -> None:
    disk = loop_device(16 * MIB)
    make_ext4(disk)
    script = f'mount -o ro "{disk}" "{tmp_path}" && echo mounted && read end'
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin and other.stdout
        try:
            if other.stdout.readline() != "mounted\n":
                pytest.skip("needs unshare --mount")
            message = refusal(disk, backing_of(disk), str(disk))
        finally:
            other.stdin.close()
    assert f"is mounted on {tmp_path} in the mount namespace of process {other.pid}" in message


def test_a_claim_is_found_where_nothing_else_is_seen(loop_device: Callable) -> None:
    disk = loop_device(8 * MIB)
    holder = os.open(disk, os.O_RDONLY | os.O_EXCL)
    try:
        assert "is held by the kernel or another program" in refusal(disk, backing_of(disk), str(disk))
    finally:
        os.close(holder)


def test_a_program_that_writes_to_the_device_is_named(loop_device: Callable) -> None:
    disk = loop_device(8 * MIB)
    with disk.open("r+b") as file, subprocess.Popen(["sleep", "60"], stdout=file) as other:
        try:
            message = refusal(disk, backing_of(disk), str(disk))
        finally:
            other.kill()
    assert f"{disk} is open for writing in process {other.pid} (sleep)" in message


def test_active_swap_is_refused(loop_device: Callable) -> None:
    disk = loop_device(8 * MIB)
    command("mkswap", "--label", "tired", disk)
    done = subprocess.run(["swapon", str(disk)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"needs swapon: {done.stderr.strip()}")
    try:
        message = refusal(disk, backing_of(disk), str(disk))
    finally:
        command("swapoff", disk)
    assert f"{disk} (swap, label tired) is active swap" in message
    assert f"swapoff {disk}" in message


def md_superblock() -> bytes:
    """An md superblock, version 1.2 (linux/raid/md_p.h), as at byte 4096 of a RAID member."""
    head = bytearray(512)
    struct.pack_into("<IIII16s32s", head, 0, 0xA92B4EFC, 1, 0, 0, b"u" * 16, b"box:0")
    struct.pack_into("<QIIQII", head, 72, 1, 0, 2048, 0, 2, 0)  # raid1 of two
    struct.pack_into("<QQQ", head, 128, 2048, 14336, 8)  # data offset, data size, this superblock's sector
    struct.pack_into("<I", head, 220, 2)  # max_dev
    words = struct.unpack_from("<65I", head, 0)  # 256 bytes and two roles of two bytes
    total = sum(words)
    struct.pack_into("<I", head, 216, ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF)
    return bytes(head)


def lvm_label() -> bytes:
    """The label of an LVM physical volume, as at byte 512 (lvm2, lib/label/label.h)."""
    body = struct.pack("<I8s32s", 32, b"LVM2 001", b"A" * 32).ljust(512 - 20, b"\0")
    checksum = ~zlib.crc32(body, ~0xF597A6CF & 0xFFFFFFFF) & 0xFFFFFFFF
    return struct.pack("<8sQI", b"LABELONE", 1, checksum) + body


SIGNATURES = {
    "linux_raid_member": (4096, md_superblock()),
    "LVM2_member": (512, lvm_label()),
    "crypto_LUKS": (0, b"LUKS\xba\xbe\x00\x01".ljust(592, b"\0")),
}


@pytest.mark.parametrize("kind", SIGNATURES)
def test_a_member_of_something_greater_is_refused(loop_device: Callable, kind: str) -> None:
    disk = loop_device(8 * MIB)
    offset, data = SIGNATURES[kind]
    with disk.open("r+b") as file:
        file.seek(offset)
        file.write(data)
    message = refusal(disk, backing_of(disk))
    assert f"{disk} holds {kind}" in message
    assert own_name(disk) in message


@pytest.mark.parametrize("kind", ["dos", "gpt"])
def test_a_partition_table_without_mounts_is_refused(loop_device: Callable, kind: str) -> None:
    disk = loop_device(8 * MIB)
    command("sfdisk", "--quiet", "--label", kind, disk, text=",,\n")
    message = refusal(disk, backing_of(disk))
    assert {"dos": "MBR", "gpt": "GPT"}[kind] + " partition table" in message
    assert own_name(disk) in message


@pytest.mark.parametrize("make", ["mkfs.ext4 -q -F", "mkfs.xfs -q -f", "mkfs.btrfs -q -f", "mkswap"])
def test_a_file_system_without_mounts_is_refused(loop_device: Callable, make: str) -> None:
    program, *options = make.split()
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    disk = loop_device((320 if "xfs" in make else 128) * MIB)
    command(program, *options, "-L", "kept", disk)
    kind = program.removeprefix("mkfs.").removeprefix("mk")
    assert f"{disk} holds {kind}, label kept" in refusal(disk, backing_of(disk))


def test_a_mounted_file_system_over_several_devices_is_refused(loop_device: Callable, mount: Callable) -> None:
    """btrfs shows one device in mountinfo, under a number that is none; the other one is in use as well."""
    if shutil.which("mkfs.btrfs") is None:
        pytest.skip("needs mkfs.btrfs")
    first, second = loop_device(128 * MIB), loop_device(128 * MIB)
    command("mkfs.btrfs", "-q", "-f", "-d", "raid0", first, second)
    command("btrfs", "device", "scan", first, second)
    try:
        point = mount(first)
    except AssertionError as error:
        pytest.skip(f"this kernel does not mount btrfs: {error}")
    for disk in (first, second):
        message = refusal(disk, backing_of(disk), str(disk))
        assert "btrfs" in message and ("is mounted on" in message or "that is mounted" in message)
    assert f"is mounted on {point}" in refusal(first, backing_of(first), str(first))


def test_data_of_no_known_format_is_refused(loop_device: Callable) -> None:
    disk = loop_device(8 * MIB)
    with disk.open("r+b") as file:
        file.seek(5 * MIB + 123)
        file.write(b"a letter")
    message = refusal(disk, backing_of(disk))
    assert f"holds data of no known format, at byte {5 * MIB + 123}" in message
    assert own_name(disk) in message


def test_a_read_only_device_is_refused(loop_device: Callable) -> None:
    disk = loop_device(8 * MIB)
    command("blockdev", "--setro", disk)
    try:
        assert f"{disk} is read-only" in refusal(disk, backing_of(disk), str(disk))
    finally:
        command("blockdev", "--setrw", disk)  # it would stay so for the next user of this loop device


def test_a_character_device_that_writes_somewhere_is_refused(tmp_path: Path) -> None:
    node = tmp_path / "ng0n1"
    os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(10, 200))
    with pytest.raises(SafetyRefusal, match="character device"):
        safety.inspect_path(node, WRITE, Consent())
    assert safety.inspect_path(Path("/dev/null"), WRITE, Consent()) == []


def test_the_disk_this_system_runs_from_is_refused() -> None:
    """Only asked about, never prepared."""
    root = block_devices.device(
        block_devices.Number(os.major(Path("/").stat().st_dev), os.minor(Path("/").stat().st_dev))
    )
    node = block_devices.node_of(root) if root is not None else None
    if node is None:
        pytest.skip("/ lies on no block device here")
    for names in ((), (str(node), "/dev/vda", node.name)):
        with pytest.raises(SafetyRefusal, match="is mounted on / "):
            safety.inspect_path(node, WRITE, Consent(names))
        with pytest.raises(SafetyRefusal, match="is mounted on / "):
            target({"kind": "device", "path": str(node)}, Consent(names)).inspect(WRITE)


def test_a_blank_device_goes(loop_device: Callable) -> None:
    disk = loop_device(8 * MIB)
    warnings = safety.inspect_path(disk, WRITE, Consent())
    assert [warning.code for warning in warnings] == ["loop-device"]


def test_ones_are_data(loop_device: Callable) -> None:
    """Erased flash reads so, and so does what somebody wrote."""
    disk = loop_device(4 * MIB)
    disk.write_bytes(b"\xff" * (4 * MIB))
    assert "holds data of no known format, at byte 0" in refusal(disk, backing_of(disk))


@pytest.mark.parametrize("by", ["node", "name", "backing"])
def test_consent_by_name_goes(loop_device: Callable, by: str) -> None:
    disk = loop_device(16 * MIB)
    make_ext4(disk)
    name = {"node": str(disk), "name": disk.name, "backing": str(backing_of(disk))}[by]
    safety.inspect_path(disk, WRITE, Consent((name,)))


def test_consent_for_another_device_does_not_go(loop_device: Callable) -> None:
    disk, other = loop_device(16 * MIB), loop_device(4 * MIB)
    make_ext4(disk)
    message = refusal(disk, backing_of(disk), str(other))
    assert f"--destroy-data={other} does not name it" in message


def test_reading_is_allowed_and_says_who_else_is_there(mounted: tuple) -> None:
    disk, part, _point = mounted
    before = digest(backing_of(disk))
    for path in (disk, part):
        codes = {warning.code for warning in safety.inspect_path(path, READ, Consent())}
        assert codes == {"loop-device", "device-in-use", "unwritten-device"}
    assert digest(backing_of(disk)) == before


def test_our_own_claim_is_not_a_finding(loop_device: Callable) -> None:
    disk = loop_device(4 * MIB)
    number = block_devices.number_of(disk)
    assert number is not None
    device_locks.take(number, disk)
    device_locks.take(number, disk)
    try:
        safety.inspect_path(disk, WRITE, Consent())
        with pytest.raises(OSError, match="busy"):
            os.open(disk, os.O_RDONLY | os.O_EXCL)
        device_locks.give_back(number)
        assert device_locks.held() == [number]
    finally:
        while number in device_locks.held():
            device_locks.give_back(number)
    os.close(os.open(disk, os.O_RDONLY | os.O_EXCL))


@pytest.mark.fio
@pytest.mark.parametrize("name", ["symlink", "whole disk", "backing file"])
def test_where_fio_writes_to_a_mounted_disk_ioassay_refuses(mounted: tuple, tmp_path: Path, name: str) -> None:
    """fio compares the name it was given with the names in the mount table, and only that (lib/mountcheck.c)."""
    disk, part, point = mounted
    (tmp_path / "link").symlink_to(part)
    path = {"symlink": tmp_path / "link", "whole disk": disk, "backing file": backing_of(disk)}[name]
    if name == "backing file":
        with pytest.raises(SafetyRefusal, match=f"is mounted on {point}"):
            safety.inspect_path(path, WRITE, Consent((str(path),)))
    else:
        assert f"is mounted on {point}" in refusal(path, backing_of(disk), str(path))
    before = digest(backing_of(disk))
    job = ["--rw=write", "--bs=4096", "--size=4096", "--offset=16777216", "--ioengine=psync", "--end_fsync=1"]
    command("fio", "--name=careless", f"--filename={path}", *job)
    assert digest(backing_of(disk)) != before
