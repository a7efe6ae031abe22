"""Who uses a device, in a made-up /proc and /sys: holders that this machine has not got, mounts without a number."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ioassay.errors import SafetyRefusal
from ioassay.host import block_devices, mounts
from ioassay.host.block_devices import Number
from ioassay.roles import WRITE, Consent
from ioassay.targets import device_users, safety

Build = Callable[[Mapping[str, Any]], Path]


def device(name: str, number: str, **files: str) -> dict[str, Any]:
    home = f"sys/devices/{name}"
    return {
        f"{home}/dev": number,
        f"{home}/size": "2048",
        **{f"{home}/{key.replace('__', '/')}": value for key, value in files.items()},
        f"sys/block/{name}": Path(f"../devices/{name}"),
        f"sys/class/block/{name}": Path(f"../../devices/{name}"),
        f"sys/dev/block/{number}": Path(f"../../devices/{name}"),
    }


def held(lower: str, upper: str) -> dict[str, Any]:
    return {
        f"sys/devices/{lower}/holders/{upper}": Path(f"../../{upper}"),
        f"sys/devices/{upper}/slaves/{lower}": Path(f"../../{lower}"),
    }


MACHINE: dict[str, Any] = {
    "proc/self/ns/mnt": Path("mnt:[1]"),
    "proc/self/mountinfo": (
        "20 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "31 20 0:40 /@home /home rw - btrfs /dev/sdb rw,compress=zstd:3\n"
        "32 20 8:32 / /mnt/a\\040b ro - xfs /dev/sdc ro\n"
        "33 20 0:50 / /net rw - nfs server:/x rw\n"
    ),
    "proc/7/ns/mnt": Path("mnt:[1]"),
    "proc/7/comm": "init",
    "proc/7/mountinfo": "1 1 8:48 / /never/read rw - ext4 /dev/sdd rw\n",
    "proc/8/ns/mnt": Path("mnt:[2]"),
    "proc/8/comm": "container",
    "proc/8/mountinfo": "1 1 8:48 / /inside rw - ext4 /dev/sdd rw\n",
    "proc/swaps": "Filename\tType\tSize\tUsed\tPriority\n/dev/sde partition 1024 0 -2\n/swap\\040file file 8 0 -3\n",
    "swap file": "x",
    **device("vda", "254:0"),
    **device("sdb", "8:16"),
    **device("sdc", "8:32"),
    **device("sdd", "8:48"),
    **device("sde", "8:64"),
    **device("sdf", "8:80"),
    "sys/fs/btrfs/uuid/devices/sdb": Path("../../../../devices/sdb"),
    "sys/fs/btrfs/uuid/devices/sdf": Path("../../../../devices/sdf"),
}


def texts(root: Path, name: str) -> list[tuple[str, bool]]:
    target = block_devices.named(name, root)
    assert target is not None
    return [
        (found.text, found.in_use)
        for found in device_users.uses(device_users.family(target, root / "dev" / name, root))
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vda", "/dev/vda is mounted on / in this namespace"),
        ("sdb", "/dev/sdb is mounted on /home in this namespace"),
        ("sdc", "/dev/sdc is mounted on /mnt/a b in this namespace"),
        ("sdd", "/dev/sdd is mounted on /inside in the mount namespace of process 8 (container)"),
        ("sde", "/dev/sde is active swap"),
        ("sdf", "/dev/sdf belongs to a btrfs file system that is mounted"),
    ],
)
def test_mounts_and_swap_are_found(fake_root: Build, name: str, text: str) -> None:
    assert texts(fake_root(MACHINE), name) == [(text, True)]


def test_each_namespace_is_read_once(fake_root: Build) -> None:
    points = [mount.point for mount in mounts.mounts(fake_root(MACHINE))]
    assert points == ["/", "/home", "/mnt/a b", "/net", "/inside"]


def test_a_path_lies_on_the_topmost_mount(fake_root: Build) -> None:
    root = fake_root(MACHINE)
    for path, point in (("/home/me/x", "/home"), ("/homer", "/"), ("/mnt/a b/c", "/mnt/a b")):
        mount = mounts.mount_of(Path(path), root)
        assert mount is not None and mount.point == point


def test_a_swap_file_is_known_by_its_identity(fake_root: Build) -> None:
    root = fake_root(MACHINE)
    assert mounts.swaps(root)[1].file == block_devices.file_id(root / "swap file")
    findings = safety.file_findings(root / "swap file", root)
    assert "is an active swap file (/swap file)" in findings[0].text and findings[0].in_use


HOLDERS = {
    "md0": ("9:0", {"md__level": "raid1"}, "/dev/md0 (md raid1) is built on sdf", "mdadm --stop /dev/md0"),
    "dm-0": (
        "253:0",
        {"dm__name": "vg-home", "dm__uuid": "LVM-abc"},
        "/dev/dm-0 (device mapper LVM vg-home) is built on sdf",
        "dmsetup remove vg-home",
    ),
    "dm-1": (
        "253:1",
        {"dm__name": "plain", "dm__uuid": ""},
        "/dev/dm-1 (device mapper plain) is built on sdf",
        "dmsetup remove plain",
    ),
    "bcache0": ("252:0", {"bcache__state": "x"}, "/dev/bcache0 (bcache) is built on sdf", "stop /dev/bcache0"),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_holders_are_found_and_named(fake_root: Build, name: str) -> None:
    number, files, text, remedy = HOLDERS[name]
    plain = {key: value for key, value in MACHINE.items() if "btrfs/uuid" not in key}
    root = fake_root({**plain, **device(name, number, **files), **held("sdf", name)})
    target = block_devices.named("sdf", root)
    assert target is not None
    found = device_users.uses(device_users.family(target, root / "dev/sdf", root))
    assert [(one.text, one.in_use, one.remedies) for one in found] == [(text, True, (remedy,))]


def test_a_mount_on_what_is_built_on_the_target_is_found(fake_root: Build) -> None:
    table = "20 1 253:0 / /srv rw - ext4 /dev/mapper/vg-home rw\n"
    files = {"dm__name": "vg-home", "dm__uuid": "LVM-abc"}
    plain = {key: value for key, value in MACHINE.items() if "btrfs/uuid" not in key}
    tree = {**plain, **device("dm-0", "253:0", **files), **held("sdf", "dm-0"), "proc/self/mountinfo": table}
    assert ("/dev/dm-0, built on sdf, is mounted on /srv in this namespace", True) in texts(fake_root(tree), "sdf")


@pytest.mark.root
def test_a_refusal_names_holder_remedy_and_serial(fake_root: Build, tmp_path: Path) -> None:
    """The whole way, with a node whose number no driver answers to: nothing could be written even by mistake."""
    files = {"dm__name": "vg-home", "dm__uuid": "LVM-abc"}
    tree = {
        **{key: value for key, value in MACHINE.items() if "btrfs/uuid" not in key},
        **device("sdf", "8:4080", serial="SN123"),
        **device("dm-0", "253:0", **files),
        **held("sdf", "dm-0"),
    }
    root, node = fake_root(tree), tmp_path / "sdf"
    os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(8, 4080))
    for consent in (Consent(), Consent(("SN123",))):
        with pytest.raises(SafetyRefusal) as refused:
            safety.inspect_path(node, WRITE, consent, root)
        message = str(refused.value)
        assert "/dev/dm-0 (device mapper LVM vg-home) is built on sdf" in message
        assert "dmsetup remove vg-home" in message
        assert "cannot be read, so what it holds is not known" in message
        assert ("--destroy-data=SN123" in message) is (consent == Consent())


@pytest.mark.root
def test_a_device_that_is_served_to_other_machines_is_found(fake_root: Build) -> None:
    space = "sys/kernel/config/nvmet/subsystems/nqn.x/namespaces/1"
    plain = {key: value for key, value in MACHINE.items() if "btrfs/uuid" not in key}
    root = fake_root({**plain, f"{space}/device_path": "/dev/sdf\n", f"{space}/enable": "1\n", "dev": None})
    os.mknod(root / "dev/sdf", stat.S_IFBLK | 0o600, os.makedev(8, 80))
    assert texts(root, "sdf") == [("/dev/sdf is served to other machines as nqn.x (NVMe over Fabrics)", True)]


def gone_when_read(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Files that were listed, and are gone when they are read, as those of /sys and /proc are."""
    read_text = Path.read_text

    def read(path: Path, **options: Any) -> str:
        if path.name in names:
            raise FileNotFoundError(2, os.strerror(2), str(path))
        return read_text(path, **options)

    monkeypatch.setattr(Path, "read_text", read)


