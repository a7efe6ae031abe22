"""Nothing is written to a disk in use, nor to a disk or a file that holds something, by whatever name it is given.

Every refusal is asked for of `inspect_path` (paths in a job file) and of the target, before and while it prepares; what
is there is compared before and after.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import cases, rows

from ioassay.errors import SafetyRefusal, StudyError
from ioassay.host import block_devices
from ioassay.roles import NOTHING, READ, WRITE, Consent
from ioassay.targets import device_users, ownership_mark, safety, target

from .conftest import MIB, command, digest, ignore, make_ext4

root = pytest.mark.root
Row = dict[str, Any]


def refusal(path: Path | str, *consented: str, kept: Path | None = None, kind: str = "device") -> str:
    """The message of the refusal to write to `path`; asserts that all ways refuse and that `kept` stays as it is."""
    consent, file = Consent(consented), kept or Path(path)

    def state() -> Any:
        os.sync()
        return digest(file), file.stat().st_size, os.listxattr(file)

    before = state()
    with pytest.raises(SafetyRefusal) as first:
        safety.inspect_path(Path(path), WRITE, consent)
    for step in ("inspect", "prepare"):
        made = target({"kind": kind, "path": str(path), "size": "1MiB"}, consent)
        with pytest.raises(SafetyRefusal) as again:
            made.inspect(WRITE) if step == "inspect" else made.prepare(WRITE, ignore)
        made.close()
        assert str(again.value) == str(first.value)
    assert state() == before
    assert first.value.exit_code == 3
    return str(first.value)


def require(message: str, case: Row, **names: str) -> None:
    missing = [text for text in case["says"] if text.format(**names) not in message]
    assert not missing, f"{case['id']}: {message}"


def codes(path: Path | str, access: Any = WRITE, *consented: str) -> list[str]:
    return [warning.code for warning in safety.inspect_path(Path(path), access, Consent(consented))]


def run(case: Row, **names: str) -> None:
    """The programs of a row, or a skip where one is missing."""
    for argv in case.get("run", ()):
        if shutil.which(argv[0]) is None:
            pytest.skip(f"needs {argv[0]}")
        command(*(word.format(**names) for word in argv), text=case.get("input"))


def backing_of(device: Path) -> Path:
    return Path(Path("/sys/block", device.name, "loop/backing_file").read_text().strip())


@root
@cases("safety", "devices")
def test_devices(loop_device: Callable, case: Row) -> None:
    disk = loop_device(case["mib"] * MIB)
    names = {"disk": str(disk), "name": disk.name, "backing": str(backing_of(disk))}
    with disk.open("r+b") as file:
        for piece in case.get("holds", ()):
            file.seek(piece["at"])
            file.write(
                (bytes.fromhex(piece["hex"]) if "hex" in piece else piece["text"].encode()) * piece.get("times", 1)
            )
    run(case, **names)
    consented = [name.format(**names) for name in case.get("consent", ())]
    try:
        if "says" in case:
            require(refusal(disk, *consented, kept=backing_of(disk)), case, **names)
        else:
            assert codes(disk, WRITE, *consented) == case["codes"]
    finally:
        if "undo" in case:
            command(*(word.format(**names) for word in case["undo"]))


@cases("safety", "files")
def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Row) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file"
    if not {"text", "zeros_mib", "sparse_mib", "allocated_mib"}.isdisjoint(case):
        with path.open("wb") as file:
            file.write(case.get("text", "").encode() * case.get("times", 1) + bytes(MIB * case.get("zeros_mib", 0)))
            file.truncate(max(file.tell(), MIB * case.get("sparse_mib", 0)))
            if "allocated_mib" in case:
                os.posix_fallocate(file.fileno(), 0, MIB * case["allocated_mib"])
        (tmp_path / "soft").symlink_to("file")
        (tmp_path / "hard").hardlink_to(path)
    (tmp_path / "dangling").symlink_to("new")
    if case.get("mark"):
        ownership_mark.write(path, path.stat().st_size)
    names = {"path": str(path), "folder": str(tmp_path), "name": tmp_path.name}
    run(case, **names)
    consented = [name.format(**names) for name in case.get("consent", ())]
    access = {"read": READ, "write": WRITE, "nothing": NOTHING}[case.get("access", "write")]
    for name in (text.format(**names) for text in case.get("paths", ["{path}"])):
        if "says" in case:
            require(refusal(name, *consented, kept=path, kind="file"), case, **names)
        else:
            assert codes(name, access, *consented) == case["codes"], name


@pytest.fixture
def mounted(parted: Callable, mount: Callable) -> tuple[Path, Path, Path]:
    """A disk, its mounted partition and the mount point."""
    disk, (part,) = parted(1)
    make_ext4(part)
    return disk, part, mount(part)


@root
def test_a_mounted_disk_is_refused_by_every_name(
    mounted: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, part, point = mounted
    folder = tmp_path / "names"
    (folder / "by-id").mkdir(parents=True)
    (folder / "down").mkdir()
    relative = os.path.relpath(part, folder)
    for name, goal in {"link": part, "second": "link", "whole": disk, "by-number": relative}.items():
        (folder / name).symlink_to(goal)
    (folder / "by-id/ata-DISK_123-part1").symlink_to(os.path.relpath(part, folder / "by-id"))
    for name, real in (("disk-node", disk), ("part-node", part)):
        os.mknod(folder / name, stat.S_IFBLK | 0o600, real.stat().st_rdev)
    names = {"disk": disk, "part": part, "point": point, "disk_name": disk.name, "part_name": part.name}
    words = {name: str(value) for name, value in names.items()}
    words |= {"folder": str(folder), "relative": relative}
    for case in rows("safety", "mounted_disk"):
        monkeypatch.chdir(case.get("from", "/").format(**words))
        consented = [name.format(**words) for name in case.get("consent", ())]
        require(refusal(case["path"].format(**words), *consented, kept=backing_of(disk)), case, **words)
    before = digest(backing_of(disk))
    for path in (disk, part):  # reading is allowed, and says who else is there
        assert set(codes(path, READ)) == {"loop-device", "device-in-use", "unwritten-device"}
    assert digest(backing_of(disk)) == before


@root
def test_other_ways_to_the_data_of_a_mounted_disk_are_found(mounted: tuple, loop_device: Callable) -> None:
    disk, part, point = mounted
    twin = loop_device(backing=backing_of(disk))
    message = refusal(twin, str(twin), kept=backing_of(disk))
    assert f"{part} (ext4, label data), a partition of {disk.name}, is mounted on {point}" in message
    assert f"{disk} is another way to the data of {twin.name}" in message
    above = loop_device(backing=disk)
    try:
        assert f"is mounted on {point}" in refusal(above, str(above), kept=backing_of(disk))
        assert f"loop device {above} lies over {disk.name}" in refusal(disk, str(disk), kept=backing_of(disk))
    finally:
        command("losetup", "--detach", above)  # before the one beneath it


@root
def test_another_partition_of_a_mounted_disk_needs_consent(parted: Callable, mount: Callable) -> None:
    disk, (first, second) = parted(2)
    make_ext4(first)
    point = mount(first)
    message = refusal(second, kept=backing_of(disk))
    assert f"{first} (ext4, label data), a partition of {disk.name}, is mounted on {point}" in message
    assert f"--destroy-data={second}" in message
    assert f"--destroy-data={disk}" in refusal(disk, str(second), kept=backing_of(disk))
    assert "device-shared" in codes(second, WRITE, str(second))


@root
def test_a_whole_disk_file_system_is_found_from_a_stale_partition(parted: Callable, mount: Callable) -> None:
    disk, (part,) = parted(1)
    make_ext4(disk)
    point = mount(disk)
    assert f"the disk of {part.name}, is mounted on {point}" in refusal(part, str(part), kept=backing_of(disk))


@root
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
            message = refusal(disk, str(disk), kept=backing_of(disk))
        finally:
            other.stdin.close()
    assert f"is mounted on {tmp_path} in the mount namespace of process {other.pid}" in message


@root
def test_claims_and_writers_of_others_are_found(loop_device: Callable) -> None:
    disk = loop_device(8 * MIB)
    holder = os.open(disk, os.O_RDONLY | os.O_EXCL)
    try:
        message = refusal(disk, str(disk), kept=backing_of(disk))
        assert "is held by the kernel or another program" in message
    finally:
        os.close(holder)
    # It writes nothing before its input ends, which this test does.
    with disk.open("r+b") as file, subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=file) as other:
        message = refusal(disk, str(disk), kept=backing_of(disk))
    assert f"{disk} is open for writing in process {other.pid} (cat)" in message


@root
@pytest.mark.parametrize("kind", ["device", "file"])
def test_active_swap_is_refused(loop_device: Callable, tmp_path: Path, kind: str) -> None:
    path = loop_device(8 * MIB) if kind == "device" else tmp_path / "swap file"
    if kind == "file":
        path.write_bytes(bytes(4 * MIB))
        path.chmod(0o600)
    command("mkswap", "--label", "tired", path)
    done = subprocess.run(["swapon", str(path)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"needs swapon: {done.stderr.strip()}")
    try:
        if kind == "device":
            message = refusal(path, str(path), kept=Path(__file__))  # the kernel itself may write to the swap
            assert f"{path} (swap, label tired) is active swap" in message and f"swapoff {path}" in message
        else:
            (tmp_path / "hard").hardlink_to(path)
            for name in (path, tmp_path / "hard"):
                message = refusal(name, str(name), kept=Path(__file__), kind="file")
                assert f"{name} is an active swap file ({path})" in message
    finally:
        command("swapoff", path)


@root
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
        message = refusal(disk, str(disk), kept=backing_of(disk))
        assert "btrfs" in message and ("is mounted on" in message or "that is mounted" in message)
        assert disk != first or f"is mounted on {point}" in message


@root
def test_the_backing_file_of_a_mounted_loop_device_is_refused(
    loop_device: Callable, mount: Callable, tmp_path: Path
) -> None:
    disk = loop_device(16 * MIB)
    backing = backing_of(disk)
    make_ext4(disk)
    ownership_mark.write(backing, 16 * MIB)  # even if it is ours
    assert f"losetup -d {disk}" in refusal(backing, str(backing), kind="file")
    point = mount(disk)
    (tmp_path / "hard").hardlink_to(backing)
    (tmp_path / "soft").symlink_to(backing)
    for path in (backing, tmp_path / "hard", tmp_path / "soft"):
        message = refusal(path, str(path.resolve()), kind="file")
        assert f"is the backing file of the loop device {disk} (ext4, label data)" in message
        assert f"{disk} (ext4, label data) is mounted on {point} in this namespace" in message
        assert f"umount {point}; losetup -d {disk}" in message


@root
def test_the_disk_this_system_runs_from_is_refused() -> None:
    """Only asked about, never prepared."""
    number = Path("/").stat().st_dev
    found = block_devices.device(block_devices.Number(os.major(number), os.minor(number)))
    node = block_devices.node_of(found) if found is not None else None
    if node is None:
        pytest.skip("/ lies on no block device here")
    for names in ((), (str(node), "/dev/vda", node.name)):
        with pytest.raises(SafetyRefusal, match="is mounted on / "):
            safety.inspect_path(node, WRITE, Consent(names))
        with pytest.raises(SafetyRefusal, match="is mounted on / "):
            target({"kind": "device", "path": str(node)}, Consent(names)).inspect(WRITE)


@root
def test_our_own_claim_is_not_a_finding(loop_device: Callable) -> None:
    disk = loop_device(4 * MIB)
    number = block_devices.number_of(disk)
    assert number is not None
    device_users.take(number, disk)
    device_users.take(number, disk)
    try:
        safety.inspect_path(disk, WRITE, Consent())
        with pytest.raises(OSError, match="busy"):
            os.open(disk, os.O_RDONLY | os.O_EXCL)
        device_users.give_back(number)
        assert device_users.held() == [number]
    finally:
        while number in device_users.held():
            device_users.give_back(number)
    os.close(os.open(disk, os.O_RDONLY | os.O_EXCL))


@root
@pytest.mark.fio
def test_where_fio_writes_to_a_mounted_disk_ioassay_refuses(mounted: tuple, tmp_path: Path) -> None:
    """fio compares the name it was given with the names in the mount table, and only that (lib/mountcheck.c)."""
    disk, part, point = mounted
    (tmp_path / "link").symlink_to(part)
    job = ["--rw=write", "--bs=4096", "--size=4096", "--offset=16777216", "--ioengine=psync", "--end_fsync=1"]
    for path in (tmp_path / "link", disk, backing_of(disk)):
        kind = "file" if path == backing_of(disk) else "device"
        assert f"is mounted on {point}" in refusal(path, str(path), kept=backing_of(disk), kind=kind)
        before = digest(backing_of(disk))
        command("fio", "--name=careless", f"--filename={path}", *job)
        assert digest(backing_of(disk)) != before


def test_reading_an_unwritten_file_is_refused_as_a_target_that_is_to_be_full(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"x" * 8192)
    os.truncate(path, 4 * MIB)
    with pytest.raises(SafetyRefusal, match=r"byte 8192 .* never written(.|\n)*prepare = 'none'"):
        target({"kind": "file", "path": str(path)}, Consent()).inspect(READ)
    as_it_is = target({"kind": "file", "path": str(path), "prepare": "none"}, Consent())
    assert "unwritten-file" in [warning.code for warning in as_it_is.inspect(READ)]


def test_a_mistyped_device_is_not_made_a_file_in_memory() -> None:
    with pytest.raises(StudyError, match="/dev is no place for new files"):
        safety.inspect_path(Path("/dev/sdzz9"), WRITE, Consent())
    with pytest.raises(StudyError, match="/dev is no place for new files"):
        target({"kind": "file", "path": "/dev/sdzz9", "size": 1}, Consent()).inspect(WRITE)


def test_what_is_neither_file_nor_device_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for access in (READ, WRITE):
        with pytest.raises(SafetyRefusal, match="pipe"):
            safety.inspect_path(pipe, access, Consent())
        for path, said in ((pipe, "name a file"), (tmp_path, "a folder")):
            with pytest.raises(SafetyRefusal, match=said):
                target({"kind": "file", "path": str(path), "size": 1}, Consent()).inspect(access)


@root
def test_a_character_device_that_writes_somewhere_and_switches_of_the_kernel_are_refused(tmp_path: Path) -> None:
    node = tmp_path / "ng0n1"
    os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(10, 200))
    switches = (f"/proc/{os.getpid()}/comm", "/sys/kernel/mm/transparent_hugepage/enabled")
    said = {str(node): "character device", **dict.fromkeys(switches, "switches of the kernel")}
    for path, text in said.items():
        with pytest.raises(SafetyRefusal, match=text):
            safety.inspect_path(Path(path), WRITE, Consent((path,)))
    assert safety.inspect_path(Path("/dev/null"), WRITE, Consent()) == []


def test_a_jobs_own_file_can_be_written_again(tmp_path: Path) -> None:
    path = tmp_path / "job.0.0"
    safety.inspect_path(path, WRITE, Consent())
    safety.expect_own(path)
    path.write_bytes(os.urandom(MIB))
    safety.inspect_path(path, WRITE, Consent())  # killed here: the announcement is enough
    safety.mark_own(path)
    assert sorted(tmp_path.iterdir()) == [path]
    safety.inspect_path(path, WRITE, Consent())
    path.unlink()
    path.write_text("another file of the same name")
    assert "was not made by ioassay" in refusal(path, kind="file")


def test_an_unusable_path_is_a_mistake_in_the_study(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    for path in (tmp_path / "round", tmp_path / ("x" * 300), Path("nul\0l")):
        with pytest.raises(StudyError, match="cannot be looked at"):
            safety.inspect_path(path, WRITE, Consent())


@root
def test_a_block_device_is_no_file_target(loop_device: Callable) -> None:
    disk = loop_device(4 * MIB)
    with pytest.raises(SafetyRefusal, match="kind = 'device'"):
        target({"kind": "file", "path": str(disk), "size": 4096}, Consent()).inspect(WRITE)
    with pytest.raises(StudyError, match="kind = 'file'"):
        target({"kind": "device", "path": __file__}, Consent()).inspect(WRITE)