def test_a_pool_that_is_unmounted_while_it_is_looked_at_has_no_devices(
    fake_root: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = fake_root({"sys/fs/btrfs/uuid/devices/sdb/dev": "8:16\n"})
    assert mounts.pooled(root) == {Number(8, 16): "btrfs"}
    gone_when_read(monkeypatch, "dev")
    assert mounts.pooled(root) == {}


def test_a_holder_that_goes_while_it_is_looked_at_is_still_named(
    fake_root: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = {key: value for key, value in MACHINE.items() if "btrfs/uuid" not in key}
    files = {"dm__name": "vg-home", "dm__uuid": "LVM-abc"}
    root = fake_root({**plain, **device("dm-0", "253:0", **files), **held("sdf", "dm-0")})
    gone_when_read(monkeypatch, "name", "uuid")
    assert any(text.startswith("/dev/dm-0 (device mapper") for text, _ in texts(root, "sdf"))


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"proc/99/comm": "qemu\n"}, ["/dev/sdf is open for writing in process 99 (qemu)"]),
        ({"proc/99/comm": "\n"}, ["/dev/sdf is open for writing in process 99 ()"]),
        ({}, []),
    ],
)
def test_a_program_that_writes_is_named_whatever_its_name_unless_it_has_ended(
    fake_root: Build, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], told: list[str]
) -> None:
    plain = {key: value for key, value in MACHINE.items() if "btrfs/uuid" not in key}
    monkeypatch.setattr(device_users, "_writers", lambda root: [(99, Number(8, 80))])
    found = [text for text, _ in texts(fake_root({**plain, **files}), "sdf")]
    assert [text for text in found if "open for writing" in text] == told


@pytest.mark.root
def test_a_device_that_sysfs_does_not_know_is_refused(fake_root: Build, tmp_path: Path) -> None:
    node = tmp_path / "node"
    os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(8, 4080))
    with pytest.raises(SafetyRefusal, match="no block device 8:4080"):
        safety.inspect_path(node, WRITE, Consent(), fake_root({"sys/dev/block": None}))


def test_a_number_is_written_as_the_kernel_writes_it() -> None:
    assert str(Number.parse("8:16\n")) == "8:16"
